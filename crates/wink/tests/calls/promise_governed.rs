//! Promise: governed. No handler runs unless every policy that covers its tool allowed it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::VecDeque;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use wink::BoxFuture;
use wink::executor::{Approval, ApprovalRequest, Approver, ExecutorBuilder, ToolCall};
use wink::policy::{Decision, PolicyCall, PolicyContext, PolicyMemory, ResultView, ToolPolicy};
use wink::prelude::*;
use wink::resource::BoxError;
use wink::session::{Ending, LoggedAnswer, LoggedDecision};

use crate::support::{self, Form, KINDS, Note, World};

/// What a policy does when it is asked, or told.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Behaviour {
    Allows,
    Denies,
    Fails,
    Panics,
    NeverAnswers,
    AnswersLate,
    Asks,
    /// Allows as long as there is but one note.
    AsksOnceQuiet,
}

struct Behaves {
    checked: Behaviour,
    told: Behaviour,
    asked: Arc<AtomicUsize>,
}

impl Behaves {
    fn when_checked(checked: Behaviour) -> Self {
        Self { checked, told: Behaviour::Allows, asked: Arc::default() }
    }
}

impl ToolPolicy for Behaves {
    fn kind(&self) -> &'static str {
        "behaves"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        cx: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.checked == Behaviour::Panics {
            panic!("in check, before there is a future");
        }
        Box::pin(async move {
            match self.checked {
                Behaviour::Allows => Ok(Decision::Allow),
                Behaviour::Denies => Ok(Decision::deny("never")),
                Behaviour::Fails => Err("no idea".into()),
                Behaviour::Panics => panic!("in check"),
                Behaviour::NeverAnswers => pending().await,
                Behaviour::AnswersLate => {
                    let clock = cx.clock();
                    clock.sleep_until(clock.monotonic() + Duration::from_secs(6)).await;
                    Ok(Decision::Allow)
                }
                Behaviour::Asks => Ok(Decision::Ask("really?".into())),
                Behaviour::AsksOnceQuiet => match cx.slice::<Note>()?.len() {
                    0 | 1 => Ok(Decision::Ask("really?".into())),
                    _ => Ok(Decision::deny("there are notes now")),
                },
            }
        })
    }

    fn on_result<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a ResultView<'a>,
        cx: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        if self.told == Behaviour::Panics {
            panic!("in on_result, before there is a future");
        }
        Box::pin(async move {
            let seen = cx.remembered("seen").and_then(|seen| seen.as_u64()).unwrap_or(0);
            memory.remember("seen", json!(seen + 1))?;
            match self.told {
                Behaviour::Fails => Err("cannot remember".into()),
                Behaviour::Panics => panic!("in on_result"),
                Behaviour::NeverAnswers => pending().await,
                _ => Ok(()),
            }
        })
    }

    fn wants_results(&self) -> bool {
        true
    }
}

/// Answers from a list, and may do something first, as people do while a question waits.
struct Says {
    answers: Mutex<VecDeque<Result<Approval, String>>>,
    asked: Mutex<Vec<ApprovalRequest>>,
    meanwhile: Box<dyn Fn(usize) + Send + Sync>,
}

impl Says {
    fn new(answers: impl IntoIterator<Item = Result<Approval, String>>) -> Self {
        let answers = Mutex::new(answers.into_iter().collect());
        Self { answers, asked: Mutex::default(), meanwhile: Box::new(|_| ()) }
    }
}

impl Approver for Says {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        Box::pin(async move {
            let times = {
                let mut asked = self.asked.lock().unwrap();
                asked.push(request.clone());
                asked.len()
            };
            (self.meanwhile)(times);
            let answer = self.answers.lock().unwrap().pop_front();
            Ok(answer.unwrap_or_else(|| panic!("nobody is here"))?)
        })
    }
}

fn yes() -> Result<Approval, String> {
    Ok(Approval::Approved { by: "ada".into() })
}

fn ran(world: &World) -> usize {
    world.session.slice::<Note>().len() - 1
}

fn a_note(world: &World) -> ToolCall {
    world.call("note", json!({ "text": "x" }))
}

async fn with_policy(kind: support::Kind, policy: Behaves) -> World {
    World::formed_with(Form::Bare, kind, |section| section.policy(policy), |builder| builder).await
}

