//! A durable call costs what it changes, however much the workspace, the session and the store have: counted in what the
//! process reads and writes, which no other load on the machine disturbs.

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

/// Adds to a file, makes another, and notes it.
#[tool]
async fn enter(number: u32, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let files = cx.filesystem().await?;
    let _ = cx.session().dispatch(Entry { number })?;
    files.write_text("last", &number.to_string()).await?;
    files.write_text(&format!("lines/{}", number % 7), "line").await?;
    Ok(ToolResult::done("entered"))
}

/// Bytes and system calls of this process so far.
fn used() -> [u64; 2] {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let field = |name: &str| -> u64 {
        let line = io.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    [field("rchar:") + field("wchar:"), field("syscr:") + field("syscw:")]
}

async fn run(executor: &Executor, count: u32) -> [f64; 2] {
    let before = used();
    for number in 0..count {
        let call = ToolCall::new(format!("c{number}"), "enter", json!({ "number": number }).to_string());
        let outcome = executor.call(call).await;
        assert!(outcome.is_success(), "{outcome:?}");
    }
    let after = used();
    std::array::from_fn(|index| (after[index] - before[index]) as f64 / f64::from(count))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_call_costs_the_same_however_much_there_is() {
    let _alone = ALONE.lock().await;
    let dir = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(dir.path()).unwrap();
    let session = workspace.session("main").open().await.unwrap();
    session.know::<Entry>().unwrap();
    let section = Section::tools("notes", "Notes").tool(enter_tool());
    let prompt = PromptTemplate::builder("tests", "flat").section(section).build().unwrap().prompt();
    let executor =
        Executor::builder(&prompt, &session).resources(workspace.resources()).open().await.unwrap();

    // Until as many journals are kept as ever are.
    run(&executor, 120).await;
    let little = run(&executor, 100).await;

    for number in 0..20_000 {
        assert!(session.dispatch(Entry { number }).is_ok());
    }
    session.flush().await.unwrap();
    for dir_number in 0..100 {
        let dir = dir.path().join(format!("tree/{dir_number}"));
        std::fs::create_dir_all(&dir).unwrap();
        (0..100).for_each(|number| std::fs::write(dir.join(number.to_string()), "content").unwrap());
    }
    let other = workspace.session("other").open().await.unwrap();
    other.know::<Entry>().unwrap();
    for number in 0..20_000 {
        assert!(other.dispatch(Entry { number }).is_ok());
    }
    other.flush().await.unwrap();

    // Until the log of the database is back to its usual size.
    run(&executor, 200).await;
    let much = run(&executor, 100).await;
    for (what, little, much) in [("bytes", little[0], much[0]), ("system calls", little[1], much[1])] {
        // A little more for trees of pages that are one level higher.
        assert!(much < little * 1.5, "{what} per call: {little} with little there, {much} with much");
    }
}
