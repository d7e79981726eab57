//! Commit and rollback of one transaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wink::BoxFuture;
use wink::filesystem::{Filesystem, FilesystemExt};
use wink::resource::{Binding, ResourceError, ResourceRegistry};
use wink::session::{
    CommitError, Conflict, DispatchResult, InvocationId, ReducerFailure, Session, SessionId, SliceOp,
    SliceType, SliceView,
};
use wink::store::{
    Batch, CallMark, Claimed, Durability, LedgerChange, LedgerRow, Rows, Store, StoreError, StoredSession,
};
use wink::transaction::{RestoreFailedError, Transaction, TransactionError};

use super::world::{Counter, Fragile, Note, Outside, Seen, Stubborn, World, change_all, note};

// case 75
#[tokio::test]
async fn commit_keeps_everything() {
    let world = World::new().await;
    let tx = Transaction::begin(&world.session, &world.resources, "change").await;
    assert_eq!(tx.tag(), "change");
    change_all(&tx, "a").await;
    let before = world.seen().await;
    assert_eq!((before.notes, before.said, before.counter), (vec!["there".to_owned()], vec![], 0));
    tx.commit().await.unwrap();
    let after = world.seen().await;
    assert_eq!(after.notes, ["there", "a"]);
    assert_eq!(after.said, ["a"]);
    assert_eq!(after.files.keys().collect::<Vec<_>>(), ["made", "made/a.txt", "there.txt"]);
    assert_eq!(after.counter, 1);
}

// cases 73, 78
#[tokio::test]
async fn rollback_restores_everything_but_the_log() {
    let world = World::new().await;
    let before = world.seen().await;
    let tx = Transaction::begin(&world.session, &world.resources, "change").await;
    change_all(&tx, "a").await;
    tx.session().seed([First(1)]).unwrap();
    assert_eq!(tx.session().slice::<First>().unwrap().len(), 1);
    tx.rollback().await.unwrap();
    let after = world.seen().await;
    assert_eq!(after, Seen { said: vec!["a".to_owned()], ..before });
    assert!(world.session.slice::<First>().is_empty());
}

/// A slice that nobody has written to before.
#[derive(serde::Serialize, serde::Deserialize)]
struct First(u32);

impl SliceType for First {
    const NAME: &'static str = "first";
}

// case 87
#[tokio::test]
async fn a_resource_that_is_not_snapshotable_is_left_alone() {
    let world = World::new().await;
    let tx = Transaction::begin(&world.session, &world.resources, "change").await;
    tx.resource::<Outside>().await.unwrap().0.store(7, Ordering::SeqCst);
    assert!(tx.resource_optional::<Fragile>().await.unwrap().is_none());
    assert_eq!(*tx.resource_optional::<Counter>().await.unwrap().unwrap().read(), 0);
    tx.rollback().await.unwrap();
    assert_eq!(world.resources.get::<Outside>().await.unwrap().0.load(Ordering::SeqCst), 7);
}

#[tokio::test]
async fn a_store_that_fails_takes_everything_back() {
    let store = Stubborn::new();
    let world = World::on(store.clone()).await;
    let before = world.seen().await;
    store.fail(true);
    let tx = Transaction::begin(&world.session, &world.resources, "change").await;
    change_all(&tx, "a").await;
    let error = tx.commit().await.unwrap_err();
    let store_error = StoreError::failed("commit", "the disk is full");
    // The log could not be stored either, and the error says both.
    match error {
        TransactionError::NotRecorded { cause, error } => {
            assert_eq!(cause, store_error.to_string());
            assert_eq!(error, CommitError::Store(store_error));
        }
        other => panic!("{other:?}"),
    }
    store.fail(false);
    assert_eq!(world.seen().await, Seen { said: vec!["a".to_owned()], ..before });
    // The session goes on.
    let tx = Transaction::begin(&world.session, &world.resources, "change").await;
    change_all(&tx, "b").await;
    tx.commit().await.unwrap();
    assert_eq!(world.seen().await.notes, ["there", "b"]);
}

