//! Snapshots that are taken, stored and restored by hand.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use serde_json::{Value, json};
use wink::filesystem::{Filesystem, FilesystemExt};
use wink::resource::{Binding, ResourceRegistry};
use wink::session::Session;
use wink::transaction::{
    CompositeError, CompositeSnapshot, RestoreOutcome, SnapshotPhase, Transaction, create_snapshot,
    restore_snapshot,
};

use super::world::{Counter, Fragile, Note, Said, Seen, Stubborn, World, change_all, note};

async fn commit(world: &World, text: &str) {
    let tx = Transaction::begin(&world.session, &world.resources, "change").await;
    change_all(&tx, text).await;
    tx.commit().await.unwrap();
}

// case 81
#[tokio::test]
async fn restoring_goes_back_to_the_snapshot() {
    let world = World::new().await;
    let before = world.seen().await;
    let snapshot = create_snapshot(&world.session, &world.resources, "checkpoint").await.unwrap();
    commit(&world, "a").await;
    let between = create_snapshot(&world.session, &world.resources, "later").await.unwrap();
    let in_between = world.seen().await;
    commit(&world, "b").await;
    let outcome = restore_snapshot(&world.session, &world.resources, &snapshot).await.unwrap();
    assert_eq!(outcome, RestoreOutcome { skipped: vec![] });
    let said = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(world.seen().await, Seen { said: said.clone(), ..before });
    // Forwards as well, and as often as wanted.
    restore_snapshot(&world.session, &world.resources, &between).await.unwrap();
    assert_eq!(world.seen().await, Seen { said, ..in_between });
}

