//! A directory of the machine whose contents, or whose other users, mean no good.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::fmt::Debug;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tempfile::TempDir;
use wink::filesystem::host::{Capture, HostFilesystem, HostOptions};
use wink::filesystem::{
    DeleteMode, EntryKind, Filesystem, FilesystemExt, FsError, FsErrorKind, FsLimits, FsPath, FsResult,
    GrepQuery, MkdirOptions,
};
use wink::testing::leave_out;

use crate::listening::on_own_steps;
use crate::overlay;

fn open(dir: &Path) -> HostFilesystem {
    HostFilesystem::open(dir, HostOptions::default()).unwrap()
}

fn path(text: &str) -> FsPath {
    FsPath::parse(text, &FsLimits::DEFAULT).unwrap()
}

#[track_caller]
fn refused<T: Debug>(result: FsResult<T>, kind: FsErrorKind) -> FsError {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    error
}

async fn globbed(fs: &dyn Filesystem) -> Vec<String> {
    fs.glob(&FsPath::root(), "**").await.unwrap().iter().map(|entry| entry.path.to_string()).collect()
}

async fn grepped(fs: &dyn Filesystem, pattern: &str) -> Vec<String> {
    let found = fs.grep(&FsPath::root(), &GrepQuery::new(pattern)).await.unwrap();
    found.matches.iter().map(|found| found.path.to_string()).collect()
}

/// A workspace in a directory that has secrets beside it.
fn beside_secrets() -> (TempDir, PathBuf, PathBuf) {
    let dir = TempDir::new().unwrap();
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    fs::create_dir_all(root.join("d")).unwrap();
    fs::create_dir_all(outside.join("sub")).unwrap();
    fs::write(root.join("d/f"), "inside\n").unwrap();
    fs::write(outside.join("secret"), "secret\n").unwrap();
    fs::write(outside.join("sub/f"), "secret\n").unwrap();
    (dir, root, outside)
}

