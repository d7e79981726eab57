//! What a restart leaves: slices in their types, older and unreadable values, the ledger, and the place itself.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is broken by panicking"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wink::session::{
    InvocationId, Session, SessionId, SliceKey, SliceKind, SliceOp, SliceProblem, SliceType, append_all,
    upsert_by_key,
};
use wink::store::{Batch, JournalId, LedgerRow, LedgerState, Record, Rows, Store, StoreErrorKind};
use wink::testing::FakeClock;
use wink_store::{Pruned, SqliteStore, StoreOptions, StoreRetention, StoreView, Workspace, WorkspaceOptions};

fn open(place: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(place, StoreOptions::default()).unwrap())
}

async fn session(place: &Path) -> Session {
    Session::builder().id("s").store(open(place)).open().await.unwrap()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Step {
    id: u32,
    title: String,
    share: f64,
    more: Option<Vec<Value>>,
}

impl SliceType for Step {
    const NAME: &'static str = "step";
    const KEYED: bool = true;
    fn key(&self) -> Option<SliceKey> {
        Some(self.id.to_string().into())
    }
}

fn step(id: u32, title: &str) -> Step {
    Step {
        id,
        title: title.to_owned(),
        share: 0.1 + 0.2,
        more: Some(vec![json!({ "b": 1, "a": [null, "ä"] })]),
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Edit {
    Append(Step),
    Extend(Vec<Step>),
    Replace(Vec<Step>),
}
impl SliceType for Edit {
    const NAME: &'static str = "edit";
    const KIND: SliceKind = SliceKind::Log;
}

// cases 115, 117
#[tokio::test]
async fn every_kind_of_change_is_there_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let mut expected: Vec<Step> = Vec::new();
    let ways: Vec<(&str, Box<dyn Fn(&Session)>)> = vec![
        ("append", Box::new(|session| assert!(session.dispatch(Edit::Append(step(1, "one"))).is_ok()))),
        (
            "extend",
            Box::new(|session| {
                assert!(session.dispatch(Edit::Extend(vec![step(2, "two"), step(3, "three")])).is_ok());
            }),
        ),
        ("upsert", Box::new(|session| assert!(session.dispatch(step(2, "second")).is_ok()))),
        ("clear(pred)", Box::new(|session| session.clear_where::<Step>(|step| step.id == 1).unwrap())),
        (
            "replace",
            Box::new(|session| {
                assert!(session.dispatch(Edit::Replace(vec![step(7, "seven"), step(8, "eight")])).is_ok());
            }),
        ),
        ("seed", Box::new(|session| session.seed([step(9, "nine")]).unwrap())),
        ("clear", Box::new(|session| session.clear::<Step>().unwrap())),
    ];
    for (way, change) in ways {
        let session = session(place.path()).await;
        session.register::<Step, Step>(upsert_by_key()).unwrap();
        session
            .register::<Edit, Step>(|_, edit| {
                Ok(match edit.clone() {
                    Edit::Append(step) => SliceOp::Append(step),
                    Edit::Extend(steps) => SliceOp::Extend(steps),
                    Edit::Replace(steps) => SliceOp::Replace(steps),
                })
            })
            .unwrap();
        session.register::<Edit, Edit>(append_all()).unwrap();
        let before: Vec<Step> = session.slice::<Step>().iter().map(|step| Step::clone(&step)).collect();
        assert_eq!(before, expected, "before {way}");
        change(&session);
        expected = session.slice::<Step>().iter().map(|step| Step::clone(&step)).collect();
        session.flush().await.unwrap();
    }
    let session = session(place.path()).await;
    assert_eq!(session.slice::<Step>().len(), 0);
    let edits: Vec<Edit> = session.slice::<Edit>().iter().map(|edit| Edit::clone(&edit)).collect();
    let steps = vec![step(7, "seven"), step(8, "eight")];
    let expected = [
        Edit::Append(step(1, "one")),
        Edit::Extend(vec![step(2, "two"), step(3, "three")]),
        Edit::Replace(steps),
    ];
    assert_eq!(edits, expected, "equal to what was dispatched, in its type");
    assert_eq!(session.problems(), []);
}

/// The same slice, one version later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Named {
    id: u32,
    name: String,
}
impl SliceType for Named {
    const NAME: &'static str = "step";
    const VERSION: u32 = 2;
    fn upgrade(from: u32, value: Value) -> Result<Value, String> {
        match (from, value["title"].as_str()) {
            (1, Some(title)) if title != "bad" => Ok(json!({ "id": value["id"], "name": title })),
            _ => Err(format!("a step of version {from} without a good title")),
        }
    }
}

// case 117
#[tokio::test]
async fn older_values_are_upgraded_and_unreadable_ones_named() {
    let place = tempfile::tempdir().unwrap();
    {
        let session = session(place.path()).await;
        assert!(session.dispatch(step(1, "one")).is_ok());
        session.flush().await.unwrap();
    }
    {
        let session = session(place.path()).await;
        let named: Vec<Arc<Named>> = session.slice::<Named>().all();
        assert_eq!(named, [Arc::new(Named { id: 1, name: "one".into() })]);
        assert!(session.dispatch(Named { id: 2, name: "two".into() }).is_ok());
        session.flush().await.unwrap();
        assert_eq!(session.problems(), []);
    }
    {
        // A program of the older version cannot read the newer value: that slice only.
        let session = session(place.path()).await;
        assert!(session.dispatch(step(3, "three")).failures.len() == 1);
        let problems = session.problems();
        assert_eq!(problems.iter().map(|problem| problem.slice.as_str()).collect::<Vec<_>>(), ["step"]);
        assert!(session.dispatch(Edit::Append(step(1, "x"))).is_ok(), "the session lives");
        session.flush().await.unwrap();
    }
    let session = session(place.path()).await;
    assert_eq!(session.slice::<Named>().len(), 2, "nothing was lost by that");
    assert_eq!(session.slice::<Edit>().len(), 1);
}

// case 117
#[tokio::test]
async fn a_value_that_cannot_be_read_is_a_named_problem_and_no_dead_session() {
    let place = tempfile::tempdir().unwrap();
    let bad = json!({ "version": 1, "kind": "state", "change": { "append": step(1, "bad") } });
    let good = json!({ "version": 1, "kind": "log", "change": { "append": Edit::Append(step(1, "x")) } });
    let batch = Batch {
        records: vec![Record::new("step", bad.to_string()), Record::new("edit", good.to_string())],
        ..Batch::default()
    };
    open(place.path()).commit(&SessionId::from("s"), batch).await.unwrap();
    let session = session(place.path()).await;
    assert_eq!(session.slice::<Named>().len(), 0);
    assert_eq!(session.slice::<Edit>().len(), 1);
    let reason = "a step of version 1 without a good title".to_owned();
    assert_eq!(session.problems(), [SliceProblem { slice: "step".into(), reason }]);
    session.seed([Named { id: 5, name: "anew".into() }]).unwrap();
    assert!(session.dispatch(Named { id: 6, name: "on".into() }).is_ok());
    session.flush().await.unwrap();
    let session = self::session(place.path()).await;
    assert_eq!((session.slice::<Named>().len(), session.problems()), (2, vec![]), "mended");
}

fn effect(key: &str, expires_at: Option<jiff::Timestamp>) -> LedgerRow {
    let state = LedgerState::Recorded { effect: json!({ "n": 0.1 }), expires_at };
    LedgerRow { key: key.into(), tool: "pay".into(), params_hash: "h".into(), ttl: None, state }
}

#[tokio::test]
async fn journals_are_remembered_for_as_long_as_they_are_to_be() {
    let place = tempfile::tempdir().unwrap();
    let clock = FakeClock::new("2026-01-01T00:00:00Z".parse().unwrap());
    let retention = StoreRetention { journals: Duration::from_secs(60), expired: Duration::from_secs(10) };
    let options = || StoreOptions::default().clock(Arc::new(clock.clone())).retention(retention);
    let open = || {
        let options = WorkspaceOptions { store: options(), ..WorkspaceOptions::default() };
        Workspace::open_with(place.path(), options).unwrap()
    };
    let workspace = open();
    let store = workspace.store();
    let verdict = store.verdict().unwrap();
    let (old, new, never) = (JournalId::fresh(), JournalId::fresh(), JournalId::fresh());
    let session = SessionId::from("s");
    let batch = |id| Batch {
        journals: vec![id],
        ends: Some(InvocationId::fresh(jiff::Timestamp::UNIX_EPOCH)),
        ..Batch::default()
    };
    store.commit(&session, batch(old)).await.unwrap();
    let refused = Batch { expects: Some(7), ..batch(never) };
    assert!(store.commit(&session, refused).await.is_err());
    assert_eq!([verdict(&old), verdict(&new), verdict(&never)], [Ok(true), Ok(false), Ok(false)]);
    clock.advance(Duration::from_secs(45));
    store.commit(&session, batch(new)).await.unwrap();
    let second = |second: u64| Some(clock.shifted(second));
    for (key, at) in [("a", second(0)), ("b", second(5)), ("c", None)] {
        store.claim(effect(key, at), "2020-01-01T00:00:00Z".parse().unwrap()).await.unwrap();
    }
    drop(workspace);
    let workspace = open();
    let store = workspace.store();
    assert_eq!(workspace.prune().await.unwrap(), Pruned::default());
    clock.advance(Duration::from_secs(15));
    assert_eq!(workspace.prune().await.unwrap(), Pruned { journals: 0, effects: 2 });
    clock.advance(Duration::from_secs(1));
    // The store alone does not know whether anybody needs to know.
    assert_eq!(store.prune().await.unwrap(), Pruned::default());
    assert_eq!(workspace.prune().await.unwrap(), Pruned { journals: 1, effects: 0 });
    assert_eq!([verdict(&old), verdict(&new)], [Ok(false), Ok(true)]);
    assert_eq!(store.rows(Rows::All).await.unwrap(), [effect("c", None)]);
    assert_eq!(store.sessions().await.unwrap(), [session]);
}

trait Shifted {
    fn shifted(&self, seconds: u64) -> jiff::Timestamp;
}
impl Shifted for FakeClock {
    fn shifted(&self, seconds: u64) -> jiff::Timestamp {
        use wink::limits::Clock;
        self.now().saturating_add(Duration::from_secs(seconds)).unwrap()
    }
}

/// The tables as version 1 had them, with a session in them.
fn version_one(file: &Path) {
    let old = rusqlite::Connection::open(file).unwrap();
    old.execute_batch(
        r#"PRAGMA application_id = 0x77696e6b;
           PRAGMA user_version = 1;
           CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
           INSERT INTO meta VALUES ('fence', 0);
           CREATE TABLE sessions (
               id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, compacted INTEGER NOT NULL DEFAULT 0);
           CREATE TABLE records (
               id INTEGER PRIMARY KEY, at INTEGER NOT NULL, call BLOB, stream TEXT NOT NULL, bytes BLOB NOT NULL);
           CREATE TABLE calls (
               id INTEGER PRIMARY KEY, session INTEGER NOT NULL, invocation TEXT NOT NULL, owner TEXT NOT NULL,
               mark TEXT NOT NULL);
           CREATE TABLE ledger (
               key TEXT PRIMARY KEY, tool TEXT NOT NULL, owner TEXT, expires INTEGER, row TEXT NOT NULL)
               WITHOUT ROWID;
           CREATE INDEX ledger_by_tool ON ledger (tool);
           CREATE INDEX ledger_by_owner ON ledger (owner) WHERE owner IS NOT NULL;
           CREATE INDEX ledger_by_expiry ON ledger (expires) WHERE expires IS NOT NULL;
           INSERT INTO sessions (id, name) VALUES (1, 's');
           INSERT INTO records VALUES (
               (1 << 40) + 1, 0, NULL, 'edit',
               CAST('{"version":1,"kind":"log","change":{"append":{"Extend":[]}}}' AS BLOB));"#,
    )
    .unwrap();
}

#[tokio::test]
async fn an_older_database_is_brought_up_to_date() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("wink.db");
    version_one(&file);
    let before = std::fs::read(&file).unwrap();
    let view = StoreView::open(&file).unwrap();
    assert_eq!(
        view.load(&"s".into()).await.unwrap().sequence,
        1,
        "also where it cannot be brought up to date"
    );
    assert_eq!(std::fs::read(&file).unwrap(), before);
    for _ in 0..2 {
        let store = open(place.path());
        let journal = JournalId::fresh();
        store.commit(&"s".into(), Batch { journals: vec![journal], ..Batch::default() }).await.unwrap();
        assert_eq!(store.verdict().unwrap()(&journal), Ok(true), "what it did not have is there");
        assert!(store.check().await.unwrap().is_sound());
        let session = session(place.path()).await;
        let edits: Vec<Edit> = session.slice::<Edit>().iter().map(|edit| Edit::clone(&edit)).collect();
        assert_eq!(edits, [Edit::Extend(vec![])], "and what it had still is");
    }
    // A long one that was never summed up is read as a whole once.
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("wink.db");
    version_one(&file);
    let old = rusqlite::Connection::open(&file).unwrap();
    old.execute_batch(
        r#"WITH RECURSIVE numbers (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < 3000)
           INSERT INTO records SELECT
               (1 << 40) + n, 0, NULL, 'edit',
               CAST('{"version":1,"kind":"log","change":{"append":{"Extend":[]}}}' AS BLOB) FROM numbers;"#,
    )
    .unwrap();
    drop(old);
    for _ in 0..2 {
        let found = session(place.path()).await;
        assert_eq!((found.slice::<Edit>().len(), found.slice::<Edit>().iter().count()), (3000, 3000));
        let opening = open(place.path()).opening(&"s".into()).await.unwrap();
        assert_eq!((opening.summary.map(|summary| summary.sequence), opening.sequence), (Some(3000), 3000));
    }
}

