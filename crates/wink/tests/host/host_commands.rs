//! Commands on a fork of a directory: what they do in a real overlay mount becomes the fork's, or nothing does.
//!
//! Mounting takes root (or a user namespace); without the right to, these tests fail, or are left out aloud.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;
use wink::filesystem::host::{Capture, CommandLayer, HostFilesystem, HostOptions};
use wink::filesystem::{Filesystem, FilesystemExt, FsError, FsErrorKind, FsPath};
use wink::testing::filesystem_tree;

use crate::overlay::{self, sh};

struct Place {
    dir: TempDir,
    files: HostFilesystem,
}

/// A workspace with these files, unless nothing can be mounted here.
fn place(seed: &[(&str, &str)]) -> Option<Place> {
    if !overlay::works() {
        return None;
    }
    let dir = TempDir::new().unwrap();
    for (path, text) in seed {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    Some(Place { dir, files })
}

fn host(fork: &Arc<dyn Filesystem>) -> &HostFilesystem {
    HostFilesystem::of(&**fork).unwrap()
}

/// What is on disk, without the runtime's own state.
fn on_disk(root: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            if entry.file_name() == ".wink" {
                continue;
            }
            let name = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                dirs.push(entry.path());
            }
            found.insert(name, kind.is_file().then(|| fs::read(entry.path()).unwrap()));
        }
    }
    found
}

fn shown(tree: BTreeMap<FsPath, Option<Vec<u8>>>) -> BTreeMap<String, Option<Vec<u8>>> {
    tree.into_iter().map(|(path, content)| (path.as_str().to_owned(), content)).collect()
}

const SEED: &[(&str, &str)] =
    &[("a", "1"), ("d/b", "2"), ("d/c/e", "3"), ("d/c/f", "4"), ("g/h", "5"), (".gitignore", "ignored\n")];

/// Runs a script on a fork, and checks that fork, workspace and what a plain run of the script leaves agree. Gives back
/// what the fork changed.
async fn same_as_plain(before: &[&str], script: &str) -> Option<Vec<String>> {
    let there = place(SEED)?;
    let plain = place(SEED)?;
    let fork = there.files.fork().unwrap();
    for change in before {
        match *change {
            "write" => _ = fork.write_text("d/new", "n").await.unwrap(),
            "delete" => fork.delete_all("d/c").await.unwrap(),
            "replace" => {
                fork.delete_all("d/c").await.unwrap();
                fork.write_text("d/c/other", "o").await.unwrap();
            }
            "move" => {
                fork.rename_to("d", "moved").await.unwrap();
                fork.write_text("moved/b", "in the moved one").await.unwrap();
                fork.rename_to("a", "g/a").await.unwrap();
            }
            other => panic!("{other}"),
        }
    }
    let untouched = on_disk(there.dir.path());
    let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
    let seen = sh(&layer, "find . -path ./.wink -prune -o -print | sort");
    let mut expected: Vec<String> =
        shown(filesystem_tree(&*fork).await).keys().map(|path| format!("./{path}")).collect();
    expected.push(".".to_owned());
    expected.sort();
    assert_eq!(seen.lines().collect::<Vec<_>>(), expected, "the command sees the fork");
    sh(&layer, script);
    layer.finish().unwrap();
    assert_eq!(on_disk(there.dir.path()), untouched, "nothing reaches the workspace before it is merged");
    // The same, without a fork.
    let copied = plain.files.fork().unwrap();
    drop(copied);
    for change in before {
        match *change {
            "write" => fs::write(plain.dir.path().join("d/new"), "n").unwrap(),
            "delete" => fs::remove_dir_all(plain.dir.path().join("d/c")).unwrap(),
            "replace" => {
                fs::remove_dir_all(plain.dir.path().join("d/c")).unwrap();
                fs::create_dir(plain.dir.path().join("d/c")).unwrap();
                fs::write(plain.dir.path().join("d/c/other"), "o").unwrap();
            }
            _ => {
                fs::rename(plain.dir.path().join("d"), plain.dir.path().join("moved")).unwrap();
                fs::write(plain.dir.path().join("moved/b"), "in the moved one").unwrap();
                fs::rename(plain.dir.path().join("a"), plain.dir.path().join("g/a")).unwrap();
            }
        }
    }
    let run = Command::new("sh").args(["-ec", script]).current_dir(plain.dir.path()).status().unwrap();
    assert!(run.success());
    let wanted = on_disk(plain.dir.path());
    assert_eq!(shown(filesystem_tree(&*fork).await), wanted, "the fork has what the command did");
    let changes = fork.changes().iter().map(FsPath::to_string).collect();
    there.files.keep(there.files.merge(&*fork).unwrap());
    assert_eq!(on_disk(there.dir.path()), wanted, "and so has the workspace");
    assert_eq!(fs::read_dir(there.dir.path().join(".wink/layers")).unwrap().count(), 0);
    Some(changes)
}

