//! What is dropped is rolled back, or finished if it was already on its way; the next begin waits for either.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use wink::transaction::Transaction;

use super::world::{Said, Seen, Stubborn, World, change_all};

/// Whether `future` is not done at its first poll.
fn waits<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    matches!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
}

#[tokio::test]
async fn a_dropped_transaction_is_rolled_back_at_once() {
    let world = World::new().await;
    let before = world.seen().await;
    let tx = Transaction::begin(&world.session, &world.resources, "dropped").await;
    change_all(&tx, "a").await;
    drop(tx);
    assert_eq!(world.seen().await, Seen { said: vec!["a".to_owned()], ..before });
}

#[tokio::test]
async fn the_next_begin_waits_for_the_rollback_of_a_dropped_one() {
    let store = Stubborn::new();
    let world = World::on(store.clone()).await;
    let tx = Transaction::begin(&world.session, &world.resources, "dropped").await;
    change_all(&tx, "a").await;
    store.shut();
    drop(tx);
    let mut next = Box::pin(Transaction::begin(&world.session, &world.resources, "next"));
    assert!(waits(next.as_mut()));
    store.until_waiting().await;
    assert!(waits(next.as_mut()));
    store.open();
    let next = next.await;
    assert_eq!(world.seen().await.notes, ["there"]);
    assert_eq!(store.commits.load(Ordering::SeqCst), 1);
    next.commit().await.unwrap();
}

#[tokio::test]
async fn a_dropped_commit_is_finished() {
    let store = Stubborn::new();
    let world = World::on(store.clone()).await;
    let tx = Transaction::begin(&world.session, &world.resources, "commit").await;
    change_all(&tx, "a").await;
    store.shut();
    {
        let mut commit = Box::pin(tx.commit());
        assert!(waits(commit.as_mut()));
    }
    assert_eq!(world.seen().await.notes, ["there"]);
    store.open();
    Transaction::begin(&world.session, &world.resources, "next").await.rollback().await.unwrap();
    let after = world.seen().await;
    assert_eq!((after.notes, after.counter), (vec!["there".to_owned(), "a".to_owned()], 1));
    assert_eq!(after.said, ["a"]);
}

#[tokio::test]
async fn a_commit_that_was_never_polled_is_a_rollback() {
    let world = World::new().await;
    let tx = Transaction::begin(&world.session, &world.resources, "commit").await;
    change_all(&tx, "a").await;
    drop(tx.commit());
    assert_eq!(world.seen().await.notes, ["there"]);
}

/// A commit on its way in a runtime that ends, and the same dropped where there is no runtime.
fn interrupted(drop_outside: bool) {
    let store = Stubborn::new();
    let first = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (world, commit) = first.block_on(async {
        let world = World::on(store.clone()).await;
        let tx = Transaction::begin(&world.session, &world.resources, "commit").await;
        change_all(&tx, "a").await;
        store.shut();
        let mut commit = Box::pin(tx.commit());
        assert!(waits(commit.as_mut()));
        if drop_outside {
            return (world, Some(commit));
        }
        drop(commit);
        tokio::task::yield_now().await;
        (world, None)
    });
    drop(first);
    drop(commit);
    store.open();
    let second = tokio::runtime::Builder::new_current_thread().build().unwrap();
    second.block_on(async {
        Transaction::begin(&world.session, &world.resources, "next").await.rollback().await.unwrap();
        let after = world.seen().await;
        assert_eq!((after.notes, after.counter), (vec!["there".to_owned(), "a".to_owned()], 1));
    });
}

#[test]
fn a_commit_outlives_its_runtime() {
    interrupted(false);
}

#[test]
fn a_commit_is_finished_without_a_runtime() {
    interrupted(true);
}

#[test]
fn a_transaction_dropped_without_a_runtime_is_rolled_back() {
    let store = Stubborn::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (world, tx) = runtime.block_on(async {
        let world = World::on(store.clone()).await;
        let tx = Transaction::begin(&world.session, &world.resources, "dropped").await;
        change_all(&tx, "a").await;
        (world, tx)
    });
    drop(runtime);
    store.shut();
    drop(tx);
    store.open();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        drop(Transaction::begin(&world.session, &world.resources, "next").await);
        let after = world.seen().await;
        assert_eq!((after.notes, after.said), (vec!["there".to_owned()], vec!["a".to_owned()]));
    });
}

#[tokio::test]
async fn subscribers_of_the_log_hear_of_a_dropped_transaction() {
    let world = World::new().await;
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let ear = heard.clone();
    let _subscription = world.session.dispatcher().subscribe::<Said>(move |said, _| {
        ear.lock().unwrap().push(said.0.clone());
        Ok(())
    });
    let tx = Transaction::begin(&world.session, &world.resources, "dropped").await;
    change_all(&tx, "a").await;
    assert!(heard.lock().unwrap().is_empty());
    drop(tx);
    assert_eq!(*heard.lock().unwrap(), ["a"]);
}
