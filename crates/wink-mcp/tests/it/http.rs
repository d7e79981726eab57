//! Many clients over HTTP: who gets in, and what they are told.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use wink::session::Ending;

use crate::support::{Agent, Http, call_params, stateless, text_of};

/// The headers of a client that has shaken hands, or is about to.
fn headers(http: &Http, client: Option<&str>) -> Vec<(String, String)> {
    let mut headers = vec![
        ("Authorization".to_owned(), format!("Bearer {}", http.token("main"))),
        ("Content-Type".to_owned(), "application/json".to_owned()),
        ("Accept".to_owned(), "application/json, text/event-stream".to_owned()),
    ];
    if let Some(client) = client {
        headers.push(("Mcp-Session-Id".to_owned(), client.to_owned()));
        headers.push(("MCP-Protocol-Version".to_owned(), "2025-11-25".to_owned()));
    }
    headers
}

/// Shakes hands; the client's id.
async fn shake(http: &Http) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string();
    let reply = http.post("/mcp/main", &headers(http, None), &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let client = reply.header("mcp-session-id").unwrap().to_owned();
    let body = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    assert_eq!(http.post("/mcp/main", &headers(http, Some(&client)), &body).await.status, 202);
    client
}

async fn shaken_call(
    http: &Http,
    client: &str,
    id: i64,
    tool: &str,
    arguments: Value,
) -> crate::support::Reply {
    let params = json!({ "name": tool, "arguments": arguments });
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string();
    http.post("/mcp/main", &headers(http, Some(client)), &body).await
}

fn own_name() -> Value {
    json!({ "name": "wink", "version": env!("CARGO_PKG_VERSION") })
}

fn signature(answer: &Value) -> Value {
    answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"].clone()
}

#[tokio::test]
async fn what_is_told_of_a_task_says_who_answers() {
    let agent = Agent::new().await;
    let http = Http::new(&[&agent]).await;
    let knowing = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let going = async {
        agent.shared.waiting.notified().await;
        agent.clock.advance(std::time::Duration::from_secs(11));
    };
    let params = call_params("wait", json!({}), knowing.clone());
    let (task, ()) = tokio::join!(http.request("main", "tools/call", params), going);
    let task = task.answer();
    let about = json!({ "taskId": task["result"]["taskId"], "_meta": crate::support::stateless(knowing) });
    let mut answers = vec![task];
    for method in ["tasks/get", "tasks/cancel"] {
        answers.push(http.request("main", method, about.clone()).await.answer());
    }
    for answer in answers {
        assert_eq!(signature(&answer), own_name(), "{answer}");
    }
    http.close().await;
}

