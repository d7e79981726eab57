//! Responses: OpenAI's newer API. Nothing is stored there: every request has the whole conversation.

mod request;
mod response;
mod stream;

use super::KEY_HEADER;
use crate::dialect::Dialect;
use crate::providers::api::{Api, Asked, Events};
use crate::providers::{Endpoint, Provider, SetupError};
use crate::{ModelError, ModelResponse};

/// What becomes of what a model thought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reasoning {
    /// It is not asked for.
    #[default]
    Dropped,
    /// It is asked for, encrypted, and sent again with the next request. Models that do not reason refuse such requests.
    Kept,
}

/// The Responses API, for one model.
#[derive(Debug, Clone)]
pub struct Responses {
    model: String,
    reasoning: Reasoning,
}

impl Responses {
    /// The API for the model of this name.
    pub fn new(model: impl Into<String>) -> Self {
        Self { model: model.into(), reasoning: Reasoning::default() }
    }

    /// What becomes of what the model thought.
    #[must_use]
    pub fn reasoning(mut self, reasoning: Reasoning) -> Self {
        self.reasoning = reasoning;
        self
    }

    /// The model at an address: [`BASE_URL`](super::BASE_URL), or whoever speaks the same.
    ///
    /// # Errors
    /// When the endpoint cannot be used.
    pub fn at(self, endpoint: Endpoint) -> Result<Provider, SetupError> {
        Provider::new(self, endpoint)
    }
}

impl Api for Responses {
    fn model(&self) -> &str {
        &self.model
    }

    fn path(&self) -> &'static str {
        "/responses"
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

    fn response(&self, answer: &[u8], _: &Asked<'_>) -> Result<ModelResponse, ModelError> {
        response::read(answer, Vec::new())
    }

    fn events<'a>(&'a self, _: &'a Asked<'a>) -> Box<dyn Events + 'a> {
        Box::new(stream::Collected::default())
    }
}
