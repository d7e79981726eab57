//! Clients that mean no good, or do not know what they do: the server keeps serving, and nothing gets in.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wink::filesystem::{Filesystem, FsPath};
use wink::session::Ending;

use crate::support::{Agent, Client, Http, call_params, read_reply, stateless, text_of};

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
        bytes
    }
}

async fn still_serves(client: &mut Client) {
    let params = json!({ "name": "add", "arguments": { "a": 20, "b": 22 }, "_meta": { "callId": "check" } });
    let answer = client.request("tools/call", params).await;
    assert_eq!(answer["result"]["structuredContent"], json!({ "result": 42 }), "{answer}");
}

/// The id of a line that asks for an answer, as anybody's decoder sees it.
fn asked(line: &[u8]) -> Option<Value> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let is_id = |id: &Value| id.is_i64() || id.is_u64() || id.is_string();
    line.get("method")?.as_str()?;
    line.get("id").filter(|id| is_id(id)).cloned()
}

#[tokio::test]
async fn noise_on_the_line_is_passed_over() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({ "elicitation": {} })).await;
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut expected = Vec::new();
    for round in 0..4000 {
        let id = format!("n{round}");
        let message = match round % 5 {
            0 => {
                json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "add", "arguments": { "a": 1, "b": 2 } } })
            }
            1 => json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" }),
            2 => {
                json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "none" } })
            }
            3 => {
                json!({ "jsonrpc": "2.0", "id": 0, "result": { "action": "accept", "content": { "approve": true } } })
            }
            _ => {
                json!({ "jsonrpc": "2.0", "id": id, "method": "resources/read", "params": { "uri": "wink://log" } })
            }
        };
        let mut spoiled = noise.spoiled(&message.to_string());
        spoiled.retain(|byte| *byte != b'\n');
        expected.extend(asked(&spoiled));
        client.send_bytes(&spoiled).await;
        client.send_bytes(b"\n").await;
        if round % 50 == 0 {
            still_serves(&mut client).await;
        }
    }
    // Every request has its one answer, whatever is wrong with it; nothing else is answered by an id.
    while client.aside.iter().filter(|message| !message["id"].is_null()).count() < expected.len() {
        let message = client.receive().await;
        client.aside.push(message);
    }
    still_serves(&mut client).await;
    let mut answered: Vec<String> = Vec::new();
    for message in &client.aside {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        assert!(message.get("result").is_some() != message.get("error").is_some(), "{message}");
        match &message["id"] {
            Value::Null => {
                let code = &message["error"]["code"];
                assert!(*code == -32600 || *code == -32700, "{message}");
            }
            id => answered.push(id.to_string()),
        }
    }
    let mut expected: Vec<String> = expected.iter().map(Value::to_string).collect();
    answered.sort();
    expected.sort();
    assert!(expected.len() > 200, "{}", expected.len());
    assert_eq!(answered, expected);
    // What was called is what was asked for: nothing was written.
    assert!(agent.events().iter().all(|event| event.ending != Ending::Succeeded || &*event.tool == "add"));
    assert_eq!(agent.files.list(&FsPath::root()).await.unwrap().len(), 0);
    client.close().await;
}

