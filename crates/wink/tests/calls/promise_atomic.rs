//! Promise: atomic. After a call that did not succeed, everything is exactly as it was before it; after one that did,
//! everything it did is there. Seen through public reads and in the store's bytes, and the same whether somebody
//! watches the steps or not. `promise_atomic_parts.rs` has the faults of everybody who takes part in a call.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use wink::executor::{Escalation, ExecutorBuilder, Moment, Outcome, Step, ToolCall};
use wink::filesystem::FilesystemExt;
use wink::limits::{CancelToken, Deadline};
use wink::prelude::*;
use wink::session::{CallStat, Ending, ToolInvoked};
use wink::testing::{FakeClock, Fault, FaultPoint, StoreOp};

use crate::support::{
    self, Dump, EFFECTS, Effects, End, Entry, FORMS, Form, KINDS, Kind, Note, Stock, TIMEOUT, World,
};

fn worlds() -> impl Iterator<Item = (Form, Kind)> {
    FORMS.into_iter().flat_map(|form| KINDS.map(|kind| (form, kind)))
}

/// A world after one success of the whole tool.
async fn after_success(form: Form, kind: Kind) -> Dump {
    after_success_of("effects", form, kind).await
}

async fn after_success_of(tool: &str, form: Form, kind: Kind) -> Dump {
    let world = World::formed(form, kind).await;
    let outcome = world.executor.call(world.effects_of(tool, EFFECTS, End::Well)).await;
    assert!(outcome.is_success(), "{}", outcome.text());
    world.dump().await
}

/// The call failed: the world is as it was, but for one event in the log; in the next process too.
async fn assert_untouched(world: &mut World, before: &Dump, events: usize, what: &str) -> Arc<ToolInvoked> {
    assert_untouched_but(0, world, before, events, what).await
}

/// As [`assert_untouched`]; so many entries of the ledger are in doubt.
async fn assert_untouched_but(
    doubts: usize,
    world: &mut World,
    before: &Dump,
    events: usize,
    what: &str,
) -> Arc<ToolInvoked> {
    for process in ["this process", "the next process"] {
        let mut dump = world.dump().await;
        assert_eq!(dump.take_doubts(before).len(), doubts, "{what}: in doubt, in {process}");
        assert_eq!(&dump, before, "{what}: something changed, in {process}");
        assert_eq!(world.log().len(), events + 1, "{what}: one event, in {process}");
        world.reopen().await;
    }
    let event = world.log().pop().unwrap();
    assert!(!event.success, "{what}");
    event
}

/// The call of a step's fault: one that comes by there.
fn on_the_way(step: Step, tool: &str, world: &World) -> ToolCall {
    match step {
        Step::Lookup
        | Step::Parse
        | Step::Deadline
        | Step::Context
        | Step::Policies
        | Step::Ledger
        | Step::Begin
        | Step::Handler
        | Step::OnResult
        | Step::Subscribers
        | Step::Commit
        | Step::Feedback
        | Step::Answer => world.effects_of(tool, EFFECTS, End::Well),
        Step::Record => world.effects_of(tool, EFFECTS, End::Refuse),
    }
}

/// Whether nobody can know any more what the handler did outside: it was started, and its success was in vain.
fn leaves_doubt(point: FaultPoint) -> bool {
    matches!(
        (point.step, point.moment),
        (Step::Handler, Moment::After) | (Step::OnResult | Step::Subscribers | Step::Commit, _)
    )
}

/// What must come of a fault: whether the call still succeeds.
fn still_succeeds(point: FaultPoint) -> bool {
    match (point.step, point.moment) {
        // The call has failed before.
        (Step::Record, _) => false,
        // What is committed stays.
        (Step::Commit, Moment::After) | (Step::Feedback | Step::Answer, _) => true,
        _ => false,
    }
}

