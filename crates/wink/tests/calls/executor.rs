//! The executor: what comes of a call, whatever its handler does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use wink::executor::{Answer, Escalation, Executor, Outcome, ToolCall};
use wink::filesystem::FilesystemExt;
use wink::limits::{
    Budget, BudgetTracker, CancelToken, Cancellation, Deadline, DeadlineExceededError, Heartbeat, TokenUsage,
};
use wink::prelude::*;
use wink::prompt::{SectionVisibility, record_expansion};
use wink::resource::{Binding, BoxError, ResourceRegistry, ResourceSnapshot, Snapshotable};
use wink::session::{
    Ending, LoggedAnswer, LoggedDecision, LoggedParams, LoggedValue, RunContext, ToolInvoked,
};
use wink::testing::{FakeClock, Script, StoreOp};
use wink::tool::secret::Secret;
use wink::tool::{
    AdapterInfo, Phase, PromptEvaluationError, ToolValidationError, VisibilityExpansionRequired,
};

use crate::support::{self, End, KINDS, Kind, Note, Scratch, World};

/// A world with one more tool.
async fn world_with<P, R>(tool: Tool<P, R>) -> World
where
    P: wink::tool::ToolData,
    R: wink::tool::ToolData,
{
    World::with(Kind::Memory, |section| section.tool(tool), |builder| builder).await
}

async fn run(world: &World, tool: &str) -> Outcome {
    world.executor.call(world.call(tool, json!({}))).await
}

