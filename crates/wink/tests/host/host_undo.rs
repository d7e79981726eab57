//! What commands did is taken back later, whichever way it was found out: kinds, modes, owners, times and attributes.
//!
//! Mounting takes root (or a user namespace); without the right to, what is about overlays fails, or is left out aloud. So does
//! what is about owners without the right to give files away.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use wink::filesystem::host::{Capture, HostFilesystem, HostOptions};
use wink::filesystem::{
    Filesystem, FsLimits, FsPath, FsResult, LeftAlone, MergedBy, Revert, Reverted, UndoForce,
};
use wink::store::JournalId;
use wink::testing::leave_out;

use crate::overlay;

/// A workspace in which commands run in one of the two ways.
struct Place {
    dir: TempDir,
    files: HostFilesystem,
    capture: Capture,
}

/// Does it in both ways, as far as there are two here.
async fn in_both_ways(test: impl AsyncFn(Capture)) {
    if overlay::works() {
        test(Capture::Overlay).await;
    }
    test(Capture::Scan).await;
}

fn is_root(what: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        leave_out(what, "only the superuser may give files away");
    }
    is_root
}

fn run(root: &Path, script: &str) {
    let script = format!("set -e\n{script}");
    let done = Command::new("sh").args(["-c", &script]).current_dir(root).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

impl Place {
    fn new(capture: Capture, script: &str) -> Self {
        let dir = TempDir::new().unwrap();
        run(dir.path(), script);
        let options = HostOptions { capture: Some(capture), ..HostOptions::default() };
        let files = HostFilesystem::open(dir.path(), options).unwrap();
        Self { dir, files, capture }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// A command whose call succeeds, or is refused.
    fn try_command(&self, script: &str) -> FsResult<()> {
        let fork = self.files.fork().unwrap();
        let layer = HostFilesystem::of(&*fork).unwrap().command_layer_by(self.capture).unwrap();
        match self.capture {
            Capture::Overlay => _ = overlay::sh(&layer, script),
            Capture::Scan => run(self.dir.path(), script),
        }
        layer.finish()?;
        self.files.keep(self.files.merge(&*fork)?);
        Ok(())
    }

    fn command(&self, script: &str) {
        self.try_command(script).unwrap();
    }

    /// The last change that was kept.
    fn last(&self) -> JournalId {
        let names = fs::read_dir(self.path(".wink/journal")).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let name = names.last().unwrap().split('.').next().unwrap();
        name.splitn(3, '-').last().unwrap().parse().unwrap()
    }

    async fn undo(&self, journals: &[JournalId]) -> Reverted {
        let fork = self.files.fork().unwrap();
        let journals: Vec<Revert> =
            journals.iter().map(|journal| Revert { journal: *journal, by: MergedBy::Call }).collect();
        let reverted = fork.revert(&journals, UndoForce::Refuse).await.unwrap();
        self.files.keep(self.files.merge(&*fork).unwrap());
        reverted
    }

    async fn undo_last(&self) -> Reverted {
        self.undo(&[self.last()]).await
    }

    /// Kind, mode, owner, time (of all but the root) and contents of everything, as the system says it.
    fn dump(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut left: Vec<PathBuf> = vec![PathBuf::new()];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(self.dir.path().join(&dir)).unwrap() {
                let path = dir.join(entry.unwrap().file_name());
                if path == Path::new(".wink") {
                    continue;
                }
                let at = self.dir.path().join(&path);
                let meta = fs::symlink_metadata(&at).unwrap();
                let content = match meta.file_type() {
                    kind if kind.is_file() => String::from_utf8_lossy(&fs::read(&at).unwrap()).into_owned(),
                    kind if kind.is_symlink() => fs::read_link(&at).unwrap().display().to_string(),
                    kind if kind.is_dir() => String::new(),
                    _ => format!("{}", meta.rdev()),
                };
                let about = format!(
                    "{:o} {}:{} {}.{} {content}",
                    meta.mode(),
                    meta.uid(),
                    meta.gid(),
                    meta.mtime(),
                    meta.mtime_nsec()
                );
                if meta.is_dir() {
                    left.push(path.clone());
                }
                found.insert(path, about);
            }
        }
        found
    }
}

fn paths(names: &[&str]) -> Vec<FsPath> {
    names.iter().map(|name| FsPath::parse(name, &FsLimits::default()).unwrap()).collect()
}

#[tokio::test]
async fn pipes_come_back_with_what_they_were_in() {
    in_both_ways(async |capture| {
        let place =
            Place::new(capture, "mkdir d; echo k > d/f; mkfifo -m 620 d/p; mkfifo pipe; echo k > file");
        let before = place.dump();
        place.command("rm -rf d");
        assert_eq!(place.undo_last().await, Reverted { files: paths(&["d"]), ..Reverted::default() });
        assert_eq!(place.dump(), before, "{capture}");
        place.command("rm -f pipe file");
        let removed = place.dump();
        let files = paths(&["file", "pipe"]);
        assert_eq!(place.undo_last().await, Reverted { files: files.clone(), ..Reverted::default() });
        assert_eq!(place.dump(), before, "{capture}");
        assert!(fs::symlink_metadata(place.path("pipe")).unwrap().file_type().is_fifo());
        // And back, and again.
        assert_eq!(place.undo_last().await, Reverted { files: files.clone(), ..Reverted::default() });
        assert_eq!(place.dump(), removed, "{capture}");
        assert_eq!(place.undo_last().await, Reverted { files, ..Reverted::default() });
        assert_eq!(place.dump(), before, "{capture}");
    })
    .await;
}

#[tokio::test]
async fn a_socket_that_cannot_come_back_is_named() {
    in_both_ways(async |capture| {
        let place = Place::new(capture, "mkdir d; echo k > d/f; echo k > file");
        let (one, two) = (UnixListener::bind(place.path("d/sock")), UnixListener::bind(place.path("sock")));
        drop((one.unwrap(), two.unwrap()));
        let left = |what: &str| LeftAlone {
            what: what.to_owned(),
            why: "it was a socket or a device, which cannot be made again: whatever made it has to"
                .to_owned(),
        };
        place.command("rm -rf d");
        let expected = Reverted { files: paths(&["d"]), left: vec![left("d/sock")], ..Reverted::default() };
        assert_eq!(place.undo_last().await, expected, "{capture}");
        assert_eq!(fs::read_to_string(place.path("d/f")).unwrap(), "k\n");
        place.command("rm -f sock file");
        let expected = Reverted { files: paths(&["file"]), left: vec![left("sock")], ..Reverted::default() };
        assert_eq!(place.undo_last().await, expected, "{capture}");
        assert_eq!(fs::read_to_string(place.path("file")).unwrap(), "k\n");
        // Nothing else, too.
        drop(UnixListener::bind(place.path("sock")).unwrap());
        place.command("rm sock");
        let expected = Reverted { left: vec![left("sock")], ..Reverted::default() };
        assert_eq!(place.undo_last().await, expected, "{capture}");
    })
    .await;
}

const TREE: &str = "mkdir -p d/sub e; echo 1 > d/f; echo 2 > d/sub/g; ln -s f d/l; ln -s f l; echo 3 > f; touch -d 2001-02-03 d/sub; touch -d 2002-03-04 d; touch -d 2003-04-05 e";

/// Runs a command after which the workspace is what the same command leaves by itself, and undoes it, and that again.
async fn there_and_back(capture: Capture, script: &str) {
    let (place, plain) = (Place::new(capture, TREE), Place::new(capture, TREE));
    // Times that nobody set differ, however fast one is.
    let equal =
        format!("{TREE}; find . -path ./.wink -prune -o ! -type d -exec touch -h -d 2000-01-01 {{}} +");
    for place in [&place, &plain] {
        run(place.dir.path(), &format!("rm -rf d e f l; {equal}"));
    }
    let before = place.dump();
    assert_eq!(before, plain.dump());
    run(plain.dir.path(), script);
    place.command(script);
    let after = place.dump();
    assert_eq!(after, plain.dump(), "{capture}: {script}");
    assert_ne!(after, before, "{capture}: {script}");
    let _ = place.undo_last().await;
    assert_eq!(place.dump(), before, "{capture}: {script}, undone");
    let _ = place.undo_last().await;
    assert_eq!(place.dump(), after, "{capture}: {script}, and done again");
}

#[tokio::test]
async fn what_a_command_changes_of_modes_times_and_owners_alone_is_kept_and_undone() {
    let mut scripts = vec![
        "chmod 600 f",
        "chmod 700 d",
        "touch -d 1999-01-01 f",
        "touch -d 1999-01-01 d",
        "touch -d 2199-01-01 d/sub",
        "touch -h -d 1999-01-01 l",
        "mkdir new; touch -d 1999-01-01 new",
        "mkdir new; cp -p f new/f; touch -d 1999-01-01 new",
        "cp -a d copy",
        "rm d/f; touch -d 1998-01-01 d",
    ];
    if is_root("who owns what a command changed") {
        scripts.extend([
            "chown 1234:4321 f",
            "chown 1234 d",
            "chgrp 4321 d/sub",
            "chown -h 1234 l",
            "chown 1234 d/f d; chmod 2750 d",
            "mkdir new; chown 1234:4321 new; touch -d 1999-01-01 new",
            "chown -R 1234:4321 d",
        ]);
    }
    in_both_ways(async |capture| {
        for script in &scripts {
            there_and_back(capture, script).await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_was_removed_comes_back_with_its_times_and_owners() {
    let more = if is_root("who owns what comes back") {
        "chown -h 1234:4321 d/f d/l; chown 77 d/sub d"
    } else {
        ":"
    };
    in_both_ways(async |capture| {
        let times = "touch -d 2001-02-03 d/sub; touch -d 2002-03-04 d; mkdir out; touch -d 2004-05-06 out";
        let place = Place::new(capture, &format!("{TREE}; {more}; {times}"));
        let before = place.dump();
        place.command("rm -rf d");
        let _ = place.undo_last().await;
        assert_eq!(place.dump(), before, "{capture}");
        // What left it first gave it another time.
        place.command("mv d/f out/f; rm -rf d");
        let _ = place.undo_last().await;
        // The undo is a change in that one.
        run(place.dir.path(), "touch -d 2004-05-06 out");
        assert_eq!(place.dump(), before, "{capture}");
    })
    .await;
}

fn attribute(path: &Path) -> Option<Vec<u8>> {
    let mut value = vec![0; 100];
    let len = rustix::fs::lgetxattr(path, "user.wink-test", value.as_mut_slice()).ok()?;
    value.truncate(len);
    Some(value)
}

fn set_attribute(path: &Path, value: &str) -> bool {
    let set =
        rustix::fs::lsetxattr(path, "user.wink-test", value.as_bytes(), rustix::fs::XattrFlags::empty());
    if set.is_err() {
        leave_out("extended attributes", "this filesystem has none");
    }
    set.is_ok()
}

/// A command line that sets an attribute, if there is a program that can.
fn setting(value: &str, path: &str) -> Option<String> {
    let python = format!("import os; os.setxattr('{path}', 'user.wink-test', b'{value}')");
    let works = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|done| done.status.success())
    };
    if works("setfattr", &["--version"]) {
        return Some(format!("setfattr -n user.wink-test -v {value} {path}"));
    }
    if works("python3", &["-c", "import os; os.setxattr"]) {
        return Some(format!("python3 -c \"{python}\""));
    }
    leave_out("a command that sets extended attributes", "there is no program for it");
    None
}

#[tokio::test]
async fn extended_attributes_are_kept_and_undone_and_changes_to_those_of_directories_refused() {
    in_both_ways(async |capture| {
        let place = Place::new(capture, TREE);
        let (file, dir) = (place.path("f"), place.path("d"));
        let Some(set) = setting("new", "f") else { return };
        if !set_attribute(&file, "old") || !set_attribute(&dir, "dir") {
            return;
        }
        place.command(&set);
        assert_eq!(attribute(&file).as_deref(), Some(b"new".as_slice()), "{capture}");
        let undone = place.undo_last().await;
        assert_eq!(undone, Reverted { files: paths(&["f"]), ..Reverted::default() }, "{capture}");
        assert_eq!(attribute(&file).as_deref(), Some(b"old".as_slice()), "{capture}");
        let before = place.dump();
        // Other contents that look the same.
        place.command("cp -p f was; printf '4\\n' > f; touch -r was f; rm was");
        assert_eq!(fs::read_to_string(&file).unwrap(), "4\n", "{capture}");
        let undone = place.undo_last().await;
        assert_eq!(undone.files, paths(&["f"]), "{capture}");
        assert_eq!(place.dump(), before, "{capture}");
        // Also when only something else of it changes.
        place.command("echo more >> f; echo new > d/new");
        let _ = place.undo_last().await;
        assert_eq!(attribute(&file).as_deref(), Some(b"old".as_slice()), "{capture}");
        run(place.dir.path(), "touch -d 2002-03-04 d");
        assert_eq!(place.dump(), before, "{capture}");
        let error = place.try_command(&format!("echo 1 > d/f; {}", setting("new", "d").unwrap())).unwrap_err();
        let told = "'d': the command changed extended attributes of this directory, which cannot be undone; have them left as they are";
        assert!(error.to_string().contains(told), "{capture}: {error}");
        assert_eq!(place.dump(), before, "{capture}");
        assert_eq!(attribute(&dir).as_deref(), Some(b"dir".as_slice()), "{capture}");
        // New directories, and those that are moved, have theirs.
        place.command(&format!("mkdir n; {}; mkdir in; mv d in/moved", setting("new", "n").unwrap()));
        let (new, moved) = (attribute(&place.path("n")), attribute(&place.path("in/moved")));
        assert_eq!((new, moved), (Some(b"new".to_vec()), Some(b"dir".to_vec())), "{capture}");
        let _ = place.undo_last().await;
        assert_eq!(attribute(&dir).as_deref(), Some(b"dir".as_slice()), "{capture}");
        run(place.dir.path(), "touch -d 2002-03-04 d");
        assert_eq!(place.dump(), before, "{capture}");
    })
    .await;
}

#[tokio::test]
async fn the_workspace_itself_keeps_its_mode_and_owner() {
    in_both_ways(async |capture| {
        let place = Place::new(capture, "chmod 750 .");
        let error = place.try_command("chmod 700 .; echo 1 > f").unwrap_err().to_string();
        assert!(
            error.contains("the command changed mode or owner of the workspace itself"),
            "{capture}: {error}"
        );
        assert_eq!(fs::metadata(place.dir.path()).unwrap().mode() & 0o7777, 0o750, "{capture}");
        assert_eq!(place.dump(), BTreeMap::new(), "{capture}");
    })
    .await;
}

#[tokio::test]
async fn a_directory_that_became_a_link_is_named_and_the_link_goes_when_forced() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("n"), "theirs").unwrap();
    in_both_ways(async |capture| {
        let place = Place::new(capture, "mkdir there; echo 1 > there/n");
        place.command("mkdir -p d/e; echo n > d/n; echo x > d/e/x; echo 2 > there/n");
        for dir in ["d", "there"] {
            run(
                place.dir.path(),
                &format!("mv {dir} {dir}.real; ln -s '{}' {dir}", outside.path().display()),
            );
        }
        let fork = place.files.fork().unwrap();
        let last = [Revert { journal: place.last(), by: MergedBy::Call }];
        let refused = fork.revert(&last, UndoForce::Refuse).await.unwrap();
        assert_eq!(refused.changed, paths(&["d", "d/e", "d/e/x", "d/n", "there/n"]), "{capture}");
        assert_eq!(fork.changes(), [], "{capture}");

        let forced = fork.revert(&last, UndoForce::Anyway).await.unwrap();
        place.files.keep(place.files.merge(&*fork).unwrap());
        assert!(!place.path("d").exists() && !place.path("d").is_symlink(), "{capture}: {forced:?}");
        // What was to come back there has no directory to be in.
        assert_eq!(forced.left.len(), 1, "{capture}: {forced:?}");
        assert_eq!(forced.left[0].what, "there/n", "{capture}");
        assert!(place.path("there").is_symlink(), "{capture}");
        assert_eq!(fs::read_to_string(place.path("d.real/n")).unwrap(), "n\n", "{capture}");
        assert_eq!(fs::read_to_string(outside.path().join("n")).unwrap(), "theirs", "{capture}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "{capture}");
    })
    .await;
}
