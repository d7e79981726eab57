//! Rules that no other behaviour's tests show: where events come from, what is frozen, what is never touched.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints exempt tests, not their helpers"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use wink::BoxFuture;
use wink::executor::{Approval, ApprovalRequest, Approver, DryRun, OpenError, PolicyOpinion};
use wink::limits::{BudgetExceededError, Clock, DeadlineExceededError};
use wink::policy::{ApprovalPolicy, Decision, QuotaPolicy, SequentialDependencyPolicy};
use wink::prelude::*;
use wink::prompt::{PromptRenderError, PromptValidationError};
use wink::resource::{Binding, BoxError, Shared};
use wink::session::{EventSource, SliceOp, ToolInvoked};
use wink::testing::{FakeClock, TestContext, call_handler};
use wink::tool::{
    IntoTool, Invocation, Phase, PromptEvaluationError, ToolValidationError, VisibilityExpansionRequired,
};
use wink::transaction::RestoreFailedError;

use crate::hearing::hear;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Note {
    text: String,
}

impl SliceType for Note {
    const NAME: &'static str = "note";
}

async fn note(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Note { text: "said".into() })?;
    Ok(ToolResult::done("noted"))
}

fn prompt(section: Section) -> Prompt {
    PromptTemplate::builder("tests", "rules").section(section).build().unwrap().prompt()
}

#[tokio::test]
async fn events_of_a_handler_say_where_they_come_from() {
    let prompt = prompt(Section::tools("tools", "Tools").tool(Tool::new("note", "Note.", note)));
    let clock = FakeClock::new("2026-01-01T00:00:00Z".parse().unwrap());
    let session = Session::builder().id("mine").clock(Arc::new(clock.clone())).build();
    let heard: Arc<Mutex<Vec<EventSource>>> = Arc::default();
    let hearing = Arc::clone(&heard);
    let _ = session.dispatcher().subscribe(move |_: &Note, source| {
        hearing.lock().unwrap().push(source.clone());
        Ok(())
    });
    let executor = Executor::open(&prompt, &session).await.unwrap();
    let outcome = executor.call(ToolCall::new("1", "note", "")).await;
    let _ = session.dispatch(Note { text: "from outside".into() });

    let inside = EventSource {
        session: "mine".into(),
        tool: Some("note".into()),
        invocation: Some(outcome.event.id),
        time: clock.now(),
    };
    let outside = EventSource { tool: None, invocation: None, ..inside.clone() };
    assert_eq!(*heard.lock().unwrap(), [inside, outside]);
}

#[tokio::test]
async fn extras_have_snake_case_keys() {
    let prompt = prompt(Section::tools("tools", "Tools").tool(Tool::new("note", "Note.", note)));
    let session = Session::new();
    for (key, fits) in [("user_id2", true), ("Color", false), ("a-b", false), ("", false), ("2x", false)] {
        let opened = Executor::builder(&prompt, &session).extra(key, json!(1)).open().await;
        match opened {
            Ok(_) => assert!(fits, "{key}"),
            Err(OpenError::ExtraKey(refused)) => assert_eq!((refused.as_str(), fits), (key, false)),
            Err(other) => panic!("{key}: {other}"),
        }
    }
}

#[test]
fn listing_never_rebuilds_a_contract() {
    let tool = Tool::new("note", "Note.", note).into_tool().unwrap();
    let prompt = prompt(Section::tools("tools", "Tools").tool(tool.clone()));
    let session = Session::new();
    for _ in 0..2 {
        let listed = prompt.tools(&session).unwrap();
        let rendered = prompt.render(&session).unwrap();
        let found = rendered.find("note").unwrap();
        for contract in [listed[0].contract(), found.tool.contract()] {
            assert!(std::ptr::eq(contract, tool.contract()), "the same contract, and not an equal one");
            assert!(std::ptr::eq(contract.schema_text(), tool.contract().schema_text()));
        }
    }
}

