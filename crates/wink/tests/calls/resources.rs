//! Resources: how they are built, shared, scoped and closed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Barrier, Notify};
use wink::resource::{
    AnyBinding, Binding, BoxError, CallEnd, MergeMode, ResourceContext, ResourceError, ResourceRegistry,
    Scope,
};

/// What happened, in order.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct A;
struct B;
struct C;
struct Level<const N: usize>(usize);

/// A binding that notes when it is built and closed.
fn noted<T: Send + Sync + 'static>(trace: &Trace, name: &'static str, make: fn() -> T) -> Binding<T> {
    let (built, closed) = (trace.clone(), trace.clone());
    Binding::new(move |_| {
        built.add(format!("build {name}"));
        Ok(make())
    })
    .on_close(move |_| {
        closed.add(format!("close {name}"));
        async { Ok(()) }
    })
}

async fn open<const N: usize>(bindings: [AnyBinding; N]) -> ResourceContext {
    ResourceRegistry::of(bindings).unwrap().open().await.unwrap()
}

fn text<T>(result: Result<T, ResourceError>) -> String {
    result.err().expect("an error").to_string()
}

// case 123
#[tokio::test]
async fn a_singleton_is_built_at_the_first_get_and_once() {
    let trace = Trace::default();
    let resources = open([noted(&trace, "A", || A).into()]).await;
    assert_eq!(trace.take(), Vec::<String>::new());
    let first = resources.get::<A>().await.unwrap();
    let second = resources.get::<A>().await.unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    let call = resources.tool_scope();
    assert!(Arc::ptr_eq(&first, &call.get::<A>().await.unwrap()));
    assert_eq!(trace.take(), ["build A"]);
}

// case 123
#[tokio::test]
async fn tasks_that_ask_at_the_same_time_share_one_build() {
    let builds = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Notify::new());
    let binding = {
        let (builds, gate) = (Arc::clone(&builds), Arc::clone(&gate));
        Binding::with_async(move |_| {
            builds.fetch_add(1, Ordering::SeqCst);
            let gate = Arc::clone(&gate);
            async move {
                gate.notified().await;
                Ok(A)
            }
        })
    };
    let resources = open([binding.into()]).await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let resources = resources.clone();
            tokio::spawn(async move { resources.get::<A>().await.unwrap() })
        })
        .collect();
    tokio::task::yield_now().await;
    gate.notify_one();
    let mut instances = Vec::new();
    for task in tasks {
        instances.push(task.await.unwrap());
    }
    assert!(instances.iter().all(|instance| Arc::ptr_eq(instance, &instances[0])));
    assert_eq!(builds.load(Ordering::SeqCst), 1);
}

// case 127
#[tokio::test]
async fn tasks_that_wait_for_a_failing_build_share_its_error() {
    let builds = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Notify::new());
    let binding: Binding<A> = {
        let (builds, gate) = (Arc::clone(&builds), Arc::clone(&gate));
        Binding::with_async(move |_| {
            builds.fetch_add(1, Ordering::SeqCst);
            let gate = Arc::clone(&gate);
            async move {
                gate.notified().await;
                Err("no network".into())
            }
        })
    };
    let resources = open([binding.into()]).await;
    let ask = || {
        let resources = resources.clone();
        tokio::spawn(async move { text(resources.get::<A>().await) })
    };
    let (first, second) = (ask(), ask());
    tokio::task::yield_now().await;
    gate.notify_one();
    let answers = (first.await.unwrap(), second.await.unwrap());
    let expected = "A could not be built: no network".to_owned();
    assert_eq!(answers, (expected.clone(), expected));
    assert_eq!(builds.load(Ordering::SeqCst), 1);
}

