//! Clients that mean no good, and the program itself: it keeps serving, its memory stays bounded, and nothing gets in.

use std::collections::VecDeque;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::serve::{Client, Http, Pipes};
use crate::support::{Place, has_commands};

const MIB: usize = 1024 * 1024;

/// The most memory that a process has had so far.
fn peak(child: &Child) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// `piece` as often as it fits.
fn full_of(piece: &str, bytes: usize) -> String {
    piece.repeat(bytes / piece.len())
}

/// Arguments that are as large as may be, and much larger when they are decoded.
fn dense(bytes: usize) -> Vec<String> {
    let deep = bytes / 2;
    let names: String = (0..bytes / 13).map(|number| format!("\"{number:x}\":0,")).collect();
    vec![
        format!("{{\"path\":{}{}}}", "[".repeat(deep), "]".repeat(deep)),
        format!("{{{}\"path\":0}}", full_of("\"\":0,", bytes)),
        format!("{{{names}\"path\":\"a\"}}"),
        format!("{{\"path\":\"a\",\"content\":[{}0]}}", full_of("0,", bytes)),
        format!("{{\"path\":\"a\",\"content\":[{}0]}}", full_of("[],", bytes)),
    ]
}

fn call(id: usize, arguments: &str) -> String {
    let params = format!("{{\"name\":\"write_file\",\"arguments\":{arguments}}}");
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}")
}

/// What is refused before anything is made of it: it leaves nothing behind either.
fn refused(bytes: usize) -> Vec<String> {
    let beside = |meta: String| {
        let params = format!("{{\"name\":\"list_directory\",\"_meta\":{{\"x\":{meta}}}}}");
        format!("{{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"method\":\"tools/call\",\"params\":{params}}}")
    };
    vec![
        call(1, &format!("{{\"path\":[{}0]}}", full_of("0,", 2 * bytes))),
        format!("[{}0]", full_of("0,", bytes)),
        beside(format!("[{}0]", full_of("0,", bytes))),
        beside(format!("{}{}", "[".repeat(bytes / 2), "]".repeat(bytes / 2))),
        "[".repeat(bytes),
    ]
}

/// What the server may take while all of that is sent to it. None of it is decoded, so it is there a few times as it was
/// written: 32 MiB for each message that is on its way, of which such a one leaves no room for another; 8 MiB for each of the
/// ten that get as far as the executor at most, while they are on their way to the store; 50 MiB for itself; and as much again for
/// what the allocator does not give back. One such message alone took 1900 MiB when it was decoded.
const BOUND: usize = 300 * MIB;

#[test]
fn on_stdio_memory_is_bounded() {
    let place = Place::new();
    let mut client = Pipes::start(&place);
    let bytes = 8 * MIB - 100;
    for message in refused(bytes) {
        let is_json = !message.starts_with("[[");
        client.send_line(message.as_bytes());
        let answer = client.receive();
        assert_eq!(answer["error"]["code"], if is_json { -32600 } else { -32700 }, "{answer}");
    }
    assert!(peak(&client.child) < 150 * MIB, "{} MiB", peak(&client.child) / MIB);
    for (number, arguments) in dense(bytes).iter().enumerate() {
        client.send_line(call(1000 + number, arguments).as_bytes());
        let answer = client.receive();
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1000 + number), &json!(true)));
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(
            text.starts_with("Invalid arguments") || text.starts_with("The arguments are too large"),
            "{text:.200}"
        );
    }
    let most = peak(&client.child);
    assert!(most < BOUND, "{} MiB", most / MIB);
    // Whoever sends a little too much is told as anywhere else.
    let over = format!("{{\"path\":\"a\",\"content\":\"{}\"}}", "x".repeat(8 * MIB));
    client.send_line(call(2000, &over).as_bytes());
    let answer = client.receive();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("at most 8388608 bytes"), "{text:.200}");
    let told = client.call("write_file", &json!({ "path": "a.txt", "content": "x" }));
    assert_eq!(told, "Created a.txt (1 byte).");
    assert_eq!(client.leave(), Some(0));
    assert_eq!(place.names(), ["a.txt"]);
}

