use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use tempfile::TempDir;

use super::*;
use crate::filesystem::host::disk::Replace;

/// A workspace with a file that its owner cannot read.
fn workspace() -> (TempDir, HostDisk) {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join(STATE)).unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("d/closed"), "text").unwrap();
    fs::set_permissions(dir.path().join("d/closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let disk = HostDisk::open(dir.path()).unwrap();
    (dir, disk)
}

fn mode(dir: &TempDir, path: &str) -> u32 {
    fs::metadata(dir.path().join(path)).unwrap().mode() & 0o7777
}

/// What a process leaves that dies after it did this, and what the next one makes of it.
fn killed_after(dir: &TempDir, disk: &HostDisk, act: impl FnOnce(&HostDisk)) {
    let lifting = disk.lifting().unwrap();
    assert!(disk.lift(Path::new("d/closed")).unwrap());
    assert_eq!(mode(dir, "d/closed"), 0o600);
    act(disk);
    std::mem::forget(lifting);
    HostDisk::open(dir.path()).unwrap().lifting().unwrap().end().unwrap();
    assert!(!dir.path().join(STATE).join(RECORD).exists());
}

#[test]
fn what_was_lifted_is_put_back_wherever_it_went() {
    let p = Path::new;
    let (dir, disk) = workspace();
    killed_after(&dir, &disk, |disk| {
        disk.link(p("d/closed"), p("image")).unwrap();
        disk.create(p("new"), b"new", 0o600).unwrap();
        disk.rename(p("new"), p("d/closed"), Replace::Allowed).unwrap();
    });
    assert_eq!((mode(&dir, "image"), mode(&dir, "d/closed")), (0o000, 0o600));

    let (dir, disk) = workspace();
    killed_after(&dir, &disk, |disk| {
        disk.rename(p("d/closed"), p("d/other"), Replace::Refused).unwrap();
        disk.rename(p("d"), p("e"), Replace::Refused).unwrap();
    });
    assert_eq!(mode(&dir, "e/other"), 0o000);
}

#[test]
fn what_is_gone_is_lifted_no_longer() {
    let p = Path::new;
    let (dir, disk) = workspace();
    killed_after(&dir, &disk, |disk| {
        disk.unlink(p("d/closed")).unwrap();
        // On many disks this is the same inode.
        disk.create(p("d/closed"), b"private", 0o600).unwrap();
        let found = disk.look(p("d/closed")).unwrap().unwrap();
        assert_eq!(found.meta.mode, 0o600);
    });
    assert_eq!(mode(&dir, "d/closed"), 0o600);

    let (dir, disk) = workspace();
    killed_after(&dir, &disk, |disk| {
        disk.create(p("d/new"), b"private", 0o600).unwrap();
        disk.rename(p("d/new"), p("d/closed"), Replace::Allowed).unwrap();
        disk.create(p("d/again"), b"private", 0o600).unwrap();
        disk.rename(p("d/again"), p("d/closed"), Replace::Allowed).unwrap();
    });
    assert_eq!(mode(&dir, "d/closed"), 0o600);
}

#[test]
fn a_file_with_other_names_is_put_back_by_those() {
    let p = Path::new;
    let second = |dir: &TempDir| {
        fs::create_dir(dir.path().join("e")).unwrap();
        fs::hard_link(dir.path().join("d/closed"), dir.path().join("e/second")).unwrap();
    };
    let (dir, disk) = workspace();
    second(&dir);
    let lifting = disk.lifting().unwrap();
    assert!(disk.lift(p("d/closed")).unwrap());
    disk.unlink(p("d/closed")).unwrap();
    lifting.end().unwrap();
    assert_eq!(mode(&dir, "e/second"), 0o000);

    let (dir, disk) = workspace();
    second(&dir);
    killed_after(&dir, &disk, |disk| disk.unlink(p("d/closed")).unwrap());
    assert_eq!(mode(&dir, "e/second"), 0o000);
}

/// A command may have made it, and closed it.
#[test]
fn a_record_that_is_closed_itself_is_read() {
    let (dir, disk) = workspace();
    let record = dir.path().join(STATE).join(RECORD);
    fs::write(&record, "").unwrap();
    fs::set_permissions(&record, fs::Permissions::from_mode(0o000)).unwrap();
    let lifting = disk.lifting().unwrap();
    assert!(disk.lift(&Path::new(STATE).join(RECORD)).is_ok());
    lifting.end().unwrap();
    assert!(!record.exists());
}