// case 57
#[tokio::test]
async fn atomic_whatever_goes_wrong_at_any_step() {
    assert_eq!(Step::ALL.iter().collect::<BTreeSet<_>>().len(), Step::ALL.len(), "every step once");
    for kind in KINDS {
        for tool in ["effects", "effects_once"] {
            let after = after_success_of(tool, Form::Watched, kind).await.timeless();
            let mut hit = Vec::new();
            for step in Step::ALL {
                for moment in [Moment::Before, Moment::After] {
                    for fault in Fault::ALL {
                        let point = FaultPoint::new(step, moment, fault);
                        hit.extend(goes_wrong_at(point, tool, kind, &after).await);
                    }
                }
            }
            assert_eq!(hit.len(), Step::ALL.len() * 2 * Fault::ALL.len(), "none left unhit");
        }
    }
}

async fn goes_wrong_at(point: FaultPoint, tool: &str, kind: Kind, after: &Dump) -> Vec<FaultPoint> {
    let what = format!("{kind:?} {tool}: {:?} {:?} {:?}", point.fault, point.moment, point.step);
    let mut world = World::watched(kind).await;
    let before = world.dump().await;
    let call = on_the_way(point.step, tool, &world);
    let came = world.faults.run(&world.executor, call, point).await;
    assert!(came.hit, "{what}: never came by");
    assert_eq!(came.outcome.is_none(), point.fault == Fault::Drop, "{what}: answered");
    if let Some(outcome) = &came.outcome {
        assert_eq!(outcome.is_success(), still_succeeds(point), "{what}: {}", outcome.text());
        assert_eq!(world.log(), [Arc::clone(&outcome.event)], "{what}: the event of the answer");
    }
    if still_succeeds(point) {
        assert_eq!(&world.dump().await.timeless(), after, "{what}");
        assert_eq!(world.log().len(), 1, "{what}");
        world.reopen().await;
        assert_eq!(&world.dump().await.timeless(), after, "{what}, in the next process");
        assert!(world.log()[0].success, "{what}");
    } else {
        let doubts = usize::from(tool == "effects_once" && leaves_doubt(point));
        assert_untouched_but(doubts, &mut world, &before, 0, &what).await;
    }
    world.faults.hits()
}

/// Ways for a handler to end that are no success.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Returns(End),
    TimesOut,
    IsCancelled,
    IsDropped,
    RunsIntoTheDeadline,
}

// cases 41, 42, 57, 73, 74, 77, 78
#[tokio::test]
async fn atomic_after_every_effect_of_a_handler() {
    let ways = [
        Way::Returns(End::Refuse),
        Way::Returns(End::Fail),
        Way::Returns(End::Invalid),
        Way::Returns(End::Panic),
        Way::TimesOut,
        Way::IsCancelled,
        Way::IsDropped,
        Way::RunsIntoTheDeadline,
    ];
    for (form, kind) in worlds() {
        for effects in 0..=EFFECTS {
            for way in ways {
                let what = format!("{form:?} {kind:?}: {way:?} after {effects} effects");
                let mut world = match way {
                    Way::RunsIntoTheDeadline => World::formed_with(form, kind, |section| section, soon).await,
                    _ => World::formed(form, kind).await,
                };
                let before = world.dump().await;
                let outcome = end_in(&world, way, effects).await;
                let ending = match way {
                    Way::Returns(End::Refuse) => Ending::Failed,
                    Way::Returns(End::Panic) => Ending::Panicked,
                    Way::Returns(_) => Ending::Errored,
                    Way::TimesOut => Ending::TimedOut,
                    Way::IsCancelled | Way::IsDropped => Ending::Cancelled,
                    Way::RunsIntoTheDeadline => Ending::Exhausted,
                };
                assert_eq!(outcome.is_none(), way == Way::IsDropped, "{what}");
                let event = assert_untouched(&mut world, &before, 0, &what).await;
                assert_eq!(event.ending, ending, "{what}");
            }
        }
    }
}

/// A deadline that comes before the handler's own time limit.
fn soon(builder: ExecutorBuilder) -> ExecutorBuilder {
    let at = support::start().checked_add(TIMEOUT / 2).unwrap();
    builder.deadline(Deadline::at(at, &FakeClock::new(support::start())).unwrap())
}

