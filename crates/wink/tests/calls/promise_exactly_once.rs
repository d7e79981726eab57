//! Promise: exactly once. A tool with an idempotency config has its effect at most once per key; when it cannot be
//! known whether it happened, it is never silently run again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use serde_json::{Value, json};
use wink::BoxFuture;
use wink::executor::{
    Approval, ApprovalRequest, Approver, Escalation, Executor, Moment, Outcome, Step, ToolCall,
};
use wink::ledger::{EffectLedger, IdempotencyConfig, LedgerScope, Probed, Settlement, WhenInDoubt};
use wink::limits::CancelToken;
use wink::prelude::*;
use wink::resource::{Binding, BoxError, ResourceRegistry};
use wink::session::Ending;
use wink::store::{LedgerState, MemoryStore, OrphanRule, Rows, SharedStore, Store};
use wink::testing::{ByteStore, Fault, FaultPoint, FaultyStore, StoreOp};

use crate::support::{self, End, Form, KINDS, Kind, Note, TIMEOUT, World};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Send {
    /// What counts.
    letter: String,
    /// How it ends.
    end: End,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Sent {
    letter: String,
    stamp: u32,
}

async fn send(params: Send, cx: &mut ToolContext) -> Result<ToolResult<Sent>, ToolError> {
    let bank = cx.resource::<Mutex<std::collections::BTreeMap<String, usize>>>().await?;
    let times = {
        let mut bank = bank.lock().unwrap();
        let times = bank.entry(params.letter.clone()).or_default();
        *times += 1;
        *times
    };
    let _ = cx.session().dispatch(Note { text: "sent".into() })?;
    let sent = Sent { letter: params.letter, stamp: u32::try_from(times).unwrap() };
    match params.end {
        End::Well => Ok(ToolResult::ok(sent, "sent").exclude_value_from_context()),
        End::Refuse => Ok(ToolResult::failed(sent, "no stamp")),
        End::Fail if sent.letter == "lost" => Err(ToolError::new("no answer").in_doubt()),
        End::Fail => Err(ToolError::new("no ink")),
        End::Invalid => Err(wink::tool::ToolValidationError("no address".into()).into()),
        End::Panic => panic!("oops"),
        End::Hang => std::future::pending().await,
    }
}

/// What the probe says; failing, if nothing.
type Probing = Arc<Mutex<Vec<Option<Probed>>>>;

struct Post {
    world: World,
    probing: Probing,
    approvals: Arc<Approvals>,
}

#[derive(Default)]
struct Approvals {
    answers: Mutex<Vec<Approval>>,
    asked: AtomicUsize,
}

impl Approver for Approvals {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = self.answers.lock().unwrap().pop();
        Box::pin(async move { answer.ok_or_else(|| "nobody".into()) })
    }
}