#[tokio::test]
async fn a_handler_can_be_called_alone() {
    let bench = TestContext::new().unwrap();
    let mut cx = bench.open().await.unwrap();
    let result = call_handler(&note, (), &mut *cx).await.unwrap();
    assert_eq!(result, ToolResult::done("noted"));
    assert!(bench.session().slice::<Note>().is_empty(), "not before it is committed");
    cx.commit().await.unwrap();
    assert_eq!(bench.session().slice::<Note>().len(), 1);

    // In a session that the test has already.
    let mine = Session::new();
    let mut cx = TestContext::new().unwrap().with_session(&mine).open().await.unwrap();
    assert_eq!(call_handler(&note, (), &mut *cx).await.unwrap(), ToolResult::done("noted"));
    cx.commit().await.unwrap();
    assert_eq!(mine.slice::<Note>().len(), 1);

    let tool = Tool::new("note", "Note.", note).into_tool().unwrap();
    let prompt = prompt(Section::tools("tools", "Tools").tool(tool.clone()));
    let session = Session::new();
    let invocation = Invocation::new("call-1", &**session.clock());
    let mut cx = prompt.build_tool_context(&session, &tool, invocation).open().await.unwrap();
    assert_eq!(call_handler(&note, (), &mut *cx).await.unwrap(), ToolResult::done("noted"));
    drop(cx);
    assert!(session.slice::<Note>().is_empty());
    assert!(session.slice::<ToolInvoked>().is_empty(), "no executor, no event");
}

#[tokio::test]
async fn a_dry_run_says_what_every_policy_would_answer() {
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("note", "Note.", note))
        .policy(SequentialDependencyPolicy::new().require("note", ["think"]))
        .policy(QuotaPolicy::new().tool("note", 1))
        .policy(ApprovalPolicy::new(["note"]));
    let prompt = prompt(section);
    let session = Session::new();
    let executor = Executor::open(&prompt, &session).await.unwrap();
    let opinion = |policy: &str, kind, decision| PolicyOpinion { policy: policy.into(), kind, decision };
    let missing =
        "Cannot call 'note' - missing required tools: think\nCall these tools first, then retry note.";
    let dry = executor.dry_run(ToolCall::new("1", "note", "")).await;
    let keys: Vec<&str> = dry.opinions.iter().map(|opinion| &*opinion.policy).collect();
    let expected = DryRun {
        refused: None,
        opinions: vec![
            opinion(keys[0], "sequential_dependency", Decision::deny(missing)),
            opinion(keys[1], "quota", Decision::Allow),
            opinion(keys[2], "approval", Decision::Ask("Allow 'note'?".into())),
        ],
    };
    assert_eq!(dry, expected);
    assert_eq!(dry.decisive(), expected.opinions.first());
    let refused = executor.dry_run(ToolCall::new("2", "note", "[1]")).await;
    assert!(refused.refused.is_some() && refused.opinions.is_empty() && !refused.would_run());
    assert!(session.slice::<ToolInvoked>().is_empty() && session.slice::<Note>().is_empty());
}

/// A clock that counts how often it is read.
struct Watched {
    clock: FakeClock,
    reads: AtomicUsize,
}

impl Clock for Watched {
    fn now(&self) -> Timestamp {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.clock.now()
    }

    fn monotonic(&self) -> Duration {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.clock.monotonic()
    }

    fn sleep_until(&self, until: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(until)
    }
}

