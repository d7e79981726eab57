//! What Anthropic refuses.

use serde_json::Value;

use super::{ensure, list, names, number_within, only, strict, text};
use crate::speak::SIGNATURE;

const FIELDS: [&str; 20] = [
    "model",
    "messages",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
    "thinking",
    "output_config",
    "service_tier",
    "cache_control",
    "container",
    "context_management",
    "mcp_servers",
    "inference_geo",
];

pub(super) fn check(body: &Value) -> Result<(), String> {
    only(body, &FIELDS)?;
    let limit = body.get("max_tokens").and_then(Value::as_u64);
    ensure(limit.is_some_and(|limit| limit > 0), || {
        "max_tokens: must be greater than or equal to 1".to_owned()
    })?;
    number_within(body, "temperature", 1.0)?;
    let mut counted = tools(body)?;
    if let Some(format) = body.pointer("/output_config/format") {
        ensure(text(format, "type") == Some("json_schema"), || {
            "output_config.format.type: must be json_schema".to_owned()
        })?;
        counted.add_output(strict::anthropic(format.get("schema").unwrap_or(&Value::Null))?);
    }
    counted.check()?;
    messages(list(body, "messages"))
}

/// What the strict ones count.
fn tools(body: &Value) -> Result<strict::Counted, String> {
    let tools = list(body, "tools");
    names(tools.iter())?;
    let mut counted = strict::Counted::default();
    for tool in tools {
        let schema = tool.get("input_schema").unwrap_or(&Value::Null);
        ensure(text(schema, "type") == Some("object"), || {
            "tools: input_schema.type must be 'object'".to_owned()
        })?;
        ensure(list(tool, "input_examples").iter().all(Value::is_object), || {
            "tools: input_examples must be objects".to_owned()
        })?;
        if tool.get("strict") == Some(&Value::Bool(true)) {
            counted.add_tool(strict::anthropic(schema)?);
        }
    }
    Ok(counted)
}

fn messages(messages: &[Value]) -> Result<(), String> {
    let first = messages.first().ok_or("messages: at least one message is required")?;
    ensure(text(first, "role") == Some("user"), || {
        "messages: first message must use the \"user\" role".to_owned()
    })?;
    // The calls of the message before, which this one has to answer.
    let mut open: Vec<&str> = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        let role = text(message, "role").unwrap_or_default();
        ensure(matches!(role, "user" | "assistant"), || {
            format!("messages.{number}.role: unexpected `{role}`")
        })?;
        let blocks = list(message, "content");
        if blocks.is_empty() {
            let said = text(message, "content").is_some_and(|text| !text.is_empty());
            ensure(said, || format!("messages.{number}: content must not be empty"))?;
        }
        let results: Vec<_> =
            blocks.iter().take_while(|block| text(block, "type") == Some("tool_result")).collect();
        for id in open.drain(..) {
            let answered = results.iter().filter(|result| text(result, "tool_use_id") == Some(id)).count();
            ensure(role == "user" && answered == 1, || {
                format!(
                    "messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: {id}"
                )
            })?;
        }
        let all = blocks.iter().filter(|block| text(block, "type") == Some("tool_result")).count();
        ensure(all == results.len(), || format!("messages.{number}: tool_result blocks must come first"))?;
        let asked =
            number.checked_sub(1).and_then(|before| messages.get(before)).map(calls).unwrap_or_default();
        for result in results {
            let id = text(result, "tool_use_id").unwrap_or_default();
            ensure(asked.contains(&id), || {
                format!("messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks: {id}")
            })?;
        }
        blocks.iter().try_for_each(|block| check_block(number, role, block))?;
        open = calls(message);
    }
    ensure(open.is_empty(), || {
        format!("messages: `tool_use` ids were found without `tool_result` blocks: {}", open.join(", "))
    })
}

fn calls(message: &Value) -> Vec<&str> {
    let blocks = list(message, "content").iter();
    blocks
        .filter(|block| text(block, "type") == Some("tool_use"))
        .filter_map(|block| text(block, "id"))
        .collect()
}

fn check_block(number: usize, role: &str, block: &Value) -> Result<(), String> {
    let holds = match (text(block, "type").unwrap_or_default(), role) {
        ("text", _) => text(block, "text").is_some_and(|text| !text.trim().is_empty()),
        ("tool_use", "assistant") => {
            block.get("input").is_some_and(Value::is_object)
                && text(block, "name").is_some_and(|name| !name.is_empty())
        }
        ("tool_result", "user") => {
            block.get("content").is_none_or(|content| content.is_string() || content.is_array())
        }
        ("thinking", "assistant") => {
            text(block, "signature") == Some(SIGNATURE) && text(block, "thinking").is_some()
        }
        ("redacted_thinking", "assistant") => true,
        ("image" | "document", "user") => true,
        _ => false,
    };
    ensure(holds, || format!("messages.{number}: a block is not valid: {block}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An object with so many properties that may be left out, and so many of two types.
    fn object(optional: usize, unions: usize) -> Value {
        let plain = (0..optional).map(|number| (format!("o{number}"), json!({ "type": "string" })));
        let union = (0..unions).map(|number| (format!("u{number}"), json!({ "type": ["string", "null"] })));
        let required: Vec<_> = (0..unions).map(|number| format!("u{number}")).collect();
        let properties: serde_json::Map<_, _> = plain.chain(union).collect();
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }

    #[test]
    fn tools_and_output_count_together() {
        let refused = |tool: Value, output: Value| {
            let body = json!({
                "model": "m", "max_tokens": 1, "messages": [{ "role": "user", "content": "Hi" }],
                "tools": [{ "name": "t", "strict": true, "input_schema": tool }],
                "output_config": { "format": { "type": "json_schema", "schema": output } },
            });
            check(&body).err()
        };
        assert_eq!(refused(object(12, 8), object(12, 8)), None);
        let said = refused(object(12, 0), object(13, 0));
        assert_eq!(said.as_deref(), Some("there are 25 optional parameters; the limit is 24"));
        let said = refused(object(0, 8), object(0, 9));
        assert_eq!(said.as_deref(), Some("there are 17 parameters with union types; the limit is 16"));
    }
}
