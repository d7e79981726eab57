//! The state machine by itself: against chance, and for what it costs.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use wink::limits::TokenUsage;
use wink::session::Session;

use super::*;
use crate::model::ModelErrorKind;

fn response(text: &str, calls: usize, stop: Stop) -> ModelResponse {
    let call = |index: usize| Called {
        id: format!("c{index}").into(),
        name: "tool".into(),
        arguments: format!("{{\"n\":{index}}}").into(),
    };
    ModelResponse {
        text: text.into(),
        calls: (0..calls).map(call).collect(),
        stop,
        usage: TokenUsage::new(3, 2),
        provider: None,
    }
}

fn answers(calls: &[ToolCall]) -> Vec<ToolAnswer> {
    let answer = |call: &ToolCall| ToolAnswer {
        id: Arc::clone(&call.id),
        name: Arc::clone(&call.tool),
        text: "done".into(),
        success: true,
    };
    calls.iter().map(answer).collect()
}

fn answered(calls: &[ToolCall], expanded: bool) -> Said {
    let tally = Tally { calls: calls.len() as u64, ..Tally::default() };
    Said::Answered { answers: answers(calls), tally, expanded }
}

/// What chance decides at each step.
#[derive(Debug, Clone, Copy)]
struct Roll {
    calls: usize,
    stop: u8,
    fails: bool,
    expanded: bool,
    missing: bool,
    chance: u64,
}

fn roll() -> impl Strategy<Value = Roll> {
    (0usize..4, 0u8..12, any::<bool>(), any::<bool>(), any::<bool>(), any::<u64>()).prop_map(
        |(calls, stop, fails, expanded, missing, chance)| Roll {
            calls,
            stop,
            fails,
            expanded,
            missing,
            chance,
        },
    )
}

/// What somebody who drives the conversation would tell it.
fn input(next: &Next, conversation: &Conversation, roll: Roll, at: Duration) -> Option<Input> {
    Some(match next {
        Next::Ended(_) => return None,
        Next::Ask if roll.fails => {
            let kind = if roll.stop == 0 { ModelErrorKind::Rejected } else { ModelErrorKind::Throttled };
            let retry_after = roll.expanded.then(|| Duration::from_secs(2));
            let error = ModelError { kind, message: "no".to_owned(), retry_safe: true, retry_after };
            Input::Failed { error, at, left: None, chance: roll.chance }
        }
        Next::Ask => {
            let stop = match roll.stop {
                0 => Stop::Refused,
                1 | 2 => Stop::Truncated,
                3 => Stop::Paused,
                4 => Stop::Formless,
                _ => Stop::Complete,
            };
            Input::Said(Said::Responded(response("text", roll.calls, stop)))
        }
        Next::Wait(_) => Input::Waited,
        Next::Execute(calls) => Input::Said(answered(calls, roll.expanded)),
        Next::Finish(_) if roll.missing && conversation.reminders_left() > 0 => {
            Input::Said(Said::Reminded { missing: "more".into() })
        }
        Next::Finish(_) => Input::Said(Said::Finished { output: None, missing: None }),
    })
}

proptest! {
    /// Whatever happens, it ends, and every call has one answer. Read back at any step from what was said, it goes on as if
    /// nothing had happened, but for the tries of a request, which begin anew.
    // cases 210, 225
    #[test]
    fn a_conversation_that_is_read_back_is_the_same(rolls in prop::collection::vec(roll(), 400), task in any::<bool>()) {
        let terms = Terms { max_turns: 20, max_expansions: 3, ..Terms::default() };
        let session = Session::new();
        let task: Option<Arc<str>> = task.then(|| "do it".into());
        let keep = |said: Said| {
            let step = ConversationStep { run: "r".into(), time: session.clock().now(), said, withheld: false, number: None };
            assert!(session.dispatch(step).is_ok());
        };
        keep(Said::Began { task: task.clone(), terms: terms.clone(), budget: None });
        let mut conversation = Conversation::begin("r", task, terms);
        let mut at = Duration::ZERO;
        for roll in rolls {
            let next = conversation.next();
            let Some(input) = input(&next, &conversation, roll, at) else { break };
            if let Next::Wait(wait) = next {
                at += wait;
            }
            let said = matches!(input, Input::Said(_));
            if let Input::Said(said) = &input {
                keep(said.clone());
            }
            conversation.take(input).unwrap();
            let read = Conversation::read_back(&session, "r").unwrap().unwrap();
            if said {
                prop_assert_eq!(&read, &conversation);
            }
            prop_assert_eq!(read.messages(), conversation.messages());
        }
        prop_assert!(matches!(conversation.next(), Next::Ended(_)), "it ends");
        prop_assert!(conversation.stats().turns <= 20);
        // Between a message with calls and the next there are their answers, each once.
        let messages: Vec<_> = conversation.messages().iter().collect();
        for pair in messages.windows(2) {
            if let Message::Assistant { calls, .. } = &**pair[0] && !calls.is_empty() {
                let Message::Tools { answers } = &**pair[1] else { panic!("{:?}", pair[1]) };
                let ids = |id: &Arc<str>| id.to_string();
                let answered: Vec<_> = answers.iter().map(|answer| ids(&answer.id)).collect();
                prop_assert_eq!(answered, calls.iter().map(|call| ids(&call.id)).collect::<Vec<_>>());
            }
        }
    }
}