#[tokio::test]
async fn a_line_that_cannot_be_read_is_answered_once() {
    let agent = Agent::new().await;
    // Before anybody has shaken hands, too.
    let mut client = Client::new(&agent);
    client.send_bytes(b"hello\n").await;
    // Over HTTP the same: an id that is unknown is left out.
    let not_json =
        json!({ "jsonrpc": "2.0", "error": { "code": -32700, "message": "the line is not JSON" } });
    assert_eq!(client.receive().await, not_json);
    client.close().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let oops =
        br#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"add","arguments":{oops}}}"#;
    for line in [oops.as_slice(), b"{bad", b"\xff\xfe", b"{\"id\":\"\xff\"}"] {
        client.send_bytes(line).await;
        client.send_bytes(b"\n").await;
        assert_eq!(client.receive().await, not_json);
        still_serves(&mut client).await;
    }
    // An id that is nothing is no notification.
    client.send_text(r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#).await;
    let why = "an id is an integer, or a string of at most 256 bytes";
    let refused = json!({ "jsonrpc": "2.0", "error": { "code": -32600, "message": why } });
    assert_eq!(client.receive().await, refused);
    // However many there are, whoever can be told is told.
    let mut many = b"{bad\n".repeat(1000);
    many.extend(
        br#"{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"arguments":{},"arguments":{}}}"#,
    );
    many.push(b'\n');
    client.send_bytes(&many).await;
    assert_eq!(client.answer(99).await["error"]["code"], -32600);
    still_serves(&mut client).await;
    let told = std::mem::take(&mut client.aside);
    assert!(!told.is_empty() && told.iter().all(|told| *told == not_json), "{told:?}");
    // An empty line is nothing, and neither is an answer to nothing.
    client.send_bytes(b"\n\r\n").await;
    still_serves(&mut client).await;
    assert_eq!(client.aside, Vec::<Value>::new());
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
    let error =
        json!({ "code": -32600, "message": "a message has at most 100000 bytes; this one was passed over" });
    // Whoever waits for its answer has it.
    assert_eq!(refused, json!({ "jsonrpc": "2.0", "id": 5, "error": error }));
    still_serves(&mut client).await;
    client.send_text(&format!("\"{}\"", "x".repeat(100_000))).await;
    assert_eq!(client.receive().await["error"], error);
    still_serves(&mut client).await;
    // A line that never ends takes no room.
    for _ in 0..100 {
        client.send_bytes(&[b'x'; 50_000]).await;
    }
    client.send_bytes(b"\n").await;
    assert_eq!(client.receive().await["error"], error);
    still_serves(&mut client).await;
    assert_eq!(client.aside, Vec::<Value>::new());
    client.close().await;
}

#[tokio::test]
async fn large_messages_are_bounded_in_memory() {
    let agent = Agent::with(|mut options| {
        options.max_message_memory = 700_000;
        options
    })
    .await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let large = json!({ "name": "wait", "arguments": {}, "_meta": { "padding": "x".repeat(100_000) } });
    let first = client.begin("tools/call", large.clone()).await;
    agent.shared.waiting.notified().await;
    let full = "too many large messages are on their way; try again when they are answered";
    assert_eq!(
        client.request("tools/call", large.clone()).await["error"],
        json!({ "code": -32600, "message": full })
    );
    assert!(client.request("tools/list", json!({})).await.get("result").is_some());
    agent.shared.go.notify_one();
    client.answer(first).await;
    agent.shared.go.notify_one();
    let again = client.request("tools/call", large).await;
    assert_eq!(text_of(&again["result"]), "waited");
    client.close().await;

    let http = Http::with(&[&agent], |mut options| {
        options.server.max_message_memory = 700_000;
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
        let (code, text) = match reply.status {
            503 => (-32600, full),
            // The other has not begun yet.
            _ => (-32700, "the body is not JSON"),
        };
        assert_eq!(reply.answer()["error"], json!({ "code": code, "message": text }));
        if reply.status == 503 {
            break;
        }
    }
    // One that does not say how long it is takes room as it grows.
    let chunked =
        http.text("/mcp/main", &headers, "").replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let mut growing = http.connect().await;
    growing.write_all(chunked.as_bytes()).await.unwrap();
    growing.write_all(format!("186a0\r\n{}\r\n", "x".repeat(100_000)).as_bytes()).await.unwrap();
    assert_eq!(read_reply(&mut growing).await.answer()["error"]["message"], full);
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
async fn by_the_stateless_revision_an_id_that_was_answered_may_come_again() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    let call = |tool: &str, arguments: Value| {
        let params = call_params(tool, arguments, json!({}));
        json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params })
    };
    let save = |file: &str| call("save", json!({ "file": file, "text": "x" }));
    for file in ["a.txt", "b.txt"] {
        client.send(&save(file)).await;
        let answer = client.answer(7).await;
        assert_eq!(answer["result"]["structuredContent"], json!({ "file": file, "bytes": 1 }), "{answer}");
        assert_eq!(agent.file(file).await.as_deref(), Some("x"));
    }
    // Not while the first is on its way, which still gets its answer.
    client.send(&call("wait", json!({}))).await;
    agent.shared.waiting.notified().await;
    client.send(&save("c.txt")).await;
    assert_eq!(client.answer(7).await["error"]["code"], -32600);
    agent.shared.go.notify_one();
    assert_eq!(text_of(&client.answer(7).await["result"]), "waited");
    // And not after it was cancelled: what is answered then is answered to nobody.
    client.send(&call("wait", json!({}))).await;
    agent.shared.waiting.notified().await;
    client
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } }))
        .await;
    client.send(&save("c.txt")).await;
    assert_eq!(client.answer(7).await["error"]["code"], -32600);
    assert_eq!(agent.file("c.txt").await, None);
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
    let too_long = json!({ "code": -32600, "message": "a message has at most 10000 bytes" });
    let reply = http.post("/mcp/main", &headers, &"x".repeat(100_000)).await;
    assert_eq!((reply.status, &reply.answer()["error"]), (413, &too_long));
    // What is announced is not waited for.
    let mut stream = http.connect().await;
    let head = http.text("/mcp/main", &headers, "").replace("Connection: close\r\n", "");
    stream.write_all(head.replace("Content-Length: 0", "Content-Length: 10001").as_bytes()).await.unwrap();
    let reply = read_reply(&mut stream).await;
    assert_eq!((reply.status, reply.header("connection")), (413, Some("close")));
    assert_eq!(reply.answer()["error"], too_long);
    // What is not announced is read as far as it may be.
    let mut stream = http.connect().await;
    let head =
        http.text("/mcp/main", &headers, "").replace("Content-Length: 0", "Transfer-Encoding: chunked");
    stream.write_all(format!("{head}2711\r\n{}\r\n", "x".repeat(10_001)).as_bytes()).await.unwrap();
    assert_eq!(read_reply(&mut stream).await.status, 413);
    // Too deep and too many are told as what they are, and so is what is no message.
    let meta = |meta: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{"x":{meta}}}}}}}"#)
    };
    for (body, id) in [
        (meta(&format!("{}{}", "[".repeat(200), "]".repeat(200))), json!(1)),
        (meta(&format!("[{}0]", "0,".repeat(4500))), json!(1)),
        (r#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#.to_owned(), json!(1)),
        (r#"{"jsonrpc":"2.0"}"#.to_owned(), Value::Null),
    ] {
        let reply = http.post("/mcp/main", &headers, &body).await;
        let answer = reply.answer();
        let told = (reply.status, &answer["id"], &answer["error"]["code"]);
        assert_eq!(told, (400, &id, &json!(-32600)), "{body:.100}: {reply:?}");
    }
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
    // There is nothing to be answered: it ends.
    let reply = silent.await.unwrap();
    assert_eq!((reply.status, reply.head.as_str(), reply.body.as_str()), (0, "", ""));
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
    let sending = tokio::spawn(async move {
        let mut sent = 0;
        loop {
            match output.write_all(text.as_bytes()).await {
                Ok(()) => sent += 1,
                Err(error) => return (sent, error.kind()),
            }
        }
    });
    while !sending.is_finished() {
        clock.advance(Duration::from_secs(61));
        tokio::task::yield_now().await;
    }
    let (sent, error) = sending.await.unwrap();
    assert!(matches!(error, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error:?}");
    let mut rest = Vec::new();
    let _ = input.read_to_end(&mut rest).await;
    let answers = String::from_utf8_lossy(&rest).matches("HTTP/1.1 200").count();
    assert!(answers < sent, "{answers} of {sent}");
    let sum = http.call("main", "add", json!({ "a": 20, "b": 22 })).await;
    assert_eq!(sum["result"]["structuredContent"], json!({ "result": 42 }));
    http.close().await;
}

#[tokio::test]
async fn connections_are_bounded_and_others_are_served() {
    let agent = Agent::new().await;
    let clock = agent.clock.clone();
    let http = Http::with(&[&agent], |mut options| {
        options.max_connections = 48;
        options.server.clock = Arc::new(clock.clone());
        options
    })
    .await;
    // One that has shown its token stays, however many come.
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": stateless(json!({})) } }).to_string();
    let text = http.text("/mcp/main", &http.headers("main", "tools/list", None), &body);
    let mut known = http.connect().await;
    known.write_all(text.replace("Connection: close\r\n", "").as_bytes()).await.unwrap();
    let mut first = [0; 12];
    known.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    // Thousands that say nothing, or not enough. Of a quarter of the room they have the newest.
    let mut silent = std::collections::VecDeque::new();
    for number in 0..3000 {
        let mut stream = http.connect().await;
        if number % 2 == 0 {
            stream.write_all(b"POST /mcp/main HTTP/1.1\r\nHost: loc").await.unwrap();
        }
        silent.push_back(stream);
        if silent.len() > 12 {
            let mut rest = Vec::new();
            let _ = silent.pop_front().unwrap().read_to_end(&mut rest).await;
            assert_eq!(String::from_utf8_lossy(&rest), "");
        }
    }
    // Others are served at once: no time has passed.
    for _ in 0..20 {
        let sum = http.call("main", "add", json!({ "a": 20, "b": 22 })).await;
        assert_eq!(sum["result"]["structuredContent"], json!({ "result": 42 }));
    }
    known.write_all(text.as_bytes()).await.unwrap();
    let rest = read_reply(&mut known).await;
    assert!(rest.body.contains("HTTP/1.1 200") || rest.head.contains("HTTP/1.1 200"), "{rest:?}");
    // Those that are left go when their time is up.
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
    http.close().await;
}

#[tokio::test]
async fn whoever_has_a_token_is_bounded_too() {
    let agent = Agent::new().await;
    let http = Http::with(&[&agent], |mut options| {
        options.max_connections = 8;
        options
    })
    .await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": stateless(json!({})) } }).to_string();
    let text = http
        .text("/mcp/main", &http.headers("main", "tools/list", None), &body)
        .replace("Connection: close\r\n", "");
    let mut open = Vec::new();
    let mut statuses = Vec::new();
    for _ in 0..8 {
        let mut stream = http.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        statuses.push(String::from_utf8_lossy(&first[9..]).into_owned());
        open.push(stream);
    }
    assert_eq!(statuses, ["200", "200", "200", "200", "200", "200", "503", "503"]);
    // One that leaves makes room.
    open.clear();
    loop {
        let reply = http.post("/mcp/main", &http.headers("main", "tools/list", None), &body).await;
        if reply.status == 200 {
            break;
        }
        assert_eq!((reply.status, reply.body.as_str()), (503, "there are too many connections"));
    }
    http.close().await;
}

#[tokio::test]
async fn a_connection_that_is_half_closed_has_its_answer_or_never_asked() {
    let agent = Agent::new().await;
    let http = Http::new(&[&agent]).await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call_params("add", json!({ "a": 1, "b": 2 }), json!({})) }).to_string();
    let text = http.text("/mcp/main", &http.headers("main", "tools/call", Some("add")), &body);
    for cut in [0, 20, 200, text.len() - body.len(), text.len() - 1] {
        let mut stream = http.connect().await;
        stream.write_all(&text.as_bytes()[..cut]).await.unwrap();
        stream.shutdown().await.unwrap();
        let reply = read_reply(&mut stream).await;
        assert!(matches!(reply.status, 0 | 400), "{cut}: {reply:?}");
        assert_eq!(agent.events().len(), 0, "{cut}");
    }
    // A whole one that nobody can be told of any more is one call at most, and answered as that.
    let mut stream = http.connect().await;
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let reply = read_reply(&mut stream).await;
    match reply.status {
        200 => assert_eq!(reply.answer()["result"]["structuredContent"], json!({ "result": 3 })),
        status => assert_eq!(status, 0, "{reply:?}"),
    }
    let before = agent.events().len();
    assert!(before <= 1);
    let sum = http.call("main", "add", json!({ "a": 20, "b": 22 })).await;
    assert_eq!(sum["result"]["structuredContent"], json!({ "result": 42 }));
    assert_eq!(agent.events().len(), before + 1);
    http.close().await;
}

