//! Every kind of policy, from a file: it loads, and it decides.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;

use serde_json::{Value, json};
use wink::executor::{Approval, Outcome, approver_fn};
use wink::prelude::*;
use wink_agent::{Agent, OpenSession};

use crate::support::Place;

const TOOLS: &str = r#"
[agent]
ns = "t"
key = "t"

[[section]]
key = "outer"
title = "Outer"

[[section.section]]
key = "inner"
title = "Inner"
suites = ["files"]
files = { read_before_write = false }

[[section.section.tool]]
name = "test"
description = "Test."
command = ["true"]

[[section.section.tool]]
name = "deploy"
description = "Deploy."
command = ["true"]
params = { type = "object", properties = { environment = { type = "string" }, file = { type = "string" } } }
"#;

async fn open(place: &Place, policy: &str) -> OpenSession {
    let approver = approver_fn(async |request| match request.question.contains("staging") {
        true => Ok(Approval::Approved { by: "ann".into() }),
        false => Ok(Approval::Refused { by: "ann".into(), reason: format!("no: {}", request.question) }),
    });
    load(policy)
        .open_with(&place.workspace, "main", |builder| builder.approver(Arc::new(approver)))
        .await
        .unwrap()
}

fn load(policy: &str) -> Agent {
    crate::support::load(&format!("{TOOLS}\n{policy}\n"))
}

fn told(policy: &str) -> String {
    Agent::parse(&format!("{TOOLS}\n{policy}\n"), "wink.toml").unwrap_err().to_string()
}

async fn call(opened: &OpenSession, tool: &str, arguments: Value) -> Outcome {
    opened.executor().call(ToolCall::new("1", tool, arguments.to_string())).await
}

async fn allows(opened: &OpenSession, tool: &str, arguments: Value) {
    let outcome = call(opened, tool, arguments.clone()).await;
    assert!(outcome.event.success, "{tool} {arguments}: {}", outcome.answer.text);
}

async fn denies(opened: &OpenSession, tool: &str, arguments: Value, because: &str) {
    let outcome = call(opened, tool, arguments.clone()).await;
    assert!(!outcome.event.success, "{tool} {arguments}: {}", outcome.answer.text);
    assert!(outcome.answer.text.contains(because), "{tool} {arguments}: {}", outcome.answer.text);
}

#[tokio::test]
async fn sequential() {
    let place = Place::new();
    let opened = open(&place, "[[policy]]\nsequential = { deploy = [\"test\"] }").await;
    denies(&opened, "deploy", json!({}), "Cannot call 'deploy' - missing required tools: test").await;
    allows(&opened, "test", json!({})).await;
    allows(&opened, "deploy", json!({})).await;
}

#[tokio::test]
async fn read_before_write() {
    let place = Place::new();
    let policy = "[[section.policy]]\nread_before_write = { writes = { deploy = \"file\" } }";
    let opened = open(&place, policy).await;
    allows(&opened, "write_file", json!({ "path": "a", "content": "1" })).await;
    let files = place.workspace.files().root().to_owned();
    std::fs::write(files.join("b"), "somebody else's").unwrap();
    denies(&opened, "write_file", json!({ "path": "b", "content": "1" }), "without reading it first").await;
    denies(&opened, "deploy", json!({ "file": "b" }), "without reading it first").await;
    allows(&opened, "read_file", json!({ "path": "b" })).await;
    allows(&opened, "deploy", json!({ "file": "b" })).await;
}

#[tokio::test]
async fn quota() {
    let place = Place::new();
    let opened = open(&place, "[[section.policy]]\nquota = { tools = { deploy = 1 }, session = 3 }").await;
    allows(&opened, "deploy", json!({})).await;
    denies(&opened, "deploy", json!({}), "its quota for this session is used up: 1 of 1").await;
    allows(&opened, "test", json!({})).await;
    allows(&opened, "test", json!({})).await;
    denies(&opened, "test", json!({}), "the quota of this session is used up: 3 of 3").await;
}

#[tokio::test]
async fn rate_limit() {
    let place = Place::new();
    let policy = "[[section.section.policy]]\nrate_limit = { max = 1, window = \"10d\", per = \"all\", tools = [\"deploy\", \"grep\"] }";
    let opened = open(&place, policy).await;
    allows(&opened, "deploy", json!({})).await;
    denies(&opened, "grep", json!({ "pattern": "x" }), "1 of 1 calls in the last").await;
    allows(&opened, "test", json!({})).await;
}

