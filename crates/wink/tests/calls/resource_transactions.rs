//! Resources in calls: what a call does to a snapshotable resource, and what it builds, stays when it commits and
//! leaves no trace when it does not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::Notify;
use wink::resource::{
    AnyBinding, Binding, BoxError, CallEnd, CallScope, ResourceContext, ResourceError, ResourceRegistry,
    ResourceSnapshot, RestoreReport, Scope, Shared, Snapshotable,
};

type Notes = Shared<Vec<String>>;

fn notes(lines: &[&str]) -> Arc<Notes> {
    Arc::new(Shared::new(lines.iter().map(ToString::to_string).collect()))
}

async fn open<const N: usize>(bindings: [AnyBinding; N]) -> ResourceContext {
    ResourceRegistry::of(bindings).unwrap().open().await.unwrap()
}

async fn commit(call: CallScope) {
    let merged = call.merge().unwrap();
    assert!(call.finish(CallEnd::Committed(merged)).await.is_empty());
}

async fn roll_back(call: CallScope) {
    assert!(call.finish(CallEnd::RolledBack).await.is_empty());
}

fn text<T>(result: Result<T, ResourceError>) -> String {
    result.err().expect("an error").to_string()
}

async fn write(call: &CallScope, line: &str) {
    call.get::<Notes>().await.unwrap().update(|lines| lines.push(line.to_owned()));
}

#[tokio::test]
async fn a_call_works_on_its_own_copy() {
    let original = notes(&["old"]);
    let resources = open([Binding::instance(Arc::clone(&original)).snapshotable().into()]).await;

    let call = resources.tool_scope();
    write(&call, "lost").await;
    write(&call, "lost, too").await;
    assert_eq!(*call.get::<Notes>().await.unwrap().read(), ["old", "lost", "lost, too"]);
    assert_eq!(*original.read(), ["old"]);
    roll_back(call).await;
    assert_eq!(*original.read(), ["old"]);

    let call = resources.tool_scope();
    write(&call, "kept").await;
    commit(call).await;
    assert_eq!(*original.read(), ["old", "kept"]);
    assert!(Arc::ptr_eq(&original, &resources.get::<Notes>().await.unwrap()));
}

#[tokio::test]
async fn a_copy_that_outlives_its_call_writes_into_nothing() {
    let original = notes(&[]);
    let resources = open([Binding::instance(Arc::clone(&original)).snapshotable().into()]).await;
    for committed in [true, false] {
        let call = resources.tool_scope();
        let (copy, handle) = (call.get::<Notes>().await.unwrap(), call.handle());
        if committed {
            commit(call).await
        } else {
            roll_back(call).await
        }
        copy.update(|lines| lines.push("too late".into()));
        assert_eq!(original.read().len(), 0);
        assert!(matches!(handle.get::<Notes>().await, Err(ResourceError::CallOver { .. })));
        assert!(matches!(handle.ready::<Notes>(), Err(ResourceError::CallOver { .. })));
    }
}

#[tokio::test]
async fn what_was_changed_on_both_sides_is_a_conflict() {
    let original = notes(&[]);
    let resources =
        open([Binding::instance(Arc::clone(&original)).snapshotable().named("notes").into()]).await;
    let (first, second) = (resources.tool_scope(), resources.tool_scope());
    write(&first, "first").await;
    write(&second, "second").await;
    let reader = resources.tool_scope();
    assert_eq!(reader.get::<Notes>().await.unwrap().read().len(), 0);
    commit(first).await;
    assert_eq!(text(second.merge()), "notes was changed by somebody else meanwhile; nothing was overwritten");
    roll_back(second).await;
    // Who only read is no party to it.
    commit(reader).await;
    assert_eq!(*original.read(), ["first"]);
}