#[derive(Debug, thiserror::Error)]
#[error("the disk is full\nsector 7")]
struct DiskFull(#[source] std::io::Error);

// case 39
#[tokio::test]
async fn a_handlers_error_is_the_answer_and_its_causes_are_in_the_event() {
    async fn told(_: (), _: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        Err(DiskFull(std::io::Error::other("no space left")).into())
    }
    let world = world_with(Tool::new("store", "Store it.", told)).await;
    let outcome = run(&world, "fail").await;
    assert_eq!((outcome.text(), outcome.is_success()), ("boom", false));
    assert_eq!((&*outcome.event.tool, &outcome.event.value), ("fail", &LoggedValue::None));
    assert_eq!(outcome.event.error_chain, ["boom"]);
    let outcome = run(&world, "store").await;
    assert_eq!(outcome.text(), "the disk is full", "the model sees the top line");
    assert_eq!(outcome.event.error_chain, ["the disk is full\nsector 7", "no space left"]);
}

// cases 40, 41
#[tokio::test]
async fn a_validation_error_in_the_handler_is_a_failed_result_and_rolled_back() {
    async fn query(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        let _ = cx.session().dispatch(Note { text: "changed".into() })?;
        cx.filesystem().await?.write_text("old.txt", "changed").await?;
        Err(ToolValidationError("invalid query".into()).into())
    }
    let world = world_with(Tool::new("query", "Ask.", query)).await;
    let before = world.dump().await;
    let outcome = run(&world, "query").await;
    assert_eq!((outcome.text(), outcome.is_success()), ("invalid query", false));
    assert!(outcome.escalation.is_none());
    assert_eq!(world.dump().await, before);
    assert_eq!(world.files.read_text("old.txt").await.unwrap(), "old");
}

// case 42
#[tokio::test]
async fn a_panic_is_a_failed_result_that_names_the_tool() {
    let world = World::new(Kind::Memory).await;
    let before = world.dump().await;
    let outcome = run(&world, "boom").await;
    assert_eq!(outcome.text(), "boom failed unexpectedly (it panicked); nothing was changed");
    assert_eq!(
        (outcome.event.ending, &outcome.event.error_chain[..]),
        (Ending::Panicked, &["panic: oops".to_owned()][..])
    );
    assert_eq!(world.dump().await, before);
    assert!(
        world.executor.call(world.call("note", json!({ "text": "x" }))).await.is_success(),
        "the runtime goes on"
    );
}

// case 43
#[tokio::test]
async fn a_deadline_error_of_a_handler_is_an_evaluation_error() {
    async fn late(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        let _ = cx.session().dispatch(Note { text: "changed".into() })?;
        Err(DeadlineExceededError { deadline: "2026-01-01T00:00:07Z".parse().unwrap() }.into())
    }
    let world = world_with(Tool::new("late", "Be late.", late)).await;
    let before = world.dump().await;
    let outcome = run(&world, "late").await;
    let Some(Escalation::Evaluation(error)) = &outcome.escalation else { panic!("{:?}", outcome.escalation) };
    assert_eq!((error.phase, error.deadline), (Phase::Tool, Some("2026-01-01T00:00:07Z".parse().unwrap())));
    assert_eq!(outcome.event.ending, Ending::Exhausted);
    assert!(outcome.text().contains("nothing was changed"), "{}", outcome.text());
    assert_eq!(world.dump().await, before);
}

// case 44
#[tokio::test]
async fn a_visibility_expansion_escalates_as_it_is() {
    fn asked_for() -> VisibilityExpansionRequired {
        VisibilityExpansionRequired { keys: vec!["a.b".into(), "c".into()], reason: "to see".into() }
    }
    fn says(key: &str, visibility: Visibility) -> SectionVisibility {
        SectionVisibility { key: key.to_owned(), visibility }
    }
    async fn open(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        let _ = cx.session().dispatch(Note { text: "changed".into() })?;
        let _ = cx.session().dispatch(says("c", Visibility::Full))?;
        let _ = cx.session().dispatch(says("d", Visibility::Summary))?;
        Err(asked_for().into())
    }
    for kind in KINDS {
        let tool = Tool::new("open", "Open.", open);
        let mut world = World::with(kind, |section| section.tool(tool), |builder| builder).await;
        let overrides = [says("a.b", Visibility::Summary), says("c", Visibility::Summary)];
        world.session.seed(overrides.clone()).unwrap();
        world.session.flush().await.unwrap();
        let before = world.dump().await;
        let outcome = run(&world, "open").await;
        let Some(Escalation::Visibility(asked)) = &outcome.escalation else {
            panic!("{:?}", outcome.escalation)
        };
        assert_eq!(asked, &asked_for());
        assert_eq!((outcome.text(), outcome.event.ending), ("opened a.b, c", Ending::Expanded));
        let said = |world: &World| -> Vec<_> {
            world
                .session
                .slice::<SectionVisibility>()
                .iter()
                .map(|said| SectionVisibility::clone(&said))
                .collect()
        };
        for _ in 0..2 {
            assert_eq!(world.dump().await, before);
            assert_eq!(said(&world), overrides, "what the session says of sections is as it was");
            world.reopen().await;
        }
        // Opening them is the affair of whoever drives the executor.
        assert!(record_expansion(&world.session, asked).is_ok());
        assert_eq!(said(&world), [says("a.b", Visibility::Full), says("c", Visibility::Full)]);
    }
}

// case 240b
#[tokio::test]
async fn an_expansion_makes_the_tools_of_the_section_available() {
    async fn hidden(_: (), _: &mut ToolContext) -> ToolResult<()> {
        ToolResult::done("found")
    }
    let manual = Section::tools("manual", "Manual")
        .summary("What it says.")
        .visibility(Visibility::Summary)
        .tool(Tool::new("hidden", "Be found.", hidden));
    let world = World::with(Kind::Memory, |section| section.child(manual), |builder| builder).await;
    let outcomes = Script::new()
        .call("hidden", json!({}))
        .expect_failed("tools.manual")
        .call("open_sections", json!({ "reason": "to look", "section_keys": ["tools.manual"] }))
        .expect_expansion()
        .expect_text("opened tools.manual")
        .call("hidden", json!({}))
        .expect_ok()
        .expect_text("found")
        .run(&world.executor)
        .await;
    assert_eq!(world.log(), outcomes.iter().map(|outcome| Arc::clone(&outcome.event)).collect::<Vec<_>>());
}

// case 45
#[tokio::test]
async fn an_evaluation_error_escalates_unchanged() {
    let world = World::new(Kind::Memory).await;
    let before = world.dump().await;
    let outcome = run(&world, "escalate").await;
    let Some(Escalation::Evaluation(error)) = &outcome.escalation else { panic!("{:?}", outcome.escalation) };
    let raised = PromptEvaluationError { phase: Phase::Tool, message: "enough".into(), deadline: None };
    assert_eq!(error, &raised);
    assert_eq!(outcome.event.ending, Ending::Escalated);
    assert_eq!(world.dump().await, before);
}

// case 46
#[tokio::test]
async fn a_deadline_that_has_passed_keeps_the_handler_from_running() {
    let world = World::new(Kind::Memory).await;
    let before = world.dump().await;
    world.clock.advance(support::DEADLINE);
    let outcome = world.executor.call(world.call("note", json!({ "text": "x" }))).await;
    let Some(Escalation::Evaluation(error)) = &outcome.escalation else { panic!("{:?}", outcome.escalation) };
    let deadline = support::start().checked_add(support::DEADLINE).unwrap();
    assert_eq!((error.phase, error.deadline), (Phase::Tool, Some(deadline)));
    assert_eq!((outcome.event.ending, outcome.answer.success), (Ending::Exhausted, false));
    assert_eq!(world.dump().await, before);
}

#[tokio::test]
async fn a_budget_that_is_used_up_keeps_the_handler_from_running() {
    let budget = Arc::new(BudgetTracker::new(Budget::total(10).unwrap()));
    let tracker = Arc::clone(&budget);
    let world = World::with(Kind::Memory, |section| section, |builder| builder.budget(tracker)).await;
    budget.record("one", TokenUsage::new(5, 5));
    let allowed = world.executor.call(world.call("note", json!({ "text": "x" }))).await;
    assert!(allowed.is_success(), "exactly at the limit is within");
    assert_eq!(allowed.event.usage, Some(TokenUsage::new(5, 5)));
    budget.record("two", TokenUsage::new(0, 1));
    let outcome = world.executor.call(world.call("note", json!({ "text": "x" }))).await;
    let Some(Escalation::Evaluation(error)) = &outcome.escalation else { panic!("{:?}", outcome.escalation) };
    assert_eq!((error.phase, error.deadline), (Phase::Tool, None));
    assert_eq!(world.session.slice::<Note>().len(), 2);
}

// case 49
#[tokio::test]
async fn the_event_says_everything() {
    let run = RunContext { run_id: Some("r".into()), request_id: Some("q".into()), ..RunContext::default() };
    let budget = Arc::new(BudgetTracker::new(Budget::total(100).unwrap()));
    budget.record("e", TokenUsage::new(3, 4));
    let (given, tracker) = (run.clone(), Arc::clone(&budget));
    let world = World::with(
        Kind::Memory,
        |section| section,
        |builder| builder.adapter(AdapterInfo::new("scripted")).run(given).budget(tracker),
    )
    .await;
    let arguments = r#"{ "text": "hi" }"#;
    let outcome = world.executor.call(ToolCall::new("c1", "note", arguments).attempt(2)).await;
    let event = Arc::clone(&outcome.event);
    let value = Arc::new(Note { text: "hi".into() });
    let expected = ToolInvoked {
        id: event.id,
        call_id: "c1".into(),
        tool: "note".into(),
        prompt: "tests/world".into(),
        adapter: "scripted".into(),
        session: "the-session".into(),
        run: Arc::new(run),
        time: support::start(),
        duration: Duration::ZERO,
        attempt: 2,
        request: None,
        params: LoggedParams::Accepted(arguments.into()),
        ending: Ending::Succeeded,
        success: true,
        message: "noted".into(),
        value: LoggedValue::Typed(value),
        value_hidden: false,
        rendered: "noted\n\n{\"text\":\"hi\"}".into(),
        error_chain: Vec::new(),
        decisions: ["tools/denies/0", "tools/remembers/0"]
            .map(|policy| LoggedDecision { policy: policy.into(), answer: LoggedAnswer::Allow })
            .into(),
        approvers: Vec::new(),
        replayed: false,
        usage: Some(TokenUsage::new(3, 4)),
    };
    assert_eq!(*event, expected);
    let answer = Answer {
        call_id: "c1".into(),
        tool: "note".into(),
        text: "noted\n\n{\"text\":\"hi\"}".into(),
        success: true,
    };
    assert_eq!(outcome.answer, answer);
    assert_eq!(world.log(), [event]);
}

// case 50
#[tokio::test]
async fn a_batch_goes_on_after_a_failure_and_stops_at_an_escalation() {
    let world = World::new(Kind::Memory).await;
    let note = |text: &str| world.call("note", json!({ "text": text }));
    let calls = vec![note("one"), world.call("notte", json!({})), note("three")];
    let ids: Vec<_> = calls.iter().map(|call| Arc::clone(&call.id)).collect();
    let outcomes = world.executor.batch(calls).await;
    assert_eq!(outcomes.iter().map(|outcome| Arc::clone(&outcome.answer.call_id)).collect::<Vec<_>>(), ids);
    assert_eq!(outcomes.iter().map(Outcome::is_success).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(notes(&world), ["before", "one", "three"]);

    let outcomes =
        world.executor.batch(vec![note("four"), world.call("escalate", json!({})), note("six")]).await;
    let endings: Vec<_> = outcomes.iter().map(|outcome| outcome.event.ending).collect();
    assert_eq!(endings, [Ending::Succeeded, Ending::Escalated, Ending::NotRun]);
    assert_eq!(outcomes[2].text(), "not run: escalate ended the turn before it");
    assert_eq!(notes(&world), ["before", "one", "three", "four"]);
    assert_eq!(world.log().len(), 6);
}

fn notes(world: &World) -> Vec<String> {
    world.session.slice::<Note>().iter().map(|note| note.text.clone()).collect()
}

// case 51
#[tokio::test]
async fn the_calls_of_a_batch_see_what_came_before() {
    async fn count(_: (), cx: &mut ToolContext) -> Result<ToolResult<usize>, ToolError> {
        let seen = cx.session().slice::<Scratch>()?.len();
        let text = cx.filesystem().await?.read_text("old.txt").await?;
        cx.filesystem().await?.write_text("old.txt", &format!("{text}+")).await?;
        let _ = cx.session().dispatch(Scratch { line: u32::try_from(seen)? })?;
        tokio::task::yield_now().await;
        Ok(ToolResult::ok(seen, text))
    }
    let world = world_with(Tool::new("count", "Count.", count)).await;
    let outcomes = world.executor.batch((0..4).map(|_| world.call("count", json!({}))).collect()).await;
    let texts: Vec<_> = outcomes.iter().map(Outcome::text).collect();
    assert_eq!(texts, ["old\n\n2", "old+\n\n3", "old++\n\n4", "old+++\n\n5"]);
    assert_eq!(world.log(), outcomes.iter().map(|outcome| Arc::clone(&outcome.event)).collect::<Vec<_>>());
}

// case 58
#[tokio::test]
async fn there_is_a_beat_before_and_after_every_call() {
    async fn beats(_: (), cx: &mut ToolContext) -> ToolResult<()> {
        cx.beat();
        ToolResult::done("")
    }
    let heartbeat = Arc::new(Heartbeat::new(Arc::new(FakeClock::new(support::start()))));
    let given = Arc::clone(&heartbeat);
    let tool = Tool::new("beats", "Beat.", beats);
    let world =
        World::with(Kind::Memory, |section| section.tool(tool), |builder| builder.heartbeat(given)).await;
    for (tool, more) in [("fail", 2), ("beats", 3), ("unknown", 2), ("denied", 2), ("boom", 2)] {
        let before = heartbeat.beats();
        drop(run(&world, tool).await);
        assert_eq!(heartbeat.beats() - before, more, "{tool}");
    }
}

// case 59
#[tokio::test]
async fn a_beat_without_a_heartbeat_is_nothing() {
    async fn beats(_: (), cx: &mut ToolContext) -> ToolResult<()> {
        cx.beat();
        cx.progress(0.5, Some(1.0), "half");
        cx.partial_output("some");
        ToolResult::done("alive")
    }
    let world = world_with(Tool::new("beats", "Beat.", beats)).await;
    assert_eq!(run(&world, "beats").await.text(), "alive");
}

/// What a handler was lent, for somebody outside.
#[derive(Default)]
struct Lent(Mutex<Option<Cancellation>>, tokio::sync::Notify);

#[tokio::test]
async fn a_handler_listens_to_its_own_cancellation_and_to_the_executors() {
    async fn lend(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        let lent = cx.resource::<Lent>().await?;
        assert!(!cx.is_cancelled() && !cx.cancellation().is_cancelled());
        *lent.0.lock().unwrap() = Some(cx.cancellation());
        lent.1.notify_one();
        std::future::pending().await
    }
    for own in [true, false] {
        let section = Section::tools("tools", "Tools").tool(Tool::new("lend", "Lend.", lend));
        let prompt = PromptTemplate::builder("tests", "cancel").section(section).build().unwrap().prompt();
        let lent = Arc::new(Lent::default());
        let resources = ResourceRegistry::of((Binding::instance(Arc::clone(&lent)),)).unwrap();
        let builder = Executor::builder(&prompt, &Session::new()).resources(resources);
        let executor = builder.open().await.unwrap();
        let (token, calling) = (CancelToken::new(), executor.clone());
        let given = token.clone();
        let call =
            tokio::spawn(
                async move { calling.call_cancellable(ToolCall::new("c", "lend", ""), given).await },
            );
        lent.1.notified().await;
        let listening = lent.0.lock().unwrap().take().unwrap();
        let heard = tokio::spawn({
            let listening = listening.clone();
            async move { listening.cancelled().await }
        });
        assert!(!listening.is_cancelled());
        if own {
            token.cancel()
        } else {
            executor.cancel()
        }
        heard.await.unwrap();
        assert!(listening.is_cancelled());
        assert_eq!(call.await.unwrap().event.ending, Ending::Cancelled);
    }
}

// case 60
#[tokio::test]
async fn the_context_has_what_the_executor_was_given() {
    struct Seen(Mutex<Option<Value>>);
    struct RateLimit(u32);
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Look {
        place: String,
        key: Secret<String>,
    }
    async fn look(_: Look, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        let seen = cx.resource::<Seen>().await?;
        let mut json = cx.to_json();
        json["sections"] = cx.prompt().sections().count().into();
        json["rendered"] = cx.rendered_prompt().is_some().into();
        assert_eq!(cx.budget().map(|budget| budget.used().total()), Some(42));
        assert_eq!(cx.request(), Some(&json!({ "model": "m" })));
        json["extra"] = cx.extra("color").cloned().into();
        json["rate"] = cx.adapter().get::<RateLimit>().map(|limit| limit.0).into();
        json["cancelled"] = cx.is_cancelled().into();
        json["session_id"] = json!(cx.session().id());
        *seen.0.lock().unwrap() = Some(json);
        Ok(ToolResult::done(""))
    }
    let clock = FakeClock::new(support::start());
    let section = Section::tools("tools", "Tools").tool(Tool::new("look", "Look.", look));
    let prompt = PromptTemplate::builder("tests", "context").section(section).build().unwrap().prompt();
    let session = Session::builder().id("mine").clock(Arc::new(clock.clone())).build();
    let seen = Arc::new(Seen(Mutex::new(None)));
    let run = RunContext { run_id: Some("run-1".into()), ..RunContext::default() };
    let budget = Arc::new(BudgetTracker::new(Budget::total(100).unwrap()));
    budget.record("e", TokenUsage::new(20, 22));
    let executor = Executor::builder(&prompt, &session)
        .resources(ResourceRegistry::of((Binding::instance(Arc::clone(&seen)),)).unwrap())
        .adapter(AdapterInfo::new("scripted").capability("stream").utility(Arc::new(RateLimit(9))))
        .run(run.clone())
        .deadline(Deadline::after(Duration::from_secs(60), &clock).unwrap())
        .budget(budget)
        .request(json!({ "model": "m" }))
        .extra("color", json!("blue"))
        .open()
        .await
        .unwrap();
    let arguments = r#"{"place": "here", "key": "geheim"}"#;
    let call = ToolCall::new("c", "look", arguments).attempt(3).parent_message("m-1");
    let outcome = executor.call(call).await;
    assert!(outcome.is_success(), "{}", outcome.text());
    let expected = json!({
        "version": 1,
        "prompt": "tests/context",
        "adapter": { "name": "scripted", "capabilities": ["stream"] },
        "session": "mine",
        "tool": "look",
        "arguments": { "place": "here", "key": "***" },
        "invocation": {
            "id": outcome.event.id, "call_id": "c", "time": support::start(), "attempt": 3, "parent_message": "m-1",
        },
        "idempotency_key": null,
        "deadline": "2026-01-01T00:01:00Z",
        "budget": {
            "limits": { "max_total_tokens": 100 },
            "used": { "input_tokens": 20, "output_tokens": 22, "cached_tokens": 0 },
        },
        "request": { "model": "m" },
        "run": run,
        "extras": { "color": "blue" },
        "sections": 1,
        "rendered": true,
        "extra": "blue",
        "rate": 9,
        "cancelled": false,
        "session_id": "mine",
    });
    assert_eq!(seen.0.lock().unwrap().take(), Some(expected));
}

/// A resource that can be changed, and not be put back.
struct Concrete(Mutex<u32>);

impl Snapshotable for Concrete {
    fn snapshot(&self) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(*self.0.lock().unwrap()))
    }

    fn restore(&self, _: &ResourceSnapshot) -> Result<(), BoxError> {
        Err("it has set".into())
    }

    fn fork(&self) -> Result<Self, BoxError> {
        Ok(Self(Mutex::new(*self.0.lock().unwrap())))
    }

    fn merge(&self, fork: &Self, _: &ResourceSnapshot) -> Result<(), BoxError> {
        *self.0.lock().unwrap() = *fork.0.lock().unwrap();
        Ok(())
    }

    fn decode(&self, _: &Value) -> Result<ResourceSnapshot, BoxError> {
        Err("never stored".into())
    }
}

