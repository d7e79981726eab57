//! What an agent's calls are held to.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use wink::executor::Escalation;
use wink::prelude::*;
use wink::testing::FakeClock;
use wink_agent::{Agent, OpenSession};
use wink_store::{StoreOptions, Workspace, WorkspaceOptions};

const AGENT: &str = r#"
[agent]
ns = "t"
key = "t"

[limits]
deadline = "1h"
tool_timeout = "90s"
answer = "100 B"
arguments = "64 B"
arguments_depth = 3
budget = { max_total_tokens = 1000 }

[[section]]
key = "a"
title = "A"

[[section.tool]]
name = "talk"
description = "d"
command = ["sh", "-c", "head -c 5000 /dev/zero | tr '\\0' x"]
params = { type = "object", additionalProperties = true }

[[section.tool]]
name = "own"
description = "d"
command = ["true"]
timeout = "1m"
"#;

fn fake_clock() -> Arc<FakeClock> {
    Arc::new(FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap()))
}

async fn open(clock: &Arc<FakeClock>) -> (tempfile::TempDir, OpenSession) {
    let dir = tempfile::tempdir().unwrap();
    let store = StoreOptions::default().clock(Arc::clone(clock) as _);
    let workspace =
        Workspace::open_with(dir.path(), WorkspaceOptions { store, ..WorkspaceOptions::default() });
    let agent = Agent::parse(AGENT, "wink.toml").unwrap_or_else(|error| panic!("{error}"));
    let opened = agent.open(&Arc::new(workspace.unwrap()), "main").await.unwrap();
    (dir, opened)
}

fn call(tool: &str, arguments: &str) -> ToolCall {
    ToolCall::new("1", tool, arguments)
}

#[tokio::test]
async fn timeouts_are_the_tools_own_or_the_agents() {
    let agent = Agent::parse(AGENT, "wink.toml").unwrap();
    let timeouts: Vec<_> = agent.prompt().placed_tools().map(|tool| tool.tool.contract().timeout()).collect();
    assert_eq!(timeouts, [Some(Duration::from_secs(90)), Some(Duration::from_secs(60))]);
}

#[tokio::test]
async fn answers_and_arguments_are_bounded() {
    let (_dir, opened) = open(&fake_clock()).await;
    let outcome = opened.executor().call(call("talk", "{}")).await;
    assert!(outcome.event.success);
    assert!(outcome.answer.text.len() < 200, "{}", outcome.answer.text);
    let large = opened.executor().call(call("talk", &format!("{{\"a\": \"{}\"}}", "x".repeat(100)))).await;
    assert!(large.answer.text.contains("at most 64 bytes"), "{}", large.answer.text);
    let deep = opened.executor().call(call("talk", "{\"a\": [[[[]]]]}")).await;
    assert!(!deep.event.success, "{}", deep.answer.text);
}

#[tokio::test]
async fn after_the_deadline_nothing_runs() {
    let clock = fake_clock();
    let (_dir, opened) = open(&clock).await;
    assert!(opened.executor().call(call("own", "{}")).await.event.success);
    clock.advance(Duration::from_secs(3601));
    let outcome = opened.executor().call(call("own", "{}")).await;
    assert!(matches!(outcome.escalation, Some(Escalation::Evaluation(_))), "{:?}", outcome.escalation);
}
