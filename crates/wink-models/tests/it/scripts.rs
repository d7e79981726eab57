//! Scripts and recordings.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use wink::limits::{Clock, Deadline, SystemClock};
use wink::prelude::*;
use wink::session::{SessionBuilder, SnapshotScope};
use wink_models::recording::{Recorder, Recording, Scrubber};
use wink_models::{
    Adapter, BoxModel, Called, Evaluation, MainLoop, MainLoopConfig, ModelAdapter, ModelErrorKind,
    PromptResponse, Random, Request, ScriptedModel, Secret, Stopped, SubAgent,
};

use crate::support::{JumpClock, Listed, Note, Page, calls, error, opens, prompt, resources, says};

async fn run(model: BoxModel) -> Result<PromptResponse, Stopped> {
    let session = Session::builder().clock(JumpClock::new()).build();
    ModelAdapter::new(model).evaluate(&prompt(), &session, Evaluation::new().resources(resources().0)).await
}

#[tokio::test]
async fn a_script_is_one_response_on_each_line() {
    let script = r#"
{"tool_calls": [{"id": "1", "name": "note", "arguments": {"text": "a"}}, {"name": "note", "arguments": "{\"text\":\"b\"}"}]}

{"error": {"kind": "throttled", "retry_after_ms": 10}}
{"text": "ok", "usage": {"input_tokens": 5}}
"#;
    let response = run(Arc::new(ScriptedModel::parse(script).unwrap())).await.unwrap();
    assert_eq!((&*response.text, response.stats.calls, response.stats.usage.input_tokens), ("ok", 2, 5));
    let over = run(Arc::new(ScriptedModel::parse(r#"{"tool_calls":[{"name":"note"}]}"#).unwrap())).await;
    assert_eq!(
        over.unwrap_err().to_string(),
        "the provider does not take the request: the script is over: it has 1 lines, and another response was asked for"
    );
}

#[test]
fn a_script_that_is_none_is_refused_with_the_line() {
    let refused = |script: &str| ScriptedModel::parse(script).unwrap_err().to_string();
    let at = |script: &str| refused(script).split(" of the script").next().unwrap().to_owned();
    assert_eq!(at("{\"text\": \"a\"}\nhello"), "line 2");
    assert_eq!(at("\n{\"txt\": \"a\"}"), "line 2");
    assert_eq!(at(r#"{"tool_calls": [{"arguments": {}}]}"#), "line 1");
    assert!(refused(r#"{"tool_calls": [{"name": "x", "arguments": [1]}]}"#).contains("must be an object"));
    assert_eq!(at("{\"text\": \"a\"}\n[]\n"), "line 2");
    assert_eq!(refused(" \n"), "the script has no responses: write one JSON object on each line");
}

#[test]
fn only_a_file_that_has_an_end_is_read() {
    let refused = |error: &dyn std::fmt::Display| error.to_string();
    assert_eq!(
        refused(&ScriptedModel::load("/dev/zero").unwrap_err()),
        "the script /dev/zero cannot be read: it is no regular file"
    );
    let Err(error) = Recording::load("/dev/zero") else { panic!("it has no end") };
    assert_eq!(refused(&error), "the recording /dev/zero cannot be read: it is no regular file");
    // With holes, so that nothing is written.
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len((1 << 30) + 1).unwrap();
    assert!(refused(&ScriptedModel::load(file.path()).unwrap_err()).ends_with("it is larger than 1 GiB"));
}

#[tokio::test]
async fn a_recording_that_was_cut_off_is_a_script_as_far_as_it_goes() {
    let (came, _, text) =
        recorded(Listed::new([Ok(calls(&[("note", "a")])), Ok(says("ok"))]), JumpClock::new(), None).await;
    assert_eq!(&*came.unwrap().text, "ok");
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let last = *ends.last().unwrap();
    for cut in [last - 1, last - 3] {
        assert!(Recording::parse(&text[..cut]).is_ok());
        assert!(ScriptedModel::parse(&text[..cut]).is_ok());
    }
    // In the middle it is no half of a line.
    let broken = format!("{}\n{}", &text[..ends[1] - 1], &text[ends[1] + 1..]);
    assert!(Recording::parse(&broken).is_err());
    assert!(ScriptedModel::parse(&broken).is_err());
    assert!(
        ScriptedModel::parse(&format!("{}\n", &text[..last - 1])).is_err(),
        "this line was written whole"
    );
}

/// What a run comes to, with everything in its session.
async fn everything(
    adapter: ModelAdapter,
    session: &Session,
    evaluation: Evaluation,
) -> (Result<PromptResponse, Stopped>, String) {
    let came = adapter.evaluate(&prompt(), session, evaluation.task("Do it.").resources(resources().0)).await;
    let snapshot = session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap();
    (came, snapshot.to_string())
}

async fn recorded(
    model: BoxModel,
    clock: Arc<dyn Clock>,
    deadline: Option<Duration>,
) -> (Result<PromptResponse, Stopped>, String, String) {
    let page = Page::default();
    let recorder = Recorder::start(page.clone(), model, clock, Scrubber::new());
    let session = recorder.session(Session::builder()).build();
    let mut evaluation = recorder.evaluation(Evaluation::new());
    if let Some(ahead) = deadline {
        evaluation = evaluation.deadline(Deadline::after(ahead, &**recorder.clock()).unwrap());
    }
    let adapter = ModelAdapter::new(recorder.model()).random(recorder.random());
    let (came, snapshot) = everything(adapter, &session, evaluation).await;
    recorder.finish().unwrap();
    (came, snapshot, page.text())
}

async fn replayed(text: &str, deadline: Option<Duration>) -> (Result<PromptResponse, Stopped>, String) {
    let recording = Recording::parse(text).unwrap();
    let session = recording.session(Session::builder()).build();
    let mut evaluation = recording.evaluation(Evaluation::new());
    if let Some(ahead) = deadline {
        evaluation = evaluation.deadline(Deadline::after(ahead, &*recording.clock()).unwrap());
    }
    let adapter = ModelAdapter::new(recording.model()).random(recording.random());
    everything(adapter, &session, evaluation).await
}

/// What a request of a loop comes to, with everything in its session. The loop makes the session, and has something done with it.
async fn looped(
    adapter: ModelAdapter,
    session: impl FnOnce(SessionBuilder) -> SessionBuilder,
    evaluation: impl FnOnce(Evaluation) -> Evaluation,
) -> (PromptResponse, String) {
    let main_loop = MainLoop::new(Arc::new(adapter), Arc::default(), MainLoopConfig::default())
        .prepare(|session| drop(session.dispatch(Note { text: "prepared".into() })));
    let request = Request::new(&prompt()).session(&main_loop.session(session)).evaluation(evaluation);
    let request = request.task("Do it.").resources(resources().0);
    let (response, session) = main_loop.execute(request).await.unwrap();
    (response, session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap().to_string())
}

#[tokio::test]
async fn a_run_of_a_loop_is_recorded_and_replayed() {
    let model = Listed::new([
        Ok(calls(&[("note", "a"), ("write", "b"), ("fail", "c")])),
        Err(error(ModelErrorKind::Unavailable)),
        Ok(says("done")),
    ]);
    let page = Page::default();
    let recorder = Recorder::start(page.clone(), model, JumpClock::new(), Scrubber::new());
    let adapter = ModelAdapter::new(recorder.model()).random(recorder.random());
    let (came, session) =
        looped(adapter, |builder| recorder.session(builder), |it| recorder.evaluation(it)).await;
    recorder.finish().unwrap();
    assert_eq!((&*came.text, came.stats.calls), ("done", 3));
    assert!(session.contains("prepared"));
    let recording = Recording::parse(&page.text()).unwrap();
    let adapter = ModelAdapter::new(recording.model()).random(recording.random());
    let again = looped(adapter, |builder| recording.session(builder), |it| recording.evaluation(it)).await;
    assert_eq!(again, (came, session));
    assert_eq!(recording.difference(), None);
}

#[tokio::test]
async fn a_replayed_run_has_the_same_session_byte_for_byte() {
    let script = || {
        Listed::new([
            Ok(calls(&[("note", "a"), ("write", "b"), ("fail", "c"), ("nothing", "d"), ("denied", "e")])),
            Err(error(ModelErrorKind::Unavailable)),
            Ok(opens("manual")),
            Ok(calls(&[("turn", "round")])),
            Ok(says("done")),
        ])
    };
    for clock in [JumpClock::new() as Arc<dyn Clock>, Arc::new(SystemClock)] {
        let (came, session, text) = recorded(script(), clock, None).await;
        assert!(came.is_ok(), "{came:?}");
        let (again, repeated) = replayed(&text, None).await;
        assert_eq!(again, came);
        assert_eq!(repeated, session);
        // As a script, it gives the same answers in a session of its own.
        let scripted = run(Arc::new(ScriptedModel::parse(&text).unwrap())).await.unwrap();
        assert_eq!(
            (scripted.text, scripted.stats),
            (came.as_ref().unwrap().text.clone(), came.unwrap().stats)
        );
    }
}

#[tokio::test]
async fn a_deadline_is_replayed() {
    let ahead = Some(Duration::from_secs(2));
    let (came, session, text) = recorded(Arc::new(crate::support::Silent), JumpClock::new(), ahead).await;
    assert_eq!(came.as_ref().unwrap_err().reason.name(), "deadline");
    assert_eq!(replayed(&text, ahead).await, (came, session));
}

#[tokio::test]
async fn a_replay_that_asks_something_else_says_so() {
    let (_, _, text) = recorded(Listed::saying([says("done")]), JumpClock::new(), None).await;
    let recording = Recording::parse(&text).unwrap();
    let session = recording.session(Session::builder()).build();
    let evaluation =
        recording.evaluation(Evaluation::new()).task("Do something else.").resources(resources().0);
    let came = ModelAdapter::new(recording.model()).evaluate(&prompt(), &session, evaluation).await;
    let told = came.unwrap_err().to_string();
    assert!(told.contains("asked something else"), "{told}");
}

#[tokio::test]
async fn a_recording_grows_with_what_is_said_and_not_with_its_square() {
    let size = async |turns: usize| {
        let answers = (0..turns).map(|_| calls(&[("note", "again")])).chain([says("done")]);
        let (_, _, text) = recorded(Listed::saying(answers), JumpClock::new(), None).await;
        text.len()
    };
    let (few, some, more) = (size(10).await, size(20).await, size(30).await);
    let (first, second) = (some - few, more - some);
    assert!(second < first * 11 / 10, "{first} bytes for ten turns, then {second}");
}

#[tokio::test]
async fn what_a_killed_run_left_can_be_read() {
    let (_, _, text) =
        recorded(Listed::saying([calls(&[("note", "a")]), says("done")]), JumpClock::new(), None).await;
    let half = &text[..text.trim_end().len() - 5];
    assert!(Recording::parse(half).is_ok());
    let broken = text.replacen("\"response\"", "\"respons\"", 1);
    let told = Recording::parse(&broken).unwrap_err().to_string();
    assert!(told.starts_with("line 3 of the recording cannot be understood"), "{told}");
    assert_eq!(
        Recording::parse("{}").unwrap_err().to_string(),
        "this is no recording: its first line has no \"wink_recording\""
    );
}

#[tokio::test]
async fn secrets_are_not_in_a_recording() {
    let key = "sk-\"quoted\"-0123456789";
    let secret = Secret::new(key.to_owned());
    let mut response = calls(&[]);
    let arguments = serde_json::json!({ "text": format!("Bearer {key}") }).to_string();
    response.calls.push(Called { id: key.into(), name: "note".into(), arguments: arguments.into() });
    response.text = format!("I found {key}.").into();
    response.provider = Some(Arc::new(serde_json::json!({ key: [key, 1] })));
    let page = Page::default();
    let scrubber = Scrubber::new().knowing(&secret).unwrap();
    let model = Listed::saying([response, says("done")]);
    let recorder = Recorder::start(page.clone(), model, Arc::new(SystemClock), scrubber.clone());
    let session = recorder.session(Session::builder()).build();
    let evaluation =
        recorder.evaluation(Evaluation::new()).task(format!("Use {key}.")).resources(resources().0);
    ModelAdapter::new(recorder.model()).evaluate(&prompt(), &session, evaluation).await.unwrap();
    recorder.finish().unwrap();
    let text = page.text();
    assert!(text.contains("***"));
    for part in ["sk-", "0123456789", "quoted"] {
        assert!(!text.contains(part), "{part} is in {text}");
    }
    assert_eq!(
        (format!("{secret:?}"), format!("{scrubber:?}")),
        ("***".to_owned(), "Scrubber { forms: 9 }".to_owned())
    );
    assert!(Scrubber::new().knowing(&Secret::new("short".to_owned())).is_err());
}

/// A run with a sub-agent of another model: what it came to, and everything in its session and its child's.
async fn with_a_sub_agent(
    (boss, helper): (BoxModel, BoxModel),
    random: Random,
    session: &Session,
    evaluation: Evaluation,
) -> (PromptResponse, Vec<String>) {
    let helper = ModelAdapter::new(helper).random(random.clone());
    let own = Section::markdown("a", "A").body("Find out.");
    let own = PromptTemplate::builder("tests", "helper").section(own).build().unwrap().prompt();
    let tool = SubAgent::new(Arc::new(helper), own).tool("helper", "Finds out.");
    let section = Section::markdown("tools", "Tools").body("Ask.").tool(tool);
    let prompt = PromptTemplate::builder("tests", "boss").section(section).build().unwrap().prompt();
    let response =
        ModelAdapter::new(boss).random(random).evaluate(&prompt, session, evaluation).await.unwrap();
    let sessions = [session.clone()].into_iter().chain(session.children());
    let all =
        |session: Session| session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap().to_string();
    (response, sessions.map(all).collect())
}

#[tokio::test]
async fn sub_runs_are_recorded_and_replayed_like_the_run() {
    let asks = r#"{"tool_calls": [{"name": "helper", "arguments": {"task": "Which?"}}]}"#;
    let script = |text: &str| Arc::new(ScriptedModel::parse(text).unwrap()) as BoxModel;
    let boss = script(&format!("{asks}\n{asks}\n{}", r#"{"text": "Blue."}"#));
    let helper = script(concat!(
        r#"{"error": {"kind": "throttled", "retry_after_ms": 10}}"#,
        "\n",
        r#"{"text": "It is blue."}"#,
        "\n",
        r#"{"text": "Still blue."}"#
    ));
    let page = Page::default();
    let recorder = Recorder::start(page.clone(), boss, JumpClock::new(), Scrubber::new());
    let session = recorder.session(Session::builder()).build();
    let models = (recorder.model(), recorder.another(helper));
    let evaluation = recorder.evaluation(Evaluation::new());
    let recorded = with_a_sub_agent(models, recorder.random(), &session, evaluation).await;
    recorder.finish().unwrap();
    assert_eq!((&*recorded.0.text, recorded.1.len()), ("Blue.", 3));

    let recording = Recording::parse(&page.text()).unwrap();
    let session = recording.session(Session::builder()).build();
    let models = (recording.model(), recording.another("script"));
    let evaluation = recording.evaluation(Evaluation::new());
    let replayed = with_a_sub_agent(models, recording.random(), &session, evaluation).await;
    assert_eq!(replayed, recorded);
}