#[test]
fn what_a_tool_takes_is_decoded_one_at_a_time() {
    if !has_commands() {
        return;
    }
    let agent = "[agent]\nns = \"t\"\nkey = \"t\"\n\n[[section]]\nkey = \"s\"\ntitle = \"S\"\n\n[[section.tool]]\n\
                 name = \"take\"\ndescription = \"Take.\"\ncommand = [\"./take\"]\n\
                 params = { type = \"object\", properties = { items = { type = \"array\" } } }\n";
    let place = Place::with_agent(agent);
    place.put_script("take", "wc -c");
    let mut client = Pipes::start(&place);
    let items = full_of("0,", 8 * MIB - 100);
    for id in 10..14 {
        let params = format!("{{\"name\":\"take\",\"arguments\":{{\"items\":[{items}0]}}}}");
        let message =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}");
        client.send_line(message.as_bytes());
    }
    let (mut called, mut refused) = (0, 0);
    for _ in 10..14 {
        let answer = client.receive();
        match answer["error"]["message"].as_str() {
            Some("too many large messages are on their way; try again when they are answered") => {
                refused += 1
            }
            Some(other) => panic!("{other}"),
            None => called += usize::from(answer["result"]["isError"] == true),
        }
    }
    assert_eq!((called >= 1, called + refused), (true, 4));
    // As much as is reckoned for one of them, in values of the tool's own, beside what all of them take.
    let most = peak(&client.child);
    assert!(most < BOUND + 384 * MIB, "{} MiB", most / MIB);
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn hundreds_of_rejected_calls_leave_nothing_in_memory() {
    let place = Place::new();
    let mut client = Pipes::start(&place);
    let mut reject = |numbers: std::ops::Range<usize>| {
        for number in numbers.map(|number| 1000 + number) {
            let arguments = format!("{{\"path\":\"a\",\"nothing\":\"{}\"}}", "x".repeat(MIB));
            client.send_line(call(number, &arguments).as_bytes());
            let answer = client.receive();
            assert_eq!(
                (&answer["id"], &answer["result"]["isError"]),
                (&json!(number), &json!(true)),
                "{answer}"
            );
        }
        peak(&client.child)
    };
    let first = reject(0..30);
    let most = reject(30..300);
    eprintln!("{} MiB after 30, {} MiB after 300", first / MIB, most / MIB);
    assert!(most < 200 * MIB && most < first + 32 * MIB, "{} MiB, then {} MiB", first / MIB, most / MIB);
    assert_eq!(client.leave(), Some(0));
    let last = place.rows(&["log", "-n", "1"]);
    assert_eq!((last.len(), &last[0]["seq"]), (1, &json!(300)), "and all of it is in the log");
}