#[tokio::test]
async fn a_call_by_itself_is_answered_at_once() {
    let agent = Agent::new().await;
    let http = Http::new(&[&agent]).await;
    let reply =
        http.request("main", "tools/call", call_params("add", json!({ "a": 2, "b": 40 }), json!({}))).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    assert_eq!(reply.answer()["result"]["structuredContent"], json!({ "result": 42 }));
    assert_eq!(signature(&reply.answer()), own_name());
    let unknown = http.call("main", "nothing", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(agent.events().last().unwrap().ending, Ending::Unavailable);
    http.close().await;
}

#[tokio::test]
async fn a_client_that_has_shaken_hands_is_known_again() {
    let agent = Agent::new().await;
    let http = Http::new(&[&agent]).await;
    let client = shake(&http).await;
    let reply = shaken_call(&http, &client, 1, "save", json!({ "file": "a.txt", "text": "milk" })).await;
    assert_eq!(reply.answer()["result"]["structuredContent"], json!({ "file": "a.txt", "bytes": 4 }));
    // Every request has its own id.
    let again = shaken_call(&http, &client, 1, "save", json!({ "file": "b.txt", "text": "milk" })).await;
    assert_eq!((again.status, again.answer()["error"]["code"].clone()), (400, json!(-32600)));
    assert_eq!(agent.file("b.txt").await, None);
    // Another client has its own.
    let other = shake(&http).await;
    assert_eq!(shaken_call(&http, &other, 1, "add", json!({ "a": 1, "b": 1 })).await.status, 200);
    // One that nobody knows is nobody.
    assert_eq!(shaken_call(&http, "nobody", 1, "add", json!({ "a": 1, "b": 1 })).await.status, 404);
    http.close().await;
}

#[tokio::test]
async fn a_cancel_for_a_finished_call_is_nothing() {
    let agent = Agent::new().await;
    let http = Http::new(&[&agent]).await;
    let client = shake(&http).await;
    let saved = shaken_call(&http, &client, 1, "save", json!({ "file": "a.txt", "text": "milk" })).await;
    assert_eq!(saved.answer()["result"]["structuredContent"], json!({ "file": "a.txt", "bytes": 4 }));
    for id in [json!(1), json!(1), json!(99), json!("1"), json!(null)] {
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        let reply = http.post("/mcp/main", &headers(&http, Some(&client)), &cancel.to_string()).await;
        assert_eq!((reply.status, reply.body.as_str()), (202, ""), "{id}");
    }
    assert_eq!(agent.file("a.txt").await.as_deref(), Some("milk"));
    let sum = shaken_call(&http, &client, 2, "add", json!({ "a": 20, "b": 22 })).await;
    assert_eq!(sum.answer()["result"]["structuredContent"], json!({ "result": 42 }));
    let endings: Vec<Ending> = agent.events().iter().map(|event| event.ending).collect();
    assert_eq!(endings, [Ending::Succeeded, Ending::Succeeded]);
    http.close().await;
}

#[tokio::test]
async fn nobody_gets_in_without_the_sessions_own_token() {
    let (one, other) =
        (Agent::named("one", |options| options).await, Agent::named("other", |options| options).await);
    let http = Http::new(&[&one, &other]).await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": stateless(json!({})) } }).to_string();
    let with = |value: Option<String>| {
        let mut headers = http.headers("one", "tools/list", None);
        headers.retain(|(name, _)| name != "Authorization");
        headers.extend(value.map(|value| ("Authorization".to_owned(), value)));
        headers
    };
    let good = format!("Bearer {}", http.token("one"));
    assert_eq!(http.post("/mcp/one", &with(Some(good.clone())), &body).await.status, 200);
    for wrong in [
        None,
        Some(String::new()),
        Some("Bearer".to_owned()),
        Some("Bearer x".to_owned()),
        Some(format!("Basic {}", http.token("one"))),
        Some(format!("Bearer {}", http.token("other"))),
        Some(format!(
            "Bearer {}",
            http.token("one").to_uppercase().replace(|c: char| c.is_ascii_digit(), "0")
        )),
        Some(format!("{good}, {good}")),
    ] {
        let reply = http.post("/mcp/one", &with(wrong.clone()), &body).await;
        assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some("Bearer")), "{wrong:?}");
    }
    // Two of them are none.
    let mut twice = with(Some(good.clone()));
    twice.push(("Authorization".to_owned(), good));
    assert_eq!(http.post("/mcp/one", &twice, &body).await.status, 401);
    // Whether there is such a session is told to whoever has its token.
    let headers = http.headers("nothing", "tools/list", None);
    assert_eq!(http.post("/mcp/nothing", &headers, &body).await.status, 404);
    assert_eq!(http.post("/mcp/nothing", &with(None), &body).await.status, 401);
    for path in ["/", "/mcp", "/mcp/", "/mcp/one/", "/mcp/../one", "/mcp/%6fne", "/other"] {
        assert_eq!(http.post(path, &headers, &body).await.status, 404, "{path}");
    }
    assert_eq!((one.events().len(), other.events().len()), (0, 0));
    http.close().await;
}

