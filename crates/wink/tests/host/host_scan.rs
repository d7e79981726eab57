//! Commands that work in the workspace itself and are undone: whatever they left, it is as it was before.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxAttributes, StatxFlags, statx};
use tempfile::TempDir;
use wink::filesystem::host::{Capture, CommandLayer, HostFilesystem, HostOptions, Undone};
use wink::filesystem::{DeleteMode, Filesystem, FilesystemExt, FsPath};
use wink::limits::CancelToken;
use wink::testing::leave_out;

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

/// Kind, mode, owner, links, time, protection and contents of everything, as the system says it.
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
            String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
        } else if meta.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            format!("{:?} {}", meta.file_type(), meta.rdev())
        };
        let links = if meta.is_dir() { 0 } else { meta.nlink() };
        let about = format!(
            "{:o} {}:{} {links} {}.{} {} {content}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec(),
            protection(&path)
        );
        found.insert(path.strip_prefix(root).unwrap().to_owned(), about);
    }
    // The state directory comes to the root when the workspace is opened, which changes its time.
    found.insert(PathBuf::new(), protection(root));
    found
}

fn protection(path: &Path) -> String {
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE).unwrap().stx_attributes;
    let is = |flag, text| if found.contains(flag) { text } else { "" };
    format!("({}{})", is(StatxAttributes::IMMUTABLE, "i"), is(StatxAttributes::APPEND, "a"))
}

const JOB: &str = "WINK_TEST_SCAN_JOB";

/// Not a test by itself: a process that dies while its command is at work.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let (root, script) = job.split_once('\n').unwrap();
    let fork = open(Path::new(root)).fork().unwrap();
    let _layer = scan(&fork);
    sh(Path::new(root), script);
    std::process::abort();
}

/// What a script does in the workspace is undone: by whoever forgets it, and by whoever finds that its process died.
fn is_undone(dir: &TempDir, script: &str) {
    let root = dir.path();
    let before = dump(root);
    let fork = open(root).fork().unwrap();
    let layer = scan(&fork);
    sh(root, script);
    assert_ne!(dump(root), before, "{script}");
    drop((layer, fork));
    assert_eq!(dump(root), before, "after being forgotten: {script}");

    let died = Command::new(std::env::current_exe().unwrap())
        .args(["host_scan::child", "--exact"])
        .env(JOB, format!("{}\n{script}", root.display()))
        .output()
        .unwrap();
    assert!(!died.status.success());
    assert_ne!(dump(root), before, "{script}");
    assert_eq!(open(root).recovered().unwrap().trash.len(), 1);
    assert_eq!(dump(root), before, "after a death: {script}");
}

const SEED: &str = "mkdir -p d/e; echo a > a; echo b > d/b; echo c > d/e/c; ln -s a link";