async fn end_in(world: &World, way: Way, effects: usize) -> Option<Outcome> {
    let clock = &world.clock;
    let executor = &world.executor;
    let hangs = world.effects(effects, End::Hang);
    // The handler's own time limit, and the deadline.
    let advance = async |by: Duration| {
        clock.until_sleeping(2).await;
        clock.advance(by);
    };
    match way {
        Way::Returns(end) => Some(executor.call(world.effects(effects, end)).await),
        Way::TimesOut => Some(tokio::join!(executor.call(hangs), advance(TIMEOUT)).0),
        Way::RunsIntoTheDeadline => Some(tokio::join!(executor.call(hangs), advance(TIMEOUT / 2)).0),
        Way::IsCancelled => {
            let cancel = CancelToken::new();
            let cancelled = async {
                clock.until_sleeping(2).await;
                cancel.cancel();
            };
            Some(tokio::join!(executor.call_cancellable(hangs, cancel.clone()), cancelled).0)
        }
        Way::IsDropped => {
            let mut call = pin!(executor.call(hangs));
            tokio::select! {
                outcome = &mut call => panic!("{}", outcome.text()),
                () = clock.until_sleeping(2) => None,
            }
        }
    }
}

// case 75
#[tokio::test]
async fn atomic_success_keeps_everything() {
    for (form, kind) in worlds() {
        let mut world = World::formed(form, kind).await;
        let ledger = world.dump().await.ledger;
        let outcome = world.executor.call(world.effects(EFFECTS, End::Well)).await;
        assert!(outcome.is_success(), "{}", outcome.text());
        for _ in 0..2 {
            let dump = world.dump().await;
            let slices = json!({
                "note": [{ "text": "before" }, { "text": "appended" }],
                "stock": [{ "item": "bolt", "count": 99 }, { "item": "nut", "count": 1 }],
                "setting": [{ "on": true }],
                "scratch": [],
                "fresh": [{ "word": "first" }],
                "receipt": [{ "effects": EFFECTS }],
            });
            assert_eq!(serde_json::to_value(&dump.slices).unwrap(), slices, "{kind:?}");
            let files: Vec<_> =
                dump.files.iter().map(|(path, entry)| (path.as_str(), entry.clone())).collect();
            let expected = [
                ("edit.txt", Entry::file(b"one 2 three")),
                ("empty", Entry::dir()),
                ("empty/dir", Entry::dir()),
                ("made", Entry::dir()),
                ("made/dir", Entry::dir()),
                ("moved.txt", Entry::file(b"m")),
                ("new", Entry::dir()),
                ("new/file.txt", Entry::file(b"created")),
                ("old.txt", Entry::file(b"overwritten")),
            ];
            assert_eq!(files, expected, "{kind:?}");
            assert_eq!((dump.counter, dump.tally), (8, Some(1)), "{kind:?}");
            let once = CallStat { count: 1, last: support::start() };
            assert_eq!(dump.calls.into_iter().collect::<Vec<_>>(), [("effects", once)], "{kind:?}");
            let remembered = match form {
                Form::Watched | Form::Unwatched => json!({ "tools/remembers/0": { "effects": 1 } }),
                Form::Bare => json!({}),
            };
            assert_eq!(dump.policies, remembered, "{form:?} {kind:?}");
            assert_eq!(dump.ledger, ledger, "{form:?} {kind:?}");
            if let Some(stored) = dump.stored {
                assert!(stored.open.is_empty(), "{form:?}: it has ended");
                assert_eq!(serde_json::to_value(&ledger[0]).unwrap(), stored.ledger[&ledger[0].key]);
                let changed: BTreeSet<_> = stored.state.iter().map(|(stream, _)| stream.as_str()).collect();
                let mut expected = BTreeSet::from([
                    "note",
                    "stock",
                    "setting",
                    "scratch",
                    "fresh",
                    "receipt",
                    "wink.calls",
                    "wink.policies",
                ]);
                if form == Form::Bare {
                    expected.remove("wink.policies");
                }
                assert_eq!(changed, expected, "{form:?}");
            }
            world.reopen().await;
        }
    }
}

