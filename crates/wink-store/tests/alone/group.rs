//! What is committed at the same time shares a transaction, and so the wait for the disk.

#![allow(clippy::unwrap_used, reason = "a test says what is broken by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wink::session::SessionId;
use wink::store::{Batch, Record, Store};
use wink::testing::steps;
use wink_store::{SqliteStore, StoreOptions};

use crate::ALONE;

#[tokio::test]
async fn commits_of_many_sessions_at_once_share_transactions() {
    const CALLERS: usize = 64;
    let _alone = ALONE.lock().await;
    let place = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(place.path(), StoreOptions::default()).unwrap());
    let (begun, committed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (transactions, commits) = (Arc::clone(&begun), Arc::clone(&committed));
    // The thread that writes is held up in its first transaction until all have asked.
    let (all_asked, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    steps::on_every_step(move |step| match step {
        "store.before-commit" if transactions.fetch_add(1, Ordering::SeqCst) == 0 => {
            wait.lock().unwrap().recv().unwrap();
        }
        "store.committed" => _ = commits.fetch_add(1, Ordering::SeqCst),
        _ => {}
    });
    let batch = |number: usize| Batch {
        records: vec![Record::new("x", number.to_string().into_bytes())],
        ..Batch::default()
    };
    let sessions: Vec<SessionId> = (0..CALLERS).map(|number| SessionId::from(format!("s{number}"))).collect();
    let asked: Vec<_> =
        sessions.iter().enumerate().map(|(number, session)| store.commit(session, batch(number))).collect();
    all_asked.send(()).unwrap();
    for asked in asked {
        asked.await.unwrap();
    }
    steps::stop_listening();
    assert_eq!(committed.load(Ordering::SeqCst), CALLERS);
    // The first by itself, or with some, and all others together.
    assert!(begun.load(Ordering::SeqCst) <= 2, "{begun:?} transactions");
    for (number, session) in sessions.iter().enumerate() {
        let records = store.load(session).await.unwrap().records;
        assert_eq!(records, [Record::new("x", number.to_string().into_bytes())]);
    }
}