/// Two sessions with the same resources: a commit of the one is whole or not there for a snapshot of the other.
#[tokio::test]
async fn a_snapshot_never_sees_half_of_another_sessions_commit() {
    for fails in [false, true] {
        let store = Stubborn::new();
        let world = World::on(store.clone()).await;
        let other = Session::new();
        let before = create_snapshot(&other, &world.resources, "before").await.unwrap();
        let tx = Transaction::begin(&world.session, &world.resources, "change").await;
        change_all(&tx, "a").await;
        store.fail(fails);
        store.shut();
        let committing = tokio::spawn(tx.commit());
        store.until_waiting().await;
        // The resources are merged, and the store has not said yes.
        let mut snapshot = pin!(create_snapshot(&other, &world.resources, "during"));
        let mut restore = pin!(restore_snapshot(&other, &world.resources, &before));
        poll_fn(|cx| {
            assert!(snapshot.as_mut().poll(cx).is_pending());
            assert!(restore.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        store.open();
        assert_eq!(committing.await.unwrap().is_err(), fails);
        let resources = |snapshot: &CompositeSnapshot| {
            let json: Value = serde_json::from_str(&snapshot.to_json().unwrap()).unwrap();
            json["resources"].clone()
        };
        let same = resources(&snapshot.await.unwrap()) == resources(&before);
        assert_eq!(same, fails, "all of it, or nothing");
        restore.await.unwrap();
    }
}

// case 86
#[tokio::test]
async fn a_missing_resource_is_skipped_and_reported() {
    let world = World::new().await;
    commit(&world, "a").await;
    let snapshot = create_snapshot(&world.session, &world.resources, "checkpoint").await.unwrap();
    let stored = snapshot.to_json().unwrap();
    commit(&world, "b").await;
    let counter = world.resources.get::<Counter>().await.unwrap();
    let registry =
        ResourceRegistry::of((Binding::instance(counter.clone()).named("counter").snapshotable(),)).unwrap();
    let fewer = registry.open().await.unwrap();
    let outcome = restore_snapshot(&world.session, &fewer, &snapshot).await.unwrap();
    assert_eq!(outcome, RestoreOutcome { skipped: vec!["filesystem".into()] });
    assert_eq!((*counter.read(), world.session.slice::<Note>().len()), (1, 2));

    // The same when it was read where the resource is missing; and it is not lost by that.
    let read = CompositeSnapshot::from_json(&stored, &world.session, &fewer).unwrap();
    assert_eq!(read.to_json().unwrap(), stored);
    let outcome = restore_snapshot(&world.session, &fewer, &read).await.unwrap();
    assert_eq!(outcome, RestoreOutcome { skipped: vec!["filesystem".into()] });
    let outcome = restore_snapshot(&world.session, &world.resources, &read).await.unwrap();
    assert_eq!(outcome, RestoreOutcome { skipped: vec![] });
    let files = world.resources.get::<dyn Filesystem>().await.unwrap();
    assert_eq!(files.read_text("there.txt").await.unwrap(), "a");
}

// case 61
#[tokio::test]
async fn a_resource_that_cannot_be_restored_is_an_error_and_the_rest_is_put_back() {
    let (counter, fragile) = (Arc::new(Counter::new(1)), Arc::new(Fragile::default()));
    let registry = ResourceRegistry::of((
        Binding::instance(counter.clone()).named("counter").snapshotable(),
        Binding::instance(fragile.clone()).named("fragile").snapshotable(),
    ))
    .unwrap();
    let resources = registry.open().await.unwrap();
    let session = Session::new();
    let snapshot = create_snapshot(&session, &resources, "checkpoint").await.unwrap();
    counter.set(2);
    fragile.set(2);
    let _ = session.dispatch(note("a"));
    fragile.breaks(true);
    let error = restore_snapshot(&session, &resources, &snapshot).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "restoring the earlier state failed: fragile could not be restored: it broke; \
         putting back what was already done failed as well: fragile could not be restored: it broke"
    );
    assert_eq!((*counter.read(), session.slice::<Note>().len()), (2, 1));
}

#[tokio::test]
async fn a_restore_that_the_store_does_not_take_is_put_back() {
    let store = Stubborn::new();
    let world = World::on(store.clone()).await;
    let snapshot = create_snapshot(&world.session, &world.resources, "checkpoint").await.unwrap();
    commit(&world, "a").await;
    let before = world.seen().await;
    store.fail(true);
    let error = restore_snapshot(&world.session, &world.resources, &snapshot).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "restoring the earlier state failed: the store failed to commit: the disk is full"
    );
    assert_eq!(world.seen().await, before);
}

// case 88
#[tokio::test]
async fn the_json_form_comes_back_whole() {
    let world = World::new().await;
    let _ = world.session.dispatch(Said("not part of it".into()));
    commit(&world, "a").await;
    let mut snapshot = create_snapshot(&world.session, &world.resources, "checkpoint").await.unwrap();
    snapshot.metadata.insert("who".into(), json!({"name": "Łukasz", "n": 1.5}));
    snapshot.phase = SnapshotPhase::BeforeCall;
    let text = snapshot.to_json().unwrap();
    assert!(text.contains(&format!("\"id\":\"{}\"", snapshot.id)));
    let read = CompositeSnapshot::from_json(&text, &world.session, &world.resources).unwrap();
    assert_eq!(
        (read.id, read.created_at, &*read.tag, read.phase, &read.metadata),
        (snapshot.id, snapshot.created_at, "checkpoint", SnapshotPhase::BeforeCall, &snapshot.metadata)
    );
    assert_eq!(read.session.to_json().unwrap(), snapshot.session.to_json().unwrap());
    let names: Vec<&str> = read.resources.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["filesystem", "counter"]);
    assert_eq!(read.to_json().unwrap(), text);

    // And it restores what it was taken of.
    let then = world.seen().await;
    commit(&world, "b").await;
    restore_snapshot(&world.session, &world.resources, &read).await.unwrap();
    let now = world.seen().await;
    assert_eq!((now.notes, now.counter), (then.notes, then.counter));
    let files = world.resources.get::<dyn Filesystem>().await.unwrap();
    assert_eq!(files.read_text("there.txt").await.unwrap(), "a");
    assert_eq!(now.files.keys().collect::<Vec<_>>(), then.files.keys().collect::<Vec<_>>());
}

