//! OpenAI's Chat Completions.

use serde_json::{Value, json};

use super::{Event, model, pieces};
use crate::script::{Reply, Stop, Usage};

pub(super) fn whole(number: usize, reply: &Reply, asked: &Value) -> Value {
    let said = Said::new(reply, asked);
    let call = |(id, name, arguments): &(&str, &str, &str)| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
    let calls: Vec<_> = said.calls.iter().map(call).collect();
    let mut message = json!({ "role": "assistant", "content": said.text, "refusal": said.refusal });
    if let Some(fields) = message.as_object_mut().filter(|_| !calls.is_empty()) {
        fields.insert("tool_calls".to_owned(), calls.into());
    }
    json!({
        "id": format!("chatcmpl-{number}"),
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model(asked),
        "choices": [{ "index": 0, "message": message, "logprobs": null, "finish_reason": said.finish_reason }],
        "usage": reply.usage.map(usage),
    })
}

pub(super) fn events(number: usize, reply: &Reply, asked: &Value) -> Vec<Event> {
    let said = Said::new(reply, asked);
    let chunk = |choices: Value, usage: Option<Value>| {
        Event::plain(json!({
            "id": format!("chatcmpl-{number}"),
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": model(asked),
            "choices": choices,
            "usage": usage,
        }))
    };
    let delta = |delta: Value| {
        chunk(json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null }]), None)
    };
    let mut events = vec![delta(json!({ "role": "assistant", "content": "", "refusal": null }))];
    for piece in pieces(said.text.as_deref().unwrap_or_default()) {
        events.push(delta(json!({ "content": piece })));
    }
    for piece in pieces(said.refusal.as_deref().unwrap_or_default()) {
        events.push(delta(json!({ "refusal": piece })));
    }
    for (index, (id, name, arguments)) in said.calls.iter().enumerate() {
        let call = json!({ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": "" } });
        events.push(delta(json!({ "tool_calls": [call] })));
        for piece in pieces(arguments) {
            events.push(delta(
                json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] }),
            ));
        }
    }
    let end = json!([{ "index": 0, "delta": {}, "logprobs": null, "finish_reason": said.finish_reason }]);
    events.push(chunk(end, None));
    if asked.pointer("/stream_options/include_usage") == Some(&Value::Bool(true)) && reply.usage.is_some() {
        events.push(chunk(json!([]), reply.usage.map(usage)));
    }
    events.push(Event::plain("[DONE]"));
    events
}

/// A reply, as far as this API can say it.
struct Said<'a> {
    text: Option<String>,
    refusal: Option<String>,
    calls: Vec<(&'a str, &'a str, &'a str)>,
    finish_reason: &'static str,
}

impl<'a> Said<'a> {
    fn new(reply: &'a Reply, asked: &Value) -> Self {
        let refused = reply.stop == Stop::Refused;
        let mut calls: Vec<_> =
            reply.tool_calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
        let mut text = Some(reply.text.clone()).filter(|text| !text.is_empty() && !refused);
        let refusal = refused.then(|| reply.text.clone());
        if let Some(written) = constrained(reply, asked) {
            text = Some(written);
            calls.clear();
        }
        let finish_reason = match reply.stop {
            Stop::Truncated => "length",
            _ if calls.is_empty() => "stop",
            _ => "tool_calls",
        };
        Self { text, refusal, calls, finish_reason }
    }
}

/// A model that is held to a schema with a `reply` writes such a one: a call, an output or a text.
fn constrained(reply: &Reply, asked: &Value) -> Option<String> {
    let schema = asked.pointer("/response_format/json_schema/schema/properties/reply")?;
    if reply.stop == Stop::Refused {
        return None;
    }
    let choices = schema.get("anyOf").and_then(Value::as_array)?;
    let has_output = choices.iter().any(|choice| choice.pointer("/properties/output").is_some());
    // What closes it is missing where it was cut.
    let (inner, end) = match reply.tool_calls.first() {
        Some(call) => (format!(r#""tool":{},"arguments":{}"#, json!(call.name), call.arguments), "}}"),
        None if has_output => (format!(r#""output":{}"#, reply.text), "}}"),
        None => {
            let text = json!(reply.text).to_string();
            (format!(r#""text":{}"#, text.strip_suffix('"').unwrap_or(&text)), "\"}}")
        }
    };
    let end = if reply.stop == Stop::Truncated { "" } else { end };
    Some(format!("{{\"reply\":{{{inner}{end}"))
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": { "cached_tokens": usage.cached_tokens, "audio_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 0, "audio_tokens": 0 },
    })
}
