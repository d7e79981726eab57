//! The suite's jobs that our server has none of. It makes a task of any call that takes long, and asks in it, one question at
//! a time; whatever becomes of a call is its result. The suite also wants to see two questions at a time, a task that fails as
//! the protocol does, tools for those who know tasks only, and a name that is asked for before the task begins.

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
    let names = ["multi_input", "protocol_error_job", NAMED];
    names.into_iter().map(|name| asks::tool(name, json!({ "type": "object" }))).collect()
}

/// The tool that asks for a name, and is a task then.
const NAMED: &str = "test_tool_with_task";

/// Answers a call of one of them; none if it is not one of them, or the rest of it is our server's.
pub(crate) fn call(
    tasks: &TaskManager,
    request: &mut CallToolRequestParams,
    context: &mut RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let knows = context.client_capabilities().is_some_and(|can| can.supports_tasks());
    let begin = |work: fn(TaskContext) -> TaskFuture| {
        Ok(CreateTaskResult::new(tasks.spawn(TaskOptions::new(), work)).into())
    };
    Some(match &*request.name {
        // Said by the suite to be for those who know tasks only; else it is a tool like any other.
        "failing_job" | "multi_input" | "protocol_error_job" | NAMED if !knows => refused(),
        "multi_input" => begin(|context| Box::pin(two_questions(context))),
        "protocol_error_job" => begin(|_| Box::pin(broken())),
        NAMED => match asks::name_of(request.input_responses.as_ref()) {
            Ok(name) => {
                // From here on it is a call that takes long, like any other, of a tool that says what it was told.
                request.name = "slow_compute".into();
                request.arguments = json!({ "seconds": 1, "label": name }).as_object().cloned();
                request.input_responses = None;
                // The arguments as the client wrote them.
                context.extensions.remove::<http::request::Parts>();
                return None;
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

async fn two_questions(context: TaskContext) -> Result<CallToolResult, TaskExit> {
    let one = context.request_input("one", question("One?")?);
    let other = context.request_input("other", question("And the other?")?);
    let (one, other) = tokio::join!(one, other);
    Ok(said(&format!("told: {} and {}", one?, other?)))
}

async fn broken() -> Result<CallToolResult, TaskExit> {
    Err(ErrorData::internal_error("it broke", None).into())
}
