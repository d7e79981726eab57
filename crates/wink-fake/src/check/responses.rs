//! What OpenAI refuses in Responses.

use serde_json::Value;

use super::{chat::check_function, ensure, list, names, number_within, strict, text};
use crate::speak::ENCRYPTED;

pub(super) fn check(body: &Value) -> Result<(), String> {
    number_within(body, "temperature", 2.0)?;
    let tools = list(body, "tools");
    ensure(tools.iter().all(|tool| text(tool, "type") == Some("function")), || {
        "tools: only functions are known here".to_owned()
    })?;
    names(tools.iter())?;
    tools.iter().try_for_each(check_function)?;
    if let Some(format) =
        body.pointer("/text/format").filter(|format| text(format, "type") == Some("json_schema"))
    {
        names(std::iter::once(format))?;
        if format.get("strict") == Some(&Value::Bool(true)) {
            strict::openai(format.get("schema").unwrap_or(&Value::Null))?;
        }
    }
    if text(body, "input").is_some_and(|input| !input.is_empty()) {
        return Ok(());
    }
    items(list(body, "input"), body.get("store") == Some(&Value::Bool(false)))
}

fn items(items: &[Value], forgets: bool) -> Result<(), String> {
    ensure(!items.is_empty(), || "Missing required parameter: 'input'.".to_owned())?;
    let mut open: Vec<&str> = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let call_id = text(item, "call_id").unwrap_or_default();
        match text(item, "type").unwrap_or("message") {
            "message" => {
                ensure(open.is_empty(), || unanswered(&open))?;
                let role = text(item, "role").unwrap_or_default();
                let known = matches!(role, "user" | "assistant" | "system" | "developer");
                let said =
                    item.get("content").is_some_and(|content| content.is_string() || content.is_array());
                ensure(known && said, || format!("Invalid value: 'input[{number}]'"))?;
            }
            "function_call" => {
                let whole =
                    text(item, "name").is_some() && text(item, "arguments").is_some() && !call_id.is_empty();
                ensure(whole, || format!("Missing required parameter in 'input[{number}]'"))?;
                open.push(call_id);
            }
            "function_call_output" => {
                let place = open.iter().position(|open| *open == call_id);
                let none = || format!("No tool call found for function call output with call_id {call_id}.");
                open.swap_remove(place.ok_or_else(none)?);
                ensure(item.get("output").is_some(), || {
                    format!("Missing required parameter: 'input[{number}].output'")
                })?;
            }
            "reasoning" => {
                let found = !forgets || text(item, "encrypted_content") == Some(ENCRYPTED);
                ensure(found, || {
                    format!(
                        "Item '{}' not found. Items are not persisted when `store` is set to false.",
                        text(item, "id").unwrap_or_default()
                    )
                })?;
                let follows = items.get(number + 1).is_some_and(|next| {
                    matches!(text(next, "type"), Some("function_call"))
                        || text(next, "role") == Some("assistant")
                });
                ensure(follows, || {
                    "Item of type 'reasoning' was provided without its required following item.".to_owned()
                })?;
            }
            other => return Err(format!("Invalid value: '{other}' of 'input[{number}].type'")),
        }
    }
    ensure(open.is_empty(), || unanswered(&open))
}

fn unanswered(open: &[&str]) -> String {
    format!("No tool output found for function call {}.", open.join(", "))
}
