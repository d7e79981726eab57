//! A model: one request, one response.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use imbl::Vector;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wink::BoxFuture;
use wink::limits::{CancelToken, TokenUsage};

use crate::message::{Called, Message};
use crate::recording::Scrubber;

/// Something that answers requests: a provider's API, a local server, or a script.
pub trait Model: Send + Sync + 'static {
    /// What the model is called, for logs and recordings. Never a secret.
    fn name(&self) -> &str;

    /// What it knows and nobody else may: its key. It is kept out of the task, of what calls say, and with that out of the log.
    fn scrubber(&self) -> Scrubber {
        Scrubber::new()
    }

    /// Answers a request. What arrives early is told to `stream`; the response has all of it again.
    ///
    /// When `cancel` is cancelled the request is given up and the connection closed; dropping the future does the same.
    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        stream: &'a dyn Stream,
        cancel: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>>;
}

/// A model that is not known by its type.
pub type BoxModel = Arc<dyn Model>;

/// What a model is asked. Cheap to clone, however long the conversation is.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The rendered prompt.
    pub prompt: Arc<str>,
    /// What was said since.
    pub messages: Vector<Arc<Message>>,
    /// What it may call, in order.
    pub tools: Arc<[ToolSpec]>,
    /// What its last message has to be.
    pub output: Option<Arc<OutputSpec>>,
    /// How it is asked.
    pub settings: Arc<Settings>,
}

/// A tool, as a model is told of it. The schema is the tool's own; each provider lowers it to its dialect.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name.
    pub name: Arc<str>,
    /// What it is for.
    pub description: Arc<str>,
    /// JSON Schema of its parameters.
    pub parameters: Arc<Value>,
    /// Example arguments.
    pub examples: Arc<[Value]>,
}

/// The form of a typed result.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputSpec {
    /// What the type is called: letters, digits, `_` and `-`, at most 64.
    pub name: Arc<str>,
    /// JSON Schema of it, which is of an object.
    pub schema: Arc<Value>,
}

/// How a model is asked. What is not set is left to the provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Tokens of one response at most.
    pub max_output_tokens: Option<u32>,
    /// How much chance there is in the choice of words.
    pub temperature: Option<f64>,
    /// Further fields of the provider's request, taken as they are.
    pub extra: serde_json::Map<String, Value>,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    /// Its text.
    #[serde(default)]
    pub text: Arc<str>,
    /// What it calls.
    #[serde(default, rename = "tool_calls")]
    pub calls: Vec<Called>,
    /// Why it ended.
    #[serde(default)]
    pub stop: Stop,
    /// What it cost. Budgets count this and nothing else: a model that does not know what an answer cost says what it may have cost,
    /// as the providers do where their servers are silent about it.
    #[serde(default)]
    pub usage: TokenUsage,
    /// For [`Message::Assistant`], as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Arc<Value>>,
}

/// Why a response ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It was complete: text, or calls.
    #[default]
    Complete,
    /// It reached the limit of its length, and may be cut in the middle of a call.
    Truncated,
    /// The model, or the provider for it, refused.
    Refused,
    /// The provider paused a long turn, and wants to be asked to go on.
    Paused,
    /// It is complete, and not in the form that every response has to have, so that nobody knows whether it is a last word.
    Formless,
}

/// What arrives while a model answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// More of the text.
    Text(&'a str),
    /// More of what the model thinks, where that is shown.
    Thinking(&'a str),
    /// A call has begun.
    Call {
        /// Its tool.
        name: &'a str,
    },
}

/// Is told of what arrives.
pub trait Stream: Send + Sync {
    /// Something has arrived.
    fn piece(&self, piece: Piece<'_>);
}

impl Stream for () {
    fn piece(&self, _: Piece<'_>) {}
}

/// A request was not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct ModelError {
    /// What kind of failure it is; what is done next depends on it.
    pub kind: ModelErrorKind,
    /// The provider's words, without secrets.
    pub message: String,
    /// Whether asking again can do no harm: nothing was begun.
    pub retry_safe: bool,
    /// How long the provider wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// The kinds of [`ModelError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// Too many requests, or too many tokens.
    Throttled,
    /// The provider is overloaded, or failed for a reason of its own.
    Unavailable,
    /// It could not be reached, or the connection broke.
    Connection,
    /// It took too long.
    TimedOut,
    /// The key is missing, wrong, or not allowed to do this.
    Unauthorized,
    /// The request is not one that the provider takes.
    Rejected,
    /// The conversation is longer than the model can take.
    TooLong,
    /// What came back is not what the provider says that it sends.
    Malformed,
    /// The request was cancelled.
    Cancelled,
}

impl fmt::Display for ModelErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Throttled => "the provider asks to slow down",
            Self::Unavailable => "the provider is not available",
            Self::Connection => "the provider cannot be reached",
            Self::TimedOut => "the provider took too long",
            Self::Unauthorized => "the provider does not accept the key",
            Self::Rejected => "the provider does not take the request",
            Self::TooLong => "the conversation is too long for the model",
            Self::Malformed => "the provider's answer cannot be understood",
            Self::Cancelled => "the request was cancelled",
        })
    }
}
