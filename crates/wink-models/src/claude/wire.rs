//! The frames that go between us and the program: one JSON object on each line, either way.
//!
//! What the program says beside what is named here is ignored: it says a lot, and more with every version. What it asks and
//! nobody knows is refused, so that it does not wait.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use serde_json::{Map, Value, json};
use wink::limits::TokenUsage;

/// How long the program waits for a hook: longer than any call takes, since a call may wait for others and for an approver.
const HOOK_SECONDS: u64 = 7 * 24 * 60 * 60;

/// The events that a hook is registered for; each callback has the name of its event.
const HOOKS: [&str; 3] = ["PreToolUse", "PostToolUse", "PostToolUseFailure"];

/// What the program says.
#[derive(Debug)]
pub(super) enum Frame {
    /// It wants to know something.
    Asked { id: String, asked: Asked },
    /// It does not want to know any more.
    NeverMind { id: String },
    /// It answers.
    Answered { id: String, answer: Result<Value, String> },
    /// A piece of a response.
    Assistant(Said),
    /// What the model is told: results of tools.
    User(Said),
    /// A response as it arrives.
    Event { of_sub_agent: bool, event: Box<Event> },
    /// A request failed, and it sends it again after a while.
    Retried { status: Option<u16>, error: String, delay: Option<Duration> },
    /// It is done with a turn of the user.
    Result(Box<Finished>),
    /// Anything else.
    Other,
}

/// What the program wants to know.
#[derive(Debug)]
pub(super) enum Asked {
    /// What is to be done about a tool that it runs.
    Hook(Hook),
    /// What an MCP server says.
    Mcp { server: String, message: Value },
    /// Something that we do not know.
    Unknown(String),
}

/// A tool is about to run, or has run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Hook {
    #[serde(rename = "hook_event_name")]
    pub(super) event: String,
    pub(super) tool_name: String,
    pub(super) tool_use_id: String,
    pub(super) tool_input: Value,
    pub(super) tool_response: Value,
    pub(super) error: Value,
}

/// A message, of the model or to it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Said {
    pub(super) message: Message,
    /// The call of the sub-agent that it belongs to.
    pub(super) parent_tool_use_id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) content: Value,
    pub(super) usage: Usage,
}

/// What a response cost.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl Usage {
    /// The input has all tokens that were sent, wherever the provider had them from.
    pub(super) fn tokens(self) -> TokenUsage {
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let made = self.cache_creation_input_tokens.unwrap_or(0);
        let input = self.input_tokens.unwrap_or(0).saturating_add(cached).saturating_add(made);
        TokenUsage {
            input_tokens: input,
            output_tokens: self.output_tokens.unwrap_or(0),
            cached_tokens: cached,
        }
    }

    /// This, with what came later.
    pub(super) fn updated(self, later: Self) -> Self {
        Self {
            input_tokens: later.input_tokens.or(self.input_tokens),
            output_tokens: later.output_tokens.or(self.output_tokens),
            cache_read_input_tokens: later.cache_read_input_tokens.or(self.cache_read_input_tokens),
            cache_creation_input_tokens: later
                .cache_creation_input_tokens
                .or(self.cache_creation_input_tokens),
        }
    }
}

/// One event of a response as it arrives.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) message: Message,
    pub(super) delta: Delta,
    pub(super) content_block: Block,
    pub(super) usage: Usage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) stop_reason: Option<String>,
}

/// A part of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: Value,
    pub(super) tool_use_id: String,
    pub(super) content: Value,
    pub(super) is_error: Option<bool>,
}

/// The program is done with a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Finished {
    pub(super) subtype: String,
    pub(super) is_error: bool,
    pub(super) result: Option<String>,
    pub(super) structured_output: Option<Value>,
    pub(super) stop_reason: Option<String>,
    pub(super) terminal_reason: Option<String>,
    pub(super) api_error: Option<String>,
    pub(super) api_error_status: Option<u16>,
    pub(super) errors: Vec<String>,
    #[serde(rename = "modelUsage")]
    model_usage: Map<String, Value>,
}

