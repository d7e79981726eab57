//! Results in a type, and whether the model is done.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::sync::Arc;

use serde_json::json;
use wink::BoxFuture;
use wink::feedback::{Completion, CompletionChecker, CompletionContext};
use wink::limits::CancelToken;
use wink::prelude::*;
use wink::prompt::Output;
use wink::session::PromptExecuted;
use wink::suites::{PlanChecker, PlanningToolsSection};
use wink_models::{
    Adapter, Evaluation, Message, ModelAdapter, PromptResponse, RunReport, ScriptedModel, StopReason, Stopped,
};

use crate::support::{Listed, Note, calls, prompt_with, resources, says};

fn reason(came: &Result<PromptResponse, Stopped>) -> &StopReason {
    &came.as_ref().unwrap_err().reason
}

#[data]
#[derive(Debug, Clone, PartialEq)]
struct Verdict {
    guilty: bool,
}
impl SliceType for Verdict {
    const NAME: &'static str = "verdict";
}

fn court() -> Prompt {
    PromptTemplate::builder("tests", "court")
        .section(Section::markdown("task", "Task").body("Decide."))
        .output(Output::object::<Verdict>().publishes())
        .build()
        .unwrap()
        .prompt()
}

// case 207
#[tokio::test]
async fn a_typed_result_is_parsed_and_recorded() {
    let model = Listed::saying([says("I think:\n```json\n{\"guilty\": false}\n```")]);
    let session = Session::new();
    let response =
        ModelAdapter::new(model.clone()).evaluate(&court(), &session, Evaluation::new()).await.unwrap();
    assert_eq!(response.output::<Verdict>(), Some(Verdict { guilty: false }));
    assert_eq!(session.slice::<Verdict>().latest().as_deref(), Some(&Verdict { guilty: false }));
    let executed = session.slice::<PromptExecuted>().latest().unwrap();
    assert_eq!(executed.output.to_json(), json!({ "guilty": false }));
    assert!(executed.text.starts_with("I think:"), "the original text is kept");
    let asked = model.asked.lock().unwrap();
    assert_eq!(asked[0].output.as_ref().map(|output| output.name.to_string()).as_deref(), Some("Verdict"));
    let report = RunReport::of(&Ok(response));
    assert_eq!((report.output, report.stopped_by), (json!({ "guilty": false }), "completed"));
}

#[tokio::test]
async fn a_result_of_the_wrong_form_is_sent_back_a_few_times() {
    let model = Listed::saying([says("{\"guilty\": \"no\"}"), says("{\"guilty\": true}")]);
    let response =
        ModelAdapter::new(model.clone()).evaluate(&court(), &Session::new(), Evaluation::new()).await;
    assert_eq!(response.unwrap().output::<Verdict>(), Some(Verdict { guilty: true }));
    let Message::User { text } = Message::clone(&model.asked.lock().unwrap()[1].messages[1]) else {
        panic!()
    };
    let told = "The JSON of the answer does not fit: `guilty`: expected true or false, got a string\nAnswer again with one JSON \
                object that fits the schema `Verdict`, in a block marked `json`.";
    assert_eq!(&*text, told);
    let model = Listed::saying([says("Not guilty.")]);
    let came = ModelAdapter::new(model.clone()).evaluate(&court(), &Session::new(), Evaluation::new()).await;
    assert_eq!((reason(&came).name(), model.asked()), ("output", 4));
}

/// Two notes are enough.
struct Notes;

impl CompletionChecker for Notes {
    fn check<'a>(&'a self, cx: &'a CompletionContext<'a>) -> BoxFuture<'a, Completion> {
        let missing = 2usize.saturating_sub(cx.slice::<Note>().len());
        Box::pin(std::future::ready(match missing {
            0 => Completion::Complete,
            _ => Completion::Missing(format!("{missing} notes are missing.")),
        }))
    }
}

#[tokio::test]
async fn a_model_that_is_not_done_is_told_what_is_missing() {
    let prompt = prompt_with(|template| template.completion(Notes));
    let note = || calls(&[("note", "a")]);
    let evaluation = || Evaluation::new().resources(resources().0);
    let model = Listed::saying([note(), says("done"), note(), says("done now")]);
    let response = ModelAdapter::new(model.clone()).evaluate(&prompt, &Session::new(), evaluation()).await;
    let response = response.unwrap();
    assert_eq!((&*response.text, response.missing), ("done now", None));
    let asked = model.asked.lock().unwrap()[2].clone();
    assert_eq!(*asked.messages[3], Message::User { text: "1 notes are missing.".into() });
    // A bounded number of times.
    let model = Listed::saying([says("done")]);
    let response = ModelAdapter::new(model.clone()).evaluate(&prompt, &Session::new(), evaluation()).await;
    assert_eq!((model.asked(), RunReport::of(&response).stopped_by), (4, "incomplete"));
    assert_eq!(response.unwrap().missing.as_deref(), Some("2 notes are missing."));
}

// case 197
#[tokio::test]
async fn an_incomplete_plan_is_sent_back() {
    let script = r#"
        {"tool_calls": [{"name": "planning_setup_plan", "arguments": {"objective": "Move", "initial_steps": ["Pack", "Drive"]}}]}
        {"text": "Moved."}
        {"tool_calls": [{"name": "planning_update_step", "arguments": {"step_id": 1, "status": "done"}}]}
        {"tool_calls": [{"name": "planning_update_step", "arguments": {"step_id": 2, "status": "done"}}]}
        {"text": "Moved, really."}
    "#;
    let template = PromptTemplate::builder("tests", "plan")
        .section(PlanningToolsSection::new().section())
        .completion(PlanChecker);
    let (session, model) = (Session::new(), Arc::new(ScriptedModel::parse(script).unwrap()));
    let prompt = template.build().unwrap().prompt();
    let response = ModelAdapter::new(model).evaluate(&prompt, &session, Evaluation::new()).await.unwrap();
    assert_eq!((&*response.text, response.missing, response.stats.turns), ("Moved, really.", None, 5));
    let said =
        wink_models::conversation::Conversation::read_back(&session, &response.run_id).unwrap().unwrap();
    let Message::User { text } = &*said.messages()[3] else { panic!() };
    assert!(text.contains("Pack") && text.contains("Drive"), "{text}");
}

/// Never comes to an opinion.
struct Undecided;

impl CompletionChecker for Undecided {
    fn check<'a>(&'a self, _: &'a CompletionContext<'a>) -> BoxFuture<'a, Completion> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_checker_that_does_not_answer_can_be_cancelled() {
    let prompt = prompt_with(|template| template.completion(Undecided));
    let cancel = CancelToken::new();
    let evaluation = Evaluation::new().resources(resources().0).cancel(cancel.clone());
    let (adapter, session) = (ModelAdapter::new(Listed::saying([says("done")])), Session::new());
    let stopping = async {
        while session.slice::<wink_models::conversation::ConversationStep>().len() < 2 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (came, ()) = tokio::join!(adapter.evaluate(&prompt, &session, evaluation), stopping);
    assert_eq!(*reason(&came), StopReason::Cancelled);
}
