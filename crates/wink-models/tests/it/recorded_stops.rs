//! Runs that somebody or the clock stopped, recorded and repeated: they stop where they did.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use wink::BoxFuture;
use wink::executor::{Approval, ApprovalRequest, Approver};
use wink::filesystem::{WriteMode, WriteOptions};
use wink::limits::{CancelToken, Deadline};
use wink::policy::{Decision, PolicyCall, PolicyContext, ToolPolicy, policy_fn};
use wink::prelude::*;
use wink::resource::BoxError;
use wink::session::{SessionBuilder, SnapshotScope, ToolInvoked};
use wink::testing::FakeClock;
use wink_models::recording::{Recorder, Recording, Scrubber};
use wink_models::{
    Adapter, BoxModel, Evaluation, ModelAdapter, ModelErrorKind, PromptResponse, Stopped, SubAgent,
};

use crate::support::{Listed, Page, Silent, Text, calls, error, prompt_with, resources, says};

/// What a run came to, and everything in its session and its sub-runs'.
type Came = (Result<PromptResponse, Stopped>, Vec<String>);

/// Waits for others a few times, and is done then.
async fn slow(_: Text, _: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    Ok(ToolResult::done("done"))
}

/// The tests' prompt, with a slow tool, one that somebody is asked about, and a sub-agent with another model.
fn prompt(helper: BoxModel) -> Prompt {
    let own = Section::markdown("tools", "Tools").body("Find out.").tool(Tool::new("slow", "Is slow.", slow));
    let own = PromptTemplate::builder("tests", "helper").section(own).build().unwrap().prompt();
    let helper = SubAgent::new(Arc::new(ModelAdapter::new(helper)), own).tool("helper", "Finds out.");
    let section = Section::markdown("more", "More")
        .body("More tools.")
        .tool(Tool::new("slow", "Is slow.", slow))
        .tool(Tool::new("asked", "Somebody is asked.", slow))
        .tool(helper)
        .policy(policy_fn("somebody", |call, _| match &**call.tool.name() {
            "asked" => Decision::Ask("May it?".into()),
            _ => Decision::Allow,
        }));
    prompt_with(|template| template.section(section))
}

/// Is asked, and never says anything.
struct Thinks;

impl Approver for Thinks {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        Box::pin(std::future::pending())
    }
}

async fn evaluated(
    adapter: ModelAdapter,
    helper: BoxModel,
    session: &Session,
    evaluation: Evaluation,
) -> Came {
    let evaluation = evaluation.task("Do it.").resources(resources().0);
    let came = adapter.evaluate(&prompt(helper), session, evaluation).await;
    let sessions = [session.clone()].into_iter().chain(session.children());
    let all =
        |session: Session| session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap().to_string();
    (came, sessions.map(all).collect())
}

/// How far ahead a deadline is.
const AHEAD: Duration = Duration::from_secs(5);

/// A run that is stopped when nothing happens any more, or before it begins: cancelled, unless it has a deadline.
async fn recorded(model: BoxModel, helper: BoxModel, deadline: bool, at_once: bool) -> (Came, String) {
    let page = Page::default();
    let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
    let recorder = Recorder::start(page.clone(), model, Arc::new(clock.clone()), Scrubber::new());
    let session = recorder.session(Session::builder()).build();
    let cancel = CancelToken::new();
    let mut evaluation = recorder.evaluation(Evaluation::new()).cancel(cancel.clone());
    if deadline {
        evaluation = evaluation.deadline(Deadline::after(AHEAD, &**recorder.clock()).unwrap());
    }
    let adapter = ModelAdapter::new(recorder.model())
        .random(recorder.random())
        .approver(recorder.approver(Arc::new(Thinks)));
    if at_once {
        cancel.cancel();
    }
    let stopping = async {
        for _ in 0..50 {
            tokio::task::yield_now().await;
            clock.advance(Duration::from_millis(1));
        }
        match deadline {
            true => clock.advance(AHEAD),
            false => cancel.cancel(),
        }
    };
    let evaluating = evaluated(adapter, recorder.another(helper), &session, evaluation);
    let (came, ()) = tokio::join!(evaluating, stopping);
    recorder.finish().unwrap();
    let text = page.text();
    (came, text)
}

async fn replayed(text: &str, deadline: bool) -> (Came, Option<String>) {
    let recording = Recording::parse(text).unwrap();
    let session = recording.session(Session::builder()).build();
    let mut evaluation = recording.evaluation(Evaluation::new());
    if deadline {
        evaluation = evaluation.deadline(Deadline::after(AHEAD, &*recording.clock()).unwrap());
    }
    let mut adapter = ModelAdapter::new(recording.model()).random(recording.random());
    if let Some(approver) = recording.approver() {
        adapter = adapter.approver(approver);
    }
    let evaluating = evaluated(adapter, recording.another("listed"), &session, evaluation);
    #[expect(
        clippy::disallowed_methods,
        reason = "on a clock of its own: a run that waits for what never comes is a failure, and no test that hangs"
    )]
    let came = tokio::time::timeout(Duration::from_secs(60), evaluating).await.unwrap();
    (came, recording.difference())
}

/// A call of the sub-agent.
fn helps() -> wink_models::ModelResponse {
    let mut response = calls(&[("helper", "")]);
    for call in &mut response.calls {
        call.arguments = r#"{"task":"Which?"}"#.into();
    }
    response
}

