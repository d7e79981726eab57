//! Marks of calls in flight, as they are found when their process is dead.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what is broken by panicking"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use wink::session::{InvocationId, SessionId};
use wink::store::{
    Batch, CallMark, Claimed, LedgerRow, LedgerState, OrphanRule, Record, Rows, Store, boot_id,
};
use wink_store::{SqliteStore, StoreOptions};

fn open(place: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(place, StoreOptions::default()).unwrap())
}

fn mark(number: i64) -> CallMark {
    let at = Timestamp::from_second(number).unwrap();
    CallMark {
        invocation: InvocationId::fresh(at),
        call_id: format!("c{number}"),
        tool: "t".into(),
        arguments: "{}".into(),
        prompt: "ns/key".into(),
        adapter: "test".into(),
        time: at,
        run: None,
        request: None,
        attempt: None,
    }
}

fn ends(mark: &CallMark, records: Vec<Record>) -> Batch {
    Batch { ends: Some(mark.invocation), records, ..Batch::default() }
}

fn file_of(place: &Path) -> PathBuf {
    let mut files = std::fs::read_dir(place.join("wink.db-calls")).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none(), "one process, one file");
    file
}

#[tokio::test]
async fn a_call_whose_end_is_committed_is_not_unfinished_though_its_mark_stands() {
    let place = tempfile::tempdir().unwrap();
    let session = SessionId::from("s");
    let store = open(place.path());
    let (ended, lost) = (mark(1), mark(2));
    store.begin(&session, ended.clone()).await.unwrap();
    store.begin(&session, lost.clone()).await.unwrap();
    let file = file_of(place.path());
    let standing = std::fs::read(&file).unwrap();
    let event = Record { call: Some(ended.invocation), stream: "e".into(), bytes: b"x".to_vec() };
    store.commit(&session, ends(&ended, vec![event])).await.unwrap();
    drop(store);
    // As if the process had died before it struck the mark out.
    std::fs::write(&file, &standing).unwrap();
    let store = open(place.path());
    assert_eq!(store.load(&session).await.unwrap().unfinished, [lost]);
    assert!(!file.exists());
}

/// What a store refused comes with a later batch, of another call: that is the end of both.
#[tokio::test]
async fn an_end_that_comes_later_strikes_its_mark_out() {
    let place = tempfile::tempdir().unwrap();
    let session = SessionId::from("s");
    let store = open(place.path());
    let (refused, next) = (mark(1), mark(2));
    store.begin(&session, refused.clone()).await.unwrap();
    store.begin(&session, next.clone()).await.unwrap();
    let event =
        |mark: &CallMark| Record { call: Some(mark.invocation), stream: "e".into(), bytes: b"x".to_vec() };
    store.commit(&session, ends(&next, vec![event(&refused), event(&next)])).await.unwrap();
    let text = std::fs::read_to_string(file_of(place.path())).unwrap();
    assert!(text.lines().all(|line| line.starts_with('-')), "{text}");
}

#[tokio::test]
async fn what_is_no_mark_is_passed_over() {
    let place = tempfile::tempdir().unwrap();
    let session = SessionId::from("s");
    let store = open(place.path());
    let lost = mark(1);
    store.begin(&session, lost.clone()).await.unwrap();
    let file = file_of(place.path());
    drop(store);
    let mut text = b"\0\0\0\n+[\"s\",{}]\n-[\"s\"]\n".to_vec();
    text.extend(std::fs::read(&file).unwrap());
    text.extend(&text.clone()[text.len() - 30..text.len() - 1]);
    std::fs::write(&file, text).unwrap();
    assert_eq!(open(place.path()).load(&session).await.unwrap().unfinished, [lost]);
}

#[tokio::test]
async fn the_file_does_not_grow_with_calls() {
    let place = tempfile::tempdir().unwrap();
    let session = SessionId::from("s");
    let store = open(place.path());
    let mut largest = 0;
    for number in 0..1_500 {
        let mark = mark(number);
        store.begin(&session, mark.clone()).await.unwrap();
        store.commit(&session, ends(&mark, Vec::new())).await.unwrap();
        largest = largest.max(std::fs::metadata(file_of(place.path())).unwrap().len());
    }
    assert!((60_000..70_000).contains(&largest), "{largest}");
    let file = file_of(place.path());
    drop(store);
    assert!(!file.exists(), "nothing is left of a process that ended well");
}

