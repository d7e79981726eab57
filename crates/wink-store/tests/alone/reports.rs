//! What happens to a workspace beside what is asked of it is told: to the caller whom it concerns, and to the operator.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is broken by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use wink::executor::{Escalation, Executor, Outcome, ToolCall};
use wink::filesystem::host::journal::{KeptAside, Recovered};
use wink::ledger::{IdempotencyConfig, LedgerScope};
use wink::prelude::*;
use wink::testing::{FaultyStore, StoreOp, steps};
use wink::transaction::{UndoForce, UndoReach, UndoRequest};
use wink_store::Workspace;

use crate::ALONE;

const JOB: &str = "WINK_TEST_REPORTS_JOB";

/// Writes a file.
#[tool]
async fn write(path: String, text: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.write_text(&path, &text).await?;
    Ok(ToolResult::done("written"))
}

/// Reads a file.
#[tool]
async fn read(path: String, cx: &mut ReadContext) -> Result<ToolResult<()>, ToolError> {
    Ok(ToolResult::done(cx.filesystem().await?.read_text(&path).await?))
}

/// Dies on the way, perhaps.
#[tool]
async fn pay(die: bool, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.write_text("receipt", "paid").await?;
    if die {
        std::process::abort();
    }
    Ok(ToolResult::done("paid"))
}

struct World {
    workspace: Workspace,
    session: Session,
    store: Arc<FaultyStore>,
    executor: Executor,
}

impl World {
    async fn open(root: &Path, session: &str) -> Self {
        let workspace = Workspace::open(root).unwrap();
        let store = Arc::new(FaultyStore::new(Arc::clone(workspace.store()) as _));
        let session = Session::builder().store(Arc::clone(&store) as _).id(session).open().await.unwrap();
        let once = IdempotencyConfig::auto().scope(LedgerScope::Global);
        let section = Section::tools("work", "Work")
            .tool(write_tool())
            .tool(read_tool())
            .tool(pay_tool().idempotency(once));
        let prompt = PromptTemplate::builder("tests", "reports").section(section).build().unwrap().prompt();
        let executor =
            Executor::builder(&prompt, &session).resources(workspace.resources()).open().await.unwrap();
        Self { workspace, session, store, executor }
    }

    async fn write(&self, path: &str, text: &str) -> Outcome {
        let arguments = json!({ "path": path, "text": text }).to_string();
        self.executor.call(ToolCall::new("c", "write", arguments)).await
    }
}

#[tokio::test]
async fn what_a_rollback_keeps_aside_is_told_to_the_caller_and_the_operator() {
    let _alone = ALONE.lock().await;
    let dir = TempDir::new().unwrap();
    let world = World::open(dir.path(), "s").await;
    assert!(world.write("a.txt", "first").await.is_success());
    assert_eq!(world.workspace.report(), Recovered::default());

    // The store refuses, and before that is known somebody writes the file that the call has just changed.
    let path = dir.path().join("a.txt");
    let theirs = path.clone();
    steps::on_every_step(move |step| {
        if step == "host.merged" {
            std::fs::remove_file(&theirs).unwrap();
            std::fs::write(&theirs, "theirs").unwrap();
        }
    });
    world.store.fail(StoreOp::Commit, 1);
    let outcome = world.write("a.txt", "second").await;
    steps::stop_listening();
    assert!(!outcome.is_success());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");

    let report = world.workspace.report();
    let [KeptAside { path: left, aside: Some(aside) }] = report.aside.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!(left, Path::new("a.txt"));
    assert_eq!(std::fs::read_to_string(dir.path().join(aside)).unwrap(), "first");
    let expected = format!(
        "'a.txt' (somebody else changed it meanwhile; what was there before is in '{}')",
        aside.display()
    );
    assert!(outcome.text().contains(&expected), "{}", outcome.text());
    assert!(matches!(outcome.escalation, Some(Escalation::Restore(_))), "{:?}", outcome.escalation);
    // It is told once, and work goes on.
    assert_eq!(world.workspace.report(), Recovered::default());
    assert!(world.write("a.txt", "third").await.is_success());
}