#[tokio::test]
async fn what_was_read_and_changed_from_outside_is_a_conflict_and_nothing_is_kept() {
    let world = World::new().await;
    let tx = Transaction::begin(&world.session, &world.resources, "change").await;
    let _ = tx.session().slice::<Note>().unwrap();
    change_all(&tx, "a").await;
    let _ = world.session.dispatch(note("outside"));
    match tx.commit().await.unwrap_err() {
        TransactionError::Commit(CommitError::Conflict(conflict)) => {
            assert_eq!(conflict, Conflict::Slice { slice: "note" });
        }
        other => panic!("{other:?}"),
    }
    let after = world.seen().await;
    assert_eq!(
        (after.notes, after.counter, after.files.len()),
        (vec!["there".to_owned(), "outside".to_owned()], 0, 1)
    );
}

#[tokio::test]
async fn a_resource_changed_from_outside_is_a_conflict_and_nothing_is_kept() {
    let world = World::new().await;
    let tx = Transaction::begin(&world.session, &world.resources, "change").await;
    change_all(&tx, "a").await;
    world.resources.get::<Counter>().await.unwrap().set(10);
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, TransactionError::Resource(ResourceError::Conflict { .. })), "{error:?}");
    let after = world.seen().await;
    assert_eq!((after.notes, after.counter, after.files.len()), (vec!["there".to_owned()], 10, 1));
}

// case 61
#[tokio::test]
async fn a_restore_that_fails_is_its_own_error() {
    let store = Stubborn::new();
    let fragile = Arc::new(Fragile::default());
    let registry =
        ResourceRegistry::of((Binding::instance(fragile.clone()).named("fragile").snapshotable(),)).unwrap();
    let resources = registry.open().await.unwrap();
    let session = Session::builder().store(store.clone()).build();
    let tx = Transaction::begin(&session, &resources, "change").await;
    tx.resource::<Fragile>().await.unwrap().set(1);
    let _ = tx.session().dispatch(note("a")).unwrap();
    store.fail(true);
    fragile.breaks(true);
    match tx.commit().await.unwrap_err() {
        TransactionError::Restore(RestoreFailedError { reason }) => assert_eq!(
            reason,
            "fragile could not be restored: it broke; the commit had failed: the store failed to commit: the disk is full"
        ),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_store_that_panics_has_failed() {
    struct Panics;
    impl Panics {
        fn now() -> ! {
            panic!("out of order")
        }
    }
    impl Store for Panics {
        fn durability(&self) -> Durability {
            Durability::Restart
        }
        fn load<'a>(&'a self, _: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
            Self::now()
        }
        fn begin<'a>(&'a self, _: &'a SessionId, _: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
            Self::now()
        }
        fn start<'a>(&'a self, _: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
            Self::now()
        }
        fn commit<'a>(&'a self, _: &'a SessionId, _: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
            Self::now()
        }
        fn claim<'a>(
            &'a self,
            _: LedgerRow,
            _: jiff::Timestamp,
        ) -> BoxFuture<'a, Result<Claimed, StoreError>> {
            Self::now()
        }
        fn replace<'a>(&'a self, _: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>> {
            Self::now()
        }
        fn rows<'a>(&'a self, _: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
            Self::now()
        }
        fn remove<'a>(&'a self, _: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
            Self::now()
        }
    }
    let world = World::on(Arc::new(Panics)).await;
    let before = world.seen().await;
    let tx = Transaction::begin(&world.session, &world.resources, "change").await;
    change_all(&tx, "a").await;
    let error = tx.commit().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "rolled back (the store failed to commit: it panicked: out of order), but its log could not be stored: \
         the store failed to commit: it panicked: out of order"
    );
    assert_eq!(world.seen().await, Seen { said: vec!["a".to_owned()], ..before });
}

#[tokio::test]
async fn two_sessions_on_the_same_resources_commit_one_after_the_other() {
    let store = Stubborn::new();
    let slow = World::on(store.clone()).await;
    let other = Session::new();
    store.shut();
    let tx = Transaction::begin(&slow.session, &slow.resources, "slow").await;
    change_all(&tx, "a").await;
    let first = tokio::spawn(tx.commit());
    store.until_waiting().await;
    let tx = Transaction::begin(&other, &slow.resources, "quick").await;
    tx.filesystem().await.unwrap().write_text("quick.txt", "quick").await.unwrap();
    let second = tokio::spawn(tx.commit());
    // The second waits for the first to be decided, so the first can be taken back whole.
    store.fail(true);
    store.open();
    assert!(matches!(first.await.unwrap(), Err(TransactionError::NotRecorded { .. })));
    store.fail(false);
    // It was made from what the first took back, and still fits what is there.
    second.await.unwrap().unwrap();
    let names: Vec<_> = slow.seen().await.files.into_keys().collect();
    assert_eq!(names, ["quick.txt", "there.txt"]);
}

