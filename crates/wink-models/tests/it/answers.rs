//! Calls of every kind, and what a model is told of each: the same for whoever carries it there.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic, reason = "shared by tests")]

use std::sync::{Arc, Mutex};

use serde_json::json;
use wink::BoxFuture;
use wink::limits::CancelToken;
use wink::policy::{Decision, policy_fn};
use wink::prelude::*;
use wink_models::{
    Adapter, Evaluation, Message, Model, ModelAdapter, ModelError, ModelRequest, ModelResponse,
    ScriptedModel, Stream,
};

#[data]
struct Params {
    text: String,
    times: Option<u8>,
}

#[data]
struct Entry {
    text: String,
    tags: Vec<String>,
}

async fn entry(params: Params, _: &mut ToolContext) -> ToolResult<Entry> {
    let text = params.text.repeat(params.times.unwrap_or(1).into());
    ToolResult::ok(Entry { text, tags: vec!["a".into(), "b \"c\"".into()] }, "kept it")
}

async fn value(params: Params, _: &mut ToolContext) -> ToolResult<String> {
    ToolResult::value(params.text)
}

async fn hidden(params: Params, _: &mut ToolContext) -> ToolResult<String> {
    ToolResult::ok(params.text, "it is known").exclude_value_from_context()
}

async fn nothing(_: Params, _: &mut ToolContext) -> ToolResult<()> {
    ToolResult::done("")
}

async fn fail(params: Params, _: &mut ToolContext) -> ToolResult<Entry> {
    ToolResult::failed(Entry { text: params.text, tags: Vec::new() }, "not today")
}

async fn error(params: Params, _: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    Err(ToolError::new(params.text).tell("it broke:\n  in two lines"))
}

async fn panics(_: Params, _: &mut ToolContext) -> ToolResult<()> {
    panic!("for the operator")
}

pub fn prompt() -> Prompt {
    let tools = Section::markdown("tools", "Tools")
        .body("Use them.")
        .tool(Tool::new("entry", "Gives a value and words.", entry))
        .tool(Tool::new("value", "Gives a value.", value))
        .tool(Tool::new("hidden", "Gives words.", hidden))
        .tool(Tool::new("nothing", "Gives nothing.", nothing))
        .tool(Tool::new("fail", "Fails.", fail))
        .tool(Tool::new("error", "Breaks.", error))
        .tool(Tool::new("panics", "Panics.", panics))
        .tool(Tool::new("denied", "Is denied.", value))
        .policy(policy_fn("nobody", |call, _| match &**call.tool.name() {
            "denied" => Decision::Deny("not you".into()),
            _ => Decision::Allow,
        }));
    let manual = Section::markdown("manual", "Manual")
        .body("Turn the handle.")
        .summary("How it works.")
        .visibility(Visibility::Summary)
        .tool(Tool::new("turn", "Turns the handle.", value));
    PromptTemplate::builder("tests", "answers").section(tools).section(manual).build().unwrap().prompt()
}

/// Whether a tool is called that there is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    Called,
    Left,
}

/// A script that makes the calls one after the other: not every model can make two at once.
pub fn script(unknown: Unknown) -> String {
    let text = |text: &str| json!({ "text": text });
    let mut calls = vec![
        ("entry", json!({ "text": "Zeile\nfür \"Zeile\": 長い文 🎻 </result>", "times": 2 })),
        ("value", text("plain")),
        ("value", text("")),
        ("value", text(&"long ".repeat(20_000))),
        ("hidden", text("unseen")),
        ("nothing", text("x")),
        ("fail", text("kept")),
        ("error", text("for the operator")),
        ("panics", text("x")),
        ("denied", text("x")),
        ("value", json!({ "text": 7, "time": 1 })),
        ("open_sections", json!({ "section_keys": ["manual"], "reason": "to know" })),
        ("turn", text("round")),
    ];
    if unknown == Unknown::Called {
        calls.push(("nobody", text("x")));
    }
    let line = |(at, (name, arguments)): (usize, (&str, serde_json::Value))| {
        let call = json!({ "id": format!("call_{at}"), "name": name, "arguments": arguments.to_string() });
        format!("{}\n", json!({ "tool_calls": [call] }))
    };
    let lines: String = calls.into_iter().enumerate().map(line).collect();
    format!("{lines}{}\n", json!({ "text": "done" }))
}

/// Goes through the calls with an adapter.
pub async fn go_through(adapter: &dyn Adapter) {
    let came = adapter.evaluate(&prompt(), &Session::new(), Evaluation::new().task("Do it.")).await;
    assert_eq!(came.unwrap().text.to_string(), "done");
}

/// What a scripted model is told of the calls, which is what everybody has to tell.
pub async fn expected(unknown: Unknown) -> Vec<String> {
    let model =
        Arc::new(Heard { model: ScriptedModel::parse(&script(unknown)).unwrap(), asked: Mutex::default() });
    go_through(&ModelAdapter::new(Arc::clone(&model) as Arc<dyn Model>)).await;
    let last = model.asked.lock().unwrap().take().unwrap();
    let answers = last.messages.iter().flat_map(|message| match &**message {
        Message::Tools { answers } => answers.iter().map(|answer| answer.text.to_string()).collect(),
        Message::User { .. } | Message::Assistant { .. } => Vec::new(),
    });
    answers.collect()
}

/// A scripted model, and what it was asked at last.
struct Heard {
    model: ScriptedModel,
    asked: Mutex<Option<ModelRequest>>,
}

impl Model for Heard {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        stream: &'a dyn Stream,
        cancel: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        *self.asked.lock().unwrap() = Some(request.clone());
        self.model.respond(request, stream, cancel)
    }
}
