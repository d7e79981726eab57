//! Flat cost, the memory: nothing is kept of a call but its event in the log.
//!
//! The bytes of the whole process are counted, so this file has one test and nothing runs beside it. A store that
//! keeps bytes grows by design; what the library keeps beside it is counted with one that is told as much and keeps
//! none, and what is found again in the bytes is read back after a process for every turn.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints exempt tests, not their helpers")]

#[path = "support/discards.rs"]
mod discards;

use std::alloc::System;
use std::sync::Arc;

use discards::Discards;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use wink::executor::{Executor, ToolCall};
use wink::filesystem::{Filesystem, MemoryFilesystem};
use wink::ledger::IdempotencyConfig;
use wink::policy::SequentialDependencyPolicy;
use wink::prelude::*;
use wink::resource::{Binding, Shared};
use wink::session::{SliceKey, ToolInvoked, upsert_by_key};
use wink::store::{MemoryStore, SharedStore};
use wink::testing::ByteStore;

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What may be left over after [`MANY`] turns: less than a byte for each call.
const MOST_LEFT: usize = 4 * 1024;
const FEW: usize = 100;
const MANY: usize = 1_000;
/// With a new process after each of them.
const FEW_PROCESSES: usize = 10;
const MANY_PROCESSES: usize = 40;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line {
    path: String,
    line: u32,
}

impl SliceType for Line {
    const NAME: &'static str = "line";
    const KEYED: bool = true;

    fn key(&self) -> Option<SliceKey> {
        Some(self.path.as_str().into())
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Place {
    path: String,
    line: u32,
}

async fn write(place: Place, cx: &mut ToolContext) -> Result<ToolResult<u32>, ToolError> {
    let dispatched = cx.session().dispatch(Line { path: place.path.clone(), line: place.line })?;
    assert!(dispatched.is_ok());
    cx.filesystem().await?.write_text(&place.path, "text\n").await?;
    cx.resource::<Shared<u32>>().await?.update(|count| *count += 1);
    Ok(ToolResult::value(place.line))
}

async fn fail(place: Place, cx: &mut ToolContext) -> Result<ToolResult<u32>, ToolError> {
    let _undone = write(place, cx).await?;
    Err(ToolError::new("no"))
}

async fn panic(_: Place, _: &mut ToolContext) -> ToolResult<u32> {
    std::panic::resume_unwind(Box::new("oops"))
}

async fn open(store: SharedStore) -> Executor {
    let files: Arc<dyn Filesystem> = Arc::new(MemoryFilesystem::new());
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("write", "Writes.", write))
        .tool(Tool::new("once", "Writes once.", write).idempotency(IdempotencyConfig::auto()))
        .tool(Tool::new("fail", "Writes, and fails.", fail))
        .tool(Tool::new("panic", "Panics.", panic))
        .tool(Tool::new("denied", "Is never allowed.", write))
        .policy(SequentialDependencyPolicy::new().require("denied", ["never"]))
        .resource(Binding::filesystem(files))
        .resource(Binding::instance(Arc::new(Shared::new(0_u32))).named("count").snapshotable());
    let prompt = PromptTemplate::builder("tests", "retained").section(section).build().unwrap().prompt();
    let session = Session::builder().id("the-session").store(store).open().await.unwrap();
    session.register::<Line, Line>(upsert_by_key()).unwrap();
    Executor::open(&prompt, &session).await.unwrap()
}

/// Calls that end in every way, each of them like those of the turn before.
async fn turn(executor: &Executor) {
    let arguments = json!({ "path": "a/b.txt", "line": 1 }).to_string();
    for (tool, success) in [
        ("write", true),
        ("once", true),
        ("fail", false),
        ("panic", false),
        ("denied", false),
        ("nothing", false),
    ] {
        let outcome = executor.call(ToolCall::new("1", tool, arguments.as_str())).await;
        assert_eq!(outcome.is_success(), success, "{tool}: {}", outcome.text());
    }
    let rejected = executor.call(ToolCall::new("1", "write", "{oops")).await;
    assert!(!rejected.is_success());
}
const CALLS_OF_A_TURN: usize = 7;

/// The bytes that are in use once the log is gone too.
async fn in_use_after(executor: &Executor, turns: usize) -> usize {
    for _ in 0..turns {
        turn(executor).await;
    }
    let session = executor.session();
    assert_eq!(session.slice::<ToolInvoked>().len(), turns * CALLS_OF_A_TURN, "one event for each call");
    assert_eq!(session.slice::<Line>().len(), 1);
    session.reset();
    session.flush().await.unwrap();
    let stats = COUNTING.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// STATE as it is stored: what a call leaves there would make it longer.
async fn state_after(executor: &Executor, turns: usize) -> usize {
    for _ in 0..turns {
        turn(executor).await;
    }
    executor.session().snapshot().to_json().unwrap().to_string().len()
}

/// STATE as the last of these processes finds it, and how many bytes its turn added.
async fn state_after_processes(mut bytes: ByteStore, turns: usize) -> (ByteStore, usize, usize) {
    let (mut state, mut added) = (0, 0);
    for _ in 0..turns {
        let store = Arc::new(bytes.reopen().unwrap());
        let before = store.bytes().len();
        let executor = open(Arc::clone(&store) as SharedStore).await;
        assert_eq!(executor.session().slice::<Line>().len(), usize::from(before > 0));
        state = state_after(&executor, 1).await;
        executor.session().flush().await.unwrap();
        bytes = store.reopen().unwrap();
        added = bytes.bytes().len() - before;
    }
    (bytes, state, added)
}

#[tokio::test]
async fn calls_leave_nothing_but_their_events() {
    let stores: [SharedStore; 2] = [Arc::new(MemoryStore::new()), Arc::new(Discards::default())];
    for store in stores {
        let executor = open(store).await;
        let few = in_use_after(&executor, FEW).await;
        let many = in_use_after(&executor, MANY).await;
        assert!(many <= few + MOST_LEFT, "{MANY} turns left {} bytes behind", many - few);

        let few = state_after(&executor, FEW).await;
        let many = state_after(&executor, MANY).await;
        // The counts of calls have a digit or two more.
        assert!(many <= few + 32, "STATE grew from {few} to {many} characters");
    }

    let (bytes, few, wrote) = state_after_processes(ByteStore::new(), FEW_PROCESSES).await;
    let (_, many, last) = state_after_processes(bytes, MANY_PROCESSES).await;
    assert!(many <= few + 32, "STATE as it is stored grew from {few} to {many} characters");
    // Each turn adds what the one before it added: bytes are numbers in the journal, so a digit counts for more.
    assert!(last <= wrote + 64, "a turn wrote {wrote} bytes at first and {last} bytes later");
}