// cases 40, 76, 191
#[tokio::test]
async fn atomic_after_results_errors_and_denials() {
    let ways = [
        ("fail", Ending::Errored, "boom"),
        ("refuse", Ending::Failed, "not today"),
        ("invalid", Ending::Errored, "invalid query"),
        ("boom", Ending::Panicked, "boom failed unexpectedly"),
        ("denied", Ending::Denied, "not allowed"),
        ("escalate", Ending::Escalated, "escalate was stopped: enough"),
    ];
    for (form, kind) in worlds() {
        let mut world = World::formed(form, kind).await;
        let before = world.dump().await;
        for (events, (tool, ending, text)) in ways.into_iter().enumerate() {
            let outcome = world.executor.call(world.call(tool, json!({}))).await;
            assert!(outcome.text().contains(text), "{}", outcome.text());
            let event = assert_untouched(&mut world, &before, events, tool).await;
            assert_eq!(event.ending, ending, "{tool}");
        }
    }
}

// case 52
#[tokio::test]
async fn atomic_when_a_subscriber_fails() {
    for (form, kind) in worlds() {
        for panics in [false, true] {
            let mut world = World::formed(form, kind).await;
            let before = world.dump().await;
            world.session.dispatcher().subscribe(move |_: &ToolInvoked, _| match panics {
                false => Err("no more paper".to_owned()),
                true => panic!("no more paper"),
            });
            world.session.dispatcher().subscribe(|_: &ToolInvoked, _| Err("no more ink".to_owned()));
            let outcome = world.executor.call(world.effects(EFFECTS, End::Well)).await;
            assert!(!outcome.answer.success && outcome.escalation.is_none());
            assert!(outcome.text().contains("no more paper"), "{}", outcome.text());
            assert!(outcome.text().contains("no more ink"), "{}", outcome.text());
            let event = assert_untouched(&mut world, &before, 0, "a failing subscriber").await;
            assert_eq!(event.ending, Ending::NotCommitted);
        }
    }
}