#[tokio::test]
async fn noise_over_http_is_refused() {
    let agent = Agent::new().await;
    let http = Http::new(&[&agent]).await;
    let mut noise = Noise(0x2545_f491_4f6c_dd1d);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call_params("add", json!({ "a": 1, "b": 2 }), json!({})) });
    let text = http.text("/mcp/main", &http.headers("main", "tools/call", Some("add")), &body.to_string());
    let token = http.token("main");
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    for _ in 0..600 {
        let spoiled = noise.spoiled(&text);
        let mut stream = http.connect().await;
        let _ = stream.write_all(&spoiled).await;
        let _ = stream.shutdown().await;
        let reply = read_reply(&mut stream).await;
        *statuses.entry(reply.status).or_default() += 1;
        // Whoever has not sent the token as it is has got nowhere.
        if !spoiled.windows(token.len()).any(|part| part == token.as_bytes()) {
            assert!(matches!(reply.status, 0 | 400 | 401 | 403 | 404), "{reply:?}");
        }
        if reply.status == 200 {
            let answer = reply.answer();
            assert!(answer.get("result").is_some() != answer.get("error").is_some(), "{answer}");
        }
    }
    // Nothing breaks the server itself.
    assert!(statuses.keys().all(|status| *status < 500 || *status == 501), "{statuses:?}");
    assert!(statuses.contains_key(&401) && statuses.contains_key(&400), "{statuses:?}");
    let ended: Vec<_> = agent.events().iter().map(|event| event.tool.to_string()).collect();
    let answered = statuses.get(&200).copied().unwrap_or(0) + statuses.get(&0).copied().unwrap_or(0);
    assert!(ended.len() <= answered, "{} of {statuses:?}", ended.len());
    assert_eq!(agent.files.list(&FsPath::root()).await.unwrap().len(), 0);
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
