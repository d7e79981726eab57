//! `wink serve`, and clients of it that know no more of the protocol than they need.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Place, has_commands, one_command, said};

/// A client of a server.
pub(crate) trait Client {
    /// Sends a request and waits for its answer.
    fn request(&mut self, method: &str, params: Value) -> Value;

    /// The text that a model would be given.
    fn call(&mut self, tool: &str, arguments: &Value) -> String {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let text = answer.pointer("/result/content/0/text").or_else(|| answer.pointer("/error/message"));
        text.and_then(Value::as_str).unwrap_or_else(|| panic!("no text in {answer:#}")).to_owned()
    }
}

fn hello() -> Value {
    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } })
}

/// Over the pipes of a process that it has started.
pub(crate) struct Pipes {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: u64,
}

impl Pipes {
    pub(crate) fn start(place: &Place) -> Self {
        Self::over(place.command(&["serve"]))
    }

    /// Of a server that is started so. Nothing is said yet.
    pub(crate) fn silent(command: Command) -> Self {
        Self::told_to(Stdio::inherit(), command)
    }

    /// The same, with this standard error.
    pub(crate) fn told_to(stderr: Stdio, mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output, last: 0 }
    }

    /// Of a server that is started so, after shaking hands.
    pub(crate) fn over(command: Command) -> Self {
        let mut client = Self::silent(command);
        client.shake_hands();
        client
    }

    pub(crate) fn shake_hands(&mut self) {
        let answer = self.request("initialize", hello());
        assert_eq!(answer["result"]["serverInfo"]["name"], "wink", "{answer:#}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_line(message.to_string().as_bytes());
    }

    pub(crate) fn send_line(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// The next message.
    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the server ended");
        serde_json::from_str(&line).unwrap()
    }

    /// Closes its end, and waits for the server to end.
    pub(crate) fn leave(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().unwrap().code()
    }
}

impl Client for Pipes {
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params }));
        loop {
            let message = self.receive();
            if message["id"] == self.last {
                return message;
            }
        }
    }
}

/// Over HTTP, a connection for each request.
pub(crate) struct Http {
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) token: String,
    client: Option<String>,
    last: u64,
}

impl Http {
    pub(crate) fn start(place: &Place) -> Self {
        Self::over(place.command(&["serve", "--http", "0", "--json"]))
    }

