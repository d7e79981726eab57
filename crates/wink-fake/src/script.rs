//! What the server says: one turn for each request that it takes, in order.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The turns of a server.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// In order.
    pub turns: Vec<Turn>,
}

impl Script {
    /// From JSON lines, one turn each. Empty lines and those that begin with `#` are left out.
    ///
    /// # Errors
    /// With the number of the line that is no turn, and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines =
            text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let turns = lines.map(|(number, line)| {
            serde_json::from_str(line).map_err(|reason| format!("line {}: {reason}", number + 1))
        });
        Ok(Self { turns: turns.collect::<Result<_, _>>()? })
    }
}

/// What is done with a request.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Turn {
    /// It is not answered.
    Fault(Fault),
    /// It is answered.
    Reply(Reply),
}

/// Why a request is not answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// 429.
    Throttled {
        /// For the header `retry-after`, as it is.
        #[serde(default)]
        retry_after: Option<String>,
        /// For the header `retry-after-ms`.
        #[serde(default)]
        retry_after_ms: Option<u64>,
        /// For the header `x-should-retry`.
        #[serde(default)]
        should_retry: Option<bool>,
    },
    /// 429, and waiting does not help.
    Quota,
    /// 529 of Anthropic, 503 of OpenAI.
    Overloaded,
    /// 500.
    Broken,
    /// 401, with the key in the text.
    Unauthorized,
    /// 400: the conversation is too long.
    TooLong,
    /// 200, and nothing that could be understood.
    Nonsense,
    /// The connection is closed before there is an answer.
    Gone,
    /// No answer comes.
    Silent,
}

/// An answer, in words of no provider.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// The text.
    pub text: String,
    /// What is thought before.
    pub thinking: String,
    /// The calls.
    pub tool_calls: Vec<Call>,
    /// Why it ends.
    pub stop: Stop,
    /// What it cost. A server that does not say so has null here.
    #[serde(default = "told")]
    pub usage: Option<Usage>,
    /// After how many events (or halfway through a whole answer) the connection is closed.
    pub cut: Option<usize>,
    /// After how many events nothing more comes.
    pub stall: Option<usize>,
    /// After how many events the provider says that it is overloaded.
    pub fail: Option<usize>,
    /// How long it takes from one event to the next.
    pub slow_ms: u64,
    /// How many bytes are sent at a time; all of an event unless given.
    pub chunk: Option<usize>,
}

fn told() -> Option<Usage> {
    Some(Usage::default())
}

/// A call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments: text as it is, or any JSON.
    #[serde(deserialize_with = "as_text")]
    pub arguments: String,
}

fn as_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        other => other.to_string(),
    })
}

/// Why an answer ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It is complete.
    #[default]
    Complete,
    /// It is too long.
    Truncated,
    /// It is refused.
    Refused,
    /// It goes on when asked; only with Anthropic.
    Paused,
}

/// Tokens.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// All of the input.
    pub input_tokens: u64,
    /// All of the output.
    pub output_tokens: u64,
    /// Of the input, what was cached.
    pub cached_tokens: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input_tokens: 100, output_tokens: 20, cached_tokens: 0 }
    }
}
