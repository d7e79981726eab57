//! Promise: one answer. Every call that reaches the runtime has exactly one answer and exactly one event, whatever
//! happens to it; the log only grows, and what it says never changes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use wink::executor::{Moment, Outcome, Step, ToolCall};
use wink::filesystem::FilesystemExt;
use wink::limits::{CancelToken, Deadline};
use wink::session::{Ending, ToolInvoked};
use wink::testing::{Fault, FaultPoint};

use crate::support::{self, EFFECTS, End, Form, KINDS, Kind, World};

/// One thing that a caller does.
#[derive(Debug, Clone)]
enum Act {
    Call(Made, Option<(Step, Moment, Fault)>),
    /// Several in one response; the numbers are call ids, which may repeat.
    Batch(Vec<(u8, Made)>),
    /// A batch that is dropped half-way, at this step.
    DroppedBatch(Vec<(u8, Made)>, Step),
    CancelledBatch(Vec<(u8, Made)>, Step),
    /// The process ends between two calls, and the next goes on.
    Reopen,
}

#[derive(Debug, Clone, Copy)]
enum Made {
    Ok,
    Left,
    Right,
    Everything,
    Unknown,
    Rejected,
    NoJson,
    Denied,
    Failing,
    Refusing,
    Invalid,
    Panicking,
    TimingOut,
    Escalating,
    Paying(u8),
}

impl Made {
    fn parts(self) -> (&'static str, Value) {
        match self {
            Self::Ok => ("note", json!({ "text": "x" })),
            Self::Left => ("left", json!({ "text": "l" })),
            Self::Right => ("right", json!({ "text": "r" })),
            Self::Everything => ("effects", json!({ "after": EFFECTS, "end": End::Well })),
            Self::Unknown => ("nothing_like_it", json!({})),
            Self::Rejected => ("note", json!({ "txt": 7 })),
            Self::NoJson => ("note", Value::Null),
            Self::Denied => ("denied", json!({})),
            Self::Failing => ("fail", json!({})),
            Self::Refusing => ("refuse", json!({})),
            Self::Invalid => ("invalid", json!({})),
            Self::Panicking => ("boom", json!({})),
            Self::TimingOut => ("slow", json!({})),
            Self::Escalating => ("escalate", json!({})),
            Self::Paying(bill) => ("pay", json!({ "text": format!("bill {bill}") })),
        }
    }

    fn call(self, id: String) -> ToolCall {
        let (tool, arguments) = self.parts();
        let text = if arguments.is_null() { "{oops".to_owned() } else { arguments.to_string() };
        ToolCall::new(id, tool, text)
    }
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![
        4 => Just(Made::Ok),
        3 => Just(Made::Left),
        3 => Just(Made::Right),
        2 => Just(Made::Everything),
        1 => Just(Made::Unknown),
        1 => Just(Made::Rejected),
        1 => Just(Made::NoJson),
        1 => Just(Made::Denied),
        1 => Just(Made::Failing),
        1 => Just(Made::Refusing),
        1 => Just(Made::Invalid),
        1 => Just(Made::Panicking),
        1 => Just(Made::TimingOut),
        1 => Just(Made::Escalating),
        3 => (0u8..3).prop_map(Made::Paying),
    ]
}

fn fault() -> impl Strategy<Value = (Step, Moment, Fault)> {
    (
        proptest::sample::select(Step::ALL.to_vec()),
        proptest::sample::select(vec![Moment::Before, Moment::After]),
        proptest::sample::select(Fault::ALL.to_vec()),
    )
}

fn act() -> impl Strategy<Value = Act> {
    let batch = || proptest::collection::vec((0u8..6, made()), 1..6);
    let step = || proptest::sample::select(Step::ALL.to_vec());
    prop_oneof![
        6 => (made(), proptest::option::of(fault())).prop_map(|(made, fault)| Act::Call(made, fault)),
        2 => batch().prop_map(Act::Batch),
        1 => (batch(), step()).prop_map(|(batch, step)| Act::DroppedBatch(batch, step)),
        1 => (batch(), step()).prop_map(|(batch, step)| Act::CancelledBatch(batch, step)),
        1 => Just(Act::Reopen),
    ]
}

/// What the caller knows: the calls it made, and the answers it got.
struct Caller {
    world: World,
    log: Vec<Arc<ToolInvoked>>,
    /// How often the model called with each id, and the calls whose answers nobody waited for.
    made: HashMap<String, usize>,
    answered: Vec<Outcome>,
    bills: HashMap<String, usize>,
}

