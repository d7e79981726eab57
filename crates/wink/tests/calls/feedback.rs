//! Feedback after calls, through the executor.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use wink::BoxFuture;
use wink::executor::{Executor, ExecutorBuilder, ExecutorLimits, Outcome, ToolCall};
use wink::feedback::{
    DeadlineFeedback, Feedback, FeedbackContext, FeedbackGiven, FeedbackProvider, Severity, StaticFeedback,
    Trigger, feedback_fn,
};
use wink::filesystem::{Filesystem, FilesystemExt, MemoryFilesystem};
use wink::limits::{Clock, Deadline};
use wink::prelude::*;
use wink::resource::{Binding, BoxError};
use wink::session::ToolInvoked;
use wink::store::SharedStore;
use wink::testing::{ByteStore, FakeClock};
use wink::tool::VisibilityExpansionRequired;

use crate::hearing::hear;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Say {
    #[serde(default)]
    text: String,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    delete: bool,
    #[serde(default)]
    seconds: u64,
}

struct TestClock(FakeClock);

async fn say(params: Say, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    if params.seconds > 0 {
        cx.resource::<TestClock>().await?.0.advance(Duration::from_secs(params.seconds));
    }
    if let Some(file) = &params.file {
        let files = cx.filesystem().await?;
        if params.delete {
            files.delete(file, wink::filesystem::DeleteMode::Single).await?;
        } else {
            files.write_text(file, "x").await?;
        }
    }
    match params.text.as_str() {
        "fail" => Err(ToolError::new("boom")),
        "open" => {
            Err(VisibilityExpansionRequired { keys: vec!["talk".into()], reason: "to see".into() }.into())
        }
        text => Ok(ToolResult::done(text)),
    }
}

struct Desk {
    clock: FakeClock,
    session: Session,
    files: Arc<dyn Filesystem>,
}

impl Desk {
    fn new() -> Self {
        let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().expect("a timestamp"));
        let session = Session::builder().clock(Arc::new(clock.clone())).build();
        Self { clock, session, files: Arc::new(MemoryFilesystem::new()) }
    }

    fn executor(&self, key: &str) -> ExecutorBuilder {
        let section = Section::tools("talk", "Talk")
            .tool(Tool::new("say", "Say it.", say))
            .resource(Binding::filesystem(Arc::clone(&self.files)))
            .resource(Binding::instance(Arc::new(TestClock(self.clock.clone()))));
        let prompt = PromptTemplate::builder("tests", key).section(section).build().expect("valid").prompt();
        Executor::builder(&prompt, &self.session)
    }

    async fn open(&self, builder: ExecutorBuilder) -> Executor {
        builder.open().await.expect("opens")
    }

    fn given(&self) -> Vec<(String, String, u64)> {
        let given = self.session.slice::<FeedbackGiven>();
        given.iter().map(|one| (one.provider.to_string(), one.prompt.to_string(), one.calls)).collect()
    }
}

async fn call(executor: &Executor, arguments: &str) -> Outcome {
    executor.call(ToolCall::new("c", "say", arguments)).await
}

async fn text(executor: &Executor, arguments: &str) -> String {
    call(executor, arguments).await.text().to_owned()
}

fn hint(name: &str) -> StaticFeedback {
    StaticFeedback::new(name, Feedback::info("hint"))
}

const OK: &str = r#"{"text":"ok"}"#;
const HINTED: &str = "ok\n\n[feedback from a, info] hint";