/// Another process that is open notices, and does not need to be opened again.
#[tokio::test]
async fn the_dead_are_noticed_by_those_who_live() {
    let place = tempfile::tempdir().unwrap();
    let session = SessionId::from("s");
    let (living, dying) = (open(place.path()), open(place.path()));
    let lost = mark(1);
    dying.begin(&session, lost.clone()).await.unwrap();
    assert_eq!(living.load_since(&session, 0).await.unwrap().unfinished, []);
    drop(dying);
    assert_eq!(living.load_since(&session, 0).await.unwrap().unfinished, std::slice::from_ref(&lost));
    living.commit(&session, ends(&lost, Vec::new())).await.unwrap();
    assert_eq!(living.load_since(&session, 0).await.unwrap().unfinished, []);
}

#[tokio::test]
async fn a_call_that_takes_long_does_not_keep_the_others_marks() {
    let place = tempfile::tempdir().unwrap();
    let session = SessionId::from("s");
    let store = open(place.path());
    let long = [mark(-1), mark(-2)];
    store.begin(&session, long[0].clone()).await.unwrap();
    for number in 0..1_000 {
        let mark = mark(number);
        store.begin(&session, mark.clone()).await.unwrap();
        if number == 500 {
            store.begin(&session, long[1].clone()).await.unwrap();
        }
        store.commit(&session, ends(&mark, Vec::new())).await.unwrap();
    }
    assert!(std::fs::metadata(file_of(place.path())).unwrap().len() < 70_000);
    drop(store);
    assert_eq!(open(place.path()).load(&session).await.unwrap().unfinished, long);
}

#[tokio::test]
async fn databases_in_one_folder_have_calls_of_their_own() {
    let place = tempfile::tempdir().unwrap();
    let session = SessionId::from("s");
    let store = open(&place.path().join("a.db"));
    let lost = mark(1);
    store.begin(&session, lost.clone()).await.unwrap();
    drop(store);
    assert_eq!(open(&place.path().join("b.db")).load(&session).await.unwrap().unfinished, []);
    assert_eq!(open(&place.path().join("a.db")).load(&session).await.unwrap().unfinished, [lost]);
}

/// The claim of a call of this boot.
fn claim_of(mark: &CallMark) -> LedgerRow {
    let boot = boot_id().unwrap().to_owned();
    let orphan = OrphanRule::ReleaseUnlessStarted { call: mark.invocation, boot };
    LedgerRow {
        key: mark.call_id.clone(),
        tool: "t".into(),
        params_hash: "h".into(),
        ttl: None,
        state: LedgerState::Claimed { owner: "me".into(), since: Timestamp::UNIX_EPOCH, orphan },
    }
}

async fn claim(store: &SqliteStore, mark: &CallMark) {
    assert_eq!(store.claim(claim_of(mark), Timestamp::UNIX_EPOCH).await.unwrap(), Claimed::Yes);
}

async fn doubts(store: &SqliteStore) -> Vec<String> {
    let rows = store.rows(Rows::All).await.unwrap();
    assert!(rows.iter().all(|row| matches!(row.state, LedgerState::InDoubt { .. })), "{rows:?}");
    rows.into_iter().map(|row| row.key).collect()
}

/// What is done to the file of an owner that has died.
enum Spoil {
    Nothing,
    Remove,
    /// To this part of its length.
    Cut(usize, usize),
    /// This byte, counted from the beginning, becomes another one.
    Flip(usize),
    /// A byte in the middle of its last line.
    FlipInLast,
    /// By what was written to it, in a file of its own.
    Copy,
    /// By a line that no store has written, before all others.
    Foreign,
}