impl Caller {
    async fn act(&mut self, number: usize, act: Act) {
        match act {
            Act::Call(made, fault) => {
                let id = format!("{number}");
                *self.made.entry(id.clone()).or_default() += 1;
                let call = made.call(id);
                let outcome = match fault {
                    Some((step, moment, fault)) => {
                        let cancel = CancelToken::new();
                        self.world.faults.arm(FaultPoint::new(step, moment, fault), cancel.clone());
                        match fault {
                            Fault::Hang => self.hang(call).await,
                            _ => self.drive(vec![call], Some(cancel), fault == Fault::Drop, false).await,
                        }
                    }
                    None => self.drive(vec![call], None, false, false).await,
                };
                self.answered.extend(outcome);
            }
            Act::Batch(calls) => {
                let calls = self.batch(number, &calls);
                let outcomes = self.drive(calls.clone(), None, false, true).await;
                let ids: Vec<_> = outcomes.iter().map(|outcome| &outcome.answer.call_id).collect();
                assert_eq!(ids, calls.iter().map(|call| &call.id).collect::<Vec<_>>(), "answers in order");
                self.answered.extend(outcomes);
            }
            Act::DroppedBatch(calls, step) => {
                let calls = self.batch(number, &calls);
                let point = FaultPoint::new(step, Moment::Before, Fault::Drop);
                self.world.faults.arm(point, CancelToken::new());
                let outcomes = self.drive(calls, None, true, true).await;
                self.answered.extend(outcomes);
            }
            Act::CancelledBatch(calls, step) => {
                let calls = self.batch(number, &calls);
                let cancel = CancelToken::new();
                self.world.faults.arm(FaultPoint::new(step, Moment::Before, Fault::Cancel), cancel.clone());
                let outcomes = self.drive(calls, Some(cancel), false, true).await;
                self.answered.extend(outcomes);
            }
            Act::Reopen => self.world.reopen().await,
        }
        self.world.faults.disarm();
        self.check();
        self.check_state().await;
    }

    fn batch(&mut self, number: usize, calls: &[(u8, Made)]) -> Vec<ToolCall> {
        let calls: Vec<_> = calls.iter().map(|(id, made)| made.call(format!("{number}-{id}"))).collect();
        for call in &calls {
            *self.made.entry(call.id.to_string()).or_default() += 1;
        }
        calls
    }

    /// Runs a call that may hang, with an executor of its own whose deadline ends it.
    async fn hang(&self, call: ToolCall) -> Vec<Outcome> {
        let deadline = Deadline::after(support::DEADLINE, &self.world.clock).unwrap();
        let executor = self.world.another_executor(|builder| builder.deadline(deadline)).await;
        let mut running = std::pin::pin!(executor.call(call));
        loop {
            tokio::select! {
                biased;
                outcome = &mut running => return vec![outcome],
                () = tokio::task::yield_now() => self.world.clock.advance(support::TIMEOUT),
            }
        }
    }

    /// Runs calls to their end, or until they are dropped. Handlers that never end run into their time limit.
    async fn drive(
        &self,
        calls: Vec<ToolCall>,
        cancel: Option<CancelToken>,
        drops: bool,
        together: bool,
    ) -> Vec<Outcome> {
        let world = &self.world;
        let hits = world.faults.hits().len();
        let running = async {
            match (together, calls) {
                (true, calls) => world.executor.batch_cancellable(calls, cancel).await,
                (false, mut calls) => {
                    let call = calls.remove(0);
                    vec![world.executor.call_cancellable(call, cancel.unwrap_or_default()).await]
                }
            }
        };
        let mut running = std::pin::pin!(running);
        loop {
            tokio::select! {
                biased;
                outcomes = &mut running => return outcomes,
                () = tokio::task::yield_now() => {}
            }
            if drops && world.faults.hits().len() > hits {
                return Vec::new();
            }
            // More than any time limit in this world.
            world.clock.advance(support::TIMEOUT);
        }
    }