// case 123
#[tokio::test]
async fn a_build_that_is_given_up_is_taken_over_by_the_next() {
    let builds = Arc::new(AtomicUsize::new(0));
    let binding = {
        let builds = Arc::clone(&builds);
        Binding::with_async(move |_| {
            let first = builds.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                if first {
                    std::future::pending::<()>().await;
                }
                Ok(A)
            }
        })
    };
    let resources = open([binding.into()]).await;
    let stuck = tokio::spawn({
        let resources = resources.clone();
        async move { resources.get::<A>().await.map(drop) }
    });
    tokio::task::yield_now().await;
    let waiting = tokio::spawn({
        let resources = resources.clone();
        async move { resources.get::<A>().await.map(drop) }
    });
    tokio::task::yield_now().await;
    stuck.abort();
    waiting.await.unwrap().unwrap();
    assert_eq!(builds.load(Ordering::SeqCst), 2);
}

/// A binding of one level that adds one to the level below.
fn level<const N: usize, const BELOW: usize>() -> AnyBinding {
    Binding::with_async(|r| async move { Ok(Level::<N>(r.get::<Level<BELOW>>().await?.0 + 1)) }).into()
}

// case 124
#[tokio::test]
async fn dependencies_are_resolved_however_deep() {
    let bottom = Binding::new(|_| Ok(Level::<0>(0))).into();
    let resources = open([
        level::<7, 6>(),
        level::<3, 2>(),
        level::<5, 4>(),
        level::<6, 5>(),
        level::<1, 0>(),
        level::<2, 1>(),
        level::<4, 3>(),
        bottom,
    ])
    .await;
    assert_eq!(resources.get::<Level<7>>().await.unwrap().0, 7);
}

fn needs<T, D>(make: fn() -> T) -> Binding<T>
where
    T: Send + Sync + 'static,
    D: Send + Sync + 'static,
{
    Binding::with_async(move |r| async move {
        r.get::<D>().await?;
        Ok(make())
    })
}

// case 125
#[tokio::test]
async fn a_cycle_is_told_in_order() {
    let resources =
        open([needs::<A, B>(|| A).into(), needs::<B, A>(|| B).into(), needs::<C, A>(|| C).into()]).await;
    let expected = "resources depend on each other: A -> B -> A";
    assert_eq!(text(resources.get::<A>().await), expected);
    // The way into the cycle is no part of it.
    assert_eq!(text(resources.get::<C>().await), expected);
    match resources.get::<B>().await {
        Err(ResourceError::Cycle { path }) => {
            let path: Vec<_> = path.iter().map(ToString::to_string).collect();
            assert_eq!(path, ["B", "A", "B"]);
        }
        other => panic!("{:?}", other.map(drop)),
    }
}

// case 125
#[tokio::test]
async fn prototypes_and_call_scoped_resources_can_form_a_cycle_too() {
    let resources = open([
        needs::<A, B>(|| A).scope(Scope::Prototype).into(),
        needs::<B, A>(|| B).scope(Scope::ToolCall).into(),
    ])
    .await;
    let call = resources.tool_scope();
    assert_eq!(text(call.get::<A>().await), "resources depend on each other: A -> B -> A");
    assert_eq!(text(call.get::<B>().await), "resources depend on each other: B -> A -> B");
}

// case 125
#[tokio::test]
async fn a_cycle_across_two_tasks_is_an_error_and_no_deadlock() {
    let met = Arc::new(Barrier::new(2));
    fn meeting<T: Send + Sync + 'static, D: Send + Sync + 'static>(
        met: &Arc<Barrier>,
        make: fn() -> T,
    ) -> AnyBinding {
        let met = Arc::clone(met);
        Binding::with_async(move |r| {
            let met = Arc::clone(&met);
            async move {
                met.wait().await;
                r.get::<D>().await?;
                Ok(make())
            }
        })
        .into()
    }
    let resources = open([meeting::<A, B>(&met, || A), meeting::<B, A>(&met, || B)]).await;
    let (a, b) = tokio::join!(resources.get::<A>(), resources.get::<B>());
    // Which of the two closed the circle is chance; both learn of it.
    let (a, b) = (text(a), text(b));
    assert_eq!(a, b);
    let ways = ["A -> B -> A", "B -> A -> B"].map(|way| format!("resources depend on each other: {way}"));
    assert!(ways.contains(&a), "{a}");
}

