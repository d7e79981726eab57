//! Promise: atomic, whoever it is that goes wrong: policy, approver, handler, resource, reducer, subscriber or store.
//!
//! Nobody watches these calls, so they take as many steps at once as they can: the way that calls usually go. What is
//! compared is what `promise_atomic.rs` compares.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wink::BoxFuture;
use wink::executor::{Approval, ApprovalRequest, Approver, Outcome, ToolCall};
use wink::ledger::IdempotencyConfig;
use wink::policy::{Decision, PolicyCall, PolicyContext, PolicyMemory, ResultView, ToolPolicy};
use wink::prelude::*;
use wink::resource::BoxError;
use wink::session::{Ending, SliceOp, ToolInvoked};
use wink::testing::{Fault, StoreOp};

use crate::support::{
    self, Dump, EFFECTS, Form, KINDS, Kind, Note, Part, Receipt, Snare, TIMEOUT, Trap, World,
};

/// An event that becomes a note.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Poke {}
impl SliceType for Poke {
    const NAME: &'static str = "poke";
}

/// Asks if the approver is to go wrong, and remembers before it goes wrong itself.
struct Traps(Trap);

impl ToolPolicy for Traps {
    fn kind(&self) -> &'static str {
        "traps"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(async move {
            self.0.reach(Part::PolicyCheck).await?;
            Ok(match self.0.is_in(Part::Approver) {
                true => Decision::Ask("really?".into()),
                false => Decision::Allow,
            })
        })
    }

    fn on_result<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a ResultView<'a>,
        _: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            memory.remember("one half", json!(1))?;
            self.0.reach(Part::PolicyResult).await?;
            Ok(memory.remember("the other", json!(2))?)
        })
    }

    /// Where it is not to go wrong with results, the call need not wait for it.
    fn wants_results(&self) -> bool {
        self.0.is_in(Part::PolicyResult)
    }
}

struct Approves(Trap);

impl Approver for Approves {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        Box::pin(async move {
            self.0.reach(Part::Approver).await?;
            Ok(Approval::Approved { by: "ada".into() })
        })
    }
}

/// Everything that can be done, and then the parts that go wrong.
async fn everything(_: (), cx: &mut ToolContext) -> Result<ToolResult<Receipt>, ToolError> {
    for at in 0..EFFECTS {
        support::effect(at, cx).await?;
    }
    drop(cx.resource::<Snare>().await?);
    let poked = cx.session().dispatch(Poke {})?;
    if !poked.is_ok() {
        return Err(ToolError::new("nobody was poked"));
    }
    let trap = cx.resource::<Trap>().await?;
    trap.reach(Part::Handler).await.map_err(ToolError::new)?;
    Ok(ToolResult::ok(Receipt { effects: EFFECTS }, "all done"))
}

/// The tool, and the same with a key.
const TOOLS: [&str; 2] = ["everything", "once"];

async fn world_of(form: Form, kind: Kind, trap: &Trap) -> World {
    let (policy, poked) = (Traps(trap.clone()), trap.clone());
    let approver = Arc::new(Approves(trap.clone()));
    let world = World::trapped(
        form,
        kind,
        trap,
        |section| {
            section
                .tool(Tool::new("everything", "Do everything.", everything).publishes().timeout(TIMEOUT))
                .tool(
                    Tool::new("once", "Do everything once.", everything)
                        .publishes()
                        .timeout(TIMEOUT)
                        .idempotency(IdempotencyConfig::auto()),
                )
                .policy(policy)
                .install(move |session| {
                    let trap = poked.clone();
                    session.register::<Poke, Note>(move |_, _| {
                        trap.reach_now(Part::Reducer)?;
                        Ok(SliceOp::Append(Note { text: "poked".into() }))
                    })
                })
        },
        |builder| builder.approver(approver),
    )
    .await;
    if trap.is_in(Part::Subscriber) {
        let trap = trap.clone();
        world.session.dispatcher().subscribe(move |_: &ToolInvoked, _| trap.reach_now(Part::Subscriber));
    }
    world
}

