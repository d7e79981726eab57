//! The tool `shell_execute`: what it takes, as far as that does not need a sandbox.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wink::BoxFuture;
use wink::executor::{CallOptions, Escalation};
use wink::filesystem::host::Undone;
use wink::filesystem::{Filesystem, FilesystemExt, FsError, MemoryFilesystem};
use wink::limits::Clock;
use wink::prelude::*;
use wink::resource::Binding;
use wink::serde_json::{Value, json};
use wink::session::{Ending, InvocationId};
use wink::testing::FakeClock;
use wink::tool::Progress;
use wink_sandbox::tool::{HostLayers, LayerError, WorkspaceLayer, WorkspaceLayers, shell_execute};
use wink_sandbox::{
    Command, Ended, Finished, Job, LaunchError, Limits, Output, Report, Sandbox, SandboxError, WorkspaceView,
};

/// Keeps what it was asked to run, and says that it ended as it was told to.
struct Fake {
    limits: Limits,
    ended: Ended,
    takes: Duration,
    jobs: Mutex<Vec<Job>>,
    /// What the next one fails with, instead.
    fails: Mutex<Option<LaunchError>>,
}

impl Sandbox for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report(&self) -> Report {
        Report::default()
    }

    fn run<'a>(
        &'a self,
        job: Job,
        clock: &'a Arc<dyn Clock>,
    ) -> BoxFuture<'a, Result<Finished, SandboxError>> {
        self.jobs.lock().unwrap().push(job);
        Box::pin(async move {
            if !self.takes.is_zero() {
                clock.sleep_until(clock.monotonic() + self.takes).await;
            }
            if let Some(error) = self.fails.lock().unwrap().take() {
                return Err(error.into());
            }
            Ok(Finished {
                ended: self.ended,
                stdout: Output::default(),
                stderr: Output::default(),
                duration: Duration::from_millis(1500),
                memory_exhausted: false,
            })
        })
    }
}

/// A layer that writes one file when it is taken over.
struct OneFile;

struct Layer(Arc<dyn Filesystem>);

impl WorkspaceLayers for OneFile {
    fn layer<'a>(
        &'a self,
        files: &'a Arc<dyn Filesystem>,
    ) -> BoxFuture<'a, Result<Box<dyn WorkspaceLayer>, LayerError>> {
        let layer: Box<dyn WorkspaceLayer> = Box::new(Layer(Arc::clone(files)));
        Box::pin(std::future::ready(Ok(layer)))
    }
}

impl WorkspaceLayer for Layer {
    fn workspace(&self) -> WorkspaceView {
        WorkspaceView::Direct { root: "/nowhere".into(), state_name: None, record: None }
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<(), LayerError>> {
        Box::pin(async move {
            self.0.write_text("made", "by a command").await?;
            Ok(())
        })
    }

    fn undo(self: Box<Self>) -> BoxFuture<'static, Result<Undone, LayerError>> {
        let lost = vec![self.0.path("run/socket").unwrap()];
        let undone = Undone { trash: Some(".wink/trash/scan-1".into()), lost };
        Box::pin(std::future::ready(Ok(undone)))
    }
}

struct World {
    fake: Arc<Fake>,
    files: Arc<MemoryFilesystem>,
    executor: Executor,
}

impl World {
    async fn new(ended: Ended, layers: Arc<dyn WorkspaceLayers>) -> Self {
        Self::taking(Duration::ZERO, ended, layers, &Session::new()).await
    }

    /// With commands that take so long.
    async fn taking(
        takes: Duration,
        ended: Ended,
        layers: Arc<dyn WorkspaceLayers>,
        session: &Session,
    ) -> Self {
        let fake = Arc::new(Fake {
            limits: Limits::default(),
            ended,
            takes,
            jobs: Mutex::default(),
            fails: Mutex::default(),
        });
        let files = Arc::new(MemoryFilesystem::new());
        let section = Section::markdown("shell", "Shell")
            .body("Run programs.")
            .resource(Binding::filesystem(files.clone()))
            .tool(shell_execute(fake.clone(), layers));
        let prompt = PromptTemplate::builder("tests", "shell").section(section).build().unwrap().prompt();
        let executor = Executor::open(&prompt, session).await.unwrap();
        Self { fake, files, executor }
    }

    async fn call(&self, arguments: Value) -> Outcome {
        self.executor.call(ToolCall::new("call", "shell_execute", arguments.to_string())).await
    }
}