#[test]
fn directories_deeper_than_any_path_are_undone() {
    let dir = workspace(SEED);
    is_undone(&dir, "echo changed > a; cd d; for i in $(seq 300); do mkdir dddd; cd dddd; done");
    let before = dump(dir.path());
    for (name, levels) in [("dddd", 3000), ("n", 5000), (&"long".repeat(50), 60)] {
        let files = open(dir.path());
        let fork = files.fork().unwrap();
        let layer = scan(&fork);
        dig(dir.path(), name, levels);
        fs::remove_file(dir.path().join("d/b")).unwrap();
        let refused = layer.finish().unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("nested more than 100 deep") && text.contains(".wink/trash/scan-"), "{text}");
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
    is_undone(&dir, "rm -rf d; echo changed > a");
    is_undone(&dir, "mv d e");
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

/// Whether files can be protected here, devices made, and disks mounted. Where they cannot, that is a failure, or said aloud.
fn is_superuser(what: &str) -> bool {
    let dir = TempDir::new().unwrap();
    let script = "touch a; chattr +i a; chattr -i a; mknod null c 1 3";
    let done = Command::new("sh").args(["-ec", script]).current_dir(dir.path()).status();
    let can = done.is_ok_and(|done| done.success());
    if !can {
        leave_out(what, "it takes the superuser, and a filesystem that knows attributes");
    }
    can
}

#[test]
fn what_a_command_protects_is_undone_and_what_was_protected_is_so_again() {
    if !is_superuser("protected files") {
        return;
    }
    let dir = workspace(SEED);
    for script in [
        "chattr +i a",
        "echo changed > a; chattr +i a; chattr +a d/b",
        "rm a; mkdir a; touch a/x; chattr +i a/x; chattr +i a",
        "echo changed > d/b; touch d/new; chattr +i d/e d; chattr +a d/new 2> /dev/null || true",
        "mkdir -p n/m; touch n/m/x; chattr -R +i n; rm -rf d; ln -s x d",
        "chattr +i .",
        "echo changed > a; touch new; chattr +i .",
    ] {
        is_undone(&dir, script);
    }
    sh(dir.path(), "echo x > d/log; chattr +a d/log; chattr +i d/e/c; chattr +i d/e");
    for script in [
        "echo more >> d/log",
        "chattr -R -i d; rm -rf d/e",
        "chattr -a d/log; chattr -R -i d; mv d other; echo x > other/e/c",
        "chattr -i d/e d/e/c; echo x > d/e/c; touch d/e/new; chattr +a d/e/c; chattr -a d/log",
        "chattr -i d/e/c; echo x > d/e/c; chattr +i d/e/c",
    ] {
        is_undone(&dir, script);
    }
    // What it leaves is taken over without it.
    let files = open(dir.path());
    let fork = files.fork().unwrap();
    let layer = scan(&fork);
    sh(dir.path(), "echo new > new; mkdir n; echo x > n/x; chattr +i new n/x n; chattr +i a");
    layer.finish().unwrap();
    let receipt = files.merge(&*fork).unwrap();
    files.keep(receipt);
    assert_eq!(fs::read_to_string(dir.path().join("new")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(dir.path().join("n/x")).unwrap(), "x\n");
    sh(dir.path(), "chattr -R -f -i -a . || true");
}

#[test]
fn pipes_and_devices_come_back() {
    let dir = workspace(SEED);
    sh(dir.path(), "mkfifo -m 640 pipe d/pipe; touch -d 2001-02-03 pipe");
    for script in [
        "rm pipe",
        "rm pipe; mkfifo pipe",
        "rm pipe; echo file > pipe",
        "chmod 600 pipe; rm -rf d",
        "rm d/pipe; mkdir d/pipe; mv pipe d/pipe",
    ] {
        is_undone(&dir, script);
    }
    if is_superuser("devices that a command removes") {
        sh(dir.path(), "mknod -m 604 null c 1 3; mknod zero c 1 5; chown 12:34 null");
        for script in ["rm null; mv zero null", "rm null zero; mkfifo null", "chmod 600 zero"] {
            is_undone(&dir, script);
        }
    }
}

#[test]
fn a_file_with_names_outside_is_the_same_file_afterwards() {
    let dir = workspace(SEED);
    let out = TempDir::new().unwrap();
    let outside = out.path().join("outside");
    fs::hard_link(dir.path().join("d/b"), &outside).unwrap();
    sh(dir.path(), "ln d/b d/second; chmod 640 d/b");
    for script in [
        "echo changed > d/b",
        "echo more >> d/second; chmod 600 d/b",
        "rm d/b; echo x > d/second",
        "rm d/b; echo other > d/b; echo x > d/second",
        "ln d/b third; echo x > third",
        "ln d/b third; rm d/b d/second; echo x > third",
        "echo x > d/b; mv d e",
        "truncate -s 0 d/b; rm d/second; mkdir d/second; ln d/b d/second/third",
    ] {
        is_undone(&dir, script);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "b\n", "{script}");
        let [inside, outside] =
            [dir.path().join("d/b"), outside.clone()].map(|path| fs::metadata(path).unwrap());
        assert_eq!((inside.ino(), inside.nlink()), (outside.ino(), 3), "{script}");
    }
    // What a command leaves is taken over as ever.
    let files = open(dir.path());
    let fork = files.fork().unwrap();
    let layer = scan(&fork);
    sh(dir.path(), "echo changed > d/b; mkdir n; ln d/b n/third");
    layer.finish().unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "b\n");
    let receipt = files.merge(&*fork).unwrap();
    files.keep(receipt);
    for name in ["d/b", "d/second", "n/third"] {
        assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), "changed\n", "{name}");
    }
}

#[test]
fn holes_stay_holes() {
    let dir =
        workspace("truncate -s 1G large; echo x | dd of=large bs=1 seek=500000000 conv=notrunc 2> /dev/null");
    let fork = open(dir.path()).fork().unwrap();
    let layer = scan(&fork);
    let used = |path: &str| fs::metadata(dir.path().join(path)).unwrap().blocks() * 512;
    assert!(used(".wink/baseline/tree/large") < 1 << 20);
    let was = fs::metadata(dir.path().join("large")).unwrap().len();
    fs::write(dir.path().join("large"), "short").unwrap();
    drop(layer);
    let is = fs::metadata(dir.path().join("large")).unwrap();
    assert!(is.len() == was && used("large") < 1 << 20);
    assert_eq!(
        rustix::io::pread(fs::File::open(dir.path().join("large")).unwrap(), &mut [0; 2], 500_000_000),
        Ok(2)
    );
}