// case 92
#[tokio::test]
async fn what_a_command_does_becomes_the_forks() {
    for (script, changes) in [
        ("true", &[][..]),
        ("cat a > /dev/null; ls d > /dev/null", &[]),
        ("echo x > new; mkdir -p n/e/w; echo y > n/e/w/f", &["n", "n/e", "n/e/w", "n/e/w/f", "new"]),
        ("echo more >> d/b; echo i > ignored", &["d/b", "ignored"]),
        ("rm a; rm -r d/c", &["a", "d/c", "d/c/e", "d/c/f"]),
        ("rm -r d; mkdir d; echo z > d/z", &["d/b", "d/c", "d/c/e", "d/c/f", "d/z"]),
        ("rm -r d; echo file > d", &["d", "d/b", "d/c", "d/c/e", "d/c/f"]),
        ("rm a; mkdir a; echo x > a/x", &["a", "a/x"]),
        ("mv a z", &["a", "z"]),
        ("mv d z", &["d", "d/b", "d/c", "d/c/e", "d/c/f", "z", "z/b", "z/c", "z/c/e", "z/c/f"]),
        (
            "mv d z; echo q > z/q; rm z/b",
            &["d", "d/b", "d/c", "d/c/e", "d/c/f", "z", "z/c", "z/c/e", "z/c/f", "z/q"],
        ),
        (
            "mv d/c g/c; mv g d/g",
            &["d/c", "d/c/e", "d/c/f", "d/g", "d/g/c", "d/g/c/e", "d/g/c/f", "d/g/h", "g", "g/h"],
        ),
        (
            "mv d t; mv g d; mv t g",
            &["d/b", "d/c", "d/c/e", "d/c/f", "d/h", "g/b", "g/c", "g/c/e", "g/c/f", "g/h"],
        ),
        ("echo x > y; rm y", &[]),
    ] {
        let Some(found) = same_as_plain(&[], script).await else { return };
        assert_eq!(found, changes, "{script}");
    }
}

#[tokio::test]
async fn a_command_goes_on_from_what_the_fork_had_changed() {
    for before in ["write", "delete", "replace", "move"] {
        for script in [
            "true",
            "echo x >> g/h",
            "find . -path ./.wink -prune -o -type f -print | xargs rm",
            "for f in $(find . -path ./.wink -prune -o -type f -print); do echo more >> $f; done",
            "mkdir new; mv g new",
            "for d in d moved; do if [ -d $d ]; then mv $d other; fi; done",
        ] {
            if same_as_plain(&[before], script).await.is_none() {
                return;
            }
        }
    }
}

#[tokio::test]
async fn modes_times_links_and_names_come_along() {
    let Some(there) = place(SEED) else { return };
    symlink("d/b", there.dir.path().join("link")).unwrap();
    let fork = there.files.fork().unwrap();
    let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
    sh(
        &layer,
        "chmod 755 a; touch -d 2001-02-03T04:05:06Z d/b; ln -s ../a g/to_a; ln -sf g/h link; \
         echo one > one; ln one two; chmod 700 d/c; mkdir -m 750 m; printf x > \"$(printf 'caf\\351')\"",
    );
    layer.finish().unwrap();
    there.files.keep(there.files.merge(&*fork).unwrap());
    let root = there.dir.path();
    let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("a"), mode("d/c"), mode("m")), (0o755, 0o700, 0o750));
    assert_eq!(fs::metadata(root.join("d/b")).unwrap().mtime(), 981_173_106);
    assert_eq!(fs::read_link(root.join("g/to_a")).unwrap(), Path::new("../a"));
    assert_eq!(fs::read_link(root.join("link")).unwrap(), Path::new("g/h"));
    let ino = |path: &str| fs::metadata(root.join(path)).unwrap().ino();
    assert_eq!(ino("one"), ino("two"), "two names of one file");
    assert_eq!(there.files.read_text("caf\\xE9").await.unwrap(), "x");
}

