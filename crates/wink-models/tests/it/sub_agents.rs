//! Agents as tools of others: what a call of one comes to, and who sees its run.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::sync::{Arc, Mutex};

use serde_json::json;
use wink::feedback::{Completion, CompletionChecker, CompletionContext};
use wink::prelude::*;
use wink::prompt::{Output, PromptTemplateBuilder};
use wink::session::{Ending, ToolInvoked};
use wink_models::{
    Adapter, Evaluation, ModelAdapter, ModelResponse, Piece, RunStats, Stream, SubAgent, Terms, Watch,
};

use crate::support::{Listed, calls, prompt, resources, says};

#[data]
#[derive(Debug, Clone, PartialEq)]
struct Verdict {
    guilty: bool,
}
impl SliceType for Verdict {
    const NAME: &'static str = "verdict";
}

/// Never satisfied.
struct Never;

impl CompletionChecker for Never {
    fn check<'a>(&'a self, _: &'a CompletionContext<'a>) -> wink::BoxFuture<'a, Completion> {
        Box::pin(std::future::ready(Completion::Missing("two of three are open".into())))
    }
}

fn asks() -> ModelResponse {
    let mut response = calls(&[("ask_helper", "")]);
    response.calls[0].arguments = r#"{"task":"Find out."}"#.into();
    response
}

fn boss(helper: SubAgent) -> Prompt {
    let tool = helper.tool("ask_helper", "Asks somebody who knows.");
    let section = Section::tools("help", "Help").tool(tool);
    PromptTemplate::builder("tests", "boss").section(section).build().unwrap().prompt()
}

fn helper(prompt: impl FnOnce(PromptTemplateBuilder) -> Prompt, says_so: ModelResponse) -> SubAgent {
    let section = Section::markdown("task", "Task").body("Decide.");
    let prompt = prompt(PromptTemplate::builder("tests", "helper").section(section));
    let terms = Terms { max_reminders: 1, ..Terms::default() };
    let adapter = ModelAdapter::new(Listed::saying([says_so])).terms(terms);
    SubAgent::new(Arc::new(adapter), prompt)
}

/// What the one call of a sub-agent came to.
async fn called(helper: SubAgent) -> Arc<ToolInvoked> {
    let session = Session::new();
    let adapter = ModelAdapter::new(Listed::saying([asks(), says("ok")]));
    adapter.evaluate(&boss(helper), &session, Evaluation::new()).await.unwrap();
    let mut events = session.slice::<ToolInvoked>().all();
    assert_eq!(events.len(), 1);
    events.remove(0)
}

#[tokio::test]
async fn a_sub_agent_of_which_something_is_missing_is_a_call_that_failed() {
    let prompt = |template: PromptTemplateBuilder| template.completion(Never).build().unwrap().prompt();
    let event = called(helper(prompt, says("Done."))).await;
    let told = "the sub-agent is not done: two of three are open";
    assert_eq!((event.ending, event.success, &*event.rendered), (Ending::Failed, false, told));
    assert_eq!(event.value.to_json(), json!("Done."));
}

#[tokio::test]
async fn a_typed_result_of_a_sub_agent_is_the_value_of_the_call() {
    let prompt = |template: PromptTemplateBuilder| {
        template.output(Output::object::<Verdict>()).build().unwrap().prompt()
    };
    let said = says("I think:\n```json\n{ \"guilty\":\n false }\n```");
    let event = called(helper(prompt, said)).await;
    assert_eq!((event.ending, &*event.rendered), (Ending::Succeeded, r#"{"guilty":false}"#));
    assert_eq!(event.value.to_json(), json!({ "guilty": false }));
}

#[tokio::test]
async fn without_one_it_is_the_last_word() {
    let event = called(helper(|template| template.build().unwrap().prompt(), says("It is \"blue\"."))).await;
    assert_eq!((event.ending, &*event.rendered), (Ending::Succeeded, "It is \"blue\"."));
}

/// Sees a run, and the runs inside of it, each by its name.
#[derive(Clone)]
struct Sees {
    run: String,
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

impl Sees {
    fn see(&self, what: String) {
        self.seen.lock().unwrap().push((self.run.clone(), what));
    }
}

impl Stream for Sees {
    fn piece(&self, piece: Piece<'_>) {
        self.see(format!("{piece:?}"));
    }
}

impl Watch for Sees {
    fn stats(&self, stats: RunStats) {
        self.see(format!("{} turns", stats.turns));
    }

    fn outcomes(&self, outcomes: &[Outcome]) {
        outcomes.iter().for_each(|outcome| self.see(outcome.answer.text.to_string()));
    }

    fn sub_run(&self, run: &str) -> Option<Arc<dyn Watch>> {
        self.see("a sub-run".to_owned());
        Some(Arc::new(Self { run: run.to_owned(), seen: Arc::clone(&self.seen) }))
    }
}

#[tokio::test]
async fn whoever_watches_a_run_may_watch_its_sub_runs() {
    let own = Listed::saying([calls(&[("note", "a")]), says("Noted.")]);
    let adapter = ModelAdapter::new(own).resources(resources().0);
    let helper = SubAgent::new(Arc::new(adapter), prompt());
    let sees = Sees { run: "run".into(), seen: Arc::default() };
    let evaluation = Evaluation::new().watch(Arc::new(sees.clone()));
    let session = Session::new();
    let adapter = ModelAdapter::new(Listed::saying([asks(), says("ok")]));
    adapter.evaluate(&boss(helper), &session, evaluation).await.unwrap();
    let sub_run = session.children()[0].slice::<ToolInvoked>().latest().unwrap().run.run_id.clone().unwrap();
    let expected = [
        ("run", "0 turns"),
        ("run", "1 turns"),
        ("run", "a sub-run"),
        (&sub_run, "0 turns"),
        (&sub_run, "1 turns"),
        (&sub_run, "noted\n\n{\"text\":\"a\"}"),
        (&sub_run, "1 turns"),
        (&sub_run, "2 turns"),
        (&sub_run, "2 turns"),
        (&sub_run, "2 turns"),
        ("run", "Noted."),
        ("run", "1 turns"),
        ("run", "2 turns"),
        ("run", "2 turns"),
        ("run", "2 turns"),
    ];
    let seen = sees.seen.lock().unwrap();
    let seen: Vec<(&str, &str)> = seen.iter().map(|(run, what)| (&**run, &**what)).collect();
    assert_eq!(seen, expected);
}