fn is_untouched(outside: &Path) -> bool {
    let names = |dir: &Path| {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    names(outside) == ["secret", "sub"]
        && names(&outside.join("sub")) == ["f"]
        && fs::read(outside.join("secret")).unwrap() == b"secret\n"
        && fs::read(outside.join("sub/f")).unwrap() == b"secret\n"
}

// case 154
#[tokio::test]
async fn no_link_leads_out() {
    for walk in [false, true] {
        let (_dir, root, outside) = beside_secrets();
        symlink(outside.join("secret"), root.join("absolute")).unwrap();
        symlink("../outside/secret", root.join("relative")).unwrap();
        symlink("../../outside", root.join("d/deep")).unwrap();
        symlink("d/deep/sub", root.join("chain")).unwrap();
        symlink("d/../../outside/sub", root.join("winding")).unwrap();
        symlink("../outside/new", root.join("dangling")).unwrap();
        symlink("/", root.join("slash")).unwrap();
        symlink("..", root.join("up")).unwrap();
        let options = HostOptions { walk, ..HostOptions::default() };
        let base = Arc::new(HostFilesystem::open(&root, options).unwrap()) as Arc<dyn Filesystem>;
        let fork = base.fork().unwrap();
        // With something of its own a fork finds its way differently.
        fork.write_text("d/own", "x").await.unwrap();
        for fs in [&base, &fork] {
            for link in ["absolute", "relative", "dangling"] {
                refused(fs.read_text(link).await, FsErrorKind::Outside);
                refused(fs.write_text(link, "x").await, FsErrorKind::Outside);
                refused(fs.edit_text(link, "secret", "x").await, FsErrorKind::Outside);
                refused(fs.stat_at(link).await, FsErrorKind::Outside);
                assert!(!fs.exists_at(link).await.unwrap());
            }
            for link in ["d/deep", "chain", "winding", "slash", "up"] {
                refused(fs.names(link).await, FsErrorKind::Outside);
                refused(fs.glob(&path(link), "**").await, FsErrorKind::Outside);
                refused(fs.grep(&path(link), &GrepQuery::new("secret")).await, FsErrorKind::Outside);
                refused(fs.stat_at(link).await, FsErrorKind::Outside);
                assert!(!fs.exists_at(link).await.unwrap());
                for below in ["f", "secret", "new"] {
                    let below = format!("{link}/{below}");
                    refused(fs.read_text(&below).await, FsErrorKind::Outside);
                    refused(fs.write_text(&below, "x").await, FsErrorKind::Outside);
                    refused(fs.delete_all(&below).await, FsErrorKind::Outside);
                    refused(fs.mkdir_all(&below).await, FsErrorKind::Outside);
                    refused(fs.rename_to("d/f", &below).await, FsErrorKind::Outside);
                    refused(fs.rename_to(&below, "here").await, FsErrorKind::Outside);
                    assert!(!fs.exists_at(&below).await.unwrap());
                }
            }
            assert_eq!(grepped(&**fs, "secret").await, [""; 0]);
            assert!(
                globbed(&**fs).await.iter().all(|path| !path.contains("secret") && !path.ends_with("sub"))
            );
        }
        // The links themselves can be moved and deleted.
        base.rename_to("absolute", "d/moved").await.unwrap();
        assert_eq!(fs::read_link(root.join("d/moved")).unwrap(), outside.join("secret"));
        base.delete_all("d/moved").await.unwrap();
        base.delete_all("up").await.unwrap();
        base.delete_all("d").await.unwrap();
        assert!(is_untouched(&outside));
    }
}

#[tokio::test]
async fn links_inside_are_followed_where_a_file_is_meant() {
    let (_dir, root, _) = beside_secrets();
    symlink("d/f", root.join("link")).unwrap();
    symlink("../d", root.join("d/self")).unwrap();
    symlink("d/new", root.join("dangling")).unwrap();
    symlink("two", root.join("one")).unwrap();
    symlink("one", root.join("two")).unwrap();
    let base = Arc::new(open(&root)) as Arc<dyn Filesystem>;
    let fork = base.fork().unwrap();
    fork.mkdir_all("own").await.unwrap();
    for fs in [&fork, &base] {
        assert_eq!(fs.read_text("link").await.unwrap(), "inside\n");
        assert_eq!(fs.read_text("d/self/self/f").await.unwrap(), "inside\n");
        assert_eq!(fs.stat_at("link").await.unwrap().kind, EntryKind::File);
        let kinds: Vec<_> = fs.list(&path("d")).await.unwrap().into_iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [EntryKind::File, EntryKind::Symlink]);
        assert_eq!(grepped(&**fs, "inside").await, ["d/f"], "searches follow none");
        let error = refused(fs.read_text("one").await, FsErrorKind::Io);
        assert!(error.to_string().contains("too many symbolic links"), "{error}");
        refused(fs.read_text("dangling").await, FsErrorKind::NotFound);
        fs.edit_text("link", "inside", "edited").await.unwrap();
        fs.write_text("dangling", "made").await.unwrap();
        assert_eq!(fs.read_text("d/new").await.unwrap(), "made");
        refused(fs.write_as("link", "x", wink::filesystem::WriteMode::Create).await, FsErrorKind::Exists);
        fs.rename_to("link", "renamed").await.unwrap();
        assert_eq!(fs.read_text("renamed").await.unwrap(), "edited\n");
        fs.delete_all("renamed").await.unwrap();
        assert_eq!(fs.read_text("d/f").await.unwrap(), "edited\n");
    }
    assert_eq!(fs::read_to_string(root.join("d/f")).unwrap(), "edited\n");
    assert_eq!(fs::read_link(root.join("dangling")).unwrap(), Path::new("d/new"));
}

