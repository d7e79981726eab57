//! One source for a tool's schema and its parser.

mod error;
mod problem;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use error::SchemaError;
pub use problem::{Problem, ProblemKind, Rejection};

/// The schema that is shown to models for parameters of type `P`.
pub fn advertised_schema<P: JsonSchema>() -> Result<Value, SchemaError> {
    todo!()
}

/// Closes objects at every depth.
pub fn tighten(_schema: Value) -> Result<Value, SchemaError> {
    todo!()
}

/// Marks the field at a dotted path as sensitive.
pub fn mark_sensitive(_schema: &mut Value, _field: &str) -> Result<(), SchemaError> {
    todo!()
}

/// How large arguments may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLimits {
    depth: usize,
    bytes: usize,
}

impl ParseLimits {
    /// The deepest nesting that is ever accepted.
    pub const MAX_DEPTH: usize = 128;
    /// The longest text that is ever accepted.
    pub const MAX_BYTES: usize = 8 * 1024 * 1024;

    /// Lowers the depth limit; a higher value than [`Self::MAX_DEPTH`] means that one.
    #[must_use]
    pub fn with_depth(self, depth: usize) -> Self {
        Self { depth: depth.min(Self::MAX_DEPTH), ..self }
    }

    /// Lowers the size limit; a higher value than [`Self::MAX_BYTES`] means that one.
    #[must_use]
    pub fn with_bytes(self, bytes: usize) -> Self {
        Self { bytes: bytes.min(Self::MAX_BYTES), ..self }
    }
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self { depth: Self::MAX_DEPTH, bytes: Self::MAX_BYTES }
    }
}

/// A schema made ready for checking arguments.
#[derive(Debug, Clone)]
pub struct CompiledSchema {}

impl CompiledSchema {
    /// Compiles a schema.
    pub fn compile(_schema: &Value) -> Result<Self, SchemaError> {
        todo!()
    }

    /// Checks arguments.
    pub fn check(&self, _text: &str, _limits: &ParseLimits) -> Result<(), Rejection> {
        todo!()
    }

    /// Checks arguments and decodes them.
    pub fn decode<P: DeserializeOwned>(&self, _text: &str, _limits: &ParseLimits) -> Result<P, Rejection> {
        todo!()
    }

    /// Whether any part is marked sensitive.
    pub fn has_sensitive(&self) -> bool {
        todo!()
    }

    /// The arguments with every sensitive value replaced.
    pub fn mask<'a>(&self, _text: &'a str) -> Cow<'a, str> {
        todo!()
    }
}

/// The candidate that `name` was most likely meant to be.
pub(crate) fn nearest<'a>(
    _name: &str,
    _candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    todo!()
}
