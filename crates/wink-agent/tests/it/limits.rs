//! What an agent's calls are held to.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use wink::executor::{CallOptions, Escalation};
use wink::prelude::*;
use wink::session::InvocationId;
use wink::testing::FakeClock;
use wink::tool::Progress;
use wink_agent::OpenSession;
use wink_store::{StoreOptions, WorkspaceOptions};

use crate::support::{Place, heard, load, make_pipe};

const AGENT: &str = r#"
[agent]
ns = "t"
key = "t"

[limits]
deadline = "1h"
tool_timeout = "90s"
answer = "100 B"
arguments = "128 B"
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

[[section.tool]]
name = "wait"
description = "d"
command = ["sh", "-c", 'echo ready > "$WINK_ARG_PIPE"; read word < "$WINK_ARG_PIPE"; echo "$word"']
params = { type = "object", properties = { pipe = { type = "string" } } }
"#;

fn fake_clock() -> Arc<FakeClock> {
    Arc::new(FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap()))
}

async fn open(clock: &Arc<FakeClock>) -> (Place, OpenSession) {
    let store = StoreOptions::default().clock(Arc::clone(clock) as _);
    let place = Place::with(WorkspaceOptions { store, ..WorkspaceOptions::default() });
    let opened = load(AGENT).open(&place.workspace, "main").await.unwrap();
    (place, opened)
}

fn call(tool: &str, arguments: &str) -> ToolCall {
    ToolCall::new("1", tool, arguments)
}

#[tokio::test]
async fn timeouts_are_the_tools_own_or_the_agents() {
    let agent = load(AGENT);
    let timeouts: Vec<_> = agent.prompt().placed_tools().map(|tool| tool.tool.contract().timeout()).collect();
    assert_eq!(timeouts, [90, 60, 90].map(|seconds| Some(Duration::from_secs(seconds))));
}

#[tokio::test]
async fn answers_and_arguments_are_bounded() {
    let (_place, opened) = open(&fake_clock()).await;
    let outcome = opened.executor().call(call("talk", "{}")).await;
    assert!(outcome.event.success);
    assert!(outcome.answer.text.len() < 200, "{}", outcome.answer.text);
    let large = opened.executor().call(call("talk", &format!("{{\"a\": \"{}\"}}", "x".repeat(200)))).await;
    assert!(large.answer.text.contains("at most 128 bytes"), "{}", large.answer.text);
    let deep = opened.executor().call(call("talk", "{\"a\": [[[[]]]]}")).await;
    assert!(!deep.event.success, "{}", deep.answer.text);
}

#[tokio::test]
async fn after_the_deadline_nothing_runs() {
    let clock = fake_clock();
    let (_place, opened) = open(&clock).await;
    assert!(opened.executor().call(call("own", "{}")).await.event.success);
    clock.advance(Duration::from_secs(3601));
    let outcome = opened.executor().call(call("own", "{}")).await;
    assert!(matches!(outcome.escalation, Some(Escalation::Evaluation(_))), "{:?}", outcome.escalation);
}

/// What a call said of how far it was.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Progress for Told {
    fn progress(&self, _: InvocationId, done: f64, total: Option<f64>, message: &str) {
        self.0.lock().unwrap().push(format!("{done} {total:?} {message}"));
    }

    fn partial(&self, _: InvocationId, _: &str) {}
}

#[tokio::test]
async fn a_command_that_takes_long_says_so_every_second() {
    let clock = fake_clock();
    let (place, opened) = open(&clock).await;
    let pipe = place.outside().join("pipe");
    make_pipe(&pipe);
    let told = Arc::new(Told::default());
    let options = CallOptions::new().progress(Arc::clone(&told) as _);
    let wait = call("wait", &serde_json::json!({ "pipe": pipe }).to_string());
    let mut calling = std::pin::pin!(opened.executor().call_with(wait, options));
    // It runs, and waits for the other end.
    tokio::select! {
        outcome = &mut calling => panic!("{}", outcome.answer.text),
        ready = heard(&pipe) => assert_eq!(ready.unwrap(), "ready\n"),
    }
    for second in 1..=3 {
        clock.advance(Duration::from_secs(1));
        while told.0.lock().unwrap().len() < second {
            tokio::select! {
                outcome = &mut calling => panic!("{}", outcome.answer.text),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    let writing = std::thread::spawn(move || std::fs::write(pipe, "done\n").unwrap());
    assert_eq!(&*calling.await.answer.text, "done");
    writing.join().unwrap();
    let told = told.0.lock().unwrap();
    assert_eq!(*told, ["1 None running for 1 s", "2 None running for 2 s", "3 None running for 3 s"]);
}
