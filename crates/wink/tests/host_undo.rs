//! What commands did is taken back later, whichever way it was found out: kinds, modes, owners, times and attributes.
//!
//! Mounting takes root (or a user namespace); without the right to, what is about overlays fails, or is left out aloud. So does
//! what is about owners without the right to give files away.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

mod overlay;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use wink::filesystem::host::{Capture, HostFilesystem, HostOptions};
use wink::filesystem::{Filesystem, FsLimits, FsPath, FsResult, LeftAlone, Reverted, UndoForce};
use wink::store::JournalId;
use wink::testing::leave_out;

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
        let reverted = fork.revert(journals, UndoForce::Refuse).await.unwrap();
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
        let place = Place::new(capture, "mkdir d; echo k > d/f; mkfifo -m 620 d/p; mkfifo pipe; echo k > file");
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
            why: "it was a socket or a device, which cannot be made again: whatever made it has to".to_owned(),
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
