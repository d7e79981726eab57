//! The sugar: `#[tool]`, `#[data]` and `#[derive(SliceType)]` make what could be written by hand.

#![cfg(feature = "macros")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]
#![deny(missing_docs, unreachable_pub)]

use std::time::Duration;

use serde_json::{Value, json};
use wink::executor::{Executor, ToolCall};
use wink::prelude::*;
use wink::session::SliceKind;
use wink::tool::{HandlerKind, IntoTool};

/// Adds two numbers.
///
/// This paragraph is for readers of the code.
#[tool]
async fn add(
    /// The first.
    a: i64,
    #[serde(default)]
    #[schemars(range(min = 0, max = 9))]
    b: i64,
) -> ToolResult<i64> {
    ToolResult::value(a + b)
}

/// Remembers a text,
/// and says how many there are.
#[tool(name = "take-note", timeout = "1500ms")]
async fn note(mut text: String, cx: &mut ToolContext) -> Result<ToolResult<usize>, ToolError> {
    text.make_ascii_lowercase();
    let _ = cx.session().dispatch(Note { text })?;
    Ok(ToolResult::ok(cx.session().slice::<Note>()?.len(), "noted"))
}

#[tool(description = "Says where it runs.")]
async fn look(cx: &mut ReadContext) -> ToolResult<String> {
    ToolResult::value(cx.tool().name().to_string())
}

/// Answers.
#[tool]
fn ping() -> ToolResult<()> {
    ToolResult::done("pong")
}

type Answer = Result<ToolResult<String>, ToolError>;

/// Says it louder.
#[tool]
async fn shout(params: Note, _cx: &mut wink::tool::ToolContext) -> Answer {
    Ok(ToolResult::value(params.text.to_uppercase()))
}

/// Says it in reverse.
#[tool]
fn reverse(Note { text }: Note) -> Answer {
    Ok(ToolResult::value(text.chars().rev().collect()))
}

/// Has a keyword for a name.
#[tool(name = "match")]
async fn r#match(r#type: Option<String>, params: bool) -> ToolResult<String> {
    ToolResult::value(format!("{type:?} {params}", type = r#type))
}

#[data]
#[derive(Debug, Clone, PartialEq, SliceType)]
#[slice(name = "note")]
struct Note {
    text: String,
}

#[data]
#[derive(Debug, Clone, PartialEq, SliceType)]
#[slice(name = "step", version = 2, kind = "log", key = "id", upgrade = "older_step")]
struct Step {
    id: u32,
    title: String,
}

fn older_step(from: u32, mut value: Value) -> Result<Value, String> {
    match from {
        1 => {
            value["title"] = json!("untitled");
            Ok(value)
        }
        other => Err(format!("no version {other}")),
    }
}

async fn answers<const N: usize>(calls: [(&str, &str); N]) -> Vec<String> {
    let section = Section::tools("sugar", "Sugar")
        .tool(add_tool())
        .tool(note_tool())
        .tool(look_tool())
        .tool(ping_tool())
        .tool(shout_tool())
        .tool(reverse_tool())
        .tool(match_tool());
    let prompt = PromptTemplate::builder("tests", "macros").section(section).build().unwrap().prompt();
    let executor = Executor::open(&prompt, &Session::new()).await.unwrap();
    let mut answers = Vec::new();
    for (tool, arguments) in calls {
        answers.push(executor.call(ToolCall::new("1", tool, arguments)).await.text().to_owned());
    }
    answers
}

#[tokio::test]
async fn every_form_runs() {
    let answers = answers([
        ("add", r#"{"a":1,"b":2}"#),
        ("add", r#"{"a":1}"#),
        ("take-note", r#"{"text":"A"}"#),
        ("take-note", r#"{"text":"B"}"#),
        ("look", ""),
        ("ping", "{}"),
        ("shout", r#"{"text":"hey"}"#),
        ("reverse", r#"{"text":"hey"}"#),
        ("match", r#"{"type":"x","params":true}"#),
        ("match", r#"{"params":false}"#),
    ]);
    assert_eq!(
        answers.await,
        [
            "3",
            "1",
            "noted\n\n1",
            "noted\n\n2",
            "look",
            "pong",
            "HEY",
            "yeh",
            "Some(\"x\") true",
            "None false"
        ]
    );
}

#[tokio::test]
async fn arguments_are_held_to_the_generated_schema() {
    let answers = answers([("add", r#"{"a":"1","b":10,"c":2}"#)]).await;
    for path in ["a", "b", "c"] {
        assert!(answers[0].contains(path), "{}", answers[0]);
    }
}

#[test]
fn the_contract_says_what_the_function_does() {
    let tool = add_tool().into_tool().unwrap();
    let contract = tool.contract();
    assert_eq!((&**contract.name(), contract.description()), ("add", "Adds two numbers."));
    assert_eq!(contract.handler(), HandlerKind::Async);
    let schema = contract.schema();
    assert_eq!(schema["properties"]["a"]["description"], "The first.");
    assert_eq!(schema["properties"]["b"]["maximum"], 9);
    assert_eq!(schema["required"], json!(["a"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(schema.get("description"), None);

    let tool = note_tool().into_tool().unwrap();
    let contract = tool.contract();
    assert_eq!(contract.description(), "Remembers a text, and says how many there are.");
    assert_eq!(contract.timeout(), Some(Duration::from_millis(1500)));
    assert!(!contract.annotations().read_only);

    let tool = look_tool().into_tool().unwrap();
    assert_eq!(tool.contract().description(), "Says where it runs.");
    assert!(tool.contract().annotations().read_only);
    assert_eq!(ping_tool().into_tool().unwrap().contract().handler(), HandlerKind::Blocking);
}

#[tokio::test]
async fn the_function_stays_and_the_tool_can_be_built_on() {
    assert_eq!(add(1, 2).await, ToolResult::value(3));
    let tool = add_tool().example("A sum.", AddParams { a: 1, b: 2 }, 3).timeout(Duration::from_secs(1));
    let tool = tool.into_tool().unwrap();
    assert_eq!(tool.contract().examples()[0].input, json!({ "a": 1, "b": 2 }));
    assert_eq!(tool.contract().timeout(), Some(Duration::from_secs(1)));
}

#[test]
fn a_slice_is_what_its_attribute_says() {
    assert_eq!((Note::NAME, Note::VERSION, Note::KIND, Note::KEYED), ("note", 1, SliceKind::State, false));
    assert_eq!(Note { text: "a".into() }.key(), None);
    assert!(Note::upgrade(0, json!({})).is_err());

    assert_eq!((Step::NAME, Step::VERSION, Step::KIND, Step::KEYED), ("step", 2, SliceKind::Log, true));
    assert_eq!(Step { id: 7, title: String::new() }.key(), Some("7".into()));
    assert_eq!(Step::upgrade(1, json!({ "id": 7 })), Ok(json!({ "id": 7, "title": "untitled" })));
    assert_eq!(Step::upgrade(0, json!({})), Err("no version 0".to_owned()));
}

/// A module and a macro may share a name.
mod names {
    use wink::tool;
    use wink::tool::ToolResult;

    /// Counts.
    #[tool]
    pub(super) async fn count(items: Vec<String>) -> ToolResult<usize> {
        ToolResult::value(items.len())
    }

    pub(super) fn kind() -> tool::HandlerKind {
        tool::HandlerKind::Async
    }
}

#[test]
fn the_module_and_the_attribute_share_their_name() {
    let tool = names::count_tool().into_tool().unwrap();
    assert_eq!(tool.contract().handler(), names::kind());
}
