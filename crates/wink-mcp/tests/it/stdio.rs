//! One client over two pipes: what it is told, and what comes of its calls.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use std::pin::Pin;
use std::task::{Context, Poll};

use serde_json::{Value, json};
use wink::session::Ending;
use wink_mcp::{ServeError, serve_lines};

use crate::support::{Agent, Client, call_params, stateless, text_of};

#[tokio::test]
async fn every_tool_that_can_be_enabled_is_listed_always_the_same() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let listed = client.request("tools/list", json!({})).await["result"].clone();
    let names: Vec<&str> =
        listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "save",
            "save_and_fail",
            "add",
            "pay",
            "send",
            "wait",
            "hurry",
            "deploy",
            "release",
            "peek",
            "save_nothing",
            "look_up",
            "open_sections",
            "read_section",
        ]
    );
    let save = &listed["tools"][0];
    assert_eq!(
        save,
        &json!({
            "name": "save",
            "description": "Saves a note.",
            "inputSchema": agent.session.tools().next().unwrap().schema_as_json_value(),
            "outputSchema": {
                "type": "object",
                "properties": {
                    "file": { "type": "string" },
                    "bytes": { "type": "integer", "minimum": 0, "maximum": u64::MAX },
                },
                "title": "Saved",
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "anyOf": [{ "required": ["file", "bytes"] }, { "maxProperties": 0 }],
            },
            "annotations": {
                "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true,
            },
        })
    );
    // A value that is no object is in a field.
    assert_eq!(listed["tools"][2]["outputSchema"]["properties"]["result"]["type"], json!("integer"));
    assert_eq!(listed["tools"][2]["annotations"]["readOnlyHint"], json!(true));
    client.call("open_sections", json!({ "reason": "to look", "section_keys": ["manual"] })).await;
    assert_eq!(client.request("tools/list", json!({})).await["result"], listed);
    client.close().await;
}

#[tokio::test]
async fn a_cursor_that_nobody_gave_is_an_error() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let first = client.request(method, json!({})).await;
        assert!(first["result"].is_object() && first["result"].get("nextCursor").is_none(), "{first}");
        for cursor in ["", "2"] {
            let answer = client.request(method, json!({ "cursor": cursor })).await;
            assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
        }
    }
    client.close().await;
}

#[tokio::test]
async fn a_success_has_text_and_structure_and_is_in_the_log() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let result = client.call("save", json!({ "file": "a.txt", "text": "milk" })).await;
    let event = agent.events().pop().unwrap();
    assert_eq!(
        result,
        json!({
            "content": [{ "type": "text", "text": "saved\n\n{\"file\":\"a.txt\",\"bytes\":4}" }],
            "structuredContent": { "file": "a.txt", "bytes": 4 },
            "isError": false,
            "_meta": { "wink/invocation": event.id.to_string() },
        })
    );
    assert_eq!((event.ending, &*event.call_id), (Ending::Succeeded, "mcp-2"));
    assert_eq!(agent.file("a.txt").await.as_deref(), Some("milk"));
    let sum = client.call("add", json!({ "a": 2, "b": 40 })).await;
    assert_eq!(sum["structuredContent"], json!({ "result": 42 }));
    client.close().await;
}

#[tokio::test]
async fn what_is_structured_is_as_it_was_described() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    for (tool, arguments, structured) in [
        ("save", json!({ "file": "a.txt", "text": "milk" }), json!({ "file": "a.txt", "bytes": 4 })),
        ("add", json!({ "a": 1, "b": 2 }), json!({ "result": 3 })),
        ("peek", json!({}), json!({})),
        ("save_nothing", json!({}), json!({})),
    ] {
        let result = client.call(tool, arguments).await;
        assert_eq!(result["structuredContent"], structured, "{tool}");
        let listed = agent.session.tools().find(|listed| listed.name == tool).unwrap();
        let schema = Value::Object(listed.output_schema.as_deref().unwrap().clone());
        assert!(jsonschema::is_valid(&schema, &structured), "{tool}: {schema}");
        assert_eq!(schema["type"], "object");
        assert!(!jsonschema::is_valid(&schema, &json!({ "file": 7, "result": "x" })), "{tool}: {schema}");
    }
    client.close().await;
}