// Without privileges the marks are kept elsewhere, and there are none for what is moved.
#[test]
fn all_this_works_without_privileges() {
    const CHILD: &str = "WINK_TEST_WITHOUT_PRIVILEGES";
    const TESTS: [&str; 7] = [
        "a_command_goes_on_from_what_the_fork_had_changed",
        "a_command_that_is_forgotten_leaves_nothing",
        "modes_times_links_and_names_come_along",
        "what_a_command_does_becomes_the_forks",
        "what_a_command_moves_is_not_taken_for_what_somebody_removed",
        "what_somebody_changes_while_a_command_runs_is_kept",
        "what_somebody_removes_or_protects_while_a_command_runs_is_a_conflict",
    ];
    let is_root = fs::metadata(TempDir::new().unwrap().path()).unwrap().uid() == 0;
    if std::env::var_os(CHILD).is_some() || !is_root {
        // Then the others show it.
        return;
    }
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .arg("--exact")
        .args(TESTS.map(|test| format!("host_commands::{test}")))
        .env(CHILD, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("7 passed"), "{told}");
}

#[tokio::test]
async fn what_no_workspace_can_hold_fails_the_call() {
    for script in ["mkfifo g/p", "mknod g/p c 1 3", "mknod g/p b 7 0"] {
        let Some(there) = place(SEED) else { return };
        let before = on_disk(there.dir.path());
        let fork = there.files.fork().unwrap();
        let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
        sh(&layer, &format!("rm a; {script}"));
        let error = layer.finish().unwrap_err();
        assert_eq!(
            error.to_string(),
            "'g/p': the command left a pipe, socket or device here, which a workspace cannot keep; have it removed"
        );
        assert!(fork.changes().is_empty(), "the fork is as it was");
        assert_eq!(on_disk(there.dir.path()), before);
    }
}

#[tokio::test]
async fn a_command_that_is_forgotten_leaves_nothing() {
    let Some(there) = place(SEED) else { return };
    let before = on_disk(there.dir.path());
    let fork = there.files.fork().unwrap();
    let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
    sh(&layer, "rm -r d; echo x > ignored");
    drop(layer);
    assert!(fork.changes().is_empty());
    assert_eq!(on_disk(there.dir.path()), before);
    assert_eq!(fs::read_dir(there.dir.path().join(".wink/layers")).unwrap().count(), 0);
}

#[tokio::test]
async fn what_somebody_changes_while_a_command_runs_is_kept() {
    let Some(there) = place(SEED) else { return };
    let fork = there.files.fork().unwrap();
    let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
    fs::write(there.dir.path().join("d/b"), "theirs").unwrap();
    sh(&layer, "echo ours > d/b");
    let error = layer.finish().unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("d/b")), (FsErrorKind::Conflict, true), "{error}");
    // Later it is found when the fork is merged.
    let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
    sh(&layer, "echo ours > a");
    layer.finish().unwrap();
    fs::write(there.dir.path().join("a"), "theirs").unwrap();
    assert_eq!(there.files.merge(&*fork).unwrap_err().kind(), FsErrorKind::Conflict);
    assert_eq!(fs::read_to_string(there.dir.path().join("a")).unwrap(), "theirs");
    assert_eq!(fs::read_to_string(there.dir.path().join("d/b")).unwrap(), "theirs");
}

