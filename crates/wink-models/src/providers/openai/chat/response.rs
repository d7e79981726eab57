//! An answer of Chat Completions, as a whole.

use serde::Deserialize;
use serde_json::Value;
use wink::limits::TokenUsage;

use crate::providers::error;
use crate::providers::estimate::UNSAID;
use crate::providers::lenient::{self, Written};
use crate::providers::openai::{arguments, made_up_id};
use crate::{Called, ModelError, ModelResponse, Stop};

#[derive(Deserialize)]
struct Answer {
    #[serde(default, deserialize_with = "lenient::or_default")]
    choices: Vec<Choice>,
    #[serde(default, deserialize_with = "lenient::or_none")]
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Said,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default, deserialize_with = "lenient::text")]
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<Call>>,
    /// Where LiteLLM puts what it does not know.
    provider_specific_fields: Option<Specific>,
}

#[derive(Deserialize)]
struct Specific {
    refusal: Option<String>,
}

#[derive(Deserialize)]
struct Call {
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default, deserialize_with = "lenient::or_default")]
    name: String,
    #[serde(default)]
    arguments: Written,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(super) struct Usage {
    #[serde(default, deserialize_with = "lenient::count")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::count")]
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct Details {
    #[serde(default, deserialize_with = "lenient::count")]
    cached_tokens: Option<u64>,
}

impl Usage {
    pub(super) fn tokens(self) -> TokenUsage {
        TokenUsage {
            input_tokens: self.prompt_tokens.unwrap_or(UNSAID),
            output_tokens: self.completion_tokens.unwrap_or(UNSAID),
            cached_tokens: self
                .prompt_tokens_details
                .and_then(|details| details.cached_tokens)
                .unwrap_or_default(),
        }
    }
}

pub(super) fn read(answer: &[u8]) -> Result<ModelResponse, ModelError> {
    let answer: Answer = serde_json::from_slice(answer).map_err(error::malformed)?;
    if let Some(said) = answer.error.filter(|error| !error.is_null()) {
        return Err(error::of_object(&said));
    }
    let choice = answer.choices.into_iter().next().ok_or_else(|| error::malformed("there is no choice"))?;
    let calls = choice.message.tool_calls.unwrap_or_default().into_iter().map(|call| {
        let id = call.id.filter(|id| !id.is_empty()).map_or_else(made_up_id, Into::into);
        Called { id, name: call.function.name.into(), arguments: arguments(&call.function.arguments.0) }
    });
    let elsewhere = choice.message.provider_specific_fields.and_then(|fields| fields.refusal);
    let said = Collected {
        text: choice.message.content.unwrap_or_default(),
        refusal: choice.message.refusal.or(elsewhere).unwrap_or_default(),
        calls: calls.collect(),
        finish_reason: choice.finish_reason,
        usage: answer.usage.unwrap_or_default(),
    };
    Ok(said.response())
}

/// An answer that is complete, however it came.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) text: String,
    pub(super) refusal: String,
    pub(super) calls: Vec<Called>,
    pub(super) finish_reason: Option<String>,
    pub(super) usage: Usage,
}

impl Collected {
    pub(super) fn response(self) -> ModelResponse {
        let refused = !self.refusal.is_empty();
        let stop = match self.finish_reason.as_deref() {
            _ if refused => Stop::Refused,
            Some("content_filter") => Stop::Refused,
            Some("length") => Stop::Truncated,
            _ => Stop::Complete,
        };
        let text = if refused { self.refusal } else { self.text };
        ModelResponse {
            text: text.into(),
            calls: self.calls,
            stop,
            usage: self.usage.tokens(),
            provider: None,
        }
    }
}