impl Finished {
    /// What everything cost since the program began: sub-agents, and what it asks for itself, too.
    pub(super) fn usage(&self) -> TokenUsage {
        let count = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64);
        let usage = |of: &Value| Usage {
            input_tokens: count(of, "inputTokens"),
            output_tokens: count(of, "outputTokens"),
            cache_read_input_tokens: count(of, "cacheReadInputTokens"),
            cache_creation_input_tokens: count(of, "cacheCreationInputTokens"),
        };
        self.model_usage
            .values()
            .fold(TokenUsage::default(), |whole, model| whole.plus(usage(model).tokens()))
    }
}

impl Message {
    /// Its parts; a plain text is one.
    pub(super) fn blocks(&self) -> Vec<Block> {
        match &self.content {
            Value::String(text) => {
                vec![Block { kind: "text".to_owned(), text: Some(text.clone()), ..Block::default() }]
            }
            Value::Array(blocks) => {
                blocks.iter().filter_map(|block| Block::deserialize(block).ok()).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The text of a result: it is one, or has blocks of it.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A line is no frame, though it looks like one.
#[derive(Debug)]
pub(super) struct NotAFrame(pub(super) String);

impl Frame {
    /// Whether anything comes of a line but something to be seen. Pieces of a text come again as a whole, and whoever writes down pieces
    /// cannot know a secret by them.
    pub(super) fn matters(line: &[u8]) -> bool {
        match Self::read(line) {
            Ok(Self::Other) => false,
            Ok(Self::Event { event, .. }) => event.kind != "content_block_delta",
            Ok(_) | Err(_) => true,
        }
    }

    /// Reads a line.
    pub(super) fn read(line: &[u8]) -> Result<Self, NotAFrame> {
        let line = line.trim_ascii();
        if line.first() != Some(&b'{') {
            // Some versions say something for people in between.
            return Ok(Self::Other);
        }
        let mut frame: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| NotAFrame(error.to_string()))?;
        let kind = text(&mut frame, "type");
        Ok(match kind.as_str() {
            "control_request" => {
                let id = text(&mut frame, "request_id");
                let request = frame.remove("request").unwrap_or_default();
                Self::Asked { id, asked: Asked::read(request) }
            }
            "control_cancel_request" => Self::NeverMind { id: text(&mut frame, "request_id") },
            "control_response" => {
                let Some(Value::Object(mut response)) = frame.remove("response") else {
                    return Ok(Self::Other);
                };
                let id = text(&mut response, "request_id");
                let answer = match text(&mut response, "subtype").as_str() {
                    "success" => Ok(response.remove("response").unwrap_or_default()),
                    _ => Err(text(&mut response, "error")),
                };
                Self::Answered { id, answer }
            }
            "assistant" => read(frame, Self::Assistant),
            "user" => read(frame, Self::User),
            "stream_event" => {
                let of_sub_agent = frame.get("parent_tool_use_id").is_some_and(|id| !id.is_null());
                match frame.remove("event").map(Event::deserialize) {
                    Some(Ok(event)) => Self::Event { of_sub_agent, event: Box::new(event) },
                    Some(Err(_)) | None => Self::Other,
                }
            }
            "system" if text(&mut frame, "subtype") == "api_retry" => {
                let number = |name| frame.get(name).and_then(Value::as_u64);
                Self::Retried {
                    status: number("error_status").and_then(|status| u16::try_from(status).ok()),
                    delay: number("retry_delay_ms").map(Duration::from_millis),
                    error: text(&mut frame, "error"),
                }
            }
            // Whatever else is wrong with it: the turn is over.
            "result" => Self::Result(Finished::deserialize(Value::Object(frame)).unwrap_or_default().into()),
            _ => Self::Other,
        })
    }
}

fn read<T: for<'de> Deserialize<'de>>(frame: Map<String, Value>, of: impl FnOnce(T) -> Frame) -> Frame {
    T::deserialize(Value::Object(frame)).map_or(Frame::Other, of)
}

fn text(frame: &mut Map<String, Value>, name: &str) -> String {
    match frame.remove(name) {
        Some(Value::String(text)) => text,
        Some(_) | None => String::new(),
    }
}

impl Asked {
    fn read(request: Value) -> Self {
        let Value::Object(mut request) = request else { return Self::Unknown(String::new()) };
        let subtype = text(&mut request, "subtype");
        match subtype.as_str() {
            "hook_callback" => match request.remove("input").map(Hook::deserialize) {
                Some(Ok(hook)) => Self::Hook(hook),
                Some(Err(_)) | None => Self::Unknown(subtype),
            },
            "mcp_message" => Self::Mcp {
                server: text(&mut request, "server_name"),
                message: request.remove("message").unwrap_or_default(),
            },
            _ => Self::Unknown(subtype),
        }
    }
}

/// Asks the program something.
pub(super) fn ask(id: &str, request: &Value) -> Value {
    json!({ "type": "control_request", "request_id": id, "request": request })
}

/// Answers the program.
pub(super) fn answer(id: &str, answer: Result<Value, String>) -> Value {
    let response = match answer {
        Ok(response) => json!({ "subtype": "success", "request_id": id, "response": response }),
        Err(error) => json!({ "subtype": "error", "request_id": id, "error": error }),
    };
    json!({ "type": "control_response", "response": response })
}

/// The first thing that the program is told: which hooks there are. A hook that fails keeps its tool from running.
pub(super) fn initialize() -> Value {
    let hook =
        |event: &str| json!([{ "hookCallbackIds": [event], "timeout": HOOK_SECONDS, "onFailure": "block" }]);
    let hooks: Map<String, Value> = HOOKS.iter().map(|event| ((*event).to_owned(), hook(event))).collect();
    json!({ "subtype": "initialize", "hooks": hooks })
}

/// What the user says. What begins with a slash would be a command of the program's.
pub(super) fn user(text: &str) -> Value {
    let text = if text.starts_with('/') { format!("\n{text}") } else { text.to_owned() };
    json!({ "type": "user", "message": { "role": "user", "content": text }, "parent_tool_use_id": null, "session_id": "" })
}

/// A tool may run.
pub(super) fn allow() -> Value {
    json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "permissionDecision": "allow" } })
}