// case 89
#[tokio::test]
async fn each_fault_of_the_json_form_has_its_own_error() {
    let world = World::new().await;
    let snapshot = create_snapshot(&world.session, &world.resources, "checkpoint").await.unwrap();
    let whole: Value = serde_json::from_str(&snapshot.to_json().unwrap()).unwrap();
    let before = world.seen().await;
    let with = |field: &str, value: Option<Value>| {
        let mut broken = whole.clone();
        let fields = broken.as_object_mut().unwrap();
        match value {
            Some(value) => fields.insert(field.to_owned(), value),
            None => fields.remove(field),
        };
        CompositeSnapshot::from_json(&broken.to_string(), &world.session, &world.resources).unwrap_err()
    };
    use CompositeError as E;
    assert!(matches!(with("version", Some(json!(2))), E::Version { found } if found == "2"));
    assert!(matches!(with("version", None), E::Version { found } if found == "nothing"));
    assert!(matches!(with("id", Some(json!("seven"))), E::Id { found } if found == "\"seven\""));
    assert!(
        matches!(with("created_at", Some(json!("yesterday"))), E::Time { found } if found == "\"yesterday\"")
    );
    assert!(matches!(with("resources", Some(json!({}))), E::Resources { found } if found == "{}"));
    assert!(matches!(with("resources", Some(json!([1]))), E::Resources { found } if found == "[1]"));
    assert!(matches!(with("phase", Some(json!("dawn"))), E::Phase { found } if found == "\"dawn\""));
    assert!(matches!(with("tag", None), E::Field { field: "tag", .. }));
    assert!(matches!(with("metadata", Some(json!([]))), E::Field { field: "metadata", .. }));
    assert!(matches!(with("session", Some(json!({"version": 9}))), E::Session(_)));
    let counter = json!([{"name": "counter", "snapshot": "many"}]);
    assert!(matches!(with("resources", Some(counter)), E::Resource(_)));
    let text = CompositeSnapshot::from_json("{", &world.session, &world.resources).unwrap_err();
    assert!(matches!(text, E::NotJson(_)));
    let long = with("id", Some(json!("é".repeat(100)))).to_string();
    assert_eq!(long, format!("the snapshot's id must be a UUID, not \"{}…", "é".repeat(59)));
    assert_eq!(world.seen().await, before);
}

#[tokio::test]
async fn a_resource_with_two_snapshots_is_an_error() {
    let world = World::new().await;
    let snapshot = create_snapshot(&world.session, &world.resources, "checkpoint").await.unwrap();
    let mut whole: Value = serde_json::from_str(&snapshot.to_json().unwrap()).unwrap();
    whole["resources"] = json!([{"name": "gone", "snapshot": 1}, {"name": "gone", "snapshot": 1}]);
    let error = CompositeSnapshot::from_json(&whole.to_string(), &world.session, &world.resources);
    assert_eq!(error.unwrap_err().to_string(), "the snapshot has resource \"gone\" twice");
}

#[tokio::test]
async fn values_as_deep_as_arguments_come_back() {
    let world = World::new().await;
    let mut snapshot = create_snapshot(&world.session, &world.resources, "checkpoint").await.unwrap();
    let deep: Value = serde_json::from_str(&format!("{}{}", "[".repeat(127), "]".repeat(127))).unwrap();
    snapshot.metadata.insert("deep".into(), deep);
    let text = snapshot.to_json().unwrap();
    let read = CompositeSnapshot::from_json(&text, &world.session, &world.resources).unwrap();
    assert_eq!(read.to_json().unwrap(), text);
    let endless = format!("{{\"version\":{}", "[".repeat(1_000_000));
    let error = CompositeSnapshot::from_json(&endless, &world.session, &world.resources).unwrap_err();
    assert!(matches!(error, CompositeError::NotJson(why) if why == "it is nested more than 256 levels deep"));
}
