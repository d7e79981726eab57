//! Calls of sessions whose store is a database on disk, and the bare commit that is their floor.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use wink::executor::{Executor, ToolCall};
use wink::ledger::IdempotencyConfig;
use wink::prelude::*;
use wink::session::SessionId;
use wink::store::{HistoryQuery, Store};
use wink_store::{SqliteStore, StoreOptions};

use super::place::{runtime, scratch, wait};
use super::typed_call::{ANSWER, ARGUMENTS, Args, DESCRIPTION, TOOL, answer};
use super::{Case, Row};

/// The same tool with a claim.
const CLAIMING: &str = "write_file_once";
/// How many call at a time.
const CALLERS: usize = 64;
/// How many calls each of them makes in one run.
const CALLS_OF_EACH: usize = 4;

/// How many calls one run of a row is.
pub(super) fn calls_in_a_run(row: Row) -> u32 {
    match row {
        Row::DurableMany | Row::DurableOne => (CALLERS * CALLS_OF_EACH) as u32,
        _ => 1,
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Written {
    line: u32,
}

impl SliceType for Written {
    const NAME: &'static str = "bench.written";
}

async fn write(args: Args, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let _ = cx.session().dispatch(Written { line: args.start_line })?;
    Ok(ToolResult::value(answer(&args)))
}

pub(super) fn make(row: Row) -> Option<Case> {
    match row {
        Row::DurableCall => Some(one_caller(TOOL)),
        Row::DurableClaim => Some(one_caller(CLAIMING)),
        Row::DurableMany => Some(many_callers(CALLERS)),
        Row::DurableOne => Some(many_callers(1)),
        _ => None,
    }
}

/// One commit of the bytes that a call leaves, with the same promise: on disk before anybody is told.
pub(super) fn bare(row: Row) -> Option<Case> {
    if !matches!(row, Row::DurableCall | Row::DurableClaim | Row::DurableMany | Row::DurableOne) {
        return None;
    }
    let place = scratch();
    let bytes = {
        let runtime = runtime();
        let store = open(&place);
        let executor = executor(&runtime, &store, "bare");
        call(&runtime, &executor, TOOL, 0);
        let history = wait(&runtime, store.history(&SessionId::from("bare"), HistoryQuery::default()));
        let of_a_call = history.records.into_iter().filter(|one| one.record.call.is_some());
        of_a_call.map(|one| one.record.bytes).collect::<Vec<Vec<u8>>>()
    };
    assert!(bytes.len() >= 2, "a call leaves what it dispatched and its event");
    let commit = bare_commit(&place, bytes).unwrap_or_else(|error| unreachable!("{error}"));
    Some(Box::new(move || {
        commit().unwrap_or_else(|error| unreachable!("{error}"));
        let _place = &place;
    }))
}

fn bare_commit(
    place: &tempfile::TempDir,
    bytes: Vec<Vec<u8>>,
) -> rusqlite::Result<impl Fn() -> rusqlite::Result<()> + use<>> {
    let conn = rusqlite::Connection::open(place.path().join("bare.db"))?;
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL)")?;
    Ok(move || {
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut insert = conn.prepare_cached("INSERT INTO t (bytes) VALUES (?1)")?;
        for bytes in &bytes {
            insert.execute([bytes])?;
        }
        conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    })
}

fn open(place: &tempfile::TempDir) -> Arc<SqliteStore> {
    let store = SqliteStore::open(place.path(), StoreOptions::default());
    Arc::new(store.unwrap_or_else(|error| unreachable!("{error}")))
}

fn executor(runtime: &Runtime, store: &Arc<SqliteStore>, session: &str) -> Executor {
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new(TOOL, DESCRIPTION, write))
        .tool(Tool::new(CLAIMING, DESCRIPTION, write).idempotency(IdempotencyConfig::auto()));
    let template = PromptTemplate::builder("bench", "durable").section(section).build();
    let prompt = template.unwrap_or_else(|error| unreachable!("{error}")).prompt();
    let session = wait(runtime, Session::builder().id(session).store(Arc::clone(store) as _).open());
    session.know::<Written>().unwrap_or_else(|error| unreachable!("{error}"));
    wait(runtime, Executor::open(&prompt, &session))
}

/// Another line for each call: a call that was made before would be answered from the ledger.
fn arguments(number: usize) -> String {
    ARGUMENTS.replace("\"start_line\":117", &format!("\"start_line\":{number}"))
}

fn call(runtime: &Runtime, executor: &Executor, tool: &str, number: usize) {
    let outcome = runtime.block_on(executor.call(ToolCall::new("call_1", tool, arguments(number))));
    assert_eq!(outcome.text(), ANSWER.replace("117", &number.to_string()));
}

fn one_caller(tool: &'static str) -> Case {
    let (place, runtime) = (scratch(), runtime());
    let executor = executor(&runtime, &open(&place), "one");
    let mut number = 0;
    Box::new(move || {
        number += 1;
        call(&runtime, &executor, tool, number);
        // Held last, so that it goes last.
        let _place = &place;
    })
}

fn many_callers(sessions: usize) -> Case {
    let (place, runtime) = (scratch(), runtime());
    let store = open(&place);
    let executors: Vec<Arc<Executor>> = (0..sessions)
        .map(|number| Arc::new(executor(&runtime, &store, &format!("session_{number}"))))
        .collect();
    Box::new(move || {
        let callers: Vec<_> = executors
            .iter()
            .cycle()
            .take(CALLERS)
            .map(|executor| {
                let executor = Arc::clone(executor);
                runtime.spawn(async move {
                    for number in 0..CALLS_OF_EACH {
                        let call = ToolCall::new("call_1", TOOL, arguments(number));
                        assert!(executor.call(call).await.is_success());
                    }
                })
            })
            .collect();
        for caller in callers {
            wait(&runtime, caller);
        }
        let _store = &store;
        let _place = &place;
    })
}