// case 126
#[tokio::test]
async fn what_is_not_bound_is_named() {
    let resources = open([]).await;
    assert_eq!(text(resources.get::<A>().await), "No binding for A");
    assert!(resources.get_optional::<A>().await.unwrap().is_none());
    let call = resources.tool_scope();
    assert_eq!(text(call.get::<Vec<A>>().await), "No binding for Vec<A>");
    assert!(call.get_optional::<A>().await.unwrap().is_none());
    assert!(call.handle().get_optional::<A>().await.unwrap().is_none());
}

// cases 126, 127
#[tokio::test]
async fn a_missing_dependency_is_told_with_who_needed_it() {
    let resources = open([needs::<A, B>(|| A).into()]).await;
    assert_eq!(text(resources.get::<A>().await), "A could not be built: No binding for B");
    // The resource is bound, so this is no `None`.
    assert_eq!(
        resources.get_optional::<A>().await.map(drop).unwrap_err().to_string(),
        "A could not be built: No binding for B"
    );
}

#[derive(Debug, thiserror::Error)]
#[error("connection refused")]
struct Refused;

// case 127
#[tokio::test]
async fn a_provider_error_keeps_name_and_cause() {
    let binding: Binding<A> = Binding::new(|_| Err(Refused.into())).named("database");
    let resources = open([binding.into()]).await;
    match resources.get::<A>().await {
        Err(ResourceError::Provider { name, cause }) => {
            assert_eq!(name.to_string(), "database");
            assert!(cause.downcast_ref::<Refused>().is_some());
        }
        other => panic!("{:?}", other.map(drop)),
    }
    assert_eq!(text(resources.get::<A>().await), "database could not be built: connection refused");
}

// case 127
#[tokio::test]
async fn a_provider_that_panics_is_contained() {
    let failing = Arc::new(AtomicUsize::new(2));
    let binding = {
        let failing = Arc::clone(&failing);
        Binding::new(move |_| {
            let left = failing.fetch_sub(1, Ordering::SeqCst);
            assert!(left == 0, "not yet");
            Ok(A)
        })
    };
    let later: Binding<B> = Binding::with_async(|_| async { panic!("half way") });
    let resources = open([binding.into(), later.into()]).await;
    assert_eq!(text(resources.get::<A>().await), "A could not be built: panicked: not yet");
    assert_eq!(text(resources.get::<A>().await), "A could not be built: panicked: not yet");
    assert!(resources.get::<A>().await.is_ok());
    assert_eq!(text(resources.get::<B>().await), "B could not be built: panicked: half way");
}

// case 128
#[tokio::test]
async fn a_failing_post_construct_closes_the_instance_and_is_tried_again() {
    let trace = Trace::default();
    let attempts = Arc::new(AtomicUsize::new(0));
    let binding = {
        let attempts = Arc::clone(&attempts);
        noted(&trace, "A", || A).post_construct(move |_| {
            let attempt = attempts.fetch_add(1, Ordering::SeqCst);
            async move {
                match attempt {
                    0 => Err("cannot connect".into()),
                    1 => panic!("no socket"),
                    _ => Ok(()),
                }
            }
        })
    };
    let resources = open([binding.into()]).await;
    assert_eq!(text(resources.get::<A>().await), "A failed in post_construct and was closed: cannot connect");
    assert_eq!(trace.take(), ["build A", "close A"]);
    assert_eq!(
        text(resources.get::<A>().await),
        "A failed in post_construct and was closed: panicked: no socket"
    );
    assert_eq!(trace.take(), ["build A", "close A"]);
    resources.get::<A>().await.unwrap();
    assert_eq!(trace.take(), ["build A"]);
}

