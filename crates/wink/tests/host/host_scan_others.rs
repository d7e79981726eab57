//! Commands that work in the workspace itself, where somebody else has a hand in it: other users, mounts, processes that died
//! half-way. Whatever can be restored is; what cannot is left as it is, and told; and nobody is locked out.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;
use wink::filesystem::host::{Capture, CommandLayer, HostFilesystem, HostOptions};
use wink::filesystem::{DeleteMode, Filesystem, FilesystemExt, FsPath, FsResult};
use wink::limits::CancelToken;
use wink::testing::{leave_out, steps};

const SEED: &str = "mkdir -p d/e; echo a > a; echo b > d/b; echo c > d/e/c; ln -s a link";
/// Another user.
const THEY: u32 = 61_234;

fn open(root: &Path) -> HostFilesystem {
    HostFilesystem::open(root, HostOptions { capture: Some(Capture::Scan), ..HostOptions::default() })
        .unwrap()
}

fn scan(fork: &Arc<dyn Filesystem>) -> FsResult<CommandLayer> {
    HostFilesystem::of(&**fork).unwrap().command_layer_by(Capture::Scan)
}

fn sh(root: &Path, script: &str) {
    let script = format!("set -e\n{script}");
    let done = Command::new("sh").args(["-c", &script]).current_dir(root).status().unwrap();
    assert!(done.success(), "{script}");
}

fn said(root: &Path, script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).current_dir(root).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Everything in the workspace: kind, mode, owner, and what is in files.
fn dump(root: &Path) -> String {
    let list = "find . -path ./.wink -prune -o -printf '%p %y %m %U:%G %l\\n' | sort; \
                find . -path ./.wink -prune -o -type f -print | sort | xargs grep .";
    said(root, list)
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Whoever may not mount, or be another user, cannot see any of this.
fn is_superuser(what: &str) -> bool {
    let can = rustix::process::geteuid().is_root();
    if !can {
        leave_out(what, "it takes the superuser to mount, and to be somebody else");
    }
    can
}

fn workspace() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    sh(dir.path(), "chmod 755 .; mkdir root");
    let root = dir.path().join("root");
    sh(&root, SEED);
    (dir, root)
}

struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(at: PathBuf) -> Self {
        sh(Path::new("/"), &format!("mount -t tmpfs tmpfs '{}'", at.display()));
        Self(at)
    }

    fn bind(what: &Path, at: PathBuf) -> Self {
        sh(Path::new("/"), &format!("mount --bind '{}' '{}'", what.display(), at.display()));
        Self(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        assert!(Command::new("umount").arg("-l").arg(&self.0).status().unwrap().success());
    }
}

/// What was left to somebody else, and where that is which it has the place of.
fn left(files: &HostFilesystem) -> Vec<(String, Option<PathBuf>)> {
    let mut left: Vec<_> = files
        .take_report()
        .aside
        .into_iter()
        .map(|left| (left.path.display().to_string(), left.aside))
        .collect();
    left.sort_unstable();
    left
}

// --- mounts ----------------------------------------------------------------------------------------------------------

#[test]
fn what_is_mounted_meanwhile_is_left_and_told_and_the_next_command_is_undone() {
    if !is_superuser("mounts in a workspace") {
        return;
    }
    let (_dir, root) = workspace();
    let before = dump(&root);
    let files = open(&root);
    let fork = files.fork().unwrap();
    let layer = scan(&fork).unwrap();
    sh(&root, "mkdir new; echo changed > a; echo more > new/more");
    let mounted = Mounted::tmpfs(root.join("d"));
    sh(&root, "echo x > d/x");
    let error = layer.undo().unwrap_err().to_string();
    assert!(error.contains("somebody with other rights put something here, or mounted it"), "{error}");
    let told = left(&files);
    let [(path, Some(aside))] = told.as_slice() else { unreachable!("{told:?}") };
    assert_eq!(
        (path.as_str(), said(&root, &format!("cat {}/e/c", aside.display()))),
        ("d", "c\n".to_owned())
    );
    assert_eq!(said(&root, "cat a d/x; ls"), "a\nx\na\nd\nlink\n");
    // Not while something is mounted.
    let refused = scan(&fork).err().unwrap().to_string();
    assert!(refused.contains("something else is mounted here"), "{refused}");
    drop(mounted);
    assert_eq!(dump(&root), before);
    // What was under it is as it was, and the baseline does not take that for saved.
    let layer = scan(&fork).unwrap();
    sh(&root, "echo EVIL > d/b; rm d/e/c");
    layer.undo().unwrap();
    assert_eq!(dump(&root), before);
}