#[test]
fn rendering_reads_no_clock_and_changes_nothing() {
    let section = Section::markdown("notes", "Notes")
        .body("None yet.")
        .body_from(|session| session.slice::<Note>().latest().map(|note| note.text.clone()))
        .tool(Tool::new("note", "Note.", note).example("A note.", (), ()));
    let prompt = prompt(section);
    let clock =
        Arc::new(Watched { clock: FakeClock::new(Timestamp::UNIX_EPOCH), reads: AtomicUsize::new(0) });
    let session = Session::builder().id("mine").clock(Arc::clone(&clock) as Arc<dyn Clock>).build();
    let _ = session.dispatch(Note { text: "Milk.".into() });
    // The first rendering makes slices known to the session by asking for them; that is all it does.
    let zeroth = prompt.render(&session).unwrap();
    let before = session.snapshot().to_json().unwrap();
    let reads = clock.reads.load(Ordering::SeqCst);
    let (first, second) = (prompt.render(&session).unwrap(), prompt.render(&session).unwrap());
    assert_eq!(clock.reads.load(Ordering::SeqCst), reads);
    assert_eq!((zeroth.text(), first.text()), (first.text(), second.text()));
    let after = session.snapshot().to_json().unwrap();
    assert_eq!(after["slices"], before["slices"]);
}

/// Says yes after an hour.
struct Slow(FakeClock);

impl Approver for Slow {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        Box::pin(async {
            self.0.sleep_until(self.0.monotonic() + Duration::from_secs(3600)).await;
            Ok(Approval::Approved { by: "ada".into() })
        })
    }
}

#[tokio::test]
async fn waiting_for_an_approver_is_not_a_policys_time() {
    let tool = Tool::new("note", "Note.", note);
    let prompt = prompt(Section::tools("tools", "Tools").tool(tool).policy(ApprovalPolicy::all_tools()));
    let clock = FakeClock::new(Timestamp::UNIX_EPOCH);
    let session = Session::builder().clock(Arc::new(clock.clone())).build();
    let executor =
        Executor::builder(&prompt, &session).approver(Arc::new(Slow(clock.clone()))).open().await.unwrap();
    let thinking = async {
        clock.until_sleeping(1).await;
        clock.advance(Duration::from_secs(3600));
    };
    let (outcome, ()) = tokio::join!(executor.call(ToolCall::new("1", "note", "")), thinking);
    assert_eq!((outcome.text(), &outcome.event.approvers[..]), ("noted", &["ada".into()][..]));
}

/// Keeps the texts of events.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if matches!(field.name(), "tool" | "message") {
            self.0.push_str(&format!("{value:?} "));
        }
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_value_that_is_shown_as_json_is_noted_once_when_the_tool_is_made() {
    async fn value(_: (), _: &mut ToolContext) -> ToolResult<Note> {
        ToolResult::value(Note { text: "hi".into() })
    }
    let heard = Heard::default();
    let _default = hear(heard.clone());
    let as_json = || heard.0.lock().unwrap().iter().filter(|text| text.contains("as JSON")).count();
    let tools = Section::tools("tools", "Tools")
        .tool(Tool::new("value", "A value.", value))
        .tool(Tool::new("text", "A value.", value).render_with(|note| Ok(note.text.clone())));
    let prompt = prompt(tools);
    assert_eq!(as_json(), 1, "{:?}", heard.0.lock().unwrap());
    let executor = Executor::open(&prompt, &Session::new()).await.unwrap();
    for (tool, text) in [("value", r#"{"text":"hi"}"#), ("text", "hi")] {
        assert_eq!(executor.call(ToolCall::new("1", tool, "")).await.text(), text);
    }
    assert_eq!(as_json(), 1);
}

/// How often the log was added to, by whether the call succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Tally {
    tool: String,
    success: bool,
}

impl SliceType for Tally {
    const NAME: &'static str = "rules.tally";
}

/// The same, in a LOG slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TallyLog(Tally);

impl SliceType for TallyLog {
    const NAME: &'static str = "rules.tally_log";
    const KIND: wink::session::SliceKind = wink::session::SliceKind::Log;
}

fn tally(event: &ToolInvoked) -> Tally {
    Tally { tool: event.tool.to_string(), success: event.success }
}