// case 259
#[tokio::test]
async fn a_file_of_marks_that_is_not_as_its_owner_left_it_releases_nothing() {
    let all = ["c1".to_owned(), "c2".to_owned()];
    let cases = [
        (Spoil::Nothing, vec!["c2".to_owned()]),
        (Spoil::Remove, all.to_vec()),
        (Spoil::Cut(0, 1), all.to_vec()),
        // The line of the second is gone; the first is whole.
        (Spoil::Cut(1, 2), vec!["c2".to_owned()]),
        (Spoil::Flip(0), all.to_vec()),
        (Spoil::Flip(40), all.to_vec()),
        (Spoil::FlipInLast, all.to_vec()),
        (Spoil::Copy, all.to_vec()),
        (Spoil::Foreign, all.to_vec()),
    ];
    for (number, (spoil, expected)) in cases.into_iter().enumerate() {
        let place = tempfile::tempdir().unwrap();
        let session = SessionId::from("s");
        let store = open(place.path());
        let marks = [mark(1), mark(2)];
        for mark in &marks {
            store.begin(&session, mark.clone()).await.unwrap();
            claim(&store, mark).await;
        }
        store.start(marks[1].invocation).await.unwrap();
        let file = file_of(place.path());
        drop(store);
        let mut bytes = std::fs::read(&file).unwrap();
        match spoil {
            Spoil::Nothing => {}
            Spoil::Remove => std::fs::remove_file(&file).unwrap(),
            Spoil::Cut(part, of) => std::fs::write(&file, &bytes[..bytes.len() * part / of]).unwrap(),
            Spoil::Flip(at) => {
                bytes[at] ^= 1;
                std::fs::write(&file, bytes).unwrap();
            }
            Spoil::FlipInLast => {
                let at = bytes.len() - 30;
                bytes[at] ^= 1;
                std::fs::write(&file, bytes).unwrap();
            }
            Spoil::Copy => {
                let copy = file.with_extension("copy");
                std::fs::copy(&file, &copy).unwrap();
                std::fs::rename(copy, &file).unwrap();
            }
            Spoil::Foreign => std::fs::write(&file, [b"\0\0\0\n", &bytes[..]].concat()).unwrap(),
        }
        assert_eq!(doubts(&open(place.path())).await, expected, "case {number}");
    }
}

/// The file is written anew when most of it is struck out, and says the same.
#[tokio::test]
async fn what_has_started_is_known_after_the_file_was_made_smaller() {
    let place = tempfile::tempdir().unwrap();
    let session = SessionId::from("s");
    let store = open(place.path());
    let [begun, started, late] = [mark(-1), mark(-2), mark(-3)];
    for mark in [&begun, &started, &late] {
        store.begin(&session, mark.clone()).await.unwrap();
        claim(&store, mark).await;
    }
    store.start(started.invocation).await.unwrap();
    for number in 0..600 {
        let mark = mark(number);
        store.begin(&session, mark.clone()).await.unwrap();
        store.commit(&session, ends(&mark, Vec::new())).await.unwrap();
    }
    let file = file_of(place.path());
    assert!(std::fs::metadata(&file).unwrap().len() < 60_000, "it was made smaller");
    store.start(late.invocation).await.unwrap();
    drop(store);
    assert_eq!(doubts(&open(place.path())).await, ["c-2", "c-3"]);
}

#[tokio::test]
async fn what_has_not_begun_here_does_not_start() {
    let place = tempfile::tempdir().unwrap();
    let (session, mark) = (SessionId::from("s"), mark(1));
    let store = open(place.path());
    assert!(store.start(mark.invocation).await.is_err());
    store.begin(&session, mark.clone()).await.unwrap();
    store.start(mark.invocation).await.unwrap();
    store.start(mark.invocation).await.unwrap();
    store.commit(&session, ends(&mark, Vec::new())).await.unwrap();
    assert!(store.start(mark.invocation).await.is_err(), "it has ended");
}

/// What an earlier version wrote says nothing about starts.
#[tokio::test]
async fn the_claims_and_marks_of_an_earlier_version_are_in_doubt() {
    let place = tempfile::tempdir().unwrap();
    let (session, mark) = (SessionId::from("s"), mark(1));
    let store = open(place.path());
    store.begin(&session, mark.clone()).await.unwrap();
    claim(&store, &mark).await;
    let file = file_of(place.path());
    drop(store);
    let text = std::fs::read_to_string(&file).unwrap();
    let (line, check) = text.trim_end().rsplit_once('#').unwrap();
    assert_eq!(check.len(), 16);
    std::fs::write(&file, format!("{line}\n")).unwrap();
    let store = open(place.path());
    assert_eq!(doubts(&store).await, ["c1"]);
    assert_eq!(store.load(&session).await.unwrap().unfinished, [mark], "its mark is read all the same");
    let old = r#"{"claimed":{"owner":"me","since":"1970-01-01T00:00:00Z"}}"#;
    let read: LedgerState = serde_json::from_str(old).unwrap();
    let LedgerState::Claimed { orphan, .. } = &read else { panic!("{read:?}") };
    assert_eq!(*orphan, OrphanRule::InDoubt);
    assert_eq!(serde_json::to_string(&read).unwrap(), old, "and is written as it was");
}