// case 61
#[tokio::test]
async fn a_restore_that_fails_is_an_escalation_of_its_own() {
    async fn pour(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        *cx.resource::<Concrete>().await?.0.lock().unwrap() += 1;
        Ok(ToolResult::done("poured"))
    }
    let mut world = world_with(Tool::new("pour", "Pour.", pour)).await;
    let resources = ResourceRegistry::of((
        Binding::instance(Arc::new(Concrete(Mutex::new(0)))).snapshotable(),
        Binding::filesystem(Arc::clone(&world.files)),
    ));
    let executor = Executor::builder(&world.prompt, &world.session).resources(resources.unwrap());
    world.executor = executor.open().await.unwrap();
    world.store.fail(StoreOp::Commit, 1);
    let outcome = run(&world, "pour").await;
    let Some(Escalation::Restore(error)) = &outcome.escalation else { panic!("{:?}", outcome.escalation) };
    assert!(error.reason.contains("it has set"), "{error}");
    assert_eq!((outcome.event.ending, outcome.is_success()), (Ending::NotRestored, false));
    assert!(!outcome.text().contains("nothing was changed"), "{}", outcome.text());
    assert_eq!(world.log().len(), 1);
}

// cases 73, 74, 75, 77
#[tokio::test]
async fn what_is_kept_of_a_call() {
    let world = World::new(Kind::Memory).await;
    let before = world.dump().await;
    for tool in ["refuse", "fail"] {
        let outcome = run(&world, tool).await;
        assert!(!outcome.is_success());
        assert_eq!(world.dump().await, before, "{tool}");
        assert_eq!(world.log().last(), Some(&outcome.event), "{tool}: LOG keeps the event");
    }
    let refused = &world.log()[0];
    assert_eq!(refused.value.to_json(), json!({ "effects": 1 }), "a failed result's payload is for the log");
    assert_eq!(&*refused.rendered, "not today");
    assert!(world.session.slice::<support::Receipt>().is_empty(), "and not for slices");
    assert!(world.executor.call(world.effects(1, End::Well)).await.is_success());
    assert_eq!(notes(&world), ["before", "appended"]);
    assert_eq!(world.session.slice::<support::Receipt>().len(), 1);
}