/// Runs a call until it ends, or is dropped. Time goes on while it hangs.
async fn run(world: &World, call: ToolCall, trap: &Trap, fault: Fault) -> Option<Outcome> {
    let mut call = pin!(world.executor.call_cancellable(call, trap.cancel()));
    for _ in 0..10_000 {
        tokio::select! {
            biased;
            outcome = &mut call => return Some(outcome),
            () = tokio::task::yield_now() => {}
        }
        match fault {
            Fault::Drop if trap.has_sprung() => return None,
            Fault::Hang if trap.has_sprung() => world.clock.advance(Duration::from_secs(5)),
            _ => {}
        }
    }
    panic!("the call never ends");
}

/// How the call must end.
fn ending(part: Part, fault: Fault) -> Ending {
    match (part, fault) {
        (_, Fault::Drop) => Ending::Cancelled,
        // The last look at whether the call is still wanted comes before subscribers hear of it.
        (Part::Subscriber, Fault::Cancel) => Ending::Succeeded,
        (_, Fault::Cancel) => Ending::Cancelled,
        (Part::PolicyResult, _) => Ending::Succeeded,
        (Part::PolicyCheck, _) => Ending::Denied,
        (Part::Approver, Fault::Hang) => Ending::Exhausted,
        (Part::Approver, _) => Ending::Denied,
        (Part::Handler, Fault::Panic) => Ending::Panicked,
        (Part::Handler | Part::Resource, Fault::Hang) => Ending::TimedOut,
        (Part::Handler | Part::Resource | Part::Reducer, _) => Ending::Errored,
        (Part::Subscriber, _) => Ending::NotCommitted,
    }
}

/// Whether the handler was stopped half-way, or succeeded in vain: nobody can know what it did outside.
fn leaves_doubt(part: Part, ending: Ending) -> bool {
    match part {
        Part::PolicyCheck | Part::Approver => false,
        _ => !matches!(ending, Ending::Errored | Ending::Succeeded),
    }
}

// cases 41, 42, 52, 54, 57, 73, 74
#[tokio::test]
async fn atomic_whoever_goes_wrong_without_being_watched() {
    use Part::{Approver, Handler, PolicyCheck, PolicyResult, Reducer, Resource, Subscriber};
    for form in [Form::Unwatched, Form::Bare] {
        for kind in KINDS {
            for tool in TOOLS {
                for part in [PolicyCheck, Approver, Handler, Resource, Reducer, PolicyResult, Subscriber] {
                    for fault in Fault::ALL {
                        if matches!((part, fault), (Reducer | Subscriber, Fault::Hang | Fault::Drop)) {
                            // They cannot wait.
                            continue;
                        }
                        goes_wrong(form, kind, tool, part, fault).await;
                    }
                }
            }
        }
    }
}

async fn goes_wrong(form: Form, kind: Kind, tool: &str, part: Part, fault: Fault) {
    let what = format!("{form:?} {kind:?}: {tool}, {fault:?} in {part:?}");
    let trap = Trap::set(part, fault);
    let mut world = world_of(form, kind, &trap).await;
    let before = world.dump().await;
    let outcome = run(&world, world.call(tool, json!({})), &trap, fault).await;
    assert!(trap.has_sprung(), "{what}: never came by");
    assert_eq!(outcome.is_none(), fault == Fault::Drop, "{what}");
    let event = Arc::clone(&world.log()[0]);
    if let Some(outcome) = &outcome {
        assert_eq!(world.log(), [Arc::clone(&outcome.event)], "{what}: the event of the answer");
        assert_eq!(outcome.is_success(), event.success, "{what}");
    }
    assert_eq!(event.ending, ending(part, fault), "{what}: {event:?}");
    for process in ["this process", "the next process"] {
        let what = format!("{what}, in {process}");
        let mut dump = world.dump().await;
        assert_eq!(world.log(), [Arc::clone(&event)], "{what}: one event");
        match event.success {
            true => {
                let contained = part == Part::PolicyResult;
                let expected = after_success(form, kind, tool, contained.then_some(part)).await;
                assert_done(dump, expected, contained, &what);
            }
            false => {
                let doubted = dump.take_doubts(&before);
                let expected = usize::from(tool == "once" && leaves_doubt(part, event.ending));
                assert_eq!(doubted.len(), expected, "{what}: {doubted:?}");
                assert_eq!(dump, before, "{what}: something changed");
            }
        }
        world.reopen().await;
    }
}

