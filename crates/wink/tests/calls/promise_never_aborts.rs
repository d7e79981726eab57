//! Promise: never aborts. Whatever a model sends becomes a failed result that it can read and act on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use serde_json::json;
use wink::executor::{ExecutorLimits, ToolCall};
use wink::prelude::*;
use wink::session::{Ending, LoggedParams};

use crate::support::{self, KINDS, World};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Typed {
    count: u8,
    name: String,
    #[serde(default)]
    items: Vec<Inner>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Inner {
    a: i64,
}

async fn typed(_: Typed, _: &mut ToolContext) -> ToolResult<()> {
    panic!("a handler ran that must not")
}

fn hostile_arguments() -> Vec<(&'static str, String, &'static str)> {
    let deep =
        |open: &str, close: &str, depth: usize| format!("{}{}", open.repeat(depth), close.repeat(depth));
    let megabyte = 1 << 20;
    vec![
        ("broken", "{oops".into(), "JSON"),
        ("only an opening", "{".into(), "JSON"),
        ("two values", "{}{}".into(), "JSON"),
        ("text after it", r#"{"count":1,"name":"x"} and more"#.into(), "JSON"),
        ("an array", "[1]".into(), "must be a JSON object"),
        ("a number", "7".into(), "must be a JSON object"),
        ("a string", r#""{}""#.into(), "must be a JSON object"),
        ("null", "null".into(), "must be a JSON object"),
        ("a duplicate key", r#"{"count":1,"count":2,"name":"x"}"#.into(), "count"),
        ("missing fields", "{}".into(), "count"),
        ("nothing at all", String::new(), "count"),
        ("wrong types", r#"{"count":"7","name":1}"#.into(), "count"),
        ("true for an integer", r#"{"count":true,"name":"x"}"#.into(), "count"),
        ("a fraction", r#"{"count":3.9,"name":"x"}"#.into(), "count"),
        ("out of range", r#"{"count":256,"name":"x"}"#.into(), "count"),
        ("a huge number", format!(r#"{{"count":1{},"name":"x"}}"#, "0".repeat(400)), "number"),
        ("an unknown key", r#"{"count":1,"name":"x","nmae":"y"}"#.into(), "nmae"),
        ("a bad item", r#"{"count":1,"name":"x","items":[{"a":"b"}]}"#.into(), "items[0].a"),
        ("half a surrogate", r#"{"count":1,"name":"\ud800"}"#.into(), ""),
        ("a control character", "{\"count\":1,\"name\":\"\u{1}\"}".into(), ""),
        ("arrays nested a megabyte deep", deep("[", "]", megabyte / 2), ""),
        ("objects nested a megabyte deep", deep("{\"a\":", "}", megabyte / 6), ""),
        ("nesting that is never closed", "[".repeat(megabyte), ""),
        ("nine mebibytes", format!(r#"{{"count":1,"name":"{}"}}"#, "x".repeat(9 << 20)), ""),
        (
            "a million problems",
            format!("{{{}\"z\":1}}", (0..50_000).map(|n| format!("\"k{n}\":1,")).collect::<String>()),
            "",
        ),
    ]
}

fn hostile_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "",
        " ",
        "typd",
        "Typed",
        "typed ",
        "../typed",
        "typed\0",
        "\u{202e}depyt",
        "日本",
        "${x}",
        "\"; drop",
    ]
    .map(str::to_owned)
    .into();
    names.extend(["x".repeat(65), "é".repeat(5_000), "y".repeat(1 << 20)]);
    names
}

async fn world(kind: support::Kind) -> World {
    World::with(
        kind,
        |section| {
            section
                .tool(Tool::new("typed", "Take typed parameters.", typed))
                .tool(Tool::<Typed, ()>::without_handler("elsewhere", "Somebody else handles this."))
                .child(Section::tools("off", "Off").enabled_when(|_| false).tool(Tool::new(
                    "switched_off",
                    "Not now.",
                    typed,
                )))
        },
        |builder| builder,
    )
    .await
}

// cases 22, 23, 24, 25, 26, 28, 29, 33, 34, 48
#[tokio::test]
async fn never_aborts_on_arguments() {
    let bound = ExecutorLimits::default().max_answer_bytes;
    for kind in KINDS {
        let mut world = world(kind).await;
        let before = world.dump().await;
        // Megabytes are parsed the same on every store, and slow to write into one of bytes.
        let fits = |arguments: &String| kind == support::Kind::Memory || arguments.len() < 1 << 20;
        let all: Vec<_> =
            hostile_arguments().into_iter().filter(|(_, arguments, _)| fits(arguments)).collect();
        let count = all.len();
        for (events, (what, arguments, says)) in all.into_iter().enumerate() {
            let outcome = world.executor.call(ToolCall::new("id", "typed", arguments.as_str())).await;
            assert!(!outcome.is_success() && outcome.escalation.is_none(), "{what}");
            assert_eq!(outcome.event.ending, Ending::Rejected, "{what}: {}", outcome.text());
            assert!(outcome.text().contains(says), "{what} says: {}", outcome.text());
            assert!(
                !outcome.text().is_empty() && outcome.text().len() <= bound,
                "{what}: {}",
                outcome.text().len()
            );
            match &outcome.event.params {
                LoggedParams::Rejected { raw, problems } => {
                    assert!(
                        arguments.len() > 8 << 20 || **raw == *arguments,
                        "{what}: the raw arguments are kept"
                    );
                    assert_eq!(&**problems, outcome.text(), "{what}");
                }
                LoggedParams::Accepted(_) => panic!("{what} was accepted"),
            }
            assert_eq!(world.log().len(), events + 1, "{what}");
        }
        assert_eq!(world.dump().await, before);
        world.reopen().await;
        assert_eq!(world.log().len(), count);
    }
}

// cases 12, 14, 38
#[tokio::test]
async fn never_aborts_on_tools_that_are_not_there() {
    for kind in KINDS {
        let mut world = world(kind).await;
        for (events, name) in hostile_names().into_iter().enumerate() {
            let outcome = world.executor.call(ToolCall::new("id", name.as_str(), "{}")).await;
            let shown: String = name.chars().take(20).collect();
            assert!(!outcome.is_success() && outcome.escalation.is_none(), "{shown:?}");
            assert_eq!(outcome.event.ending, Ending::Unavailable, "{shown:?}");
            assert!(outcome.text().starts_with("Unknown tool '"), "{shown:?}: {}", outcome.text());
            assert!(outcome.text().len() < 1_000, "{shown:?}: a short answer");
            assert_eq!(world.log().len(), events + 1);
        }
        let outcome = world.executor.call(ToolCall::new("id", "typd", "{}")).await;
        assert_eq!(outcome.text(), "Unknown tool 'typd'. Did you mean 'typed'?");
        let outcome = world.executor.call(ToolCall::new("id", "switched_off", "{}")).await;
        assert!(
            outcome.text().contains("switched_off") && outcome.text().contains("disabled"),
            "{}",
            outcome.text()
        );
        let outcome = world.executor.call(ToolCall::new("id", "elsewhere", "{}")).await;
        assert_eq!(
            outcome.text(),
            "Tool 'elsewhere' has no handler here and cannot be called. Did you mean 'escalate'?"
        );
        assert!(world.executor.rendered().unwrap().find("elsewhere").is_some(), "it is listed");
        // The runtime goes on.
        let outcome = world.executor.call(world.call("note", json!({ "text": "still here" }))).await;
        assert!(outcome.is_success());
        let events = world.log().len();
        world.reopen().await;
        assert_eq!(world.log().len(), events);
    }
}

#[tokio::test]
async fn never_aborts_on_ids_and_attempts() {
    let world = world(support::Kind::Bytes).await;
    for id in ["".to_owned(), "\0".to_owned(), "i".repeat(1 << 20)] {
        let call = ToolCall::new(id.as_str(), "note", r#"{"text":"x"}"#).attempt(u32::MAX);
        let outcome = world.executor.call(call.clone()).await;
        assert!(outcome.is_success());
        assert_eq!((&*outcome.answer.call_id, outcome.event.attempt), (id.as_str(), u32::MAX));
        let outcomes = world.executor.batch(vec![call.clone(), call]).await;
        assert_eq!(outcomes.iter().map(|outcome| outcome.is_success()).collect::<Vec<_>>(), [true, false]);
        assert!(outcomes[1].text().len() < 1_000, "a short answer");
    }
}

#[tokio::test]
async fn never_aborts_and_never_logs_what_is_sensitive() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Login {
        user: String,
        password: String,
    }
    async fn login(_: Login, _: &mut ToolContext) -> ToolResult<()> {
        ToolResult::done("in")
    }
    for kind in KINDS {
        let section = |section: Section| {
            section.tool(Tool::new("login", "Log in.", login).sensitive("password")).child(
                Section::tools("off", "Off")
                    .enabled_when(|_| false)
                    .tool(Tool::new("old_login", "Log in.", login).sensitive("password"))
                    .tool(Tool::<Login, ()>::without_handler("no_login", "Log in.").sensitive("password")),
            )
        };
        let world = World::with(kind, section, |builder| builder).await;
        let arguments = r#"{"user":"ada","password":"hunter2"}"#;
        let call = |tool: &str| ToolCall::new("1", tool, arguments);
        let accepted = world.executor.call(call("login")).await;
        assert!(accepted.is_success(), "{}", accepted.text());
        let cancelled = wink::limits::CancelToken::new();
        cancelled.cancel();
        let outcomes = [
            accepted,
            world.executor.call(call("old_login")).await,
            world.executor.call(call("no_login")).await,
            world.executor.call(ToolCall::new("1", "login", r#"{"user":7,"password":"hunter2"}"#)).await,
            world.executor.call(ToolCall::new("1", "login", r#"{"user":"ada","password":"hunter2""#)).await,
            world.executor.call_cancellable(call("login"), cancelled).await,
            world.executor.batch(vec![call("login"), call("login")]).await.remove(1),
            world.executor.batch(vec![world.call("escalate", json!({})), call("login")]).await.remove(1),
        ];
        for (at, outcome) in outcomes.iter().enumerate() {
            let event = serde_json::to_string(&*outcome.event).unwrap();
            assert!(!event.contains("hunter2") && !outcome.text().contains("hunter2"), "{at}: {event}");
        }
    }
}

/// A panic's payload that panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("again")
    }
}

#[tokio::test]
async fn never_aborts_on_a_panic_that_panics_when_it_is_dropped() {
    async fn explode(_: (), _: &mut ToolContext) -> ToolResult<()> {
        std::panic::panic_any(Bomb)
    }
    let section = Section::tools("tools", "Tools").tool(Tool::new("explode", "Explode.", explode));
    let prompt = PromptTemplate::builder("tests", "bomb").section(section).build().unwrap().prompt();
    let executor = Executor::open(&prompt, &Session::new()).await.unwrap();
    let outcome = executor.call(ToolCall::new("1", "explode", "{}")).await;
    assert_eq!(outcome.event.ending, Ending::Panicked);
    assert_eq!(outcome.text(), "explode failed unexpectedly (it panicked); nothing was changed");
}