/// Five things escalate, beside an answer that says what remains; everything else is an answer alone.
#[tokio::test]
async fn five_things_escalate_beside_their_answer_and_nothing_else_does() {
    let budget = Arc::new(BudgetTracker::new(Budget::total(10).unwrap()));
    let tracker = Arc::clone(&budget);
    let closed = Section::markdown("manual", "Manual")
        .body("All of it.")
        .summary("What it says.")
        .visibility(Visibility::Summary);
    let world =
        World::with(Kind::Bytes, |section| section.child(closed), |builder| builder.budget(tracker)).await;
    let note = || world.call("note", json!({ "text": "x" }));
    let before = world.dump().await;

    for tool in ["unknown", "note", "fail", "refuse", "invalid", "denied", "boom"] {
        let outcome = run(&world, tool).await;
        assert!(!outcome.is_success() && outcome.escalation.is_none(), "{tool}: {:?}", outcome.escalation);
    }

    // A visibility expansion.
    let keys = json!({ "reason": "to look", "section_keys": ["tools.manual"] });
    let opened = world.executor.call(world.call("open_sections", keys)).await;
    assert!(matches!(opened.escalation, Some(Escalation::Visibility(_))), "{:?}", opened.escalation);
    assert_eq!(opened.text(), "opened tools.manual");

    // An evaluation error that a handler raises.
    let raised = Script::new().call("escalate", json!({})).expect_escalation().run(&world.executor).await;
    assert!(matches!(raised[0].escalation, Some(Escalation::Evaluation(_))));
    assert_eq!(raised[0].text(), "escalate was stopped: enough; nothing was changed");

    // Cancellation.
    let token = CancelToken::new();
    token.cancel();
    let cancelled = world.executor.call_cancellable(note(), token).await;
    assert!(matches!(cancelled.escalation, Some(Escalation::Cancelled)), "{:?}", cancelled.escalation);
    assert_eq!(cancelled.text(), "note was cancelled; nothing was changed");

    // The runtime's own ground.
    world.store.fail(StoreOp::Begin, 1);
    let unstored = world.executor.call(note()).await;
    assert!(matches!(unstored.escalation, Some(Escalation::Store(_))), "{:?}", unstored.escalation);
    assert!(unstored.text().ends_with("nothing was changed"), "{}", unstored.text());

    // An exhausted budget or deadline.
    budget.record("all", TokenUsage::new(6, 5));
    let spent = world.executor.call(note()).await;
    assert!(matches!(spent.escalation, Some(Escalation::Evaluation(_))), "{:?}", spent.escalation);
    assert!(spent.text().ends_with("nothing was changed"), "{}", spent.text());

    assert_eq!(world.dump().await, before);
    assert_eq!(world.log().len(), 12, "and each has its event");
}