// cases 54, 76, 191
#[tokio::test]
async fn governed_a_policy_that_cannot_decide_denies() {
    use Behaviour::{AnswersLate, Asks, Denies, Fails, NeverAnswers, Panics};
    for kind in KINDS {
        for behaviour in [Denies, Fails, Panics, NeverAnswers, AnswersLate, Asks] {
            let mut world = with_policy(kind, Behaves::when_checked(behaviour)).await;
            let before = world.dump().await;
            let call = world.executor.call(a_note(&world));
            let outcome = match behaviour {
                NeverAnswers | AnswersLate => {
                    // The deadline, the policy's limit, and the policy itself if it sleeps.
                    let sleepers = if behaviour == AnswersLate { 3 } else { 2 };
                    let time = async {
                        world.clock.until_sleeping(sleepers).await;
                        world.clock.advance(Duration::from_millis(4_999));
                        tokio::task::yield_now().await;
                        assert!(world.log().is_empty(), "there is still time");
                        world.clock.advance(Duration::from_millis(1));
                    };
                    tokio::join!(call, time).0
                }
                _ => call.await,
            };
            let text = match behaviour {
                Denies => "never",
                Asks => "note needs approval, and nobody can be asked: really?",
                _ => "note was denied: policy behaves could not decide",
            };
            assert_eq!(outcome.text(), text, "{behaviour:?}");
            assert_eq!((outcome.event.ending, outcome.is_success()), (Ending::Denied, false));
            assert!(outcome.escalation.is_none());
            assert_eq!(world.dump().await, before, "{behaviour:?}: the handler did not run");
            if !matches!(behaviour, NeverAnswers | AnswersLate) {
                let dry = world.executor.dry_run(a_note(&world)).await;
                assert!(!dry.would_run(), "{behaviour:?}");
            }
            world.reopen().await;
            assert_eq!(world.log().len(), 1);
        }
    }
}

#[tokio::test]
async fn governed_every_policy_must_allow() {
    for kind in KINDS {
        let asked = Arc::new(AtomicUsize::new(0));
        let last = Behaves { checked: Behaviour::Allows, told: Behaviour::Allows, asked: Arc::clone(&asked) };
        let world = World::formed_with(
            Form::Bare,
            kind,
            |section| {
                section
                    .policy(Behaves::when_checked(Behaviour::Allows))
                    .policy(Behaves::when_checked(Behaviour::Denies))
                    .policy(last)
            },
            |builder| builder,
        )
        .await;
        let outcome = world.executor.call(a_note(&world)).await;
        assert_eq!((outcome.text(), ran(&world)), ("never", 0));
        assert_eq!(asked.load(Ordering::Relaxed), 0, "the first that does not allow wins");
        let answers: Vec<_> =
            outcome.event.decisions.iter().map(|decision| decision.answer.clone()).collect();
        assert_eq!(answers, [LoggedAnswer::Allow, LoggedAnswer::Allow, LoggedAnswer::Deny("never".into())]);
    }
}

