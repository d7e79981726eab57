//! What a durable call costs beside a bare commit of the same bytes. Measured, not asserted, since it is the disk that
//! decides: `cargo test --release -p wink-store --test speed -- --ignored --nocapture`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a measurement of the program by its own clock"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use wink::executor::{Executor, ToolCall};
use wink::ledger::IdempotencyConfig;
use wink::prelude::*;
use wink::session::SessionId;
use wink::store::{HistoryQuery, Store};
use wink_store::{SqliteStore, StoreOptions};

const CALLS: usize = 400;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note(String);
impl SliceType for Note {
    const NAME: &'static str = "note";
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Add {
    text: String,
}

async fn add(params: Add, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Note(params.text))?;
    Ok(ToolResult::ok((), "added"))
}

async fn executor(store: &Arc<SqliteStore>, id: &str) -> Executor {
    let section = Section::tools("notes", "Notes")
        .tool(Tool::new("add", "Add.", add))
        .tool(Tool::new("once", "Add once.", add).idempotency(IdempotencyConfig::auto()));
    let prompt = PromptTemplate::builder("tests", "speed").section(section).build().unwrap().prompt();
    let session = Session::builder().id(id).store(Arc::clone(store) as _).open().await.unwrap();
    session.know::<Note>().unwrap();
    Executor::builder(&prompt, &session).open().await.unwrap()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

async fn calls(executor: &Executor, tool: &str) -> Duration {
    let mut times = Vec::new();
    for number in 0..CALLS {
        let text = json!({ "text": format!("{number} {}", "x".repeat(100)) }).to_string();
        let began = Instant::now();
        assert!(executor.call(ToolCall::new("1", tool, text)).await.is_success());
        times.push(began.elapsed());
    }
    median(times)
}

/// One insert of the same bytes in a transaction of its own.
fn bare(place: &Path, bytes: &[Vec<u8>]) -> Duration {
    let conn = rusqlite::Connection::open(place.join("bare.db")).unwrap();
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
    conn.pragma_update(None, "synchronous", "FULL").unwrap();
    conn.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL)").unwrap();
    let mut times = Vec::new();
    for _ in 0..CALLS {
        let began = Instant::now();
        conn.execute_batch("BEGIN IMMEDIATE").unwrap();
        for bytes in bytes {
            conn.prepare_cached("INSERT INTO t (bytes) VALUES (?1)").unwrap().execute([bytes]).unwrap();
        }
        conn.execute_batch("COMMIT").unwrap();
        times.push(began.elapsed());
    }
    median(times)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn a_durable_call_beside_a_bare_commit() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Arc::new(SqliteStore::open(place.path(), StoreOptions::default()).unwrap());
    let executor = executor(&store, "s").await;
    let plain = calls(&executor, "add").await;
    let history = store.history(&SessionId::from("s"), HistoryQuery::default()).await.unwrap();
    let of_a_call = history.records.len() / CALLS;
    let last = history.records.iter().rev().take(of_a_call);
    let bytes: Vec<Vec<u8>> = last.map(|one| one.record.bytes.clone()).collect();
    let bare = bare(place.path(), &bytes);
    let once = calls(&executor, "once").await;
    let ratio = plain.as_secs_f64() / bare.as_secs_f64();
    println!(
        "{of_a_call} records, {} bytes; bare commit {bare:?}; call {plain:?} = {ratio:.2} x; with a claim {once:?}",
        bytes.iter().map(Vec::len).sum::<usize>()
    );

    let mut executors = Vec::new();
    for number in 0..64 {
        executors.push(self::executor(&store, &format!("s{number}")).await);
    }
    let began = Instant::now();
    let tasks: Vec<_> = executors
        .into_iter()
        .map(|executor| {
            tokio::spawn(async move {
                for number in 0..20 {
                    let text = json!({ "text": number.to_string() }).to_string();
                    assert!(executor.call(ToolCall::new("1", "add", text)).await.is_success());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let each = began.elapsed() / (64 * 20);
    println!("64 callers: {each:?} a call, {:.2} x a bare commit", each.as_secs_f64() / bare.as_secs_f64());
}