#[tokio::test]
async fn a_merge_can_be_undone_until_the_call_is_finished() {
    let (original, count) = (notes(&[]), Arc::new(Shared::new(1_u32)));
    let resources = open([
        Binding::instance(Arc::clone(&original)).snapshotable().into(),
        Binding::instance(Arc::clone(&count)).snapshotable().into(),
    ])
    .await;
    let change = async |call: &CallScope| {
        write(call, "new").await;
        call.get::<Shared<u32>>().await.unwrap().set(2);
    };

    let call = resources.tool_scope();
    change(&call).await;
    let merged = call.merge().unwrap();
    assert_eq!((original.read().len(), *count.read()), (1, 2));
    merged.undo().unwrap();
    roll_back(call).await;
    assert_eq!((original.read().len(), *count.read()), (0, 1));

    // Dropped, it is undone as well: nobody said that the call committed.
    let call = resources.tool_scope();
    change(&call).await;
    drop(call.merge().unwrap());
    drop(call);
    assert_eq!((original.read().len(), *count.read()), (0, 1));

    // Undoing never overwrites what somebody else did since.
    let call = resources.tool_scope();
    change(&call).await;
    let merged = call.merge().unwrap();
    count.set(9);
    let failures = merged.undo().unwrap_err();
    assert_eq!(
        failures.to_string(),
        "Shared<u32> could not be restored: it was changed by somebody else after the merge, and is left as it is"
    );
    assert!(failures.0[0].is_restore_failure());
    assert_eq!((original.read().len(), *count.read()), (0, 9));
}

/// A snapshotable whose operations fail or panic on demand.
#[derive(Default)]
struct Fragile {
    value: Mutex<u32>,
    fail_merge: AtomicBool,
    fail_restore: AtomicBool,
}

impl Snapshotable for Fragile {
    fn snapshot(&self) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(*self.value.lock().unwrap()))
    }

    fn restore(&self, snapshot: &ResourceSnapshot) -> Result<(), BoxError> {
        if self.fail_restore.load(Ordering::SeqCst) {
            return Err("disk gone".into());
        }
        *self.value.lock().unwrap() = *snapshot.state::<u32>().ok_or("not a number")?;
        Ok(())
    }

    fn fork(&self) -> Result<Self, BoxError> {
        Ok(Self { value: Mutex::new(*self.value.lock().unwrap()), ..Self::default() })
    }

    fn merge(&self, fork: &Self, _base: &ResourceSnapshot) -> Result<(), BoxError> {
        *self.value.lock().unwrap() = 999;
        assert!(!self.fail_merge.load(Ordering::SeqCst), "merged half");
        self.restore(&fork.snapshot()?)
    }

    fn decode(&self, json: &Value) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(u32::try_from(json.as_u64().ok_or("not a number")?)?))
    }
}

#[tokio::test]
async fn a_merge_that_fails_half_way_leaves_everything_as_it_was() {
    let (original, fragile) = (notes(&[]), Arc::new(Fragile::default()));
    let resources = open([
        Binding::instance(Arc::clone(&original)).snapshotable().into(),
        Binding::instance(Arc::clone(&fragile)).snapshotable().into(),
    ])
    .await;
    let changed = async || {
        let call = resources.tool_scope();
        write(&call, "new").await;
        *call.get::<Fragile>().await.unwrap().value.lock().unwrap() = 5;
        call
    };

    fragile.fail_merge.store(true, Ordering::SeqCst);
    let call = changed().await;
    let error = call.merge().unwrap_err();
    assert_eq!(error.to_string(), "Fragile could not be merged: panicked: merged half");
    assert!(!error.is_restore_failure());
    roll_back(call).await;
    assert_eq!((original.read().len(), *fragile.value.lock().unwrap()), (0, 0));

    // When even putting back fails, that is said, and the rest is put back all the same.
    fragile.fail_restore.store(true, Ordering::SeqCst);
    let call = changed().await;
    let error = call.merge().unwrap_err();
    assert_eq!(
        error.to_string(),
        "Fragile could not be merged: panicked: merged half; putting back what was already done failed as well: \
         Fragile could not be restored: disk gone"
    );
    assert!(error.is_restore_failure());
    roll_back(call).await;
    assert_eq!(original.read().len(), 0);
}

#[tokio::test]
async fn an_inner_scope_merges_into_the_outer_one_only() {
    let original = notes(&[]);
    let resources = open([Binding::instance(Arc::clone(&original)).snapshotable().into()]).await;
    let outer = resources.tool_scope();
    write(&outer, "outer").await;
    let inner = outer.tool_scope();
    write(&inner, "undone").await;
    roll_back(inner).await;
    let inner = outer.tool_scope();
    write(&inner, "inner").await;
    commit(inner).await;
    assert_eq!(*outer.get::<Notes>().await.unwrap().read(), ["outer", "inner"]);
    assert_eq!(original.read().len(), 0);
    let unfinished = outer.tool_scope();
    write(&unfinished, "never").await;
    commit(outer).await;
    assert_eq!(*original.read(), ["outer", "inner"]);
    assert!(unfinished.get::<Notes>().await.is_err());
}