fn failing_close<T: Send + Sync + 'static>(trace: &Trace, name: &'static str, make: fn() -> T) -> Binding<T> {
    let trace = trace.clone();
    Binding::new(move |_| Ok(make())).on_close(move |_| {
        trace.add(format!("close {name}"));
        async { Err::<(), BoxError>("stuck".into()) }
    })
}

// case 129
#[tokio::test]
async fn closing_goes_in_reverse_and_does_not_stop_at_a_failure() {
    let trace = Trace::default();
    let panicking = {
        let trace = trace.clone();
        Binding::new(|_| Ok(C)).on_close(move |_| {
            trace.add("close C");
            async { panic!("oops") }
        })
    };
    let resources =
        open([noted(&trace, "A", || A).into(), failing_close(&trace, "B", || B).into(), panicking.into()])
            .await;
    resources.get::<C>().await.unwrap();
    resources.get::<A>().await.unwrap();
    resources.get::<B>().await.unwrap();
    trace.take();
    let failures = resources.close().await.unwrap_err();
    assert_eq!(trace.take(), ["close B", "close A", "close C"]);
    assert_eq!(failures.to_string(), "B could not be closed: stuck; C could not be closed: panicked: oops");
    // Closed is closed: nothing is closed twice, and nothing is built any more.
    resources.close().await.unwrap();
    assert_eq!(text(resources.get::<A>().await), "A is not available: the resources are closed");
    assert_eq!(trace.take(), Vec::<String>::new());
}

// case 129
#[tokio::test]
async fn a_resource_is_closed_before_what_it_was_built_from() {
    let trace = Trace::default();
    let dependent = {
        let trace = trace.clone();
        needs::<A, B>(|| A).on_close(move |_| {
            trace.add("close A");
            async { Ok(()) }
        })
    };
    let resources = open([dependent.into(), noted(&trace, "B", || B).into()]).await;
    resources.get::<A>().await.unwrap();
    resources.close().await.unwrap();
    assert_eq!(trace.take(), ["build B", "close A", "close B"]);
}

fn number(n: u32) -> AnyBinding {
    Binding::instance(Arc::new(n)).into()
}

// case 130
#[tokio::test]
async fn one_type_has_one_binding() {
    let twice = ResourceRegistry::of([number(1), number(2)]);
    assert_eq!(
        text(twice),
        "u32 is bound twice; bind each type once, or merge registries with MergeMode::LaterWins"
    );
    let (one, two) = (ResourceRegistry::of([number(1)]).unwrap(), ResourceRegistry::of([number(2)]).unwrap());
    assert!(matches!(one.merge(&two, MergeMode::Strict), Err(ResourceError::Duplicate { .. })));
    let merged = one.merge(&two, MergeMode::LaterWins).unwrap();
    assert_eq!(*merged.get::<u32>().unwrap(), 2);
    assert_eq!(merged.bindings().len(), 1);
    assert_eq!(*one.get::<u32>().unwrap(), 1);
}

// This room's part of case 131: the executor opens and finishes the scope.
#[tokio::test]
async fn a_call_has_its_own_instance_and_closes_it() {
    let trace = Trace::default();
    let resources = open([noted(&trace, "A", || A).scope(Scope::ToolCall).into()]).await;
    let first = resources.tool_scope();
    let mine = first.get::<A>().await.unwrap();
    assert!(Arc::ptr_eq(&mine, &first.handle().get::<A>().await.unwrap()));
    let second = resources.tool_scope();
    let other = second.get::<A>().await.unwrap();
    assert!(!Arc::ptr_eq(&mine, &other));
    assert_eq!(trace.take(), ["build A", "build A"]);
    assert!(first.finish(CallEnd::RolledBack).await.is_empty());
    assert_eq!(trace.take(), ["close A"]);
    let merged = second.merge().unwrap();
    assert!(second.finish(CallEnd::Committed(merged)).await.is_empty());
    assert_eq!(trace.take(), ["close A"]);
    assert_eq!(text(resources.get::<A>().await), "A lives for one tool call; get it from the call's scope");
}

