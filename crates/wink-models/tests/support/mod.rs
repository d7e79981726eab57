//! A small world: a prompt with tools, a clock that is moved by whoever sleeps, models that answer from a list.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "every test uses its own part"
)]

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use wink::BoxFuture;
use wink::filesystem::MemoryFilesystem;
use wink::limits::{CancelToken, Clock, TokenUsage};
use wink::prelude::*;
use wink::prompt::PromptTemplateBuilder;
use wink::resource::{Binding, ResourceRegistry};
use wink_models::{Called, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, Stop, Stream};

/// A clock that jumps to wherever somebody wants to sleep to, and remembers how far.
pub struct JumpClock {
    elapsed: Mutex<Duration>,
    pub slept: Mutex<Vec<Duration>>,
}

impl JumpClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { elapsed: Mutex::default(), slept: Mutex::default() })
    }
}

impl Clock for JumpClock {
    fn now(&self) -> Timestamp {
        let start: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        start.checked_add(*self.elapsed.lock().unwrap()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        *self.elapsed.lock().unwrap()
    }

    fn sleep_until(&self, until: Duration) -> BoxFuture<'static, ()> {
        let mut elapsed = self.elapsed.lock().unwrap();
        self.slept.lock().unwrap().push(until.saturating_sub(*elapsed));
        *elapsed = until.max(*elapsed);
        Box::pin(std::future::ready(()))
    }
}

#[data]
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    pub text: String,
}
impl SliceType for Note {
    const NAME: &'static str = "note";
}

#[data]
pub struct Text {
    pub text: String,
}

/// How often something was done outside.
#[derive(Default)]
pub struct Outside(pub AtomicUsize);

async fn note(params: Text, cx: &mut ToolContext) -> Result<ToolResult<Note>, ToolError> {
    cx.resource::<Outside>().await?.0.fetch_add(1, Ordering::SeqCst);
    Ok(ToolResult::ok(Note { text: params.text }, "noted"))
}

async fn fail(params: Text, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Note { text: "lost".into() })?;
    Ok(ToolResult::error(params.text))
}

async fn write(params: Text, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.write_text("file.txt", &params.text).await?;
    Ok(ToolResult::done("written"))
}

async fn hang(_: Text, _: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    std::future::pending().await
}

/// Wants sections opened, whatever is open.
async fn more(params: Text, _: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    Err(wink::tool::VisibilityExpansionRequired { keys: vec!["manual".into()], reason: params.text }.into())
}

/// The prompt that most tests use.
pub fn prompt() -> Prompt {
    prompt_with(|template| template)
}

/// The same, with something more.
pub fn prompt_with(extend: impl FnOnce(PromptTemplateBuilder) -> PromptTemplateBuilder) -> Prompt {
    let inside = wink::tool::Annotations { open_world: false, ..Default::default() };
    let tools = Section::markdown("tools", "Tools")
        .body("Use them.")
        .tool(Tool::new("note", "Notes something.", note).publishes())
        .tool(Tool::new("fail", "Fails.", fail))
        .tool(Tool::new("write", "Writes a file.", write).annotations(inside))
        .tool(Tool::new("hang", "Never ends.", hang))
        .tool(Tool::new("more", "Always wants more.", more))
        .tool(Tool::new("denied", "Is denied.", note))
        .policy(wink::policy::policy_fn("nobody", |call, _| match &**call.tool.name() {
            "denied" => wink::policy::Decision::Deny("not you".into()),
            _ => wink::policy::Decision::Allow,
        }));
    let manual = Section::markdown("manual", "Manual")
        .body("Turn the handle.")
        .summary("How it works.")
        .visibility(Visibility::Summary)
        .tool(Tool::new("turn", "Turns the handle.", note).publishes());
    let template = PromptTemplate::builder("tests", "models").section(tools).section(manual);
    extend(template).build().unwrap().prompt()
}

/// What its tools need.
pub fn resources() -> (ResourceRegistry, Arc<Outside>, Arc<MemoryFilesystem>) {
    let (outside, files) = (Arc::new(Outside::default()), Arc::new(MemoryFilesystem::new()));
    let registry = ResourceRegistry::of((
        Binding::instance(Arc::clone(&outside)),
        Binding::filesystem(Arc::clone(&files) as Arc<dyn wink::filesystem::Filesystem>),
    ));
    (registry.unwrap(), outside, files)
}

pub fn says(text: &str) -> ModelResponse {
    ModelResponse {
        text: text.into(),
        calls: Vec::new(),
        stop: Stop::Complete,
        usage: TokenUsage::new(10, 1),
        provider: None,
    }
}

pub fn calls(calls: &[(&str, &str)]) -> ModelResponse {
    let call = |(index, (name, text)): (usize, &(&str, &str))| Called {
        id: format!("c{index}").into(),
        name: (*name).into(),
        arguments: format!(r#"{{"text":"{text}"}}"#).into(),
    };
    ModelResponse { calls: calls.iter().enumerate().map(call).collect(), ..says("") }
}

pub fn opens(section: &str) -> ModelResponse {
    let arguments = format!(r#"{{"reason":"to know","section_keys":["{section}"]}}"#);
    let call = Called { id: "o".into(), name: "open_sections".into(), arguments: arguments.into() };
    ModelResponse { calls: vec![call], ..says("") }
}

pub fn error(kind: ModelErrorKind) -> ModelError {
    ModelError { kind, message: "no".into(), retry_safe: true, retry_after: None }
}

/// Answers from a list, and remembers what it was asked.
pub struct Listed {
    pub answers: Mutex<Vec<Result<ModelResponse, ModelError>>>,
    pub asked: Mutex<Vec<ModelRequest>>,
}

impl Listed {
    pub fn new(answers: impl IntoIterator<Item = Result<ModelResponse, ModelError>>) -> Arc<Self> {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        Arc::new(Self { answers: Mutex::new(answers), asked: Mutex::default() })
    }

    pub fn saying(answers: impl IntoIterator<Item = ModelResponse>) -> Arc<Self> {
        Self::new(answers.into_iter().map(Ok))
    }

    pub fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Model for Listed {
    fn name(&self) -> &str {
        "listed"
    }

    /// The last answer is given again and again.
    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: &'a dyn Stream,
        _: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        self.asked.lock().unwrap().push(request.clone());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop().unwrap() } else { answers[0].clone() };
        Box::pin(std::future::ready(answer))
    }
}

/// Never answers.
pub struct Silent;

impl Model for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn respond<'a>(
        &'a self,
        _: &'a ModelRequest,
        _: &'a dyn Stream,
        _: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(std::future::pending())
    }
}

/// A file in memory.
#[derive(Clone, Default)]
pub struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
