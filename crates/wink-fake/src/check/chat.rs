//! What OpenAI refuses in Chat Completions.

use serde_json::Value;

use super::{ensure, list, names, number_within, strict, text};

pub(super) fn check(body: &Value) -> Result<(), String> {
    number_within(body, "temperature", 2.0)?;
    let streamed = body.get("stream") == Some(&Value::Bool(true));
    ensure(streamed || body.get("stream_options").is_none(), || {
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.".to_owned()
    })?;
    let tools = list(body, "tools");
    let functions = || tools.iter().filter_map(|tool| tool.get("function"));
    ensure(functions().count() == tools.len(), || "tools: a function is missing".to_owned())?;
    names(functions())?;
    functions().try_for_each(check_function)?;
    if let Some(format) =
        body.get("response_format").filter(|format| text(format, "type") == Some("json_schema"))
    {
        let schema = format.get("json_schema").unwrap_or(&Value::Null);
        names(std::iter::once(schema))?;
        if schema.get("strict") == Some(&Value::Bool(true)) {
            strict::openai(schema.get("schema").unwrap_or(&Value::Null))?;
        }
    }
    messages(list(body, "messages"))
}

pub(super) fn check_function(function: &Value) -> Result<(), String> {
    let parameters = function.get("parameters").unwrap_or(&Value::Null);
    let name = text(function, "name").unwrap_or_default();
    ensure(text(parameters, "type") == Some("object"), || {
        format!("Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'")
    })?;
    match function.get("strict") == Some(&Value::Bool(true)) {
        true => strict::openai(parameters)
            .map_err(|reason| format!("Invalid schema for function '{name}': {reason}")),
        false => Ok(()),
    }
}

fn messages(messages: &[Value]) -> Result<(), String> {
    ensure(!messages.is_empty(), || "messages: [] is too short".to_owned())?;
    let mut open: Vec<&str> = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        let role = text(message, "role").unwrap_or_default();
        if role == "tool" {
            let id = text(message, "tool_call_id").unwrap_or_default();
            let place = open.iter().position(|open| *open == id);
            let place = place.ok_or_else(|| {
                format!("messages.[{number}]: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
            })?;
            open.swap_remove(place);
            ensure(message.get("content").is_some_and(Value::is_string), || {
                format!("messages.[{number}].content: required")
            })?;
            continue;
        }
        ensure(open.is_empty(), || unanswered(&open))?;
        let said = message.get("content").is_some_and(|content| content.is_string() || content.is_array());
        let calls = list(message, "tool_calls");
        match role {
            "system" | "developer" | "user" => {
                ensure(said, || format!("messages.[{number}].content: required"))?
            }
            "assistant" => {
                ensure(said || !calls.is_empty(), || format!("messages.[{number}].content: required"))?
            }
            _ => return Err(format!("messages.[{number}].role: '{role}' is not one of the roles")),
        }
        for call in calls {
            let arguments = call.pointer("/function/arguments").and_then(Value::as_str);
            ensure(arguments.is_some() && text(call, "type") == Some("function"), || {
                format!("messages.[{number}].tool_calls: a call is not valid")
            })?;
            open.extend(text(call, "id"));
        }
    }
    ensure(open.is_empty(), || unanswered(&open))
}

fn unanswered(open: &[&str]) -> String {
    format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following \
         tool_call_ids did not have response messages: {}",
        open.join(", ")
    )
}