#[tokio::test]
async fn the_runtimes_own_state_is_not_there() {
    let (_dir, root, _) = beside_secrets();
    symlink(".wink", root.join("link")).unwrap();
    symlink("../.wink", root.join("d/link")).unwrap();
    let base = Arc::new(open(&root)) as Arc<dyn Filesystem>;
    let fork = base.fork().unwrap();
    fork.write_text("own", "x").await.unwrap();
    for fs in [&base, &fork] {
        for state in [".wink", ".WINK", ".wink/lock", "link", "link/lock", "d/link/lock", "d/../.wink/lock"] {
            assert!(!fs.exists_at(state).await.unwrap(), "{state}");
            refused(fs.stat_at(state).await, FsErrorKind::NotFound);
            refused(fs.names(state).await, FsErrorKind::NotFound);
            refused(fs.read_text(state).await, FsErrorKind::NotFound);
            let error = refused(fs.write_text(state, "x").await, FsErrorKind::Io);
            assert!(error.to_string().contains("keeps its own state"), "{error}");
            refused(fs.mkdir_all(state).await, FsErrorKind::Io);
        }
        for state in [".wink", ".Wink", ".wink/x", "link/x"] {
            refused(fs.rename_to("d/f", state).await, FsErrorKind::Io);
            assert!(fs.rename_to(state, "there").await.is_err());
            assert!(fs.delete_all(state).await.is_err());
        }
        assert!(globbed(&**fs).await.iter().all(|path| !path.to_lowercase().contains("wink")));
        assert_eq!(grepped(&**fs, r"^\*$").await, [""; 0], "not even its .gitignore");
    }
    let error = base.write_text("d/.wink/x", "x").await.unwrap_err();
    assert!(error.to_string().contains("runtime state"), "one below is guarded: {error}");
    assert!(root.join(".wink/lock").exists());
}

#[tokio::test]
async fn pipes_sockets_and_devices_are_only_listed() {
    let (_dir, root, _) = beside_secrets();
    let made = Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
    assert!(made.success());
    let _socket = UnixListener::bind(root.join("socket")).unwrap();
    let mut names = vec!["pipe", "socket"];
    if Command::new("mknod").arg(root.join("null")).args(["c", "1", "3"]).status().unwrap().success() {
        names.push("null");
    } else {
        leave_out("a device in a workspace", "it takes the superuser to make one");
    }
    let base = Arc::new(open(&root)) as Arc<dyn Filesystem>;
    let fork = base.fork().unwrap();
    for fs in [&base, &fork] {
        for name in &names {
            for result in [
                fs.read_text(name).await.map(drop),
                fs.read_bytes(&path(name)).await.map(drop),
                fs.write_text(name, "x").await.map(drop),
                fs.write_as(name, "x", wink::filesystem::WriteMode::Append).await.map(drop),
                fs.edit_text(name, "x", "y").await.map(drop),
                fs.delete_all(name).await,
                fs.rename_to(name, "other").await,
                fs.grep(&path(name), &GrepQuery::new("x")).await.map(drop),
            ] {
                let error = refused(result, FsErrorKind::Io);
                assert!(error.to_string().contains("pipe, socket or device"), "{error}");
            }
            assert_eq!(fs.stat_at(name).await.unwrap().kind, EntryKind::Other);
        }
        assert_eq!(grepped(&**fs, "inside").await, ["d/f"]);
        assert_eq!(globbed(&**fs).await.len(), 2 + names.len());
        let others = fs.list(&FsPath::root()).await.unwrap();
        assert_eq!(others.iter().filter(|entry| entry.kind == EntryKind::Other).count(), names.len());
    }
}

#[tokio::test]
async fn names_that_are_no_text_can_be_used() {
    let (_dir, root, _) = beside_secrets();
    let raw = |bytes: &[u8]| root.join(std::ffi::OsStr::from_bytes(bytes));
    fs::write(raw(b"caf\xe9"), "bad").unwrap();
    fs::write(raw(b"caf\\xE9"), "literal").unwrap();
    fs::create_dir(raw(b"\xff")).unwrap();
    fs::write(raw(b"\xff/f"), "below").unwrap();
    let files = open(&root);
    assert_eq!(files.names("").await.unwrap(), ["\\xFF/", "caf\\x5CxE9", "caf\\xE9", "d/"]);
    assert_eq!(files.read_text("caf\\xE9").await.unwrap(), "bad");
    assert_eq!(files.read_text("caf\\x5CxE9").await.unwrap(), "literal");
    assert_eq!(grepped(&files, "below").await, ["\\xFF/f"]);
    files.write_text("\\xFF/g\\xFE", "new").await.unwrap();
    files.rename_to("\\xFF", "\\x80").await.unwrap();
    files.delete_all("caf\\xE9").await.unwrap();
    assert_eq!(fs::read(raw(b"\x80/g\xfe")).unwrap(), b"new");
    assert!(!raw(b"caf\xe9").exists() && raw(b"caf\\xE9").exists());
    // é, spelt otherwise: one name has one text.
    refused(files.write_text("\\xC3\\xA9", "x").await, FsErrorKind::Io);
    let snapshot = files.snapshot().unwrap().to_json();
    let mark = files.decode_snapshot(&snapshot).unwrap();
    files.delete_all("\\x80").await.unwrap();
    files.restore(&mark).unwrap();
    assert_eq!(fs::read(raw(b"\x80/g\xfe")).unwrap(), b"new");
}

