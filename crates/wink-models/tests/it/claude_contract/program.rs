//! Plays the program `claude`: speaks the control protocol on its pipes, as version 2.1.325 was seen to, with a model that follows a script.
//!
//! It has no thread but this one. Whatever it waits for, it hears everything else meanwhile: that it is to stop, and that other tools
//! can be called now.

#![allow(unreachable_pub, reason = "a part of a test")]

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::path::PathBuf;

use serde_json::{Value, json};

/// Where the script is, and how far it got.
pub const PLACE: &str = "WINK_PLAYED_PLACE";
/// What the program was started with.
pub const ARGUMENTS: &str = "WINK_PLAYED_ARGUMENTS";

const PREFIX: &str = "mcp__wink__";

/// Plays, if this process is to.
pub fn play() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let arguments: Vec<String> =
        std::env::var(ARGUMENTS).unwrap_or_default().lines().map(str::to_owned).collect();
    let after = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let mut played = Played {
        place: PathBuf::from(place),
        max_turns: after("--max-turns").and_then(|turns| turns.parse().ok()).unwrap_or(1),
        wants_output: after("--json-schema").is_some(),
        asks: 0,
        turns: 0,
        tools: Vec::new(),
        has_other_tools: false,
        waiting: VecDeque::new(),
    };
    // What the test harness has said ends here.
    println!();
    if let Some(transcript) = after("--resume") {
        played.resumed(&transcript);
    }
    let came = played.run();
    if let Err(Ends::Wrong(complaint)) = came {
        played.complain(&complaint);
    }
    std::process::exit(0);
}

/// Why a turn is over before the model is done.
enum Ends {
    /// It is told to stop.
    Interrupted,
    /// Nobody speaks to it any more.
    Gone,
    /// It is spoken to as nobody should.
    Wrong(String),
}

type Came<T> = Result<T, Ends>;

struct Played {
    place: PathBuf,
    max_turns: u32,
    wants_output: bool,
    asks: u32,
    turns: u32,
    tools: Vec<String>,
    has_other_tools: bool,
    /// What the user said while something else was waited for.
    waiting: VecDeque<Value>,
}

impl Played {
    fn complain(&self, complaint: &str) {
        self.write_down("complaints", complaint);
    }

    /// One line more for whoever looks.
    fn write_down(&self, name: &str, line: &str) {
        let path = self.place.join(name);
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        writeln!(file.unwrap(), "{line}").unwrap();
    }