/// As it is after being saved and loaded.
fn loaded(conversation: &Conversation) -> Conversation {
    serde_json::from_str(&serde_json::to_string(conversation).unwrap()).unwrap()
}

proptest! {
    /// Saved at any step, between the tries of a request too, a conversation is the same when it is loaded, and goes on the same.
    #[test]
    fn a_conversation_that_is_saved_at_any_step_goes_on_the_same(rolls in prop::collection::vec(roll(), 400), stop_at in 0usize..100) {
        let terms = Terms { max_turns: 20, max_expansions: 3, ..Terms::default() };
        let mut conversation = Conversation::begin("r", Some("do it".into()), terms);
        let (mut at, mut saved) = (Duration::ZERO, loaded(&conversation));
        for (number, roll) in rolls.into_iter().enumerate() {
            prop_assert_eq!(&saved, &conversation);
            let next = conversation.next();
            prop_assert_eq!(saved.next(), next.clone());
            let Some(mut input) = input(&next, &conversation, roll, at) else { break };
            if number == stop_at {
                input = Input::Stopped { reason: StopReason::Cancelled, tally: Tally { calls: 1, ..Tally::default() } };
            }
            if let Next::Wait(wait) = next {
                at += wait;
            }
            conversation.take(input.clone()).unwrap();
            saved.take(input).unwrap();
            prop_assert_eq!(&saved, &conversation);
            saved = loaded(&saved);
        }
        prop_assert!(matches!(saved.next(), Next::Ended(_)), "it ends");
        prop_assert_eq!(saved, conversation);
    }
}

#[test]
fn every_end_can_be_saved() {
    let error = ModelError {
        kind: ModelErrorKind::Throttled,
        message: "no".to_owned(),
        retry_safe: true,
        retry_after: Some(Duration::from_nanos(1_500_000_001)),
    };
    let (wait, window, last) = (Duration::from_nanos(7), Duration::from_secs(9), error.clone());
    let time: jiff::Timestamp = "2026-03-01T12:00:00.000000001Z".parse().unwrap();
    let reasons = [
        StopReason::TurnCap { max_turns: 3 },
        StopReason::Expansions { max_expansions: 3 },
        StopReason::Budget(wink::limits::BudgetExceededError {
            dimension: wink::limits::BudgetDimension::InputTokens,
            limit: 1,
            used: u64::MAX,
        }),
        StopReason::Deadline(wink::limits::DeadlineExceededError { deadline: time }),
        StopReason::Cancelled,
        StopReason::Asking,
        StopReason::Request(error),
        RetriesExhausted::Attempts { attempts: 3, last: last.clone() }.into(),
        RetriesExhausted::Window { elapsed: wait, wait, window, last: last.clone() }.into(),
        RetriesExhausted::Deadline { wait, left: window, last }.into(),
        StopReason::Refused { text: "no".into() },
        StopReason::Truncated { text: "n".into() },
        StopReason::Output { reason: "no".into(), text: "n".into() },
        StopReason::Evaluation(wink::tool::PromptEvaluationError {
            phase: wink::tool::Phase::Tool,
            message: "no".into(),
            deadline: Some(time),
        }),
        StopReason::Elsewhere { run: "r".into() },
        StopReason::Runtime("no".into()),
    ];
    for reason in reasons {
        let mut conversation = Conversation::begin("r", None, Terms::default());
        conversation.take(Input::Stopped { reason, tally: Tally::default() }).unwrap();
        assert_eq!(loaded(&conversation), conversation);
    }
}