/// What there is no space for keeps its own: it is only moved.
#[test]
fn on_a_full_disk_what_a_command_did_is_in_the_trash() {
    if !is_superuser("a scan on a full disk") {
        return;
    }
    let dir = TempDir::new().unwrap();
    let mounted = Mounted(dir.path().join("small"));
    fs::create_dir(&mounted.0).unwrap();
    // As many inodes as it takes, and a few for the command.
    let options = "size=4m,nr_inodes=60";
    let done = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&mounted.0).status();
    assert!(done.unwrap().success());
    let root = &mounted.0;
    sh(root, SEED);
    sh(root, "mkdir -p d/e/f");
    let before = dump(root);
    let files = open(root);
    let fork = files.fork().unwrap();
    let layer = scan(&fork);
    sh(root, "echo mine > d/e/f/mine; i=0; while touch d/e/f/$i 2> /dev/null; do i=$((i+1)); done");
    let refused = layer.finish().unwrap_err();
    assert!(refused.to_string().contains("no space"), "{refused}");
    assert_eq!(dump(root), before);
    drop((fork, files));
    let found = Command::new("grep").args(["-rl", "mine"]).arg(root.join(".wink/trash")).output().unwrap();
    assert!(!found.stdout.is_empty(), "it is not kept");
    open(root);
}

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

/// What is removed and cannot be made anew is told, and so is where everything else is.
#[test]
fn whoever_undoes_a_command_is_told_what_became_of_it() {
    let dir = workspace(SEED);
    let _listening = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    let files = open(dir.path());
    let fork = files.fork().unwrap();
    assert_eq!(scan(&fork).undo().unwrap(), Undone::default());
    let layer = scan(&fork);
    sh(dir.path(), "rm socket; echo changed > d/b");
    let undone = layer.undo().unwrap();
    let lost: Vec<_> = undone.lost.iter().map(ToString::to_string).collect();
    assert_eq!(lost, ["socket"]);
    let kept = dir.path().join(undone.trash.unwrap()).join("d/b");
    assert_eq!(fs::read_to_string(kept).unwrap(), "changed\n");
}

#[test]
fn whoever_cancels_does_not_wait_for_the_copy() {
    const FILES: usize = 5000;
    let dir = TempDir::new().unwrap();
    for number in 0..FILES {
        fs::write(dir.path().join(number.to_string()), "x").unwrap();
    }
    let files = open(dir.path());
    let fork = files.fork().unwrap();
    let saved = dir.path().join(".wink/baseline/tree");
    let count = || fs::read_dir(&saved).map_or(0, Iterator::count);
    let cancel = CancelToken::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The one that is being copied goes again.
            while count() < 3 {
                std::thread::yield_now();
            }
            cancel.cancel();
        });
        let fork = HostFilesystem::of(&*fork).unwrap();
        let refused = fork.command_layer(&cancel, |_| Ok(())).err().unwrap();
        assert!(refused.to_string().contains("cancelled"), "{refused}");
    });
    let copied = count();
    assert!((1..FILES).contains(&copied), "{copied}");
    assert!(!dir.path().join(".wink/baseline/begun").exists());
    // The next one makes what is missing.
    let layer = scan(&fork);
    assert_eq!(count(), FILES);
    sh(dir.path(), "echo changed > 0");
    drop(layer);
    assert_eq!(fs::read_to_string(dir.path().join("0")).unwrap(), "x");
}

/// The command's own change of what the fork has read is no conflict.
#[tokio::test]
async fn a_command_may_change_what_was_read() {
    let dir = workspace(SEED);
    let files = open(dir.path());
    let fork = files.fork().unwrap();
    assert_eq!(fork.read_text("a").await.unwrap(), "a\n");
    let layer = scan(&fork);
    sh(dir.path(), "echo more >> a; mv a z; echo new > a");
    layer.finish().unwrap();
    files.keep(files.merge(&*fork).unwrap());
    assert_eq!(std::fs::read_to_string(dir.path().join("z")).unwrap(), "a\nmore\n");
    assert_eq!(std::fs::read_to_string(dir.path().join("a")).unwrap(), "new\n");
}

