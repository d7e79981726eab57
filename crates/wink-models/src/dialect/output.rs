//! The form of a typed result, as the provider is told of it, and back.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::{Dialect, Lowered, lower, without_nulls};
use crate::OutputSpec;

/// What a provider is told of the result's form.
#[derive(Debug, Clone, PartialEq)]
pub struct LoweredOutput {
    /// The schema to send.
    pub schema: Arc<Value>,
    /// Whether the provider can hold the model to it.
    pub strict: bool,
    original: Arc<Value>,
    dialect: Dialect,
}

impl LoweredOutput {
    /// Lowers the form of a result, if the request has room for it.
    pub(super) fn new(output: &OutputSpec, dialect: Dialect, fits: impl FnOnce(&Lowered) -> bool) -> Self {
        let original = Arc::clone(&output.schema);
        let lowered = lower(&original, dialect);
        if let Err(reason) = &lowered {
            tracing::debug!(output = &*output.name, %reason, "the output is sent without strict mode");
        }
        let (schema, strict) = match lowered {
            Ok(lowered) if fits(&lowered) => (Arc::new(lowered.schema), true),
            Ok(_) | Err(_) => (Arc::clone(&original), false),
        };
        Self { schema, strict, original, dialect }
    }

    /// The text of a response, in the form that was asked for: without what lowering has added.
    #[must_use]
    pub fn restore<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.strict && self.dialect == Dialect::OpenAi {
            true => without_nulls(text, &self.original),
            false => Cow::Borrowed(text),
        }
    }
}
