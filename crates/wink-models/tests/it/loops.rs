//! The loop, and agents inside of agents.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wink::limits::{Budget, BudgetDimension, BudgetExceededError, BudgetTracker, Clock, Deadline};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::session::{Dispatcher, PromptExecuted, RunContext, ToolInvoked};
use wink::testing::ByteStore;
use wink_models::{
    Adapter, Evaluation, LoopError, MainLoop, MainLoopConfig, ModelAdapter, Request, Share, StopReason,
    SubAgent, Terms,
};

use crate::support::{JumpClock, Listed, Note, calls, opens, prompt, resources, says};

/// Something that is bound, and can be closed.
struct Thing(&'static str);

#[data]
struct Nothing {}

async fn which(_: Nothing, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    Ok(ToolResult::value(cx.resource::<Thing>().await?.0.to_owned()))
}

/// Tells which object it is.
async fn at(_: Nothing, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    Ok(ToolResult::value(format!("{:p}", Arc::as_ptr(&cx.resource::<Thing>().await?))))
}

fn things() -> Prompt {
    let open = Section::markdown("open", "Open").body("Here.").tool(Tool::new("which", "Which.", which));
    let closed = Section::markdown("manual", "Manual")
        .body("There.")
        .summary("More.")
        .visibility(Visibility::Summary)
        .tool(Tool::new("there", "Where there.", at));
    let here = Section::tools("here", "Here").tool(Tool::new("at", "Where.", at));
    PromptTemplate::builder("tests", "things")
        .section(open)
        .section(closed)
        .section(here)
        .build()
        .unwrap()
        .prompt()
}

fn call(name: &str) -> wink_models::ModelResponse {
    let mut response = calls(&[(name, "")]);
    response.calls[0].arguments = "{}".into();
    response
}

fn thing(name: &'static str) -> ResourceRegistry {
    ResourceRegistry::of((Binding::instance(Arc::new(Thing(name))),)).unwrap()
}

fn answers(session: &Session) -> Vec<String> {
    session.slice::<ToolInvoked>().iter().map(|event| event.rendered.to_string()).collect()
}

// case 239
#[tokio::test]
async fn what_a_request_brings_wins_over_the_loop() {
    let clock = JumpClock::new();
    let model = || Listed::saying([call("which"), says("ok")]);
    let main_loop = |config| MainLoop::new(Arc::new(ModelAdapter::new(model())), Arc::default(), config);
    let config = || MainLoopConfig {
        resources: Some(thing("the loop's")),
        deadline: Some(Deadline::after(Duration::from_secs(10), &*clock).unwrap()),
        budget: Some(Budget::total(15).unwrap()),
        clock: Some(clock.clone()),
        ..MainLoopConfig::default()
    };
    // The loop's own: two responses of eleven tokens are too many.
    let LoopError { stopped, session } =
        main_loop(config()).execute(Request::new(&things())).await.unwrap_err();
    let exceeded = BudgetExceededError { dimension: BudgetDimension::TotalTokens, limit: 15, used: 22 };
    assert_eq!(stopped.reason, StopReason::Budget(exceeded));
    assert_eq!(answers(&session), ["the loop's"]);
    // The request's.
    let more = Arc::new(BudgetTracker::new(Budget::total(100).unwrap()));
    let request = Request::new(&things()).resources(thing("the request's")).budget(more.clone());
    let (response, session) = main_loop(config()).execute(request).await.unwrap();
    assert_eq!((&*response.text, answers(&session)), ("ok", vec!["the request's".to_owned()]));
    assert_eq!(more.used().total(), 22);
}

fn config_past(clock: &Arc<JumpClock>) -> MainLoopConfig {
    MainLoopConfig { resources: Some(thing("x")), clock: Some(clock.clone()), ..MainLoopConfig::default() }
}

// case 239
#[tokio::test]
async fn a_deadline_of_the_request_wins() {
    let clock = JumpClock::new();
    let early = Deadline::after(Duration::from_secs(2), &*clock).unwrap();
    let late = Deadline::after(Duration::from_secs(100), &*clock).unwrap();
    clock.sleep_until(Duration::from_secs(3)).await;
    let run = async |of_loop, of_request: Option<Deadline>| {
        let model = Listed::saying([says("ok")]);
        let config = MainLoopConfig { deadline: Some(of_loop), ..config_past(&clock) };
        let request = Request::new(&things());
        let request = match of_request {
            Some(deadline) => request.deadline(deadline),
            None => request,
        };
        let came =
            MainLoop::new(Arc::new(ModelAdapter::new(model)), Arc::default(), config).execute(request).await;
        came.map(|_| ()).map_err(|error| error.stopped.reason)
    };
    assert_eq!(run(early, None).await, Err(StopReason::Deadline(early.exceeded())));
    assert_eq!(run(early, Some(late)).await, Ok(()));
    assert_eq!(run(late, Some(early)).await, Err(StopReason::Deadline(early.exceeded())));
}

#[tokio::test]
async fn what_happens_in_the_sessions_of_a_loop_is_heard_by_its_dispatcher() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let dispatcher = Arc::new(Dispatcher::default());
    let hearing = Arc::clone(&heard);
    dispatcher.subscribe::<PromptExecuted>(move |event, source| {
        hearing.lock().unwrap().push((event.text.to_string(), source.session.clone()));
        Ok(())
    });
    let adapter = Arc::new(ModelAdapter::new(Listed::saying([says("one"), says("two")])));
    let main_loop = MainLoop::new(adapter, dispatcher, MainLoopConfig::default())
        .prepare(|session| drop(session.dispatch(Note { text: "prepared".into() })));
    let (_, first) = main_loop.execute(Request::new(&things())).await.unwrap();
    let (_, second) = main_loop.execute(Request::new(&things())).await.unwrap();
    assert_eq!(first.slice::<Note>().len(), 1);
    // In a session of the request's own, it is that one's which hears.
    main_loop.execute(Request::new(&things()).session(&Session::new())).await.unwrap();
    let expected = [("one".to_owned(), first.id().clone()), ("two".to_owned(), second.id().clone())];
    assert_eq!(*heard.lock().unwrap(), expected);
}