// case 55
#[tokio::test]
async fn governed_a_policy_that_fails_on_a_result_is_contained() {
    for kind in KINDS {
        for told in [Behaviour::Fails, Behaviour::Panics, Behaviour::NeverAnswers] {
            let policy = Behaves { checked: Behaviour::Allows, told, asked: Arc::default() };
            let mut world = with_policy(kind, policy).await;
            let before = world.dump().await;
            let call = world.executor.call(a_note(&world));
            let outcome = match told {
                Behaviour::NeverAnswers => {
                    let time = async {
                        world.clock.until_sleeping(2).await;
                        world.clock.advance(Duration::from_secs(5));
                    };
                    tokio::join!(call, time).0
                }
                _ => call.await,
            };
            assert!(outcome.is_success(), "{told:?}: {}", outcome.text());
            assert_eq!(ran(&world), 1, "{told:?}: the result stands");
            for times in 1..=2 {
                let dump = world.dump().await;
                assert_eq!(dump.policies, json!({}), "{told:?}: what it had half remembered is gone");
                let told_of = |stored: &support::Stored| {
                    stored.state.iter().filter(|(stream, _)| stream == "wink.policies").count()
                };
                assert_eq!(dump.stored.as_ref().map_or(0, told_of), 0, "{told:?}: and never was stored");
                assert_eq!((&dump.files, dump.counter), (&before.files, before.counter));
                world.reopen().await;
                // The next call is checked and told of as if nothing had been.
                if times == 1 && told != Behaviour::NeverAnswers {
                    let outcome = world.executor.call(a_note(&world)).await;
                    assert!(outcome.is_success(), "{told:?}: {}", outcome.text());
                    assert_eq!(ran(&world), 2, "{told:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn governed_approval_lets_the_call_run_and_is_recorded() {
    for kind in KINDS {
        let says = Arc::new(Says::new([yes(), yes()]));
        let approver = Arc::clone(&says);
        let mut world = asking(kind, Behaviour::Asks, |builder| builder.approver(approver)).await;
        let outcome = world.executor.call(a_note(&world)).await;
        assert!(outcome.is_success(), "{}", outcome.text());
        assert_eq!(outcome.event.approvers, ["ada".into()]);
        let asks = LoggedAnswer::Ask { question: "really?".into(), approved: true };
        let expected = LoggedDecision { policy: outcome.event.decisions[1].policy.clone(), answer: asks };
        assert_eq!(outcome.event.decisions[1..], [expected]);
        let asked = says.asked.lock().unwrap().clone();
        let request = ApprovalRequest {
            invocation: outcome.event.id,
            tool: "note".into(),
            arguments: r#"{"text":"x"}"#.into(),
            policy: outcome.event.decisions[1].policy.clone(),
            question: "really?".into(),
        };
        assert_eq!(asked, [request], "what is approved is exactly this call");
        // A word given in another process, or for another call, counts for nothing.
        let approver = Arc::clone(&says);
        world.reopen_with(|builder| builder.approver(approver)).await;
        assert_eq!(world.log(), [Arc::clone(&outcome.event)], "who approved is on record");
        let again = world.executor.call(a_note(&world)).await;
        assert_eq!((again.is_success(), ran(&world)), (true, 2), "{}", again.text());
        let asked: Vec<_> = says.asked.lock().unwrap().iter().map(|asked| asked.invocation).collect();
        assert_eq!(asked, [outcome.event.id, again.event.id]);
    }
}

#[tokio::test]
async fn governed_no_approval_no_run() {
    let refused = Ok(Approval::Refused { by: "bob".into(), reason: "too late".into() });
    let answers = [
        (refused, "note was not approved by bob: too late"),
        (Err("the line is dead".to_owned()), "note needs approval, and asking for it failed"),
    ];
    for kind in KINDS {
        for (answer, text) in answers.clone() {
            let says = Arc::new(Says::new([answer.clone(), answer]));
            let approver = Arc::clone(&says);
            let mut world = asking(kind, Behaviour::Asks, |builder| builder.approver(approver)).await;
            for times in 1..=2 {
                let before = world.dump().await;
                let outcome = world.executor.call(a_note(&world)).await;
                assert_eq!((outcome.text(), outcome.event.ending, ran(&world)), (text, Ending::Denied, 0));
                let approver = Arc::clone(&says);
                world.reopen_with(|builder| builder.approver(approver)).await;
                assert_eq!(world.dump().await, before);
                assert_eq!((world.log().len(), says.asked.lock().unwrap().len()), (times, times));
            }
        }
        // An approver that panics has not approved.
        let silent = || Arc::new(Says::new([]));
        let mut world = asking(kind, Behaviour::Asks, |builder| builder.approver(silent())).await;
        for _ in 0..2 {
            let outcome = world.executor.call(a_note(&world)).await;
            assert_eq!((outcome.event.ending, ran(&world)), (Ending::Denied, 0), "{}", outcome.text());
            world.reopen_with(|builder| builder.approver(silent())).await;
        }
        // And in a process in which nobody can be asked.
        world.reopen().await;
        let outcome = world.executor.call(a_note(&world)).await;
        assert_eq!((outcome.event.ending, ran(&world)), (Ending::Denied, 0), "{}", outcome.text());
    }
}

#[tokio::test]
async fn governed_approval_counts_for_the_state_that_was_shown() {
    for kind in KINDS {
        // The state moves while somebody thinks: they are asked again, about the state as it is.
        let session: Arc<Mutex<Option<Session>>> = Arc::default();
        let moved = Arc::clone(&session);
        let mut says = Says::new([yes(), yes()]);
        says.meanwhile = Box::new(move |times| {
            if times == 1 {
                let session = moved.lock().unwrap().clone().unwrap();
                session.seed([support::Scratch { line: 9 }]).unwrap();
            }
        });
        let says = Arc::new(says);
        let approver = Arc::clone(&says);
        let world = asking(kind, Behaviour::Asks, |builder| builder.approver(approver)).await;
        *session.lock().unwrap() = Some(world.session.clone());
        let outcome = world.executor.call(a_note(&world)).await;
        assert!(outcome.is_success(), "{}", outcome.text());
        assert_eq!(says.asked.lock().unwrap().len(), 2, "asked again for the new state");
    }
}

#[tokio::test]
async fn governed_policies_are_asked_again_when_approval_comes_back() {
    for kind in KINDS {
        let session: Arc<Mutex<Option<Session>>> = Arc::default();
        let moved = Arc::clone(&session);
        let mut says = Says::new([yes()]);
        says.meanwhile = Box::new(move |_| {
            let session = moved.lock().unwrap().clone().unwrap();
            let _ = session.dispatch(Note { text: "meanwhile".into() });
        });
        let says = Arc::new(says);
        let world = asking(kind, Behaviour::AsksOnceQuiet, |builder| builder.approver(says)).await;
        *session.lock().unwrap() = Some(world.session.clone());
        let outcome = world.executor.call(a_note(&world)).await;
        assert_eq!((outcome.text(), outcome.event.ending), ("there are notes now", Ending::Denied));
        assert_eq!(ran(&world), 1, "only the note from outside");
    }
}

#[tokio::test]
async fn governed_a_state_that_never_rests_is_a_denial() {
    let session: Arc<Mutex<Option<Session>>> = Arc::default();
    let moved = Arc::clone(&session);
    let mut says = Says::new(std::iter::repeat_with(yes).take(100));
    says.meanwhile = Box::new(move |times| {
        let session = moved.lock().unwrap().clone().unwrap();
        session.seed([support::Scratch { line: u32::try_from(times).unwrap() }]).unwrap();
    });
    let says = Arc::new(says);
    let approver = Arc::clone(&says);
    let world = asking(support::Kind::Memory, Behaviour::Asks, |builder| builder.approver(approver)).await;
    *session.lock().unwrap() = Some(world.session.clone());
    let outcome = world.executor.call(a_note(&world)).await;
    assert_eq!((outcome.event.ending, ran(&world)), (Ending::Denied, 0), "{}", outcome.text());
    assert!(says.asked.lock().unwrap().len() < 10, "a bounded number of questions");
}

// case 236
#[tokio::test]
async fn governed_replays_pass_the_policies_too() {
    for kind in KINDS {
        let asked = Arc::new(AtomicUsize::new(0));
        let policy =
            Behaves { checked: Behaviour::Allows, told: Behaviour::Allows, asked: Arc::clone(&asked) };
        let mut world = with_policy(kind, policy).await;
        for times in 1..=3 {
            let outcome = world.executor.call(world.call("pay", json!({ "text": "rent" }))).await;
            assert_eq!((outcome.is_success(), outcome.event.replayed), (true, times > 1));
            assert_eq!(asked.load(Ordering::Relaxed), times);
            let decisions: Vec<_> =
                outcome.event.decisions.iter().map(|decision| decision.answer.clone()).collect();
            assert_eq!(decisions, [LoggedAnswer::Allow, LoggedAnswer::Allow], "asked, and on record");
            world.reopen().await;
            assert_eq!(world.log().last(), Some(&outcome.event), "a replay has its event too");
        }
        assert_eq!(*world.bank.lock().unwrap(), [("rent".to_owned(), 1)].into());
    }
}

async fn asking(
    kind: support::Kind,
    behaviour: Behaviour,
    more: impl FnOnce(ExecutorBuilder) -> ExecutorBuilder,
) -> World {
    World::formed_with(Form::Bare, kind, |section| section.policy(Behaves::when_checked(behaviour)), more)
        .await
}
