//! A prompt is evaluated: turns, calls, limits, retries, events.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use wink::filesystem::FilesystemExt;
use wink::limits::{
    Budget, BudgetDimension, BudgetExceededError, BudgetTracker, CancelToken, Clock, Deadline,
};
use wink::prelude::*;
use wink::session::{PromptExecuted, PromptRendered, RunContext, ToolInvoked, ToolsRendered};
use wink::testing::FakeClock;
use wink_models::conversation::{ConversationStep, RetriesExhausted};
use wink_models::{
    Adapter, BoxModel, Evaluation, Message, ModelAdapter, ModelError, ModelErrorKind, PromptResponse,
    RetryPolicy, RunReport, RunStats, Stop, StopReason, Stopped, Terms,
};

use crate::support::{JumpClock, Listed, Note, Silent, calls, error, opens, prompt, resources, says};

async fn evaluate(model: BoxModel, evaluation: Evaluation) -> (Result<PromptResponse, Stopped>, Session) {
    let session = Session::builder().clock(JumpClock::new()).build();
    let adapter = ModelAdapter::new(model);
    let response = adapter.evaluate(&prompt(), &session, evaluation.resources(resources().0)).await;
    (response, session)
}

fn reason(came: &Result<PromptResponse, Stopped>) -> &StopReason {
    &came.as_ref().unwrap_err().reason
}

// case 207
#[tokio::test]
async fn a_message_without_calls_is_the_response() {
    let model = Listed::saying([says("All done.")]);
    let (came, session) = evaluate(model.clone(), Evaluation::new().task("Do it.")).await;
    let response = came.unwrap();
    assert_eq!(
        (&*response.text, response.output.clone(), response.missing.clone()),
        ("All done.", None, None)
    );
    assert_eq!(response.stats.turns, 1);
    let asked = &model.asked.lock().unwrap()[0];
    assert!(asked.prompt.contains("Use them."), "{}", asked.prompt);
    let messages: Vec<_> = asked.messages.iter().map(|message| Message::clone(message)).collect();
    assert_eq!(messages, [Message::User { text: "Do it.".into() }]);
    let names: Vec<_> = asked.tools.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(
        names,
        ["note", "fail", "write", "hang", "more", "denied", "open_sections", "read_section"],
        "what is closed is not there"
    );
    let executed = session.slice::<PromptExecuted>().latest().unwrap();
    assert_eq!((&*executed.text, &*executed.prompt), ("All done.", "tests/models"));
}

#[tokio::test]
async fn calls_are_executed_and_answered() {
    let (registry, outside, files) = resources();
    let model = Listed::saying([
        calls(&[("note", "a"), ("fail", "on purpose"), ("unknown", "x"), ("denied", "y")]),
        calls(&[("write", "hello")]),
        says("ok"),
    ]);
    let session = Session::new();
    let adapter = ModelAdapter::new(model.clone());
    let response =
        adapter.evaluate(&prompt(), &session, Evaluation::new().resources(registry)).await.unwrap();
    let stats = RunStats {
        turns: 3,
        calls: 5,
        rolled_back: 1,
        denied: 1,
        usage: wink::limits::TokenUsage::new(30, 3),
    };
    assert_eq!(response.stats, stats);
    assert_eq!(outside.0.load(Ordering::SeqCst), 1);
    assert_eq!(files.read_text("file.txt").await.unwrap(), "hello");
    assert_eq!(session.slice::<Note>().all().len(), 1, "what failed left nothing");
    let asked = model.asked.lock().unwrap();
    let Message::Tools { answers } = &*asked[1].messages[1] else { panic!() };
    let texts: Vec<_> = answers.iter().map(|answer| (answer.success, answer.text.to_string())).collect();
    assert_eq!(texts[0], (true, "noted\n\n{\"text\":\"a\"}".to_owned()));
    assert_eq!(texts[1], (false, "on purpose".to_owned()));
    assert!(texts[2].1.starts_with("Unknown tool 'unknown'"), "{}", texts[2].1);
    assert!(!texts[3].0 && texts[3].1.contains("not you"), "{}", texts[3].1);
}