/// Somebody who puts a link out of the workspace in the place of a directory and back, as fast as it goes.
struct Swapping {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<usize>,
}

impl Swapping {
    fn start(root: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, one, two) = (Arc::clone(&stop), root.join("d"), root.join("evil"));
        let thread = std::thread::spawn(move || {
            let mut swaps = 0;
            while !stopped.load(Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                let cwd = rustix::fs::CWD;
                swaps += usize::from(rustix::fs::renameat_with(cwd, &one, cwd, &two, exchange).is_ok());
            }
            swaps
        });
        Self { stop, thread }
    }

    /// How often it was done.
    fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn swapping_links_in_while_we_work_leads_nowhere() {
    swap_while_we_work(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn swapping_links_in_while_we_walk_leads_nowhere() {
    swap_while_we_work(true).await;
}

async fn swap_while_we_work(walk: bool) {
    let (_dir, root, outside) = beside_secrets();
    symlink(outside.join("sub"), root.join("evil")).unwrap();
    let options = HostOptions { walk, ..HostOptions::default() };
    let base = Arc::new(HostFilesystem::open(&root, options).unwrap()) as Arc<dyn Filesystem>;
    let swapping = Swapping::start(&root);
    for turn in 0..300 {
        let fork = base.fork().unwrap();
        for files in [&base, &fork] {
            if let Ok(text) = files.read_text("d/f").await {
                assert!(!text.contains("secret"), "read something outside");
            }
            if let Ok(names) = files.names("d").await {
                assert!(names.iter().all(|name| name == "f" || name.starts_with("n")), "{names:?}");
            }
            assert!(!grepped(&**files, "secret").await.contains(&"d/f".to_owned()));
            let _ = globbed(&**files).await;
            // Whatever comes of them.
            let _ = files.write_text("d/f", "inside\n").await;
            let _ = files.write_text(&format!("d/n{turn}"), "x").await;
            let _ = files.edit_text("d/f", "inside", "inside").await;
            let _ = files.rename_to("d/f", "d/n").await;
            let _ = files.rename_to("d/n", "d/f").await;
            let _ = files.delete_all(&format!("d/n{turn}")).await;
        }
        if let Ok(receipt) = base.merge(&*fork) {
            base.keep(receipt);
        }
    }
    assert!(swapping.stop() > 0);
    assert!(is_untouched(&outside));
}

/// What a command left in its layer is taken over and merged while links are swapped below it, and while it runs.
#[tokio::test(flavor = "multi_thread")]
async fn swapping_links_in_while_a_command_is_merged_leads_nowhere() {
    if !overlay::works() {
        return;
    }
    let (mut merged, mut refused) = (0, 0);
    for walk in [false, true] {
        let (_dir, root, outside) = beside_secrets();
        symlink(outside.join("sub"), root.join("evil")).unwrap();
        let options = HostOptions { walk, ..HostOptions::default() };
        let files = HostFilesystem::open(&root, options).unwrap();
        let swapping = Swapping::start(&root);
        for turn in 0..60 {
            let fork = files.fork().unwrap();
            let layer = HostFilesystem::of(&*fork).unwrap().command_layer_by(Capture::Overlay).unwrap();
            // Whatever becomes of each. The command itself may go where it wants to, so that it has an outside of its own.
            let script = format!(
                "set +e; exec 2>/dev/null; mount -t tmpfs tmpfs {outside} || exit 1; mkdir {outside}/sub; echo changed > d/f; echo new > d/n{turn}; mkdir -p d/sub{turn}; echo x > d/sub{turn}/f; rm -f evil/f; \
                 rm -rf d/n{before}; mv d/sub{before} d/moved{turn}; chmod 700 d; touch common{turn}; exit 0",
                before = turn - turn % 3,
                outside = outside.display()
            );
            overlay::sh(&layer, &script);
            let taken = layer.finish().and_then(|()| files.merge(&*fork));
            match taken {
                Ok(receipt) => {
                    files.keep(receipt);
                    merged += 1;
                    assert!(root.join(format!("common{turn}")).exists(), "turn {turn}");
                }
                Err(_) => {
                    refused += 1;
                    assert!(!root.join(format!("common{turn}")).exists(), "turn {turn}");
                }
            }
            assert!(is_untouched(&outside), "turn {turn}, walk {walk}");
        }
        assert!(swapping.stop() > 0);
        assert!(is_untouched(&outside));
    }
    assert!(merged > 0 && refused > 0, "{merged} merged, {refused} refused");
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_read_is_not_taken_for_either() {
    let (_dir, root, _) = beside_secrets();
    let files = open(&root);
    let file = root.join("d/f");
    let left = Arc::new(AtomicUsize::new(0));
    let listening = on_own_steps({
        let (left, file) = (left.clone(), file.clone());
        move |step| {
            let take = |left: usize| left.checked_sub(1);
            if step == "host.content-read"
                && let Ok(left) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            {
                fs::write(&file, format!("changed {left}\n")).unwrap();
            }
        }
    });
    left.store(1, Ordering::Relaxed);
    assert_eq!(files.read_text("d/f").await.unwrap(), "changed 1\n", "once more was enough");
    left.store(usize::MAX, Ordering::Relaxed);
    let error = refused(files.read_text("d/f").await, FsErrorKind::Io);
    assert!(error.to_string().contains("changed while it was being read"), "{error}");
    refused(files.edit_text("d/f", "changed", "x").await, FsErrorKind::Io);
    // Just before it is decided: the edit sees what is there, and loses nothing of it.
    left.store(1, Ordering::Relaxed);
    files.edit_text("d/f", "changed", "edited").await.unwrap();
    drop(listening);
    assert_eq!(fs::read_to_string(&file).unwrap(), "edited 1\n");
}

#[tokio::test]
async fn somebody_elses_work_is_kept() {
    let (_dir, root, _) = beside_secrets();
    let files = open(&root);
    let fork = files.fork().unwrap();
    fork.write_text("d/f", "ours").await.unwrap();
    fork.write_text("new", "ours").await.unwrap();
    fork.write_text("other", "ours").await.unwrap();
    fs::write(root.join("d/f"), "theirs").unwrap();
    fs::write(root.join("new"), "theirs").unwrap();
    let error = files.merge(&*fork).unwrap_err();
    assert_eq!(error, FsError::Conflict { paths: vec![path("d/f"), path("new")] });
    assert_eq!(fs::read_to_string(root.join("d/f")).unwrap(), "theirs");
    assert_eq!(fs::read_to_string(root.join("new")).unwrap(), "theirs");
    assert!(!root.join("other").exists());
    // Deep in what the fork removed.
    let fork = files.fork().unwrap();
    files.mkdir_all("x/y/z").await.unwrap();
    fork.delete_all("x").await.unwrap();
    fs::write(root.join("x/y/z/theirs"), "kept").unwrap();
    assert_eq!(files.merge(&*fork).unwrap_err(), FsError::Conflict { paths: vec![path("x/y/z")] });
    assert_eq!(fs::read_to_string(root.join("x/y/z/theirs")).unwrap(), "kept");
    // After a snapshot.
    let mark = files.snapshot().unwrap();
    files.write_text("other", "later").await.unwrap();
    fs::write(root.join("other"), "theirs").unwrap();
    assert_eq!(files.restore(&mark).unwrap_err(), FsError::Conflict { paths: vec![path("other")] });
    assert_eq!(fs::read_to_string(root.join("other")).unwrap(), "theirs");
}

#[tokio::test]
async fn modes_are_kept_and_made() {
    let (_dir, root, _) = beside_secrets();
    let mode = |name: &str| fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o7777;
    fs::set_permissions(root.join("d/f"), PermissionsExt::from_mode(0o4751)).unwrap();
    let files = open(&root);
    files.write_text("d/f", "x").await.unwrap();
    assert_eq!(mode("d/f"), 0o4751);
    files.edit_text("d/f", "x", "y").await.unwrap();
    assert_eq!(mode("d/f"), 0o4751);
    // Whose it is, if we may say so.
    if std::os::unix::fs::chown(root.join("d/f"), Some(1234), Some(4321)).is_ok() {
        fs::set_permissions(root.join("d/f"), PermissionsExt::from_mode(0o4751)).unwrap();
        files.write_text("d/f", "x").await.unwrap();
        let fork = files.fork().unwrap();
        fork.write_text("d/f", "y").await.unwrap();
        fork.edit_text("d/f", "y", "z").await.unwrap();
        files.keep(files.merge(&*fork).unwrap());
        let about = fs::metadata(root.join("d/f")).unwrap();
        assert_eq!((about.uid(), about.gid(), about.mode() & 0o7777), (1234, 4321, 0o4751));
    } else {
        leave_out("a file of somebody else's", "it takes the superuser to give one away");
    }
    // What the system itself makes of the usual modes.
    fs::write(root.join("plain"), "").unwrap();
    fs::create_dir(root.join("plain_dir")).unwrap();
    files.write_text("n/f", "x").await.unwrap();
    assert_eq!((mode("n/f"), mode("n")), (mode("plain") & 0o644, mode("plain_dir") & 0o755));
}

// The tests run as root, to whom everything is permitted: so this one runs itself again as somebody else.
#[tokio::test]
async fn what_is_not_permitted_is_said_so() {
    const CHILD: &str = "WINK_TEST_AS_NOBODY";
    if let Some(root) = std::env::var_os(CHILD) {
        return not_permitted(Path::new(&root)).await;
    }
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("locked/d")).unwrap();
    fs::create_dir_all(root.join("closed")).unwrap();
    fs::write(root.join("unreadable"), "secret").unwrap();
    fs::write(root.join("locked/f"), "text").unwrap();
    fs::write(root.join("closed/f"), "text").unwrap();
    let is_root = fs::metadata(root).unwrap().uid() == 0;
    if is_root {
        let owned = Command::new("chown").arg("-R").arg("65534:65534").arg(root).status().unwrap();
        assert!(owned.success());
    }
    fs::set_permissions(root.join("unreadable"), PermissionsExt::from_mode(0o000)).unwrap();
    fs::set_permissions(root.join("locked"), PermissionsExt::from_mode(0o555)).unwrap();
    fs::set_permissions(root.join("closed"), PermissionsExt::from_mode(0o000)).unwrap();
    let mut child = if is_root {
        let mut child = Command::new("setpriv");
        child
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(std::env::current_exe().unwrap());
        child
    } else {
        Command::new(std::env::current_exe().unwrap())
    };
    child.args(["--exact", "host_hostile::what_is_not_permitted_is_said_so", "--nocapture"]).env(CHILD, root);
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::set_permissions(root.join("closed"), PermissionsExt::from_mode(0o755)).unwrap();
}

async fn not_permitted(root: &Path) {
    let denied = |error: FsError| match &error {
        FsError::Io { kind: ErrorKind::PermissionDenied, .. } => {
            assert!(error.to_string().to_lowercase().contains("permission denied"), "{error}");
        }
        _ => panic!("{error}"),
    };
    let base = Arc::new(open(root)) as Arc<dyn Filesystem>;
    let fork = base.fork().unwrap();
    for files in [&base, &fork] {
        denied(files.read_text("unreadable").await.unwrap_err());
        denied(files.edit_text("unreadable", "a", "b").await.unwrap_err());
        denied(files.names("closed").await.unwrap_err());
        denied(files.read_text("closed/f").await.unwrap_err());
        assert_eq!(grepped(&**files, "text").await, ["locked/f"], "what cannot be read is left out");
        assert_eq!(globbed(&**files).await, ["closed", "locked", "locked/d", "locked/f", "unreadable"]);
    }
    denied(base.write_text("locked/new", "x").await.unwrap_err());
    denied(base.write_text("locked/f", "x").await.unwrap_err());
    denied(base.delete_all("locked/f").await.unwrap_err());
    denied(base.rename_to("locked/f", "f").await.unwrap_err());
    denied(base.mkdir_all("locked/new").await.unwrap_err());
    // Before it is staged; what else the fork does is merged.
    fork.write_text("a", "x").await.unwrap();
    denied(fork.write_text("locked/new", "x").await.unwrap_err());
    base.keep(base.merge(&*fork).unwrap());
    assert_eq!(fs::read_to_string(root.join("locked/f")).unwrap(), "text");
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "x");
    assert!(!root.join("locked/new").exists());
    base.write_text("a", "the workspace still works").await.unwrap();
}

#[tokio::test]
async fn a_hundred_thousand_files_in_one_directory() {
    const FILES: usize = 100_000;
    let dir = TempDir::new().unwrap();
    let many = dir.path().join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..FILES {
        fs::write(many.join(format!("f{number:06}")), if number % 1000 == 7 { "needle\n" } else { "" })
            .unwrap();
    }
    let files = open(dir.path());
    let fork = files.fork().unwrap();
    fork.write_text("many/f000000", "changed").await.unwrap();
    fork.delete_all("many/f000001").await.unwrap();
    fork.rename_to("many", "moved").await.unwrap();
    fork.write_text("moved/new", "x").await.unwrap();
    assert_eq!(fork.list(&path("moved")).await.unwrap().len(), FILES);
    assert_eq!(fork.glob(&path("moved"), "f09999?").await.unwrap().len(), 10);
    assert_eq!(grepped(&*fork, "needle").await.len(), FILES / 1000);
    files.keep(files.merge(&*fork).unwrap());
    assert_eq!(fs::read_dir(dir.path().join("moved")).unwrap().count(), FILES);
    assert_eq!(fs::read_to_string(dir.path().join("moved/f000000")).unwrap(), "changed");
    let fork = files.fork().unwrap();
    fork.delete_all("moved").await.unwrap();
    files.keep(files.merge(&*fork).unwrap());
    assert!(!dir.path().join("moved").exists());
}

#[tokio::test]
async fn what_the_dead_left_is_cleared_up_and_what_the_living_have_is_not() {
    let dir = TempDir::new().unwrap();
    let state = dir.path().join(".wink");
    let first = open(dir.path());
    let fork = first.fork().unwrap();
    fork.write_text("a", "staged").await.unwrap();
    for path in ["owners/dead", "stage/dead/7", "layers/dead-3/upper/f"] {
        let path = state.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "left").unwrap();
    }
    let second = open(dir.path());
    assert!(!state.join("owners/dead").exists() && !state.join("stage/dead").exists());
    assert!(!state.join("layers/dead-3").exists());
    assert_eq!(fork.read_text("a").await.unwrap(), "staged");
    first.keep(first.merge(&*fork).unwrap());
    assert_eq!(second.read_text("a").await.unwrap(), "staged");
    drop((fork, first, second));
    assert_eq!(fs::read_dir(state.join("owners")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(state.join("stage")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(state.join(".gitignore")).unwrap(), "*\n");
}

#[tokio::test]
async fn a_merge_that_nobody_settles_is_settled_by_the_next() {
    for committed in [None, Some(false), Some(true)] {
        let dir = TempDir::new().unwrap();
        let options = || HostOptions {
            verdict: committed
                .map(|is| Arc::new(move |_: &_| Ok(is)) as Arc<wink::filesystem::host::HostVerdict>),
            ..HostOptions::default()
        };
        let files = HostFilesystem::open(dir.path(), options()).unwrap();
        files.write_text("a", "before").await.unwrap();
        let fork = files.fork().unwrap();
        fork.write_text("a", "after").await.unwrap();
        fork.mkdir(&path("d"), MkdirOptions::default()).await.unwrap();
        drop(files.merge(&*fork).unwrap());
        drop((fork, files));
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "after");
        let files = HostFilesystem::open(dir.path(), options()).unwrap();
        let is_kept = committed == Some(true);
        let recovered = files.recovered().unwrap();
        assert_eq!(
            (recovered.kept.len(), recovered.rolled_back.len()),
            (usize::from(is_kept), usize::from(!is_kept))
        );
        assert_eq!(files.read_text("a").await.unwrap(), if is_kept { "after" } else { "before" });
        assert_eq!(files.exists_at("d").await.unwrap(), is_kept);
    }
}

#[tokio::test]
async fn a_directory_that_is_only_looked_at_gets_no_state() {
    let (_dir, root, _) = beside_secrets();
    let options = HostOptions { read_only: true, ..HostOptions::default() };
    let files = HostFilesystem::open(&root, options).unwrap();
    assert_eq!(files.read_text("d/f").await.unwrap(), "inside\n");
    refused(files.write_text("x", "y").await, FsErrorKind::ReadOnly);
    assert!(!root.join(".wink").exists());
    refused(HostFilesystem::open(root.join("missing"), HostOptions::default()), FsErrorKind::Io);
    refused(HostFilesystem::open(root.join("d/f"), HostOptions::default()), FsErrorKind::Io);
}

const THEIR_JOB: &str = "WINK_TEST_HOSTILE_THEIR_JOB";
const THEY: u32 = 61_234;

/// What another user is told who does `job` in their workspace, in which `d` is ours and everybody may write. Between its steps,
/// which it waits with, scripts are run there.
fn told_another_user(job: &str, between: &[&str]) -> Option<(TempDir, String)> {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;

    if !rustix::process::geteuid().is_root() {
        leave_out("directories of other users", "it takes the superuser");
        return None;
    }
    let sh = |dir: &Path, script: &str| {
        assert!(Command::new("sh").args(["-ec", script]).current_dir(dir).status().unwrap().success());
    };
    let dir = TempDir::new().unwrap();
    let make = format!(
        "chmod 755 .; mkdir -p root/d; echo b > root/d/b; touch -d 2001-01-01 root/d; chown -R {THEY}:{THEY} root; \
         chown 0:0 root/d; chmod 777 root/d"
    );
    sh(dir.path(), &make);
    let executable = dir.path().join("test");
    // By another process: a copy that this one writes may be held open by what another test starts at the same time.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&executable).status().unwrap();
    assert!(copied.success());
    let mut process = Command::new(&executable)
        .args(["host_hostile::their_child", "--exact", "--nocapture"])
        .env(THEIR_JOB, format!("{job} {}", dir.path().join("root").display()))
        .current_dir("/")
        .uid(THEY)
        .gid(THEY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut between = between.iter();
    let mut told = String::new();
    for line in BufReader::new(process.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.ends_with("waits") {
            sh(dir.path(), between.next().unwrap());
            process.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        } else if let Some((_, line)) = line.split_once("told: ") {
            told = told + line + "\n";
        }
    }
    assert!(process.wait().unwrap().success(), "{told}");
    assert_eq!(between.next(), None);
    Some((dir, told))
}

/// Not a test by itself: what another user does.
#[test]
fn their_child() {
    let Ok(job) = std::env::var(THEIR_JOB) else { return };
    let (job, root) = job.split_once(' ').unwrap();
    let wait = || {
        println!("waits");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let files = open(Path::new(root));
        let fork = files.fork().unwrap();
        match job {
            "write" => drop(fork.write_text("d/new", "new").await.unwrap()),
            _ => fork.delete(&path("d/b"), DeleteMode::Single).await.unwrap(),
        }
        let receipt = files.merge(&*fork).unwrap();
        wait();
        println!("told: {:?}", files.unmerge(receipt).map_err(|error| error.kind()));
        println!("told: {:?}", files.write_text("again", "").await.map(drop).map_err(|error| error.kind()));
        println!("told: {:?}", files.take_report().aside);
        wait();
        drop((fork, files));
        let files = open(Path::new(root));
        println!("told: {:?}", files.recovered().unwrap().aside);
        files.write_text("again", "").await.unwrap();
    });
}

#[test]
fn mode_and_time_of_a_directory_of_another_user_are_left_and_told() {
    let Some((dir, told)) = told_another_user("write", &["true", "true"]) else { return };
    let left = "[KeptAside { path: \"d\", aside: None }]";
    assert_eq!(told, format!("Err(LeftAlone)\nOk(())\n{left}\n[]\n"));
    let d = dir.path().join("root/d");
    assert_eq!(fs::read_dir(&d).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn without_the_right_to_put_a_file_back_nothing_is_called_undone() {
    let between = ["chmod 755 root/d", "chmod 777 root/d"];
    let Some((dir, told)) = told_another_user("delete", &between) else { return };
    let left = "[KeptAside { path: \"d\", aside: None }]";
    assert_eq!(told, format!("Err(NotUndone)\nErr(NotUndone)\n[]\n{left}\n"));
    assert_eq!(fs::read_to_string(dir.path().join("root/d/b")).unwrap(), "b\n");
}