/// Not a test by itself: a process that dies in a call.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let (root, step): (PathBuf, Option<String>) = serde_json::from_str(&job).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::open(&root, "child").await;
        if step.is_none() {
            let _ = world.executor.call(ToolCall::new("p", "pay", json!({ "die": true }).to_string())).await;
        }
        steps::on_every_step(move |now| {
            if step.as_deref() == Some(now) {
                std::process::abort();
            }
        });
        let _ = world.write("receipt", "half").await;
    });
}

fn die(root: &Path, at: Option<&str>) {
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["reports::child", "--exact", "--nocapture"])
        .env(JOB, serde_json::to_string(&(root, at)).unwrap())
        .output()
        .unwrap();
    assert!(!ended.status.success(), "it dies");
}

#[tokio::test]
async fn what_became_of_the_changes_of_the_dead_is_told_also_when_it_was_open_before() {
    let _alone = ALONE.lock().await;
    let dir = TempDir::new().unwrap();
    let world = World::open(dir.path(), "s").await;
    die(dir.path(), Some("store.before-commit"));
    assert!(dir.path().join("receipt").exists(), "half-done");
    assert!(world.write("a.txt", "first").await.is_success());
    assert!(!dir.path().join("receipt").exists());
    let report = world.workspace.report();
    assert_eq!((report.kept.len(), report.rolled_back.len()), (0, 1));

    die(dir.path(), Some("host.merged"));
    let again = Workspace::open(dir.path()).unwrap();
    assert_eq!(again.recovered().unwrap().rolled_back.len(), 1, "who opens it is told by that");
    assert_eq!(again.report(), Recovered::default(), "and by nothing else");
    assert_eq!(world.workspace.report(), Recovered::default());
}

#[tokio::test]
async fn a_workspace_shows_its_doubts_and_undoes_its_calls() {
    let _alone = ALONE.lock().await;
    let dir = TempDir::new().unwrap();
    die(dir.path(), None);
    let world = World::open(dir.path(), "s").await;
    let doubts = world.workspace.in_doubt().await.unwrap();
    assert_eq!(doubts.iter().map(|doubt| &*doubt.tool).collect::<Vec<_>>(), ["pay"]);
    let settled =
        world.workspace.ledger().settle(&doubts[0].key, wink::ledger::Settlement::DidNotHappen).await;
    assert!(settled.unwrap());
    assert_eq!(world.workspace.in_doubt().await.unwrap(), []);

    assert!(world.write("a.txt", "first").await.is_success());
    let second = world.write("a.txt", "second").await;
    let request = UndoRequest { call: second.event.id, reach: UndoReach::Call, force: UndoForce::Refuse };
    let undone = world.workspace.undo(&world.session, request).await.unwrap();
    assert_eq!(undone.calls, [second.event.id]);
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "first");
    assert_eq!(world.workspace.capture(), None);
}

/// Whoever lives on does not read what somebody left half-done, though nothing is committed after that.
#[tokio::test]
async fn what_the_dead_left_is_settled_before_it_is_read() {
    let _alone = ALONE.lock().await;
    let dir = TempDir::new().unwrap();
    let world = World::open(dir.path(), "s").await;
    assert!(world.write("receipt", "whole").await.is_success());
    die(dir.path(), Some("host.merged"));
    assert_eq!(std::fs::read_to_string(dir.path().join("receipt")).unwrap(), "half");

    let arguments = json!({ "path": "receipt" }).to_string();
    let outcome = world.executor.call(ToolCall::new("r", "read", arguments)).await;
    assert!(outcome.text().contains("whole"), "{}", outcome.text());
    assert_eq!(std::fs::read_to_string(dir.path().join("receipt")).unwrap(), "whole");
    assert_eq!(world.workspace.report().rolled_back.len(), 1);
}