    /// The transcript that it is to go on from: every call in it is answered.
    fn resumed(&self, path: &str) {
        let text = std::fs::read_to_string(path).unwrap();
        let mut open: Vec<Value> = Vec::new();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            for block in line["message"]["content"].as_array().into_iter().flatten() {
                match block["type"].as_str() {
                    Some("tool_use") => open.push(block["id"].clone()),
                    Some("tool_result") => open.retain(|id| *id != block["tool_use_id"]),
                    _ => {}
                }
            }
        }
        if text.is_empty() || !open.is_empty() {
            self.complain(&format!("the transcript leaves calls open: {open:?}"));
        }
    }

    fn run(&mut self) -> Came<()> {
        let first = self.hear()?;
        if first["request"]["subtype"] != "initialize" {
            return Err(Ends::Wrong(format!("it is not told what to do first: {first}")));
        }
        self.mcp("initialize", json!({ "protocolVersion": "2025-11-25" }))?;
        let answer = json!({ "hooks_applied": true, "hook_on_failure_supported": true });
        self.reply(&first["request_id"], &answer);
        self.list()?;
        loop {
            let said = match self.waiting.pop_front() {
                Some(said) => said,
                None => self.hear()?,
            };
            match said["type"].as_str() {
                Some("user") => {}
                // To what it asked before it was interrupted.
                Some("control_response") => continue,
                // There is nothing to be interrupted, and so no end of it.
                _ => match self.handle(&said) {
                    Ok(()) | Err(Ends::Interrupted) => continue,
                    came => came?,
                },
            }
            match self.turn() {
                Err(Ends::Interrupted) => {
                    self.say(&json!({
                        "type": "result", "subtype": "error_during_execution", "is_error": true,
                        "terminal_reason": "aborted_streaming", "errors": ["interrupted"],
                    }));
                }
                came => came?,
            }
        }
    }

    /// Answers the user: asks the model until it is done.
    fn turn(&mut self) -> Came<()> {
        let mut attempts = 0;
        loop {
            // Who is to stop it may not have said so yet.
            let Some(line) = self.next_line() else { return self.until_interrupted() };
            let failed = match line["fault"].as_str() {
                Some("silent") => return self.until_interrupted(),
                Some("too_long") => {
                    self.result(json!({
                        "is_error": true, "terminal_reason": "prompt_too_long", "api_error_status": 400,
                        "result": "Prompt is too long",
                    }));
                    return Ok(());
                }
                Some("throttled") => Some((Some(429), "rate_limit")),
                Some("overloaded") => Some((Some(529), "overloaded")),
                Some("unauthorized") => Some((Some(401), "authentication_failed")),
                Some(_) => Some((None, "connection")),
                None => None,
            };
            if let Some((status, error)) = failed {
                attempts += 1;
                let most: u32 = std::env::var("CLAUDE_CODE_MAX_RETRIES").unwrap().parse::<u32>().unwrap() + 1;
                if attempts >= most || status == Some(401) {
                    self.result(json!({
                        "is_error": true, "terminal_reason": "api_error", "api_error_status": status, "result": error,
                    }));
                    return Ok(());
                }
                self.say(&json!({
                    "type": "system", "subtype": "api_retry", "error_status": status, "error": error,
                    "retry_delay_ms": 1000,
                }));
                continue;
            }
            attempts = 0;
            self.turns += 1;
            if self.respond(&line)? {
                return Ok(());
            }
            if self.turns >= self.max_turns {
                self.say(&json!({
                    "type": "result", "subtype": "error_max_turns", "is_error": true, "terminal_reason": "max_turns",
                    "errors": ["Reached maximum number of turns"],
                }));
                return Ok(());
            }
        }
    }

    /// The model says a line. Whether it is done.
    fn respond(&mut self, line: &Value) -> Came<bool> {
        if std::mem::take(&mut self.has_other_tools) {
            self.list()?;
        }
        let text = line["text"].as_str().unwrap_or_default();
        let calls = line["tool_calls"].as_array().cloned().unwrap_or_default();
        let output: Option<Value> =
            if self.wants_output && calls.is_empty() { serde_json::from_str(text).ok() } else { None };
        let is_cut = line["stop"] == "truncated";
        let mut blocks = Vec::new();
        if output.is_none() && !text.is_empty() {
            blocks.push(json!({ "type": "text", "text": text }));
        }
        for call in &calls {
            let written = call["arguments"].as_str().unwrap_or_default();
            let input = serde_json::from_str(written)
                .unwrap_or_else(|_| json!({ "__unparsedToolInput": { "raw": written } }));
            let name = format!("{PREFIX}{}", call["name"].as_str().unwrap());
            blocks.push(json!({ "type": "tool_use", "id": call["id"], "name": name, "input": input }));
        }
        if let Some(output) = &output {
            let id = format!("toolu_output_{}", self.line_number());
            blocks.push(json!({ "type": "tool_use", "id": id, "name": "StructuredOutput", "input": output }));
        }
        let uses: Vec<Value> = blocks.iter().filter(|block| block["type"] == "tool_use").cloned().collect();
        let stop = match line["stop"].as_str() {
            Some("refused") => "refusal",
            Some("truncated") => "max_tokens",
            _ if uses.is_empty() => "end_turn",
            _ => "tool_use",
        };
        let first = self.stream(line, &blocks, stop);
        let mut is_taken = true;
        for (at, used) in uses.iter().enumerate() {
            let asked = first.clone().filter(|_| at == 0);
            is_taken = self.make(used, asked, is_cut && at + 1 == uses.len())?;
        }
        if let Some(output) = output.filter(|_| is_taken) {
            self.result(json!({
                "is_error": false, "terminal_reason": "completed", "stop_reason": stop, "result": output.to_string(),
                "structured_output": output,
            }));
            return Ok(true);
        }
        match stop {
            "end_turn" => {
                self.result(json!({
                    "is_error": false, "terminal_reason": "completed", "stop_reason": stop, "result": text,
                }));
                Ok(true)
            }
            // It asks the model to go on, in words of its own.
            "max_tokens" | "refusal" if uses.is_empty() => {
                let text = json!([{ "type": "text", "text": "Go on, in other words." }]);
                self.say(&json!({ "type": "user", "message": { "role": "user", "content": text } }));
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// A response in pieces. The first of its calls is asked about before the last piece is there; this gives the number of that.
    fn stream(&mut self, line: &Value, blocks: &[Value], stop: &str) -> Option<String> {
        let usage = &line["usage"];
        let count = |name: &str| usage[name].as_u64().unwrap_or(0);
        let (cached, input) = (count("cached_tokens"), count("input_tokens"));
        let used =
            json!({ "input_tokens": input - cached, "cache_read_input_tokens": cached, "output_tokens": 1 });
        let id = format!("msg_{}", self.line_number());
        let message = json!({ "id": id, "type": "message", "role": "assistant", "model": "scripted", "content": [], "usage": used });
        self.event(&json!({ "type": "message_start", "message": message }));
        let mut first = None;
        for (index, block) in blocks.iter().enumerate() {
            let mut empty = block.clone();
            let deltas: Vec<Value> = match block["type"].as_str() {
                Some("text") => {
                    empty["text"] = "".into();
                    let text: Vec<char> = block["text"].as_str().unwrap().chars().collect();
                    let piece =
                        |piece: &[char]| json!({ "type": "text_delta", "text": String::from_iter(piece) });
                    text.chunks(7).map(piece).collect()
                }
                _ => {
                    empty["input"] = json!({});
                    vec![json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() })]
                }
            };
            self.event(&json!({ "type": "content_block_start", "index": index, "content_block": empty }));
            for delta in deltas {
                self.event(&json!({ "type": "content_block_delta", "index": index, "delta": delta }));
            }
            let message = json!({
                "id": id, "type": "message", "role": "assistant", "model": "scripted", "content": [block], "usage": used,
            });
            self.say(&json!({ "type": "assistant", "message": message, "parent_tool_use_id": null }));
            match block["type"] == "tool_use" {
                true if !self.can_be_called(&block["name"]) => {
                    self.say(&told(
                        block,
                        &"<tool_use_error>No such tool available</tool_use_error>".into(),
                        true,
                    ));
                }
                true if first.is_none() => first = Some(self.hook("PreToolUse", block, &json!({}))),
                _ => {}
            }
            self.event(&json!({ "type": "content_block_stop", "index": index }));
        }
        let usage = json!({ "output_tokens": count("output_tokens") });
        self.event(&json!({ "type": "message_delta", "delta": { "stop_reason": stop }, "usage": usage }));
        self.event(&json!({ "type": "message_stop" }));
        first
    }

    fn can_be_called(&self, name: &Value) -> bool {
        let name = name.as_str().unwrap();
        name == "StructuredOutput" || self.tools.iter().any(|tool| format!("{PREFIX}{tool}") == name)
    }

    /// Makes a call, and tells the model what came of it. Whether it could be made.
    fn make(&mut self, used: &Value, asked: Option<String>, is_cut: bool) -> Came<bool> {
        // The model was told at once.
        if !self.can_be_called(&used["name"]) {
            return Ok(false);
        }
        let tell = |text: &Value, is_error: bool| told(used, text, is_error);
        if is_cut {
            if let Some(asked) = asked {
                self.answer_to(&asked)?;
            }
            self.say(&tell(&"<tool_use_error>InputValidationError: no JSON</tool_use_error>".into(), true));
            return Ok(false);
        }
        let asked = asked.unwrap_or_else(|| self.hook("PreToolUse", used, &json!({})));
        let decided = self.answer_to(&asked)?["hookSpecificOutput"].take();
        if decided["permissionDecision"] != "allow" {
            self.say(&tell(&decided["permissionDecisionReason"], true));
            return Ok(false);
        }
        let (content, is_error) = if used["name"] == "StructuredOutput" {
            (json!("Structured output provided successfully"), false)
        } else {
            let name = used["name"].as_str().unwrap().trim_start_matches(PREFIX);
            let params = json!({
                "name": name, "arguments": used["input"], "_meta": { "claudecode/toolUseId": used["id"] },
            });
            let mut result = self.mcp("tools/call", params)?;
            self.write_down("told", &result["content"].to_string());
            (result["content"].take(), result["isError"] == true)
        };
        let (event, more) = match is_error {
            true => ("PostToolUseFailure", json!({ "error": content })),
            false => ("PostToolUse", json!({ "tool_response": content })),
        };
        let after = self.hook(event, used, &more);
        self.answer_to(&after)?;
        self.say(&tell(&content, is_error));
        Ok(true)
    }

    fn hook(&mut self, event: &str, used: &Value, more: &Value) -> String {
        let mut input = json!({
            "hook_event_name": event, "tool_name": used["name"], "tool_use_id": used["id"], "tool_input": used["input"],
        });
        for (name, value) in more.as_object().unwrap() {
            input[name] = value.clone();
        }
        self.ask(&json!({ "subtype": "hook_callback", "callback_id": event, "input": input }))
    }

    fn list(&mut self) -> Came<()> {
        let listed = self.mcp("tools/list", json!({}))?;
        let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
        self.tools = listed["tools"].as_array().unwrap().iter().map(name).collect();
        Ok(())
    }

    /// Asks the server in the other process, and gives its result.
    fn mcp(&mut self, method: &str, params: Value) -> Came<Value> {
        let message = json!({ "jsonrpc": "2.0", "id": self.asks, "method": method, "params": params });
        let id = self.ask(&json!({ "subtype": "mcp_message", "server_name": "wink", "message": message }));
        Ok(self.answer_to(&id)?["mcp_response"]["result"].take())
    }

    fn ask(&mut self, request: &Value) -> String {
        self.asks += 1;
        let id = format!("p{}", self.asks);
        self.say(&json!({ "type": "control_request", "request_id": id, "request": request }));
        id
    }

    fn answer_to(&mut self, id: &str) -> Came<Value> {
        loop {
            let mut heard = self.hear()?;
            if heard["type"] == "control_response" {
                let mut response = heard["response"].take();
                return match (response["request_id"] == id, response["subtype"] == "success") {
                    (true, true) => Ok(response["response"].take()),
                    (true, false) => Ok(Value::Null),
                    (false, _) => {
                        Err(Ends::Wrong(format!("{id} was asked, and this was answered: {response}")))
                    }
                };
            }
            self.handle(&heard)?;
        }
    }

    fn until_interrupted(&mut self) -> Came<()> {
        loop {
            let heard = self.hear()?;
            self.handle(&heard)?;
        }
    }

    /// What may come at any time.
    fn handle(&mut self, heard: &Value) -> Came<()> {
        if heard["type"] == "user" {
            self.waiting.push_back(heard.clone());
            return Ok(());
        }
        match heard["request"]["subtype"].as_str() {
            Some("interrupt") => {
                self.reply(&heard["request_id"], &json!({ "still_queued": [] }));
                Err(Ends::Interrupted)
            }
            Some("mcp_message") => {
                self.reply(&heard["request_id"], &json!({}));
                // The tools are listed anew before the model is asked again.
                self.has_other_tools = true;
                Ok(())
            }
            _ => Err(Ends::Wrong(format!("nobody asked for this: {heard}"))),
        }
    }

    fn hear(&self) -> Came<Value> {
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => Err(Ends::Gone),
            Ok(_) => serde_json::from_str(&line).map_err(|error| Ends::Wrong(format!("{error}: {line}"))),
        }
    }

    fn reply(&self, id: &Value, answer: &Value) {
        let response = json!({ "subtype": "success", "request_id": id, "response": answer });
        self.say(&json!({ "type": "control_response", "response": response }));
    }

    fn result(&self, more: Value) {
        let mut result = json!({ "type": "result", "subtype": "success" });
        for (name, value) in more.as_object().unwrap() {
            result[name] = value.clone();
        }
        self.say(&result);
    }

    fn event(&self, event: &Value) {
        self.say(&json!({ "type": "stream_event", "event": event, "parent_tool_use_id": null }));
    }

    fn say(&self, frame: &Value) {
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{frame}").and_then(|()| out.flush()).is_err() {
            std::process::exit(0);
        }
    }

    /// How many lines of the script were said, also by those who were here before.
    fn line_number(&self) -> usize {
        std::fs::read_to_string(self.place.join("said")).map_or(0, |said| said.len())
    }

    fn next_line(&self) -> Option<Value> {
        let script = std::fs::read_to_string(self.place.join("script")).unwrap();
        let at = self.line_number();
        std::fs::write(self.place.join("said"), "x".repeat(at + 1)).unwrap();
        let line = script.lines().nth(at);
        line.map(|line| serde_json::from_str(line).unwrap())
    }
}

/// The model is told what came of a call.
fn told(used: &Value, text: &Value, is_error: bool) -> Value {
    let block =
        json!({ "type": "tool_result", "tool_use_id": used["id"], "content": text, "is_error": is_error });
    json!({ "type": "user", "message": { "role": "user", "content": [block] }, "parent_tool_use_id": null })
}
