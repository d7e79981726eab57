//! Anthropic's Messages API.
//!
//! Answers to parallel calls go back in one user message, before anything else that it says. What the model thought comes back
//! with a signature and is sent again as it was; it is kept in the message's `provider`, in its place among text and calls.

mod request;
mod response;
mod stream;

use crate::dialect::Dialect;
use crate::providers::api::{Api, Asked, Events};
use crate::providers::{Endpoint, Provider, SetupError};
use crate::{ModelError, ModelResponse};

/// Where Anthropic itself is.
pub const BASE_URL: &str = "https://api.anthropic.com";

/// The API wants a limit with every request. This is one that every model of today takes.
const MAX_OUTPUT_TOKENS: u32 = 8_192;

/// The Messages API, for one model.
#[derive(Debug, Clone)]
pub struct Messages {
    model: String,
    max_output_tokens: u32,
}

impl Messages {
    /// The API for the model of this name.
    pub fn new(model: impl Into<String>) -> Self {
        Self { model: model.into(), max_output_tokens: MAX_OUTPUT_TOKENS }
    }

    /// How long responses may be where the settings do not say; 8192 tokens unless given.
    #[must_use]
    pub fn max_output_tokens(mut self, tokens: u32) -> Self {
        self.max_output_tokens = tokens;
        self
    }

    /// The model at an address: [`BASE_URL`], or whoever speaks the same.
    ///
    /// # Errors
    /// When the endpoint cannot be used.
    pub fn at(self, endpoint: Endpoint) -> Result<Provider, SetupError> {
        Provider::new(self, endpoint)
    }
}

impl Api for Messages {
    fn model(&self) -> &str {
        &self.model
    }

    fn path(&self) -> &'static str {
        "/v1/messages"
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("x-api-key", "")
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn dialect(&self) -> Dialect {
        Dialect::Anthropic
    }

    fn body(&self, asked: &Asked<'_>) -> Result<Vec<u8>, ModelError> {
        request::body(&self.model, self.max_output_tokens, asked)
    }

    fn response(&self, answer: &[u8], _: &Asked<'_>) -> Result<ModelResponse, ModelError> {
        response::read(answer)
    }

    fn events<'a>(&'a self, _: &'a Asked<'a>) -> Box<dyn Events + 'a> {
        Box::new(stream::Collected::default())
    }
}
