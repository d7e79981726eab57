//! Opening a session of a workspace reads the same however long its log is: counted in what the process reads.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test says what is broken by panicking")]

use serde_json::json;
use wink::prelude::*;
use wink_store::Workspace;

use crate::ALONE;

/// What the session remembers.
#[data]
#[derive(SliceType)]
#[slice(name = "entry", kind = "log")]
struct Entry {
    number: u32,
}

/// Notes a number.
#[tool]
async fn enter(number: u32, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Entry { number })?;
    Ok(ToolResult::done("entered"))
}

/// Bytes that this process has read so far.
fn read() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar:")).unwrap();
    line.trim().parse().unwrap()
}

async fn opened(dir: &std::path::Path) -> (u64, usize) {
    let before = read();
    let workspace = Workspace::open(dir).unwrap();
    let session = workspace.session("main").open().await.unwrap();
    let entries = session.slice::<Entry>().len();
    (read() - before, entries)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_reads_the_same_however_long_the_log_is() {
    let _alone = ALONE.lock().await;
    let dir = tempfile::tempdir().unwrap();
    let fill = async |calls: u32, entries: u32| {
        let workspace = Workspace::open(dir.path()).unwrap();
        let session = workspace.session("main").open().await.unwrap();
        session.know::<Entry>().unwrap();
        let section = Section::tools("notes", "Notes").tool(enter_tool());
        let prompt = PromptTemplate::builder("tests", "flat").section(section).build().unwrap().prompt();
        let executor =
            Executor::builder(&prompt, &session).resources(workspace.resources()).open().await.unwrap();
        for number in 0..calls {
            let call = ToolCall::new(format!("c{number}"), "enter", json!({ "number": number }).to_string());
            assert!(executor.call(call).await.is_success());
        }
        for number in 0..entries {
            assert!(session.dispatch(Entry { number }).is_ok());
        }
        session.flush().await.unwrap();
        assert_eq!(session.slice::<Entry>().iter().count(), session.slice::<Entry>().len());
    };
    fill(10, 0).await;
    let (little, entries) = opened(dir.path()).await;
    assert_eq!(entries, 10);
    fill(200, 20_000).await;
    let (much, entries) = opened(dir.path()).await;
    assert_eq!(entries, 20_210);
    // A megabyte at most since the last summary, in pages of the database.
    assert!(much < little + (1 << 20), "{little} bytes with little there, {much} with much");
}
