//! Processes that are killed while their command works in the workspace itself, and others that wait for it.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is broken by panicking"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use wink::filesystem::Filesystem;
use wink::filesystem::host::{Capture, HostFilesystem, HostOptions};
use wink::limits::{Clock, SystemClock};
use wink_sandbox::tool::{HostLayers, WorkspaceLayers};
use wink_sandbox::{Job, Launch, LaunchError, Limits, NamespaceSandbox, Sandbox, Tree};

const JOB: &str = "WINK_TEST_KILLED_JOB";

/// Processes that write without end, in sessions of their own and orphaned, beside the command itself.
const SCRIPT: &str = r#"
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    (I=$i setsid sh -c 'n=0; while :; do n=$((n+1)); echo $n > new-$I-$n; echo $n >> old; mkdir -p sub/d$I; done' &)
done
while ! test -e new-12-5; do sleep 0.001; done
touch ready
n=0; while :; do n=$((n+1)); echo $n > mine-$n; rm -rf sub/a; done
"#;

/// Writes without end.
const WRITE: &str = "n=0; while :; do n=$((n+1)); echo $n > new; echo $n > old; rm -rf sub; done";

/// Commands that kill the process that keeps them together, while something of them goes on writing: the command itself, one in
/// another session, one that knows nothing of its environment, and one that has neither of these but a parent.
fn killers() -> [String; 4] {
    let writes = "while ! test -e new; do sleep 0.001; done";
    [
        format!("kill -9 $PPID; {WRITE}"),
        format!("(setsid sh -c '{WRITE}' &); {writes}; kill -9 $PPID"),
        format!("(env -i sh -c '{WRITE}' &); {writes}; kill -9 $PPID"),
        format!("env -i setsid sh -c '{WRITE}' & {writes}; kill -9 $PPID; {WRITE}"),
    ]
}

/// Kills that process, and the one that started it.
fn orphans() -> String {
    format!(
        "(setsid sh -c '{WRITE}' &); while ! test -e new; do sleep 0.001; done
         read -r stat < /proc/$PPID/stat; set -- $stat; kill -STOP $4; kill -9 $PPID; kill -9 $4; {WRITE}"
    )
}

fn options() -> HostOptions {
    HostOptions { capture: Some(Capture::Scan), ..HostOptions::default() }
}

async fn work(root: &Path, kind: &str) {
    let files = HostFilesystem::open(root, options()).unwrap();
    let fork = files.fork().unwrap();
    let layer = HostLayers.layer(&fork).await.unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    if kind == "sandbox" {
        let sandbox = NamespaceSandbox::new(Limits::default()).unwrap();
        let job = Job::new(wink_sandbox::Command::Shell(SCRIPT.to_owned()), layer.workspace());
        let finished = sandbox.run(job, &clock).await;
        panic!("it ended: {finished:?}");
    }
    let tree = if kind == "best" { Tree::Best } else { Tree::Reaper };
    let script = if kind == "orphans" { orphans() } else { SCRIPT.to_owned() };
    let launch = Launch::shell(script, root).workspace(layer.workspace()).tree(tree);
    let finished = launch.run(&clock).await;
    panic!("it ended: {finished:?}");
}

/// Not a test by itself: this is what the processes do that are killed.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let (kind, root) = job.split_once(' ').unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work(Path::new(root), kind));
}

/// One that is killed at the end of the test at the latest.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(root: &Path, kind: &str) -> Started {
    let started = Command::new(std::env::current_exe().unwrap())
        .args(["killed::child", "--exact", "--nocapture"])
        .env(JOB, format!("{kind} {}", root.display()))
        .stdout(std::process::Stdio::null())
        .spawn();
    Started(started.unwrap())
}

/// Everything in the workspace, and what is in it.
fn contents(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path == root.join(".wink") {
                continue;
            }
            if path.is_dir() {
                left.push(path.clone());
            }
            // A command that is still at it may remove it just now.
            let content = path.is_file().then(|| fs::read(&path).ok()).flatten();
            found.insert(path.strip_prefix(root).unwrap().to_owned(), content);
        }
    }
    found
}

async fn pause(milliseconds: u64) {
    SystemClock.sleep_until(SystemClock.monotonic() + Duration::from_millis(milliseconds)).await;
}

fn workspace() -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("workspace");
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(root.join("old"), "old\n").unwrap();
    fs::write(root.join("sub/a"), "a").unwrap();
    (place, root)
}

async fn killed_while_another_waits(kind: &str, rounds: usize) {
    for round in 0..rounds {
        let (_place, root) = workspace();
        let before = contents(&root);

        let mut child = start(&root, kind);
        while !root.join("ready").exists() {
            assert_eq!(child.0.try_wait().unwrap(), None, "it ended before");
            pause(2).await;
        }
        assert_ne!(contents(&root), before, "round {round}");
        let theirs = root.clone();
        let waiting = std::thread::spawn(move || HostFilesystem::open(theirs, options()));
        pause(5).await;
        assert!(!waiting.is_finished(), "round {round}: the workspace is not held");
        child.0.kill().unwrap();
        let files = waiting.join().unwrap().unwrap();
        let restored = contents(&root);
        child.0.wait().unwrap();
        assert_eq!(restored, before, "round {round}");
        assert_eq!(files.recovered().unwrap().trash.len(), 1);
        pause(20).await;
        assert_eq!(contents(&root), before, "round {round}, later");
    }
}

#[tokio::test]
async fn a_command_of_a_killed_process_is_over_before_the_workspace_is_restored() {
    killed_while_another_waits("best", 40).await;
}

#[tokio::test]
async fn so_is_one_without_a_process_namespace() {
    killed_while_another_waits("reaper", 40).await;
}

#[tokio::test]
async fn so_is_one_in_a_sandbox() {
    match NamespaceSandbox::new(Limits::default()) {
        Ok(_) => killed_while_another_waits("sandbox", 10).await,
        Err(error) => eprintln!("not tried: {error}"),
    }
}

#[tokio::test]
async fn what_is_left_of_a_command_without_the_process_that_kept_it_is_ended_before_it_is_undone() {
    for script in killers() {
        for round in 0..5 {
            let (_place, root) = workspace();
            let before = contents(&root);
            let files = HostFilesystem::open(&root, options()).unwrap();
            let layer = HostLayers.layer(&files.fork().unwrap()).await.unwrap();
            let launch = Launch::shell(&script, &root).workspace(layer.workspace()).tree(Tree::Reaper);
            let lost = launch.run(&(Arc::new(SystemClock) as Arc<dyn Clock>)).await.unwrap_err();
            assert!(matches!(lost, LaunchError::Lost(_)), "{lost}");
            let over = contents(&root);
            pause(5).await;
            assert_eq!(contents(&root), over, "round {round} of {script}");
            layer.undo().await.unwrap();
            assert_eq!(contents(&root), before, "round {round} of {script}");
            pause(5).await;
            assert_eq!(contents(&root), before, "round {round} of {script}, later");
        }
    }
}

#[tokio::test]
async fn what_is_left_when_both_are_killed_is_ended_by_whoever_restores_the_workspace() {
    for round in 0..10 {
        let (_place, root) = workspace();
        let before = contents(&root);
        assert!(!start(&root, "orphans").0.wait().unwrap().success());
        let files = HostFilesystem::open(&root, options()).unwrap();
        assert_eq!(contents(&root), before, "round {round}");
        assert_eq!(files.recovered().unwrap().trash.len(), 1);
        pause(5).await;
        assert_eq!(contents(&root), before, "round {round}, later");
    }
}