#[tokio::test]
async fn a_copy_that_outlives_its_transaction_is_written_into_nothing() {
    let world = World::new().await;
    let mut tx = Transaction::begin(&world.session, &world.resources, "change").await;
    let files = {
        let nested = tx.nested("inner");
        let files = nested.resource::<dyn Filesystem>().await.unwrap();
        nested.rollback().await;
        files
    };
    files.write_text("late.txt", "late").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.seen().await.files.len(), 1);
}

#[tokio::test]
async fn an_item_whose_key_panics_has_none_and_harms_nobody() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Trap;
    impl SliceType for Trap {
        const NAME: &'static str = "trap";
        const KEYED: bool = true;
        fn key(&self) -> Option<wink::session::SliceKey> {
            panic!("no key")
        }
    }
    let world = World::new().await;
    let tx = Transaction::begin(&world.session, &world.resources, "change").await;
    let dispatched = tx.session().dispatch(Trap).unwrap();
    assert!(dispatched.is_ok());
    let _ = tx.session().dispatch(note("b")).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.session.slice::<Trap>().len(), 1);
    assert_eq!(world.seen().await.notes.last().map(String::as_str), Some("b"));
}

#[tokio::test]
async fn a_failing_reducer_is_told_where_the_event_was_dispatched() {
    let world = World::new().await;
    world.session.register::<Note, First>(|_, _| Err("no more".to_owned())).unwrap();
    let tx = Transaction::begin(&world.session, &world.resources, "change").await;
    let failures = vec![ReducerFailure { slice: "first", reason: "no more".to_owned() }];
    let expected = DispatchResult { failures, ..DispatchResult::default() };
    assert_eq!(tx.session().dispatch(note("a")).unwrap(), expected);
    tx.commit().await.unwrap();
    assert!(world.session.slice::<First>().is_empty());
}

#[tokio::test]
async fn what_a_reducer_no_longer_takes_is_a_conflict_and_what_it_never_took_is_none() {
    let world = World::new().await;
    let one = |seen: &SliceView<First>, note: &Note| match (note.0.as_str(), seen.len()) {
        ("bad", _) => Err("bad".to_owned()),
        (_, 0..2) => Ok(SliceOp::Append(First(1))),
        _ => Err("full".to_owned()),
    };
    world.session.register::<Note, First>(one).unwrap();

    // The call was told that its event failed, so nothing is new when it fails again.
    let tx = Transaction::begin(&world.session, &world.resources, "told").await;
    assert!(!tx.session().dispatch(note("bad")).unwrap().is_ok());
    assert!(world.session.dispatch(note("outside")).is_ok());
    tx.commit().await.unwrap();

    // This one was told that its event was taken.
    let tx = Transaction::begin(&world.session, &world.resources, "not told").await;
    assert!(tx.session().dispatch(note("good")).unwrap().is_ok());
    assert!(world.session.dispatch(note("outside")).is_ok());
    match tx.commit().await.unwrap_err() {
        TransactionError::Commit(CommitError::Conflict(conflict)) => {
            assert_eq!(conflict, Conflict::Reducer { slice: "first", reason: "full".to_owned() });
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.session.slice::<First>().len(), 2);
}

/// A panic's payload that panics again when it is dropped, with another one.
struct Bomb(u8);

impl Drop for Bomb {
    fn drop(&mut self) {
        if let Some(left) = self.0.checked_sub(1) {
            std::panic::panic_any(Self(left));
        }
    }
}

#[tokio::test]
async fn a_reducer_that_panics_with_what_panics_when_it_is_dropped_has_failed_like_any_other() {
    let world = World::new().await;
    world.session.register::<Note, First>(|_, _| std::panic::panic_any(Bomb(3))).unwrap();
    let tx = Transaction::begin(&world.session, &world.resources, "change").await;
    let reason = "the reducer panicked: panic without a text".to_owned();
    let failures = vec![ReducerFailure { slice: "first", reason }];
    assert_eq!(tx.session().dispatch(note("a")).unwrap().failures, failures);
    assert_eq!(world.session.dispatch(note("a")).failures, failures);
    tx.commit().await.unwrap();
}
