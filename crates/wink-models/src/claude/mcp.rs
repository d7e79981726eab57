//! The session's tools as an MCP server inside of this process, of which the program asks by its control protocol.

use std::sync::Arc;

use serde_json::{Value, json};
use wink::executor::{Escalation, Outcome, ToolCall};
use wink::prompt::{PlacedTool, RenderedPrompt};

use super::native::Native;
use super::wire::written;

/// What the server is called.
pub(super) const SERVER: &str = "wink";

/// What the program puts before the names of the server's tools.
pub(super) const PREFIX: &str = "mcp__wink__";

/// The newest revision that this speaks, for a client that does not say which it wants.
const REVISION: &str = "2025-11-25";

/// What is to be done about a message.
#[derive(Debug)]
pub(super) enum Handled {
    /// This is the answer.
    Now(Value),
    /// A tool is called; the answer has this id.
    Call { id: Value, call: ToolCall },
}

/// Handles a JSON-RPC message. A notification has an answer too, since the program waits for one.
pub(super) fn handle(message: &Value, rendered: &RenderedPrompt) -> Handled {
    let id = message.get("id").cloned().unwrap_or(Value::Null);
    let params = message.get("params").unwrap_or(&Value::Null);
    let result = match message.get("method").and_then(Value::as_str) {
        Some("initialize") => {
            let version = params.get("protocolVersion").and_then(Value::as_str).unwrap_or(REVISION);
            json!({
                "protocolVersion": version,
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": SERVER, "version": env!("CARGO_PKG_VERSION") },
            })
        }
        Some("tools/list") => json!({ "tools": offered(rendered).map(listed).collect::<Vec<_>>() }),
        Some("tools/call") => return call(id, params),
        Some("ping") => json!({}),
        Some(method) if method.starts_with("notifications/") => json!({}),
        Some(method) => return Handled::Now(refused(&id, -32601, &format!("there is no method {method}"))),
        None => return Handled::Now(refused(&id, -32600, "this is no request: it has no method")),
    };
    Handled::Now(answered(&id, &result))
}

/// The tools that can be called here: all but those that the program has itself.
fn offered(rendered: &RenderedPrompt) -> impl Iterator<Item = &PlacedTool> {
    rendered.tools().iter().filter(|placed| Native::by_tool(placed.name()).is_none())
}

fn listed(placed: &PlacedTool) -> Value {
    let contract = placed.tool.contract();
    let hints = contract.annotations();
    let mut description = contract.description().to_owned();
    // The program has no place for examples.
    for example in contract.examples() {
        description.push_str(&format!("\n\nExample: {}\n{}", example.description, example.input));
    }
    json!({
        "name": contract.name(),
        "description": description,
        "inputSchema": contract.schema(),
        "annotations": {
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
    })
}

fn call(id: Value, params: &Value) -> Handled {
    let Some(name) = params.get("name").and_then(Value::as_str) else {
        return Handled::Now(refused(&id, -32602, "tools/call needs the name of a tool"));
    };
    let arguments = params.get("arguments").map(written).unwrap_or_default();
    let used = params.get("_meta").and_then(|meta| meta.get("claudecode/toolUseId")).and_then(Value::as_str);
    let call_id: Arc<str> = match used {
        Some(used) => used.into(),
        None => format!("{SERVER}/{id}").into(),
    };
    Handled::Call { id, call: ToolCall::new(call_id, name, arguments) }
}

/// What the program is told of a call. Of sections that were opened the model is told here, since what it was told at the
/// beginning stays as it was.
pub(super) fn result(id: &Value, outcome: &Outcome, opened: Option<&RenderedPrompt>) -> Value {
    let mut text = outcome.answer.text.to_string();
    if let Some(rendered) = opened {
        text.push_str("\n\nYour instructions are these from now on:\n\n");
        text.push_str(rendered.text());
    }
    let success = outcome.is_success() || matches!(outcome.escalation, Some(Escalation::Visibility(_)));
    answered(id, &json!({ "content": [{ "type": "text", "text": text }], "isError": !success }))
}

/// Says that other tools can be called now.
pub(super) fn list_changed() -> Value {
    let message = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    json!({ "subtype": "mcp_message", "server_name": SERVER, "message": message })
}

/// A message to a server that is not here.
pub(super) fn unknown_server(message: &Value, server: &str) -> Value {
    let id = message.get("id").unwrap_or(&Value::Null);
    refused(id, -32600, &format!("there is no server {server} here; there is {SERVER}"))
}

fn answered(id: &Value, result: &Value) -> Value {
    json!({ "mcp_response": { "jsonrpc": "2.0", "id": id, "result": result } })
}

fn refused(id: &Value, code: i64, message: &str) -> Value {
    json!({ "mcp_response": { "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } } })
}