// cases 240, 240b
#[tokio::test]
async fn resources_of_a_request_are_the_same_after_an_expansion_and_are_not_closed() {
    let closed = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&closed);
    let bound = Binding::new(|_| Ok(Thing("made"))).on_close(move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(()))
    });
    let model = Listed::saying([call("at"), opens("manual"), call("there"), call("at"), says("ok")]);
    let watched = Arc::clone(&closed);
    let dispatcher = Arc::new(Dispatcher::default());
    dispatcher.subscribe::<ToolInvoked>(move |event, _| match watched.load(Ordering::SeqCst) {
        0 => Ok(()),
        _ => Err(format!("closed before {}", event.tool)),
    });
    let adapter = Arc::new(ModelAdapter::new(model.clone()));
    let main_loop = MainLoop::new(adapter, dispatcher, MainLoopConfig::default());
    let request = Request::new(&things()).resources(ResourceRegistry::of((bound,)).unwrap());
    let (response, session) = main_loop.execute(request).await.unwrap();
    assert_eq!(
        (&*response.text, closed.load(Ordering::SeqCst)),
        ("ok", 1),
        "what the run opened is closed at its end"
    );
    let answers = answers(&session);
    assert_eq!(answers.len(), 4);
    assert!(
        answers[0].starts_with("0x") && answers[2] == answers[0] && answers[3] == answers[0],
        "{answers:?}"
    );
}

fn with_helper(helper: &Arc<Listed>, share: Share) -> Prompt {
    let adapter: Arc<dyn Adapter> = Arc::new(ModelAdapter::new(helper.clone()));
    let tool = SubAgent::new(adapter, prompt()).share(share).tool("ask_helper", "Asks somebody who knows.");
    let section = Section::tools("help", "Help").tool(tool);
    PromptTemplate::builder("tests", "boss").section(section).build().unwrap().prompt()
}

fn asks() -> wink_models::ModelResponse {
    let mut response = calls(&[("ask_helper", "")]);
    response.calls[0].arguments = r#"{"task":"Find out."}"#.into();
    response
}

