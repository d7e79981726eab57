//! Answers as no server should write them, and some do: what they mean is taken from them, what they do not say is not made up, and what
//! cannot be understood is asked for again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use wink_models::providers::{Endpoint, Provider, SetupError, Streaming, anthropic, openai};
use wink_models::{ModelError, ModelErrorKind, ModelResponse, Stop};

use crate::provider_support::{Way, ask, request, user};

/// A provider in front of a server that answers once, with this.
async fn answered(way: Way, kind: &str, body: String) -> Result<ModelResponse, ModelError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // All of the request is here when its last brace is.
        let (mut heard, mut part) = (Vec::new(), [0; 4096]);
        while !heard.ends_with(b"}") {
            let count = stream.read(&mut part).await.unwrap();
            assert!(count > 0, "the request ended early");
            heard.extend_from_slice(&part[..count]);
        }
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
    });
    let provider: Provider = way.at(Endpoint::new(url).streaming(match kind {
        "text/event-stream" => Streaming::On,
        _ => Streaming::Off,
    }));
    let answer = ask(&provider, &request([user("Go.")])).await;
    serving.await.unwrap();
    answer
}

async fn whole(way: Way, body: Value) -> Result<ModelResponse, ModelError> {
    answered(way, "application/json", body.to_string()).await
}

async fn streamed(way: Way, events: &[Value]) -> Result<ModelResponse, ModelError> {
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message"));
    answered(way, "text/event-stream", events.iter().map(event).collect()).await
}

fn calls(response: &ModelResponse) -> Vec<(&str, &str, &str)> {
    response.calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect()
}

/// What a call has as its arguments, and what the tool is given to judge: never less than was written.
fn arguments() -> [(Value, &'static str); 7] {
    [
        (json!("{\"dir\":\"tmp\"}"), "{\"dir\":\"tmp\"}"),
        (json!({ "dir": "tmp" }), "{\"dir\":\"tmp\"}"),
        (json!(["tmp"]), "[\"tmp\"]"),
        (json!(7), "7"),
        (json!(true), "true"),
        (json!(""), "{}"),
        (Value::Null, "{}"),
    ]
}

#[tokio::test]
async fn arguments_that_are_no_text_are_what_was_written() {
    for (written, expected) in arguments() {
        let function = json!({ "name": "clean", "arguments": written });
        let message = json!({ "content": null, "tool_calls": [{ "id": "a", "function": function }] });
        let body = json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] });
        let chat = whole(Way::Chat, body).await.unwrap();
        assert_eq!(calls(&chat), [("a", "clean", expected)]);
        let delta = json!({ "tool_calls": [{ "index": 0, "id": "a", "function": function }] });
        let chunk = json!({ "choices": [{ "delta": delta, "finish_reason": "tool_calls" }] });
        assert_eq!(calls(&streamed(Way::Chat, &[chunk]).await.unwrap()), [("a", "clean", expected)]);
        let item = json!({ "type": "function_call", "call_id": "a", "name": "clean", "arguments": written });
        let body = json!({ "status": "completed", "output": [item] });
        assert_eq!(calls(&whole(Way::Responses, body).await.unwrap()), [("a", "clean", expected)]);
    }
}

