//! Clients that mean no good, or do not know what they do: the server keeps serving, and nothing gets in.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Agent, Client, Http, call_params, read_reply, stateless, text_of};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes that are the same every time, and mean nothing.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A message with something wrong with it.
    fn spoiled(&mut self, message: &str) -> Vec<u8> {
        let mut bytes = message.as_bytes().to_vec();
        for _ in 0..=self.next() % 4 {
            let at = usize::try_from(self.next()).unwrap() % bytes.len().max(1);
            if bytes.is_empty() {
                break;
            }
            match self.next() % 4 {
                0 => bytes[at] = u8::try_from(self.next() % 256).unwrap(),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"{}[]\",:0\\"[usize::try_from(self.next()).unwrap() % 9]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        bytes.retain(|byte| *byte != b'\n');
        bytes
    }
}

async fn still_serves(client: &mut Client) {
    let params = json!({ "name": "add", "arguments": { "a": 20, "b": 22 }, "_meta": { "callId": "check" } });
    loop {
        // Noise may have used any id, or said anything in between.
        let id = client.begin("tools/call", params.clone()).await;
        let answer = client.answer(id).await;
        if answer["error"]["code"] == -32600 {
            continue;
        }
        assert_eq!(answer["result"]["structuredContent"], json!({ "result": 42 }), "{answer}");
        return;
    }
}

#[tokio::test]
async fn noise_on_the_line_is_passed_over() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({ "elicitation": {} })).await;
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let messages = [
        json!({ "jsonrpc": "2.0", "id": "n", "method": "tools/call", "params": { "name": "add", "arguments": { "a": 1, "b": 2 } } }),
        json!({ "jsonrpc": "2.0", "id": "n", "method": "tools/list" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "n" } }),
        json!({ "jsonrpc": "2.0", "id": 0, "result": { "action": "accept", "content": { "approve": true } } }),
        json!({ "jsonrpc": "2.0", "id": "n", "method": "resources/read", "params": { "uri": "wink://log" } }),
    ];
    let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
    for round in 0..2000 {
        let spoiled = noise.spoiled(&messages[round % messages.len()]);
        client.send_bytes(&spoiled).await;
        client.send_bytes(b"\n").await;
        if round % 50 == 0 {
            still_serves(&mut client).await;
        }
    }
    still_serves(&mut client).await;
    client.close().await;
}

#[tokio::test]
async fn a_message_that_is_too_long_is_passed_over_and_said_so() {
    let agent = Agent::with(|mut options| {
        options.max_message_bytes = 100_000;
        options
    })
    .await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"{}\"}}", "x".repeat(1_000_000));
    client.send_text(&long).await;
    let refused = client.receive().await;
    assert_eq!((refused["id"].clone(), refused["error"]["code"].clone()), (Value::Null, json!(-32600)));
    still_serves(&mut client).await;
    // A line that never ends takes no room.
    for _ in 0..100 {
        client.send_bytes(&[b'x'; 50_000]).await;
    }
    client.send_bytes(b"\n").await;
    still_serves(&mut client).await;
    client.close().await;
}

#[tokio::test]
async fn large_messages_are_bounded_in_number() {
    let agent = Agent::with(|mut options| {
        options.max_large_messages = 1;
        options
    })
    .await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let large = json!({ "name": "wait", "arguments": {}, "_meta": { "padding": "x".repeat(100_000) } });
    let first = client.begin("tools/call", large.clone()).await;
    agent.shared.waiting.notified().await;
    assert_eq!(client.request("tools/call", large.clone()).await["error"]["code"], -32600);
    assert!(client.request("tools/list", json!({})).await.get("result").is_some());
    agent.shared.go.notify_one();
    client.answer(first).await;
    agent.shared.go.notify_one();
    let again = client.request("tools/call", large).await;
    assert_eq!(text_of(&again["result"]), "waited");
    client.close().await;

    let http = Http::with(&[&agent], |mut options| {
        options.server.max_large_messages = 1;
        options
    })
    .await;
    let headers = http.headers("main", "tools/list", None);
    let mut stream = http.connect().await;
    let head = http.text("/mcp/main", &headers, "").replace("Content-Length: 0", "Content-Length: 100000");
    stream.write_all(head.as_bytes()).await.unwrap();
    // A large one that has begun keeps others like it out, and no small ones.
    loop {
        let reply = http.post("/mcp/main", &headers, &"x".repeat(100_000)).await;
        assert!(matches!(reply.status, 400 | 503), "{reply:?}");
        if reply.status == 503 {
            break;
        }
    }
    let sum = http.call("main", "add", json!({ "a": 20, "b": 22 })).await;
    assert_eq!(sum["result"]["structuredContent"], json!({ "result": 42 }));
    drop(stream);
    http.close().await;
}