#[tokio::test]
async fn atomic_when_the_store_fails() {
    for (form, kind) in worlds() {
        for op in [StoreOp::Begin, StoreOp::Commit] {
            for panics in [false, true] {
                if kind == Kind::Memory && op == StoreOp::Begin {
                    // Nothing to begin in: it dies with the process anyway.
                    continue;
                }
                let what = format!("{form:?} {kind:?}: {op:?} fails, panics: {panics}");
                let mut world = World::formed(form, kind).await;
                let before = world.dump().await;
                match panics {
                    true => world.store.panic(op, 1),
                    false => world.store.fail(op, 1),
                }
                let outcome = world.executor.call(world.effects(EFFECTS, End::Well)).await;
                assert!(!outcome.is_success(), "{what}");
                assert_untouched(&mut world, &before, 0, &what).await;
                // The runtime goes on.
                let outcome = world.executor.call(world.effects(EFFECTS, End::Well)).await;
                assert!(outcome.is_success(), "{what}: {}", outcome.text());
                assert_eq!(world.dump().await, after_success(form, kind).await, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn atomic_when_even_the_end_cannot_be_stored() {
    for (form, kind) in worlds() {
        let world = World::formed(form, kind).await;
        let before = world.dump().await;
        world.store.fail(StoreOp::Commit, 1);
        world.store.fail(StoreOp::Commit, 2);
        let outcome = world.executor.call(world.effects(EFFECTS, End::Well)).await;
        assert!(matches!(outcome.escalation, Some(Escalation::Store(_))), "{:?}", outcome.escalation);
        let mut dump = world.dump().await;
        if let Some(stored) = &mut dump.stored {
            let open = std::mem::take(&mut stored.open);
            assert_eq!(open, [serde_json::to_value(outcome.event.id).unwrap()], "the next process is told");
        }
        assert_eq!(dump, before);
        assert_eq!(world.log(), [outcome.event]);
    }
}

#[tokio::test]
async fn atomic_when_somebody_else_changed_the_same() {
    for (form, kind) in worlds() {
        // Whoever writes directly, behind the call's back, wins; nothing of the call is kept.
        let mut world = World::formed(form, kind).await;
        let counter = Arc::clone(&world.counter);
        let files = Arc::clone(&world.files);
        world.session.dispatcher().subscribe(move |event: &ToolInvoked, _| {
            if event.success {
                counter.set(50);
                let mut writing = files.write_text("old.txt", "theirs");
                let polled =
                    writing.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
                assert!(polled.is_ready());
            }
            Ok(())
        });
        let mut before = world.dump().await;
        before.counter = 50;
        before.files.insert(world.files.path("old.txt").unwrap(), Entry::file(b"theirs"));
        let outcome = world.executor.call(world.effects(EFFECTS, End::Well)).await;
        assert!(!outcome.is_success());
        assert!(outcome.text().contains("was not committed"), "{}", outcome.text());
        assert_untouched(&mut world, &before, 0, "a conflict").await;
    }
}

/// Does everything, waits to be told to go on, and ends as it was asked to.
async fn patient(params: Effects, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    for at in 0..EFFECTS {
        support::effect(at, cx).await?;
    }
    let told = cx.resource::<Mutex<BTreeMap<String, usize>>>().await?;
    told.lock().unwrap().insert("here".into(), 1);
    while !told.lock().unwrap().contains_key("go on") {
        tokio::task::yield_now().await;
    }
    match params.end {
        End::Well => Ok(ToolResult::done("done")),
        End::Panic => panic!("oops"),
        End::Hang => std::future::pending().await,
        End::Refuse | End::Fail | End::Invalid => Err(ToolError::new("failed")),
    }
}

#[tokio::test]
async fn atomic_dispatches_from_outside_are_neither_lost_nor_undone() {
    for (form, kind) in worlds() {
        for end in [End::Well, End::Fail, End::Panic, End::Hang] {
            let what = format!("{form:?} {kind:?} {end:?}");
            let tool = Tool::new("patient", "Wait.", patient).timeout(TIMEOUT);
            let mut world = World::formed_with(form, kind, |section| section.tool(tool), |b| b).await;
            let before = world.dump().await;
            let has = |key: &str| world.bank.lock().unwrap().contains_key(key);
            // While the handler waits, somebody outside takes a note and counts the stock.
            let outside = async {
                while !has("here") {
                    tokio::task::yield_now().await;
                }
                assert!(world.session.dispatch(Note { text: "outside".into() }).is_ok());
                assert!(world.session.dispatch(Stock { item: "screw".into(), count: 5 }).is_ok());
                assert_eq!(world.log(), [], "{what}: the call is still on its way");
                world.bank.lock().unwrap().insert("go on".into(), 1);
                if end == End::Hang {
                    world.clock.until_sleeping(2).await;
                    world.clock.advance(TIMEOUT);
                }
            };
            let call = world.executor.call(world.effects_of("patient", EFFECTS, end));
            let (outcome, ()) = tokio::join!(call, outside);
            assert_eq!(outcome.is_success(), end == End::Well, "{what}: {}", outcome.text());
            world.session.flush().await.unwrap();
            let notes = match end {
                End::Well => ["appended", "before", "outside"].as_slice(),
                _ => &["before", "outside"],
            };
            let stock = match end {
                End::Well => [("bolt", 99), ("nut", 1), ("screw", 5)].as_slice(),
                _ => &[("bolt", 1), ("screw", 5)],
            };
            for _ in 0..2 {
                let mut found: Vec<_> =
                    world.session.slice::<Note>().iter().map(|note| note.text.clone()).collect();
                found.sort_unstable();
                assert_eq!(found, notes, "{what}");
                let counted: BTreeMap<_, _> = world
                    .session
                    .slice::<Stock>()
                    .iter()
                    .map(|stock| (stock.item.clone(), stock.count))
                    .collect();
                let counted: Vec<_> = counted.iter().map(|(item, count)| (item.as_str(), *count)).collect();
                assert_eq!(counted, stock, "{what}");
                if end != End::Well {
                    let dump = world.dump().await;
                    assert_eq!((&dump.files, dump.counter), (&before.files, before.counter), "{what}");
                    assert_eq!((&dump.policies, &dump.calls), (&before.policies, &before.calls), "{what}");
                    for untouched in ["setting", "scratch", "fresh", "receipt"] {
                        assert_eq!(dump.slices[untouched], before.slices[untouched], "{what}");
                    }
                }
                world.reopen().await;
            }
        }
    }
}

#[tokio::test]
async fn atomic_when_it_is_dropped_while_the_commit_is_on_its_way() {
    for (form, kind) in worlds() {
        for refused in [false, true] {
            let what = format!("{form:?} {kind:?}, refused: {refused}");
            let mut world = World::formed(form, kind).await;
            let before = world.dump().await;
            let gate = world.store.hold(StoreOp::Commit, 1);
            tokio::select! {
                outcome = world.executor.call(world.effects(EFFECTS, End::Well)) => panic!("{}", outcome.text()),
                () = gate.reached() => {}
            }
            match refused {
                true => gate.refuse(),
                false => gate.release(),
            }
            // The next call waits until the one before has come to its end.
            let next = world.executor.call(world.call("right", json!({ "text": "next" }))).await;
            assert!(next.is_success(), "{what}: {}", next.text());
            for _ in 0..2 {
                let expected = if refused { before.clone() } else { after_success(form, kind).await };
                assert_eq!(without_right(&world, world.dump().await), expected, "{what}");
                let ended: Vec<_> = world.log().iter().map(|event| event.success).collect();
                assert_eq!(ended, [!refused, true], "{what}");
                world.reopen().await;
            }
        }
    }
}

/// The dump without what the tool `right` did.
fn without_right(world: &World, mut dump: Dump) -> Dump {
    assert_eq!(dump.calls.remove("right").map(|stat| stat.count), Some(1));
    assert!(dump.files.remove(&world.files.path("right.txt").unwrap()).is_some());
    let policies = dump.policies.as_object_mut().unwrap();
    policies.values_mut().for_each(|items| drop(items.as_object_mut().unwrap().remove("right")));
    policies.retain(|_, items| *items != json!({}));
    if let Some(stored) = &mut dump.stored {
        stored.state.retain(|(_, change)| !change.to_string().contains("\"right\""));
    }
    dump
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn atomic_with_many_callers_and_others_outside() {
    const CALLERS: usize = 8;
    const EACH: usize = 25;
    for kind in KINDS {
        let mut world = World::new(kind).await;
        let mut tasks = Vec::new();
        for caller in 0..CALLERS {
            let executor = world.executor.clone();
            tasks.push(tokio::spawn(async move {
                for number in 0..EACH {
                    let arguments = json!({ "text": format!("{caller}.{number}") }).to_string();
                    let tool = if number % 2 == 0 { "left" } else { "right" };
                    let outcome =
                        executor.call(ToolCall::new(format!("{caller}.{number}"), tool, arguments)).await;
                    assert!(outcome.is_success(), "{}", outcome.text());
                    let failed =
                        executor.call(ToolCall::new(format!("f{caller}.{number}"), "fail", "")).await;
                    assert!(!failed.is_success());
                }
            }));
        }
        let session = world.session.clone();
        let outside = std::thread::spawn(move || {
            for number in 0..200 {
                assert!(session.dispatch(support::Note { text: format!("outside {number}") }).is_ok());
                assert!(session.dispatch(support::Stock { item: "bolt".into(), count: number }).is_ok());
            }
        });
        for task in tasks {
            task.await.unwrap();
        }
        outside.join().unwrap();
        world.session.flush().await.unwrap();
        let lefts = CALLERS * EACH.div_ceil(2);
        let rights = CALLERS * (EACH / 2);
        for process in ["this process", "the next process"] {
            let what = format!("{kind:?}, in {process}");
            let dump = world.dump().await;
            assert_eq!(dump.slices["note"].len(), 1 + 200 + lefts, "{what}: no note is lost");
            let theirs: Vec<_> =
                world.session.slice::<support::Note>().iter().map(|note| note.text.clone()).collect();
            let outside: Vec<_> = theirs.iter().filter_map(|text| text.strip_prefix("outside ")).collect();
            assert_eq!(
                outside,
                (0..200).map(|number| number.to_string()).collect::<Vec<_>>(),
                "{what}: in order"
            );
            assert_eq!(dump.slices["stock"], [json!({ "item": "bolt", "count": 199 })], "{what}");
            let lines = |name: &'static str| world.files.read_text(name);
            assert_eq!(lines("left.txt").await.unwrap().lines().count(), lefts, "{what}: no line is lost");
            assert_eq!(lines("right.txt").await.unwrap().lines().count(), rights, "{what}: no line is lost");
            assert_eq!(dump.counter, 7, "{what}");
            assert_eq!(world.log().len(), 2 * CALLERS * EACH, "{what}");
            world.reopen().await;
        }
    }
}