#[tokio::test]
async fn what_a_newer_version_or_something_else_wrote_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("wink.db");
    drop(open(place.path()));
    rusqlite::Connection::open(&file).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let other = place.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    for (file, text) in
        [(&file, "a newer version of Wink: its tables are version 99"), (&other, "of something else")]
    {
        let before = std::fs::read(file).unwrap();
        let refused = SqliteStore::open(file, StoreOptions::default()).unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Incompatible);
        assert!(refused.reason.contains(text), "{}", refused.reason);
        assert_eq!(std::fs::read(file).unwrap(), before);
    }
    std::fs::write(&other, "not a database at all, but long enough to be looked at as one".repeat(99))
        .unwrap();
    let before = std::fs::read(&other).unwrap();
    assert!(SqliteStore::open(&other, StoreOptions::default()).is_err());
    assert_eq!(std::fs::read(&other).unwrap(), before);
}

#[tokio::test]
async fn damage_is_found() {
    let place = tempfile::tempdir().unwrap();
    let store = open(place.path());
    let records = (0..200).map(|number| Record::new(format!("stream {number}"), vec![7; 300])).collect();
    store.commit(&"s".into(), Batch { records, ..Batch::default() }).await.unwrap();
    assert!(store.check().await.unwrap().is_sound());
    let file = store.path().to_owned();
    drop(store);
    {
        let conn = rusqlite::Connection::open(&file).unwrap();
        conn.execute_batch(
            "INSERT INTO ledger VALUES ('k', 't', NULL, NULL, 'no JSON', NULL);
             INSERT INTO records VALUES (7 << 40, 0, NULL, 'x', '', NULL, NULL)",
        )
        .unwrap();
    }
    let problems = open(place.path()).check().await.unwrap().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].ends_with("it belongs to no session"), "{problems:?}");
    assert!(problems[1].starts_with("effect k: "), "{problems:?}");

    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4096].fill(0xa5);
    std::fs::write(&file, bytes).unwrap();
    let refused = SqliteStore::open(place.path(), StoreOptions::default().check_at_open());
    assert!(refused.is_err(), "{refused:?}");
}

