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
/// Before that: a log that grows is slower than one that is written again from its start, and both are to have come there.
const WARM: usize = 1_500;

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

/// The middle one, and the fastest tenth: what else the machine does makes things slower and never faster.
fn typical(times: Vec<Duration>) -> [Duration; 2] {
    let mut times: Vec<Duration> = times.into_iter().skip(WARM).collect();
    times.sort_unstable();
    [times[times.len() / 2], times[times.len() / 10]]
}

async fn call(executor: &Executor, tool: &str, number: usize) -> Duration {
    let text = json!({ "text": format!("{number} {}", "x".repeat(100)) }).to_string();
    let began = Instant::now();
    assert!(executor.call(ToolCall::new("1", tool, text)).await.is_success());
    began.elapsed()
}

/// The same bytes in a transaction of their own, and nothing else.
struct Bare(rusqlite::Connection);

impl Bare {
    fn new(place: &Path) -> Self {
        let conn = rusqlite::Connection::open(place.join("bare.db")).unwrap();
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
        conn.pragma_update(None, "synchronous", "FULL").unwrap();
        conn.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL)").unwrap();
        Self(conn)
    }

    fn commit(&self, bytes: &[Vec<u8>]) -> Duration {
        let began = Instant::now();
        self.0.execute_batch("BEGIN IMMEDIATE").unwrap();
        for bytes in bytes {
            self.0.prepare_cached("INSERT INTO t (bytes) VALUES (?1)").unwrap().execute([bytes]).unwrap();
        }
        self.0.execute_batch("COMMIT").unwrap();
        began.elapsed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn a_durable_call_beside_a_bare_commit() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Arc::new(SqliteStore::open(place.path(), StoreOptions::default()).unwrap());
    let executor = executor(&store, "s").await;
    call(&executor, "add", 0).await;
    let history = store.history(&SessionId::from("s"), HistoryQuery::default()).await.unwrap();
    let of_a_call = history.records.iter().rev().take_while(|one| one.record.call.is_some());
    let bytes: Vec<Vec<u8>> = of_a_call.map(|one| one.record.bytes.clone()).collect();
    let bare = Bare::new(place.path());
    // One after the other, so that whatever else the machine does meets all of them.
    let (mut alone, mut calls, mut claims) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..WARM + CALLS {
        alone.push(bare.commit(&bytes));
        calls.push(call(&executor, "add", number).await);
        claims.push(call(&executor, "once", number).await);
    }
    println!("{} records, {} bytes", bytes.len(), bytes.iter().map(Vec::len).sum::<usize>());
    let [bare, plain, claimed] = [alone, calls, claims].map(typical);
    for (at, what) in ["median", "fastest tenth"].into_iter().enumerate() {
        let ratio = plain[at].as_secs_f64() / bare[at].as_secs_f64();
        let [bare, plain, claimed] = [bare[at], plain[at], claimed[at]];
        println!("{what}: bare commit {bare:?}; call {plain:?} = {ratio:.2} x; with a claim {claimed:?}");
    }
    let bare = bare[0];

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