/// One that nobody saved is taken for what it says, and nothing comes of it but what it says.
#[test]
fn a_conversation_that_was_made_up_does_no_harm() {
    let mut made_up = serde_json::to_value(Conversation::begin("r", None, Terms::default())).unwrap();
    made_up["stats"]["turns"] = u32::MAX.into();
    made_up["stats"]["calls"] = u64::MAX.into();
    made_up["steps"] = u64::MAX.into();
    made_up["reminders"] = u32::MAX.into();
    made_up["expansions"] = u32::MAX.into();
    made_up["retries"]["attempts"] = u32::MAX.into();
    for phase in ["asking", "finishing"].map(serde_json::Value::from).into_iter().chain([
        serde_json::json!({ "waiting": { "secs": u64::MAX, "nanos": 0 } }),
        serde_json::json!({ "executing": "whole" }),
        serde_json::json!({ "executing": "in_last_call" }),
    ]) {
        made_up["phase"] = phase;
        let conversation: Conversation = serde_json::from_value(made_up.clone()).unwrap();
        let calls = response("", 2, Stop::Complete);
        let error = ModelError {
            kind: ModelErrorKind::Throttled,
            message: String::new(),
            retry_safe: true,
            retry_after: Some(Duration::MAX),
        };
        let tally = Tally { calls: 3, rolled_back: 1, denied: 1, usage: TokenUsage::default() };
        for input in [
            Input::Said(Said::Responded(calls)),
            Input::Said(Said::Answered { answers: Vec::new(), tally, expanded: true }),
            Input::Said(Said::Reminded { missing: "x".into() }),
            Input::Said(Said::Finished { output: None, missing: None }),
            Input::Failed { error, at: Duration::MAX, left: None, chance: u64::MAX },
            Input::Waited,
            Input::Stopped { reason: StopReason::Cancelled, tally },
        ] {
            let mut conversation = conversation.clone();
            let _ = conversation.take(input);
            let _ = conversation.next();
            let _ = loaded(&conversation);
        }
    }
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let mut conversation = Conversation::begin("r", None, Terms::default());
    let before = conversation.clone();
    let error = conversation.take(Input::Waited).unwrap_err();
    assert_eq!(error.to_string(), "the conversation was told that the wait is over, but is to ask the model");
    assert_eq!(conversation, before);
    conversation.take(Input::Said(Said::Responded(response("", 2, Stop::Complete)))).unwrap();
    let Next::Execute(calls) = conversation.next() else { panic!() };
    let one_missing = Input::Said(answered(&calls[..1], false));
    assert!(conversation.take(one_missing).is_err());
    conversation.take(Input::Said(answered(&calls, false))).unwrap();
    assert_eq!(conversation.next(), Next::Ask);
}

#[test]
fn a_call_that_was_cut_off_is_answered_and_not_executed() {
    let mut conversation = Conversation::begin("r", None, Terms::default());
    conversation.take(Input::Said(Said::Responded(response("", 3, Stop::Truncated)))).unwrap();
    let Next::Execute(calls) = conversation.next() else { panic!() };
    let keys: Vec<_> =
        calls.iter().map(|call| (call.id.to_string(), call.request_key.clone().unwrap())).collect();
    assert_eq!(keys, [("c0".to_owned(), "r/1/0".into()), ("c1".to_owned(), "r/1/1".into())]);
    conversation.take(Input::Said(answered(&calls, false))).unwrap();
    let Message::Tools { answers } = &**conversation.messages().last().unwrap() else { panic!() };
    assert_eq!(answers.iter().map(|answer| answer.success).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(&*answers[2].text, CUT_OFF);
    // With nothing but the cut call, there is nothing to execute.
    conversation.take(Input::Said(Said::Responded(response("", 1, Stop::Truncated)))).unwrap();
    assert_eq!(conversation.next(), Next::Ask);
    assert_eq!(conversation.stats().calls, 2, "a call that did not reach the runtime is not one");
}

#[test]
fn only_what_was_said_is_kept() {
    let session = Session::new();
    assert_eq!(Conversation::read_back(&session, "r"), Ok(None));
    let keep = |said| {
        let step = ConversationStep {
            run: "r".into(),
            time: session.clock().now(),
            said,
            withheld: false,
            number: None,
        };
        assert!(session.dispatch(step).is_ok());
    };
    keep(Said::Reminded { missing: "all".into() });
    assert_eq!(Conversation::read_back(&session, "r"), Err(NotReadBack::NoBeginning { run: "r".into() }));
}

#[test]
fn a_run_that_nobody_remembers_is_not_taken_up() {
    let clock = wink::testing::FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
    let session = Session::builder().clock(Arc::new(clock.clone())).build();
    let said = Said::Began { task: None, terms: Terms::default(), budget: None };
    let time = session.clock().now();
    assert!(
        session
            .dispatch(ConversationStep { run: "r".into(), time, said, withheld: false, number: None })
            .is_ok()
    );
    clock.advance(RUN_LIFE - Duration::from_secs(1));
    assert!(Conversation::read_back(&session, "r").unwrap().is_some());
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        Conversation::read_back(&session, "r"),
        Err(NotReadBack::TooOld { run: "r".into(), last: time })
    );
    // What one came to that has ended is known for good.
    for said in
        [Said::Responded(response("done", 0, Stop::Complete)), Said::Finished { output: None, missing: None }]
    {
        assert!(
            session
                .dispatch(ConversationStep { run: "r".into(), time, said, withheld: false, number: None })
                .is_ok()
        );
    }
    assert!(Conversation::read_back(&session, "r").unwrap().unwrap().has_ended());
}

