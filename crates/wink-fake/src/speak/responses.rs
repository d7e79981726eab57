//! OpenAI's Responses.

use serde_json::{Value, json};

use super::{Event, model, pieces};
use crate::script::{Reply, Stop, Usage};

/// What is encrypted; requests have to bring it back.
pub(crate) const ENCRYPTED: &str = "enc_fake";

pub(super) fn whole(number: usize, reply: &Reply, asked: &Value) -> Value {
    let incomplete = (reply.stop == Stop::Truncated).then(|| json!({ "reason": "max_output_tokens" }));
    let status = if incomplete.is_some() { "incomplete" } else { "completed" };
    response(number, asked, status, &items(number, reply, asked), incomplete, reply.usage.map(usage))
}

pub(super) fn events(number: usize, reply: &Reply, asked: &Value) -> Vec<Event> {
    let begun = response(number, asked, "in_progress", &[], None, None);
    let mut events = vec![
        json!({ "type": "response.created", "response": begun }),
        json!({ "type": "response.in_progress", "response": begun }),
    ];
    for (index, item) in items(number, reply, asked).iter().enumerate() {
        let mut empty = item.clone();
        for (name, nothing) in [
            ("status", json!("in_progress")),
            ("content", json!([])),
            ("arguments", json!("")),
            ("summary", json!([])),
        ] {
            if let Some(value) = empty.get_mut(name) {
                *value = nothing;
            }
        }
        events.push(json!({ "type": "response.output_item.added", "output_index": index, "item": empty }));
        events.extend(item_events(index, item));
        events.push(json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
    }
    let last = whole(number, reply, asked);
    let kind = if reply.stop == Stop::Truncated { "response.incomplete" } else { "response.completed" };
    events.push(json!({ "type": kind, "response": last }));
    for (sequence, event) in events.iter_mut().enumerate() {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("sequence_number".to_owned(), sequence.into());
        }
    }
    events.iter().map(Event::typed).collect()
}

fn item_events(index: usize, item: &Value) -> Vec<Value> {
    let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let id = text("/id");
    let mut events = Vec::new();
    match text("/type") {
        "function_call" => {
            for piece in pieces(text("/arguments")) {
                events.push(json!({ "type": "response.function_call_arguments.delta", "item_id": id, "output_index": index, "delta": piece }));
            }
            events.push(json!({
                "type": "response.function_call_arguments.done", "item_id": id, "output_index": index,
                "name": text("/name"), "arguments": text("/arguments"),
            }));
        }
        "message" => {
            let part = item.pointer("/content/0").cloned().unwrap_or_default();
            let (kind, name) = match text("/content/0/type") {
                "refusal" => ("response.refusal", "refusal"),
                _ => ("response.output_text", "text"),
            };
            let mut empty = part.clone();
            if let Some(value) = empty.get_mut(name) {
                *value = json!("");
            }
            let whole = part.get(name).and_then(Value::as_str).unwrap_or_default();
            let event = |kind: String, field: &str, value: Value| {
                let mut event = json!({ "type": kind, "item_id": id, "output_index": index, "content_index": 0, field: value });
                if let Some(fields) = event.as_object_mut().filter(|_| name == "text" && field != "part") {
                    fields.insert("logprobs".to_owned(), json!([]));
                }
                event
            };
            events.push(event("response.content_part.added".to_owned(), "part", empty));
            for piece in pieces(whole) {
                events.push(event(format!("{kind}.delta"), "delta", piece.into()));
            }
            events.push(event(format!("{kind}.done"), name, whole.into()));
            events.push(event("response.content_part.done".to_owned(), "part", part));
        }
        // What was thought comes as a whole.
        _ => {}
    }
    events
}

fn items(number: usize, reply: &Reply, asked: &Value) -> Vec<Value> {
    let mut items = Vec::new();
    let encrypted = asked.get("include").and_then(Value::as_array);
    let encrypted =
        encrypted.is_some_and(|include| include.iter().any(|name| name == "reasoning.encrypted_content"));
    if !reply.thinking.is_empty() {
        items.push(json!({
            "id": format!("rs_{number}"), "type": "reasoning",
            "summary": [{ "type": "summary_text", "text": reply.thinking }],
            "encrypted_content": encrypted.then_some(ENCRYPTED),
        }));
    }
    if !reply.text.is_empty() {
        let part = match reply.stop {
            Stop::Refused => json!({ "type": "refusal", "refusal": reply.text }),
            _ => json!({ "type": "output_text", "text": reply.text, "annotations": [], "logprobs": [] }),
        };
        items.push(json!({
            "id": format!("msg_{number}"), "type": "message", "role": "assistant", "status": "completed", "content": [part],
        }));
    }
    for (index, call) in reply.tool_calls.iter().enumerate() {
        items.push(json!({
            "id": format!("fc_{number}_{index}"), "type": "function_call", "status": "completed",
            "call_id": call.id, "name": call.name, "arguments": call.arguments,
        }));
    }
    items
}

fn response(
    number: usize,
    asked: &Value,
    status: &str,
    output: &[Value],
    incomplete: Option<Value>,
    usage: Option<Value>,
) -> Value {
    let or = |name: &str, otherwise: Value| asked.get(name).cloned().unwrap_or(otherwise);
    json!({
        "id": format!("resp_{number}"),
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": null,
        "incomplete_details": incomplete,
        "instructions": asked.get("instructions"),
        "max_output_tokens": asked.get("max_output_tokens"),
        "metadata": {},
        "model": model(asked),
        "output": output,
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": { "effort": null, "summary": null },
        "store": or("store", json!(true)),
        "temperature": or("temperature", json!(1.0)),
        "text": or("text", json!({ "format": { "type": "text" } })),
        "tool_choice": "auto",
        "tools": or("tools", json!([])),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": null,
    })
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": { "cached_tokens": usage.cached_tokens, "cache_write_tokens": 0 },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": usage.input_tokens + usage.output_tokens,
    })
}
