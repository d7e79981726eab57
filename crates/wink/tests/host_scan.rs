//! Commands that work in the workspace itself and are undone: whatever they left, it is as it was before.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;
use wink::filesystem::host::{Capture, CommandLayer, HostFilesystem, HostOptions};
use wink::filesystem::{DeleteMode, Filesystem, FilesystemExt, FsPath};

fn open(root: &Path) -> HostFilesystem {
    HostFilesystem::open(root, HostOptions { capture: Some(Capture::Scan), ..HostOptions::default() })
        .unwrap()
}

fn scan(fork: &Arc<dyn Filesystem>) -> CommandLayer {
    HostFilesystem::of(&**fork).unwrap().command_layer_by(Capture::Scan).unwrap()
}

fn sh(root: &Path, script: &str) {
    let script = format!("set -e\n{script}");
    assert!(Command::new("sh").args(["-c", &script]).current_dir(root).status().unwrap().success());
}

/// A workspace that a script has made.
fn workspace(script: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    sh(dir.path(), script);
    dir
}

/// A chain of directories, deeper than any path can say.
fn dig(root: &Path, name: &str, levels: usize) {
    let mut dir = rustix::fs::open(root, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..levels {
        rustix::fs::mkdirat(&dir, name, Mode::RWXU).unwrap();
        dir = rustix::fs::openat(&dir, name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let flags = OFlags::CREATE | OFlags::WRONLY;
    drop(rustix::fs::openat(&dir, "bottom", flags, Mode::RUSR).unwrap());
}

/// Kind, mode, links, time and contents of everything, as the system says it.
fn dump(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        if path == root.join(".wink") {
            continue;
        }
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = if meta.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            String::new()
        } else if meta.is_file() {
            blake3_of(&path)
        } else if meta.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            format!("{:?} {}", meta.file_type(), meta.rdev())
        };
        let links = if meta.is_dir() { 0 } else { meta.nlink() };
        let about = format!(
            "{:o} {}:{} {links} {} {content}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime_nsec()
        );
        found.insert(path.strip_prefix(root).unwrap().to_owned(), about);
    }
    // The state directory comes to the root when the workspace is opened.
    found.remove(Path::new(""));
    found
}

fn blake3_of(path: &Path) -> String {
    let done = Command::new("b2sum").arg(path).output().unwrap();
    String::from_utf8_lossy(&done.stdout).split(' ').next().unwrap().to_owned()
}

/// What is done in the workspace by `command` is undone: by whoever forgets it, and by whoever finds that its process died.
fn is_undone(dir: &TempDir, command: impl Fn(&Path)) {
    let root = dir.path();
    let before = dump(root);
    for is_dead in [false, true] {
        let files = open(root);
        let fork = files.fork().unwrap();
        let layer = scan(&fork);
        command(root);
        if is_dead {
            // As a process leaves it that dies: nobody has restored anything, and nobody has the lock.
            drop(files);
            let copy = TempDir::new().unwrap();
            let copied = copy.path().join("copy");
            let done =
                Command::new("cp").args(["-a", "--sparse=always"]).arg(root).arg(&copied).status().unwrap();
            assert!(done.success());
            drop(layer);
            open(&copied);
            assert_eq!(strip(&dump(&copied)), strip(&before), "after a death");
            drop(Command::new("chattr").args(["-R", "-i", "-a", "-f"]).arg(&copied).status());
        } else {
            drop(layer);
        }
        assert_eq!(dump(root), before, "after being forgotten (and a death: {is_dead})");
        open(root);
    }
}

/// A copy has its own links.
fn strip(dump: &BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, String> {
    let without = |about: &String| {
        about.split(' ').enumerate().filter(|(at, _)| *at != 2).map(|(_, word)| format!("{word} ")).collect()
    };
    dump.iter().map(|(path, about)| (path.clone(), without(about))).collect()
}

const SEED: &str = "mkdir -p d/e; echo a > a; echo b > d/b; echo c > d/e/c; ln -s a link";

#[test]
fn directories_deeper_than_any_path_are_undone() {
    let dir = workspace(SEED);
    is_undone(&dir, |root| {
        // cp takes no more than this.
        dig(&root.join("d"), "dddd", 300);
        fs::write(root.join("a"), "changed").unwrap();
    });
    let before = dump(dir.path());
    for (name, levels) in [("dddd", 3000), ("n", 5000), (&"long".repeat(50), 60)] {
        let files = open(dir.path());
        let fork = files.fork().unwrap();
        let layer = scan(&fork);
        dig(dir.path(), name, levels);
        fs::remove_file(dir.path().join("d/b")).unwrap();
        let refused = layer.finish().unwrap_err();
        assert!(refused.to_string().contains("nested more than 100 deep"), "{refused}");
        assert_eq!(dump(dir.path()), before, "{name} {levels}");
        drop((fork, files));
        open(dir.path());
    }
    // What is in the trash can be cleared away.
    let options = HostOptions {
        trash: wink::filesystem::host::journal::Retention::Last(0),
        capture: Some(Capture::Scan),
        ..HostOptions::default()
    };
    let files = HostFilesystem::open(dir.path(), options).unwrap();
    let fork = files.fork().unwrap();
    drop(scan(&fork));
    drop(scan(&fork));
    assert_eq!(fs::read_dir(dir.path().join(".wink/trash")).unwrap().count(), 0);
}

/// What was deep before is as deep afterwards.
#[test]
fn what_was_deep_before_comes_back() {
    let dir = workspace(SEED);
    dig(&dir.path().join("d"), "x", 150);
    is_undone(&dir, |root| sh(root, "rm -rf d; echo changed > a"));
    is_undone(&dir, |root| sh(root, "mv d e"));
}

#[test]
fn a_deep_directory_is_deleted_on_a_small_stack() {
    let dir = workspace(SEED);
    dig(&dir.path().join("d"), "x", 1900);
    let files = open(dir.path());
    let fork = files.fork().unwrap();
    let work = move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().thread_stack_size(256 * 1024).build().unwrap();
        let path = FsPath::parse("d", fork.limits()).unwrap();
        runtime.block_on(fork.delete(&path, DeleteMode::Recursive)).unwrap();
        assert!(runtime.block_on(fork.stat_at("d")).is_err());
        let receipt = files.merge(&*fork).unwrap();
        files.keep(receipt);
    };
    std::thread::Builder::new().stack_size(256 * 1024).spawn(work).unwrap().join().unwrap();
    assert!(!dir.path().join("d").exists());
    open(dir.path());
}