// case 129
#[tokio::test]
async fn closing_failures_of_a_call_are_handed_back() {
    let trace = Trace::default();
    let resources = open([
        noted(&trace, "A", || A).scope(Scope::ToolCall).into(),
        failing_close(&trace, "B", || B).scope(Scope::ToolCall).into(),
    ])
    .await;
    let call = resources.tool_scope();
    call.get::<A>().await.unwrap();
    call.get::<B>().await.unwrap();
    let failures = call.finish(CallEnd::RolledBack).await;
    assert_eq!(trace.take(), ["build A", "close B", "close A"]);
    let failures: Vec<_> = failures.iter().map(ToString::to_string).collect();
    assert_eq!(failures, ["B could not be closed: stuck"]);
}

// case 132
#[tokio::test]
async fn an_inner_scope_has_its_own_and_is_closed_first() {
    let trace = Trace::default();
    let serial = Arc::new(AtomicUsize::new(0));
    let binding = {
        let closed = trace.clone();
        Binding::new(move |_| Ok(serial.fetch_add(1, Ordering::SeqCst))).scope(Scope::ToolCall).on_close(
            move |n: Arc<usize>| {
                closed.add(format!("close {n}"));
                async { Ok(()) }
            },
        )
    };
    let resources = open([binding.into()]).await;
    let outer = resources.tool_scope();
    let inner = outer.tool_scope();
    assert_eq!(*inner.get::<usize>().await.unwrap(), 0);
    assert_eq!(*outer.get::<usize>().await.unwrap(), 1);
    let innermost = inner.tool_scope();
    assert_eq!(*innermost.get::<usize>().await.unwrap(), 2);
    innermost.finish(CallEnd::RolledBack).await;
    assert_eq!(trace.take(), ["close 2"]);
    assert_eq!(*outer.get::<usize>().await.unwrap(), 1);
    // The outer one ends first: the inner one goes with it, before it.
    outer.finish(CallEnd::RolledBack).await;
    assert_eq!(trace.take(), ["close 0", "close 1"]);
    assert_eq!(text(inner.get::<usize>().await), "usize is not available: the call is over");
    inner.finish(CallEnd::RolledBack).await;
    assert_eq!(trace.take(), Vec::<String>::new());
}

// case 133
#[tokio::test]
async fn a_prototype_is_new_at_every_get() {
    let trace = Trace::default();
    let resources = open([noted(&trace, "A", || A).scope(Scope::Prototype).into()]).await;
    let (first, second) = (resources.get::<A>().await.unwrap(), resources.get::<A>().await.unwrap());
    assert!(!Arc::ptr_eq(&first, &second));
    let call = resources.tool_scope();
    let (third, fourth) = (call.get::<A>().await.unwrap(), call.get::<A>().await.unwrap());
    assert!(!Arc::ptr_eq(&third, &fourth));
    assert_eq!(trace.take(), ["build A"; 4]);
    call.finish(CallEnd::RolledBack).await;
    assert_eq!(trace.take(), ["close A"; 2]);
    resources.close().await.unwrap();
    assert_eq!(trace.take(), ["close A"; 2]);
}

// case 134
#[tokio::test]
async fn eager_resources_are_built_at_opening() {
    let trace = Trace::default();
    let registry = ResourceRegistry::of((
        noted(&trace, "A", || A).eager(),
        noted(&trace, "B", || B),
        noted(&trace, "C", || C).eager(),
    ))
    .unwrap();
    let resources = registry.open().await.unwrap();
    assert_eq!(trace.take(), ["build A", "build C"]);
    resources.close().await.unwrap();
    assert_eq!(trace.take(), ["close C", "close A"]);
}