    /// Of a server that is started so.
    pub(crate) fn over(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        crate::json::check("serve", &said);
        let url = said["url"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        assert_eq!(url, format!("http://{address}/mcp/main"));
        let token = said["token"].as_str().unwrap().to_owned();
        Self { child, address, token, client: None, last: 0 }
    }

    pub(crate) fn shake_hands(&mut self) {
        self.request("initialize", hello());
        let (status, _) =
            self.post("/mcp/main", &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        assert_eq!(status, 202);
    }

    /// The status, and the message that came back.
    pub(crate) fn post(&mut self, path: &str, message: &Value) -> (u16, Option<Value>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = message.to_string();
        let client = self.client.as_ref().map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-11-25\r\n{client}\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        if let Some(id) = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")) {
            self.client = Some(id.to_owned());
        }
        // Events, in chunks or not: a line is never divided.
        let events = body.lines().filter_map(|line| line.strip_prefix("data: ").or(Some(line)));
        let mut messages =
            events.filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(Value::is_object);
        (status, messages.rfind(|message| message.get("id") == Some(&self.last.into())))
    }

    /// Tells it to end, and waits for that.
    pub(crate) fn end(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        // It goes on by itself otherwise, when a test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client for Http {
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        let (status, answer) = self.post("/mcp/main", &message);
        assert_eq!(status, 200);
        answer.unwrap()
    }
}

#[test]
fn the_tools_are_those_that_the_command_line_lists() {
    let place = Place::new();
    let mut client = Pipes::start(&place);
    let listed = client.request("tools/list", json!({}));
    let printed: Value = serde_json::from_str(&place.wink(&["tools", "--format", "mcp"]).ok()).unwrap();
    assert_eq!(listed["result"]["tools"], printed["tools"]);
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn what_a_client_did_is_in_the_log_and_can_be_undone() {
    let place = Place::new();
    let mut client = Pipes::start(&place);
    assert_eq!(
        client.call("write_file", &json!({ "path": "a.txt", "content": "x" })),
        "Created a.txt (1 byte)."
    );
    // While it is served, others can look.
    assert_eq!(place.rows(&["log"]).len(), 1);
    let log = client.request("resources/read", json!({ "uri": "wink://log" }));
    let line: Value = serde_json::from_str(log["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(line, place.rows(&["log"])[0]);
    // Also what others have done, and undone.
    place.wink(&["undo", "last"]).ok();
    assert_eq!(place.names(), Vec::<String>::new());
    place.write("b.txt", "theirs\n");
    let log = client.request("resources/read", json!({ "uri": "wink://log" }));
    let lines = log["result"]["contents"][0]["text"].as_str().unwrap().lines();
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, place.rows(&["log"]));
    let kinds: Vec<(u64, &str)> =
        lines.iter().map(|line| (line["seq"].as_u64().unwrap(), line["kind"].as_str().unwrap())).collect();
    assert_eq!(kinds, [(1, "call"), (2, "undo"), (3, "call")]);
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn a_number_means_what_the_log_shows_whatever_ids_a_client_gives() {
    let place = Place::new();
    let mut client = Pipes::start(&place);
    // Its requests are 2 to 5; later ones have keys.
    for name in ["a", "b", "c", "d"] {
        client.call("write_file", &json!({ "path": name, "content": "x" }));
    }
    for (key, name) in [("1", "e"), ("2", "f"), ("3", "g")] {
        let arguments = json!({ "path": name, "content": "x" });
        let meta = json!({ "wink/idempotencyKey": key });
        client.request("tools/call", json!({ "name": "write_file", "arguments": arguments, "_meta": meta }));
    }
    let ids: Vec<Value> = place.rows(&["log"]).iter().map(|row| row["call_id"].clone()).collect();
    assert_eq!(ids, ["mcp-2", "mcp-3", "mcp-4", "mcp-5", "1", "2", "3"]);
    place.wink(&["undo", "3"]).ok();
    assert_eq!(place.names(), ["a", "b", "d", "e", "f", "g"]);
    place.wink(&["undo", "id:3"]).ok();
    place.wink(&["undo", "mcp-3"]).ok();
    assert_eq!(place.names(), ["a", "d", "e", "f"]);
    assert_eq!(client.leave(), Some(0));
}

/// A request of a client that knows tasks; its answer comes when it comes.
fn task_request(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Ten seconds long, which is how long a call is waited for before it is a task.
#[test]
fn what_came_of_tasks_is_known_when_their_server_was_killed() {
    if !has_commands() {
        return;
    }
    let quick = one_command("quick");
    let tool = quick.split_once("[[section.tool]]").unwrap().1;
    let place = Place::with_agent(&format!("{}\n[[section.tool]]{tool}", one_command("slow")));
    let line = place.pipe("line");
    place.put_script("slow", &format!("exec 3> {}\ntouch made\necho ready >&3\nsleep 1000", line.display()));
    place.put_script("quick", "touch quickly");
    let serve = || Pipes::silent(place.command(&["serve"]));
    let mut dying = serve();
    dying.send(&task_request(1, "tools/call", json!({ "name": "slow" })));
    let mut line = std::fs::File::open(line).unwrap();
    line.read_exact(&mut [0; 6]).unwrap();
    // This one waits for the other, in the same session.
    dying.send(&task_request(2, "tools/call", json!({ "name": "quick" })));
    let tasks: Vec<Value> = std::iter::repeat_with(|| dying.receive())
        .filter(|message| message.get("id").is_some())
        .map(|answer| {
            assert_eq!(answer["result"]["resultType"], "task", "{answer:#}");
            answer["result"]["taskId"].clone()
        })
        .take(2)
        .collect();

    let mut living = serve();
    let mut last = 10;
    let mut ask = |server: &mut Pipes, method: &str, task: &Value| {
        last += 1;
        server.send(&task_request(last, method, json!({ "taskId": task })));
        let answer = server.receive();
        assert_eq!(answer["id"], last, "{answer:#}");
        answer
    };
    for task in &tasks {
        assert_eq!(ask(&mut living, "tasks/get", task)["result"]["status"], "working");
        let refused = ask(&mut living, "tasks/cancel", task);
        assert!(refused["error"]["message"].as_str().unwrap().contains("another server"), "{refused:#}");
    }
    dying.child.kill().unwrap();
    dying.child.wait().unwrap();
    assert_eq!(line.read(&mut [0; 6]).unwrap(), 0, "nobody has the other end any more");

    // One that was there all the time knows, and so does one that comes later.
    let mut told = |server: &mut Pipes| {
        for task in &tasks {
            let state = ask(server, "tasks/get", task)["result"].clone();
            assert_eq!(
                (&state["status"], &state["result"]["isError"]),
                (&json!("completed"), &json!(true)),
                "{state:#}"
            );
            let text = state["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("was interrupted"), "{text}");
            assert!(state["createdAt"].as_str() <= state["lastUpdatedAt"].as_str(), "{state:#}");
            assert!(ask(server, "tasks/cancel", task).get("result").is_some(), "it is over");
        }
    };
    told(&mut living);
    let mut later = serve();
    told(&mut later);
    told(&mut living);
    let rows = place.rows(&["log"]);
    let ended: Vec<(&Value, &Value)> = rows.iter().map(|row| (&row["tool"], &row["error"]["kind"])).collect();
    let (slow, quick, interrupted) = (json!("slow"), json!("quick"), json!("interrupted"));
    assert_eq!(ended, [(&slow, &interrupted), (&quick, &interrupted)], "{rows:#?}");
    assert_eq!(place.names(), ["quick", "slow", "wink.toml"]);
    assert_eq!((living.leave(), later.leave()), (Some(0), Some(0)));
}

#[test]
fn a_server_that_is_told_to_end_undoes_what_is_on_its_way() {
    if !has_commands() {
        return;
    }
    for signal in [None, Some(Signal::TERM)] {
        let place = Place::with_agent(&one_command("slow"));
        let line = place.pipe("line");
        place.put_script(
            "slow",
            &format!("exec 3> {}\ntouch made\necho ready >&3\nsleep 1000", line.display()),
        );
        let mut client = Pipes::start(&place);
        client.send(
            &json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "slow" } }),
        );
        let mut line = std::fs::File::open(line).unwrap();
        line.read_exact(&mut [0; 6]).unwrap();
        match signal {
            Some(signal) => {
                kill_process(Pid::from_child(&client.child), signal).unwrap();
                assert_eq!(client.child.wait().unwrap().code(), Some(0));
            }
            None => assert_eq!(client.leave(), Some(0)),
        }
        // Nobody has the other end any more.
        assert_eq!(line.read(&mut [0; 6]).unwrap(), 0);
        assert_eq!(place.names(), ["slow", "wink.toml"]);
        let rows = place.rows(&["log"]);
        assert_eq!((rows.len(), &rows[0]["error"]["kind"]), (1, &"cancelled".into()), "{rows:#?}");
    }
}

#[test]
fn over_http_a_session_wants_its_token() {
    let place = Place::new();
    let mut client = Http::start(&place);
    assert_eq!(place.wink(&["serve", "--print-token"]).ok(), format!("{}\n", client.token));
    let told = place.json(&["serve", "--print-token"]);
    crate::json::check("serve", &told);
    assert_eq!(told, json!({ "session": "main", "token": client.token }));
    let other = place.wink(&["serve", "--print-token", "--session", "other"]).ok();
    assert_ne!(other.trim(), client.token);
    let ping = json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" });
    assert_eq!(client.post("/mcp/other", &ping).0, 401);
    let token = std::mem::replace(&mut client.token, other.trim().to_owned());
    assert_eq!(client.post("/mcp/main", &ping).0, 401);
    client.token = token;
    client.shake_hands();
    assert_eq!(
        client.call("write_file", &json!({ "path": "a.txt", "content": "x" })),
        "Created a.txt (1 byte)."
    );
    assert_eq!(client.end(), Some(0));
    assert_eq!(place.rows(&["log"]).len(), 1);
    // The key is nobody else's to read.
    let about = std::fs::metadata(place.root().join(".wink/mcp-key")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777, 0o600);
    // It is the same the next time.
    let again = Http::start(&place);
    assert_eq!(place.wink(&["serve", "--print-token"]).ok(), format!("{}\n", again.token));
    assert_eq!(again.end(), Some(0));
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let place = Place::new();
    insta::assert_snapshot!("not_loopback", place.wink(&["serve", "--http", "0.0.0.0:8377"]).whole());
    insta::assert_snapshot!("no_address", place.wink(&["serve", "--http", "here"]).whole());
    assert_eq!(place.names(), Vec::<String>::new());
}

const CLOSED: &str = r#"
[agent]
ns = "tests"
key = "closed"

[[section]]
key = "plan"
title = "Plan"
body = "Plan."
summary = "How to plan."
visibility = "summary"
suites = ["planning"]
"#;

#[test]
fn what_was_said_to_be_open_is_open_whoever_dies() {
    let open = json!({ "section_keys": ["plan"], "reason": "to plan" });
    let is_open = |place: &Place| place.wink(&["tools"]).ok().contains("planning_setup_plan");
    let place = Place::with_agent(CLOSED);
    assert!(!is_open(&place));
    let mut client = Pipes::start(&place);
    assert!(client.call("open_sections", &open).to_lowercase().contains("opened"));
    client.child.kill().unwrap();
    client.child.wait().unwrap();
    assert!(is_open(&place));
    let place = Place::with_agent(CLOSED);
    let mut client = Http::start(&place);
    client.shake_hands();
    assert!(client.call("open_sections", &open).to_lowercase().contains("opened"));
    client.child.kill().unwrap();
    client.child.wait().unwrap();
    assert!(is_open(&place));
}

#[test]
fn what_another_program_opens_is_open_in_a_server_that_runs() {
    let place = Place::with_agent(CLOSED);
    let mut pipes = Pipes::start(&place);
    let mut http = Http::start(&place);
    http.shake_hands();
    let closed = pipes.call("planning_read_plan", &json!({}));
    assert!(closed.contains("section plan is closed"), "{closed}");
    place.wink(&["call", "open_sections", r#"{"section_keys": ["plan"], "reason": "to plan"}"#]).ok();
    let beside = place.wink(&["call", "planning_read_plan"]).out;
    for said in [pipes.call("planning_read_plan", &json!({})), http.call("planning_read_plan", &json!({}))] {
        assert_eq!(said.trim_end(), beside.trim_end());
    }
    let prompt = pipes.request("prompts/get", json!({ "name": "closed" }));
    let text = prompt.pointer("/result/messages/0/content/text").and_then(Value::as_str);
    assert!(text.is_some_and(|text| !text.contains("How to plan.")), "{prompt:#}");
    assert_eq!(pipes.leave(), Some(0));
    http.end();
}

#[test]
fn a_session_whose_name_no_path_can_have_is_refused_at_once() {
    let place = Place::new();
    let long = "x".repeat(129);
    for name in ["my work", "-x", ".wink", "a/b", "ä", &long] {
        for how in [&["--http", "0"][..], &["--print-token"]] {
            let session = format!("--session={name}");
            let said = place.wink(&[&["serve", &session], how].concat());
            assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{name}: {said:?}");
            assert!(said.err.contains("\nhint: over HTTP a name has ASCII letters"), "{said:?}");
        }
    }
    insta::assert_snapshot!("no_path", place.wink(&["serve", "--http", "0", "--session", "my work"]).whole());
    assert_eq!(place.names(), Vec::<String>::new());
    // Over pipes any will do.
    let client = Pipes::over(place.command(&["serve", "--session", "my work"]));
    assert_eq!(client.leave(), Some(0));
}

/// Has the store of a workspace lose what sessions are made of, or gives it back.
fn records(place: &Place, from: &str, to: &str) {
    let store = rusqlite::Connection::open(place.root().join(".wink/wink.db")).unwrap();
    store.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).unwrap();
}

#[test]
fn a_session_that_the_store_cannot_open_is_exit_code_4_whoever_opens_it() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    records(&place, "records", "lost");
    let called = place.wink(&["call", "list_directory"]);
    let served = place.wink(&["serve"]);
    assert_eq!((called.code, called.err.as_str()), (Some(4), served.err.as_str()), "{called:?}");
    assert_eq!(served.code, Some(4));
}

#[test]
fn whoever_runs_a_server_is_told_what_its_clients_are_not() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    for json in [true, false] {
        let mut command = place.command(&["serve", "--http", "0", "--json"]);
        if !json {
            // Where it is, is told by the other.
            command = place.command(&["serve", "--http", "0"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        let token = place.wink(&["serve", "--print-token"]).ok().trim().to_owned();
        records(&place, "records", "lost");
        let mut client = Http { child, address, token, client: None, last: 0 };
        let ping = json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" });
        assert_eq!(client.post("/mcp/main", &ping), (503, None));
        records(&place, "lost", "records");
        client.shake_hands();
        let mut err = client.child.stderr.take().unwrap();
        assert_eq!(client.end(), Some(0));
        let mut told = String::new();
        err.read_to_string(&mut told).unwrap();
        if json {
            let [line] = told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
            let line: Value = serde_json::from_str(line).unwrap();
            crate::json::check("diagnostic", &line);
            assert_eq!(line["log"]["level"], "warn");
            assert_eq!(line["log"]["message"], "a session was not opened");
            let error = line["log"]["fields"]["error"].as_str().unwrap();
            assert!(
                error.starts_with("session main cannot be opened: ") && error.contains("records"),
                "{error}"
            );
        } else {
            assert!(told.starts_with("warning: a session was not opened ("), "{told}");
            assert!(told.contains("\n  error: session main cannot be opened: "), "{told}");
        }
    }
}

#[test]
fn how_much_is_told_is_for_whoever_asks() {
    let place = Place::new();
    let told = |arguments: &[&str], level: Option<&str>| {
        let mut command = place.command(arguments);
        if let Some(level) = level {
            command.env("WINK_LOG", level);
        }
        said(command.stdin(Stdio::null()).output().unwrap())
    };
    let call = &["call", "list_directory", "{}"][..];
    assert_eq!(told(call, None).err, "");
    assert_eq!(told(call, Some("warn")).err, "");
    let traced = told(call, Some("trace")).err;
    assert!(traced.contains("trace: "), "{traced}");
    assert_eq!(told(&[call, &["-vvv"]].concat(), Some("off")).out, told(call, None).out);
    let wrong = told(call, Some("loud"));
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(2), ""));
    assert_eq!(
        wrong.err,
        "error: WINK_LOG is \"loud\", which is no level\nhint: off, error, warn, info, debug or trace\n"
    );
}

#[test]
fn what_is_masked_is_told_at_no_level() {
    let place = Place::new();
    let agent = "[agent]\nns = \"t\"\nkey = \"t\"\n\n[[section]]\nkey = \"a\"\ntitle = \"A\"\n\n[[section.tool]]\n\
                 name = \"use\"\ndescription = \"Use a token.\"\ncommand = [\"true\"]\nsensitive = [\"token\"]\n\
                 params = { type = \"object\", properties = { token = { type = \"string\" } } }\n";
    std::fs::write(place.root().join("wink.toml"), agent).unwrap();
    let mut command = place.command(&["serve", "-vvv"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let about = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let mut to = child.stdin.take().unwrap();
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "use", "arguments": { "token": "S3CRET" } } }),
    ] {
        writeln!(to, "{message}").unwrap();
    }
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let answer = out.find(|line| line.as_ref().unwrap().contains("\"id\":2")).unwrap().unwrap();
    assert!(answer.contains("\"isError\":false") || !answer.contains("isError"), "{answer}");
    drop(to);
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(told.contains("trace: ") && !told.contains("S3CRET"), "{told}");
}
