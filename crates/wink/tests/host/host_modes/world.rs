//! A workspace of an ordinary user, and the processes of that user.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tempfile::TempDir;
use wink::filesystem::host::{Capture, HostFilesystem, HostOptions};
use wink::filesystem::{
    DeleteMode, Filesystem, FilesystemExt, FsPath, MergedBy, MkdirOptions, Revert, UndoForce, WriteOptions,
};
use wink::limits::CancelToken;
use wink::store::JournalId;
use wink::testing::{leave_out, steps};

use crate::overlay;

/// An ordinary user, and the group of the same number.
pub(crate) const USER: u32 = 61_234;
/// Another group that the user is in, and one that they are not in.
pub(crate) const TEAM: u32 = 61_235;
pub(crate) const OTHERS: u32 = 61_299;
const JOB: &str = "WINK_TEST_MODES_JOB";

const SEED: &str = "mkdir -p m/s r/sub k; echo one > m/f1; echo two > m/s/f2; echo a > a; echo x > r/x; echo y > r/sub/y; \
                    echo z > k/z; echo secret > secret; chmod 0 secret; chmod 555 r/sub r; chmod 0 k; \
                    find . -depth -exec touch -h -d 2001-01-01 {} +";

pub(crate) fn sh(root: &Path, script: &str) {
    let script = format!("set -e\n{script}");
    let done = Command::new("sh").args(["-c", &script]).current_dir(root).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

pub(crate) fn said(root: &Path, script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).current_dir(root).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Everything in the workspace: kind, mode, owner, time, and what is in files. As the superuser sees it.
pub(crate) fn dump(root: &Path, times: &str) -> String {
    let list = format!(
        "find . -path ./.wink -prune -o -printf '%p %y %m %U:%G {times} %l\\n' | sort | sed '/^\\. /d'; \
         find . -path ./.wink -prune -o -type f -print | sort | xargs grep . /dev/null"
    );
    said(root, &list)
}

/// A copy of this test that everybody may run.
fn executable() -> &'static Path {
    static COPY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = COPY.get_or_init(|| {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("test");
        sh(dir.path(), &format!("chmod 755 .; cp '{}' test", std::env::current_exe().unwrap().display()));
        (dir, path)
    });
    path
}

/// A workspace of the user's.
pub(crate) struct World {
    dir: TempDir,
    pub(crate) capture: Capture,
}

/// How a process of the user's ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Ended {
    /// With what it said.
    Well(String),
    /// By the step that it was to be killed at.
    Killed(String),
}

impl World {
    pub(crate) fn new(capture: Capture) -> Self {
        let dir = TempDir::new().unwrap();
        sh(dir.path(), "chmod 755 .; mkdir w w/root");
        sh(&dir.path().join("w/root"), SEED);
        sh(dir.path(), &format!("chown -hR {USER}:{USER} w"));
        Self { dir, capture }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("w/root")
    }

    /// How many commits the store of the user has.
    pub(crate) fn commits(&self) -> usize {
        std::fs::read_to_string(self.dir.path().join("w/committed")).map_or(0, |text| text.lines().count())
    }

    /// A process that does a job as the user.
    pub(crate) fn process(&self, job: &str, kill_at: &str) -> Command {
        let mut process = Command::new("setpriv");
        process
            .args([format!("--reuid={USER}"), format!("--regid={USER}"), format!("--groups={TEAM}")])
            .args(["--inh-caps=-all", "--"])
            .arg(executable())
            .args(["host_modes::world::user_child", "--exact", "--nocapture"])
            .env(JOB, format!("{}\n{}\n{kill_at}\n{job}", self.root().display(), self.capture))
            .current_dir("/");
        process
    }

