//! The suite's tools that are tools of Wink's.

use std::time::Duration;

use wink::BoxFuture;
use wink::limits::{Clock, SystemClock};
use wink::policy::{ApprovalPolicy, Decision, PolicyCall, PolicyContext, ToolPolicy};
use wink::prelude::*;
use wink::prompt::PromptValidationError;
use wink::resource::BoxError;

/// How long a call is waited for before it becomes a task. The suite does not wait as long for one as people do.
pub(crate) const TASK_AFTER: Duration = Duration::from_millis(200);

/// A 1x1 picture.
pub(crate) const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
/// A sound of no length.
const SOUND: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

#[data]
struct Nothing {}

/// Something that is shown otherwise than as text.
#[data]
#[derive(Debug, Clone)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Part {
    Text { text: String },
    Picture { data: String },
    Sound { data: String },
    Resource { uri: String, mime: String, text: String },
}

#[data]
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) parts: Vec<Part>,
}

fn parts(parts: impl Into<Vec<Part>>) -> Result<ToolResult<Parts>, ToolError> {
    Ok(ToolResult::ok(Parts { parts: parts.into() }, "see the content"))
}

async fn simple_text(_: Nothing, _: &mut ReadContext) -> Result<ToolResult<()>, ToolError> {
    Ok(ToolResult::done("This is a simple text response for testing."))
}

async fn picture(_: Nothing, _: &mut ReadContext) -> Result<ToolResult<Parts>, ToolError> {
    parts([Part::Picture { data: PICTURE.to_owned() }])
}

async fn sound(_: Nothing, _: &mut ReadContext) -> Result<ToolResult<Parts>, ToolError> {
    parts([Part::Sound { data: SOUND.to_owned() }])
}

async fn embedded(_: Nothing, _: &mut ReadContext) -> Result<ToolResult<Parts>, ToolError> {
    parts([Part::Resource {
        uri: "test://embedded-resource".to_owned(),
        mime: "text/plain".to_owned(),
        text: "This is an embedded resource content.".to_owned(),
    }])
}

async fn mixed(_: Nothing, _: &mut ReadContext) -> Result<ToolResult<Parts>, ToolError> {
    parts([
        Part::Text { text: "Multiple content types test:".to_owned() },
        Part::Picture { data: PICTURE.to_owned() },
        Part::Resource {
            uri: "test://mixed-content-resource".to_owned(),
            mime: "application/json".to_owned(),
            text: r#"{"test":"data","value":123}"#.to_owned(),
        },
    ])
}

async fn failing(_: Nothing, _: &mut ReadContext) -> Result<ToolResult<()>, ToolError> {
    Ok(ToolResult::error("This tool intentionally returns an error for testing"))
}

async fn with_progress(_: Nothing, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    for done in [0.0, 50.0, 100.0] {
        cx.progress(done, Some(100.0), "");
        let clock = cx.clock().clone();
        clock.sleep_until(clock.monotonic().saturating_add(Duration::from_millis(50))).await;
    }
    Ok(ToolResult::done("done, step by step"))
}

async fn done(_: Nothing, _: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    Ok(ToolResult::done("done"))
}

async fn state_ok(_: Nothing, _: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    Ok(ToolResult::done("state-ok"))
}

#[data]
struct File {
    filename: String,
}

async fn delete(file: File, _: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    Ok(ToolResult::done(format!("{} would be gone", file.filename)))
}

/// Asks when the call is a task already: a policy may have to look something up first.
struct AsksLate;

impl ToolPolicy for AsksLate {
    fn kind(&self) -> &'static str {
        "asks_late"
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        &**call.tool.name() == "confirm_delete"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(async {
            let clock = SystemClock;
            clock.sleep_until(clock.monotonic().saturating_add(TASK_AFTER * 2)).await;
            Ok(Decision::Ask("Really?".to_owned()))
        })
    }
}

#[data]
struct Greeting {
    name: String,
}

async fn greet(greeting: Greeting, _: &mut ReadContext) -> Result<ToolResult<()>, ToolError> {
    Ok(ToolResult::done(format!("Hello, {}!", greeting.name)))
}

#[data]
struct Work {
    #[serde(default)]
    seconds: u32,
    #[serde(default)]
    label: Option<String>,
}

async fn slow(work: Work, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let clock = cx.clock().clone();
    clock.sleep_until(clock.monotonic().saturating_add(Duration::from_secs(work.seconds.into()))).await;
    Ok(ToolResult::done(format!("worked on {}", work.label.as_deref().unwrap_or("it"))))
}

async fn slow_failure(_: Nothing, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let clock = cx.clock().clone();
    clock.sleep_until(clock.monotonic().saturating_add(Duration::from_secs(1))).await;
    Ok(ToolResult::error("it did not work"))
}

pub(crate) fn template() -> Result<PromptTemplate, PromptValidationError> {
    let section = Section::tools("suite", "Conformance")
        .tool(Tool::new("test_simple_text", "Returns a text.", simple_text))
        .tool(Tool::new("test_image_content", "Returns a picture.", picture))
        .tool(Tool::new("test_audio_content", "Returns a sound.", sound))
        .tool(Tool::new("test_embedded_resource", "Returns a resource.", embedded))
        .tool(Tool::new("test_multiple_content_types", "Returns several things.", mixed))
        .tool(Tool::new("test_error_handling", "Always fails.", failing))
        .tool(Tool::new("test_tool_with_progress", "Says how far it is.", with_progress))
        .tool(Tool::new("test_tool_with_logging", "Says what it does.", done))
        .tool(Tool::new("test_logging_tool", "Says what it does, to whoever wants to hear it.", done))
        .tool(Tool::new("test_trigger_tool_change", "Changes the list of tools.", done))
        .tool(Tool::new("test_trigger_prompt_change", "Changes the list of prompts.", done))
        .tool(Tool::new("greet", "Greets.", greet))
        .tool(Tool::new("slow_compute", "Takes as long as it is told.", slow))
        .tool(Tool::new("failing_job", "Fails after a while.", slow_failure))
        .tool(Tool::new("test_reconnection", "Answers on a stream that could be taken up again.", done))
        .tool(Tool::new("test_streaming_elicitation", "Runs when somebody says so.", done))
        .tool(Tool::new("test_input_required_result_request_state", "Runs when somebody says so.", state_ok))
        .tool(Tool::new("test_input_required_result_tampered_state", "Runs when somebody says so.", state_ok))
        .tool(Tool::new("confirm_delete", "Asks when it is a task.", delete))
        .policy(ApprovalPolicy::new([
            "test_streaming_elicitation",
            "test_input_required_result_request_state",
            "test_input_required_result_tampered_state",
        ]))
        .policy(AsksLate);
    PromptTemplate::builder("conformance", "suite").section(section).build()
}
