//! What each provider is sent, whole.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::sync::Arc;

use serde_json::{Value, json};
use wink_models::providers::{Streaming, openai};
use wink_models::{Message, ModelRequest, OutputSpec, Settings};

use crate::provider_support::{Way, answer, ask, called, output, request, user};

/// A conversation with everything in it: parallel calls, one with arguments that are none, and a message after the answers.
fn conversation() -> ModelRequest {
    let calls = vec![called("1", "read", r#"{"path":"a"}"#), called("2", "tag", r#"{"cut"#)];
    let spoke = Message::Assistant { text: "I look.".into(), calls, provider: None };
    let tools = Message::Tools {
        answers: vec![answer("1", "read", "text", true), answer("2", "tag", "Not JSON.", false)],
    };
    let mut request = request([user("Hi"), spoke, tools, user("Go on.")]);
    request.output = Some(output());
    let extra = json!({ "top_p": 0.5, "temperature": 0.25 });
    request.settings = Arc::new(Settings {
        max_output_tokens: Some(512),
        temperature: Some(1.0),
        extra: extra.as_object().unwrap().clone(),
    });
    request
}

async fn sent(way: Way, request: &ModelRequest) -> Value {
    let (fake, provider) = way.saying(Streaming::Off, r#"{"text": "Done."}"#).await;
    ask(&provider, request).await.unwrap();
    let mut seen = fake.seen();
    assert_eq!((seen.len(), &seen[0].refused), (1, &None));
    seen.remove(0).body
}

/// The parameters of `read`: all required, what was optional nullable, and what cannot be said in words.
fn read_strict() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "Must satisfy: minLength 1." },
            "limit": { "type": ["integer", "null"], "minimum": 1, "description": "Default: 10." },
        },
        "additionalProperties": false,
        "required": ["path", "limit"],
    })
}

fn tag_as_it_is() -> Value {
    json!({ "type": "object", "properties": {}, "additionalProperties": { "type": "string" } })
}

fn output_strict() -> Value {
    json!({
        "type": "object",
        "properties": { "answer": { "type": "integer" }, "note": { "type": ["string", "null"] } },
        "additionalProperties": false,
        "required": ["answer", "note"],
    })
}

#[tokio::test]
async fn to_anthropic() {
    let read = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "Must satisfy: minLength 1." },
            "limit": { "type": "integer", "default": 10, "description": "Must satisfy: minimum 1." },
        },
        "additionalProperties": false,
        "required": ["path"],
    });
    let output = json!({
        "type": "object",
        "properties": { "answer": { "type": "integer" }, "note": { "type": "string" } },
        "additionalProperties": false,
        "required": ["answer"],
    });
    let expected = json!({
        "model": "a-model",
        "max_tokens": 512,
        "system": "Be brief.",
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "Hi" }] },
            { "role": "assistant", "content": [
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "1", "name": "read", "input": { "path": "a" } },
                { "type": "tool_use", "id": "2", "name": "tag", "input": { "invalid": "{\"cut" } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "1", "content": "text" },
                { "type": "tool_result", "tool_use_id": "2", "content": "Not JSON.", "is_error": true },
                { "type": "text", "text": "Go on." },
            ] },
        ],
        "tools": [
            {
                "name": "read", "description": "Does read.", "input_schema": read,
                "input_examples": [{ "path": "a.txt" }], "strict": true,
            },
            { "name": "tag", "description": "Does tag.", "input_schema": tag_as_it_is() },
        ],
        "output_config": { "format": { "type": "json_schema", "schema": output } },
        "stream": false,
        "top_p": 0.5,
        "temperature": 0.25,
    });
    assert_eq!(sent(Way::Anthropic, &conversation()).await, expected);
}