// case 253
#[tokio::test]
async fn numbers_in_an_object_of_arguments_are_as_they_were_written() {
    let written = r#"{"wei":20000000000000000001,"part":0.1000000000000000055}"#;
    let call = format!(r#"{{"type":"function_call","call_id":"a","name":"pay","arguments":{written}}}"#);
    let body = format!(r#"{{"status":"completed","output":[{call}]}}"#);
    let whole = answered(Way::Responses, "application/json", body).await.unwrap();
    assert_eq!(calls(&whole), [("a", "pay", written)]);

    let function = format!(r#"{{"name":"pay","arguments":{written}}}"#);
    let message = format!(r#"{{"tool_calls":[{{"id":"a","function":{function}}}]}}"#);
    let body = format!(r#"{{"choices":[{{"message":{message},"finish_reason":"tool_calls"}}]}}"#);
    let whole = answered(Way::Chat, "application/json", body).await.unwrap();
    assert_eq!(calls(&whole), [("a", "pay", written)]);
}

#[tokio::test]
async fn another_id_is_another_call_whatever_its_place() {
    let delta = |id: Value, name: Value, arguments: &str| {
        let call = json!({ "index": 0, "id": id, "function": { "name": name, "arguments": arguments } });
        json!({ "choices": [{ "delta": { "tool_calls": [call] } }] })
    };
    let end = json!({ "choices": [{ "delta": null, "finish_reason": "tool_calls" }] });
    let events = [
        delta(json!("a"), json!("clean"), ""),
        delta(json!("b"), json!("read"), "{\"dir\":"),
        delta(Value::Null, Value::Null, "\"z\"}"),
        end,
    ];
    let response = streamed(Way::Chat, &events).await.unwrap();
    assert_eq!(calls(&response), [("a", "clean", "{}"), ("b", "read", "{\"dir\":\"z\"}")]);
}

// case 265
#[tokio::test]
async fn a_count_of_zero_is_one_and_no_count_is_estimated() {
    let said = |count: Value| async move {
        let usage = json!({ "prompt_tokens": count, "completion_tokens": 5 });
        let message = json!({ "content": "Hello" });
        let body = json!({ "choices": [{ "message": message, "finish_reason": "stop" }], "usage": usage });
        let chat = whole(Way::Chat, body).await.unwrap().usage;
        let usage = json!({ "input_tokens": count, "output_tokens": 5 });
        let message = json!({ "type": "message", "content": [{ "type": "output_text", "text": "Hello" }] });
        let body = json!({ "status": "completed", "output": [message], "usage": usage });
        let responses = whole(Way::Responses, body).await.unwrap().usage;
        let events = [
            json!({ "type": "message_start", "message": { "usage": null }, "delta": null }),
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "Hello" } }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": usage }),
            json!({ "type": "message_stop" }),
        ];
        let anthropic = streamed(Way::Anthropic, &events).await.unwrap().usage;
        [chat, responses, anthropic].map(|usage| (usage.input_tokens, usage.output_tokens))
    };
    assert_eq!(said(json!(0)).await, [(0, 5); 3]);
    assert!(said(Value::Null).await.iter().all(|(input, output)| *input > 10 && *output == 5));
}

#[tokio::test]
async fn what_is_null_or_no_count_is_not_there() {
    let odd = [Value::Null, json!(-1), json!(1.5), json!("many")];
    for count in odd {
        let usage = json!({ "prompt_tokens": count, "completion_tokens": 5, "prompt_tokens_details": null });
        let message = json!({ "content": [{ "type": "text", "text": "Hello" }], "tool_calls": null });
        let body = json!({ "choices": [{ "message": message, "finish_reason": "stop" }], "usage": usage });
        let chat = whole(Way::Chat, body).await.unwrap();
        assert_eq!((&*chat.text, chat.usage.output_tokens), ("Hello", 5));
        assert!(chat.usage.input_tokens > 10, "what is not said is estimated");
        let usage = json!({ "input_tokens": count, "output_tokens": 5 });
        let message = json!({ "type": "message", "content": [{ "type": "output_text", "text": "Hello" }] });
        let body = json!({ "status": "completed", "output": [message], "usage": usage });
        let responses = whole(Way::Responses, body).await.unwrap();
        assert_eq!((&*responses.text, responses.usage.output_tokens), ("Hello", 5));
        let events = [
            json!({ "type": "message_start", "message": { "usage": null }, "delta": null }),
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "Hello" } }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": usage }),
            json!({ "type": "message_stop" }),
        ];
        let anthropic = streamed(Way::Anthropic, &events).await.unwrap();
        assert_eq!((&*anthropic.text, anthropic.usage.output_tokens), ("Hello", 5));
    }
    for usage in [json!([]), json!("x"), json!({ "prompt_tokens": 7 })] {
        let message = json!({ "content": "Hello, all of you" });
        let body = json!({ "choices": [{ "message": message, "finish_reason": "stop" }], "usage": usage });
        let chat = whole(Way::Chat, body).await.unwrap();
        assert_eq!((&*chat.text, chat.usage.output_tokens), ("Hello, all of you", 5), "{usage}");
    }
    let choice = |index: u64, text: &str| json!({ "index": index, "delta": { "content": text } });
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let two = [
        json!({ "choices": [choice(1, "no"), choice(0, "a")] }),
        json!({ "choices": [choice(1, "no")] }),
        end,
    ];
    assert_eq!(&*streamed(Way::Chat, &two).await.unwrap().text, "a");
    let chunks = [
        json!({ "choices": [{ "delta": { "content": "Hel" }, "finish_reason": "length" }] }),
        json!({ "choices": [{ "delta": null, "finish_reason": "stop" }] }),
        json!({ "choices": null, "usage": null }),
    ];
    let cut = streamed(Way::Chat, &chunks).await.unwrap();
    assert_eq!((&*cut.text, cut.stop), ("Hel", Stop::Truncated));
}

#[tokio::test]
async fn what_is_no_answer_is_asked_for_again() {
    let call = |at: usize| json!({ "type": "function_call", "call_id": at.to_string(), "name": "x", "arguments": "{}" });
    let many: Vec<Value> = (0..1_025).map(call).collect();
    for (way, kind, body) in [
        (Way::Chat, "text/html", "<html>Bad gateway</html>".to_owned()),
        (Way::Chat, "application/json", "{\"choices\": [{\"message\": {\"cont".to_owned()),
        (Way::Responses, "application/json", json!({ "status": "queued", "output": [] }).to_string()),
        (Way::Responses, "application/json", json!({ "status": "in_progress", "output": [] }).to_string()),
        (Way::Responses, "application/json", json!({ "status": "completed", "output": many }).to_string()),
        (Way::Anthropic, "application/json", "[]".to_owned()),
    ] {
        let error = answered(way, kind, body.clone()).await.unwrap_err();
        assert_eq!((error.kind, error.retry_safe), (ModelErrorKind::Malformed, true), "{body}");
    }
}

#[test]
fn no_secret_of_a_url_is_told() {
    for url in [
        "http://u:hunter22@h/v1",
        "http:/hunter22@x",
        "http:hunter22@x",
        "//u:hunter22@h",
        "http:\\\\u:hunter22@h",
        "http://h/v1?api-key=hunter22",
        "http://h/v1#hunter22",
        "ftp://u:hunter22@h",
    ] {
        let made = openai::Chat::new("m").at(Endpoint::new(url));
        let error = made.expect_err(url);
        assert!(matches!(error, SetupError::Url { .. }), "{error}");
        assert!(!format!("{error} {error:?} {:?}", Endpoint::new(url)).contains("hunter22"), "{error}");
    }
    // The version may be part of the base or not.
    for url in ["http://h", "http://h/", "http://h/v1", "http://h/v1/"] {
        assert!(anthropic::Messages::new("m").at(Endpoint::new(url)).is_ok());
    }
}