#[tokio::test]
async fn only_forks_that_are_left_alone_take_commands() {
    let Some(there) = place(SEED) else { return };
    assert_eq!(
        there.files.command_layer_by(Capture::Overlay).err().unwrap().kind(),
        FsErrorKind::Unsupported
    );
    let fork = there.files.fork().unwrap();
    let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
    sh(&layer, "echo x > new");
    fork.write_text("other", "y").await.unwrap();
    assert_eq!(layer.finish().unwrap_err().kind(), FsErrorKind::Io);
    assert_eq!(fork.names("").await.unwrap(), [".gitignore", "a", "d/", "g/", "other"]);
    assert!(!fs::metadata(there.dir.path().join(".wink")).unwrap().file_type().is_socket());
}

#[tokio::test]
async fn what_somebody_removes_or_protects_while_a_command_runs_is_a_conflict() {
    type Meddle = fn(&Path);
    let removes: Meddle = |root| fs::remove_file(root.join("d/b")).unwrap();
    let removes_all: Meddle = |root| fs::remove_dir_all(root.join("d")).unwrap();
    let protects: Meddle =
        |root| fs::set_permissions(root.join("g"), fs::Permissions::from_mode(0o700)).unwrap();
    // What a command moves, too: there is no telling which of the two was meant.
    let moves: Meddle = |root| fs::rename(root.join("d"), root.join("elsewhere")).unwrap();
    let replaces: Meddle = |root| {
        fs::remove_dir_all(root.join("d")).unwrap();
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("d/theirs"), "t").unwrap();
    };
    let swaps: Meddle = |root| {
        fs::rename(root.join("d"), root.join("elsewhere")).unwrap();
        fs::rename(root.join("g"), root.join("d")).unwrap();
    };
    let puts_a_file: Meddle = |root| {
        fs::rename(root.join("d"), root.join("elsewhere")).unwrap();
        fs::write(root.join("d"), "theirs").unwrap();
    };
    for (script, meddle, path) in [
        ("echo x >> d/b", removes, "d/b"),
        ("echo x >> d/b", removes_all, "d"),
        ("echo x > g/new", protects, "g"),
        ("mv d z", moves, "d"),
        ("mv d z", removes_all, "d"),
        ("mv d z", replaces, "d"),
        ("mv d z", swaps, "d"),
        ("mv d z", puts_a_file, "d"),
        ("mv d z; echo x > z/new", moves, "d"),
        ("mkdir n; mv d n/z", replaces, "d"),
        ("mv d g/z", moves, "d"),
    ] {
        let Some(there) = place(SEED) else { return };
        let fork = there.files.fork().unwrap();
        let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
        sh(&layer, script);
        meddle(there.dir.path());
        let theirs = on_disk(there.dir.path());
        let refused = layer.finish().unwrap_err();
        assert_eq!(refused.kind(), FsErrorKind::Conflict, "{refused}");
        assert!(refused.to_string().contains(path), "{refused}");
        assert_eq!(on_disk(there.dir.path()), theirs);
    }
}

