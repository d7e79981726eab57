//! Transactions inside transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wink::resource::{Binding, ResourceContext, ResourceRegistry, Scope};
use wink::session::Session;
use wink::transaction::{Transaction, TransactionError, transaction};

use super::world::{Counter, Note, Seen, World, change_all, note};

// case 93
#[tokio::test]
async fn an_inner_failure_restores_to_the_inner_point_only() {
    let world = World::new().await;
    let before = world.seen().await;
    let mut tx = Transaction::begin(&world.session, &world.resources, "outer").await;
    change_all(&tx, "outer").await;

    let inner = tx.nested("inner");
    assert_eq!(inner.tag(), "inner");
    change_all(&inner, "inner").await;
    assert_eq!(inner.session().slice::<Note>().unwrap().len(), 3);
    inner.rollback().await;

    assert_eq!(tx.session().slice::<Note>().unwrap().latest().as_deref(), Some(&note("outer")));
    assert_eq!(*tx.resource::<Counter>().await.unwrap().read(), 1);
    assert_eq!(tx.filesystem().await.unwrap().read_text("there.txt").await.unwrap(), "outer");

    let dropped = tx.nested("dropped");
    change_all(&dropped, "dropped").await;
    drop(dropped);
    // At once, and not only when something else begins or ends.
    assert_eq!(tx.session().slice::<Note>().unwrap().latest().as_deref(), Some(&note("outer")));
    assert_eq!(*tx.resource::<Counter>().await.unwrap().read(), 1);

    let kept = tx.nested("kept");
    change_all(&kept, "kept").await;
    kept.commit().await.unwrap();
    assert_eq!(world.seen().await, before);
    tx.commit().await.unwrap();

    let after = world.seen().await;
    assert_eq!(after.notes, ["there", "outer", "kept"]);
    // LOG events stand either way, in order.
    assert_eq!(after.said, ["outer", "inner", "dropped", "kept"]);
    assert_eq!(
        after.files.keys().collect::<Vec<_>>(),
        ["made", "made/kept.txt", "made/outer.txt", "there.txt"]
    );
    assert_eq!(after.counter, 2);
}

// case 93
#[tokio::test]
async fn an_inner_commit_falls_with_the_outer_one() {
    let world = World::new().await;
    let before = world.seen().await;
    let mut tx = Transaction::begin(&world.session, &world.resources, "outer").await;
    let mut inner = tx.nested("inner");
    let innermost = inner.nested("innermost");
    change_all(&innermost, "innermost").await;
    innermost.commit().await.unwrap();
    inner.commit().await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(world.seen().await, Seen { said: vec!["innermost".to_owned()], ..before });
}

// case 266
#[tokio::test]
async fn what_the_outer_transaction_does_after_a_leak_is_kept_whole() {
    let world = World::new().await;
    let mut tx = Transaction::begin(&world.session, &world.resources, "outer").await;
    let mut inner = tx.nested("leaked");
    change_all(&inner, "leaked").await;
    let innermost = inner.nested("leaked too");
    change_all(&innermost, "leaked too").await;
    std::mem::forget(innermost);
    // In the one between, which goes on without it.
    assert_eq!(inner.session().slice::<Note>().unwrap().latest().as_deref(), Some(&note("leaked")));
    std::mem::forget(inner);
    change_all(&tx, "outer").await;
    tx.commit().await.unwrap();
    let after = world.seen().await;
    assert_eq!((after.notes, after.counter), (vec!["there".to_owned(), "outer".to_owned()], 1));
    assert_eq!(after.files.keys().collect::<Vec<_>>(), ["made", "made/outer.txt", "there.txt"]);
}

// case 266
#[tokio::test]
async fn the_body_of_a_transaction_goes_on_after_a_leak() {
    let world = World::new().await;
    transaction(&world.session, &world.resources, "body", async |tx| {
        change_all(tx, "before").await;
        let inner = tx.nested("leaked");
        change_all(&inner, "leaked").await;
        std::mem::forget(inner);
        change_all(tx, "after").await;
        Ok::<(), TransactionError>(())
    })
    .await
    .unwrap();
    let after = world.seen().await;
    assert_eq!((after.notes, after.counter), (["there", "before", "after"].map(str::to_owned).to_vec(), 2));
    assert_eq!(
        after.files.keys().collect::<Vec<_>>(),
        ["made", "made/after.txt", "made/before.txt", "there.txt"]
    );
}

#[tokio::test]
async fn a_leaked_inner_transaction_is_not_kept() {
    let world = World::new().await;
    let mut tx = Transaction::begin(&world.session, &world.resources, "outer").await;
    change_all(&tx, "outer").await;
    let inner = tx.nested("leaked");
    change_all(&inner, "leaked").await;
    std::mem::forget(inner);
    tx.commit().await.unwrap();
    let after = world.seen().await;
    assert_eq!((after.notes, after.counter), (vec!["there".to_owned(), "outer".to_owned()], 1));
}

#[tokio::test]
async fn what_a_rolled_back_part_read_still_counts_as_read() {
    let world = World::new().await;
    let mut tx = Transaction::begin(&world.session, &world.resources, "outer").await;
    let inner = tx.nested("inner");
    let _ = inner.session().slice::<Note>().unwrap();
    let _ = inner.session().dispatch(note("inner")).unwrap();
    inner.rollback().await;
    let _ = world.session.dispatch(note("outside"));
    tx.resource::<Counter>().await.unwrap().update(|n| *n += 1);
    assert!(matches!(tx.commit().await, Err(TransactionError::Commit(_))));
    let after = world.seen().await;
    assert_eq!((after.notes, after.counter), (vec!["there".to_owned(), "outside".to_owned()], 0));
}

/// Made for each scope, and closed with it. Closing takes a moment.
struct Guest;

async fn with_guests() -> (ResourceContext, Arc<AtomicUsize>) {
    let closed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&closed);
    let guests = Binding::new(|_| Ok(Guest)).scope(Scope::ToolCall).on_close(move |_| {
        let counted = Arc::clone(&counted);
        async move {
            tokio::task::yield_now().await;
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    });
    (ResourceRegistry::of((guests,)).unwrap().open().await.unwrap(), closed)
}

#[tokio::test]
async fn whoever_ends_an_inner_transaction_waits_until_its_resources_are_closed() {
    let (resources, closed) = with_guests().await;
    let mut tx = Transaction::begin(&Session::new(), &resources, "outer").await;
    let inner = tx.nested("rolled back");
    inner.resource::<Guest>().await.unwrap();
    inner.rollback().await;
    assert_eq!(closed.load(Ordering::SeqCst), 1);
    let inner = tx.nested("kept");
    inner.resource::<Guest>().await.unwrap();
    inner.commit().await.unwrap();
    assert_eq!(closed.load(Ordering::SeqCst), 2);
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_rollback_inside_waits_until_the_resources_are_closed() {
    let (resources, closed) = with_guests().await;
    transaction(&Session::new(), &resources, "scoped", async |tx| {
        tx.resource::<Guest>().await?;
        tx.rollback().await;
        assert_eq!(closed.load(Ordering::SeqCst), 1);
        Ok::<_, wink::tool::ToolError>(())
    })
    .await
    .unwrap();
}
