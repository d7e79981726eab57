//! The same calls through the library, over stdio and over HTTP: the same answers, events and state.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wink::executor::{CallOptions, ToolCall};
use wink::filesystem::{Filesystem, FsPath};
use wink::session::ToolInvoked;
use wink_mcp::{Listing, ServedSession};

use crate::support::{Agent, Client, Http, stateless, text_of};

/// What is called, one after the other.
const CALLS: &[(&str, &str)] = &[
    ("save", r#"{"file":"a.txt","text":"milk"}"#),
    ("save_and_fail", r#"{"file":"b.txt","text":"gone"}"#),
    ("release", r#"{"environment":"production"}"#),
    ("deploy", r#"{"environment":"production"}"#),
    ("sve", r#"{"file":"a.txt"}"#),
    ("add", r#"{"a":"1","c":2}"#),
    ("add", r#"{"a":1,"a":2,"b":3}"#),
    ("add", "[1,2]"),
    ("add", r#"{"a":1,"b":2}"#),
    ("release", r#"{"environment":"production"}"#),
    ("pay", r#"{"environment":"staging"}"#),
    ("pay", r#"{ "environment": "staging" }"#),
    ("look_up", r#"{"a":1,"b":2}"#),
    ("open_sections", r#"{"reason":"to look","section_keys":["manual"]}"#),
    ("look_up", r#"{"a":1,"b":2}"#),
    ("hurry", "{}"),
];

/// What came of all of them.
#[derive(Debug, PartialEq)]
struct Came {
    texts: Vec<String>,
    events: Vec<Value>,
    state: Value,
}

impl Came {
    async fn of(agent: &Agent, texts: Vec<String>) -> Self {
        let events = agent.events().iter().map(comparable).collect();
        let mut files = Vec::new();
        for entry in agent.files.glob(&FsPath::root(), "**").await.unwrap() {
            let path = entry.path.to_string();
            files.push(json!([path, agent.file(&path).await]));
        }
        let session = agent.session.executor().session();
        let state = json!({
            "files": files,
            "calls": CALLS.iter().map(|(tool, _)| session.calls(tool).map(|stat| stat.count)).collect::<Vec<_>>(),
            "prompt": agent.session.executor().rendered().unwrap().text(),
        });
        Self { texts, events, state }
    }
}

/// An event without what is different every time: ids.
fn comparable(event: &Arc<ToolInvoked>) -> Value {
    let mut event = serde_json::to_value(&**event).unwrap();
    for field in ["id", "call_id"] {
        event.as_object_mut().unwrap().remove(field);
    }
    event
}

/// Lets the call that has no time run out of it.
async fn pass_time(agent: &Agent, tool: &str) {
    if tool == "hurry" {
        agent.shared.waiting.notified().await;
        while agent.clock.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        agent.clock.advance(Duration::from_secs(2));
    }
}

async fn by_library() -> Came {
    let agent = Agent::new().await;
    let executor = agent.session.executor();
    let mut texts = Vec::new();
    for (tool, arguments) in CALLS {
        let call = executor.drive(ToolCall::new("x", *tool, *arguments), CallOptions::new());
        let (outcome, ()) = tokio::join!(call, pass_time(&agent, tool));
        texts.push(outcome.text().to_owned());
    }
    Came::of(&agent, texts).await
}

/// The text of an answer, whichever way it is one.
fn text(answer: &Value) -> String {
    match answer["error"]["message"].as_str() {
        Some(text) => {
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
            text.to_owned()
        }
        None => text_of(&answer["result"]).to_owned(),
    }
}

async fn by_stdio(version: Option<&str>) -> Came {
    let agent = Agent::new().await;
    let mut client = match version {
        Some(version) => Client::shaken(&agent, version, json!({})).await,
        None => Client::new(&agent),
    };
    let meta = version.map_or_else(|| stateless(json!({})), |_| json!({}));
    let mut texts = Vec::new();
    for (at, (tool, arguments)) in CALLS.iter().enumerate() {
        let id = 1000 + i64::try_from(at).unwrap();
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments},"_meta":{meta}}}"#);
        let text_sent = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        client.send_text(&text_sent).await;
        let (answer, ()) = tokio::join!(client.answer(id), pass_time(&agent, tool));
        texts.push(text(&answer));
    }
    client.close().await;
    Came::of(&agent, texts).await
}

async fn by_http() -> Came {
    let agent = Agent::new().await;
    let http = Http::new(&[&agent]).await;
    let mut texts = Vec::new();
    for (tool, arguments) in CALLS {
        let meta = stateless(json!({}));
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments},"_meta":{meta}}}"#);
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let headers = http.headers("main", "tools/call", Some(tool));
        let (reply, ()) = tokio::join!(http.post("/mcp/main", &headers, &body), pass_time(&agent, tool));
        texts.push(text(&reply.answer()));
    }
    http.close().await;
    Came::of(&agent, texts).await
}

#[tokio::test]
async fn every_surface_answers_the_same() {
    let library = by_library().await;
    assert_eq!(library.texts.len(), CALLS.len());
    assert_eq!(library.events.len(), CALLS.len());
    for version in [Some("2025-06-18"), Some("2025-11-25"), None] {
        assert_eq!(by_stdio(version).await, library, "{version:?}");
    }
    assert_eq!(by_http().await, library);
}

#[tokio::test]
async fn sessions_share_a_listing() {
    let agent = Agent::new().await;
    let prompt = crate::support::template().prompt();
    let listing = Listing::of(&prompt);
    let served = || {
        let executor = agent.session.executor().clone();
        ServedSession::listed_as(listing.clone(), prompt.clone(), executor, agent.options())
    };
    let (one, other) = (served(), served());
    // The same as without, and one for both.
    assert!(one.tools().eq(agent.session.tools()));
    assert!(one.tools().zip(other.tools()).all(|(one, other)| std::ptr::eq(one, other)));
}