/// As deep as a command likes to go: it fails, and neither stack nor state directory are left in ruins.
#[tokio::test]
async fn directories_without_end_fail_the_call() {
    let Some(there) = place(SEED) else { return };
    let fork = there.files.fork().unwrap();
    let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
    // Where the overlay has what a command makes: there it does not take minutes.
    let upper = layer.overlay().unwrap().upper;
    let mut dir = rustix::fs::open(&upper, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..2000 {
        rustix::fs::mkdirat(&dir, "dddd", Mode::RWXU).unwrap();
        dir = rustix::fs::openat(&dir, "dddd", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let refused = layer.finish().unwrap_err();
    assert!(refused.to_string().contains("nested more than 100 deep"), "{refused}");
    let left: Vec<_> = fs::read_dir(there.dir.path().join(".wink/layers")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    HostFilesystem::open(there.dir.path(), HostOptions::default()).unwrap();
}

#[tokio::test]
async fn what_a_command_moves_is_not_taken_for_what_somebody_removed() {
    let Some(there) = place(SEED) else { return };
    let fork = there.files.fork().unwrap();
    let layer = host(&fork).command_layer_by(Capture::Overlay).unwrap();
    sh(&layer, "echo x >> d/b; mv d/b g/b; chmod 700 d");
    layer.finish().unwrap();
    assert_eq!(fork.read_text("g/b").await.unwrap(), "2x\n");
    assert_eq!(fork.stat_at("d").await.unwrap().mode, 0o700);
}

/// Where nothing can be hidden from a command, it is found out if it spoils what is not its own.
#[tokio::test]
async fn spoiling_the_state_directory_is_found_out() {
    for (spoil, named) in [
        ("rm -r .wink/trash && mkdir .wink/trash", ".wink/trash"),
        ("mv .wink/lock .wink/other; cp .wink/other .wink/lock", ".wink/lock"),
        ("cp -a .wink w; mv .wink old; mv w .wink", ".wink"),
    ] {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("a"), "1").unwrap();
        let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
        let fork = files.fork().unwrap();
        let layer = host(&fork).command_layer_by(Capture::Scan).unwrap();
        let script = format!("echo 2 > a; {spoil}");
        assert!(
            Command::new("sh").args(["-ec", &script]).current_dir(dir.path()).status().unwrap().success()
        );
        let refused = layer.finish().unwrap_err().to_string();
        assert!(refused.contains(&format!("'{named}': the command removed or replaced this")), "{refused}");
        assert!(fork.changes().is_empty());
    }
    // What others write there is theirs.
    let dir = TempDir::new().unwrap();
    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    let fork = files.fork().unwrap();
    let layer = host(&fork).command_layer_by(Capture::Scan).unwrap();
    fs::write(dir.path().join(".wink/more"), "").unwrap();
    fs::write(dir.path().join(".wink/lock"), "").unwrap();
    layer.finish().unwrap();
}

/// A workspace in a directory of its own, and a layer by a scan in which a script ran.
fn scanned(script: &str) -> (TempDir, Arc<dyn Filesystem>, CommandLayer) {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("w");
    fs::create_dir_all(root.join("d")).unwrap();
    fs::write(root.join("d/b"), "2").unwrap();
    fs::write(root.join("a"), "1").unwrap();
    let files = HostFilesystem::open(&root, HostOptions::default()).unwrap();
    fs::write(root.join(".wink/own.db"), "log").unwrap();
    let fork = files.fork().unwrap();
    let layer = host(&fork).command_layer_by(Capture::Scan).unwrap();
    assert!(Command::new("sh").args(["-ec", script]).current_dir(&root).status().unwrap().success());
    (dir, fork, layer)
}

/// What was only moved away is found, and everything is undone with it.
#[tokio::test]
async fn a_state_directory_that_was_moved_away_is_put_back() {
    for moves in [
        "mv .wink ../elsewhere",
        "mv .wink ../elsewhere; mkdir .wink",
        "mv .wink ../elsewhere; ln -s ../elsewhere .wink",
        "mv .wink d2; mkdir .wink; mv d2 .wink/inside",
        "mv .wink/baseline ..; mv .wink/own.db ../own",
        "mv .wink/baseline/tree ..; mkdir .wink/baseline/tree",
    ] {
        let script = format!("rm -r d; echo 2 > a; echo new > c; {moves}");
        for is_success in [false, true] {
            let (dir, fork, layer) = scanned(&script);
            match is_success {
                false => {
                    layer.undo().unwrap_or_else(|error| panic!("{moves}: {error}"));
                }
                true => {
                    let refused = layer.finish().unwrap_err().to_string();
                    assert!(refused.contains("it is back where it was"), "{moves}: {refused}");
                }
            }
            let root = dir.path().join("w");
            assert_eq!(fs::read_to_string(root.join("d/b")).unwrap(), "2", "{moves}");
            assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "1", "{moves}");
            assert_eq!(fs::read_to_string(root.join(".wink/own.db")).unwrap(), "log", "{moves}");
            let mut names: Vec<_> =
                fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, [".wink", "a", "d"], "{moves}");
            assert!(fork.changes().is_empty());
            // And it goes on.
            let again = host(&fork).command_layer_by(Capture::Scan).unwrap();
            fs::write(root.join("a"), "3").unwrap();
            again.undo().unwrap();
            assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "1", "{moves}");
        }
    }
}