#[tokio::test]
async fn an_agent_is_a_tool_of_another() {
    let helper = Listed::saying([says("It is blue.")]);
    let boss = Listed::saying([asks(), says("Blue.")]);
    let tracker = Arc::new(BudgetTracker::new(Budget::total(100).unwrap()));
    let session = Session::new();
    let evaluation = Evaluation::new().budget(tracker.clone());
    let response = ModelAdapter::new(boss)
        .evaluate(&with_helper(&helper, Share::Whole), &session, evaluation)
        .await
        .unwrap();
    assert_eq!(&*response.text, "Blue.");
    assert_eq!(answers(&session), ["It is blue."]);
    assert_eq!(tracker.used().total(), 33, "its tokens are the caller's");
    assert_eq!(response.stats.usage, tracker.used());
    let children = session.children();
    assert_eq!(children.len(), 1);
    let executed = children[0].slice::<PromptExecuted>().latest().unwrap();
    assert_eq!(&*executed.text, "It is blue.");
    let run = executed.run.run_id.clone().unwrap();
    assert!(run.starts_with(&format!("{}/", response.run_id)), "{run}");
}

#[tokio::test]
async fn what_sub_runs_used_is_not_forgotten_when_a_run_is_taken_up() {
    for same_tracker in [false, true] {
        let store = Arc::new(ByteStore::new());
        let tracker = || Arc::new(BudgetTracker::new(Budget::total(100).unwrap()));
        let helper = Listed::saying([says("It is blue.")]);
        let prompt = with_helper(&helper, Share::Whole);
        let evaluation = |tracker: &Arc<BudgetTracker>| {
            let run = RunContext { run_id: Some("r".into()), ..RunContext::default() };
            Evaluation::new().run(run).budget(Arc::clone(tracker))
        };
        let first = tracker();
        let session = Session::builder().store(store.clone()).id("s").open().await.unwrap();
        let boss = ModelAdapter::new(Listed::saying([asks()]));
        let terms = Terms { max_turns: 1, ..Terms::default() };
        let stopped = boss.terms(terms).evaluate(&prompt, &session, evaluation(&first)).await.unwrap_err();
        assert_eq!((stopped.reason.name(), stopped.stats.usage.total()), ("turn_cap", 22));
        let second = if same_tracker { first } else { tracker() };
        let session = Session::builder().store(store).id("s").open().await.unwrap();
        let boss = ModelAdapter::new(Listed::saying([says("Blue.")]));
        let response = boss.evaluate(&prompt, &session, evaluation(&second).max_turns(2)).await.unwrap();
        assert_eq!((response.stats.usage.total(), second.used().total()), (33, 33), "{same_tracker}");
    }
}

#[tokio::test]
async fn a_sub_agent_has_its_share_and_no_more() {
    let helper = Listed::saying([calls(&[("note", "a")])]);
    for (share, asked) in [(Share::Tokens(30), 3), (Share::Percent(20), 2), (Share::Whole, 9)] {
        let boss = Listed::saying([asks(), says("No idea.")]);
        let tracker = Arc::new(BudgetTracker::new(Budget::total(100).unwrap()));
        let before = helper.asked();
        let evaluation = Evaluation::new().budget(tracker.clone()).resources(resources().0);
        let session = Session::new();
        let came = ModelAdapter::new(boss).evaluate(&with_helper(&helper, share), &session, evaluation).await;
        assert_eq!(helper.asked() - before, asked, "{share:?}");
        match share {
            Share::Whole => assert_eq!(came.unwrap_err().reason.name(), "budget"),
            Share::Tokens(_) | Share::Percent(_) => {
                assert_eq!(&*came.unwrap().text, "No idea.");
                let told = "the sub-agent came to no result: its share of the budget is used up";
                assert_eq!(answers(&session), [told]);
            }
        }
    }
}

/// Panics: when it is asked, or while it answers.
struct Panics(bool);

impl wink_models::Model for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn respond<'a>(
        &'a self,
        _: &'a wink_models::ModelRequest,
        _: &'a dyn wink_models::Stream,
        _: &'a wink::limits::CancelToken,
    ) -> wink::BoxFuture<'a, Result<wink_models::ModelResponse, wink_models::ModelError>> {
        match self.0 {
            true => panic!("at once"),
            false => Box::pin(async { panic!("later") }),
        }
    }
}

