//! An answer of Anthropic's, as a whole.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wink::limits::TokenUsage;

use crate::providers::estimate::UNSAID;
use crate::providers::{error, lenient};
use crate::{Called, ModelError, ModelResponse, Stop};

/// Whose `provider` it is: another provider's is not ours to send.
const BY: &str = "anthropic";

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_none")]
    usage: Option<Usage>,
}

/// What was used; later counts take the place of earlier ones.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(super) struct Usage {
    #[serde(default, deserialize_with = "lenient::count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::count")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::count")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::count")]
    cache_read_input_tokens: Option<u64>,
}

impl Usage {
    pub(super) fn update(&mut self, later: Self) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cache_creation_input_tokens =
            later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens = later.cache_read_input_tokens.or(self.cache_read_input_tokens);
    }

    /// The provider counts what is or was put into its cache apart from the rest of the input.
    fn tokens(self) -> TokenUsage {
        let cached_tokens = self.cache_read_input_tokens.unwrap_or_default();
        let written = self.cache_creation_input_tokens.unwrap_or_default();
        let input = self.input_tokens.unwrap_or(UNSAID);
        TokenUsage {
            input_tokens: input.saturating_add(written).saturating_add(cached_tokens),
            output_tokens: self.output_tokens.unwrap_or(UNSAID),
            cached_tokens,
        }
    }
}

/// A block of an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Block {
    Text(String),
    Call(Called),
    /// What is only kept: thinking, and what the provider's own tools did.
    Other(Value),
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct ToolUse<'a> {
    id: String,
    name: String,
    #[serde(borrow)]
    input: &'a RawValue,
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

impl Block {
    pub(super) fn read(raw: &RawValue) -> Result<Self, ModelError> {
        let text = raw.get();
        let head: Head<'_> = serde_json::from_str(text).map_err(error::malformed)?;
        let block = match &*head.kind {
            "text" => serde_json::from_str::<Text>(text).map(|block| Self::Text(block.text)),
            "tool_use" => serde_json::from_str::<ToolUse<'_>>(text).map(|block| {
                let (id, name, arguments) = (block.id.into(), block.name.into(), block.input.get().into());
                Self::Call(Called { id, name, arguments })
            }),
            _ => serde_json::from_str(text).map(Self::Other),
        };
        block.map_err(error::malformed)
    }
}

pub(super) fn read(answer: &[u8]) -> Result<ModelResponse, ModelError> {
    let answer: Answer<'_> = serde_json::from_slice(answer).map_err(error::malformed)?;
    let blocks = answer.content.iter().map(|raw| Block::read(raw)).collect::<Result<_, _>>()?;
    Ok(response(blocks, answer.stop_reason.as_deref(), answer.usage.unwrap_or_default()))
}

pub(super) fn response(blocks: Vec<Block>, stop_reason: Option<&str>, usage: Usage) -> ModelResponse {
    let provider =
        blocks.iter().any(|block| matches!(block, Block::Other(_))).then(|| Arc::new(kept(&blocks)));
    let (mut text, mut calls) = (String::new(), Vec::new());
    for block in blocks {
        match block {
            Block::Text(more) => text.push_str(&more),
            Block::Call(call) => calls.push(call),
            Block::Other(_) => {}
        }
    }
    let stop = match stop_reason {
        Some("max_tokens" | "model_context_window_exceeded") => Stop::Truncated,
        Some("refusal") => Stop::Refused,
        Some("pause_turn") => Stop::Paused,
        _ => Stop::Complete,
    };
    ModelResponse { text: text.into(), calls, stop, usage: usage.tokens(), provider }
}

/// The blocks in their order. Of calls only which they are: the rest is in the message.
fn kept(blocks: &[Block]) -> Value {
    let blocks = blocks.iter().filter_map(|block| match block {
        Block::Text(text) if text.trim().is_empty() => None,
        Block::Text(text) => Some(json!({ "type": "text", "text": text })),
        Block::Call(call) => Some(json!({ "type": "tool_use", "id": call.id })),
        Block::Other(value) => Some(value.clone()),
    });
    json!({ "by": BY, "content": blocks.collect::<Value>() })
}

/// The blocks that were kept, if they are ours.
pub(super) fn kept_content(provider: Option<&Value>) -> Option<&Vec<Value>> {
    provider.filter(|kept| kept.get("by").is_some_and(|by| by == BY))?.get("content")?.as_array()
}