// case 134
#[tokio::test]
async fn a_failed_opening_closes_what_was_built() {
    let trace = Trace::default();
    let broken: Binding<C> = Binding::new(|_| Err("no licence".into())).eager();
    let registry =
        ResourceRegistry::of((noted(&trace, "A", || A).eager(), noted(&trace, "B", || B).eager(), broken))
            .unwrap();
    assert_eq!(text(registry.open().await), "C could not be built: no licence");
    assert_eq!(trace.take(), ["build A", "build B", "close B", "close A"]);
    // The registry can be opened again, and again starts afresh.
    assert!(registry.open().await.is_err());
    assert_eq!(trace.take(), ["build A", "build B", "close B", "close A"]);
}

trait Greeter: Send + Sync {
    fn greet(&self) -> String;
}

struct Polite;

impl Greeter for Polite {
    fn greet(&self) -> String {
        "good day".into()
    }
}

// case 135
#[tokio::test]
async fn an_instance_from_outside_needs_no_opening() {
    let registry = ResourceRegistry::of((
        Binding::<dyn Greeter>::instance(Arc::new(Polite)),
        Binding::new(|_| Ok(A)),
        Binding::new(|r| Ok(r.ready::<dyn Greeter>()?.map(|greeter| greeter.greet()).unwrap_or_default())),
    ))
    .unwrap();
    assert_eq!(registry.get::<dyn Greeter>().unwrap().greet(), "good day");
    assert_eq!(text(registry.get::<A>()), "A is built on demand; open the registry first");
    assert_eq!(text(registry.get::<B>()), "No binding for B");
    let resources = registry.open().await.unwrap();
    assert_eq!(*resources.get::<String>().await.unwrap(), "good day");
    assert_eq!(resources.ready::<dyn Greeter>().unwrap().unwrap().greet(), "good day");
    assert!(resources.ready::<A>().unwrap().is_none());
}

// This room's part of case 136: the prompt and the loop put the layers in order.
#[tokio::test]
async fn the_later_layer_wins() {
    let layer = |n: u32| ResourceRegistry::of([number(n)]).unwrap();
    let layers = [layer(0), layer(1), layer(2), ResourceRegistry::default(), layer(4), layer(5), layer(6)];
    for top in 1..=layers.len() {
        let whole = ResourceRegistry::layered(&layers[..top]);
        let expected = if top == 4 { 2 } else { top as u32 - 1 };
        assert_eq!(*whole.get::<u32>().unwrap(), expected);
    }
    let other = ResourceRegistry::of([Binding::instance(Arc::new(7_u8))]).unwrap();
    let whole = ResourceRegistry::layered([&layers[0], &other]).open().await.unwrap();
    assert_eq!((*whole.get::<u32>().await.unwrap(), *whole.get::<u8>().await.unwrap()), (0, 7));
    assert!(ResourceRegistry::layered([]).is_empty());
}

// This room's part of case 137: calls leave the caller's resources open.
#[tokio::test]
async fn what_the_caller_opened_lives_until_the_caller_closes() {
    let trace = Trace::default();
    let resources = open([noted(&trace, "A", || A).into()]).await;
    let mine = resources.get::<A>().await.unwrap();
    for _ in 0..3 {
        let call = resources.tool_scope();
        assert!(Arc::ptr_eq(&mine, &call.get::<A>().await.unwrap()));
        call.finish(CallEnd::RolledBack).await;
    }
    assert_eq!(trace.take(), ["build A"]);
    resources.close().await.unwrap();
    assert_eq!(trace.take(), ["close A"]);
}

// This room's part of case 138: neither a call nor closing touches what came from outside.
#[tokio::test]
async fn an_instance_from_outside_is_never_closed() {
    struct Owned(Trace);
    impl Drop for Owned {
        fn drop(&mut self) {
            self.0.add("dropped");
        }
    }
    let trace = Trace::default();
    let owned = Arc::new(Owned(trace.clone()));
    let registry = ResourceRegistry::of([Binding::instance(Arc::clone(&owned))]).unwrap();
    let resources = registry.open().await.unwrap();
    let call = resources.tool_scope();
    assert!(Arc::ptr_eq(&owned, &call.get::<Owned>().await.unwrap()));
    call.finish(CallEnd::RolledBack).await;
    resources.close().await.unwrap();
    drop((registry, resources));
    assert_eq!(trace.take(), Vec::<String>::new());
    assert_eq!(Arc::strong_count(&owned), 1);
    // A hook that would never run is refused instead of ignored.
    let hooked = Binding::instance(owned).on_close(|_| async { Ok(()) });
    assert_eq!(
        text(ResourceRegistry::of([hooked])),
        "the binding of Owned is not valid: an instance made outside has no hooks: its owner opens and closes it"
    );
}