#[tokio::test]
async fn a_full_disk_leaves_what_was_there_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let session = SessionId::from("s");
    let store = SqliteStore::open(place.path(), StoreOptions::default().most_pages(60)).unwrap();
    let batch =
        |number: u8, size| Batch { records: vec![Record::new("x", vec![number; size])], ..Batch::default() };
    let mut written = Vec::new();
    let error = loop {
        let number = written.len() as u8;
        match store.commit(&session, batch(number, 20_000)).await {
            Ok(()) => written.push(Record::new("x", vec![number; 20_000])),
            Err(error) => break error,
        }
    };
    assert!(error.reason.contains("no space left"), "{error}");
    assert!(!written.is_empty());
    assert_eq!(store.load(&session).await.unwrap().records, written);
    // At the same time: one that fits goes through beside those that do not.
    let (large, small, larger) = tokio::join!(
        store.commit(&session, batch(100, 90_000)),
        store.commit(&session, batch(101, 10)),
        store.commit(&session, batch(102, 90_000)),
    );
    assert_eq!((large.is_err(), small, larger.is_err()), (true, Ok(()), true));
    written.push(Record::new("x", vec![101; 10]));
    drop(store);
    let store = open(place.path());
    assert_eq!(store.load(&session).await.unwrap().records, written);
    assert!(store.check().await.unwrap().is_sound());
    store.commit(&session, batch(103, 90_000)).await.expect("there is room again");
}

#[test]
fn nobody_waits_without_end_for_whoever_opens() {
    let place = tempfile::tempdir().unwrap();
    drop(open(place.path()));
    let held = std::fs::File::open(place.path().join("stores/new-opening")).unwrap();
    held.lock().unwrap();
    let options = StoreOptions::default().busy_timeout(Duration::from_millis(20));
    let error = SqliteStore::open(place.path(), options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store failed to open: another process has begun to open it and is not done: try again, or end that process if it hangs"
    );
    drop(held);
    open(place.path());
}