// case 210
#[tokio::test]
async fn a_model_that_calls_tools_forever_is_stopped() {
    let model = Listed::saying([calls(&[("note", "again")])]);
    let session = Session::new();
    let adapter = ModelAdapter::new(model.clone()).terms(Terms { max_turns: 7, ..Terms::default() });
    let came = adapter.evaluate(&prompt(), &session, Evaluation::new().resources(resources().0)).await;
    assert_eq!(reason(&came), &StopReason::TurnCap { max_turns: 7 });
    assert_eq!((model.asked(), session.calls("note").unwrap().count), (7, 7));
    assert_eq!(came.unwrap_err().stats.turns, 7);
}

// case 240b
#[tokio::test]
async fn an_opened_section_is_there_in_the_next_request() {
    let model = Listed::saying([opens("manual"), calls(&[("turn", "round")]), says("turned")]);
    let (came, session) = evaluate(model.clone(), Evaluation::new()).await;
    assert_eq!(&*came.unwrap().text, "turned");
    let asked = model.asked.lock().unwrap();
    assert!(!asked[0].prompt.contains("Turn the handle.") && asked[1].prompt.contains("Turn the handle."));
    assert!(asked[1].tools.iter().any(|tool| &*tool.name == "turn"));
    assert_eq!(session.calls("turn").unwrap().count, 1);
    let opened = session.slice::<wink::prompt::SectionVisibility>().get("manual").unwrap();
    assert_eq!(opened.visibility, Visibility::Full);
}

// case 225
#[tokio::test]
async fn expansions_are_bounded() {
    let model = Listed::saying([calls(&[("more", "please")])]);
    let adapter = ModelAdapter::new(model.clone()).terms(Terms { max_expansions: 3, ..Terms::default() });
    let session = Session::new();
    let came = adapter.evaluate(&prompt(), &session, Evaluation::new().resources(resources().0)).await;
    assert_eq!(reason(&came), &StopReason::Expansions { max_expansions: 3 });
    assert_eq!(model.asked(), 4);
    let report = serde_json::to_value(RunReport::of(&came)).unwrap();
    let usage = json!({ "input_tokens": 40, "output_tokens": 4, "cached_tokens": 0 });
    let stopped = json!({ "output": null, "turns": 4, "calls": 4, "rolled_back": 0, "denied": 0, "usage": usage, "stopped_by": "expansions" });
    assert_eq!(report, stopped);
}

// case 209
#[tokio::test]
async fn all_events_of_a_run_have_its_id() {
    let model = Listed::saying([calls(&[("note", "a")]), opens("manual"), says("ok")]);
    let run =
        RunContext { run_id: Some("run-1".into()), request_id: Some("q".into()), ..RunContext::default() };
    let (came, session) = evaluate(model, Evaluation::new().run(run.clone())).await;
    assert_eq!(&*came.unwrap().run_id, "run-1");
    let (called, executed) = (session.slice::<ToolInvoked>().all(), session.slice::<PromptExecuted>().all());
    let rendered = session.slice::<PromptRendered>().all();
    let tools = session.slice::<ToolsRendered>().all();
    assert_eq!(rendered.len(), 2, "before and after the section was opened");
    let ids = |at: usize| (rendered[at].id, tools[at].id);
    assert!(ids(0).0 == ids(0).1 && ids(1).0 == ids(1).1 && ids(0).0 != ids(1).0);
    let names = |at: usize| tools[at].tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    assert_eq!((names(0), names(1)), (rendered[0].tools.clone(), rendered[1].tools.clone()));
    let runs = rendered.iter().map(|event| RunContext::clone(&event.run));
    let runs = runs.chain(tools.iter().map(|event| RunContext::clone(&event.run)));
    let runs = runs.chain(called.iter().map(|event| RunContext::clone(&event.run)));
    let runs = runs.chain(executed.iter().map(|event| RunContext::clone(&event.run)));
    let runs: Vec<_> = runs.collect();
    assert_eq!(runs, vec![run; 2 + 2 + 2 + 1]);
    assert!(session.slice::<ConversationStep>().iter().all(|step| &*step.run == "run-1"));
}