/// An overlay would show what is under it, without a word.
#[test]
fn no_command_is_run_where_something_is_mounted() {
    if !is_superuser("mounts in a workspace") {
        return;
    }
    let (_dir, root) = workspace();
    let files = HostFilesystem::open(&root, HostOptions::default()).unwrap();
    let fork = files.fork().unwrap();
    let host = HostFilesystem::of(&*fork).unwrap();
    let mounted = Mounted::tmpfs(root.join("d"));
    let refused = [
        host.command_layer_by(Capture::Overlay).err().unwrap().to_string(),
        host.command_layer(&CancelToken::new(), |_| Ok(())).err().unwrap().to_string(),
    ];
    for refused in refused {
        assert!(refused.starts_with("'d': something else is mounted here"), "{refused}");
    }
    drop(mounted);
    drop(host.command_layer_by(Capture::Overlay).unwrap());
}

#[test]
fn nothing_outside_is_changed_through_a_mount() {
    if !is_superuser("mounts of the same filesystem") {
        return;
    }
    let (dir, root) = workspace();
    sh(
        dir.path(),
        "mkdir -p outside/empty/er outside/e; echo precious > outside/precious; chmod 1770 outside outside/e",
    );
    sh(dir.path(), "touch -d 2001-01-01 outside/e outside/empty outside");
    let outside = dir.path().join("outside");
    let about = || said(&outside, "find . -printf '%p %m %T@\\n' | sort");
    let before = about();
    let files = open(&root);
    let fork = files.fork().unwrap();
    for (make, at) in
        [("mkdir -p new/sub; echo x > new/x", "new/sub"), ("true", "d"), ("rm -r d; mkdir d", "d")]
    {
        let layer = scan(&fork).unwrap();
        sh(&root, make);
        let mounted = Mounted::bind(&outside, root.join(at));
        layer.undo().unwrap_err();
        assert_eq!(left(&files)[0].0, at);
        assert_eq!(about(), before, "{make}");
        assert!(!root.join("new/x").exists());
        drop(mounted);
        sh(&root, "rm -rf new d; mkdir -p d/e; echo b > d/b; echo c > d/e/c");
    }
}

#[test]
fn a_command_is_refused_where_something_is_mounted() {
    if !is_superuser("mounts of the same filesystem") {
        return;
    }
    let (dir, root) = workspace();
    sh(dir.path(), "mkdir outside root/vol");
    let _mounted = Mounted::bind(&dir.path().join("outside"), root.join("vol"));
    let refused = scan(&open(&root).fork().unwrap()).err().unwrap().to_string();
    assert!(refused.contains("vol") && refused.contains("is mounted here"), "{refused}");
}

// --- other users -----------------------------------------------------------------------------------------------------

/// How a command of theirs ends.
#[derive(Clone, Copy)]
enum End {
    Undone,
    Merged,
}