// case 192
#[tokio::test]
async fn calls_are_counted_per_provider_and_prompt() {
    let desk = Desk::new();
    let open = async |key: &str| {
        let builder = desk.executor(key).feedback(Trigger::every_calls(2), hint("a"));
        desk.open(builder.feedback(Trigger::every_calls(3), hint("b"))).await
    };
    let (one, other) = (open("one").await, open("other").await);
    let mut spoke = Vec::new();
    for turn in 1..=6 {
        // Calls that fail count too, and so do unknown tools.
        let outcome = match turn {
            2 => call(&one, r#"{"text":"fail"}"#).await,
            3 => one.call(ToolCall::new("c", "nothing", "")).await,
            _ => call(&one, OK).await,
        };
        let said = |name: &str| outcome.text().contains(&format!("[feedback from {name}, info] hint"));
        spoke.push((said("a"), said("b")));
    }
    let quiet = (false, false);
    assert_eq!(spoke, [quiet, (true, false), (false, true), (true, false), quiet, (true, true)]);
    // The other prompt has counted none of these.
    assert_eq!(text(&other, OK).await, "ok");
    assert_eq!(text(&other, OK).await, HINTED);
    // A new executor on the same session goes on counting.
    assert_eq!(text(&other, OK).await, "ok\n\n[feedback from b, info] hint");
    let again = open("other").await;
    assert_eq!(text(&again, OK).await, HINTED);
    assert_eq!(text(&again, OK).await, "ok");
    assert_eq!(text(&other, OK).await, format!("{HINTED}\n\n[feedback from b, info] hint"));
    let of_other: Vec<_> =
        desk.given().into_iter().filter(|(_, prompt, _)| prompt == "tests/other").collect();
    let given = |provider: &str, calls| (provider.to_owned(), "tests/other".to_owned(), calls);
    assert_eq!(of_other, [given("a", 2), given("b", 3), given("a", 4), given("a", 6), given("b", 6)]);
}

// case 193
#[tokio::test]
async fn an_interval_fires_at_once_and_then_when_it_has_passed() {
    let desk = Desk::new();
    let open = async || {
        desk.open(desk.executor("p").feedback(Trigger::every(Duration::from_secs(60)), hint("a"))).await
    };
    let executor = open().await;
    assert_eq!(text(&executor, OK).await, HINTED);
    desk.clock.advance(Duration::from_millis(59_999));
    assert_eq!(text(&executor, OK).await, "ok");
    // Time goes on in a new executor.
    let executor = open().await;
    assert_eq!(text(&executor, OK).await, "ok");
    desk.clock.advance(Duration::from_millis(1));
    assert_eq!(text(&executor, OK).await, HINTED);
    assert_eq!(text(&executor, OK).await, "ok");
}

// case 194
#[tokio::test]
async fn a_file_is_noticed_once() {
    let desk = Desk::new();
    let open = async || desk.open(desk.executor("p").feedback(Trigger::file("./out/R.md"), hint("a"))).await;
    let executor = open().await;
    let write = r#"{"text":"ok","file":"out/R.md"}"#;
    assert_eq!(text(&executor, OK).await, "ok");
    // What is rolled back was never there.
    assert_eq!(text(&executor, r#"{"text":"fail","file":"out/R.md"}"#).await, "boom");
    assert_eq!(text(&executor, write).await, HINTED);
    assert_eq!(text(&executor, r#"{"text":"ok","file":"out/R.md","delete":true}"#).await, "ok");
    assert_eq!(text(&executor, write).await, "ok");
    assert_eq!(text(&open().await, write).await, "ok");
    assert_eq!(
        desk.session.slice::<FeedbackGiven>().latest().map(|given| given.files.clone()),
        Some(vec!["./out/R.md".into()])
    );
}

// case 195
#[tokio::test]
async fn all_that_fire_speak_in_order_and_are_recorded() {
    let desk = Desk::new();
    let loud = Feedback::warning("Two\nlines.").observe("seen\nmore").observe("too").suggest("do");
    let builder = desk
        .executor("p")
        .feedback(Trigger::every_calls(1), StaticFeedback::new("first", loud.clone()))
        .feedback(Trigger::every_calls(5), hint("silent"))
        .feedback(Trigger::every_calls(9).or(Trigger::every(Duration::ZERO)), hint("same"))
        .feedback(Trigger::every_calls(1), hint("same"))
        .feedback(Trigger::every_calls(1), feedback_fn("none", |_| None));
    let executor = desk.open(builder).await;
    let outcome = call(&executor, OK).await;
    insta::assert_snapshot!(outcome.text(), @r"
    ok

    [feedback from first, warning] Two lines.
    Observations:
    - seen
      more
    - too
    Suggestions:
    - do

    [feedback from same, info] hint

    [feedback from same#2, info] hint
    ");
    // The log keeps the tool's own text, and the feedback beside it.
    assert_eq!(&*outcome.event.rendered, "ok");
    assert_eq!(&*desk.session.slice::<ToolInvoked>().latest().expect("an event").rendered, "ok");
    let given = desk.session.slice::<FeedbackGiven>().all();
    let event = |provider: &str, feedback: &Feedback| FeedbackGiven {
        provider: provider.into(),
        prompt: "tests/p".into(),
        invocation: outcome.event.id,
        time: desk.clock.now(),
        feedback: feedback.clone(),
        calls: 1,
        files: vec![],
        known_files: vec![],
    };
    let hinted = Feedback::info("hint");
    let expected = [event("first", &loud), event("same", &hinted), event("same#2", &hinted)];
    assert_eq!(given.iter().map(|given| FeedbackGiven::clone(given)).collect::<Vec<_>>(), expected);
    let json = serde_json::to_value(&expected[0]).expect("serialises");
    assert_eq!(serde_json::from_value::<FeedbackGiven>(json).expect("reads"), expected[0]);
}

/// What was counted comes back with the session, and what else there is in its log does not matter.
#[tokio::test]
async fn counting_goes_on_when_a_session_is_opened_again() {
    let store: SharedStore = Arc::new(ByteStore::new());
    let mut desk = Desk::new();
    let providers = |desk: &Desk, key: &str| {
        let builder = desk.executor(key).feedback(Trigger::every_calls(4), hint("a"));
        builder.feedback(Trigger::file("x").or(Trigger::file("y")), hint("f"))
    };
    let mut texts = Vec::new();
    for (turn, arguments) in
        [OK, r#"{"text":"ok","file":"x"}"#, OK, OK, r#"{"text":"ok","file":"y"}"#, OK].into_iter().enumerate()
    {
        let builder =
            Session::builder().clock(Arc::new(desk.clock.clone())).store(Arc::clone(&store)).id("s");
        desk.session = builder.open().await.expect("opens");
        for key in ["p", "q"] {
            let executor = desk.open(providers(&desk, key)).await;
            let said = text(&executor, if key == "p" { arguments } else { OK }).await;
            if key == "p" {
                texts.push((turn, said.lines().skip(2).map(str::to_owned).collect::<Vec<_>>()));
            }
        }
        desk.session.flush().await.expect("stored");
    }
    let a = || vec!["[feedback from a, info] hint".to_owned()];
    let f = || vec!["[feedback from f, info] hint".to_owned()];
    assert_eq!(texts, [(0, vec![]), (1, f()), (2, vec![]), (3, a()), (4, f()), (5, vec![])]);
    let known = |given: &FeedbackGiven| given.known_files.iter().map(ToString::to_string).collect::<Vec<_>>();
    let of = |given: &&Arc<FeedbackGiven>| &*given.prompt == "tests/p" && &*given.provider == "f";
    let given = desk.session.slice::<FeedbackGiven>().all();
    assert_eq!(
        given.iter().filter(of).map(|given| known(given)).collect::<Vec<_>>(),
        [vec!["x"], vec!["x", "y"]]
    );
}

// case 196
#[tokio::test]
async fn the_deadline_speaks_of_what_is_left() {
    let desk = Desk::new();
    let deadline = Deadline::after(Duration::from_secs(600), &desk.clock).expect("ahead");
    let builder = desk
        .executor("p")
        .deadline(deadline)
        .feedback(Trigger::every_calls(1), DeadlineFeedback::new().warn_below(Duration::from_secs(120)));
    let executor = desk.open(builder).await;
    let wait = |seconds: u64| format!(r#"{{"text":"ok","seconds":{seconds}}}"#);
    let mut texts = Vec::new();
    for seconds in [90, 390, 1, 118, 1] {
        texts.push(text(&executor, &wait(seconds)).await);
    }
    insta::assert_snapshot!(texts.join("\n---\n"));
    let severities = |given: &FeedbackGiven| given.feedback.severity;
    let severities: Vec<_> =
        desk.session.slice::<FeedbackGiven>().iter().map(|given| severities(&given)).collect();
    let (info, warning) = (Severity::Info, Severity::Warning);
    assert_eq!(severities, [info, info, warning, warning, warning]);

    // Without a deadline there is nothing to say.
    let executor =
        desk.open(desk.executor("q").feedback(Trigger::every_calls(1), DeadlineFeedback::new())).await;
    assert_eq!(text(&executor, OK).await, "ok");
}

#[test]
fn durations_read_well() {
    let left =
        |seconds| DeadlineFeedback::new().says(Duration::ZERO, Duration::from_secs_f64(seconds)).summary;
    let shown = [0.5, 1.0, 59.9, 60.0, 3599.0, 3600.0, 3660.0, 90_000.0].map(left);
    let expected = ["less than 1 s", "1 s", "59 s", "1 min", "59 min 59 s", "1 h", "1 h 1 min", "25 h"]
        .map(|text| format!("{text} left."));
    assert_eq!(shown, expected);
}

struct Broken(&'static str);

impl FeedbackProvider for Broken {
    fn name(&self) -> &str {
        self.0
    }

    fn feedback<'a>(
        &'a self,
        _: &'a FeedbackContext<'a>,
    ) -> BoxFuture<'a, Result<Option<Feedback>, BoxError>> {
        match self.0 {
            "errs" => Box::pin(async { Err("no".into()) }),
            "panics" => panic!("oops"),
            "panics later" => Box::pin(async { panic!("oops") }),
            _ => Box::pin(std::future::pending()),
        }
    }
}

/// The provider and the problem of every error in the diagnostics.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<(String, String)>>>);

#[derive(Default)]
struct Fields {
    provider: String,
    problem: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "provider" => self.provider = value.to_owned(),
            "problem" => self.problem = value.to_owned(),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().expect("no panic").push((fields.provider, fields.problem));
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

// case 56
#[tokio::test]
async fn a_broken_provider_spoils_nothing() {
    let desk = Desk::new();
    let mut builder = desk.executor("p");
    for name in ["errs", "panics", "panics later", "hangs"] {
        builder = builder.feedback(Trigger::every_calls(1), Broken(name));
    }
    let executor = desk.open(builder.feedback(Trigger::every_calls(1), hint("a"))).await;
    let errors = Errors::default();
    let _default = hear(errors.clone());
    let running = tokio::spawn(async move { text(&executor, OK).await });
    desk.clock.until_sleeping(1).await;
    desk.clock.advance(ExecutorLimits::default().policy_timeout);
    assert_eq!(running.await.expect("ends"), HINTED);
    // Each of them is in the diagnostics, by name and with what went wrong.
    let logged = errors.0.lock().expect("no panic").clone();
    let expected = [
        ("errs", "no"),
        ("panics", "Panicked(\"oops\")"),
        ("panics later", "Panicked(\"oops\")"),
        ("hangs", "Timeout(5s)"),
    ];
    assert_eq!(logged, expected.map(|(provider, problem)| (provider.to_owned(), problem.to_owned())));
    assert_eq!(desk.given(), [("a".to_owned(), "tests/p".to_owned(), 1)]);
    assert_eq!(desk.session.slice::<ToolInvoked>().len(), 1);
}

#[tokio::test]
async fn whoever_cancels_does_not_wait_for_feedback() {
    let desk = Desk::new();
    let executor = desk.open(desk.executor("p").feedback(Trigger::every_calls(1), Broken("hangs"))).await;
    let cancelling = async {
        desk.clock.until_sleeping(1).await;
        executor.cancel();
    };
    assert_eq!(tokio::join!(text(&executor, OK), cancelling).0, "ok");
    assert_eq!(desk.given(), []);
}

#[tokio::test]
async fn an_escalation_has_no_feedback() {
    let desk = Desk::new();
    let executor = desk.open(desk.executor("p").feedback(Trigger::every_calls(1), hint("a"))).await;
    assert_eq!(text(&executor, r#"{"text":"open"}"#).await, "opened talk");
    assert_eq!(desk.given(), []);
}

#[tokio::test]
async fn feedback_is_cut_only_when_there_is_no_room_for_it() {
    let desk = Desk::new();
    let limits = ExecutorLimits { max_answer_bytes: 200, ..ExecutorLimits::default() };
    let long = "x".repeat(150);
    let provider = StaticFeedback::new("a", Feedback::info(long.clone()));
    let builder = desk.executor("p").limits(limits).feedback(Trigger::every_calls(1), provider);
    assert_eq!(text(&desk.open(builder).await, OK).await, format!("ok\n\n[feedback from a, info] {long}"));
}

#[tokio::test]
async fn the_answer_stays_bounded() {
    let desk = Desk::new();
    let limits = ExecutorLimits { max_answer_bytes: 200, ..ExecutorLimits::default() };
    let long = StaticFeedback::new("a", Feedback::info("é".repeat(400)));
    let builder = desk.executor("p").limits(limits.clone());
    let executor = desk.open(builder.feedback(Trigger::every_calls(1), long)).await;
    let arguments = format!(r#"{{"text":"{}"}}"#, "ß".repeat(500));
    let outcome = call(&executor, &arguments).await;
    assert!(outcome.text().len() <= 200, "{}", outcome.text().len());
    assert!(
        outcome.text().contains("[output cut: 1000 bytes in all]\n\n[feedback from a, info] é"),
        "{}",
        outcome.text()
    );
    assert_eq!(&*outcome.event.rendered, "ß".repeat(500));
    // A short hint gets all it needs.
    let builder = desk.executor("q").limits(limits);
    let executor = desk.open(builder.feedback(Trigger::every_calls(1), hint("a"))).await;
    let outcome = call(&executor, &arguments).await;
    assert!(
        outcome.text().ends_with("[output cut: 1000 bytes in all]\n\n[feedback from a, info] hint"),
        "{}",
        outcome.text()
    );
}

#[tokio::test]
async fn a_reset_session_counts_from_the_start() {
    let desk = Desk::new();
    let builder = desk.executor("p").feedback(Trigger::every_calls(2).or(Trigger::file("f")), hint("a"));
    let executor = desk.open(builder).await;
    desk.files.write_text("f", "").await.expect("written");
    assert_eq!(text(&executor, OK).await, HINTED);
    assert_eq!(text(&executor, OK).await, "ok");
    desk.session.reset();
    assert_eq!(text(&executor, OK).await, HINTED);
    assert_eq!(text(&executor, OK).await, "ok");
    assert_eq!(text(&executor, OK).await, HINTED);
}

#[tokio::test]
async fn every_call_of_a_batch_is_counted() {
    let desk = Desk::new();
    let executor = desk.open(desk.executor("p").feedback(Trigger::every_calls(2), hint("a"))).await;
    let calls = (0..4).map(|id| ToolCall::new(id.to_string(), "say", OK)).collect();
    let outcomes = executor.batch(calls).await;
    let texts: Vec<_> = outcomes.iter().map(Outcome::text).collect();
    assert_eq!(texts, ["ok", HINTED, "ok", HINTED]);
}

#[tokio::test]
async fn calls_that_feedback_follows_do_not_overlap() {
    async fn alone(_: (), _: &mut ToolContext) -> ToolResult<()> {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let others = RUNNING.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        ToolResult::done(format!("beside {others}"))
    }
    let tool = Tool::new("alone", "Alone.", alone).footprint(|()| Footprint::nothing());
    let section = Section::tools("tools", "Tools").tool(tool);
    let prompt = PromptTemplate::builder("tests", "alone").section(section).build().expect("valid").prompt();
    let open = async |builder: ExecutorBuilder| {
        let calls = vec![ToolCall::new("1", "alone", "{}"), ToolCall::new("2", "alone", "{}")];
        let outcomes = builder.open().await.expect("opens").batch(calls).await;
        outcomes.iter().map(|outcome| outcome.text().to_owned()).collect::<Vec<_>>()
    };
    let builder = || Executor::builder(&prompt, &Session::new());
    assert_eq!(open(builder()).await, ["beside 0", "beside 1"]);
    let followed = open(builder().feedback(Trigger::every_calls(9), hint("a"))).await;
    assert_eq!(followed, ["beside 0", "beside 0"]);
}