// case 204
#[tokio::test]
async fn a_throttled_request_is_sent_again_after_the_time_that_was_asked_for() {
    let after = Duration::from_secs(3);
    let throttled = || Err(ModelError { retry_after: Some(after), ..error(ModelErrorKind::Throttled) });
    let model = Listed::new([throttled(), throttled(), Ok(says("at last"))]);
    let clock = JumpClock::new();
    let session = Session::builder().clock(clock.clone()).build();
    let adapter = ModelAdapter::new(model.clone());
    let response =
        adapter.evaluate(&prompt(), &session, Evaluation::new().resources(resources().0)).await.unwrap();
    assert_eq!((&*response.text, model.asked()), ("at last", 3));
    let slept = clock.slept.lock().unwrap().clone();
    assert_eq!(slept.len(), 2);
    assert!(
        slept.iter().all(|slept| *slept >= after && *slept < after + Duration::from_secs(1)),
        "{slept:?}"
    );
}

#[tokio::test]
async fn a_run_that_goes_on_waits_for_what_is_left_of_the_time_that_was_asked_for() {
    let seconds = Duration::from_secs;
    let throttled = || Err(ModelError { retry_after: Some(seconds(60)), ..error(ModelErrorKind::Throttled) });
    let clock = JumpClock::new();
    let session = Session::builder().clock(clock.clone()).build();
    let go_on = async |model: Arc<Listed>, deadline: Option<u64>| {
        let run = RunContext { run_id: Some("r".into()), ..RunContext::default() };
        let mut evaluation = Evaluation::new().run(run).resources(resources().0);
        if let Some(ahead) = deadline {
            evaluation = evaluation.deadline(Deadline::after(seconds(ahead), &*clock).unwrap());
        }
        clock.slept.lock().unwrap().clear();
        let came = ModelAdapter::new(model.clone()).evaluate(&prompt(), &session, evaluation).await;
        let came = came.map(|response| response.text.to_string()).map_err(|stopped| stopped.reason.name());
        (came, model.asked(), clock.slept.lock().unwrap().clone())
    };
    let (came, asked, _) = go_on(Listed::new([throttled()]), Some(10)).await;
    assert_eq!((came, asked), (Err("retry_deadline"), 1));
    clock.sleep_until(seconds(20)).await;
    let (came, asked, slept) = go_on(Listed::new([throttled()]), None).await;
    assert_eq!((came, asked), (Err("retry_attempts"), 5));
    assert_eq!(slept[0], seconds(40), "of the sixty, twenty are over");
    // Whoever cannot wait that long does not ask.
    let (came, asked, _) = go_on(Listed::saying([says("too early")]), Some(5)).await;
    assert_eq!((came, asked), (Err("deadline"), 0));
    // And nobody waits for longer.
    clock.sleep_until(clock.monotonic() + seconds(61)).await;
    let (came, asked, slept) = go_on(Listed::saying([says("at last")]), None).await;
    assert_eq!((came, asked, slept), (Ok("at last".to_owned()), 1, Vec::new()));
}

// case 205
#[tokio::test]
async fn three_ways_to_give_up() {
    let throttled = |after| {
        Err(ModelError { retry_after: Some(Duration::from_secs(after)), ..error(ModelErrorKind::Throttled) })
    };
    let give_up = async |after, deadline: Option<Duration>| {
        let model = Listed::new([throttled(after)]);
        let clock = JumpClock::new();
        let session = Session::builder().clock(clock.clone()).build();
        let retry =
            RetryPolicy { max_attempts: 4, window: Duration::from_secs(60), ..RetryPolicy::default() };
        let adapter = ModelAdapter::new(model.clone()).terms(Terms { retry, ..Terms::default() });
        let mut evaluation = Evaluation::new().resources(resources().0);
        if let Some(ahead) = deadline {
            evaluation = evaluation.deadline(Deadline::after(ahead, &*clock).unwrap());
        }
        let came = adapter.evaluate(&prompt(), &session, evaluation).await;
        (came.unwrap_err().reason, model.asked())
    };
    let (reason, asked) = give_up(1, None).await;
    assert!(
        matches!(reason, StopReason::Retries(RetriesExhausted::Attempts { attempts: 4, .. })),
        "{reason}"
    );
    assert_eq!((asked, reason.name()), (4, "retry_attempts"));
    let (reason, asked) = give_up(25, None).await;
    assert!(matches!(reason, StopReason::Retries(RetriesExhausted::Window { .. })), "{reason}");
    assert_eq!((asked, reason.name()), (3, "retry_window"));
    let (reason, asked) = give_up(25, Some(Duration::from_secs(30))).await;
    let StopReason::Retries(exhausted) = &reason else { panic!("{reason}") };
    assert!(matches!(exhausted, RetriesExhausted::Deadline { .. }) && !exhausted.retry_safe(), "{reason}");
    assert_eq!((asked, reason.name()), (2, "retry_deadline"));
}