#[tokio::test]
async fn a_run_is_cancelled_where_it_was() {
    let listed = |answers: Vec<wink_models::ModelResponse>| Listed::saying(answers) as BoxModel;
    let silent = || Arc::new(Silent) as BoxModel;
    let failing = Listed::new([Err(error(ModelErrorKind::Unavailable))]) as BoxModel;
    let hangs = || calls(&[("note", "a"), ("slow", "b"), ("hang", "c"), ("note", "d")]);
    for (what, model, helper) in [
        ("in a request", silent(), silent()),
        ("in a later request", Listed::new([Ok(calls(&[("slow", "a")]))]), silent()),
        ("in a call", listed(vec![hangs()]), silent()),
        ("in a call of a later response", listed(vec![calls(&[("slow", "a")]), hangs()]), silent()),
        ("while it waits to ask again", failing, silent()),
        ("while somebody is asked", listed(vec![calls(&[("slow", "a"), ("asked", "b")])]), silent()),
        ("in a request of a sub-run", listed(vec![helps()]), silent()),
        (
            "in a call after a sub-run",
            listed(vec![helps(), hangs()]),
            listed(vec![calls(&[("slow", "a")]), says("It is blue.")]),
        ),
    ] {
        let (came, text) = recorded(model, helper, false, false).await;
        assert_eq!(came.0.as_ref().unwrap_err().reason.name(), "cancelled", "{what}");
        let (again, difference) = replayed(&text, false).await;
        assert_eq!(difference, None, "{what}: {text}");
        assert_eq!(again, came, "{what}: {text}");
    }
}

#[tokio::test]
async fn a_run_that_was_cancelled_before_it_began_does_nothing() {
    let (came, text) = recorded(Listed::saying([says("no")]), Arc::new(Silent), false, true).await;
    assert_eq!(came.0.as_ref().unwrap_err().reason.name(), "cancelled");
    assert_eq!(replayed(&text, false).await, (came, None));
}

#[tokio::test]
async fn a_deadline_comes_where_it_came() {
    let hangs = calls(&[("note", "a"), ("slow", "b"), ("hang", "c"), ("note", "d")]);
    for (what, model) in [
        ("in a call", Listed::saying([hangs.clone()]) as BoxModel),
        ("in a call of a later response", Listed::saying([calls(&[("slow", "a")]), hangs])),
        ("in a request", Arc::new(Silent)),
        ("while somebody is asked", Listed::saying([calls(&[("slow", "a"), ("asked", "b")])])),
    ] {
        let (came, text) = recorded(model, Arc::new(Silent), true, false).await;
        assert_eq!(came.0.as_ref().unwrap_err().reason.name(), "deadline", "{what}");
        let (again, difference) = replayed(&text, true).await;
        assert_eq!(difference, None, "{what}: {text}");
        assert_eq!(again, came, "{what}: {text}");
    }
}

async fn put(params: Text, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let files = cx.filesystem().await?;
    files.write("list", params.text.as_bytes(), WriteOptions::new(WriteMode::Append)).await?;
    Ok(ToolResult::done("written"))
}

/// Asks the disk, and says nothing against it.
struct Looks;

impl ToolPolicy for Looks {
    fn kind(&self) -> &'static str {
        "looks"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(async {
            let _ = tokio::fs::metadata("/").await;
            Ok(Decision::Allow)
        })
    }
}

/// A run in a workspace on disk, where everything is waited for, cancelled when it is looked at for the n-th time; what it came to, and
/// its calls as the log has them. Whether it was cancelled at all.
async fn on_disk(
    setup: &dyn Fn(SessionBuilder) -> SessionBuilder,
    adapter: ModelAdapter,
    evaluation: Evaluation,
    n: usize,
) -> (Result<PromptResponse, Stopped>, Vec<ToolInvoked>) {
    let dir = tempfile::tempdir().unwrap();
    let workspace = wink_store::Workspace::open(dir.path()).unwrap();
    let session = setup(workspace.session("s")).open().await.unwrap();
    let section = Section::markdown("tools", "Tools")
        .body("Write.")
        .tool(Tool::new("put", "Writes.", put))
        .policy(Looks);
    let section = section.resources(workspace.resources());
    let prompt = PromptTemplate::builder("tests", "disk").section(section).build().unwrap().prompt();
    let cancel = CancelToken::new();
    let evaluation = evaluation.task("Do it.").cancel(cancel.clone());
    let mut polls = 0;
    let mut evaluating = adapter.evaluate(&prompt, &session, evaluation);
    let came = std::future::poll_fn(|cx| {
        if polls == n {
            cancel.cancel();
        }
        polls += 1;
        evaluating.as_mut().poll(cx)
    })
    .await;
    drop(evaluating);
    let events = session.slice::<ToolInvoked>().iter().map(|event| ToolInvoked::clone(&event)).collect();
    (came, events)
}

#[tokio::test]
async fn a_run_that_is_cancelled_anywhere_is_cancelled_there_again() {
    for n in 0..1_000 {
        let page = Page::default();
        let answers = [calls(&[("put", "a"), ("put", "b")]), calls(&[("put", "c")]), says("done")];
        let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
        let recorder =
            Recorder::start(page.clone(), Listed::saying(answers), Arc::new(clock), Scrubber::new());
        let adapter = ModelAdapter::new(recorder.model()).random(recorder.random());
        let evaluation = recorder.evaluation(Evaluation::new());
        let came = on_disk(&|session| recorder.session(session), adapter, evaluation, n).await;
        recorder.finish().unwrap();
        let text = page.text();
        let recording = Recording::parse(&text).unwrap();
        let adapter = ModelAdapter::new(recording.model()).random(recording.random());
        let evaluation = recording.evaluation(Evaluation::new());
        let again = on_disk(&|session| recording.session(session), adapter, evaluation, usize::MAX).await;
        assert_eq!(recording.difference(), None, "{n}: {text}");
        assert_eq!(again, came, "{n}: {text}");
        if came.0.is_ok() {
            assert!(n > 10, "it was cancelled {n} times");
            return;
        }
    }
    panic!("it is never done");
}
