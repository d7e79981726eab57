//! Commands of two sessions on one directory: the first to commit wins, whatever the other wrote.
//!
//! Each test has two forks, as two sessions or processes have, and decides itself which step comes first.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic when they fail")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;
use wink::filesystem::host::{Capture, CommandLayer, HostFilesystem, HostOptions};
use wink::filesystem::{Filesystem, FilesystemExt, FsErrorKind};

use crate::overlay;

const TIME: &str = "2001-02-03T04:05:06Z";

/// A workspace, opened by two owners.
struct Two {
    dir: TempDir,
    ours: HostFilesystem,
    theirs: HostFilesystem,
}

impl Two {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let root = dir.path();
        for (path, text) in [("counter", "1\n"), ("d/b", "2"), ("x/b", "other"), ("x/c", "c")] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        }
        std::os::unix::fs::symlink("counter", root.join("link")).unwrap();
        let open = || HostFilesystem::open(root, HostOptions::default()).unwrap();
        let (ours, theirs) = (open(), open());
        Self { dir, ours, theirs }
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Another session runs this as a command and commits it.
    fn they_commit(&self, capture: Capture, script: &str) {
        let fork = self.theirs.fork().unwrap();
        let layer = host(&fork).command_layer_by(capture).unwrap();
        run(&layer, script);
        layer.finish().unwrap();
        self.theirs.keep(self.theirs.merge(&*fork).unwrap());
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }
}

fn host(fork: &Arc<dyn Filesystem>) -> &HostFilesystem {
    HostFilesystem::of(&**fork).unwrap()
}

/// Runs a script as a command on a layer.
fn run(layer: &CommandLayer, script: &str) {
    match layer.capture() {
        Capture::Overlay => drop(overlay::sh(layer, script)),
        Capture::Scan => {
            let done = Command::new("sh").args(["-ec", script]).current_dir(layer.root()).status().unwrap();
            assert!(done.success(), "{script}");
        }
    }
}

/// What another session commits while a command runs on an overlay is a conflict for that command, at every path that it
/// wrote; the first to commit wins. `at` is the path that the conflict names.
fn first_committer_wins(ours: &str, theirs: &str, at: &str) {
    let there = Two::new();
    let fork = there.ours.fork().unwrap();
    let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
    run(&layer, ours);
    there.they_commit(Capture::Overlay, theirs);
    let refused = layer.finish().and_then(|()| there.ours.merge(&*fork).map(|done| there.ours.keep(done)));
    let what = format!("ours: {ours}; theirs: {theirs}");
    let error = refused.expect_err(&what);
    assert_eq!(error.kind(), FsErrorKind::Conflict, "{what}: {error}");
    assert!(error.to_string().contains(at), "{what}: {error}");
}

/// The same if they commit when the command is over and its own commit has not begun.
fn wins_until_the_commit(capture: Capture, ours: &str, theirs: &str, at: &str) {
    let there = Two::new();
    let fork = there.ours.fork().unwrap();
    let layer = host(&fork).command_layer_by(capture).unwrap();
    run(&layer, ours);
    layer.finish().unwrap();
    there.they_commit(capture, theirs);
    let what = format!("{capture}, ours: {ours}; theirs: {theirs}");
    let refused = there.ours.merge(&*fork).map(|done| there.ours.keep(done));
    let error = refused.expect_err(&what);
    assert_eq!(error.kind(), FsErrorKind::Conflict, "{what}: {error}");
    assert!(error.to_string().contains(at), "{what}: {error}");
}

// case 252
#[test]
fn equal_content_is_still_a_write() {
    if !overlay::works() {
        return;
    }
    // The same content, mode and time, as two commands write within one tick of the kernel's clock.
    let counts = format!("read n < counter; echo $((n + 1)) > counter; touch -d {TIME} counter");
    first_committer_wins(&counts, &counts, "counter");
    let links = format!("ln -sfn d/b link; touch -h -d {TIME} link");
    first_committer_wins(&links, &links, "link");
    let makes = format!("echo 1 > new; touch -d {TIME} new");
    first_committer_wins(&makes, &makes, "new");
    first_committer_wins("rm counter", "rm counter", "counter");
    first_committer_wins("chmod 700 d", "chmod 700 d", "d");
    // What stands there already is written all the same.
    let same = "cat counter > t; touch -r counter t; mv t counter";
    first_committer_wins(same, "echo 5 > counter", "counter");
    wins_until_the_commit(Capture::Overlay, same, "echo 5 > counter", "counter");
    let link = "ln -s counter t; touch -h -r link t; mv -T t link";
    wins_until_the_commit(Capture::Overlay, link, "ln -sfn d/b link", "link");
}