/// A tool may not run.
pub(super) fn deny(reason: &str) -> Value {
    json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": reason,
    } })
}

/// What the model is to know beside the tool's own answer.
pub(super) fn more(event: &str, text: &str) -> Value {
    match text.is_empty() {
        true => json!({}),
        false => json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } }),
    }
}

/// What a tool did could not be kept.
pub(super) fn undone(reason: &str) -> Value {
    json!({ "decision": "block", "reason": reason })
}

/// The arguments of a call, as the program writes them: it decodes what the model sent to doubles, and writes an integer of up
/// to 21 digits with all of them. So one that is outside 64 bits is still refused by name, and not rounded.
pub(super) fn written(arguments: &Value) -> String {
    struct Digits;

    impl Formatter for Digits {
        fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
            const MOST_DIGITS: f64 = 1e21;
            if value.fract() == 0.0 && value.abs() < MOST_DIGITS {
                return write!(writer, "{value:.0}");
            }
            CompactFormatter.write_f64(writer, value)
        }
    }

    let mut text = Vec::new();
    let encoded = arguments.serialize(&mut Serializer::with_formatter(&mut text, Digits));
    match encoded {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => arguments.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // case 253
    #[test]
    fn integers_outside_64_bits_keep_their_digits() {
        let line = r#"{"wei":20000000000000000001,"low":-20000000000000000001,"id":18446744073709551615,"half":0.5,"far":1e+21}"#;
        let decoded: Value = serde_json::from_str(line).unwrap_or_default();
        assert_eq!(
            written(&decoded),
            r#"{"wei":20000000000000000000,"low":-20000000000000000000,"id":18446744073709551615,"half":0.5,"far":1e+21}"#
        );
    }
}
