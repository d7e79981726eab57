//! Anthropic's Messages.

use serde_json::{Value, json};

use super::{Event, model, pieces};
use crate::script::{Reply, Stop, Usage};

/// What signs thinking; requests have to bring it back.
pub(crate) const SIGNATURE: &str = "sig_fake";

pub(super) fn whole(number: usize, reply: &Reply, asked: &Value) -> Value {
    let mut message = begun(number, reply, asked);
    merge(
        &mut message,
        json!({
            "content": content(reply),
            "stop_reason": stop_reason(reply),
            "usage": reply.usage.map(|used| usage(used, used.output_tokens)),
        }),
    );
    message
}

pub(super) fn events(number: usize, reply: &Reply, asked: &Value) -> Vec<Event> {
    let mut events = vec![
        json!({ "type": "message_start", "message": begun(number, reply, asked) }),
        json!({ "type": "ping" }),
    ];
    for (index, block) in content(reply).iter().enumerate() {
        let (start, deltas) = parts(block, reply);
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        for delta in deltas {
            events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": { "stop_reason": stop_reason(reply), "stop_sequence": null },
        "usage": reply.usage.map(|used| json!({ "output_tokens": used.output_tokens })),
    }));
    events.push(json!({ "type": "message_stop" }));
    events.iter().map(Event::typed).collect()
}

/// A block as it begins, and what is added to it.
fn parts(block: &Value, reply: &Reply) -> (Value, Vec<Value>) {
    let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "thinking" => {
            let more = pieces(text("thinking"))
                .into_iter()
                .map(|piece| json!({ "type": "thinking_delta", "thinking": piece }));
            let signature = json!({ "type": "signature_delta", "signature": text("signature") });
            (
                json!({ "type": "thinking", "thinking": "", "signature": "" }),
                more.chain([signature]).collect(),
            )
        }
        "tool_use" => {
            let written = reply
                .tool_calls
                .iter()
                .find(|call| call.id == text("id"))
                .map(|call| call.arguments.as_str());
            // The first piece is always empty, and there is none more where there are no arguments.
            let arguments = pieces(written.filter(|text| *text != "{}").unwrap_or_default());
            let more = std::iter::once(String::new()).chain(arguments);
            let more = more.map(|piece| json!({ "type": "input_json_delta", "partial_json": piece }));
            (
                json!({ "type": "tool_use", "id": text("id"), "name": text("name"), "input": {} }),
                more.collect(),
            )
        }
        _ => {
            let more =
                pieces(text("text")).into_iter().map(|piece| json!({ "type": "text_delta", "text": piece }));
            (json!({ "type": "text", "text": "" }), more.collect())
        }
    }
}

fn begun(number: usize, reply: &Reply, asked: &Value) -> Value {
    json!({
        "id": format!("msg_{number}"),
        "type": "message",
        "role": "assistant",
        "model": model(asked),
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": reply.usage.map(|used| usage(used, 1)),
    })
}

fn content(reply: &Reply) -> Vec<Value> {
    let mut content = Vec::new();
    if !reply.thinking.is_empty() {
        content.push(json!({ "type": "thinking", "thinking": reply.thinking, "signature": SIGNATURE }));
    }
    if !reply.text.is_empty() {
        content.push(json!({ "type": "text", "text": reply.text }));
    }
    for call in &reply.tool_calls {
        // What was cut is no object, and the real one leaves it out then.
        let input =
            serde_json::from_str(&call.arguments).ok().filter(Value::is_object).unwrap_or_else(|| json!({}));
        content.push(json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input }));
    }
    content
}

fn stop_reason(reply: &Reply) -> &'static str {
    match reply.stop {
        Stop::Complete if reply.tool_calls.is_empty() => "end_turn",
        Stop::Complete => "tool_use",
        Stop::Truncated => "max_tokens",
        Stop::Refused => "refusal",
        Stop::Paused => "pause_turn",
    }
}

fn usage(usage: Usage, output_tokens: u64) -> Value {
    json!({
        "input_tokens": usage.input_tokens.saturating_sub(usage.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": output_tokens,
    })
}

fn merge(message: &mut Value, more: Value) {
    if let (Some(fields), Value::Object(more)) = (message.as_object_mut(), more) {
        fields.extend(more);
    }
}