impl Post {
    async fn new(kind: Kind) -> Self {
        let probing = Probing::default();
        let approvals = Arc::new(Approvals::default());
        let probed = Arc::clone(&probing);
        let probe = move |key: String, params: Value| -> BoxFuture<'static, Result<Probed, BoxError>> {
            assert!(key.starts_with("session:the-session:send_probe:") && params.get("letter").is_some());
            let answer = probed.lock().unwrap().pop();
            match answer {
                Some(Some(answer)) => Box::pin(async move { Ok(answer) }),
                Some(None) => panic!("the probe broke"),
                None => Box::pin(async { Err("the line is dead".into()) }),
            }
        };
        let tool = |name: &str, doubt: WhenInDoubt| {
            let config = IdempotencyConfig::params(["letter"]).when_in_doubt(doubt);
            Tool::new(name, "Send a letter.", send).idempotency(config).timeout(TIMEOUT)
        };
        let approver = Arc::clone(&approvals);
        let world = World::formed_with(
            Form::Watched,
            kind,
            |section| {
                section
                    .tool(tool("send", WhenInDoubt::Fail))
                    .tool(tool("send_again", WhenInDoubt::RunAgain))
                    .tool(tool("send_ask", WhenInDoubt::Ask))
                    .tool(tool("send_probe", WhenInDoubt::Probe(Arc::new(probe))))
            },
            |builder| builder.approver(approver),
        )
        .await;
        Self { world, probing, approvals }
    }

    fn call(&self, tool: &str, end: End) -> ToolCall {
        self.world.call(tool, json!({ "letter": "a", "end": end }))
    }

    async fn send(&self, tool: &str, end: End) -> Outcome {
        self.world.executor.call(self.call(tool, end)).await
    }

    /// How often the letter was really sent.
    fn sent(&self) -> usize {
        self.world.bank.lock().unwrap().get("a").copied().unwrap_or(0)
    }

    fn ledger(&self) -> EffectLedger {
        EffectLedger::new(Arc::clone(self.world.session.store()), Arc::clone(self.world.session.clock()))
    }

    /// Sends, and is stopped on the way: nobody can know whether the letter went out.
    async fn stopped(&self, tool: &str, way: Stop) {
        let world = &self.world;
        let hangs = self.call(tool, End::Hang);
        match way {
            Stop::Panic => drop(self.send(tool, End::Panic).await),
            Stop::Timeout => {
                let time = async {
                    world.clock.until_sleeping(2).await;
                    world.clock.advance(TIMEOUT);
                };
                let outcome = tokio::join!(world.executor.call(hangs), time).0;
                assert_eq!(outcome.event.ending, Ending::TimedOut);
            }
            Stop::Cancel => {
                let cancel = CancelToken::new();
                let cancelling = async {
                    world.clock.until_sleeping(2).await;
                    cancel.cancel();
                };
                drop(tokio::join!(world.executor.call_cancellable(hangs, cancel.clone()), cancelling));
            }
            Stop::Drop => {
                tokio::select! {
                    _ = world.executor.call(hangs) => panic!("it hangs"),
                    () = world.clock.until_sleeping(2) => {}
                }
            }
            Stop::Commit => {
                world.store.fail(StoreOp::Commit, 1);
                assert_eq!(self.send(tool, End::Well).await.event.ending, Ending::NotCommitted);
            }
            Stop::Subscriber => {
                let point = FaultPoint::new(Step::Subscribers, Moment::Before, Fault::Error);
                drop(world.faults.run(&world.executor, self.call(tool, End::Well), point).await);
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    Panic,
    Timeout,
    Cancel,
    Drop,
    Commit,
    Subscriber,
}

impl Stop {
    /// How the entry in doubt speaks of it.
    fn said(self) -> &'static str {
        match self {
            Self::Panic => "panicked",
            Self::Timeout => "took too long and was stopped",
            Self::Cancel | Self::Drop => "was cancelled",
            Self::Commit | Self::Subscriber => "could not be committed",
        }
    }
}

const STOPS: [Stop; 6] =
    [Stop::Panic, Stop::Timeout, Stop::Cancel, Stop::Drop, Stop::Commit, Stop::Subscriber];

// case 235
#[test]
fn exactly_once_from_sixty_four_threads() {
    const THREADS: usize = 64;

    async fn buy(params: Send, cx: &mut ToolContext) -> Result<ToolResult<Sent>, ToolError> {
        let bought = cx.resource::<AtomicUsize>().await?;
        let stamp = bought.fetch_add(1, Ordering::SeqCst);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        Ok(ToolResult::ok(Sent { letter: params.letter, stamp: u32::try_from(stamp)? }, "bought"))
    }

    for kind in KINDS {
        let store: SharedStore = match kind {
            Kind::Memory => Arc::new(MemoryStore::new()),
            Kind::Bytes => Arc::new(ByteStore::new()),
        };
        let bought = Arc::new(AtomicUsize::new(0));
        let config = IdempotencyConfig::auto().scope(LedgerScope::Global);
        let section = Section::tools("shop", "Shop").tool(Tool::new("buy", "Buy.", buy).idempotency(config));
        let prompt = PromptTemplate::builder("tests", "shop").section(section).build().unwrap().prompt();
        let ready = Barrier::new(THREADS);
        let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let (store, bought, prompt, ready) = (&store, &bought, &prompt, &ready);
                    scope.spawn(move || {
                        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                        runtime.block_on(async {
                            let session = Session::builder().store(Arc::clone(store)).open().await.unwrap();
                            let resources =
                                ResourceRegistry::of((Binding::instance(Arc::clone(bought)),)).unwrap();
                            let executor = Executor::builder(prompt, &session)
                                .resources(resources)
                                .open()
                                .await
                                .unwrap();
                            ready.wait();
                            let arguments = json!({ "letter": "x", "end": "well" }).to_string();
                            executor.call(ToolCall::new(number.to_string(), "buy", arguments)).await
                        })
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(bought.load(Ordering::SeqCst), 1, "{kind:?}: one run");
        assert_eq!(outcomes.iter().filter(|outcome| !outcome.event.replayed).count(), 1, "{kind:?}");
        for outcome in outcomes {
            assert_eq!(outcome.text(), "bought\n\n{\"letter\":\"x\",\"stamp\":0}", "{kind:?}");
            assert_eq!(outcome.value(), Some(Sent { letter: "x".into(), stamp: 0 }), "{kind:?}");
        }
    }
}

// case 226
#[tokio::test]
async fn exactly_once_replays_are_equal() {
    for kind in KINDS {
        let mut post = Post::new(kind).await;
        let first = post.send("send", End::Well).await;
        for _ in 0..2 {
            let again = post.send("send", End::Well).await;
            assert_eq!((again.text(), again.is_success()), (first.text(), true));
            assert_eq!(again.value::<Sent>(), first.value::<Sent>());
            assert_eq!((again.event.value_hidden, again.event.replayed), (true, true));
            assert_ne!(again.event.id, first.event.id);
            post.world.reopen().await;
        }
        assert_eq!(post.sent(), 1);
        assert_eq!(post.world.session.slice::<Note>().len(), 2, "what it did in the session, once");
    }
}

#[tokio::test]
async fn exactly_once_a_value_is_dispatched_in_another_session_and_not_again_in_its_own() {
    async fn write(note: Note, _: &mut ToolContext) -> ToolResult<Note> {
        ToolResult::value(note)
    }
    for kind in KINDS {
        let store: SharedStore = match kind {
            Kind::Memory => Arc::new(MemoryStore::new()),
            Kind::Bytes => Arc::new(ByteStore::new()),
        };
        let config = IdempotencyConfig::auto().scope(LedgerScope::Named("team".into()));
        let tool = Tool::new("write", "Write.", write).idempotency(config).publishes();
        let section = Section::tools("tools", "Tools").tool(tool);
        let prompt = PromptTemplate::builder("tests", "team").section(section).build().unwrap().prompt();
        for (name, replayed) in [("one", false), ("other", true)] {
            let session = Session::builder().id(name).store(Arc::clone(&store)).open().await.unwrap();
            let executor = Executor::open(&prompt, &session).await.unwrap();
            for again in [false, true] {
                let outcome = executor.call(ToolCall::new("1", "write", r#"{"text":"x"}"#)).await;
                assert!(outcome.is_success(), "{}", outcome.text());
                assert_eq!(outcome.event.replayed, replayed || again);
            }
            assert_eq!(session.slice::<Note>().len(), 1, "{kind:?} {name}: once in each");
        }
    }
}

// case 227
#[tokio::test]
async fn exactly_once_a_returned_failure_releases_the_key() {
    for kind in KINDS {
        for end in [End::Refuse, End::Fail, End::Invalid] {
            let mut post = Post::new(kind).await;
            assert!(!post.send("send", end).await.is_success());
            post.world.reopen().await;
            assert_eq!(post.ledger().in_doubt().await.unwrap(), []);
            let outcome = post.send("send", End::Well).await;
            assert!(outcome.is_success() && !outcome.event.replayed, "{}", outcome.text());
            assert_eq!(post.sent(), 2);
        }
    }
}

// case 227
#[tokio::test]
async fn exactly_once_a_stopped_handler_leaves_its_key_in_doubt() {
    for kind in KINDS {
        for way in STOPS {
            let mut post = Post::new(kind).await;
            post.stopped("send", way).await;
            for _ in 0..2 {
                let outcome = post.send("send", End::Well).await;
                assert_eq!((outcome.event.ending, post.sent()), (Ending::InDoubt, 1), "{kind:?} {way:?}");
                assert!(outcome.text().contains("may already have had its effect"), "{}", outcome.text());
                let doubts = post.ledger().in_doubt().await.unwrap();
                let reasons: Vec<&str> = doubts.iter().map(|doubt| &*doubt.reason).collect();
                assert_eq!(
                    reasons,
                    [format!("an earlier call {} while it ran", way.said())],
                    "{kind:?} {way:?}"
                );
                post.world.reopen().await;
            }
        }
    }
}

#[tokio::test]
async fn exactly_once_a_handler_that_does_not_know_leaves_its_key_in_doubt() {
    for kind in KINDS {
        let post = Post::new(kind).await;
        let lost = |end: End| post.world.call("send", json!({ "letter": "lost", "end": end }));
        let outcome = post.world.executor.call(lost(End::Fail)).await;
        assert_eq!(outcome.text(), "no answer\nWhether its effect outside happened is not known.");
        assert_eq!(outcome.event.ending, Ending::Errored);
        let again = post.world.executor.call(lost(End::Well)).await;
        assert_eq!(again.event.ending, Ending::InDoubt);
        assert_eq!(post.ledger().in_doubt().await.unwrap().len(), 1);
    }
}

// case 238
#[tokio::test]
async fn exactly_once_a_process_that_died_leaves_its_key_in_doubt() {
    let mut post = Post::new(Kind::Bytes).await;
    let executor = post.world.executor.clone();
    let call = post.call("send", End::Hang);
    let running = tokio::spawn(async move { executor.call(call).await });
    post.world.clock.until_sleeping(2).await;
    post.world.reopen().await;
    let outcome = post.send("send", End::Well).await;
    assert_eq!((outcome.event.ending, post.sent()), (Ending::InDoubt, 1), "{}", outcome.text());
    running.abort();
}

#[tokio::test]
async fn exactly_once_stopped_before_the_handler_is_not_in_doubt() {
    let before = [(Step::Ledger, Moment::After), (Step::Begin, Moment::Before), (Step::Begin, Moment::After)];
    for kind in KINDS {
        for (step, moment) in before {
            for fault in Fault::ALL {
                let mut post = Post::new(kind).await;
                let point = FaultPoint::new(step, moment, fault);
                let call = post.call("send", End::Well);
                assert!(post.world.faults.run(&post.world.executor, call, point).await.hit);
                assert_eq!(post.ledger().in_doubt().await.unwrap(), [], "{point:?}");
                post.world.reopen().await;
                if kind == Kind::Bytes || fault != Fault::Hang {
                    let outcome = post.send("send", End::Well).await;
                    assert!(outcome.is_success(), "{point:?}: {}", outcome.text());
                    assert_eq!(post.sent(), 1);
                }
            }
        }
    }
}

// case 259
#[tokio::test]
async fn exactly_once_a_handler_whose_start_cannot_be_noted_does_not_start() {
    let post = Post::new(Kind::Bytes).await;
    let store = &post.world.store;
    for broken in [FaultyStore::fail, FaultyStore::panic] {
        broken(store, StoreOp::Start, 1);
        let outcome = post.send("send", End::Well).await;
        assert_eq!((outcome.event.ending, post.sent()), (Ending::NotCommitted, 0), "{}", outcome.text());
        assert!(matches!(outcome.escalation, Some(Escalation::Store(_))));
        assert_eq!(post.ledger().in_doubt().await.unwrap(), []);
    }
    assert!(post.send("send", End::Well).await.is_success());
    post.stopped("send_probe", Stop::Panic).await;
    assert_eq!(post.sent(), 2);

    // Neither a replay nor a probe starts a handler.
    store.fail(StoreOp::Start, 1);
    assert!(post.send("send", End::Well).await.event.replayed);
    let happened =
        Probed::Happened { message: "it did".into(), value: None, exclude_value_from_context: false };
    post.probing.lock().unwrap().push(Some(happened));
    assert!(post.send("send_probe", End::Well).await.event.replayed);
    assert_eq!(post.send("send_again", End::Well).await.event.ending, Ending::NotCommitted);
    assert_eq!(post.sent(), 2);
}

// case 259
#[tokio::test]
async fn exactly_once_a_process_that_died_before_its_handler_started_leaves_no_doubt() {
    let mut post = Post::new(Kind::Bytes).await;
    let gate = post.world.store.hold(StoreOp::Start, 1);
    let executor = post.world.executor.clone();
    let call = post.call("send", End::Well);
    let running = tokio::spawn(async move { executor.call(call).await });
    gate.reached().await;
    post.world.reopen().await;
    assert_eq!(post.ledger().in_doubt().await.unwrap(), []);
    let outcome = post.send("send", End::Well).await;
    assert!(outcome.is_success() && !outcome.event.replayed, "{}", outcome.text());
    assert_eq!(post.sent(), 1);
    running.abort();
}

/// That a second try never started says nothing about the first.
#[tokio::test]
async fn exactly_once_what_is_run_again_in_doubt_is_in_doubt_wherever_its_process_dies() {
    let mut post = Post::new(Kind::Bytes).await;
    post.stopped("send_again", Stop::Panic).await;
    let executor = post.world.executor.clone();
    let call = post.call("send_again", End::Hang);
    let running = tokio::spawn(async move { executor.call(call).await });
    post.world.clock.until_sleeping(2).await;
    let rows = post.world.store.rows(Rows::All).await.unwrap();
    let rules = rows.iter().filter_map(|row| match &row.state {
        LedgerState::Claimed { orphan, .. } => Some(orphan),
        LedgerState::InDoubt { .. } | LedgerState::Recorded { .. } => None,
    });
    assert_eq!(rules.collect::<Vec<_>>(), [&OrphanRule::InDoubt]);
    post.world.reopen().await;
    assert_eq!(post.ledger().in_doubt().await.unwrap().len(), 1);
    running.abort();
}

#[tokio::test]
async fn exactly_once_settled_by_hand() {
    for kind in KINDS {
        let post = Post::new(kind).await;
        post.stopped("send", Stop::Panic).await;
        let doubt = post.ledger().in_doubt().await.unwrap().remove(0);
        assert_eq!((&*doubt.tool, doubt.since), ("send", support::start()));
        let happened = Settlement::Happened {
            message: "it did go out".into(),
            value: Some(json!({ "letter": "a", "stamp": 9 })),
            exclude_value_from_context: false,
        };
        assert!(post.ledger().settle(&doubt.key, happened).await.unwrap());
        let outcome = post.send("send", End::Well).await;
        assert_eq!((outcome.value(), post.sent()), (Some(Sent { letter: "a".into(), stamp: 9 }), 1));
        assert!(!post.ledger().settle(&doubt.key, Settlement::DidNotHappen).await.unwrap());

        let post = Post::new(kind).await;
        post.stopped("send", Stop::Panic).await;
        let doubt = post.ledger().in_doubt().await.unwrap().remove(0);
        assert!(post.ledger().settle(&doubt.key, Settlement::DidNotHappen).await.unwrap());
        assert!(post.send("send", End::Well).await.is_success());
        assert_eq!(post.sent(), 2);
    }
}

#[tokio::test]
async fn exactly_once_in_doubt_run_again() {
    for kind in KINDS {
        let post = Post::new(kind).await;
        post.stopped("send_again", Stop::Panic).await;
        let outcome = post.send("send_again", End::Well).await;
        assert!(outcome.is_success() && !outcome.event.replayed, "{}", outcome.text());
        assert!(post.send("send_again", End::Well).await.event.replayed);
        assert_eq!(post.sent(), 2);
    }
}

#[tokio::test]
async fn exactly_once_in_doubt_ask() {
    let approved = || Approval::Approved { by: "ada".into() };
    for kind in KINDS {
        let post = Post::new(kind).await;
        post.stopped("send_ask", Stop::Panic).await;
        let outcome = post.send("send_ask", End::Well).await;
        assert_eq!((outcome.event.ending, post.sent()), (Ending::InDoubt, 1), "nobody answered");
        post.approvals
            .answers
            .lock()
            .unwrap()
            .push(Approval::Refused { by: "bob".into(), reason: "no".into() });
        assert_eq!(post.send("send_ask", End::Well).await.event.ending, Ending::InDoubt);

        // Approved, and then it did not even come to the handler, or the handler refused: still in doubt.
        post.approvals.answers.lock().unwrap().push(approved());
        let point = FaultPoint::new(Step::Begin, Moment::Before, Fault::Cancel);
        let call = post.call("send_ask", End::Well);
        assert!(post.world.faults.run(&post.world.executor, call, point).await.hit);
        assert_eq!((post.ledger().in_doubt().await.unwrap().len(), post.sent()), (1, 1));
        post.approvals.answers.lock().unwrap().push(approved());
        assert_eq!(post.send("send_ask", End::Refuse).await.event.ending, Ending::Failed);
        assert_eq!((post.ledger().in_doubt().await.unwrap().len(), post.sent()), (1, 2));
        assert_eq!(post.send("send_ask", End::Well).await.event.ending, Ending::InDoubt, "asked again");

        post.approvals.answers.lock().unwrap().push(approved());
        let outcome = post.send("send_ask", End::Well).await;
        assert!(outcome.is_success(), "{}", outcome.text());
        assert_eq!(outcome.event.approvers, ["ada".into()]);
        assert_eq!((post.sent(), post.approvals.asked.load(Ordering::Relaxed)), (3, 6));
        assert!(post.send("send_ask", End::Well).await.event.replayed);
    }
}

#[tokio::test]
async fn exactly_once_in_doubt_probe() {
    for kind in KINDS {
        let post = Post::new(kind).await;
        post.stopped("send_probe", Stop::Panic).await;
        // It fails, it panics, it does not know: nothing is run.
        for answer in [None, Some(None), Some(Some(Probed::Unknown))] {
            post.probing.lock().unwrap().extend(answer);
            assert_eq!(post.send("send_probe", End::Well).await.event.ending, Ending::InDoubt);
            assert_eq!(post.sent(), 1);
        }
        let value = json!({ "letter": "a", "stamp": 5 });
        let happened = Probed::Happened {
            message: "found it".into(),
            value: Some(value),
            exclude_value_from_context: false,
        };
        post.probing.lock().unwrap().push(Some(happened));
        for _ in 0..2 {
            let outcome = post.send("send_probe", End::Well).await;
            assert!(outcome.is_success() && outcome.event.replayed, "{}", outcome.text());
            assert_eq!(outcome.value(), Some(Sent { letter: "a".into(), stamp: 5 }));
        }
        assert_eq!(post.sent(), 1);

        let post = Post::new(kind).await;
        post.stopped("send_probe", Stop::Panic).await;
        post.probing.lock().unwrap().push(Some(Probed::DidNotHappen));
        assert_eq!(post.send("send_probe", End::Refuse).await.event.ending, Ending::Failed);
        assert_eq!(post.ledger().in_doubt().await.unwrap(), [], "the probe knew");
        assert!(post.send("send_probe", End::Well).await.is_success());
        assert_eq!(post.sent(), 3);
    }
}

/// Approves when it is let, so that others can come meanwhile.
struct Slow {
    asked: tokio::sync::Semaphore,
    answer: tokio::sync::Semaphore,
}

impl Approver for Slow {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        Box::pin(async move {
            self.asked.add_permits(1);
            self.answer.acquire().await?.forget();
            Ok(Approval::Approved { by: "ada".into() })
        })
    }
}

#[tokio::test]
async fn exactly_once_while_somebody_is_asked_others_can_call() {
    for kind in KINDS {
        let slow =
            Arc::new(Slow { asked: tokio::sync::Semaphore::new(0), answer: tokio::sync::Semaphore::new(0) });
        let mut post = Post::new(kind).await;
        post.stopped("send_ask", Stop::Panic).await;
        post.world.executor = Executor::builder(&post.world.prompt, &post.world.session)
            .opened(post.world.resources.clone())
            .approver(Arc::clone(&slow) as Arc<dyn Approver>)
            .open()
            .await
            .unwrap();
        let calls =
            async { tokio::join!(post.send("send_ask", End::Well), post.send("send_ask", End::Well)) };
        let others = async {
            // Both wait for an answer, and the session is free.
            slow.asked.acquire_many(2).await.unwrap().forget();
            let note =
                post.world.executor.call(post.world.call("note", json!({ "text": "meanwhile" }))).await;
            assert!(note.is_success(), "{}", note.text());
            slow.answer.add_permits(2);
        };
        let both = async { tokio::join!(calls, others).0 };
        #[expect(clippy::disallowed_methods, reason = "a deadlock would not end by itself")]
        let (one, other) =
            tokio::time::timeout(std::time::Duration::from_secs(60), both).await.expect("a deadlock");
        assert!(one.is_success() && other.is_success(), "{} {}", one.text(), other.text());
        assert_eq!(
            [one.event.replayed, other.event.replayed].iter().filter(|replayed| **replayed).count(),
            1
        );
        assert_eq!(post.sent(), 2, "{kind:?}: once before, once approved");
    }
}
