//! Groups, extended attributes and access control lists survive writes, restores and undo, or the change is refused.

use wink::filesystem::host::Capture;

use super::world::{OTHERS, TEAM, USER, World, captures, is_superuser, said, sh};
use crate::overlay;

/// An access control list by which another user may read and write, as the kernel has it.
fn list() -> Vec<u8> {
    const NO_ID: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] =
        [(0x01, 6, NO_ID), (0x02, 6, OTHERS), (0x04, 4, NO_ID), (0x10, 6, NO_ID), (0x20, 0, NO_ID)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

const USERS: &str = "user.wink-test";
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

impl World {
    fn set(&self, path: &str, name: &str, value: &[u8]) {
        rustix::fs::setxattr(self.root().join(path), name, value, rustix::fs::XattrFlags::empty()).unwrap();
    }

    fn get(&self, path: &str, name: &str) -> Option<Vec<u8>> {
        let mut value = vec![0; 1000];
        let len = rustix::fs::getxattr(self.root().join(path), name, value.as_mut_slice()).ok()?;
        value.truncate(len);
        Some(value)
    }

    /// Mode and group.
    fn about(&self, path: &str) -> String {
        said(&self.root(), &format!("stat -c '%a %g' '{path}'")).trim().to_owned()
    }
}

#[test]
fn what_is_written_keeps_group_attributes_and_lists() {
    if !is_superuser() {
        return;
    }
    let world = World::new(Capture::Scan);
    sh(
        &world.root(),
        "mkdir team lists; echo old > plain; echo old > locked; echo old > listed; echo old > alien",
    );
    sh(&world.root(), &format!("chown {USER}:{TEAM} plain team; chown {USER}:{USER} lists locked listed"));
    sh(
        &world.root(),
        &format!("chmod 2775 team; chmod 664 plain; chmod 444 locked; chown {USER}:{OTHERS} alien"),
    );
    world.set("plain", USERS, b"one");
    world.set("locked", USERS, b"two");
    world.set("listed", ACCESS, &list());
    world.set("lists", DEFAULT, &list());
    let listed = world.about("listed");

    let told = world.done("write\nplain locked listed alien team/new team/in/deep lists/new lists/in/deep");
    assert_eq!(
        told,
        format!(
            "'alien': it cannot be written: its group {OTHERS} cannot be kept, since this user is not in it"
        )
    );
    assert_eq!(
        said(&world.root(), "cat plain locked listed team/in/deep alien"),
        "writtenwrittenwrittenwrittenold\n"
    );
    assert_eq!(
        (world.about("plain"), world.get("plain", USERS)),
        (format!("664 {TEAM}"), Some(b"one".to_vec()))
    );
    assert_eq!(
        (world.about("locked"), world.get("locked", USERS)),
        (format!("444 {USER}"), Some(b"two".to_vec()))
    );
    assert_eq!((world.about("listed"), world.get("listed", ACCESS)), (listed, Some(list())));
    assert_eq!(
        ["team/new", "team/in", "team/in/deep"].map(|path| world.about(path)),
        [format!("644 {TEAM}"), format!("2755 {TEAM}"), format!("644 {TEAM}")]
    );
    for path in ["lists/new", "lists/in", "lists/in/deep"] {
        assert!(world.get(path, ACCESS).is_some(), "{path}");
    }
    assert_eq!(world.get("lists/in", DEFAULT), Some(list()));

    world.done("undo");
    assert_eq!(
        said(&world.root(), "cat plain locked listed; ls team lists"),
        "old\nold\nold\nlists:\n\nteam:\n"
    );
    assert_eq!(
        (world.about("plain"), world.get("plain", USERS)),
        (format!("664 {TEAM}"), Some(b"one".to_vec()))
    );
    assert_eq!(
        (world.about("locked"), world.get("locked", USERS)),
        (format!("444 {USER}"), Some(b"two".to_vec()))
    );
    assert_eq!(world.get("listed", ACCESS), Some(list()));
}

#[test]
fn a_directory_that_gives_a_group_of_others_takes_no_new_files() {
    if !is_superuser() {
        return;
    }
    let world = World::new(Capture::Scan);
    sh(&world.root(), &format!("mkdir odd; chown {USER}:{OTHERS} odd; chmod 2775 odd"));
    let told = world.done("write\nodd/new fine");
    let why = format!("its group {OTHERS} of its directory cannot be kept, since this user is not in it");
    assert_eq!(told, format!("'odd/new': it cannot be written: {why}"));
    assert_eq!(said(&world.root(), "ls odd; cat fine"), "written");
}

#[test]
fn a_directory_that_comes_back_has_its_attributes() {
    if !is_superuser() {
        return;
    }
    for capture in captures() {
        let world = World::new(capture);
        sh(&world.root(), &format!("mkdir -p d/e; echo f > d/e/f; chown -R {USER}:{USER} d"));
        world.set("d/e", USERS, b"mine");
        world.set("d/e", DEFAULT, &list());
        world.done("fail\nrm -r d");
        assert_eq!(world.get("d/e", USERS), Some(b"mine".to_vec()), "{capture}");
        world.done("commit\nrm -r d");
        world.done("undo");
        let now = (world.get("d/e", USERS), world.get("d/e", DEFAULT), said(&world.root(), "cat d/e/f"));
        assert_eq!(now, (Some(b"mine".to_vec()), Some(list()), "f\n".to_owned()), "{capture}");
    }
}

/// In a user namespace of their own, a user has one group.
#[test]
fn a_workspace_with_other_groups_is_scanned() {
    if !is_superuser() || !overlay::works() {
        return;
    }
    let world = World::new(Capture::Overlay);
    assert_eq!(world.done("capture"), "overlay");
    sh(&world.root(), &format!("chgrp {TEAM} a"));
    assert_eq!(world.done("capture"), "scan");
}