    /// Does a job as the user, who is killed at the step with this number.
    pub(crate) fn user(&self, job: &str, kill_at: usize) -> Ended {
        let output = self.process(job, &kill_at.to_string()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = |mark: &str| -> Vec<String> {
            text.lines().filter_map(|line| Some(line.split_once(mark)?.1.to_owned())).collect()
        };
        if output.status.signal() == Some(9) {
            return Ended::Killed(told("killed at: ").join(" "));
        }
        assert!(output.status.success(), "{job}: {text}{}", String::from_utf8_lossy(&output.stderr));
        Ended::Well(told("told: ").join("\n"))
    }

    pub(crate) fn done(&self, job: &str) -> String {
        match self.user(job, 0) {
            Ended::Well(told) => told,
            killed => panic!("{killed:?}"),
        }
    }
}

pub(crate) fn is_superuser() -> bool {
    let can = rustix::process::geteuid().is_root();
    if !can {
        leave_out("an ordinary user", "it takes the superuser to become another user");
    }
    can
}

pub(crate) fn captures() -> Vec<Capture> {
    if overlay::works() { vec![Capture::Overlay, Capture::Scan] } else { vec![Capture::Scan] }
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

// --- what the user does ------------------------------------------------------------------------------------------------

/// The last change of a workspace.
fn last(root: &Path) -> String {
    let names = std::fs::read_dir(root.join(".wink/journal")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.last().unwrap().split('.').next().unwrap().splitn(3, '-').last().unwrap().to_owned()
}

/// Not a test by itself: what the user does.
#[test]
fn user_child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let mut parts = job.splitn(5, '\n');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (root, capture, kill_at, what, script) = (PathBuf::from(next()), next(), next(), next(), next());
    let count = AtomicUsize::new(0);
    if kill_at == "wait" {
        // When the directory of the workspace itself is lifted, and not that of a layer.
        let closed = root.join("k");
        steps::on_every_step(move |step| {
            let is_lifted = || closed.metadata().unwrap().permissions().mode() & 0o777 == 0o700;
            if step == "disk.lifted" && is_lifted() && count.fetch_add(1, Ordering::Relaxed) == 0 {
                println!("waiting");
                std::io::stdin().read_line(&mut String::new()).unwrap();
            }
        });
    } else if let kill_at @ 1.. = kill_at.parse::<usize>().unwrap() {
        steps::on_every_step(move |step| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == kill_at {
                println!("killed at: {step}");
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                    .unwrap();
            }
        });
    }
    let capture = if capture == "scan" { Capture::Scan } else { Capture::Overlay };
    let committed = root.parent().unwrap().join("committed");
    let store = {
        let committed = committed.clone();
        Arc::new(move |id: &JournalId| {
            let known = std::fs::read_to_string(&committed).unwrap_or_default();
            Ok(known.lines().any(|line| line == id.to_string()))
        })
    };
    let mut options = HostOptions { capture: Some(capture), verdict: Some(store), ..HostOptions::default() };
    match what.as_str() {
        "beside" => options.lock_timeout = Duration::ZERO,
        "capture" => options.capture = None,
        _ => {}
    }
    let files = match HostFilesystem::open(&root, options) {
        Err(error) if what == "beside" => return println!("told: not opened: {error}"),
        files => files.unwrap(),
    };
    let command_on = |fork: Arc<dyn Filesystem>| {
        let layer = HostFilesystem::of(&*fork).unwrap().command_layer_by(capture).unwrap();
        match capture {
            Capture::Overlay => _ = overlay::sh(&layer, &script),
            Capture::Scan => sh(&root, &script),
        }
        (fork, layer)
    };
    let command = || command_on(files.fork().unwrap());
    let merge = |fork: &Arc<dyn Filesystem>| {
        let receipt = files.merge(&**fork).unwrap();
        let mut store = std::fs::File::options().append(true).create(true).open(&committed).unwrap();
        writeln!(store, "{}", last(&root)).unwrap();
        files.keep(receipt);
    };
    match what.as_str() {
        "open" => {}
        "fail" => {
            let (fork, layer) = command();
            layer.undo().unwrap();
            drop(fork);
        }
        "commit" => {
            let (fork, layer) = command();
            layer.finish().unwrap();
            merge(&fork);
        }
        "alone" => {
            let fork = files.fork().unwrap();
            let turn = block(fork.write_turn(None)).unwrap().unwrap();
            fork.enter_turn(&turn);
            let (fork, layer) = command_on(fork);
            layer.finish().unwrap();
            assert!(!fork.changes().contains(&FsPath::root()), "{:?}", fork.changes());
            merge(&fork);
        }
        "beside" => println!("told: opened"),
        "refused" => {
            let (_fork, layer) = command();
            println!("told: {}", layer.finish().unwrap_err());
        }
        "roll back" => {
            let (fork, layer) = command();
            layer.finish().unwrap();
            files.unmerge(files.merge(&*fork).unwrap()).unwrap();
        }
        "undo" => {
            let journal =
                std::fs::read_to_string(&committed).unwrap().lines().last().unwrap().parse().unwrap();
            let fork = files.fork().unwrap();
            let revert = [Revert { journal, by: MergedBy::Call }];
            let reverted = block(fork.revert(&revert, UndoForce::Refuse)).unwrap();
            assert_eq!((reverted.changed, reverted.left, reverted.forgotten), (vec![], vec![], vec![]));
            assert!(!reverted.files.is_empty());
            // It is known what is undone, also where it is closed.
            assert!(!fork.changes().contains(&FsPath::root()), "{:?}", fork.changes());
            merge(&fork);
        }
        "tools" => {
            let path = |path: &str| FsPath::parse(path, files.limits()).unwrap();
            let fork = files.fork().unwrap();
            let refused = [
                block(fork.write_text("r/new", "")).err(),
                block(fork.write_text("r/x", "changed")).err(),
                block(fork.delete(&path("r/x"), DeleteMode::Single)).err(),
                block(fork.mkdir(&path("r/dir"), MkdirOptions::default())).err(),
                block(fork.rename(&path("r/sub"), &path("sub"))).err(),
                block(fork.write_text("k/z", "")).err(),
            ];
            for refused in refused {
                println!("told: {}", refused.unwrap());
            }
        }
        "write" => {
            let fork = files.fork().unwrap();
            for path in script.split(' ') {
                let path = FsPath::parse(path, files.limits()).unwrap();
                let options = WriteOptions { create_parents: true, ..WriteOptions::default() };
                if let Err(error) = block(fork.write(&path, b"written", options)) {
                    println!("told: {error}");
                }
            }
            merge(&fork);
        }
        "capture" => {
            let fork = files.fork().unwrap();
            let layer = HostFilesystem::of(&*fork).unwrap().command_layer(&CancelToken::new(), |_| Ok(()));
            println!("told: {}", layer.unwrap().capture());
        }
        "use" => {
            // The next process can do anything: by the file tools, and by a command.
            block(files.write_text("again", "")).unwrap();
            let fork = files.fork().unwrap();
            let layer = HostFilesystem::of(&*fork).unwrap().command_layer_by(capture).unwrap();
            match capture {
                Capture::Overlay => _ = overlay::sh(&layer, "rm again"),
                Capture::Scan => sh(&root, "rm again"),
            }
            layer.finish().unwrap();
            files.keep(files.merge(&*fork).unwrap());
        }
        other => panic!("{other}"),
    }
}

/// What a script leaves where there is no runtime.
pub(crate) fn left_by(script: &str) -> String {
    let world = World::new(Capture::Scan);
    let done = Command::new("sh")
        .args(["-ec", script])
        .current_dir(world.root())
        .uid(USER)
        .gid(USER)
        .status()
        .unwrap();
    assert!(done.success(), "{script}");
    dump(&world.root(), "")
}