#[tokio::test]
async fn pages_and_names_of_others_are_refused() {
    let agent = Agent::new().await;
    let http = Http::with(&[&agent], |mut options| {
        options.allowed_origins = vec!["https://example.com:443".to_owned()];
        options
    })
    .await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": stateless(json!({})) } }).to_string();
    for (origin, status) in [
        ("http://localhost:3000", 200),
        ("http://127.0.0.1", 200),
        ("https://example.com", 200),
        ("https://example.com:444", 403),
        ("http://example.com", 403),
        ("https://evil.example", 403),
        ("http://localhost.evil.example", 403),
        ("null", 403),
        ("nonsense", 403),
        ("http://localhost:evil.com", 403),
        ("http://evil@localhost", 403),
        ("http://localhost/", 403),
    ] {
        let mut headers = http.headers("main", "tools/list", None);
        headers.push(("Origin".to_owned(), origin.to_owned()));
        assert_eq!(http.post("/mcp/main", &headers, &body).await.status, status, "{origin}");
    }
    let own = "http://localhost";
    for (first, second) in [(own, "https://evil.example"), ("https://evil.example", own), (own, own)] {
        let mut headers = http.headers("main", "tools/list", None);
        headers.extend([first, second].map(|origin| ("Origin".to_owned(), origin.to_owned())));
        assert_eq!(http.post("/mcp/main", &headers, &body).await.status, 403, "{first} {second}");
    }
    let text = http.text("/mcp/main", &http.headers("main", "tools/list", None), &body);
    let (target, host) = ("POST /mcp/main", format!("Host: {}", http.address));
    let absolute = |host: &str| format!("POST http://{host}/mcp/main");
    for (what, instead, status) in [
        (host.as_str(), "Host: evil.example", 403),
        (&host, "Host: user@localhost", 400),
        (&host, "Host: localhost:evil.com", 400),
        (&host, "X-Host: localhost", 400),
        (&host, &format!("{host}\r\n{host}"), 400),
        (&host, &format!("{host}\r\nHost: evil.example"), 400),
        (target, &absolute("evil.example"), 400),
        (target, &absolute(&format!("user@{}", http.address)), 400),
        (target, &absolute(&http.address.to_string()), 200),
    ] {
        let mut stream = http.connect().await;
        stream.write_all(text.replace(what, instead).as_bytes()).await.unwrap();
        assert_eq!(crate::support::read_reply(&mut stream).await.status, status, "{instead}");
    }
    http.close().await;
}

#[tokio::test]
async fn closing_the_stream_cancels_the_call() {
    let agent = Agent::new().await;
    let http = Http::new(&[&agent]).await;
    let params = call_params("wait", json!({}), json!({}));
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let text = http.text("/mcp/main", &http.headers("main", "tools/call", Some("wait")), &body);
    let mut stream = http.connect().await;
    stream.write_all(text.as_bytes()).await.unwrap();
    agent.shared.waiting.notified().await;
    drop(stream);
    while agent.events().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(agent.events().pop().unwrap().ending, Ending::Cancelled);
    assert_eq!(agent.file("waited.txt").await, None);
    http.close().await;
}

#[tokio::test]
async fn progress_comes_before_the_answer() {
    let agent = Arc::new(Agent::new().await);
    let http = Http::new(&[&agent]).await;
    let mut params = call_params("wait", json!({}), json!({}));
    params["_meta"]["progressToken"] = json!(7);
    let going = async {
        agent.shared.waiting.notified().await;
        agent.shared.go.notify_one();
    };
    let (reply, ()) = tokio::join!(http.request("main", "tools/call", params), going);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let messages = reply.messages();
    let told: Vec<&Value> =
        messages.iter().filter(|message| message["method"] == "notifications/progress").collect();
    assert_eq!(told.len(), 2, "{messages:?}");
    assert_eq!(text_of(&messages.last().unwrap()["result"]), "waited");
    assert_eq!(signature(messages.last().unwrap()), own_name());
    http.close().await;
}
