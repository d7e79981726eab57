//! What an agent's work must come to: its answer, when it is done, and how whole tasks are shown to it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::json;
use wink::feedback::{Completion, CompletionContext};
use wink::prelude::*;
use wink::prompt::Container;
use wink::suites::planning::SetupPlan;
use wink_agent::Agent;

const AGENT: &str = r#"
[agent]
ns = "ops"
key = "audit"

[[section]]
key = "audit"
title = "Audit"
body = "Look for mistakes."
suites = ["planning"]

[[section.tool]]
name = "scan"
description = "Scan a file."
command = ["./scan.sh"]
params = { type = "object", required = ["file"], properties = { file = { type = "string" } } }
"#;

fn load(more: &str) -> Agent {
    Agent::parse(&format!("{AGENT}\n{more}"), "wink.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn told(more: &str) -> String {
    Agent::parse(&format!("{AGENT}\n{more}"), "wink.toml").unwrap_err().to_string()
}

// case 208
#[test]
fn an_answer_is_held_to_the_schema_of_the_file() {
    let schema = r#"schema = { type = "array", items = { type = "object", required = ["file"], properties = { file = { type = "string" } } } }"#;
    let agent = load(&format!("[output]\n{schema}"));
    let rendered = agent.prompt().render(&Session::new()).unwrap();
    let contract = rendered.output().unwrap();
    assert_eq!((&**contract.name(), contract.container()), ("audit", Container::List));
    assert!(rendered.text().contains("## 2. Response format"), "{}", rendered.text());
    assert_eq!(contract.parse(r#"So: [{"file":"a"}]"#).unwrap().json(), &json!([{ "file": "a" }]));
    assert!(contract.parse(r#"[{"file":"a","line":1}]"#).is_err());

    let agent = load(&format!("[output]\nname = \"findings\"\nextra_keys = true\n{schema}"));
    let contract = agent.prompt().output().unwrap();
    assert_eq!(&**contract.name(), "findings");
    assert!(contract.parse(r#"[{"file":"a","line":1}]"#).is_ok());
    assert!(load("").prompt().output().is_none());
}

#[test]
fn an_answer_that_cannot_be_told_is_a_mistake_of_the_file() {
    assert_eq!(
        told("[output]\nschema = { type = \"string\" }"),
        "wink.toml:19:10: the output audit is a string; an output is an object or a list: put it into one\n  hint: it is a \
         JSON Schema, such as { type = \"object\", properties = { name = { type = \"string\" } } }"
    );
    assert!(told("[output]\nname = \"findings\"").starts_with("wink.toml:18:1: "), "it needs a schema");
}

// case 197
#[tokio::test]
async fn a_plan_that_is_open_keeps_the_work_from_being_done() {
    let agent = load("[completion]\nplan = true");
    let checker = agent.prompt().completion().unwrap();
    let session = Session::new();
    agent.prompt().prepare(&session).unwrap();
    let said = CompletionContext::new(&session, "Done.").ask(checker).await.unwrap();
    assert_eq!(said, Completion::Complete);
    let plan = SetupPlan { objective: "All is well".into(), initial_steps: vec!["Look".into()] };
    assert!(session.dispatch(plan).is_ok());
    let said = CompletionContext::new(&session, "Done.").ask(checker).await.unwrap();
    assert!(matches!(said, Completion::Missing(text) if text.contains("1. Look")));

    assert!(load("[completion]\nplan = false").prompt().completion().is_none());
    let error =
        Agent::parse("[agent]\nns = \"a\"\nkey = \"b\"\n[completion]\nplan = true", "wink.toml").unwrap_err();
    assert_eq!(
        error.to_string(),
        "wink.toml:5:8: the agent has no plan to be done with\n  hint: give a section the suite: `suites = [\"planning\"]`"
    );
}

#[test]
fn tasks_are_shown_and_held_to_the_tools() {
    let task = |step: &str| {
        format!(
            "[[section.task]]\nobjective = \"Is a.rs fine?\"\noutcome = \"It is.\"\nstep = [\n  {step}\n]\n"
        )
    };
    let good =
        r#"{ tool = "scan", description = "Scan it", input = { file = "a.rs" }, output = "no mistakes" }"#;
    let text = load(&task(good)).prompt().render(&Session::new()).unwrap().text().to_owned();
    let shown = "Example of a task: Is a.rs fine?\n\n1. Scan it, with `scan`\n  call: `{\"file\":\"a.rs\"}`\n  result: `no mistakes`\n\n\
                 Outcome: It is.";
    assert!(text.contains(shown), "{text}");

    assert_eq!(
        told(&task(&good.replace("scan\"", "scam\""))),
        "wink.toml:22:12: there is no tool `scam`\n  hint: did you mean `scan`?"
    );
    assert_eq!(
        told(&task(&good.replace("\"a.rs\"", "7"))),
        "wink.toml:22:3: step 1 of the task example \"Is a.rs fine?\": example \"Scan it\": its input: Invalid arguments: \
         `file`: expected a string, got an integer\n  hint: an example is a task with calls that the tools accept, and what \
         they would answer"
    );
    assert!(told(&task("")).starts_with("wink.toml:21:8: "), "it needs steps");
    assert!(
        told(&task(good).replace("It is.", "")).contains("the outcome of a task example must have 1 to 500")
    );
}