/// What only the runtime writes, and decides what is undone.
#[tokio::test]
async fn writing_to_what_only_the_runtime_writes_is_found_out_and_restored() {
    for (spoil, named) in [
        ("echo 0 > .wink/own.db-id", "own.db-id"),
        ("chmod 600 .wink/own.db-id", "own.db-id"),
        ("for intent in .wink/journal/*/intent; do echo evil >> $intent; done", "intent"),
        ("rm .wink/journal/*/intent", "intent"),
        ("rm .wink/own.db-id", "own.db-id"),
        // Recovering would roll back what these say.
        ("for one in .wink/journal/*; do cp -r $one ${one%?}x; done", "journal"),
        ("for one in .wink/journal/*; do mv $one ${one%?}x; done", "journal"),
        ("chmod 777 .wink", ".wink"),
        (
            "stat -c '{\"path\":\"a\",\"dev\":0,\"ino\":%i,\"found\":420,\"mode\":511}' a > .wink/lifted",
            "lifted",
        ),
    ] {
        for is_success in [false, true] {
            let dir = TempDir::new().unwrap();
            let root = dir.path();
            let files = HostFilesystem::open(root, HostOptions::default()).unwrap();
            files.write_text("a", "1").await.unwrap();
            fs::write(root.join(".wink/own.db-id"), "an id").unwrap();
            let journal = fs::read_dir(root.join(".wink/journal")).unwrap().next().unwrap().unwrap().path();
            let about = || {
                let id = root.join(".wink/own.db-id");
                let mode = fs::metadata(&id).unwrap().permissions().mode();
                (fs::read(&id).unwrap(), mode, fs::read(journal.join("intent")).unwrap())
            };
            let before = about();
            let fork = files.fork().unwrap();
            let layer = host(&fork).command_layer_by(Capture::Scan).unwrap();
            let script = format!("echo 2 > a; {spoil}");
            assert!(Command::new("sh").args(["-ec", &script]).current_dir(root).status().unwrap().success());
            if is_success {
                let refused = layer.finish().unwrap_err().to_string();
                assert!(
                    refused.contains("only the runtime writes") && refused.contains(named),
                    "{spoil}: {refused}"
                );
            } else {
                layer.undo().unwrap();
            }
            assert_eq!(about(), before, "{spoil}");
            assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "1", "{spoil}");
            assert!(fork.changes().is_empty());
        }
    }
}

/// What was saved is gone: then nothing is called undone, and what is not as it was is named.
#[tokio::test]
async fn spoiling_what_was_saved_is_never_called_undone() {
    for (script, left, a) in [
        ("rm -rf d .wink; echo 2 > a; mkdir n; echo > n/c", &[".wink", "a", "d", "n"][..], "2\n"),
        ("rm -rf d .wink/baseline", &[".wink/baseline", "d"], "1"),
        ("rm -rf d .wink/baseline/tree", &[".wink/baseline/tree", "d"], "1"),
        ("rm -rf d .wink/baseline/tree/d; echo 2 > a", &["d"], "1"),
        ("rm -rf d; rm .wink/baseline/tree/d/b", &["d/b"], "1"),
        ("rm .wink/own.db; echo 2 > a", &[".wink/own.db"], "1"),
    ] {
        for is_success in [false, true] {
            let (dir, fork, layer) = scanned(script);
            let error = match is_success {
                false => layer.undo().unwrap_err(),
                true => layer.finish().unwrap_err(),
            };
            let FsError::NotUndone { left: named, reason } = error else { panic!("{script}: {error}") };
            let named: Vec<String> = named.iter().map(ToString::to_string).collect();
            for left in left {
                assert!(named.iter().any(|named| named == left), "{script}: {named:?}");
                assert!(reason.contains(left), "{script}: {reason}");
            }
            let says_undone = reason.contains("is undone");
            assert_eq!(says_undone, left == [".wink/own.db"], "{script}: {reason}");
            let root = dir.path().join("w");
            assert_eq!(fs::read_to_string(root.join("a")).unwrap(), a, "{script}");
            assert!(fork.changes().is_empty());
            drop(fork);
            HostFilesystem::open(&root, HostOptions::default()).unwrap();
            assert_eq!(fs::read_to_string(root.join("a")).unwrap(), a, "{script}");
        }
    }
}