#[tokio::test]
async fn to_chat_completions() {
    let expected = json!({
        "model": "a-model",
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": "I look.", "tool_calls": [
                { "id": "1", "type": "function", "function": { "name": "read", "arguments": "{\"path\":\"a\"}" } },
                { "id": "2", "type": "function", "function": { "name": "tag", "arguments": "{\"invalid\":\"{\\\"cut\"}" } },
            ] },
            { "role": "tool", "content": "text", "tool_call_id": "1" },
            { "role": "tool", "content": "Not JSON.", "tool_call_id": "2" },
            { "role": "user", "content": "Go on." },
        ],
        "tools": [
            { "type": "function", "function": {
                "name": "read", "description": "Does read.", "parameters": read_strict(), "strict": true,
            } },
            { "type": "function", "function": {
                "name": "tag", "description": "Does tag.", "parameters": tag_as_it_is(), "strict": false,
            } },
        ],
        "response_format": { "type": "json_schema", "json_schema": {
            "name": "Answer", "schema": output_strict(), "strict": true,
        } },
        "max_completion_tokens": 512,
        "stream": false,
        "top_p": 0.5,
        "temperature": 0.25,
    });
    assert_eq!(sent(Way::Chat, &conversation()).await, expected);
}

#[tokio::test]
async fn to_responses() {
    let expected = json!({
        "model": "a-model",
        "instructions": "Be brief.",
        "input": [
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": "I look." },
            { "type": "function_call", "call_id": "1", "name": "read", "arguments": "{\"path\":\"a\"}" },
            { "type": "function_call", "call_id": "2", "name": "tag", "arguments": "{\"invalid\":\"{\\\"cut\"}" },
            { "type": "function_call_output", "call_id": "1", "output": "text" },
            { "type": "function_call_output", "call_id": "2", "output": "Not JSON." },
            { "role": "user", "content": "Go on." },
        ],
        "tools": [
            { "type": "function", "name": "read", "description": "Does read.", "parameters": read_strict(), "strict": true },
            { "type": "function", "name": "tag", "description": "Does tag.", "parameters": tag_as_it_is(), "strict": false },
        ],
        "text": { "format": {
            "type": "json_schema", "name": "Answer", "schema": output_strict(), "strict": true,
        } },
        "max_output_tokens": 512,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "stream": false,
        "top_p": 0.5,
        "temperature": 0.25,
    });
    assert_eq!(sent(Way::Responses, &conversation()).await, expected);
}

#[tokio::test]
async fn to_chat_completions_of_a_model_without_tools() {
    let instructions = "Be brief.\n\nAnswer with one JSON object. To call a tool: {\"reply\": {\"tool\": \"NAME\", \"arguments\": {…}}}. \
                        You are then told its result. When you are done: {\"reply\": {\"output\": …}}.\n\nTools:\n\n\
                        read: Does read.\nArguments: SCHEMA\nExample: {\"path\":\"a.txt\"}\n\ntag: Does tag.\nArguments: OPEN";
    let instructions = instructions
        .replace("SCHEMA", &read_strict().to_string())
        .replace("OPEN", &tag_as_it_is().to_string());
    let object = |properties: Value| {
        let required: Vec<_> = properties.as_object().unwrap().keys().cloned().collect();
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    };
    let call = |name: &str, arguments: Value| {
        object(json!({ "tool": { "type": "string", "const": name }, "arguments": arguments }))
    };
    let reply = json!({ "anyOf": [
        call("read", read_strict()), call("tag", tag_as_it_is()), object(json!({ "output": output_strict() })),
    ] });
    let expected = json!({
        "model": "a-model",
        "messages": [
            { "role": "system", "content": instructions },
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": r#"{"reply":{"tool":"read","arguments":{"path":"a"}}}"# },
            { "role": "assistant", "content": r#"{"reply":{"tool":"tag","arguments":{"invalid":"{\"cut"}}}"# },
            { "role": "user", "content": "Result of read:\ntext\n\nFailure of tag:\nNot JSON." },
            { "role": "user", "content": "Go on." },
        ],
        "response_format": { "type": "json_schema", "json_schema": {
            "name": "wink_reply", "schema": object(json!({ "reply": reply })), "strict": false,
        } },
        "max_completion_tokens": 512,
        "stream": false,
        "top_p": 0.5,
        "temperature": 0.25,
    });
    let mut asked = conversation();
    // The fake writes the text as it is where an output is wanted.
    asked.messages = conversation().messages;
    let (fake, provider) = Way::Constrained.saying(Streaming::Off, r#"{"text": "{\"answer\": 1}"}"#).await;
    ask(&provider, &asked).await.unwrap();
    assert_eq!(fake.seen()[0].body, expected);
}

#[tokio::test]
async fn to_anthropic_with_an_output_that_leaves_no_room_for_strict_tools() {
    let schema = |optional: usize| {
        let properties: serde_json::Map<_, _> =
            (0..optional).map(|number| (format!("f{number}"), json!({ "type": "string" }))).collect();
        json!({ "type": "object", "properties": properties, "additionalProperties": false })
    };
    for (optional, is_held, is_strict) in [(23, true, true), (24, true, false), (30, false, true)] {
        let mut asked = request([user("Hi")]);
        asked.output =
            Some(Arc::new(OutputSpec { name: "Answer".into(), schema: Arc::new(schema(optional)) }));
        // The fake refuses what is too much.
        let body = sent(Way::Anthropic, &asked).await;
        assert_eq!(body.pointer("/output_config/format/schema").is_some(), is_held, "{body}");
        assert_eq!(body["tools"][0]["strict"] == true, is_strict, "{body}");
    }
}

#[tokio::test]
async fn the_prompt_is_what_is_said_where_nobody_has_said_anything() {
    let asked = ModelRequest { tools: Arc::new([]), ..request([]) };
    assert_eq!(
        sent(Way::Anthropic, &asked).await,
        json!({
            "model": "a-model", "max_tokens": 8192, "stream": false,
            "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Be brief." }] }],
        })
    );
    let chat = json!({ "model": "a-model", "messages": [{ "role": "user", "content": "Be brief." }], "stream": false });
    assert_eq!(sent(Way::Chat, &asked).await, chat);
    assert_eq!(sent(Way::Constrained, &asked).await, chat);
    assert_eq!(
        sent(Way::Responses, &asked).await,
        json!({
            "model": "a-model", "input": [{ "role": "user", "content": "Be brief." }], "store": false,
            "include": ["reasoning.encrypted_content"], "stream": false,
        })
    );
}