// case 206
#[tokio::test]
async fn what_is_not_safe_to_send_again_is_not() {
    let unsafe_ = ModelError { retry_safe: false, ..error(ModelErrorKind::Throttled) };
    let model = Listed::new([Err(unsafe_.clone())]);
    let (came, _) = evaluate(model.clone(), Evaluation::new()).await;
    assert_eq!((reason(&came), model.asked()), (&StopReason::Request(unsafe_), 1));
    // Nor what can only fail again.
    let model = Listed::new([Err(error(ModelErrorKind::Unauthorized))]);
    let (came, _) = evaluate(model.clone(), Evaluation::new()).await;
    assert_eq!((reason(&came).name(), model.asked()), ("request_failed", 1));
}

// cases 201, 203
#[tokio::test]
async fn budgets_are_summed_over_responses_and_evaluations() {
    // Each response uses eleven tokens.
    let tracker = Arc::new(BudgetTracker::new(Budget::total(33).unwrap()));
    let model = || Listed::saying([calls(&[("note", "a")]), says("ok")]);
    let (first, _) = evaluate(model(), Evaluation::new().budget(Arc::clone(&tracker))).await;
    assert!(first.is_ok(), "{first:?}");
    assert_eq!(tracker.used().total(), 22);
    let (exactly, _) =
        evaluate(Listed::saying([says("ok")]), Evaluation::new().budget(Arc::clone(&tracker))).await;
    assert!(exactly.is_ok(), "exactly at the limit is within: {exactly:?}");
    let (over, session) = evaluate(model(), Evaluation::new().budget(Arc::clone(&tracker))).await;
    let exceeded = BudgetExceededError { dimension: BudgetDimension::TotalTokens, limit: 33, used: 44 };
    assert_eq!(reason(&over), &StopReason::Budget(exceeded));
    assert!(session.slice::<ToolInvoked>().is_empty(), "no call is made that cannot be paid for");
}

#[tokio::test]
async fn a_deadline_cancels_a_request_in_flight() {
    let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
    let session = Session::builder().clock(Arc::new(clock.clone())).build();
    let deadline = Deadline::after(Duration::from_secs(5), &clock).unwrap();
    let adapter = ModelAdapter::new(Arc::new(Silent));
    let evaluation = Evaluation::new().deadline(deadline).resources(resources().0);
    let prompt = prompt();
    let evaluating = adapter.evaluate(&prompt, &session, evaluation);
    let moving = async {
        clock.until_sleeping(1).await;
        clock.advance(Duration::from_secs(5));
    };
    let (came, ()) = tokio::join!(evaluating, moving);
    assert_eq!(reason(&came), &StopReason::Deadline(deadline.exceeded()));
}

