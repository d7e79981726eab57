//! What a durable call costs does not grow with what is stored. Counted in pages that the database writes, not timed.
//! Opening a session is another matter: it reads what the session has.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use wink::executor::{Executor, ToolCall};
use wink::prelude::*;
use wink::session::SliceKind;
use wink_store::{SqliteStore, StoreOptions};

const CALLS: u64 = 20;
const EVENTS: u64 = 100_000;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note(String);
impl SliceType for Note {
    const NAME: &'static str = "note";
    const KIND: SliceKind = SliceKind::Log;
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Add {
    text: String,
}

async fn add(params: Add, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Note(params.text))?;
    Ok(ToolResult::ok((), "added"))
}

/// Pages that go to the log of the database for each call, in a session that has so many events.
async fn pages_of_a_call(place: &Path, events: u64) -> u64 {
    let store = Arc::new(SqliteStore::open(place, StoreOptions::default()).unwrap());
    let prompt = PromptTemplate::builder("tests", "flat")
        .section(Section::tools("notes", "Notes").tool(Tool::new("add", "Add.", add)))
        .build()
        .unwrap()
        .prompt();
    let session = Session::builder().id("s").store(Arc::clone(&store) as _).open().await.unwrap();
    session.know::<Note>().unwrap();
    for number in 0..events {
        assert!(session.dispatch(Note(number.to_string())).is_ok());
    }
    session.flush().await.unwrap();
    let executor = Executor::open(&prompt, &session).await.unwrap();
    let call = async |number: u64| {
        let text = json!({ "text": format!("call {number:04}") }).to_string();
        assert!(executor.call(ToolCall::new("1", "add", text)).await.is_success());
    };
    call(0).await;

    // The log begins anew, and is far from being brought into the database again.
    let other = rusqlite::Connection::open(place.join("wink.db")).unwrap();
    let (busy, left): (i64, i64) =
        other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!((busy, left), (0, 0));
    for number in 1..=CALLS {
        call(number).await;
    }
    let written = std::fs::metadata(place.join("wink.db-wal")).unwrap().len();
    written.div_ceil(4096 + 24) / CALLS
}

/// Promise 6, for what is on disk.
#[tokio::test]
async fn a_call_writes_as_many_pages_in_a_full_session_as_in_an_empty_one() {
    let (empty, full) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (few, many) = (pages_of_a_call(empty.path(), 0).await, pages_of_a_call(full.path(), EVENTS).await);
    assert!(few > 0, "the log was looked at");
    assert!(many <= few + 1, "{few} pages a call in an empty session, {many} in one with {EVENTS} events");
}