#[tokio::test]
async fn other_servers_have_another_name_for_the_limit() {
    let (fake, _) = Way::Chat.saying(Streaming::On, r#"{"text": "Done."}"#).await;
    let chat = openai::Chat::new("a-model").length_field(openai::LengthField::MaxTokens);
    let provider = chat.at(Way::Chat.endpoint(&fake)).unwrap();
    let settings = Settings { max_output_tokens: Some(5), ..Settings::default() };
    let asked = ModelRequest { tools: Arc::new([]), settings: Arc::new(settings), ..request([user("Hi")]) };
    ask(&provider, &asked).await.unwrap();
    assert_eq!(
        fake.seen()[0].body,
        json!({
            "model": "a-model",
            "messages": [{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Hi" }],
            "max_tokens": 5,
            "stream": true,
            "stream_options": { "include_usage": true },
        })
    );
}

#[tokio::test]
async fn two_calls_of_one_id_are_sent_back_as_they_were() {
    let calls = vec![called("1", "read", r#"{"path":"a"}"#), called("1", "tag", r#"{"b":"c"}"#)];
    let kept = json!({ "by": "anthropic", "content": [
        { "type": "thinking", "thinking": "Hm.", "signature": "s" },
        { "type": "tool_use", "id": "1" },
        { "type": "tool_use", "id": "1" },
    ] });
    let spoke = Message::Assistant { text: "".into(), calls, provider: Some(Arc::new(kept)) };
    let tools =
        Message::Tools { answers: vec![answer("1", "read", "text", true), answer("1", "tag", "no", false)] };
    let (fake, provider) = Way::Anthropic.saying(Streaming::Off, r#"{"text": "Done."}"#).await;
    // Whatever the provider makes of it.
    let _ = ask(&provider, &request([user("Hi"), spoke, tools])).await;
    assert_eq!(
        fake.seen()[0].body["messages"][1]["content"],
        json!([
            { "type": "thinking", "thinking": "Hm.", "signature": "s" },
            { "type": "tool_use", "id": "1", "name": "read", "input": { "path": "a" } },
            { "type": "tool_use", "id": "1", "name": "tag", "input": { "b": "c" } },
        ])
    );
}