async fn pass_or_fail(fail: Fails, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let forged = cx.rendered_prompt().is_some() && cx.session().slice::<ToolInvoked>()?.latest().is_some();
    if forged {
        let again = cx.session().slice::<ToolInvoked>()?.latest().or_tell("there is one")?;
        assert!(cx.session().dispatch(ToolInvoked::clone(&again)).is_err(), "only the runtime records calls");
    }
    if fail.fail { Ok(ToolResult::error("no")) } else { Ok(ToolResult::done("yes")) }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Fails {
    fail: bool,
}

/// A call's event reaches STATE slices through their reducers when the call succeeds, and LOG slices always.
#[tokio::test]
async fn events_of_failed_calls_reach_log_slices_only() {
    let section = Section::tools("tools", "Tools").tool(Tool::new("try_it", "Try it.", pass_or_fail));
    let prompt = PromptTemplate::builder("rules", "events").section(section).build().unwrap().prompt();
    let session = Session::new();
    session.register::<ToolInvoked, Tally>(|_, event| Ok(SliceOp::Append(tally(event)))).unwrap();
    session
        .register::<ToolInvoked, TallyLog>(|_, event| Ok(SliceOp::Append(TallyLog(tally(event)))))
        .unwrap();
    assert!(session.register::<Tally, ToolInvoked>(|_, _| Ok(SliceOp::Keep)).is_err());
    let executor = Executor::open(&prompt, &session).await.unwrap();
    for (id, arguments) in [("1", r#"{"fail":false}"#), ("2", r#"{"fail":true}"#), ("3", r#"{"fail":false}"#)]
    {
        let outcome = executor.call(ToolCall::new(id, "try_it", arguments)).await;
        assert_eq!(outcome.is_success(), id != "2", "{}", outcome.text());
    }
    let did = |success| Tally { tool: "try_it".to_owned(), success };
    let tallies: Vec<Tally> = session.slice::<Tally>().iter().map(|one| Tally::clone(&one)).collect();
    assert_eq!(tallies, [did(true), did(true)]);
    let heard: Vec<Tally> = session.slice::<TallyLog>().iter().map(|one| one.0.clone()).collect();
    assert_eq!(heard, [did(true), did(false), did(true)]);
    assert_eq!(session.slice::<ToolInvoked>().len(), 3);

    // A success that a subscriber stops is a failure, and nobody hears of the success.
    session.dispatcher().subscribe::<ToolInvoked>(|_, _| Err("no more".to_owned()));
    let stopped = executor.call(ToolCall::new("4", "try_it", r#"{"fail":false}"#)).await;
    assert!(!stopped.is_success());
    assert_eq!(session.slice::<Tally>().len(), 2);
    let heard: Vec<Tally> = session.slice::<TallyLog>().iter().map(|one| one.0.clone()).collect();
    assert_eq!(heard, [did(true), did(false), did(true), did(false)]);
}

/// Arguments as deep as they may be are seen by policies as by the handler.
#[tokio::test]
async fn policies_see_arguments_of_any_depth() {
    let depth = 127;
    let deep = format!(r#"{{"amount":7,"note":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let schema = json!({ "type": "object", "properties": { "amount": { "type": "integer" }, "note": {} } });
    async fn pay(_: serde_json::Value, _: &mut ToolContext) -> ToolResult<serde_json::Value> {
        ToolResult::done("paid")
    }
    let policy = wink::policy::policy_fn("rules.amount", |call, _| match call.params.get("amount") {
        Some(_) => Decision::deny("seen"),
        None => Decision::Allow,
    });
    let section =
        Section::tools("tools", "Tools").tool(Tool::dynamic("pay", "Pay.", schema, pay)).policy(policy);
    let prompt = PromptTemplate::builder("rules", "depth").section(section).build().unwrap().prompt();
    let executor = Executor::open(&prompt, &Session::new()).await.unwrap();
    let outcome = executor.call(ToolCall::new("1", "pay", deep)).await;
    assert_eq!(outcome.text(), "seen");
}

#[tokio::test]
async fn a_handler_sees_the_successes_before_it_and_resources_that_need_not_be_there() {
    async fn look(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        let before = cx.session().calls("look")?.map(|stat| stat.count);
        let there = cx.resource_optional::<Shared<i64>>().await?.map(|number| *number.read());
        let missing = cx.resource_optional::<Shared<u8>>().await?.map(|number| *number.read());
        Ok(ToolResult::done(format!("{before:?} {there:?} {missing:?}")))
    }
    let number = Binding::instance(Arc::new(Shared::new(7_i64))).snapshotable();
    let section = Section::tools("tools", "Tools").tool(Tool::new("look", "Look.", look)).resource(number);
    let executor = Executor::open(&prompt(section), &Session::new()).await.unwrap();
    let mut texts = Vec::new();
    for id in ["1", "2"] {
        texts.push(executor.call(ToolCall::new(id, "look", "")).await.text().to_owned());
    }
    assert_eq!(texts, ["None Some(7) None", "Some(1) Some(7) None"]);
}

/// Errors that callers tell apart have the names by which they are known.
#[test]
fn errors_are_known_by_name() {
    fn name<E: std::error::Error + Send + Sync + 'static>() -> &'static str {
        std::any::type_name::<E>().rsplit("::").next().unwrap_or_default()
    }
    let names = [
        name::<PromptValidationError>(),
        name::<PromptRenderError>(),
        name::<PromptEvaluationError>(),
        name::<ToolValidationError>(),
        name::<VisibilityExpansionRequired>(),
        name::<DeadlineExceededError>(),
        name::<BudgetExceededError>(),
        name::<RestoreFailedError>(),
    ];
    let expected = [
        "PromptValidationError",
        "PromptRenderError",
        "PromptEvaluationError",
        "ToolValidationError",
        "VisibilityExpansionRequired",
        "DeadlineExceededError",
        "BudgetExceededError",
        "RestoreFailedError",
    ];
    assert_eq!(names, expected);
    let error = PromptEvaluationError { phase: Phase::Tool, message: "enough".into(), deadline: None };
    assert_eq!(error.phase, Phase::Tool);
}

/// A reducer is given the slice and the event, and nothing else: no clock is read for it, and the same events come to
/// the same slices in another session, at another time.
#[test]
fn reducers_read_no_clock_and_come_to_the_same_again() {
    let reads_and_notes = |reducers: usize, time: &str| {
        let clock = FakeClock::new(time.parse().unwrap());
        let clock = Arc::new(Watched { clock, reads: AtomicUsize::new(0) });
        let session = Session::builder().clock(Arc::clone(&clock) as Arc<dyn Clock>).build();
        for _ in 0..reducers {
            let joins = |notes: &wink::session::SliceView<Note>, note: &Note| {
                let last = notes.latest().map(|last| last.text.clone()).unwrap_or_default();
                Ok(SliceOp::Append(Note { text: last + &note.text }))
            };
            session.register::<Note, Note>(joins).unwrap();
        }
        let before = clock.reads.load(Ordering::SeqCst);
        for text in ["a", "b", "c"] {
            assert!(session.dispatch(Note { text: text.into() }).is_ok());
        }
        let notes: Vec<String> = session.slice::<Note>().iter().map(|note| note.text.clone()).collect();
        (clock.reads.load(Ordering::SeqCst) - before, notes)
    };
    let (reads_of_one, once) = reads_and_notes(1, "2026-01-01T00:00:00Z");
    let (reads_of_nine, nine_times) = reads_and_notes(9, "2026-01-01T00:00:00Z");
    assert_eq!(reads_of_nine, reads_of_one, "however many reducers there are");
    assert_eq!(once, ["a", "ab", "abc"]);
    assert_eq!(reads_and_notes(9, "1999-12-31T23:59:59Z").1, nine_times);
}
