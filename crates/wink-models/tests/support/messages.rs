//! A server of the Messages API on loopback whose model follows a script. What it says next depends on the conversation that it is
//! sent, and not on how often it was asked: Claude Code asks for other things beside it.

#![allow(unreachable_pub, reason = "shared by tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What is answered: blocks of a message, or a status and the type of an error.
pub type Answer = Result<Vec<Value>, (u16, &'static str)>;

/// What becomes of a request.
pub enum Reply {
    /// A message of these blocks, why it ended if that is not plain, and what it cost.
    Message { blocks: Vec<Value>, stop: Option<&'static str>, usage: Value },
    /// A status, the type of an error, and what it says.
    Error(u16, &'static str, &'static str),
    /// The connection is closed.
    Gone,
    /// No answer ever comes.
    Silent,
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        match answer {
            Ok(blocks) => {
                let usage = json!({ "input_tokens": 10, "output_tokens": 5 });
                Self::Message { blocks, stop: None, usage }
            }
            Err((status, kind)) => Self::Error(status, kind, "no"),
        }
    }
}

pub struct Messages {
    pub url: String,
    pub asked: Arc<Mutex<Vec<Value>>>,
}

impl Messages {
    /// Asks `script` with the request, and with how many messages of the model it has.
    pub fn start<R: Into<Reply>>(script: impl Fn(&Value, usize) -> R + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (script, seen) = (Arc::new(script), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                std::thread::spawn(move || {
                    serve(stream.unwrap(), &|request, turn| script(request, turn).into(), &seen)
                });
            }
        });
        Self { url, asked }
    }

    /// The last conversation that was sent.
    pub fn last(&self) -> Value {
        self.asked.lock().unwrap().last().cloned().unwrap()
    }
}

fn serve(mut stream: TcpStream, script: &dyn Fn(&Value, usize) -> Reply, asked: &Mutex<Vec<Value>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            match header.trim().to_ascii_lowercase().split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let (status, kind, text) = if first.starts_with("POST /v1/messages")
            && !first.contains("count_tokens")
        {
            let request: Value = serde_json::from_slice(&body).unwrap();
            asked.lock().unwrap().push(request.clone());
            let said = request["messages"].as_array().unwrap();
            let turn = said.iter().filter(|message| message["role"] == "assistant").count();
            match script(&request, turn) {
                Reply::Message { blocks, stop, usage } => {
                    (200, "text/event-stream", events(&request, turn, (&blocks, stop, &usage)))
                }
                Reply::Error(status, error, message) => {
                    let error = json!({ "type": "error", "error": { "type": error, "message": message } });
                    (status, "application/json", error.to_string())
                }
                Reply::Gone => return,
                // Until the other side gives up.
                Reply::Silent => {
                    let _ = reader.read(&mut [0]);
                    return;
                }
            }
        } else {
            (if first.starts_with("HEAD") { 200 } else { 404 }, "application/json", String::new())
        };
        let length = text.len();
        let head = format!("HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
        if stream.write_all(format!("{head}{text}").as_bytes()).is_err() {
            return;
        }
    }
}

fn events(request: &Value, turn: usize, (blocks, stop, usage): (&[Value], Option<&str>, &Value)) -> String {
    let calls = blocks.iter().any(|block| block["type"] == "tool_use");
    let message = json!({
        "id": format!("msg_{turn}_{}", request["messages"][0]["content"].to_string().len()), "type": "message", "role": "assistant",
        "model": request["model"], "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": usage,
    });
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    for (index, block) in blocks.iter().enumerate() {
        let (mut empty, deltas) = (
            block.clone(),
            match block["type"].as_str() {
                Some("text") => {
                    let letters: Vec<char> = block["text"].as_str().unwrap().chars().collect();
                    let more =
                        |more: &[char]| json!({ "type": "text_delta", "text": String::from_iter(more) });
                    letters.chunks(64).map(more).collect()
                }
                // A text is what it wrote, whatever that is.
                _ => {
                    let input = &block["input"];
                    let written = input.as_str().map_or_else(|| input.to_string(), str::to_owned);
                    vec![json!({ "type": "input_json_delta", "partial_json": written })]
                }
            },
        );
        match block["type"].as_str() {
            Some("text") => empty["text"] = "".into(),
            _ => empty["input"] = json!({}),
        }
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": empty }));
        for delta in deltas {
            events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let stop = stop.unwrap_or(if calls { "tool_use" } else { "end_turn" });
    let delta = json!({ "stop_reason": stop, "stop_sequence": null });
    events.push(json!({ "type": "message_delta", "delta": delta, "usage": usage }));
    events.push(json!({ "type": "message_stop" }));
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}