#[tokio::test]
async fn a_failure_is_a_result_and_nothing_is_left_of_it() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let failed = client.call("save_and_fail", json!({ "file": "a.txt", "text": "milk" })).await;
    assert_eq!((failed["isError"].clone(), text_of(&failed)), (json!(true), "the disk is tired"));
    assert_eq!(failed.get("structuredContent"), None);
    assert_eq!(agent.file("a.txt").await, None);
    let rejected = client.call("add", json!({ "a": "2" })).await;
    assert_eq!(rejected["isError"], json!(true));
    assert!(text_of(&rejected).contains("`b`") || text_of(&rejected).contains('b'), "{rejected}");
    let closed = client.call("look_up", json!({ "a": 1, "b": 2 })).await;
    assert_eq!(closed["isError"], json!(true));
    assert!(text_of(&closed).contains("open_sections"), "{closed}");
    let endings: Vec<Ending> = agent.events().iter().map(|event| event.ending).collect();
    assert_eq!(endings, [Ending::Failed, Ending::Rejected, Ending::Unavailable]);
    client.close().await;
}

#[tokio::test]
async fn a_tool_that_there_is_not_is_an_error_and_an_event() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let answer = client.request("tools/call", json!({ "name": "sve", "arguments": {} })).await;
    let event = agent.events().pop().unwrap();
    assert_eq!(event.ending, Ending::Unavailable);
    assert_eq!(answer["error"], json!({ "code": -32602, "message": &*event.rendered }));
    assert!(event.rendered.contains("Did you mean 'save'?"), "{}", event.rendered);
    client.close().await;
}

#[tokio::test]
async fn arguments_of_any_kind_are_told_what_is_wrong_with_them() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    for (id, arguments) in
        ["[1,2]", "\"text\"", "7", "null", r#"{"a":1,"a":2,"b":3}"#, r#"{"a":1e999,"b":1}"#, &deep]
            .iter()
            .enumerate()
    {
        let id = 100 + i64::try_from(id).unwrap();
        client
            .send_text(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"add","arguments":{arguments}}}}}"#
            ))
            .await;
        let answer = client.answer(id).await;
        assert_eq!(answer["result"]["isError"], json!(true), "{arguments}: {answer}");
        let event = agent.events().pop().unwrap();
        assert_eq!(event.ending, Ending::Rejected, "{arguments}");
        assert_eq!(text_of(&answer["result"]), &*event.rendered);
    }
    client.close().await;
}

#[tokio::test]
async fn opened_sections_can_be_used() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let opened =
        client.call("open_sections", json!({ "reason": "to look", "section_keys": ["manual"] })).await;
    assert_eq!((opened["isError"].clone(), text_of(&opened)), (json!(false), "opened manual"));
    let found = client.call("look_up", json!({ "a": 1, "b": 2 })).await;
    assert_eq!(found["structuredContent"], json!({ "result": 3 }));
    client.close().await;
}

#[tokio::test]
async fn three_revisions_are_spoken() {
    let agent = Agent::new().await;
    for version in ["2025-06-18", "2025-11-25"] {
        let mut client = Client::shaken(&agent, version, json!({})).await;
        assert_eq!(
            client.call("add", json!({ "a": 1, "b": 2 })).await["structuredContent"],
            json!({ "result": 3 })
        );
        assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
        client.close().await;
    }
    // One that is not known is answered with one that is.
    let mut client = Client::new(&agent);
    let params = json!({ "protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let answer = client.request("initialize", params).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    client.close().await;
    // Without a handshake.
    let mut client = Client::new(&agent);
    let answer = client.request("server/discover", json!({ "_meta": stateless(json!({})) })).await;
    assert_eq!(answer["result"]["supportedVersions"], json!(["2025-06-18", "2025-11-25", "2026-07-28"]));
    let answer = client.request("tools/call", call_params("add", json!({ "a": 1, "b": 2 }), json!({}))).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["structuredContent"], json!({ "result": 3 }));
    let listed =
        client.request("tools/list", json!({ "_meta": stateless(json!({})) })).await["result"].clone();
    assert_eq!((listed["ttlMs"].clone(), listed["cacheScope"].clone()), (json!(3_600_000), json!("private")));
    client.close().await;
}

#[tokio::test]
async fn tasks_are_offered_only_where_there_are_some() {
    let agent = Agent::new().await;
    for version in ["2025-06-18", "2025-11-25", "2026-07-28"] {
        let mut client = Client::new(&agent);
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let offered = client.request("initialize", params).await["result"]["capabilities"].clone();
        assert_eq!(offered, json!({ "tools": {}, "prompts": {}, "resources": {} }), "{version}");
        client.close().await;
    }
    let mut client = Client::new(&agent);
    let answer = client.request("server/discover", json!({ "_meta": stateless(json!({})) })).await;
    assert_eq!(
        answer["result"]["capabilities"]["extensions"],
        json!({ "io.modelcontextprotocol/tasks": {} }),
        "{answer}"
    );
    client.close().await;
}

#[tokio::test]
async fn every_result_of_the_stateless_revision_says_who_answers() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    let own = json!({ "name": "wink", "version": env!("CARGO_PKG_VERSION") });
    let tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": {} });
    let alone = || json!({ "_meta": stateless(json!({})) });
    let named = |field: &str, name: &str| json!({ field: name, "_meta": stateless(json!({})) });
    let mut asked = Vec::new();
    for (method, params) in [
        ("server/discover", alone()),
        ("tools/list", alone()),
        ("prompts/list", alone()),
        ("prompts/get", named("name", "agent")),
        ("resources/list", alone()),
        ("resources/templates/list", alone()),
        ("resources/read", named("uri", "wink://log")),
        ("tools/call", call_params("add", json!({ "a": 1, "b": 2 }), json!({}))),
        ("tools/call", call_params("deploy", json!({ "environment": "x" }), tasks.clone())),
    ] {
        asked.push((method, client.request(method, params).await));
    }
    let id = client.begin("tools/call", call_params("wait", json!({}), tasks.clone())).await;
    agent.shared.waiting.notified().await;
    agent.clock.advance(std::time::Duration::from_secs(11));
    let task = client.answer(id).await;
    let about = json!({ "taskId": task["result"]["taskId"], "_meta": stateless(tasks) });
    asked.push(("tools/call", task));
    for method in ["tasks/get", "tasks/cancel"] {
        asked.push((method, client.request(method, about.clone()).await));
    }
    let mut types = Vec::new();
    for (method, answer) in &asked {
        let result = &answer["result"];
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"], own, "{method}: {answer}");
        types.push(result["resultType"].as_str().unwrap());
    }
    let complete = "complete";
    let mut expected = vec![complete; 8];
    expected.extend(["input_required", "task", complete, complete]);
    assert_eq!(types, expected);
    client.close().await;
    // The others have what they always had.
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let listed = client.request("resources/list", json!({})).await["result"].clone();
    assert_eq!((listed.get("_meta"), listed.get("resultType")), (None, None), "{listed}");
    client.close().await;
}