/// Somebody's workspace, in which a command runs: prepared by the superuser, who also does something meanwhile.
fn theirs(prepare: &str, meanwhile: &str, end: End, script: &str) -> (TempDir, PathBuf, String) {
    let (dir, root) = workspace();
    sh(dir.path(), &format!("chown -hR {THEY}:{THEY} root"));
    sh(&root, prepare);
    let job = format!(
        "{}\n{}\n{script}",
        root.display(),
        if matches!(end, End::Undone) { "undo" } else { "merge" }
    );
    let mut child = they(&dir, "host_scan_others::their_child", THEIR_JOB, &job);
    await_line(&mut child, "begun");
    sh(&root, meanwhile);
    drop(child.stdin.take());
    let text = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    let told = text.lines().filter_map(|line| line.strip_prefix("told: "));
    let told = told.fold(String::new(), |told, line| told + line + "\n");
    (dir, root, told)
}

/// A test of this file, run by another user.
fn they(dir: &TempDir, test: &str, variable: &str, job: &str) -> Child {
    let executable = dir.path().join("test");
    // By another process: a copy that this one writes may be held open by what another test starts at the same time.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&executable).status().unwrap();
    assert!(copied.success());
    Command::new(&executable)
        .args([test, "--exact", "--nocapture"])
        .env(variable, job)
        .current_dir("/")
        .uid(THEY)
        .gid(THEY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn await_line(child: &mut Child, what: &str) {
    let mut text = String::new();
    while !text.ends_with(&format!("{what}\n")) {
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
    }
}

const THEIR_JOB: &str = "WINK_TEST_SCAN_THEIR_JOB";

/// Not a test by itself: what another user does.
#[test]
fn their_child() {
    let Ok(job) = std::env::var(THEIR_JOB) else { return };
    let mut parts = job.splitn(3, '\n');
    let (root, end, script) =
        (Path::new(parts.next().unwrap()), parts.next().unwrap(), parts.next().unwrap());
    let files = open(root);
    let fork = files.fork().unwrap();
    let layer = scan(&fork).unwrap();
    println!("\nbegun");
    std::io::read_to_string(std::io::stdin()).unwrap();
    sh(root, script);
    let done = match end {
        "undo" => layer.undo().map(drop),
        _ => layer.finish().and_then(|()| files.merge(&*fork)).map(|receipt| files.keep(receipt)),
    };
    println!("told: {}", if done.is_ok() { "ok" } else { "failed" });
    let left: Vec<_> = left(&files).into_iter().map(|(path, _)| path).collect();
    println!("told: left {}", left.join(" "));
    // Whoever comes next is not locked out.
    drop((fork, files));
    let files = open(root);
    block(files.write_text("again", "")).unwrap();
    let path = FsPath::parse("again", files.limits()).unwrap();
    block(files.delete(&path, DeleteMode::Single)).unwrap();
    println!("told: again");
}

/// Directories that were closed to whoever runs the command are restored.
#[test]
fn a_plain_user_restores_what_was_closed() {
    if !is_superuser("another user") {
        return;
    }
    let (_dir, root, _) = theirs("true", "true", End::Undone, "true");
    let before = dump(&root);
    let script = "echo changed > d/b; touch d/new; rm d/e/c; mkdir -p n/m; touch n/m/x; chmod 0 n/m; chmod 555 n d/e d; \
                  chmod 500 .";
    let (_dir, root, told) = theirs("true", "true", End::Undone, script);
    assert_eq!((dump(&root), told), (before, "ok\nleft \nagain\n".to_owned()));
}

/// What somebody with other rights makes meanwhile cannot be taken away. It is left and told, and locks nobody out.
#[test]
fn what_another_user_made_is_left_and_told() {
    if !is_superuser("another user") {
        return;
    }
    let meanwhile =
        "mkdir -p theirs/in; echo x > theirs/in/x; chmod 700 theirs; rm link; mkdir link; echo y > link/y";
    for end in [End::Undone, End::Merged] {
        let (_dir, root, told) =
            theirs("true", meanwhile, end, "echo changed > a; rm -rf d; echo more > more");
        assert_eq!(told, "failed\nleft link theirs\nagain\n");
        assert_eq!(said(&root, "cat a d/e/c theirs/in/x link/y; ls"), "a\nc\nx\ny\na\nd\nlink\ntheirs\n");
        assert_eq!(said(&root, "readlink .wink/trash/*/link"), "a\n");
    }
}

/// What everybody may write and somebody else owns is restored, and taken over, but for its time.
#[test]
fn directories_of_others_that_everybody_may_write_are_like_any() {
    if !is_superuser("another user") {
        return;
    }
    for prepare in ["chown 0:0 d; chmod 777 d", "chown 0:0 .; chmod 777 ."] {
        let (_dir, root, told) =
            theirs(prepare, "true", End::Merged, "echo new > d/new; rm d/e/c; echo top > top");
        assert_eq!(told, "ok\nleft \nagain\n", "{prepare}");
        assert_eq!(said(&root, "cat a d/b d/new top; find d | sort"), "a\nb\nnew\ntop\nd\nd/b\nd/e\nd/new\n");
        let (_dir, root, told) =
            theirs(prepare, "true", End::Undone, "echo new > d/new; rm d/e/c; echo top > top");
        assert_eq!(told, "ok\nleft \nagain\n", "{prepare}");
        assert_eq!(said(&root, "cat a d/b d/e/c; ls . d"), "a\nb\nc\n.:\na\nd\nlink\n\nd:\nb\ne\n");
    }
}

/// A file that can be written, and not moved, gets its contents back where it is.
#[test]
fn files_in_directories_of_others_get_their_contents_back() {
    if !is_superuser("another user") {
        return;
    }
    for prepare in ["chown -R 0:0 d; chmod 666 d/b", "chown 0:0 d; chmod 640 d/b"] {
        let (_dir, root, told) = theirs(prepare, "true", End::Undone, "stat -c %a d/b > a; echo EVIL > d/b");
        assert_eq!(told, "ok\nleft \nagain\n", "{prepare}");
        assert_eq!(
            said(&root, "cat a d/b; stat -c %a d/b"),
            format!("a\nb\n{}\n", &prepare[prepare.len() - 7..][..3])
        );
        // It cannot be put there either.
        let (_dir, root, told) = theirs(prepare, "true", End::Merged, "echo EVIL > d/b; echo x > a");
        assert_eq!(told, "failed\nleft \nagain\n", "{prepare}");
        assert_eq!(said(&root, "cat a d/b"), "a\nb\n");
    }
}

#[test]
fn owners_are_restored() {
    if !is_superuser("giving files away") {
        return;
    }
    let (_dir, root) = workspace();
    sh(&root, "chown 12:34 d/b d/e");
    let before = dump(&root);
    let layer = scan(&open(&root).fork().unwrap()).unwrap();
    sh(&root, "chown 1000:1000 a d d/b d/e; chown -h 1000 link");
    layer.undo().unwrap();
    assert_eq!(dump(&root), before);
}

#[test]
fn a_socket_that_became_a_pipe_is_told() {
    let (_dir, root) = workspace();
    let _listening = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let layer = scan(&open(&root).fork().unwrap()).unwrap();
    sh(&root, "rm socket; mkfifo socket");
    let undone = layer.undo().unwrap();
    assert_eq!(undone.lost.iter().map(ToString::to_string).collect::<Vec<_>>(), ["socket"]);
    assert!(!root.join("socket").exists());
}

// --- a baseline that was not finished --------------------------------------------------------------------------------

const BASELINE_JOB: &str = "WINK_TEST_SCAN_BASELINE_JOB";

/// Not a test by itself: saves the workspace, fails to do so, and then runs a command.
#[test]
fn baseline_child() {
    let Ok(job) = std::env::var(BASELINE_JOB) else { return };
    let (root, script) = job.split_once('\n').unwrap();
    let root = Path::new(root);
    let files = open(root);
    let fork = files.fork().unwrap();
    let wait = |what: &str| {
        println!("\n{what}");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
    };
    drop(scan(&fork).unwrap());
    wait("saved");
    assert!(scan(&fork).is_err(), "something cannot be read");
    wait("failed");
    let layer = scan(&fork).unwrap();
    sh(root, script);
    layer.undo().unwrap();
}

#[test]
fn a_baseline_that_failed_half_way_is_not_relied_on() {
    if !is_superuser("another user") {
        return;
    }
    for (breaks, mends, script) in [
        // Copies were removed whose originals come back.
        ("mv d ../d", "mv ../d d", "echo EVIL > d/b; rm d/e/c"),
        // Copies were made of what is gone by now.
        ("echo x > d/x", "rm d/x", "rm -rf d"),
        ("echo x > x", "rm x; mkdir x; echo y > x/y", "rm -rf x; echo EVIL > a"),
        ("mkdir y; echo x > y/x", "rm -r y; echo x > y", "rm y"),
    ] {
        let (dir, root) = workspace();
        sh(dir.path(), &format!("chown -hR {THEY}:{THEY} root"));
        let job = format!("{}\n{script}", root.display());
        let mut child = they(&dir, "host_scan_others::baseline_child", BASELINE_JOB, &job);
        await_line(&mut child, "saved");
        sh(
            &root,
            &format!("{breaks}; echo secret > z; chmod 600 z; chown -h {THEY} x y d 2> /dev/null || true"),
        );
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        await_line(&mut child, "failed");
        sh(&root, &format!("rm z; {mends}; chown -hR {THEY}:{THEY} ."));
        let before = dump(&root);
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        assert!(child.wait().unwrap().success(), "{breaks}");
        assert_eq!(dump(&root), before, "{breaks}");
    }
}

// --- who died --------------------------------------------------------------------------------------------------------

const DEAD_JOB: &str = "WINK_TEST_SCAN_DEAD_JOB";

fn with_store(root: &Path) -> HostFilesystem {
    let knows_nothing = Arc::new(|_: &wink::store::JournalId| Ok(false));
    HostFilesystem::open(root, HostOptions { verdict: Some(knows_nothing), ..HostOptions::default() })
        .unwrap()
}

/// Not a test by itself: dies with a merge that nobody decided, or while it recovers one.
#[test]
fn dead_child() {
    let Ok(job) = std::env::var(DEAD_JOB) else { return };
    let (how, root) = job.split_once('\n').unwrap();
    if how == "recover" {
        steps::on_every_step(|step| {
            if step == "journal.step-undone" {
                std::process::abort();
            }
        });
    }
    let files = with_store(Path::new(root));
    let fork = files.fork().unwrap();
    block(fork.write_text("a", "half")).unwrap();
    block(fork.write_text("d/b", "half")).unwrap();
    let _receipt = files.merge(&*fork).unwrap();
    std::process::abort();
}

fn die(root: &Path, how: &str) {
    let died = Command::new(std::env::current_exe().unwrap())
        .args(["host_scan_others::dead_child", "--exact"])
        .env(DEAD_JOB, format!("{how}\n{}", root.display()))
        .output()
        .unwrap();
    assert!(!died.status.success());
}

/// That somebody died is known until what they left is settled, whoever has the lock meanwhile.
#[test]
fn what_the_dead_left_is_settled_by_whoever_begins_a_call() {
    for meanwhile in ["nobody", "refused", "died too"] {
        let (_dir, root) = workspace();
        let files = with_store(&root);
        die(&root, "merge");
        match meanwhile {
            "refused" => _ = HostFilesystem::open(&root, HostOptions::default()).err().unwrap(),
            "died too" => die(&root, "recover"),
            _ => assert_eq!(said(&root, "cat a d/b"), "halfhalf"),
        }
        let fork = files.fork().unwrap();
        let read = |path| block(fork.read_text(path)).unwrap();
        assert_eq!([read("a"), read("d/b")], ["a\n", "b\n"], "{meanwhile}");
    }
}
