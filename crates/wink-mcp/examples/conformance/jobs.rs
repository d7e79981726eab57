//! The suite's jobs that are tasks from the start. Our server makes a task of a call that takes long; these are for what the
//! suite wants to see beside that: questions inside of a task, and a task that fails as the protocol does.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CreateTaskResult, ErrorData, InputRequest, Tool,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskContext, TaskExit, TaskFuture, TaskManager, TaskOptions};
use serde_json::json;
use wink_mcp::rmcp;

use crate::asks;

pub(crate) fn tools() -> Vec<Tool> {
    let file = json!({ "type": "object", "properties": { "filename": { "type": "string" } } });
    vec![
        asks::tool("confirm_delete", file),
        asks::tool("multi_input", json!({ "type": "object" })),
        asks::tool("protocol_error_job", json!({ "type": "object" })),
        asks::tool("test_tool_with_task", json!({ "type": "object" })),
    ]
}

/// Answers a call of one of them; none if it is not one of them, or not to be a task.
pub(crate) fn call(
    tasks: &TaskManager,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let knows = context.client_capabilities().is_some_and(|can| can.supports_tasks());
    let begin = |work: fn(TaskContext, Arc<str>) -> TaskFuture, about: &str| {
        let about = Arc::from(about);
        let task = tasks.spawn(TaskOptions::new(), |context| work(context, about));
        Ok(CreateTaskResult::new(task).into())
    };
    Some(match &*request.name {
        // Said by the suite to be for those who know tasks only; else it is a tool like any other.
        "failing_job" if !knows => refused(),
        "confirm_delete" | "multi_input" | "protocol_error_job" | "test_tool_with_task" if !knows => {
            refused()
        }
        "confirm_delete" => begin(|context, _| Box::pin(confirm(context)), ""),
        "multi_input" => begin(|context, _| Box::pin(two_questions(context)), ""),
        "protocol_error_job" => begin(|_, _| Box::pin(broken()), ""),
        "test_tool_with_task" => match asks::name_of(request.input_responses.as_ref()) {
            Ok(name) => {
                begin(|_, name| Box::pin(async move { Ok(said(&format!("worked for {name}"))) }), &name)
            }
            Err(required) => Ok(required.into()),
        },
        _ => return None,
    })
}

fn refused() -> Result<CallToolResponse, ErrorData> {
    Err(ErrorData::missing_required_client_capability(ClientCapabilities::builder().enable_tasks().build()))
}

fn said(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn question(message: &str) -> Result<InputRequest, TaskExit> {
    let wrong = |error: serde_json::Error| ErrorData::internal_error(error.to_string(), None);
    Ok(serde_json::from_value(asks::ask_yes(message)).map_err(wrong)?)
}

async fn confirm(context: TaskContext) -> Result<CallToolResult, TaskExit> {
    let answer = context.request_input("confirm", question("Really?")?).await?;
    Ok(said(&format!("told: {answer}")))
}

async fn two_questions(context: TaskContext) -> Result<CallToolResult, TaskExit> {
    let one = context.request_input("one", question("One?")?);
    let other = context.request_input("other", question("And the other?")?);
    let (one, other) = tokio::join!(one, other);
    Ok(said(&format!("told: {} and {}", one?, other?)))
}

async fn broken() -> Result<CallToolResult, TaskExit> {
    Err(ErrorData::internal_error("it broke", None).into())
}