#[tokio::test]
async fn progress_is_told_to_whoever_asks_for_it() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let params = json!({ "name": "wait", "arguments": {}, "_meta": { "progressToken": "p" } });
    let id = client.begin("tools/call", params).await;
    agent.shared.waiting.notified().await;
    agent.shared.go.notify_one();
    let answer = client.answer(id).await;
    assert_eq!(text_of(&answer["result"]), "waited");
    let told: Vec<Value> = client.aside.iter().map(|message| message["params"].clone()).collect();
    assert_eq!(
        told,
        [
            json!({ "progressToken": "p", "progress": 1.0, "total": 3.0, "message": "waiting" }),
            json!({ "progressToken": "p", "progress": 2.0, "total": 3.0, "message": "going on" }),
        ]
    );
    // Nobody asked.
    let id = client.begin("tools/call", json!({ "name": "wait", "arguments": {} })).await;
    agent.shared.waiting.notified().await;
    agent.shared.go.notify_one();
    client.answer(id).await;
    assert_eq!(client.aside.len(), 2);
    client.close().await;
}

#[tokio::test]
async fn a_cancelled_call_is_rolled_back_and_not_answered() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let id = client.begin("tools/call", json!({ "name": "wait", "arguments": {} })).await;
    agent.shared.waiting.notified().await;
    client
        .send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
        )
        .await;
    // What comes next is the answer to what was asked next.
    let sum = client.call("add", json!({ "a": 1, "b": 2 })).await;
    assert_eq!(sum["structuredContent"], json!({ "result": 3 }));
    assert_eq!(client.aside, Vec::<Value>::new());
    let events = agent.events();
    assert_eq!(events[0].ending, Ending::Cancelled);
    assert_eq!(agent.file("waited.txt").await, None);
    client.close().await;
}

#[tokio::test]
async fn a_cancellation_of_an_answered_call_is_ignored() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    client.call("add", json!({ "a": 1, "b": 2 })).await;
    for id in [json!(2), json!(77), json!("x"), json!(null)] {
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })).await;
    }
    assert_eq!(
        client.call("add", json!({ "a": 1, "b": 2 })).await["structuredContent"],
        json!({ "result": 3 })
    );
    client.close().await;
}

#[tokio::test]
async fn whoever_goes_leaves_nothing_running() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    client.begin("tools/call", json!({ "name": "wait", "arguments": {} })).await;
    agent.shared.waiting.notified().await;
    client.close().await;
    agent.session.close().await;
    assert_eq!(agent.events().pop().unwrap().ending, Ending::Cancelled);
    assert_eq!(agent.file("waited.txt").await, None);
}