// case 252
#[test]
fn two_counters_never_give_one_number() {
    if !overlay::works() {
        return;
    }
    let there = Two::new();
    let counts = format!("read n < counter; echo $((n + 1)) > counter; touch -d {TIME} counter");
    let begin = |files: &HostFilesystem| {
        let fork = files.fork().unwrap();
        let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
        run(&layer, &counts);
        (fork, layer)
    };
    let ((ours, our_layer), (theirs, their_layer)) = (begin(&there.ours), begin(&there.theirs));
    their_layer.finish().unwrap();
    there.theirs.keep(there.theirs.merge(&*theirs).unwrap());
    let error = our_layer.finish().and_then(|()| there.ours.merge(&*ours).map(|done| there.ours.keep(done)));
    assert_eq!(error.unwrap_err().kind(), FsErrorKind::Conflict);
    assert_eq!(there.text("counter"), "2\n");
    // Once more, by itself, it counts on.
    let (ours, layer) = begin(&there.ours);
    layer.finish().unwrap();
    there.ours.keep(there.ours.merge(&*ours).unwrap());
    assert_eq!(there.text("counter"), "3\n");
}

#[test]
fn what_another_session_removed_or_moved_is_a_conflict() {
    if !overlay::works() {
        return;
    }
    // Nothing in the upper directory says that there was something below.
    first_committer_wins("echo x > t; mv t counter", "rm counter", "counter");
    first_committer_wins("rm counter; mkdir counter; echo x > counter/x", "rm counter", "counter");
    first_committer_wins("rm -r x; mkdir x; echo x > x/x", "rm -r x", "x");
    // The file that is there now is an old one, and another.
    first_committer_wins("echo 3 > d/b", "mv d e; mv x d", "d/b");
    first_committer_wins("rm d/b", "mv d e; mv x d", "d/b");
    first_committer_wins("echo n > d/new", "mv d e; mv x d", "d/new");
}

#[test]
fn modes_that_two_sessions_set_are_a_conflict_until_the_commit() {
    let captures = match overlay::works() {
        true => &[Capture::Overlay, Capture::Scan][..],
        false => &[Capture::Scan][..],
    };
    for capture in captures {
        wins_until_the_commit(*capture, "chmod 700 d", "chmod 750 d", "d");
        wins_until_the_commit(*capture, "chmod 600 counter", "chmod 640 counter", "counter");
        wins_until_the_commit(*capture, "rm counter", "chmod 640 counter", "counter");
        wins_until_the_commit(*capture, "echo x > new", "echo y > new", "new");
    }
}

/// What two commands do at different paths, or only look at, is no conflict.
#[test]
fn different_paths_are_no_conflict() {
    if !overlay::works() {
        return;
    }
    for (ours, theirs) in [
        ("echo x > d/new", "echo y > d/other"),
        ("cat counter > copy", "echo 5 > counter"),
        ("echo x > d/b", "echo y > x/b; mkdir e; echo z > d/z"),
        ("rm x/b", "echo y > x/c"),
        ("chmod 600 d/b", "chmod 700 x"),
        ("echo x > d/new", "echo y > d/y; rm d/y; touch d"),
    ] {
        let there = Two::new();
        let fork = there.ours.fork().unwrap();
        let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
        run(&layer, ours);
        there.they_commit(Capture::Overlay, theirs);
        layer.finish().unwrap();
        there.ours.keep(there.ours.merge(&*fork).unwrap());
    }
}

/// The version that a fork tells is that of what it read, so that a policy that remembers it does not take for read what
/// another session wrote since.
#[tokio::test]
async fn a_fork_tells_the_version_that_it_read() {
    let there = Two::new();
    let fork = there.ours.fork().unwrap();
    let before = fork.stat_at("counter").await.unwrap().version;
    assert_eq!(fork.read_text("counter").await.unwrap(), "1\n");
    there.theirs.write_text("counter", "9\n").await.unwrap();
    assert_eq!(fork.stat_at("counter").await.unwrap().version, before);
    // Nor is it written over, whether it was read or only looked at.
    let looked = there.ours.fork().unwrap();
    looked.stat_at("counter").await.unwrap();
    assert!(looked.stat_at("new").await.is_err());
    there.theirs.write_text("counter", "10\n").await.unwrap();
    there.theirs.write_text("new", "theirs").await.unwrap();
    let nested = looked.fork().unwrap();
    looked.write_text("counter", "11\n").await.unwrap();
    assert_eq!(there.ours.merge(&*looked).unwrap_err().kind(), FsErrorKind::Conflict);
    nested.write_text("new", "ours").await.unwrap();
    let other = there.ours.fork().unwrap();
    assert!(other.stat_at("none").await.is_err());
    there.theirs.write_text("none", "theirs").await.unwrap();
    other.write_text("none", "ours").await.unwrap();
    assert_eq!(there.ours.merge(&*other).unwrap_err().kind(), FsErrorKind::Conflict);
    assert_eq!(there.text("none"), "theirs");
}