// case 175
#[tokio::test]
async fn what_is_too_much_is_rejected_before_anything_runs() {
    let world = World::new(Ended::Exited(0), Arc::new(OneFile)).await;
    let variables = |count: usize| -> BTreeMap<String, String> {
        (0..count).map(|number| (format!("V{number}"), "x".to_owned())).collect()
    };
    let refused = [
        (json!({ "command": [] }), "command"),
        (json!({ "command": ["ls", "  "] }), "command[1] is blank"),
        (json!({ "command": ["", "x"] }), "command[0] is blank"),
        (json!({ "command": ["x".repeat(4097)] }), "4097 characters"),
        (json!({ "command": ["x".repeat(4000), "ä".repeat(97)] }), "4097 characters"),
        (json!({ "command": ["a\0b"] }), "zero byte"),
        (json!({ "command": ["ls"], "env": variables(65) }), "65 entries"),
        (json!({ "command": ["ls"], "env": { "A": "x".repeat(513) } }), "513 characters"),
        (json!({ "command": ["ls"], "env": { "A=B": "x" } }), "env has the name"),
        (json!({ "command": ["ls"], "env": { "": "x" } }), "env has the name"),
        (json!({ "command": ["ls"], "env": { "1A": "x" } }), "env has the name"),
        (json!({ "command": ["ls"], "cwd": "/etc" }), "cwd is"),
        (json!({ "command": ["ls"], "cwd": "a/../../b" }), "cwd is"),
        (json!({ "command": ["ls"], "cwd": ".." }), "cwd is"),
        (json!({ "command": ["ls"], "stdin": "x".repeat(65_537) }), "stdin has"),
        (json!({ "command": ["ls"], "timeout": 0 }), "timeout"),
        (json!({ "command": ["ls"], "timeout": 121 }), "timeout is 121 seconds"),
        (json!({ "command": "ls" }), "command"),
    ];
    for (arguments, expected) in refused {
        let outcome = world.call(arguments.clone()).await;
        assert!(
            !outcome.is_success() && outcome.text().contains(expected),
            "{arguments}: {}",
            outcome.text()
        );
    }
    assert!(world.fake.jobs.lock().unwrap().is_empty());
    assert!(!world.files.exists(&world.files.path("made").unwrap()).await.unwrap());
}

// case 175
#[tokio::test]
async fn what_is_just_allowed_is_run() {
    let world = World::new(Ended::Exited(0), Arc::new(OneFile)).await;
    let env: BTreeMap<String, String> =
        (0..64).map(|number| (format!("V{number}"), "x".repeat(512))).collect();
    let command = json!(["x".repeat(4000), "ä".repeat(96)]);
    let arguments =
        json!({ "command": command, "env": env, "cwd": "./a//b/", "stdin": "in", "timeout": 120 });
    let outcome = world.call(arguments).await;
    assert_eq!((outcome.is_success(), outcome.text()), (true, "exit code 0"));
    let jobs = world.fake.jobs.lock().unwrap();
    let [job] = &jobs[..] else { panic!("one job: {jobs:?}") };
    let words = Command::Program { program: "x".repeat(4000).into(), args: vec!["ä".repeat(96).into()] };
    assert_eq!((&job.command, job.cwd.as_str(), &job.env), (&words, "a/b", &env));
    assert_eq!((job.stdin.as_deref(), job.time), (Some(&b"in"[..]), Some(Duration::from_secs(120))));
}

#[tokio::test]
async fn a_workspace_that_is_not_on_disk_is_refused() {
    let world = World::new(Ended::Exited(0), Arc::new(HostLayers)).await;
    let outcome = world.call(json!({ "command": ["ls"] })).await;
    assert!(
        !outcome.is_success() && outcome.text().contains("not a directory on disk"),
        "{}",
        outcome.text()
    );
    assert!(world.fake.jobs.lock().unwrap().is_empty());
}

/// Whether a call with a command that ended like this succeeded, and whether what it did is there.
async fn stays(ended: Ended, undo_on_failure: bool) -> (bool, bool) {
    let world = World::new(ended, Arc::new(OneFile)).await;
    let outcome = world.call(json!({ "command": ["ls"], "undo_on_failure": undo_on_failure })).await;
    let there = world.files.exists(&world.files.path("made").unwrap()).await.unwrap();
    (outcome.is_success(), there)
}

// case 178
#[tokio::test]
async fn an_exit_code_is_an_answer_unless_it_is_to_be_undone() {
    assert_eq!(stays(Ended::Exited(0), false).await, (true, true));
    assert_eq!(stays(Ended::Exited(0), true).await, (true, true));
    assert_eq!(stays(Ended::Exited(3), false).await, (true, true));
    assert_eq!(stays(Ended::Exited(3), true).await, (false, false));
    assert_eq!(stays(Ended::Signalled(9), false).await, (true, true));
    assert_eq!(stays(Ended::Signalled(9), true).await, (false, false));
    assert_eq!(stays(Ended::TimedOut, false).await, (false, false));
    assert_eq!(stays(Ended::Cancelled, false).await, (false, false));
}

