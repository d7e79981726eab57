//! Marks of calls in flight, as they are found when their process is dead.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test says what is broken by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use wink::session::{InvocationId, SessionId};
use wink::store::{Batch, CallMark, Record, Store};
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