#[tokio::test]
async fn a_request_that_is_sent_again_has_its_effect_once() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let send = |key: &str, environment: &str, meta: &str| json!({ "name": "send", "arguments": { "environment": environment }, "_meta": { meta: key } });
    for meta in ["wink/idempotencyKey", "claudecode/toolUseId", "callId"] {
        let before = agent.shared.effects.load(std::sync::atomic::Ordering::SeqCst);
        let first = client.request("tools/call", send(meta, "staging", meta)).await["result"].clone();
        let again = client.request("tools/call", send(meta, "staging", meta)).await["result"].clone();
        assert_eq!(first["structuredContent"], again["structuredContent"]);
        assert_eq!(first["content"], again["content"]);
        assert!(agent.events().pop().unwrap().replayed);
        assert_eq!(&*agent.events().pop().unwrap().call_id, meta);
        // Other arguments are another request, whatever its key.
        client.request("tools/call", send(meta, "production", meta)).await;
        let after = agent.shared.effects.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(after - before, 2);
    }
    // Without a key it is done again, unless the tool itself says otherwise.
    let before = agent.shared.effects.load(std::sync::atomic::Ordering::SeqCst);
    for _ in 0..2 {
        client.call("send", json!({ "environment": "staging" })).await;
        client.call("pay", json!({ "environment": "staging" })).await;
    }
    assert_eq!(agent.shared.effects.load(std::sync::atomic::Ordering::SeqCst) - before, 3);
    client.close().await;
}

#[tokio::test]
async fn the_prompt_the_log_and_the_digest_can_be_read() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let prompts = client.request("prompts/list", json!({})).await["result"]["prompts"].clone();
    assert_eq!(
        prompts,
        json!([{ "name": "agent", "description": "How to work with the tools of tests/agent." }])
    );
    let prompt =
        client.request("prompts/get", json!({ "name": "agent" })).await["result"]["messages"].clone();
    let text = agent.session.executor().rendered().unwrap().text().to_owned();
    assert_eq!(prompt, json!([{ "role": "user", "content": { "type": "text", "text": text } }]));
    assert_eq!(client.request("prompts/get", json!({ "name": "other" })).await["error"]["code"], -32602);

    client.call("save", json!({ "file": "README.md", "text": "# Parser\n" })).await;
    let resources = client.request("resources/list", json!({})).await["result"]["resources"].clone();
    let uris: Vec<&str> =
        resources.as_array().unwrap().iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["wink://log", "wink://digest"]);
    let log = client.request("resources/read", json!({ "uri": "wink://log" })).await["result"]["contents"][0]
        .clone();
    let line: Value = serde_json::from_str(log["text"].as_str().unwrap()).unwrap();
    assert_eq!(line["tool"], "save");
    client.call("add", json!({ "a": 1, "b": 2 })).await;
    let log = client.request("resources/read", json!({ "uri": "wink://log" })).await["result"]["contents"][0]
        .clone();
    let lines =
        log["text"].as_str().unwrap().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let tools: Vec<Value> = lines.map(|line| line["tool"].clone()).collect();
    assert_eq!(tools, ["save", "add"]);
    let digest =
        client.request("resources/read", json!({ "uri": "wink://digest" })).await["result"]["contents"][0]
            .clone();
    assert!(digest["text"].as_str().unwrap().contains("README.md"), "{digest}");
    let missing = client.request("resources/read", json!({ "uri": "wink://other" })).await["error"].clone();
    assert_eq!(
        (missing["code"].clone(), missing["data"].clone()),
        (json!(-32002), json!({ "uri": "wink://other" }))
    );
    client.close().await;
}

#[tokio::test]
async fn too_many_calls_at_once_are_refused() {
    let agent = Agent::with(|mut options| {
        options.max_calls = 1;
        options
    })
    .await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let id = client.begin("tools/call", json!({ "name": "wait", "arguments": {} })).await;
    agent.shared.waiting.notified().await;
    let answer =
        client.request("tools/call", json!({ "name": "add", "arguments": { "a": 1, "b": 2 } })).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    agent.shared.go.notify_one();
    assert_eq!(text_of(&client.answer(id).await["result"]), "waited");
    client.close().await;
}

/// Takes nothing.
struct Deaf;

impl tokio::io::AsyncWrite for Deaf {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Err(std::io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_client_that_is_none_is_told_from_one_that_cannot_be_reached() {
    let agent = Agent::new().await;
    let options = agent.options();
    let no_request: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
    let error = serve_lines(agent.server(), no_request, tokio::io::sink(), &options).await.unwrap_err();
    assert!(matches!(error, ServeError::Handshake(_)), "{error:?}");
    let params =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#;
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#) + "\n";
    let line = std::io::Cursor::new(line);
    let error = serve_lines(agent.server(), line, Deaf, &options).await.unwrap_err();
    assert!(matches!(error, ServeError::Connection(_)), "{error:?}");
}
