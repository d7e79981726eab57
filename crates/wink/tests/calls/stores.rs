//! The stores of this crate keep the contract, and the one made of bytes survives what it says it survives.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what is broken by panicking"
)]

use std::sync::Arc;

use proptest::prelude::*;
use wink::session::SessionId;
use wink::store::{Batch, MemoryStore, Record, SharedStore, Store};
use wink::testing::{ByteStore, FaultyStore, StoreOp, store_contract};

fn byte_places() -> Box<dyn FnMut() -> SharedStore> {
    let mut place: Option<Arc<ByteStore>> = None;
    Box::new(move || {
        let store = Arc::new(match &place {
            None => ByteStore::new(),
            Some(before) => before.reopen().unwrap(),
        });
        place = Some(Arc::clone(&store));
        store
    })
}

#[tokio::test]
async fn memory_store_keeps_the_contract() {
    store_contract(|| Box::new(|| Arc::new(MemoryStore::new()))).await;
}

#[tokio::test]
async fn byte_store_keeps_the_contract() {
    store_contract(byte_places).await;
}

#[tokio::test]
async fn faulty_store_without_faults_keeps_the_contract() {
    store_contract(|| {
        let mut open = byte_places();
        Box::new(move || Arc::new(FaultyStore::new(open())))
    })
    .await;
}

async fn journal(count: u8) -> (SessionId, ByteStore, Vec<usize>) {
    let (session, store, mut ends) = (SessionId::from("s"), ByteStore::new(), Vec::new());
    for number in 0..count {
        let records = vec![Record::new("x", vec![number; 9])];
        store.commit(&session, Batch { records, ..Batch::default() }).await.unwrap();
        ends.push(store.bytes().len());
    }
    (session, store, ends)
}

#[tokio::test]
async fn a_journal_cut_anywhere_has_the_commits_that_are_whole() {
    let (session, store, ends) = journal(4).await;
    let bytes = store.bytes();
    for cut in 0..=bytes.len() {
        let reopened = ByteStore::from_bytes(&bytes[..cut]).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let expected = store.load(&session).await.unwrap().records[..whole].to_vec();
        assert_eq!(reopened.load(&session).await.unwrap().records, expected, "cut at {cut}");
        // The torn tail is gone for good: what is committed next is found again.
        reopened.commit(&session, Batch { records: expected.clone(), ..Batch::default() }).await.unwrap();
        let again = reopened.reopen().unwrap().load(&session).await.unwrap().records;
        assert_eq!(again, [expected.clone(), expected].concat());
    }
}

#[tokio::test]
async fn a_damaged_byte_anywhere_is_an_error() {
    let (_, store, _) = journal(3).await;
    let bytes = store.bytes();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let error = ByteStore::from_bytes(&damaged).expect_err("damage is found");
        assert!(error.to_string().starts_with("the store failed to use its journal: "), "{error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = ByteStore::from_bytes(&bytes);
    }
}

#[tokio::test]
async fn the_nth_operation_fails_and_leaves_nothing() {
    let inner = Arc::new(ByteStore::new());
    let store = FaultyStore::new(Arc::clone(&inner) as SharedStore);
    let session = SessionId::from("s");
    let batch = |number: u8| Batch { records: vec![Record::new("x", vec![number])], ..Batch::default() };
    store.fail(StoreOp::Commit, 2);
    let mut results = Vec::new();
    for number in 0..3 {
        results.push(store.commit(&session, batch(number)).await.map_err(|error| error.to_string()));
    }
    assert_eq!(results, [Ok(()), Err("the store failed to commit: told to fail".to_owned()), Ok(())]);
    let kept = inner.load(&session).await.unwrap().records;
    assert_eq!(kept, [batch(0).records, batch(2).records].concat());
}

#[tokio::test]
async fn a_held_operation_waits_at_its_gate() {
    let inner = Arc::new(ByteStore::new());
    let store = Arc::new(FaultyStore::new(Arc::clone(&inner) as SharedStore));
    let gate = store.hold(StoreOp::Commit, 1);
    let refused = store.hold(StoreOp::Commit, 2);
    let session = SessionId::from("s");
    let batch = Batch { records: vec![Record::new("x", vec![1])], ..Batch::default() };
    let commit = |batch: Batch| {
        let (store, session) = (Arc::clone(&store), session.clone());
        tokio::spawn(async move { store.commit(&session, batch).await })
    };
    let first = commit(batch.clone());
    gate.reached().await;
    assert_eq!(inner.load(&session).await.unwrap().records, []);
    gate.release();
    assert_eq!(first.await.unwrap(), Ok(()));
    let second = commit(batch.clone());
    refused.reached().await;
    refused.refuse();
    assert!(second.await.unwrap().is_err());
    assert_eq!(inner.load(&session).await.unwrap().records, batch.records);
}