#[tokio::test]
async fn a_model_that_panics_is_the_end_of_the_run_and_of_nothing_else() {
    for at_once in [true, false] {
        let session = Session::new();
        let adapter = ModelAdapter::new(Arc::new(Panics(at_once)));
        let stopped = adapter.evaluate(&prompt(), &session, Evaluation::new()).await.unwrap_err();
        assert_eq!(
            stopped.reason,
            StopReason::Runtime("the model panicked when it was asked".to_owned()),
            "{at_once}"
        );
        // The run is there, and goes on with a model that answers.
        let run =
            wink::session::RunContext { run_id: Some(stopped.run_id.to_string()), ..Default::default() };
        let adapter = ModelAdapter::new(Listed::saying([says("ok")]));
        let response = adapter.evaluate(&prompt(), &session, Evaluation::new().run(run)).await.unwrap();
        assert_eq!((&*response.text, response.stats.turns), ("ok", 1));
    }
}

/// Panics when it is told what this says.
struct Shaky(&'static str);

impl Shaky {
    fn told(&self, what: &str) {
        assert_ne!(self.0, what);
    }
}

impl wink_models::Stream for Shaky {
    fn piece(&self, _: wink_models::Piece<'_>) {
        self.told("piece");
    }
}

impl wink_models::Watch for Shaky {
    fn stats(&self, _: wink_models::RunStats) {
        self.told("stats");
    }

    fn calls(&self, _: &[ToolCall]) {
        self.told("calls");
    }

    fn outcomes(&self, _: &[Outcome]) {
        self.told("outcomes");
    }

    fn failed(&self, _: &wink_models::ModelError) {
        self.told("failed");
    }

    fn waiting(&self, _: Duration) {
        self.told("waiting");
    }
}

#[tokio::test]
async fn whoever_watches_and_panics_ends_the_run_and_leaves_its_calls_whole() {
    // With what was noted by then: the call that was going on is finished.
    for (told, noted) in
        [("stats", 0), ("piece", 0), ("calls", 1), ("outcomes", 1), ("failed", 1), ("waiting", 1)]
    {
        let script = concat!(
            r#"{"tool_calls": [{"name": "note", "arguments": {"text": "a"}}]}"#,
            "\n",
            r#"{"error": {"kind": "throttled", "retry_after_ms": 10}}"#,
            "\n",
            r#"{"text": "ok"}"#
        );
        let model = Arc::new(wink_models::ScriptedModel::parse(script).unwrap());
        let session = Session::builder().clock(JumpClock::new()).build();
        let evaluation = Evaluation::new().resources(resources().0).watch(Arc::new(Shaky(told)));
        let stopped = ModelAdapter::new(model).evaluate(&prompt(), &session, evaluation).await.unwrap_err();
        assert_eq!(stopped.reason, StopReason::Runtime("who watched the run panicked".to_owned()), "{told}");
        assert_eq!(session.slice::<Note>().len(), noted, "{told}");
        assert_eq!(session.slice::<ToolInvoked>().len(), noted, "{told}");
    }
}

#[tokio::test]
async fn a_completion_checker_that_panics_is_not_taken_for_satisfied() {
    struct Broken;
    impl wink::feedback::CompletionChecker for Broken {
        fn check<'a>(
            &'a self,
            _: &'a wink::feedback::CompletionContext<'a>,
        ) -> wink::BoxFuture<'a, wink::feedback::Completion> {
            Box::pin(async { panic!("broken") })
        }
    }
    let section = Section::markdown("a", "A").body("Do it.");
    let template = PromptTemplate::builder("tests", "checked").section(section).completion(Broken);
    let session = Session::new();
    let adapter = ModelAdapter::new(Listed::saying([says("Done.")]));
    let came = adapter.evaluate(&template.build().unwrap().prompt(), &session, Evaluation::new()).await;
    let text = "whether the work is done could not be found out: a completion checker panicked";
    assert_eq!(came.unwrap_err().reason, StopReason::Runtime(text.to_owned()));
    assert!(session.slice::<PromptExecuted>().is_empty());
}