async fn after_success(form: Form, kind: Kind, tool: &str, listens: Option<Part>) -> Dump {
    let trap = listens.map_or_else(Trap::none, Trap::sprung);
    let world = world_of(form, kind, &trap).await;
    let outcome = world.executor.call(world.call(tool, json!({}))).await;
    assert!(outcome.is_success(), "{}", outcome.text());
    world.dump().await
}

/// Everything that the call did is there; but for what a policy that failed wanted to remember.
fn assert_done(dump: Dump, mut expected: Dump, contained: bool, what: &str) {
    if contained {
        let policies = expected.policies.as_object_mut().unwrap();
        let forgotten = policies.remove("tools/traps/0");
        assert_eq!(forgotten, Some(json!({ "one half": 1, "the other": 2 })), "{what}");
        if let Some(stored) = &mut expected.stored {
            stored.state.retain(|(_, change)| !change.to_string().contains("tools/traps/0"));
        }
    }
    assert_eq!(dump.timeless(), expected.timeless(), "{what}");
}

#[tokio::test]
async fn atomic_when_the_store_goes_wrong_without_being_watched() {
    for form in [Form::Unwatched, Form::Bare] {
        for kind in KINDS {
            for tool in TOOLS {
                for op in [StoreOp::Begin, StoreOp::Claim, StoreOp::Commit] {
                    let reached = match op {
                        StoreOp::Begin => kind == Kind::Bytes,
                        StoreOp::Claim => tool == "once",
                        _ => true,
                    };
                    for fault in Fault::ALL {
                        if reached {
                            store_goes_wrong(form, kind, tool, op, fault).await;
                        }
                    }
                }
            }
        }
    }
}

async fn store_goes_wrong(form: Form, kind: Kind, tool: &str, op: StoreOp, fault: Fault) {
    let what = format!("{form:?} {kind:?}: {tool}, {fault:?} in {op:?}");
    let trap = Trap::none();
    let mut world = world_of(form, kind, &trap).await;
    let before = world.dump().await;
    let call = world.call(tool, json!({}));
    let mut gate = None;
    match fault {
        Fault::Error => world.store.fail(op, 1),
        Fault::Panic => world.store.panic(op, 1),
        Fault::Cancel | Fault::Hang | Fault::Drop => gate = Some(world.store.hold(op, 1)),
    }
    let outcome = match gate {
        None => Some(world.executor.call(call).await),
        Some(gate) => {
            let mut running = pin!(world.executor.call_cancellable(call, trap.cancel()));
            tokio::select! {
                biased;
                outcome = &mut running => panic!("{what}: {}", outcome.text()),
                () = gate.reached() => {}
            }
            match fault {
                Fault::Cancel => trap.cancel().cancel(),
                Fault::Hang => world.clock.advance(support::DEADLINE),
                _ => {}
            }
            if op == StoreOp::Commit {
                // On its way it can be neither taken back nor left.
                assert!(polled(&mut running).is_none(), "{what}: it waits for the store");
                gate.release();
            }
            match fault {
                Fault::Drop => None,
                _ => Some(running.await),
            }
        }
    };
    assert_eq!(outcome.is_none(), fault == Fault::Drop, "{what}");
    // What was dropped is brought to its end by others.
    while world.log().is_empty() {
        tokio::task::yield_now().await;
    }
    let event = Arc::clone(&world.log()[0]);
    let succeeds = op == StoreOp::Commit && gate_passes(fault);
    assert_eq!(event.success, succeeds, "{what}: {event:?}");
    for process in ["this process", "the next process"] {
        let what = format!("{what}, in {process}");
        let mut dump = world.dump().await;
        assert_eq!(world.log(), [Arc::clone(&event)], "{what}: one event");
        match succeeds {
            true => assert_done(dump, after_success(form, kind, tool, None).await, false, &what),
            false => {
                let doubted = dump.take_doubts(&before);
                let expected = usize::from(tool == "once" && op == StoreOp::Commit);
                assert_eq!(doubted.len(), expected, "{what}: {doubted:?}");
                assert_eq!(dump, before, "{what}: something changed");
            }
        }
        world.reopen().await;
    }
}

/// Whether the store does after all what it was asked for.
fn gate_passes(fault: Fault) -> bool {
    matches!(fault, Fault::Cancel | Fault::Hang | Fault::Drop)
}

fn polled<F: Future>(future: &mut std::pin::Pin<&mut F>) -> Option<F::Output> {
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut task) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}