#[tokio::test]
async fn an_id_that_is_used_twice_is_refused() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let save = |id: Value, file: &str| {
        let params = json!({ "name": "save", "arguments": { "file": file, "text": "x" } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    client.send(&save(json!(50), "a.txt")).await;
    client.answer(50).await;
    client.send(&save(json!(50), "b.txt")).await;
    assert_eq!(client.answer(50).await["error"]["code"], -32600);
    assert_eq!(agent.file("b.txt").await, None);
    // While the first is on its way, too; it still gets its answer.
    let wait = json!({ "jsonrpc": "2.0", "id": 51, "method": "tools/call", "params": { "name": "wait", "arguments": {} } });
    client.send(&wait).await;
    agent.shared.waiting.notified().await;
    client.send(&save(json!(51), "b.txt")).await;
    assert_eq!(client.answer(51).await["error"]["code"], -32600);
    agent.shared.go.notify_one();
    assert_eq!(text_of(&client.answer(51).await["result"]), "waited");
    assert_eq!(agent.file("b.txt").await, None);
    client.close().await;
}

#[tokio::test]
async fn whoever_does_not_read_is_not_read() {
    let agent = Agent::with(|mut options| {
        options.max_unanswered = 8;
        options
    })
    .await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    // Many more than fit into the pipes, if they were answered.
    let sent = async {
        let mut sent = 0;
        let mut line = json!({ "jsonrpc": "2.0", "method": "tools/list" });
        while sent < 100_000 {
            line["id"] = json!(1_000_000 + sent);
            let send = client.send(&line);
            tokio::select! {
                biased;
                () = send => sent += 1,
                // Nobody takes it: the server has stopped reading.
                () = async { for _ in 0..1000 { tokio::task::yield_now().await } } => break,
            }
        }
        sent
    }
    .await;
    assert!(sent < 10_000, "{sent} requests were taken of somebody who reads nothing");
    client.server.abort();
}

#[tokio::test]
async fn bodies_are_bounded_in_size_and_time() {
    let agent = Agent::new().await;
    let clock = agent.clock.clone();
    let http = Http::with(&[&agent], |mut options| {
        options.server.max_message_bytes = 10_000;
        options.server.clock = Arc::new(clock.clone());
        options
    })
    .await;
    let headers = http.headers("main", "tools/list", None);
    assert_eq!(http.post("/mcp/main", &headers, &"x".repeat(100_000)).await.status, 413);
    for (body, code) in [
        ("{", -32700),
        ("[]", -32600),
        ("7", -32600),
        (r#"{"id":1,"id":2,"method":"ping"}"#, -32600),
        ("\u{0}", -32700),
    ] {
        let reply = http.post("/mcp/main", &headers, body).await;
        assert_eq!((reply.status, reply.answer()["error"]["code"].clone()), (400, json!(code)), "{body}");
    }
    // A body that never comes.
    let mut stream = http.connect().await;
    let head = http.text("/mcp/main", &headers, "").replace("Content-Length: 0", "Content-Length: 100");
    stream.write_all(head.as_bytes()).await.unwrap();
    while clock.sleepers() == 0 {
        tokio::task::yield_now().await;
    }
    // The head's own time is up first, and does not count any more.
    let late = tokio::spawn(async move { read_reply(&mut stream).await });
    while !late.is_finished() {
        clock.advance(Duration::from_secs(31));
        tokio::task::yield_now().await;
    }
    assert_eq!(late.await.unwrap().status, 408);
    // A head that never comes.
    let mut stream = http.connect().await;
    stream.write_all(b"POST /mcp/main HTTP/1.1\r\nHost: ").await.unwrap();
    let silent = tokio::spawn(async move { read_reply(&mut stream).await });
    while !silent.is_finished() {
        clock.advance(Duration::from_secs(11));
        tokio::task::yield_now().await;
    }
    assert_ne!(silent.await.unwrap().status, 200);
    let sum = http.call("main", "add", json!({ "a": 20, "b": 22 })).await;
    assert_eq!(sum["result"]["structuredContent"], json!({ "result": 42 }));
    http.close().await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_let_go() {
    let agent = Agent::new().await;
    let clock = agent.clock.clone();
    let http = Http::with(&[&agent], |mut options| {
        options.server.clock = Arc::new(clock.clone());
        options
    })
    .await;
    // Many requests on one connection, none of whose answers is read.
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": stateless(json!({})) } }).to_string();
    let text = http
        .text("/mcp/main", &http.headers("main", "tools/list", None), &body)
        .replace("Connection: close\r\n", "");
    let stream = http.connect().await;
    let (mut input, mut output) = stream.into_split();
    let sending = tokio::spawn(async move { while output.write_all(text.as_bytes()).await.is_ok() {} });
    while !sending.is_finished() {
        clock.advance(Duration::from_secs(61));
        tokio::task::yield_now().await;
    }
    let mut rest = Vec::new();
    let _ = input.read_to_end(&mut rest).await;
    let sum = http.call("main", "add", json!({ "a": 20, "b": 22 })).await;
    assert_eq!(sum["result"]["structuredContent"], json!({ "result": 42 }));
    http.close().await;
}

#[tokio::test]
async fn connections_are_bounded_and_others_are_served() {
    let agent = Agent::new().await;
    let clock = agent.clock.clone();
    let http = Http::with(&[&agent], |mut options| {
        options.max_connections = 50;
        options.server.clock = Arc::new(clock.clone());
        options
    })
    .await;
    // Thousands that say nothing. Those that are too many are closed at once.
    let mut silent = Vec::new();
    for _ in 0..3000 {
        let mut stream = http.connect().await;
        if silent.len() < 50 {
            silent.push(stream);
        } else {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            assert_eq!(rest, b"");
        }
    }
    // The others are, when their time is up.
    for stream in &mut silent {
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        let mut read = std::pin::pin!(read);
        loop {
            tokio::select! {
                biased;
                _ = &mut read => break,
                () = tokio::task::yield_now() => clock.advance(Duration::from_secs(11)),
            }
        }
    }
    let sum = http.call("main", "add", json!({ "a": 20, "b": 22 })).await;
    assert_eq!(sum["result"]["structuredContent"], json!({ "result": 42 }));
    http.close().await;
}

#[tokio::test]
async fn a_connection_that_is_half_closed_still_gets_its_answer_or_none() {
    let agent = Agent::new().await;
    let http = Http::new(&[&agent]).await;
    for cut in [0, 20, 200, usize::MAX] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call_params("add", json!({ "a": 1, "b": 2 }), json!({})) });
        let text =
            http.text("/mcp/main", &http.headers("main", "tools/call", Some("add")), &body.to_string());
        let mut stream = http.connect().await;
        stream.write_all(&text.as_bytes()[..cut.min(text.len())]).await.unwrap();
        stream.shutdown().await.unwrap();
        let reply = read_reply(&mut stream).await;
        assert!(matches!(reply.status, 0 | 200 | 400), "{reply:?}");
    }
    let sum = http.call("main", "add", json!({ "a": 20, "b": 22 })).await;
    assert_eq!(sum["result"]["structuredContent"], json!({ "result": 42 }));
    http.close().await;
}

#[tokio::test]
async fn noise_over_http_is_refused() {
    let agent = Agent::new().await;
    let http = Http::new(&[&agent]).await;
    let mut noise = Noise(0x2545_f491_4f6c_dd1d);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call_params("add", json!({ "a": 1, "b": 2 }), json!({})) });
    let text = http.text("/mcp/main", &http.headers("main", "tools/call", Some("add")), &body.to_string());
    for _ in 0..300 {
        let mut stream = http.connect().await;
        let _ = stream.write_all(&noise.spoiled(&text)).await;
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    }
    let sum = http.call("main", "add", json!({ "a": 20, "b": 22 })).await;
    assert_eq!(sum["result"]["structuredContent"], json!({ "result": 42 }));
    http.close().await;
}

#[tokio::test]
async fn clients_and_sessions_are_bounded() {
    let agents =
        [Agent::named("one", |options| options).await, Agent::named("other", |options| options).await];
    let http = Http::with(&[&agents[0], &agents[1]], |mut options| {
        options.max_sessions = 1;
        options.max_clients = 3;
        options
    })
    .await;
    let initialize = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    })
    .to_string();
    let headers = |session: &str| {
        let mut headers = http.headers(session, "initialize", None);
        headers.retain(|(name, _)| !name.starts_with("M"));
        headers
    };
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(http.post("/mcp/one", &headers("one"), &initialize).await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 503, 503]);
    assert_eq!(http.post("/mcp/other", &headers("other"), &initialize).await.status, 503);
    // Those that do not shake hands need no room.
    let sum = http.call("one", "add", json!({ "a": 20, "b": 22 })).await;
    assert_eq!(sum["result"]["structuredContent"], json!({ "result": 42 }));
    http.close().await;
}