#[tokio::test]
async fn a_deadline_ends_a_call() {
    let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
    let session = Session::builder().clock(Arc::new(clock.clone())).build();
    let deadline = Deadline::after(Duration::from_secs(5), &clock).unwrap();
    let model = Listed::saying([calls(&[("hang", "x")]), says("never")]);
    let adapter = ModelAdapter::new(model.clone());
    let evaluation = Evaluation::new().deadline(deadline).resources(resources().0);
    let prompt = prompt();
    let evaluating = adapter.evaluate(&prompt, &session, evaluation);
    let moving = async {
        clock.until_sleeping(1).await;
        clock.advance(Duration::from_secs(5));
    };
    let (came, ()) = tokio::join!(evaluating, moving);
    assert_eq!((reason(&came).name(), model.asked()), ("deadline", 1));
    assert_eq!(came.unwrap_err().stats.rolled_back, 1);
}

#[tokio::test]
async fn cancelling_ends_a_request_and_a_call() {
    for model in [Arc::new(Silent) as BoxModel, Listed::saying([calls(&[("hang", "x")])])] {
        let cancel = CancelToken::new();
        let evaluating = evaluate(model, Evaluation::new().cancel(cancel.clone()));
        let cancelling = async {
            tokio::task::yield_now().await;
            cancel.cancel();
        };
        let ((came, _), ()) = tokio::join!(evaluating, cancelling);
        assert_eq!(reason(&came), &StopReason::Cancelled);
    }
}

#[tokio::test]
async fn refused_and_truncated() {
    let refused = wink_models::ModelResponse { stop: Stop::Refused, ..says("I will not.") };
    let (came, _) = evaluate(Listed::saying([refused]), Evaluation::new()).await;
    assert_eq!(reason(&came), &StopReason::Refused { text: "I will not.".into() });
    assert_eq!(came.unwrap_err().to_string(), "the model refused: I will not.");
    let cut = wink_models::ModelResponse { stop: Stop::Truncated, ..says("The answer i") };
    let (came, _) = evaluate(Listed::saying([cut]), Evaluation::new()).await;
    assert_eq!(reason(&came), &StopReason::Truncated { text: "The answer i".into() });
}

#[tokio::test]
async fn a_call_that_was_cut_off_has_no_effect() {
    let mut cut = calls(&[("note", "a"), ("note", "b")]);
    cut.stop = Stop::Truncated;
    let model = Listed::saying([cut, says("ok")]);
    let (came, session) = evaluate(model.clone(), Evaluation::new()).await;
    assert_eq!(came.unwrap().stats.calls, 1);
    assert_eq!(session.slice::<Note>().all().len(), 1);
    let asked = model.asked.lock().unwrap();
    let Message::Tools { answers } = &*asked[1].messages[1] else { panic!() };
    assert!(
        answers[1].text.starts_with("not run: the response reached its length limit"),
        "{}",
        answers[1].text
    );
}

#[data]
struct Login {
    user: String,
    password: wink_models::Secret<String>,
}

async fn log_in(params: Login, _: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let right = params.password.expose() == "hunter2";
    Ok(ToolResult::value(format!("{}: {right}", params.user)))
}

#[tokio::test]
async fn sensitive_arguments_are_not_in_the_log() {
    let section = Section::tools("tools", "Tools").tool(Tool::new("log_in", "Logs in.", log_in));
    let prompt = PromptTemplate::builder("tests", "login").section(section).build().unwrap().prompt();
    let arguments = r#"{"user": "me", "password": "hunter2"}"#;
    let mut first = calls(&[("log_in", "")]);
    first.calls[0].arguments = arguments.into();
    first.provider = Some(Arc::new(json!({ "items": [arguments] })));
    let model = Listed::saying([first.clone(), says("in")]);
    let session = Session::new();
    ModelAdapter::new(model.clone()).evaluate(&prompt, &session, Evaluation::new()).await.unwrap();
    // The tool has it, and the model is sent what it said.
    assert_eq!(&*session.slice::<ToolInvoked>().latest().unwrap().rendered, "me: true");
    let expected = Message::Assistant { text: "".into(), calls: first.calls, provider: first.provider };
    assert_eq!(*model.asked.lock().unwrap()[1].messages[0], expected);
    // The log has neither form of it.
    let log = session.snapshot_of(wink::session::SnapshotScope::IncludeAll).to_json().unwrap().to_string();
    assert!(log.contains("log_in") && log.contains("***") && !log.contains("hunter2"), "{log}");
}
