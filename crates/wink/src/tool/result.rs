//! What a handler returns: a message for the model, a typed value for everybody else.

use serde::Serialize;

use super::error::ToolError;

/// The outcome of one handler. Immutable once made.
///
/// A value that cannot be written as JSON fails the call: its `Serialize` fails or panics, a number is NaN, infinite or has
/// more than 64 bits, or a key of a map is no text. A value must not change after it was returned: without an
/// `Arc<Mutex<_>>`, an atomic or a `Cell` in it that something else holds. A durable session records the value once, when
/// the handler has returned; a session in memory keeps the value itself, and would show what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a result says nothing until the handler returns it"]
pub struct ToolResult<R> {
    message: String,
    value: Option<R>,
    success: bool,
    hidden: bool,
}

impl<R> ToolResult<R> {
    /// A success, with a message for the model.
    pub fn ok(value: R, message: impl Into<String>) -> Self {
        Self { message: message.into(), value: Some(value), success: true, hidden: false }
    }

    /// A success whose value says it all.
    pub fn value(value: R) -> Self {
        Self::ok(value, "")
    }

    /// A success without a value.
    pub fn done(message: impl Into<String>) -> Self {
        Self { message: message.into(), value: None, success: true, hidden: false }
    }

    /// A failure. Everything that the call did is rolled back.
    pub fn error(message: impl Into<String>) -> Self {
        Self { message: message.into(), value: None, success: false, hidden: false }
    }

    /// A failure with a payload for the log. It is not dispatched to slices.
    pub fn failed(value: R, message: impl Into<String>) -> Self {
        Self { value: Some(value), ..Self::error(message) }
    }

    /// Keeps the value out of what the model sees. It saves context; it is no security boundary.
    pub fn exclude_value_from_context(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// The text for the model.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The typed value.
    pub fn payload(&self) -> Option<&R> {
        self.value.as_ref()
    }

    /// Whether the call succeeded.
    pub fn is_success(&self) -> bool {
        self.success
    }

    /// Whether the model is shown the message only.
    pub fn is_value_excluded(&self) -> bool {
        self.hidden
    }

    pub(crate) fn into_parts(self) -> (String, Option<R>, bool, bool) {
        (self.message, self.value, self.success, self.hidden)
    }
}

/// What a handler may return: a [`ToolResult`], or a `Result` of one, so that `?` works.
#[diagnostic::on_unimplemented(
    message = "a tool handler returns `ToolResult<R>` or `Result<ToolResult<R>, ToolError>`, not `{Self}`",
    label = "expected `ToolResult<R>` or `Result<ToolResult<R>, ToolError>`",
    note = "end the handler with `Ok(ToolResult::ok(value, \"what happened\"))`",
    note = "a `Result`'s error is `ToolError` or any `std::error::Error`; `ToolError::new(\"text\")` makes one of a text"
)]
pub trait IntoToolResult {
    /// The typed value.
    type Value;

    /// The result or the error.
    fn into_tool_result(self) -> Result<ToolResult<Self::Value>, ToolError>;
}

impl<R> IntoToolResult for ToolResult<R> {
    type Value = R;

    fn into_tool_result(self) -> Result<ToolResult<R>, ToolError> {
        Ok(self)
    }
}

#[diagnostic::do_not_recommend]
impl<R, E: Into<ToolError>> IntoToolResult for Result<ToolResult<R>, E> {
    type Value = R;

    fn into_tool_result(self) -> Result<ToolResult<R>, ToolError> {
        self.map_err(Into::into)
    }
}

/// A value that knows how the model should see it. [`Tool::rendered`](super::Tool::rendered) uses it.
pub trait Render: Serialize {
    /// The text for the model. The default is compact JSON without nulls.
    fn render(&self) -> Result<String, RenderError> {
        super::render::json_text(self)
    }
}

impl<T: Render> Render for Vec<T> {
    /// One item per line, each by its own rule.
    fn render(&self) -> Result<String, RenderError> {
        let lines: Result<Vec<String>, RenderError> = self.iter().map(Render::render).collect();
        Ok(lines?.join("\n"))
    }
}

/// A value could not be turned into text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value cannot be rendered: {0}")]
pub struct RenderError(pub String);