struct Client;
struct Pool;

/// Counts what is alive.
#[derive(Clone, Default)]
struct Census {
    built: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl Census {
    fn watch<T: Send + Sync + 'static>(&self, binding: Binding<T>) -> Binding<T> {
        let (built, closed) = (Arc::clone(&self.built), Arc::clone(&self.closed));
        binding
            .post_construct(move |_| {
                built.fetch_add(1, Ordering::SeqCst);
                async { Ok(()) }
            })
            .on_close(move |_| {
                closed.fetch_add(1, Ordering::SeqCst);
                async { Ok(()) }
            })
    }

    fn counts(&self) -> (usize, usize) {
        (self.built.load(Ordering::SeqCst), self.closed.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn a_singleton_built_in_a_failed_call_was_never_built() {
    let census = Census::default();
    let resources = open([census.watch(Binding::new(|_| Ok(Client))).into()]).await;
    let call = resources.tool_scope();
    call.get::<Client>().await.unwrap();
    roll_back(call).await;
    assert_eq!(census.counts(), (1, 1));
    assert!(resources.ready::<Client>().unwrap().is_none());

    let call = resources.tool_scope();
    let mine = call.get::<Client>().await.unwrap();
    commit(call).await;
    assert!(Arc::ptr_eq(&mine, &resources.ready::<Client>().unwrap().unwrap()));
    assert_eq!(census.counts(), (2, 1));
    let call = resources.tool_scope();
    call.get::<Client>().await.unwrap();
    roll_back(call).await;
    assert_eq!(census.counts(), (2, 1));
    resources.close().await.unwrap();
    assert_eq!(census.counts(), (2, 2));
}

#[tokio::test]
async fn a_snapshotable_singleton_built_in_a_failed_call_starts_afresh() {
    let resources =
        open([Binding::new(|_| Ok(Shared::new(vec!["seed".to_owned()]))).snapshotable().into()]).await;
    let call = resources.tool_scope();
    write(&call, "lost").await;
    roll_back(call).await;
    assert!(resources.snapshot_all().unwrap().is_empty());
    let call = resources.tool_scope();
    write(&call, "kept").await;
    assert!(resources.snapshot_all().unwrap().is_empty());
    commit(call).await;
    assert_eq!(*resources.get::<Notes>().await.unwrap().read(), ["seed", "kept"]);
    assert_eq!(resources.snapshot_all().unwrap().len(), 1);
}

#[tokio::test]
async fn a_provisional_singleton_lives_while_any_call_uses_it() {
    let census = Census::default();
    let resources = open([
        census.watch(Binding::new(|_| Ok(Pool))).into(),
        census
            .watch(Binding::with_async(|r| async move {
                r.get::<Pool>().await?;
                Ok(Client)
            }))
            .into(),
    ])
    .await;

    // The builder fails, a second user commits: both the client and the pool inside it stay.
    let (builder, user) = (resources.tool_scope(), resources.tool_scope());
    let built = builder.get::<Client>().await.unwrap();
    assert!(Arc::ptr_eq(&built, &user.get::<Client>().await.unwrap()));
    roll_back(builder).await;
    assert_eq!(census.counts(), (2, 0));
    commit(user).await;
    assert!(resources.ready::<Client>().unwrap().is_some());
    assert!(resources.ready::<Pool>().unwrap().is_some());
    assert_eq!(census.counts(), (2, 0));
}

#[tokio::test]
async fn a_provisional_singleton_goes_with_the_last_call_that_used_it() {
    let census = Census::default();
    let resources = open([census.watch(Binding::new(|_| Ok(Client))).into()]).await;
    let (builder, user) = (resources.tool_scope(), resources.tool_scope());
    builder.get::<Client>().await.unwrap();
    user.get::<Client>().await.unwrap();
    roll_back(builder).await;
    assert_eq!(census.counts(), (1, 0));
    roll_back(user).await;
    assert_eq!(census.counts(), (1, 1));
    assert!(resources.ready::<Client>().unwrap().is_none());
}

#[tokio::test]
async fn what_an_inner_scope_built_is_decided_by_the_outer_one() {
    let census = Census::default();
    let resources = open([census.watch(Binding::new(|_| Ok(Client))).into()]).await;
    for (commits, counts) in [(false, (1, 1)), (true, (2, 1))] {
        let outer = resources.tool_scope();
        let inner = outer.tool_scope();
        inner.get::<Client>().await.unwrap();
        commit(inner).await;
        outer.get::<Client>().await.unwrap();
        if commits {
            commit(outer).await
        } else {
            roll_back(outer).await
        }
        assert_eq!(census.counts(), counts);
    }
}

#[tokio::test]
async fn a_dropped_scope_leaves_its_instances_to_be_drained() {
    let census = Census::default();
    let resources = open([
        census.watch(Binding::new(|_| Ok(Client))).into(),
        census.watch(Binding::new(|_| Ok(Pool)).scope(Scope::ToolCall)).into(),
    ])
    .await;
    let call = resources.tool_scope();
    call.get::<Client>().await.unwrap();
    call.get::<Pool>().await.unwrap();
    drop(call);
    assert_eq!(census.counts(), (2, 0));
    assert!(resources.ready::<Client>().unwrap().is_none());
    assert!(resources.drain().await.is_empty());
    assert_eq!(census.counts(), (2, 2));
    assert!(resources.drain().await.is_empty());
    assert_eq!(census.counts(), (2, 2));
}

#[tokio::test]
async fn a_finish_that_is_given_up_still_decided() {
    let census = Census::default();
    let original = notes(&[]);
    let resources = open([
        census.watch(Binding::new(|_| Ok(Client))).into(),
        census.watch(Binding::new(|_| Ok(Pool)).scope(Scope::ToolCall)).into(),
        Binding::instance(Arc::clone(&original)).snapshotable().into(),
    ])
    .await;
    let call = resources.tool_scope();
    call.get::<Client>().await.unwrap();
    call.get::<Pool>().await.unwrap();
    write(&call, "kept").await;
    let merged = call.merge().unwrap();
    drop(call.finish(CallEnd::Committed(merged)));
    assert_eq!(*original.read(), ["kept"]);
    assert!(resources.ready::<Client>().unwrap().is_some());
    resources.drain().await;
    assert_eq!(census.counts(), (2, 1));
}

#[tokio::test]
async fn a_build_that_ends_after_its_call_leaves_nothing() {
    let census = Census::default();
    let gate = Arc::new(Notify::new());
    let slow = {
        let gate = Arc::clone(&gate);
        Binding::with_async(move |_| {
            let gate = Arc::clone(&gate);
            async move {
                gate.notified().await;
                Ok(Client)
            }
        })
    };
    let resources = open([census.watch(slow).into()]).await;
    let call = resources.tool_scope();
    let handle = call.handle();
    let late = tokio::spawn(async move { handle.get::<Client>().await.map(drop) });
    tokio::task::yield_now().await;
    let other = resources.tool_scope();
    let other_handle = other.handle();
    let waiting = tokio::spawn(async move { other_handle.get::<Client>().await.map(drop) });
    tokio::task::yield_now().await;
    roll_back(call).await;
    gate.notify_one();
    assert_eq!(text(late.await.unwrap()), "Client is not available: the call is over");
    // The one who waited is not concerned: it builds its own.
    gate.notify_one();
    waiting.await.unwrap().unwrap();
    commit(other).await;
    resources.drain().await;
    assert_eq!(census.counts(), (2, 1));
    assert!(resources.ready::<Client>().unwrap().is_some());
}

#[tokio::test]
async fn a_singleton_cannot_smuggle_writes_past_the_transaction() {
    struct Writer(#[allow(dead_code, reason = "holding it is the point")] Arc<Notes>);
    struct Reader(usize);
    let resources = open([
        Binding::instance(notes(&["one"])).snapshotable().named("notes").into(),
        Binding::with_async(|r| async move { Ok(Writer(r.get::<Notes>().await?)) }).named("writer").into(),
        Binding::with_async(|r| async move { Ok(Reader(r.get_original::<Notes>().await?.read().len())) })
            .into(),
    ])
    .await;
    let call = resources.tool_scope();
    assert_eq!(
        text(call.get::<Writer>().await),
        "writer is a singleton and cannot hold notes: what it did there would escape the call's transaction; bind \
         writer with Scope::ToolCall, or use Resolver::get_original where nothing is written"
    );
    assert_eq!(call.get::<Reader>().await.unwrap().0, 1);
}

#[tokio::test]
async fn a_call_scoped_resource_is_given_the_calls_copy() {
    struct Writer(Arc<Notes>);
    let original = notes(&[]);
    let resources = open([
        Binding::instance(Arc::clone(&original)).snapshotable().into(),
        Binding::with_async(|r| async move { Ok(Writer(r.get::<Notes>().await?)) })
            .scope(Scope::ToolCall)
            .into(),
    ])
    .await;
    for (commits, expected) in [(false, 0), (true, 1)] {
        let call = resources.tool_scope();
        call.get::<Writer>().await.unwrap().0.update(|lines| lines.push("line".into()));
        if commits {
            commit(call).await
        } else {
            roll_back(call).await
        }
        assert_eq!(original.read().len(), expected);
    }
}

#[tokio::test]
async fn snapshots_of_everything_come_back_through_json() {
    let original = notes(&["one"]);
    let registry = ResourceRegistry::of((
        Binding::instance(Arc::clone(&original)).snapshotable().named("notes"),
        Binding::new(|_| Ok(Fragile::default())).snapshotable().named("fragile"),
        Binding::new(|_| Ok(Client)),
    ))
    .unwrap();
    let resources = registry.open().await.unwrap();
    let fragile = resources.get::<Fragile>().await.unwrap();
    let saved: Vec<(String, Value)> = resources
        .snapshot_all()
        .unwrap()
        .into_iter()
        .map(|(name, snapshot)| (name, snapshot.to_json().unwrap()))
        .collect();
    assert_eq!(saved, [("notes".to_owned(), json!(["one"])), ("fragile".to_owned(), json!(0))]);

    original.update(Vec::clear);
    *fragile.value.lock().unwrap() = 3;
    let snapshots: Vec<_> = saved
        .iter()
        .map(|(name, json)| (name.clone(), resources.decode_snapshot(name, json).unwrap().unwrap()))
        .collect();
    let report = resources.restore_all(&snapshots).unwrap();
    assert_eq!(
        report,
        RestoreReport { restored: vec!["notes".into(), "fragile".into()], missing: Vec::new() }
    );
    assert_eq!((original.read().len(), *fragile.value.lock().unwrap()), (1, 0));

    // A resource that is not there is skipped, and said.
    let elsewhere = registry.open().await.unwrap();
    let report = elsewhere.restore_all(&snapshots).unwrap();
    assert_eq!(report, RestoreReport { restored: vec!["notes".into()], missing: vec!["fragile".into()] });
    assert!(elsewhere.decode_snapshot("fragile", &json!(1)).unwrap().is_none());
    let error = elsewhere.decode_snapshot("notes", &json!(7)).unwrap_err().to_string();
    assert!(error.starts_with("notes could not be read from or written to JSON: "), "{error}");

    // All or none: when one cannot be restored, the ones before it are put back.
    original.update(|lines| lines.push("two".into()));
    fragile.fail_restore.store(true, Ordering::SeqCst);
    assert!(resources.restore_all(&snapshots).unwrap_err().is_restore_failure());
    assert_eq!(*original.read(), ["one", "two"]);
}

#[tokio::test]
async fn snapshotable_resources_need_names_of_their_own() {
    let registry = ResourceRegistry::of((
        Binding::instance(notes(&[])).snapshotable().named("state"),
        Binding::instance(Arc::new(Shared::new(0_u8))).snapshotable().named("state"),
    ))
    .unwrap();
    assert_eq!(
        text(registry.open().await),
        "the binding of state is not valid: another snapshotable resource has the same name"
    );
}

#[tokio::test]
async fn an_instance_may_use_the_resources_while_it_is_dropped() {
    struct Last(ResourceContext);
    impl Drop for Last {
        fn drop(&mut self) {
            let found = self.0.ready::<u8>();
            assert!(matches!(found, Ok(Some(_)) | Err(ResourceError::Closed { .. })), "{found:?}");
        }
    }
    let context: Arc<Mutex<Option<ResourceContext>>> = Arc::default();
    let binding = {
        let context = Arc::clone(&context);
        Binding::new(move |_| Ok(Last(context.lock().unwrap().clone().ok_or("not open")?)))
    };
    let resources = open([binding.into(), Binding::new(|_| Ok(7_u8)).eager().into()]).await;
    *context.lock().unwrap() = Some(resources.clone());
    let call = resources.tool_scope();
    call.get::<Last>().await.unwrap();
    roll_back(call).await;
    resources.get::<Last>().await.unwrap();
    resources.close().await.unwrap();
    context.lock().unwrap().take();
}

#[test]
fn no_update_of_a_shared_cell_is_lost() {
    let cell = Shared::new(0_u32);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..500 {
                    cell.update(|n| *n += 1);
                }
            });
        }
    });
    assert_eq!(*cell.read(), 2000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_calls_at_once_build_and_close_each_instance_once() {
    let census = Census::default();
    let resources = open([
        census.watch(Binding::new(|_| Ok(Pool)).scope(Scope::ToolCall)).into(),
        census
            .watch(Binding::with_async(|_| async {
                tokio::task::yield_now().await;
                Ok(Client)
            }))
            .into(),
        Binding::instance(notes(&[])).snapshotable().into(),
    ])
    .await;
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let resources = resources.clone();
            tokio::spawn(async move {
                let call = resources.tool_scope();
                let handle = call.handle();
                let ask = |handle: wink::resource::CallResources| async move {
                    tokio::join!(handle.get::<Pool>(), handle.get::<Client>(), handle.get::<Notes>())
                };
                let (one, two) = tokio::join!(tokio::spawn(ask(handle.clone())), tokio::spawn(ask(handle)));
                let ((pool, _, copy), (same_pool, _, same_copy)) = (one.unwrap(), two.unwrap());
                assert!(Arc::ptr_eq(&pool.unwrap(), &same_pool.unwrap()));
                assert!(Arc::ptr_eq(&copy.unwrap(), &same_copy.unwrap()));
                match number % 3 {
                    0 => commit(call).await,
                    1 => roll_back(call).await,
                    _ => drop(call),
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(resources.drain().await.is_empty());
    resources.close().await.unwrap();
    let (built, closed) = census.counts();
    assert_eq!(built, closed);
    assert!(built > 200, "{built}");
}

/// One step of a random history over two cells.
#[derive(Debug, Clone)]
enum Step {
    Push { cell: bool, value: u8 },
    Enter,
    Leave { commit: bool },
    Drop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (any::<bool>(), any::<u8>()).prop_map(|(cell, value)| Step::Push { cell, value }),
        2 => Just(Step::Enter),
        2 => any::<bool>().prop_map(|commit| Step::Leave { commit }),
        1 => Just(Step::Drop),
    ];
    prop::collection::vec(step, 0..60)
}

#[derive(Clone)]
struct First(Arc<Shared<Vec<u8>>>);

proptest! {
    /// Nested calls over two resources behave like a stack of copies: leaving with a commit replaces the copy
    /// below, leaving otherwise forgets. The second resource is built lazily, so it also appears and disappears.
    #[test]
    fn calls_behave_like_a_stack_of_copies(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let first = First(Arc::new(Shared::new(Vec::new())));
            let resources = open([
                Binding::instance(Arc::clone(&first.0)).snapshotable().into(),
                Binding::new(|_| Ok(Shared::new(String::new()))).snapshotable().into(),
            ]).await;
            let mut model = vec![(Vec::<u8>::new(), None::<String>)];
            let mut calls: Vec<CallScope> = Vec::new();
            for step in steps {
                match step {
                    Step::Enter => {
                        calls.push(match calls.last() {
                            Some(outer) => outer.tool_scope(),
                            None => resources.tool_scope(),
                        });
                        model.push(model.last().unwrap().clone());
                    }
                    Step::Push { cell, value } => {
                        let Some(call) = calls.last() else { continue };
                        let top = model.last_mut().unwrap();
                        if cell {
                            call.get::<Shared<Vec<u8>>>().await.unwrap().update(|all| all.push(value));
                            top.0.push(value);
                        } else {
                            let text = value.to_string();
                            call.get::<Shared<String>>().await.unwrap().update(|all| all.push_str(&text));
                            top.1.get_or_insert_default().push_str(&text);
                        }
                    }
                    Step::Leave { commit: commits } => {
                        let Some(call) = calls.pop() else { continue };
                        let top = model.pop().unwrap();
                        if commits {
                            commit(call).await;
                            *model.last_mut().unwrap() = top;
                        } else {
                            roll_back(call).await;
                        }
                    }
                    Step::Drop => {
                        if calls.pop().is_some() {
                            model.pop();
                        }
                        assert!(resources.drain().await.is_empty());
                    }
                }
                let bottom = &model[0];
                assert_eq!(*first.0.read(), bottom.0);
                let names: Vec<_> = resources.snapshot_all().unwrap();
                assert_eq!(names.len(), 1 + usize::from(bottom.1.is_some()));
                if let Some((_, snapshot)) = names.get(1) {
                    assert_eq!(snapshot.state::<String>().as_deref(), bottom.1.as_ref());
                }
            }
        });
    }
}
