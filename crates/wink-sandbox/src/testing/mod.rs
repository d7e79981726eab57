//! What every sandbox must do, as one function to run on any implementation.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a contract suite says what is broken by panicking"
)]

mod behaviour;
mod calls;
mod escapes;

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wink::limits::Clock;

use crate::capabilities::{Capabilities, Scratch};
use crate::error::SandboxError;
use crate::launch::{Command, Ended, Finished};
use crate::limits::Limits;
use wink::filesystem::STATE;
use wink::filesystem::host::OverlayDirs;

use crate::overlay::{OverlayKind, WorkspaceView};
use crate::sandbox::{Job, Sandbox};

/// Runs the whole contract on sandboxes that `make` makes, escape attempts included: each has to be stopped, or the
/// limit that would stop it refused when the sandbox is made. Returns the limits that were refused.
///
/// Everything is run twice: in a workspace that is overlaid, and in the directory itself, as it is where what commands do is found
/// out by a scan.
///
/// What is run needs a shell and the usual small programs in the sandbox, such as those of busybox. Needs a Tokio runtime with
/// time, and a clock that goes.
///
/// # Panics
///
/// When the implementation breaks the contract; the text says where.
pub async fn sandbox_contract<S, F>(make: impl Fn(Limits) -> F, clock: Arc<dyn Clock>) -> Vec<&'static str>
where
    S: Sandbox,
    F: Future<Output = Result<S, SandboxError>>,
{
    let mut limits = Limits {
        memory: Some(64 * 1024 * 1024),
        cpu: Some(1.0),
        processes: Some(24),
        time: Duration::from_secs(30),
        temporary: 8 * 1024 * 1024,
        file: Some(2 * 1024 * 1024),
        ..Limits::default()
    };
    let mut refused = Vec::new();
    let sandbox = loop {
        match make(limits.clone()).await {
            Ok(sandbox) => break sandbox,
            Err(SandboxError::Unenforceable { limit, reason, advice }) => {
                assert!(!reason.is_empty() && !advice.is_empty(), "{limit}: it says why, and what to do");
                match limit {
                    "memory" => limits.memory = None,
                    "cpu" => limits.cpu = None,
                    "processes" => limits.processes = None,
                    other => panic!("a limit on {other} was refused"),
                }
                refused.push(limit);
            }
            Err(error) => panic!("no sandbox: {error}"),
        }
    };
    assert!(!sandbox.report().findings.is_empty());
    let overlay = match Capabilities::detect().overlay {
        Some(_) => Some(View::Overlay),
        None => {
            wink::testing::leave_out("sandboxes with an overlay", &Capabilities::detect().why_no_overlay);
            None
        }
    };
    for view in overlay.into_iter().chain([View::Direct]) {
        let bench = Bench { sandbox: &sandbox, view, clock: Arc::clone(&clock) };
        behaviour::check(&bench).await;
        escapes::check(&bench).await;
    }
    if limits.cpu.is_some() {
        let sandbox = make(Limits { cpu: Some(0.2), ..limits }).await.unwrap();
        escapes::check_processors(&Bench { sandbox: &sandbox, view: View::Direct, clock }).await;
    }
    refused
}

/// How the workspace is shown to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Overlay,
    Direct,
}

/// A sandbox under test.
struct Bench<'a> {
    sandbox: &'a dyn Sandbox,
    view: View,
    clock: Arc<dyn Clock>,
}

/// A workspace with a secret beside it and one inside.
struct World {
    scratch: Scratch,
    dirs: OverlayDirs,
    view: View,
}

const SECRET: &str = "nobody may read this";

impl World {
    fn new(view: View) -> Self {
        let scratch = Scratch::fresh().unwrap();
        let at = |name: &str| {
            let dir = scratch.path().join(name);
            fs::create_dir_all(&dir).unwrap();
            dir
        };
        let dirs = OverlayDirs {
            lower: at("workspace"),
            upper: at("workspace/.wink/layers/1/upper"),
            work: at("workspace/.wink/layers/1/work"),
            state_name: STATE,
            user_xattr: Capabilities::detect().overlay == Some(OverlayKind::User),
        };
        fs::write(dirs.lower.join("file"), "old\n").unwrap();
        fs::create_dir_all(dirs.lower.join("dir/below")).unwrap();
        fs::write(dirs.lower.join(".wink/secret"), SECRET).unwrap();
        at("elsewhere");
        let world = Self { scratch, dirs, view };
        fs::write(world.elsewhere().join("secret"), SECRET).unwrap();
        world
    }

    fn elsewhere(&self) -> PathBuf {
        self.scratch.path().join("elsewhere")
    }

    fn workspace(&self) -> WorkspaceView {
        match self.view {
            View::Overlay => WorkspaceView::Overlay(self.dirs.clone()),
            View::Direct => WorkspaceView::Direct {
                root: self.dirs.lower.clone(),
                state_name: Some(".wink".to_owned()),
                record: None,
            },
        }
    }

    /// Where a change of the command is now.
    fn changed(&self, path: &str) -> PathBuf {
        match self.view {
            View::Overlay => self.dirs.upper.join(path),
            View::Direct => self.dirs.lower.join(path),
        }
    }

    fn shell(&self, text: impl Into<String>) -> Job {
        Job::new(Command::Shell(text.into()), self.workspace())
    }
}

impl Bench<'_> {
    fn world(&self) -> World {
        World::new(self.view)
    }

    async fn run(&self, job: Job) -> Finished {
        self.try_run(job).await.unwrap_or_else(|error| panic!("{}: {error}", self.sandbox.name()))
    }

    async fn try_run(&self, job: Job) -> Result<Finished, SandboxError> {
        self.sandbox.run(job, &self.clock).await
    }

    /// Runs a shell text in a fresh world; exit code and standard output.
    async fn sh(&self, text: &str) -> (i32, String) {
        let finished = self.run(self.world().shell(text)).await;
        (finished.ended.code(), said(&finished))
    }
}

fn said(finished: &Finished) -> String {
    finished.stdout.text(1_000_000).0
}

fn complained(finished: &Finished) -> String {
    finished.stderr.text(1_000_000).0
}

/// Whether a process of the machine has this text among its arguments.
fn is_running(mark: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).any(|line| line.contains(mark))
}

/// A text that no other process has among its arguments.
fn mark(what: &str, sandbox: &dyn Sandbox) -> String {
    let scratch = Scratch::fresh().unwrap();
    let unique = scratch.path().file_name().unwrap().to_string_lossy().into_owned();
    format!("{what}-{}-{unique}", sandbox.name())
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn timed_out(finished: &Finished) -> bool {
    finished.ended == Ended::TimedOut && finished.ended.code() == 124
}
