//! A workspace whose database is not the one that belongs to it, and what the store forgets.

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
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use wink::executor::{Executor, ToolCall};
use wink::filesystem::FilesystemExt;
use wink::limits::{Clock, SystemClock};
use wink::prelude::*;
use wink::store::StoreErrorKind;
use wink::testing::{FakeClock, steps};
use wink_store::{
    Pruned, SqliteStore, StoreOptions, StoreRetention, Workspace, WorkspaceError, WorkspaceOptions,
};

const JOB: &str = "WINK_TEST_LOST_JOB";

/// Writes a file.
#[tool]
async fn write(path: String, text: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.write_text(&path, &text).await?;
    Ok(ToolResult::done("written"))
}

async fn call(workspace: &Workspace, text: &str) {
    let session = workspace.session("s").open().await.unwrap();
    let section = Section::tools("work", "Work").tool(write_tool());
    let prompt = PromptTemplate::builder("tests", "lost").section(section).build().unwrap().prompt();
    let executor =
        Executor::builder(&prompt, &session).resources(workspace.resources()).open().await.unwrap();
    let arguments = json!({ "path": "a.txt", "text": text }).to_string();
    let outcome = executor.call(ToolCall::new("c", "write", arguments)).await;
    assert!(outcome.is_success(), "{}", outcome.text());
}

fn refused(root: &Path) -> String {
    match Workspace::open(root).unwrap_err() {
        WorkspaceError::Store(error) => {
            assert_eq!(error.kind, StoreErrorKind::Incompatible);
            error.to_string()
        }
        error => error.to_string(),
    }
}

/// Folds the log into the database, which is whole without it then.
fn fold(root: &Path) {
    let conn = rusqlite::Connection::open(root.join(".wink/wink.db")).unwrap();
    let is_busy: i64 = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    assert_eq!(is_busy, 0);
}

fn remove_database(state: &Path) {
    for file in ["wink.db", "wink.db-wal", "wink.db-shm"] {
        let _ = std::fs::remove_file(state.join(file));
    }
}

#[tokio::test]
async fn a_database_that_is_gone_emptied_or_another_is_not_taken_for_a_new_one() {
    let (dir, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let state = dir.path().join(".wink");
    let database = state.join("wink.db");
    // Without a change of any file, so that nothing but the database knows of it.
    for root in [dir.path(), other.path()] {
        let workspace = Workspace::open(root).unwrap();
        workspace.session("s").open().await.unwrap().flush().await.unwrap();
        drop(workspace);
        fold(root);
    }
    let right = std::fs::read(&database).unwrap();

    remove_database(&state);
    let error = refused(dir.path());
    assert!(error.contains("wink.db is not there"), "{error}");
    assert!(error.contains("wink.db-id to begin"), "{error}");
    assert!(!database.exists(), "and none is made");

    std::fs::write(&database, "").unwrap();
    assert!(refused(dir.path()).contains("was emptied"));
    assert_eq!(std::fs::metadata(&database).unwrap().len(), 0, "it is left as it is");

    std::fs::copy(other.path().join(".wink/wink.db"), &database).unwrap();
    assert!(refused(dir.path()).contains("is another one"));

    remove_database(&state);
    std::fs::write(&database, &right).unwrap();
    drop(Workspace::open(dir.path()).unwrap());

    // Whoever wants to begin anew says so.
    remove_database(&state);
    std::fs::remove_file(state.join("wink.db-id")).unwrap();
    drop(Workspace::open(dir.path()).unwrap());
    drop(Workspace::open(dir.path()).unwrap());
}

#[tokio::test]
async fn a_database_that_is_older_than_the_workspace_is_not_asked() {
    let dir = TempDir::new().unwrap();
    let database = dir.path().join(".wink/wink.db");
    let workspace = Workspace::open(dir.path()).unwrap();
    call(&workspace, "first").await;
    drop(workspace);
    fold(dir.path());
    let backup = std::fs::read(&database).unwrap();

    // What is not of a call the store never knew, and does not miss.
    let workspace = Workspace::open(dir.path()).unwrap();
    workspace.files().write_text("b.txt", "by hand").await.unwrap();
    drop(workspace);
    remove_database(&dir.path().join(".wink"));
    std::fs::write(&database, &backup).unwrap();
    let workspace = Workspace::open(dir.path()).unwrap();
    call(&workspace, "second").await;
    drop(workspace);

    fold(dir.path());
    let newer = std::fs::read(&database).unwrap();
    remove_database(&dir.path().join(".wink"));
    std::fs::write(&database, &backup).unwrap();
    let error = refused(dir.path());
    assert!(error.contains("its database is older than the workspace"), "{error}");
    assert!(error.contains("or type `wink ledger acknowledge-loss` to go on with this one"), "{error}");
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "second");

    // Nobody is told to throw away what only the right one can decide.
    remove_database(&dir.path().join(".wink"));
    std::fs::write(&database, &newer).unwrap();
    die(dir.path(), "host.merged");
    let newer = std::fs::read(&database).unwrap();
    let log = std::fs::read(dir.path().join(".wink/wink.db-wal")).unwrap();
    remove_database(&dir.path().join(".wink"));
    std::fs::write(&database, &backup).unwrap();
    let error = refused(dir.path());
    assert!(error.contains("which takes back 1 changes that are undecided"), "{error}");

    remove_database(&dir.path().join(".wink"));
    std::fs::write(&database, &newer).unwrap();
    std::fs::write(dir.path().join(".wink/wink.db-wal"), log).unwrap();
    drop(Workspace::open(dir.path()).unwrap());
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "second");
    // As the error says.
    remove_database(&dir.path().join(".wink"));
    std::fs::write(&database, &backup).unwrap();
    let losses = Workspace::acknowledge_losses(dir.path(), StoreOptions::default()).await.unwrap();
    assert!(losses.iter().any(|loss| loss.what.contains("the database does not know it")), "{losses:?}");
    let workspace = Workspace::open(dir.path()).unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "second");
    call(&workspace, "third").await;
    assert_eq!(
        Workspace::acknowledge_losses(dir.path(), StoreOptions::default()).await.unwrap(),
        [],
        "once is enough"
    );
}

