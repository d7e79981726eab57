//! A blocking handler cannot be stopped; once its call is over, nothing it does arrives.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::json;
use wink::executor::{ExecutorLimits, Outcome};
use wink::filesystem::{DeleteMode, Edit, Filesystem, FilesystemExt, MkdirOptions};
use wink::limits::{CancelToken, Heartbeat};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry, Shared};
use wink::session::{Ending, InvocationId, ToolInvoked};
use wink::testing::FakeClock;
use wink::tool::context::Progress;

use crate::support::{self, Fresh, KINDS, Kind, Note, Setting, TIMEOUT, Tally, World};

/// How the handler and its test talk: where the handler is, and that it may go on.
struct Leash {
    at: Sender<&'static str>,
    go_on: Mutex<Receiver<()>>,
    refused: Arc<AtomicUsize>,
    let_through: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Told(AtomicUsize);

impl Progress for Told {
    fn progress(&self, _: InvocationId, _: f64, _: Option<f64>, _: &str) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn partial(&self, _: InvocationId, _: &str) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn stubborn(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let leash = cx.block_on(cx.resource::<Leash>())?;
    let files = cx.block_on(cx.filesystem())?;
    let raw_files = cx.block_on(cx.resource::<dyn Filesystem>())?;
    let counter = cx.block_on(cx.resource::<Shared<u32>>())?;
    let session = cx.session();
    // What it does while it may is part of the call, and goes with it.
    let _ = session.dispatch(Note { text: "in time".into() })?;
    cx.block_on(files.write_text("old.txt", "in time"))?;
    counter.set(1);
    leash.at.send("working").unwrap();
    leash.go_on.lock().unwrap().recv().unwrap();

    let mut refused = 0;
    let mut let_through = 0;
    let mut tried = |refuses: bool| if refuses { refused += 1 } else { let_through += 1 };
    tried(session.dispatch(Note { text: "late".into() }).is_err());
    tried(session.dispatch(Fresh { word: "late".into() }).is_err());
    tried(session.seed([Setting { on: true }]).is_err());
    tried(session.clear_where::<Note>(|_| true).is_err());
    tried(session.slice::<Note>().is_err());
    tried(cx.block_on(files.write_text("old.txt", "late")).is_err());
    tried(cx.block_on(files.write_text("late.txt", "late")).is_err());
    tried(cx.block_on(files.edit("edit.txt", &Edit::once("two", "late"))).is_err());
    tried(cx.block_on(files.delete("gone.txt", DeleteMode::Single)).is_err());
    tried(cx.block_on(files.mkdir("late", MkdirOptions::default())).is_err());
    tried(cx.block_on(files.rename("move.txt", "late.txt")).is_err());
    tried(cx.block_on(cx.filesystem()).is_err());
    tried(cx.block_on(cx.resource::<Shared<Tally>>()).is_err());
    tried(cx.is_cancelled());
    leash.refused.store(refused, Ordering::SeqCst);
    leash.let_through.store(let_through, Ordering::SeqCst);
    // These it holds itself: they work, on copies that nobody looks at any more.
    let _ = cx.block_on(raw_files.write_text("old.txt", "late"));
    let _ = cx.block_on(raw_files.write_text("late.txt", "late"));
    counter.set(2);
    cx.beat();
    cx.progress(1.0, None, "late");
    cx.partial_output("late");
    leash.at.send("done").unwrap();
    Ok(ToolResult::done("late"))
}

/// The test's end of a leash.
struct Held {
    world: World,
    at: Receiver<&'static str>,
    go_on: Sender<()>,
    heartbeat: Arc<Heartbeat>,
    told: Arc<Told>,
    refused: Arc<AtomicUsize>,
    let_through: Arc<AtomicUsize>,
}

async fn held(kind: Kind, limits: ExecutorLimits) -> Held {
    let (at_send, at) = channel();
    let (go_on, go_on_receive) = channel();
    let (refused, let_through) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let leash = Arc::new(Leash {
        at: at_send,
        go_on: Mutex::new(go_on_receive),
        refused: Arc::clone(&refused),
        let_through: Arc::clone(&let_through),
    });
    let heartbeat = Arc::new(Heartbeat::new(Arc::new(FakeClock::new(support::start()))));
    let told = Arc::new(Told::default());
    let mut world = World::with(
        kind,
        |section| section.tool(Tool::blocking("stubborn", "Never stop.", stubborn).timeout(TIMEOUT)),
        |builder| builder,
    )
    .await;
    let mut bindings = ResourceRegistry::of((
        Binding::filesystem(Arc::clone(&world.files)),
        Binding::instance(Arc::clone(&world.counter)).named("counter").snapshotable(),
        Binding::new(|_| Ok(Shared::new(Tally::default()))).named("tally").snapshotable(),
        Binding::instance(Arc::clone(&world.bank)),
    ))
    .unwrap();
    bindings =
        ResourceRegistry::layered([&bindings, &ResourceRegistry::of((Binding::instance(leash),)).unwrap()]);
    world.resources = bindings.open().await.unwrap();
    world.executor = wink::executor::Executor::builder(&world.prompt, &world.session)
        .opened(world.resources.clone())
        .heartbeat(Arc::clone(&heartbeat))
        .progress(Arc::clone(&told) as Arc<dyn Progress>)
        .limits(limits)
        .open()
        .await
        .unwrap();
    Held { world, at, go_on, heartbeat, told, refused, let_through }
}

#[derive(Debug, Clone, Copy)]
enum Stop {
    Timeout,
    Cancel,
    Drop,
}

impl Held {
    /// Starts the handler, and stops the call while it works.
    async fn stop(&self, stop: Stop) -> Option<Outcome> {
        let world = &self.world;
        let cancel = CancelToken::new();
        let call = world.executor.call_cancellable(world.call("stubborn", json!({})), cancel.clone());
        let stopping = async {
            world.clock.until_sleeping(1).await;
            let at = tokio::task::block_in_place(|| self.at.recv().unwrap());
            assert_eq!(at, "working");
            match stop {
                Stop::Timeout => world.clock.advance(TIMEOUT),
                Stop::Cancel => cancel.cancel(),
                Stop::Drop => {}
            }
        };
        match stop {
            Stop::Timeout | Stop::Cancel => Some(tokio::join!(call, stopping).0),
            Stop::Drop => tokio::select! {
                _ = call => panic!("it does not end"),
                () = stopping => None,
            },
        }
    }