#[tokio::test]
async fn what_lives_for_one_call_cannot_be_captured() {
    let resources = open([
        needs::<A, B>(|| A).into(),
        needs::<B, C>(|| B).scope(Scope::Prototype).into(),
        Binding::new(|_| Ok(C)).scope(Scope::ToolCall).into(),
    ])
    .await;
    let call = resources.tool_scope();
    // Through a prototype as well: it becomes part of the singleton.
    assert_eq!(
        text(call.get::<A>().await),
        "A is a singleton and cannot hold C, which lives for one tool call; bind A with Scope::ToolCall"
    );
    assert!(call.get::<B>().await.is_ok());
    assert!(call.get::<C>().await.is_ok());
}

#[tokio::test]
async fn a_resolver_serves_only_during_its_build() {
    let resources = open([Binding::new(|r| Ok(r.clone())).into(), Binding::new(|_| Ok(A)).into()]).await;
    let leaked = resources.get::<wink::resource::Resolver>().await.unwrap();
    assert_eq!(
        text(leaked.get::<A>().await),
        "A is not available here: a resolver serves only while its own resource is being built"
    );
}

#[tokio::test]
async fn only_singletons_are_eager() {
    let binding = Binding::new(|_| Ok(A)).eager().scope(Scope::ToolCall);
    assert_eq!(
        text(ResourceRegistry::of([binding])),
        "the binding of A is not valid: only a singleton can be eager"
    );
}

#[tokio::test]
async fn prototypes_made_for_a_resource_are_closed_with_it() {
    let trace = Trace::default();
    let holder = {
        let trace = trace.clone();
        needs::<A, B>(|| A).scope(Scope::ToolCall).on_close(move |_| {
            trace.add("close A");
            async { Ok(()) }
        })
    };
    let failing: Binding<C> = Binding::with_async(|r| async move {
        r.get::<B>().await?;
        Err("no".into())
    });
    let resources =
        open([holder.into(), noted(&trace, "B", || B).scope(Scope::Prototype).into(), failing.into()]).await;
    let call = resources.tool_scope();
    call.get::<A>().await.unwrap();
    call.finish(CallEnd::RolledBack).await;
    assert_eq!(trace.take(), ["build B", "close A", "close B"]);
    // A build that fails leaves nothing behind.
    assert_eq!(text(resources.get::<C>().await), "C could not be built: no");
    assert_eq!(trace.take(), ["build B", "close B"]);
}

/// What is bound may be a trait: whoever asks does not know what is behind it.
#[tokio::test]
async fn a_trait_object_can_be_bound() {
    let said = async |binding: Binding<dyn Greeter>| {
        let resources = open([binding.into()]).await;
        let (first, second) =
            (resources.get::<dyn Greeter>().await.unwrap(), resources.get::<dyn Greeter>().await.unwrap());
        assert!(Arc::ptr_eq(&first, &second), "one, unless its scope says otherwise");
        first.greet()
    };
    assert_eq!(said(Binding::instance(Arc::new(Polite))).await, "good day");
    assert_eq!(said(Binding::<dyn Greeter>::of_trait(|_| Ok(Arc::new(Polite)))).await, "good day");
    let made = Binding::of_trait_async(|_| async {
        tokio::task::yield_now().await;
        Ok(Arc::new(Polite) as Arc<dyn Greeter>)
    });
    assert_eq!(said(made).await, "good day");
}
