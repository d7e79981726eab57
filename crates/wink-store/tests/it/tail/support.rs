//! A workspace whose calls have effects outside, which are counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::json;
use tempfile::TempDir;
use wink::executor::{Executor, Outcome, ToolCall};
use wink::ledger::IdempotencyConfig;
use wink::prelude::*;
use wink_store::{StoreOptions, Workspace};

/// How often each payment was made, by number. Every test uses numbers of its own.
pub(crate) static PAID: Mutex<BTreeMap<u32, usize>> = Mutex::new(BTreeMap::new());

/// Pays once.
#[tool(name = "pay")]
async fn paying(number: u32) -> Result<ToolResult<()>, ToolError> {
    *PAID.lock().unwrap().entry(number).or_default() += 1;
    Ok(ToolResult::done("paid"))
}

/// Does nothing outside.
#[tool]
async fn look(number: u32) -> Result<ToolResult<()>, ToolError> {
    let _ = number;
    Ok(ToolResult::done("looked"))
}

/// As if it had never been paid.
pub(crate) fn forget(number: u32) {
    PAID.lock().unwrap().remove(&number);
}

pub(crate) fn paid(number: u32) -> usize {
    PAID.lock().unwrap().get(&number).copied().unwrap_or_default()
}

/// Acknowledges losses, which is refused in a call.
#[tool]
async fn acknowledge(number: u32, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = number;
    let files = cx.filesystem().await?;
    let root = PathBuf::from(files.read_text("root").await?);
    let acknowledged = Workspace::acknowledge_losses(root, StoreOptions::default()).await;
    let _ = acknowledged.map_err(|error| ToolError::new(error.to_string()))?;
    Ok(ToolResult::done("acknowledged"))
}

pub(crate) async fn executor(workspace: &Workspace) -> Executor {
    let session = workspace.session("s").open().await.unwrap();
    let pays = paying_tool().idempotency(IdempotencyConfig::auto());
    let section = Section::tools("work", "Work").tool(pays).tool(look_tool()).tool(acknowledge_tool());
    let prompt = PromptTemplate::builder("tests", "tail").section(section).build().unwrap().prompt();
    Executor::builder(&prompt, &session).resources(workspace.resources()).open().await.unwrap()
}

pub(crate) async fn call(executor: &Executor, tool: &str, number: u32) -> Outcome {
    executor.call(ToolCall::new("c", tool, json!({ "number": number }).to_string())).await
}

/// Pays for the first time.
pub(crate) async fn pay(executor: &Executor, number: u32) {
    let outcome = call(executor, "pay", number).await;
    assert!(outcome.is_success() && paid(number) == 1, "{}", outcome.text());
}

/// A directory in memory, where there is one: what is tried many times need not wait for a disk.
pub(crate) fn dir_in_memory() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap())
}

pub(crate) fn workspace_in(root: &Path) -> Workspace {
    Workspace::open(root).unwrap()
}

/// Folds the log into the database.
pub(crate) fn fold(root: &Path) {
    let conn = rusqlite::Connection::open(root.join(".wink/wink.db")).unwrap();
    let is_busy: i64 = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    assert_eq!(is_busy, 0);
}

/// What a store has on disk, to be put back.
pub(crate) struct Kept {
    state: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Kept {
    pub(crate) fn of(root: &Path) -> Self {
        let state = root.join(".wink");
        let ours = |path: &PathBuf| {
            path.is_file() && path.file_name().unwrap().to_str().unwrap().starts_with("wink.db")
        };
        let entries = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(ours).map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
        Self { state, files }
    }

    /// As it was, but for what is not to be there and what is changed.
    pub(crate) fn put_back(&self, change: impl Fn(&str, &[u8]) -> Option<Vec<u8>>) {
        for entry in std::fs::read_dir(&self.state).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.starts_with("wink.db") && path.is_file() {
                std::fs::remove_file(&path).unwrap();
            } else if name.starts_with("wink.db-lost") {
                std::fs::remove_dir_all(&path).unwrap();
            }
        }
        for (path, bytes) in &self.files {
            let name = path.file_name().unwrap().to_str().unwrap();
            // Made anew from the log.
            if name.ends_with("-shm") {
                continue;
            }
            if let Some(bytes) = change(name, bytes) {
                std::fs::write(path, bytes).unwrap();
            }
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> &[u8] {
        let found = self.files.iter().find(|(path, _)| path.file_name().unwrap().to_str() == Some(name));
        &found.unwrap().1
    }
}