/// One request as bytes.
fn request(http: &Http, path: &str, more: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nconnection: close\r\n{more}content-length: {}\r\n\r\n",
        http.address,
        http.token,
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// The headers of a call of the stateless revision.
const STATELESS: &str =
    "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: write_file\r\n";

fn meta(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "tester", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// Sends something, and reads until the server closes: the status, and the body. No status if there was no answer.
fn exchange(address: &str, bytes: &[u8]) -> Option<(u16, String)> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    // A server that has answered does not read on.
    let _ = (&stream).write_all(bytes);
    answer(stream)
}

fn answer(mut stream: TcpStream) -> Option<(u16, String)> {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// A call that writes a file, by a client that tries again when it was let go.
fn write(http: &Http, path: &str) -> (u16, String) {
    let params = json!({ "name": "write_file", "arguments": { "path": path, "content": "x" }, "_meta": meta(json!({})) });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    served(http, &request(http, "/mcp/main", STATELESS, body.as_bytes()))
}

/// The answer to a request that is sent again while the server has no room for it.
#[expect(clippy::disallowed_methods, reason = "how long a client waits for the program is what is measured")]
fn served(http: &Http, request: &[u8]) -> (u16, String) {
    let begun = Instant::now();
    loop {
        match exchange(&http.address, request) {
            Some(answer) if answer.0 != 503 => return answer,
            _ => assert!(begun.elapsed() < Duration::from_secs(60), "the server answers no request"),
        }
    }
}

#[test]
fn over_http_memory_is_bounded() {
    let place = Place::new();
    let client = Http::start(&place);
    let bytes = 8 * MIB - 1000;
    // All at once: what there is no room for is refused.
    let reached = AtomicUsize::new(0);
    let mut bodies = refused(bytes);
    let meta = meta(json!({}));
    for arguments in dense(bytes) {
        let params = format!("{{\"name\":\"write_file\",\"arguments\":{arguments},\"_meta\":{meta}}}");
        bodies
            .push(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{params}}}"));
    }
    thread::scope(|scope| {
        for body in &bodies {
            for _ in 0..2 {
                let (client, reached) = (&client, &reached);
                scope.spawn(move || {
                    let bytes = request(client, "/mcp/main", STATELESS, body.as_bytes());
                    let (status, said) = exchange(&client.address, &bytes).unwrap_or((0, String::new()));
                    assert!(matches!(status, 0 | 200 | 400 | 413 | 503), "{status}: {said:.200}");
                    if status == 200 {
                        assert!(said.contains("\"isError\":true"), "{said:.200}");
                        reached.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        }
    });
    let (most, reached) = (peak(&client.child), reached.into_inner());
    // How many get through depends on who comes first: those that are read at the same time may leave no room for any.
    assert!(reached <= 10, "{reached}");
    assert!(most < BOUND, "{} MiB after {reached}", most / MIB);
    // The room that they had is there again, as soon as the server has let go of the last of them: one alone is answered.
    let last = bodies.last().map(|body| request(&client, "/mcp/main", STATELESS, body.as_bytes())).unwrap();
    let (status, said) = served(&client, &last);
    assert!(status == 200 && said.contains("\"isError\":true"), "{status}: {said:.200}");
    assert!(peak(&client.child) < BOUND, "{} MiB", peak(&client.child) / MIB);
    assert_eq!(write(&client, "a.txt").0, 200);
    assert_eq!(client.end(), Some(0));
    assert_eq!(place.names(), ["a.txt"]);
}

/// Has others stop, also when a test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Thousands of connections that say nothing or not enough, `held` of them at a time, while somebody with a token works.
#[expect(clippy::disallowed_methods, reason = "how long somebody waits for the program is what is measured")]
fn flooded(http: &Http, held: usize) {
    let limit = getrlimit(Resource::Nofile);
    // Of this process: it has the other ends.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let stop = AtomicBool::new(false);
    let opened = AtomicUsize::new(0);
    thread::scope(|scope| {
        let _stops = Stops(&stop);
        for starts in ["", "POST /mcp/main HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong"] {
            let (stop, opened, http) = (&stop, &opened, &http);
            scope.spawn(move || {
                let mut open = VecDeque::new();
                while !stop.load(Ordering::SeqCst) {
                    let Ok(mut stream) = TcpStream::connect(&http.address) else { continue };
                    let _ = stream.write_all(starts.as_bytes());
                    open.push_back(stream);
                    opened.fetch_add(1, Ordering::SeqCst);
                    if open.len() > held / 2
                        && let Some(mut oldest) = open.pop_front()
                    {
                        // Until the server lets it go.
                        let _ = oldest.read_to_end(&mut Vec::new());
                    }
                }
            });
        }
        while opened.load(Ordering::SeqCst) < 3000 {
            thread::yield_now();
        }
        let mut slowest = Duration::ZERO;
        for number in 0..20 {
            let begun = Instant::now();
            let (status, said) = write(http, &format!("{number}.txt"));
            slowest = slowest.max(begun.elapsed());
            assert_eq!(status, 200, "{said}");
            assert!(said.contains("Created "), "{said}");
        }
        // Not only after the silent ones have had their ten seconds.
        assert!(slowest < Duration::from_secs(8), "{slowest:?}");
    });
}

#[test]
fn thousands_of_connections_keep_nobody_out() {
    let place = Place::new();
    let client = Http::start(&place);
    flooded(&client, 700);
    assert!(peak(&client.child) < 250 * MIB);
    assert_eq!(client.end(), Some(0));
    assert_eq!(place.names().len(), 20);
    assert!(place.rows(&["log"]).iter().all(|row| row["success"] == true));
}

#[test]
fn connections_leave_calls_their_files() {
    let place = Place::new();
    let mut command = place.program("sh");
    command.args(["-c", "ulimit -n 128; exec \"$0\" serve --http 0 --json", env!("CARGO_BIN_EXE_wink")]);
    let client = Http::over(command);
    flooded(&client, 200);
    assert_eq!(client.end(), Some(0));
    assert_eq!(place.names().len(), 20);
    assert!(place.rows(&["log"]).iter().all(|row| row["success"] == true));
}

/// Bytes that are the same every time, and mean nothing.
struct Noise(u64);

impl Noise {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(most).unwrap()).unwrap()
    }

    /// A message with something wrong with it.
    fn spoiled(&mut self, message: &str) -> Vec<u8> {
        let mut bytes = message.as_bytes().to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(4) {
                0 => bytes[at] = u8::try_from(self.below(256)).unwrap(),
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"{}[]\",:0\\"[self.below(9)]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        bytes
    }
}

#[test]
fn noise_on_stdio_is_answered() {
    let place = Place::new();
    let mut client = Pipes::start(&place);
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    for round in 0..500 {
        let params = json!({ "name": "list_directory", "arguments": {} });
        let message =
            json!({ "jsonrpc": "2.0", "id": format!("n{round}"), "method": "tools/call", "params": params });
        let mut spoiled = noise.spoiled(&message.to_string());
        spoiled.retain(|byte| *byte != b'\n');
        let parsed = serde_json::from_slice::<Value>(&spoiled).unwrap_or_default();
        if parsed["method"].is_string() && (parsed["id"].is_string() || parsed["id"].is_i64()) {
            asked.push(parsed["id"].to_string());
        }
        client.send_line(&spoiled);
    }
    // Whoever asks, however strangely, has one answer; what cannot be read has one without an id.
    client.send_line(br#"{"jsonrpc":"2.0","id":"last","method":"ping"}"#);
    asked.push("\"last\"".to_owned());
    while answered.len() < asked.len() {
        let answer = client.receive();
        assert!(answer.get("result").is_some() != answer.get("error").is_some(), "{answer}");
        match &answer["id"] {
            Value::Null => {
                let code = &answer["error"]["code"];
                assert!(*code == -32600 || *code == -32700, "{answer}");
            }
            id => answered.push(id.to_string()),
        }
    }
    asked.sort();
    answered.sort();
    assert_eq!(answered, asked);
    let told = client.call("write_file", &json!({ "path": "a.txt", "content": "x" }));
    assert_eq!(told, "Created a.txt (1 byte).");
    assert!(peak(&client.child) < 150 * MIB);
    assert_eq!(client.leave(), Some(0));
    assert_eq!(place.names(), ["a.txt"]);
}

#[test]
fn nothing_gets_in_over_http() {
    let place = Place::new();
    let mut client = Http::start(&place);
    let params = json!({ "name": "write_file", "arguments": { "path": "in.txt", "content": "x" }, "_meta": meta(json!({})) });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let good = String::from_utf8(request(&client, "/mcp/main", STATELESS, body.as_bytes())).unwrap();
    let other = place.wink(&["serve", "--print-token", "--session", "other"]).ok();
    let (host, token) = (format!("host: {}", client.address), client.token.clone());
    for (what, instead, status) in [
        (token.as_str(), "wrong", 401),
        (&token, other.trim(), 401),
        ("/mcp/main", "/mcp/other", 401),
        ("authorization: ", "x-authorization: ", 401),
        (&host, "host: evil.example", 403),
        (&host, &format!("{host}\r\nhost: {}", client.address), 400),
        (&host, &format!("{host}\r\norigin: https://evil.example"), 403),
        (&host, &format!("{host}\r\norigin: http://localhost\r\norigin: https://evil.example"), 403),
        (&host, &format!("{host}\r\norigin: http://localhost:evil.com"), 403),
        (&host, &format!("{host}\r\norigin: http://evil@localhost"), 403),
        ("POST /mcp/main", "POST http://evil.example/mcp/main", 400),
        ("content-length: ", "content-length: 99999", 413),
    ] {
        let (said, text) = exchange(&client.address, good.replace(what, instead).as_bytes()).unwrap();
        assert_eq!(said, status, "{instead}: {text}");
    }
    // A request that is not whole is none: closed half-way, or slow and then gone.
    for cut in [10, 100, good.len() - 1] {
        let mut stream = TcpStream::connect(&client.address).unwrap();
        stream.write_all(&good.as_bytes()[..cut]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    let mut noise = Noise(0x2545_f491_4f6c_dd1d);
    for _ in 0..200 {
        let spoiled = noise.spoiled(&good.replace(&token, "wrong"));
        let stream = TcpStream::connect(&client.address).unwrap();
        let _ = (&stream).write_all(&spoiled);
        let _ = stream.shutdown(Shutdown::Write);
        if let Some((status, said)) = answer(stream) {
            assert!((400..=501).contains(&status) && status != 500, "{status}: {said}");
        }
    }
    assert_eq!((place.names(), place.rows(&["log"]).len()), (Vec::<String>::new(), 0));
    // A frame that comes a little at a time is a frame.
    let mut stream = TcpStream::connect(&client.address).unwrap();
    for piece in good.as_bytes().chunks(40) {
        stream.write_all(piece).unwrap();
        stream.flush().unwrap();
        thread::yield_now();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("Created in.txt (1 byte)."), "{answer}");
    // An id is used once, and a cancel for what is over is nothing.
    client.shake_hands();
    let save = |id: u64, path: &str| {
        let params = json!({ "name": "write_file", "arguments": { "path": path, "content": "x" } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    assert_eq!(client.post("/mcp/main", &save(50, "once.txt")).0, 200);
    assert_eq!(client.post("/mcp/main", &save(50, "twice.txt")).0, 400);
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 50 } });
    assert_eq!(client.post("/mcp/main", &cancel).0, 202);
    assert_eq!(
        client.call("write_file", &json!({ "path": "after.txt", "content": "x" })),
        "Created after.txt (1 byte)."
    );
    assert_eq!(client.end(), Some(0));
    assert_eq!(place.names(), ["after.txt", "in.txt", "once.txt"]);
    assert_eq!(place.rows(&["log"]).len(), 3);
}

#[test]
fn an_approval_is_good_for_one_call() {
    let agent = "[agent]\nns = \"t\"\nkey = \"t\"\n\n[[section]]\nkey = \"s\"\ntitle = \"S\"\nsuites = [\"files\"]\n\n\
                 [[section.policy]]\napproval = { tools = [\"write_file\"] }\n";
    let place = Place::with_agent(agent);
    let client = Http::start(&place);
    let ask = |path: &str, extra: Value| {
        let mut params = json!({ "name": "write_file", "arguments": { "path": path, "content": "x" },
            "_meta": meta(json!({ "elicitation": {} })) });
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let bytes = request(&client, "/mcp/main", STATELESS, body.as_bytes());
        let (_, said) = exchange(&client.address, &bytes).unwrap();
        serde_json::from_str::<Value>(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    };
    let asked = ask("a.txt", json!({}));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let yes = json!({ "approval": { "action": "accept", "content": { "approve": true } } });
    let answer = json!({ "requestState": asked["result"]["requestState"], "inputResponses": yes });
    // Not for another call, not made up, and not twice.
    assert_eq!(ask("b.txt", answer.clone())["error"]["code"], -32602);
    assert_eq!(
        ask("a.txt", json!({ "requestState": "made.up", "inputResponses": yes }))["error"]["code"],
        -32602
    );
    let done = ask("a.txt", answer.clone());
    assert_eq!(done["result"]["content"][0]["text"], "Created a.txt (1 byte).", "{done}");
    assert_eq!(ask("a.txt", answer)["error"]["code"], -32602);
    assert_eq!(client.end(), Some(0));
    assert_eq!(place.names(), ["a.txt", "wink.toml"]);
    assert_eq!(place.rows(&["log"]).len(), 1);
}