    /// The log says what the caller knows, and still says what it said.
    fn check(&mut self) {
        let log = self.world.log();
        assert!(log.len() >= self.log.len(), "the log only grows");
        assert_eq!(&log[..self.log.len()], &self.log[..], "a recorded event never changes");
        self.log = log;
        let ids: HashSet<_> = self.log.iter().map(|event| event.id).collect();
        assert_eq!(ids.len(), self.log.len(), "invocation ids are unique");
        let mut events: HashMap<String, usize> = HashMap::new();
        for event in &self.log {
            *events.entry(event.call_id.to_string()).or_default() += 1;
        }
        assert_eq!(events, self.made, "one event per call");
        let by_id: HashMap<_, _> = self.log.iter().map(|event| (event.id, event)).collect();
        for outcome in &self.answered {
            let event = by_id[&outcome.event.id];
            assert_eq!(event.call_id, outcome.answer.call_id);
            assert_eq!(event.success, outcome.answer.success);
            assert_eq!(**event, *outcome.event, "the answer's event is the one in the log");
        }
        // No bill is paid twice, whatever went wrong.
        self.bills = self.world.bank.lock().unwrap().clone().into_iter().collect();
        assert!(self.bills.values().all(|paid| *paid <= 1), "{:?}", self.bills);
    }

    /// Exactly the successes of the log have left their traces.
    async fn check_state(&self) {
        let dump = self.world.seen().await;
        let count = |tool: &str| {
            self.log.iter().filter(|event| event.success && *event.tool == *tool && !event.replayed).count()
        };
        let noted = 1 + count("note") + count("left") + count("effects") + count("pay");
        assert_eq!(dump.slices["note"].len(), noted, "the notes of all successes");
        for (tool, file) in [("left", "left.txt"), ("right", "right.txt")] {
            let path = self.world.files.path(file).unwrap();
            let lines = dump
                .files
                .get(&path)
                .map_or(0, |entry| entry.bytes.iter().flatten().filter(|byte| **byte == b'\n').count());
            assert_eq!(lines, count(tool), "{file}");
        }
        for (tool, calls) in &dump.calls {
            let succeeded = self.log.iter().filter(|event| event.success && *event.tool == **tool).count();
            assert_eq!(calls.count, succeeded as u64, "the index of {tool}");
        }
        assert_eq!(usize::try_from(dump.counter).unwrap(), 7 + count("effects"));
    }
}

fn run(form: Form, kind: Kind, acts: Vec<Act>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        // Far enough for every time limit on the way.
        let far = support::start().checked_add(jiff::SignedDuration::from_hours(24 * 365)).unwrap();
        let clock = wink::testing::FakeClock::new(support::start());
        let deadline = wink::limits::Deadline::at(far, &clock).unwrap();
        let world =
            World::formed_with(form, kind, |section| section, |builder| builder.deadline(deadline)).await;
        let mut caller = Caller {
            world,
            log: Vec::new(),
            made: HashMap::new(),
            answered: Vec::new(),
            bills: HashMap::new(),
        };
        for (number, act) in acts.into_iter().enumerate() {
            caller.act(number, act).await;
        }
        // However it went, a plain call still works.
        let outcome = caller.world.executor.call(Made::Ok.call("last".into())).await;
        assert!(outcome.is_success(), "{}", outcome.text());
    });
}

// case 47
proptest! {
    #[test]
    fn one_answer_and_one_event_per_call(
        acts in proptest::collection::vec(act(), 1..24),
        kind in proptest::sample::select(KINDS.to_vec()),
        // Without a hook the faults at steps do not happen; the calls go the way that calls usually go.
        form in prop_oneof![3 => Just(Form::Watched), 1 => Just(Form::Unwatched), 1 => Just(Form::Bare)],
    ) {
        run(form, kind, acts);
    }
}

#[tokio::test]
async fn one_answer_for_a_call_that_was_in_flight_when_the_process_died() {
    let mut world = World::new(Kind::Bytes).await;
    let call = world.call("slow", json!({}));
    let executor = world.executor.clone();
    let clock = world.clock.clone();
    // The call is never dropped, so nobody in this process records its end.
    let running = tokio::spawn(async move { executor.call(call).await });
    clock.until_sleeping(2).await;
    let mut before = world.dump().await;
    let open = std::mem::take(&mut before.stored.as_mut().unwrap().open);
    world.reopen().await;
    let log = world.log();
    assert_eq!(log.len(), 1);
    assert_eq!(open, [serde_json::to_value(log[0].id).unwrap()], "it was known to have begun");
    assert_eq!((log[0].ending, log[0].success, &*log[0].call_id), (Ending::Interrupted, false, "call-1"));
    assert_eq!(world.dump().await, before);
    world.reopen().await;
    assert_eq!(world.log(), log, "recorded once");
    running.abort();
}