#[tokio::test]
async fn what_became_of_an_undone_command_is_told() {
    let world = World::new(Ended::Exited(3), Arc::new(OneFile)).await;
    let outcome = world.call(json!({ "command": ["ls"], "undo_on_failure": true })).await;
    for expected in ["kept for a while in .wink/trash/scan-1", "cannot be brought back: run/socket."] {
        assert!(outcome.text().contains(expected), "{}", outcome.text());
    }
    let kept = world.call(json!({ "command": ["ls"] })).await;
    assert!(!kept.text().contains("trash"), "{}", kept.text());
}

/// A layer that can neither be taken over nor undone.
struct Spoilt;

impl WorkspaceLayers for Spoilt {
    fn layer<'a>(
        &'a self,
        _: &'a Arc<dyn Filesystem>,
    ) -> BoxFuture<'a, Result<Box<dyn WorkspaceLayer>, LayerError>> {
        let layer: Box<dyn WorkspaceLayer> = Box::new(Self);
        Box::pin(std::future::ready(Ok(layer)))
    }
}

fn gone() -> LayerError {
    FsError::NotUndone { left: Vec::new(), reason: "what was saved of src is gone".to_owned() }.into()
}

impl WorkspaceLayer for Spoilt {
    fn workspace(&self) -> WorkspaceView {
        WorkspaceView::Direct { root: "/nowhere".into(), state_name: None, record: None }
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<(), LayerError>> {
        Box::pin(std::future::ready(Err(gone())))
    }

    fn undo(self: Box<Self>) -> BoxFuture<'static, Result<Undone, LayerError>> {
        Box::pin(std::future::ready(Err(gone())))
    }
}

/// It is an error of its own kind, whether the command succeeded or not, and nothing is called undone.
#[tokio::test]
async fn what_cannot_be_undone_is_a_failed_restore() {
    for (code, expected) in [
        (0, "what was saved of src is gone"),
        (3, "The command exited with 3. Not everything could be restored: what was saved of src is gone"),
    ] {
        let world = World::new(Ended::Exited(code), Arc::new(Spoilt)).await;
        let outcome = world.call(json!({ "command": ["ls"], "undo_on_failure": true })).await;
        assert_eq!(outcome.text(), expected);
        assert!(
            matches!(&outcome.escalation, Some(Escalation::Restore(error)) if error.reason == "what was saved of src is gone"),
            "{:?}",
            outcome.escalation
        );
        assert_eq!(outcome.event.ending, Ending::NotRestored);
    }
}

/// It ran, so it is not said that it could not be run.
#[tokio::test]
async fn a_command_that_was_lost_is_said_to_be() {
    let world = World::new(Ended::Exited(0), Arc::new(OneFile)).await;
    *world.fake.fails.lock().unwrap() = Some(LaunchError::Lost("somebody killed it".to_owned()));
    let outcome = world.call(json!({ "command": ["ls"] })).await;
    for expected in ["The command was lost", "What it changed in the workspace is undone.", "scan-1"] {
        assert!(outcome.text().contains(expected), "{}", outcome.text());
    }
    let source = std::io::Error::from(rustix::io::Errno::MFILE);
    *world.fake.fails.lock().unwrap() = Some(LaunchError::Surroundings { what: "making its pipes", source });
    let outcome = world.call(json!({ "command": ["ls"] })).await;
    assert!(outcome.text().contains("raised (ulimit -n)"), "{}", outcome.text());
}

/// What a call said of how far it was.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Progress for Told {
    fn progress(&self, _: InvocationId, done: f64, total: Option<f64>, message: &str) {
        self.0.lock().unwrap().push(format!("{done} {total:?} {message}"));
    }

    fn partial(&self, _: InvocationId, _: &str) {}
}

#[tokio::test]
async fn a_command_that_takes_long_says_so_every_second() {
    let clock = Arc::new(FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
    let session = Session::builder().clock(Arc::clone(&clock) as _).build();
    let takes = Duration::from_millis(3500);
    let world = World::taking(takes, Ended::Exited(0), Arc::new(OneFile), &session).await;
    let told = Arc::new(Told::default());
    let options = CallOptions::new().progress(Arc::clone(&told) as _);
    let call = ToolCall::new("call", "shell_execute", json!({ "command": ["make"] }).to_string());
    let mut calling = std::pin::pin!(world.executor.call_with(call, options));
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut calling => break outcome,
            () = tokio::task::yield_now() => clock.advance(Duration::from_millis(500)),
        }
    };
    assert!(outcome.is_success(), "{}", outcome.text());
    let told = told.0.lock().unwrap();
    assert_eq!(*told, ["1 None running for 1 s", "2 None running for 2 s", "3 None running for 3 s"]);
}