    /// Lets an abandoned handler go on to its end.
    fn let_go(&self) {
        self.go_on.send(()).unwrap();
        assert_eq!(self.at.recv().unwrap(), "done");
    }

    /// Waits until no thread is counted any more.
    fn until_gone(&self) {
        while self.world.executor.abandoned_threads() > 0 {
            std::thread::yield_now();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_nothing_a_stopped_handler_does_arrives() {
    for kind in KINDS {
        for stop in [Stop::Timeout, Stop::Cancel, Stop::Drop] {
            let mut held = held(kind, ExecutorLimits::default()).await;
            let before = held.world.dump().await;
            let outcome = held.stop(stop).await;
            assert_eq!(held.world.executor.abandoned_threads(), 1, "{stop:?}");
            let beats = held.heartbeat.beats();
            assert_eq!(held.world.dump().await, before, "{kind:?} {stop:?}: rolled back at once");
            let log = held.world.log();
            held.let_go();
            held.until_gone();
            assert_eq!(
                (held.refused.load(Ordering::SeqCst), held.let_through.load(Ordering::SeqCst)),
                (14, 0)
            );
            assert_eq!(held.world.dump().await, before, "{kind:?} {stop:?}: nothing arrived");
            assert_eq!(held.heartbeat.beats(), beats, "{stop:?}: no beat of the dead");
            assert_eq!(held.told.0.load(Ordering::SeqCst), 0, "{stop:?}: and no words");
            assert_eq!(held.world.log(), log, "{stop:?}: its result concerns nobody");
            assert_eq!(log.len(), 1);
            let ending = match stop {
                Stop::Timeout => Ending::TimedOut,
                Stop::Cancel | Stop::Drop => Ending::Cancelled,
            };
            assert_eq!((log[0].ending, outcome.is_some()), (ending, !matches!(stop, Stop::Drop)));
            held.world.reopen().await;
            assert_eq!(held.world.dump().await, before, "{kind:?} {stop:?}: in the next process either");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_abandoned_threads_are_counted_and_capped() {
    let limits = ExecutorLimits { max_abandoned_threads: 2, ..ExecutorLimits::default() };
    let held = held(Kind::Memory, limits).await;
    for count in 1..=2 {
        drop(held.stop(Stop::Timeout).await);
        assert_eq!(held.world.executor.abandoned_threads(), count);
    }
    let outcome = held.world.executor.call(held.world.call("stubborn", json!({}))).await;
    assert!(outcome.text().starts_with("2 earlier calls of blocking tools still run"), "{}", outcome.text());
    assert!(held.at.try_recv().is_err(), "no third thread was started");
    // Others are not concerned, and once the threads have gone there is room again.
    assert!(held.world.executor.call(held.world.call("note", json!({ "text": "x" }))).await.is_success());
    for _ in 0..2 {
        held.let_go();
    }
    held.until_gone();
    drop(held.stop(Stop::Timeout).await);
    held.let_go();
    held.until_gone();
    assert_eq!(held.world.session.slice::<ToolInvoked>().len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_a_handler_that_ends_in_time_is_not_abandoned() {
    fn quick(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        let _ = cx.session().dispatch(Note { text: "quick".into() })?;
        Ok(ToolResult::done("quick"))
    }
    fn panics(_: (), _: &mut ToolContext) -> ToolResult<()> {
        panic!("oops")
    }
    let limits = ExecutorLimits { max_abandoned_threads: 1, ..ExecutorLimits::default() };
    let world = World::with(
        Kind::Memory,
        |section| {
            section
                .tool(Tool::blocking("quick", "Be quick.", quick))
                .tool(Tool::blocking("panics", "Panic.", panics))
        },
        |builder| builder.limits(limits),
    )
    .await;
    for _ in 0..200 {
        let outcome = world.executor.call(world.call("quick", json!({}))).await;
        assert_eq!((outcome.text(), world.executor.abandoned_threads()), ("quick", 0));
        let outcome = world.executor.call(world.call("panics", json!({}))).await;
        assert_eq!((outcome.event.ending, world.executor.abandoned_threads()), (Ending::Panicked, 0));
    }
    assert_eq!(world.session.slice::<Note>().len(), 201);
}
