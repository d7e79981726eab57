//! Chat Completions: OpenAI's older API, which LiteLLM's proxy, llama.cpp, vLLM, Ollama and others speak too.

mod constrained;
mod request;
mod response;
mod stream;

use super::KEY_HEADER;
use crate::dialect::Dialect;
use crate::providers::api::{Api, Asked, Events};
use crate::providers::{Endpoint, Provider, SetupError};
use crate::{ModelError, ModelResponse};

/// How a model calls tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolMode {
    /// By the API's own tool calls.
    #[default]
    Native,
    /// By output that is held to a schema: each response is either one call or the final text. For models that were not made for
    /// tools, on servers that can constrain what they write.
    Constrained,
}

/// What the limit of a response's length is called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LengthField {
    /// `max_completion_tokens`, as OpenAI wants it.
    #[default]
    MaxCompletionTokens,
    /// `max_tokens`, as most other servers do.
    MaxTokens,
}

/// The Chat Completions API, for one model.
#[derive(Debug, Clone)]
pub struct Chat {
    model: String,
    tools: ToolMode,
    length: LengthField,
}

impl Chat {
    /// The API for the model of this name.
    pub fn new(model: impl Into<String>) -> Self {
        Self { model: model.into(), tools: ToolMode::default(), length: LengthField::default() }
    }

    /// How the model calls tools.
    #[must_use]
    pub fn tools(mut self, mode: ToolMode) -> Self {
        self.tools = mode;
        self
    }

    /// What the limit of a response's length is called.
    #[must_use]
    pub fn length_field(mut self, field: LengthField) -> Self {
        self.length = field;
        self
    }

    /// The model at an address: [`BASE_URL`](super::BASE_URL), or whoever speaks the same.
    ///
    /// # Errors
    /// When the endpoint cannot be used.
    pub fn at(self, endpoint: Endpoint) -> Result<Provider, SetupError> {
        Provider::new(self, endpoint)
    }

    /// Without tools there is nothing to constrain.
    fn mode(&self, asked: &Asked<'_>) -> ToolMode {
        if asked.request.tools.is_empty() { ToolMode::Native } else { self.tools }
    }

    fn finish(&self, response: ModelResponse, asked: &Asked<'_>) -> ModelResponse {
        match self.mode(asked) {
            ToolMode::Native => response,
            ToolMode::Constrained => constrained::read(response, asked.request.output.is_some()),
        }
    }
}

impl Api for Chat {
    fn model(&self) -> &str {
        &self.model
    }

    fn path(&self) -> &'static str {
        "/chat/completions"
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        KEY_HEADER
    }

    fn dialect(&self) -> Dialect {
        Dialect::OpenAi
    }

    fn body(&self, asked: &Asked<'_>) -> Result<Vec<u8>, ModelError> {
        request::body(self, asked)
    }

    fn response(&self, answer: &[u8], asked: &Asked<'_>) -> Result<ModelResponse, ModelError> {
        Ok(self.finish(response::read(answer)?, asked))
    }

    fn writes_for_us(&self, asked: &Asked<'_>) -> bool {
        self.mode(asked) == ToolMode::Constrained
    }

    fn events<'a>(&'a self, asked: &'a Asked<'a>) -> Box<dyn Events + 'a> {
        Box::new(stream::Collected::new(self, asked))
    }
}
