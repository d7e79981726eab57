//! The scoped form.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::task::{Context, Poll, Waker};

use wink::tool::ToolError;
use wink::transaction::{TransactionError, transaction};

use super::world::{Seen, Stubborn, World, change_all};

// cases 74, 82
#[tokio::test]
async fn an_error_restores_and_is_returned() {
    let world = World::new().await;
    let before = world.seen().await;
    let outcome: Result<(), ToolError> =
        transaction(&world.session, &world.resources, "scoped", async |tx| {
            change_all(tx, "a").await;
            Err(ToolError::new("no"))
        })
        .await;
    assert_eq!(outcome.unwrap_err().to_string(), "no");
    assert_eq!(world.seen().await, Seen { said: vec!["a".to_owned()], ..before });
}

// case 82
#[tokio::test]
async fn success_is_kept_and_the_value_returned() {
    let world = World::new().await;
    let name = "scoped".to_owned();
    let outcome = transaction(&world.session, &world.resources, "scoped", async |tx| {
        change_all(tx, &name).await;
        let inner = tx.nested("inner");
        change_all(&inner, "inner").await;
        inner.rollback().await;
        Ok::<_, TransactionError>(tx.tag().len())
    })
    .await;
    assert_eq!(outcome.unwrap(), 6);
    assert_eq!(world.seen().await.notes, ["there", "scoped"]);
}

// case 82
#[tokio::test]
async fn a_rollback_inside_restores_and_goes_on() {
    let world = World::new().await;
    transaction(&world.session, &world.resources, "scoped", async |tx| {
        change_all(tx, "a").await;
        tx.rollback().await;
        change_all(tx, "b").await;
        Ok::<_, TransactionError>(())
    })
    .await
    .unwrap();
    let after = world.seen().await;
    assert_eq!(after.notes, ["there", "b"]);
    assert_eq!(after.said, ["a", "b"]);
    assert_eq!(after.counter, 1);
    assert_eq!(after.files.keys().collect::<Vec<_>>(), ["made", "made/b.txt", "there.txt"]);
}

#[tokio::test]
async fn a_panic_restores_and_goes_on_unwinding() {
    let world = World::new().await;
    let before = world.seen().await;
    let mut body = Box::pin(transaction(&world.session, &world.resources, "scoped", async |tx| {
        change_all(tx, "a").await;
        if tx.tag() == "scoped" {
            panic!("out of order");
        }
        Ok::<_, TransactionError>(())
    }));
    let mut cx = Context::from_waker(Waker::noop());
    let panic =
        std::panic::catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(&mut cx))).map(|_| ()).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"out of order"));
    drop(body);
    assert_eq!(world.seen().await, Seen { said: vec!["a".to_owned()], ..before });
}

#[tokio::test]
async fn a_body_that_is_dropped_is_restored() {
    let world = World::new().await;
    let before = world.seen().await;
    {
        let mut body = Box::pin(transaction(&world.session, &world.resources, "scoped", async |tx| {
            change_all(tx, "a").await;
            std::future::pending::<()>().await;
            Ok::<_, TransactionError>(())
        }));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(body.as_mut().poll(&mut cx).map(|_| ()), Poll::Pending);
    }
    assert_eq!(world.seen().await, Seen { said: vec!["a".to_owned()], ..before });
}

#[tokio::test]
async fn it_can_be_spawned() {
    let world = World::new().await;
    let (session, resources) = (world.session.clone(), world.resources.clone());
    let spawned = tokio::spawn(async move {
        transaction(&session, &resources, "scoped", async |tx| {
            change_all(tx, "a").await;
            tokio::task::yield_now().await;
            tx.rollback().await;
            Ok::<_, ToolError>(())
        })
        .await
    });
    spawned.await.unwrap().unwrap();
    assert_eq!(world.seen().await.notes, ["there"]);
}

#[tokio::test]
async fn an_error_is_told_together_with_a_store_that_fails() {
    let store = Stubborn::new();
    let world = World::on(store.clone()).await;
    store.fail(true);
    let outcome: Result<(), ToolError> =
        transaction(&world.session, &world.resources, "scoped", async |tx| {
            change_all(tx, "a").await;
            Err(ToolError::new("no"))
        })
        .await;
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "rolled back (no), but its log could not be stored: the store failed to commit: the disk is full"
    );
    assert_eq!(world.seen().await.notes, ["there"]);
}