/// A name becomes a directory, a link or a file in turns. Copies of what was below it are not looked for behind a link.
#[test]
fn commands_put_links_files_and_directories_in_each_others_place() {
    let dir = workspace(SEED);
    let root = dir.path();
    let files = open(root);
    // Without times: a commit makes directories anew.
    let tree = || {
        let whole = dump(root).into_iter();
        let timeless = |text: String| {
            text.split(' ')
                .enumerate()
                .filter(|(at, _)| *at != 3)
                .map(|(_, word)| word.to_owned())
                .collect::<Vec<_>>()
        };
        whole.map(|(path, text)| (path, timeless(text))).collect::<BTreeMap<_, _>>()
    };
    let kinds =
        ["mkdir -p k/deep; echo 1 > k/deep/x; echo 2 > k/y", "ln -s d k", "echo file > k", "ln -s . k"];
    for script in kinds.iter().chain(&kinds).chain(kinds.iter().rev()) {
        for script in [&format!("rm -rf k; {script}"), "true", "true"] {
            let fork = files.fork().unwrap();
            let layer = scan(&fork);
            sh(root, script);
            let after = tree();
            layer.finish().unwrap();
            files.keep(files.merge(&*fork).unwrap());
            assert_eq!(tree(), after, "{script}");
        }
        is_undone(&dir, "rm -rf k; mkdir k; echo other > k/y; ln -s k d/link");
    }
}

/// A directory that is renamed takes a name of a file to another place, and leaves the file as it was.
#[test]
fn names_of_one_file_stay_so_when_a_directory_was_renamed() {
    let dir = workspace("mkdir h m; echo x > h/one; ln h/one h/two; ln h/one m/three");
    let root = dir.path();
    let files = open(root);
    // The baseline is made, and knows the file by its names of now.
    drop(scan(&files.fork().unwrap()));
    // Before and behind the others, in the order in which they are saved.
    for (from, to) in [("m", "b"), ("b", "z")] {
        fs::rename(root.join(from), root.join(to)).unwrap();
        is_undone(&dir, &format!("rm {to}/three; rm h/one"));
        let inode = |name: &str| fs::metadata(root.join(name)).unwrap().ino();
        assert_eq!([inode("h/two"), inode(&format!("{to}/three"))], [inode("h/one"); 2], "{to}");
    }
}

/// Which names are one file, and how many it has.
fn names(root: &Path) -> BTreeMap<PathBuf, (String, u64)> {
    let files = dump(root).into_keys().filter(|path| root.join(path).is_file());
    let mut first: BTreeMap<u64, PathBuf> = BTreeMap::new();
    let named = files.map(|path| {
        let about = fs::metadata(root.join(&path)).unwrap();
        let one = first.entry(about.ino()).or_insert_with(|| path.clone()).display().to_string();
        (path, (one, about.nlink()))
    });
    named.collect()
}

#[tokio::test]
async fn going_back_after_a_command_leaves_the_names_of_a_file_together() {
    let dir = workspace("mkdir -p h/deep; echo x > h/one; ln h/one h/two; ln h/one h/deep/three; echo y > z");
    let root = dir.path();
    let files = open(root);
    let about = |root| -> BTreeMap<_, _> {
        let mut about = dump(root);
        // Directories have the time at which something came back to them.
        about.retain(|path: &PathBuf, _| !root.join(path).is_dir());
        about
    };
    let before = (about(root), names(root));
    for script in [
        "rm h/one",
        "rm h/one; echo y > h/one",
        "echo more >> h/two",
        "ln h/one h/four",
        "mv h g; rm g/two",
        // What comes back with its directory comes alone. So this is the last.
        "rm -r h/deep",
    ] {
        let snapshot = files.snapshot().unwrap();
        let fork = files.fork().unwrap();
        let layer = scan(&fork);
        sh(root, script);
        layer.finish().unwrap();
        let receipt = files.merge(&*fork).unwrap();
        files.keep(receipt);
        files.restore(&snapshot).unwrap();
        if script != "rm -r h/deep" {
            assert_eq!((about(root), names(root)), before, "{script}");
        }
    }
    let text = |name: &str| (name.to_owned(), if name == "h/one" { 2 } else { 1 });
    let after = [("h/deep/three", "h/deep/three"), ("h/one", "h/one"), ("h/two", "h/one"), ("z", "z")];
    let after: BTreeMap<_, _> = after.map(|(path, one)| (PathBuf::from(path), text(one))).into();
    assert_eq!(names(root), after);
}