/// Not a test by itself: a process that dies when its call is in the store, or when the call is over.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let (root, at): (PathBuf, String) = serde_json::from_str(&job).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let workspace = Workspace::open(&root).unwrap();
        steps::on_every_step(move |now| {
            if now == at {
                std::process::abort();
            }
        });
        call(&workspace, "of the dead").await;
        std::process::abort();
    });
}

fn die(root: &Path, at: &str) {
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["lost::child", "--exact", "--nocapture"])
        .env(JOB, serde_json::to_string(&(root, at)).unwrap())
        .output()
        .unwrap();
    assert!(!ended.status.success(), "it dies");
}

#[tokio::test]
async fn a_log_that_is_lost_is_noticed() {
    let dir = TempDir::new().unwrap();
    call(&Workspace::open(dir.path()).unwrap(), "first").await;
    fold(dir.path());
    die(dir.path(), "never");
    let log = dir.path().join(".wink/wink.db-wal");
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
    std::fs::remove_file(log).unwrap();
    let error = refused(dir.path());
    assert!(error.contains("the '-wal' file that belongs to it"), "{error}");
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "of the dead");

    // From the very first.
    let dir = TempDir::new().unwrap();
    die(dir.path(), "never");
    std::fs::remove_file(dir.path().join(".wink/wink.db-wal")).unwrap();
    let error = refused(dir.path());
    assert!(error.contains("lost its '-wal' file"), "{error}");
}

#[tokio::test]
async fn what_was_committed_is_not_forgotten_before_the_workspace_is_whole() {
    let dir = TempDir::new().unwrap();
    die(dir.path(), "store.committed");
    let clock = FakeClock::new(SystemClock.now());
    clock.advance(Duration::from_hours(24 * 365));
    let retention = StoreRetention { journals: Duration::ZERO, expired: Duration::ZERO };
    let options = || StoreOptions::default().clock(Arc::new(clock.clone())).retention(retention);
    let store = SqliteStore::open(dir.path().join(".wink"), options()).unwrap();
    assert_eq!(store.prune().await.unwrap(), Pruned::default());
    drop(store);

    let open = || {
        let options = WorkspaceOptions { store: options(), ..WorkspaceOptions::default() };
        Workspace::open_with(dir.path(), options).unwrap()
    };
    let workspace = open();
    assert_eq!(workspace.recovered().unwrap().kept.len(), 1);
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "of the dead");
    // One that dies while others have it open is settled before anything is forgotten.
    die(dir.path(), "store.committed");
    clock.advance(Duration::from_secs(1));
    assert_eq!(workspace.prune().await.unwrap(), Pruned { journals: 1, effects: 0 });
    assert_eq!(workspace.report().kept.len(), 1);
    // The last stays known, so that the store is known to be the right one.
    drop(workspace);
    assert_eq!(open().prune().await.unwrap(), Pruned::default());
}