#[test]
fn calls_without_their_arguments_are_not_made_again() {
    let session = Session::new();
    let keep = |said, withheld| {
        let step =
            ConversationStep { run: "r".into(), time: session.clock().now(), said, withheld, number: None };
        assert!(session.dispatch(step).is_ok());
    };
    let read = || Conversation::read_back(&session, "r");
    keep(Said::Began { task: None, terms: Terms::default(), budget: None }, false);
    keep(Said::Responded(response("", 1, Stop::Complete)), true);
    assert_eq!(read(), Err(NotReadBack::Withheld { run: "r".into() }));
    let mut conversation = Conversation::begin("r", None, Terms::default());
    conversation.take(Input::Said(Said::Responded(response("", 1, Stop::Complete)))).unwrap();
    let Next::Execute(calls) = conversation.next() else { panic!() };
    keep(answered(&calls, false), false);
    assert_eq!(read().unwrap().unwrap().next(), Next::Ask, "once they are answered, it goes on");
}

#[test]
fn of_two_steps_in_one_place_the_first_counts() {
    let session = Session::new();
    let keep = |number, said| {
        let time = session.clock().now();
        let step = ConversationStep { run: "r".into(), time, said, withheld: false, number: Some(number) };
        assert!(session.dispatch(step.clone()).is_ok());
        step.is_contested(&session)
    };
    let called = || Said::Responded(response("", 1, Stop::Complete));
    let mut conversation = Conversation::begin("r", None, Terms::default());
    conversation.take(Input::Said(called())).unwrap();
    let Next::Execute(calls) = conversation.next() else { panic!() };
    assert!(!keep(1, Said::Began { task: None, terms: Terms::default(), budget: None }));
    assert!(!keep(2, called()));
    // Somebody else has the same run, and one answers what the other has answered.
    assert!(!keep(3, answered(&calls, false)));
    assert!(keep(3, answered(&calls, false)));
    assert!(keep(4, called()), "it is found before anything is done on account of it");
    let known = Conversation::read_back(&session, "r").unwrap().unwrap();
    assert_eq!((known.steps(), known.stats().turns, known.is_executing()), (4, 2, true));
    // Later that is past.
    assert!(!keep(6, called()));
}

#[test]
fn waits_grow_are_spread_and_respect_the_provider() {
    let policy = RetryPolicy::default();
    let wait = |failures: u32, after, chance| {
        let mut retries = Retries::default();
        let mut failed = || {
            let retry_after = after;
            let message = String::new();
            let error =
                ModelError { kind: ModelErrorKind::Throttled, message, retry_safe: true, retry_after };
            retries.failed(&policy, error, Duration::ZERO, None, chance).unwrap()
        };
        for _ in 0..failures {
            failed();
        }
        failed()
    };
    let millis = Duration::from_millis;
    assert_eq!((wait(0, None, 0), wait(0, None, u64::MAX)), (millis(250), millis(500)));
    assert_eq!((wait(3, None, 0), wait(3, None, u64::MAX)), (millis(2000), millis(4000)));
    let after = Duration::from_secs(7);
    assert_eq!(wait(0, Some(after), 0), after);
    assert_eq!(wait(0, Some(after), u64::MAX), after + millis(250));
}

#[test]
fn a_response_in_no_form_is_asked_for_again_and_then_is_no_last_word() {
    let mut conversation = Conversation::begin("r", None, Terms { max_reminders: 2, ..Terms::default() });
    let garbage = || Input::Said(Said::Responded(response("garbage", 0, Stop::Formless)));
    for times in 1..=2 {
        conversation.take(garbage()).unwrap();
        assert_eq!((conversation.next(), conversation.messages().len()), (Next::Ask, 2 * times));
    }
    conversation.take(garbage()).unwrap();
    let reason = "it is not in the form that every response must have".to_owned();
    let stopped = StopReason::Output { reason, text: "garbage".into() };
    assert_eq!(conversation.next(), Next::Ended(Ended::Stopped(stopped)));
}