#[tokio::test]
async fn one_answer_for_calls_that_waited_when_the_process_died() {
    let mut world = World::new(Kind::Bytes).await;
    let mut running = Vec::new();
    // One has the session's turn; one waits for it, and so do those of a batch, of which the second has not even started.
    let calls = [vec![world.call("slow", json!({}))], vec![world.call("note", json!({ "text": "x" }))]];
    let batch =
        vec![world.call("slow", json!({})), world.call("fail", json!({})), world.call("nobody", json!({}))];
    for mut calls in calls.into_iter().chain([batch]) {
        let executor = world.executor.clone();
        running.push(tokio::spawn(async move {
            match calls.len() {
                1 => drop(executor.call(calls.remove(0)).await),
                _ => drop(executor.batch(calls).await),
            }
        }));
        world.clock.until_sleeping(2).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    let mut before = world.dump().await;
    let open = std::mem::take(&mut before.stored.as_mut().unwrap().open);
    world.reopen().await;
    let log = world.log();
    let told: Vec<(&str, Ending)> = log.iter().map(|event| (&*event.call_id, event.ending)).collect();
    assert_eq!(told, ["call-1", "call-2", "call-3", "call-4", "call-5"].map(|id| (id, Ending::Interrupted)));
    assert_eq!(open.len(), 5, "they were known to have begun");
    assert_eq!(&*log[1].tool, "note");
    assert_eq!(world.dump().await, before, "and nothing else has happened");
    running.into_iter().for_each(|running| running.abort());
}

/// The end of a call that never had its turn strikes out that it was on its way.
#[tokio::test]
async fn one_answer_for_a_call_that_is_cancelled_while_it_waits() {
    let world = World::new(Kind::Bytes).await;
    let slow = tokio::spawn({
        let (executor, call) = (world.executor.clone(), world.call("slow", json!({})));
        async move { executor.call(call).await }
    });
    world.clock.until_sleeping(2).await;
    let cancel = CancelToken::new();
    let waiting = tokio::spawn({
        let (executor, call) = (world.executor.clone(), world.call("note", json!({ "text": "x" })));
        let cancel = cancel.clone();
        async move { executor.call_cancellable(call, cancel).await }
    });
    let open = async || world.dump().await.stored.unwrap().open.len();
    while open().await < 2 {
        tokio::task::yield_now().await;
    }
    cancel.cancel();
    assert_eq!(waiting.await.unwrap().event.ending, Ending::Cancelled);
    assert_eq!(open().await, 1);
    // So does the end of one whose caller has gone.
    let dropped = tokio::spawn({
        let (executor, call) = (world.executor.clone(), world.call("note", json!({ "text": "x" })));
        async move { executor.call(call).await }
    });
    while open().await < 2 {
        tokio::task::yield_now().await;
    }
    dropped.abort();
    while open().await > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.log().len(), 2);
    slow.abort();
}

// case 257
#[tokio::test]
async fn one_answer_although_a_value_cannot_be_written_down() {
    use wink::prelude::*;

    #[derive(Debug, Clone, Deserialize, JsonSchema)]
    struct Cursed {}
    impl Serialize for Cursed {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("cursed")
        }
    }
    async fn curse(_: (), cx: &mut ToolContext) -> Result<ToolResult<Cursed>, ToolError> {
        let _ = cx.session().dispatch(support::Note { text: "cursed".into() })?;
        Ok(ToolResult::ok(Cursed {}, "done"))
    }
    for kind in KINDS {
        let mut world =
            World::with(kind, |section| section.tool(Tool::new("curse", "Curse.", curse)), |b| b).await;
        let outcome = world.executor.call(world.call("curse", json!({}))).await;
        assert_eq!(world.log(), [Arc::clone(&outcome.event)]);
        let text =
            "curse was not committed: its value cannot be written as JSON (cursed); nothing was changed";
        assert_eq!((outcome.text(), outcome.is_success()), (text, false));
        let notes = world.session.slice::<support::Note>();
        assert_eq!(notes.iter().map(|note| note.text.clone()).collect::<Vec<_>>(), ["before"]);
        let _ = world.session.dispatch(support::Note { text: "outside".into() });
        world.session.flush().await.unwrap();
        let outcome = world.executor.call(world.call("note", json!({ "text": "next" }))).await;
        assert!(outcome.is_success(), "{}", outcome.text());
        let dump = world.dump().await;
        world.reopen().await;
        assert_eq!(world.dump().await.slices, dump.slices, "what came later is stored");
        assert_eq!(world.log().len(), 2);
    }
}