#[tokio::test]
async fn paths() {
    let place = Place::new();
    let policy = "[[policy]]\npaths = { allow = [\"src/**\"], deny = [\"**/*.key\"], tools = { deploy = [\"file\"] }, \
                  example_allowed = [\"src/a.rs\"], example_denied = [\"src/a.key\", \"b\"] }";
    let opened = open(&place, policy).await;
    allows(&opened, "write_file", json!({ "path": "src/a.rs", "content": "" })).await;
    denies(&opened, "write_file", json!({ "path": "src/a.key", "content": "" }), "src/a.key").await;
    denies(&opened, "write_file", json!({ "path": "src/../b", "content": "" }), "b").await;
    denies(&opened, "deploy", json!({ "file": "x" }), "x").await;
    allows(&opened, "deploy", json!({ "file": "src/a.rs" })).await;
}

#[tokio::test]
async fn approval() {
    let place = Place::new();
    let policy = "[[policy]]\napproval = { tools = [\"deploy\"], when = { environment = [\"staging\", \"production\"] } }";
    let opened = open(&place, policy).await;
    allows(&opened, "test", json!({})).await;
    allows(&opened, "deploy", json!({ "environment": "staging" })).await;
    allows(&opened, "deploy", json!({ "environment": "my own" })).await;
    denies(&opened, "deploy", json!({ "environment": "production" }), "no: Allow 'deploy'").await;
    // What is left out may be anything.
    denies(&opened, "deploy", json!({}), "no: Allow 'deploy'?").await;
}

#[tokio::test]
async fn approval_without_anybody_to_ask_is_a_denial() {
    let place = Place::new();
    let agent = load("[[policy]]\napproval = {}");
    let opened = agent.open(&place.workspace, "main").await.unwrap();
    let outcome = call(&opened, "test", json!({})).await;
    assert!(!outcome.event.success, "{}", outcome.answer.text);
}

#[tokio::test]
async fn combinations() {
    let place = Place::new();
    let policy = "[[policy]]\nany_of = [{ quota = { tools = { deploy = 1 } } }, { sequential = { deploy = [\"test\"] } }]\n\
                  [[policy]]\nall_of = [{ quota = { session = 4 } }, { quota = { tools = { test = 1 } } }]\n\
                  [[policy]]\nnot = { policy = { quota = { tools = { glob = 9 } } }, because = \"no globs today\" }";
    let opened = open(&place, policy).await;
    denies(&opened, "glob", json!({ "pattern": "*" }), "no globs today").await;
    allows(&opened, "deploy", json!({})).await;
    denies(&opened, "deploy", json!({}), "One of these must be settled first").await;
    allows(&opened, "test", json!({})).await;
    denies(&opened, "test", json!({}), "its quota for this session is used up").await;
    allows(&opened, "deploy", json!({})).await;
    allows(&opened, "deploy", json!({})).await;
    denies(&opened, "deploy", json!({}), "the quota of this session is used up: 4 of 4").await;
}

#[test]
fn policies_speak_of_tools_that_are_there_and_covered() {
    let cases = [
        "[[policy]]\nsequential = { deply = [\"tset\"] }",
        "[[policy]]\nsequential = { deploy = [\"deploy\"], test = [] }",
        "[[section]]\nkey = \"other\"\ntitle = \"Other\"\n[[section.policy]]\nquota = { tools = { deploy = 1 } }",
        "[[policy]]\npaths = { deny = [\"[\", \"a/\"], tools = { deploy = [\"fiel\"] } }",
        "[[policy]]\npaths = { deny = [\"a\"], example_allowed = [\"a\"], example_denied = [\"b\"] }",
        "[[policy]]\napproval = { tools = [], when = { enviroment = [1] } }",
        "[[policy]]\nrate_limit = { max = 1, window = \"soon\" }",
        "[[policy]]\nsequential = { deploy = [\"test\"], test = [\"grep\"] }\n[[policy]]\nall_of = [{ sequential = { grep = [\"deploy\"] } }]",
        "[[policy]]\nany_of = []",
        "[[policy]]\nnot = {}",
        "[[policy]]",
    ];
    let told: Vec<String> = cases.iter().map(|text| format!("{text}\n=>\n{}\n", told(text))).collect();
    insta::assert_snapshot!(told.join("\n"));
}
