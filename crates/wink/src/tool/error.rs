//! Errors of handlers, which speak to two audiences, and the errors that escalate.

use std::error::Error;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A handler's error: one text for the model, the whole chain of causes for the operator.
///
/// Any error converts with `?`; the model then sees its top line. [`OrTell`] gives the model a text of its own. What could not be
/// undone ([`RestoreFailedError`](crate::transaction::RestoreFailedError), or
/// [`FsError::NotUndone`](crate::filesystem::FsError::NotUndone)) escalates as that.
pub struct ToolError {
    told: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
    effect: Effect,
}

/// What a handler that fails knows of its effect outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    DidNotHappen,
    Unknown,
}

impl ToolError {
    /// An error that is only a text for the model.
    pub fn new(text: impl Into<String>) -> Self {
        Self { told: Some(text.into()), source: None, effect: Effect::DidNotHappen }
    }

    /// Says that the effect outside may have happened all the same. A tool with an idempotency config then leaves its entry
    /// in doubt, as if it had been stopped; without this, its error is its word that nothing happened.
    ///
    /// ```
    /// use wink::tool::ToolError;
    ///
    /// # fn charge() -> Result<(), std::io::Error> { Ok(()) }
    /// # fn handler() -> Result<(), ToolError> {
    /// // Sent, and no answer came back.
    /// charge().map_err(|error| ToolError::from(error).tell("the bank did not answer").in_doubt())?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn in_doubt(self) -> Self {
        Self { effect: Effect::Unknown, ..self }
    }

    /// Whether the effect outside may have happened all the same.
    pub fn leaves_doubt(&self) -> bool {
        self.effect == Effect::Unknown
    }

    /// Replaces what the model is told.
    #[must_use]
    pub fn tell(self, text: impl Into<String>) -> Self {
        Self { told: Some(text.into()), ..self }
    }

    /// What the model is told.
    pub fn text(&self) -> String {
        match (&self.told, &self.source) {
            (Some(told), _) => told.clone(),
            (None, Some(source)) => source.to_string().lines().next().unwrap_or_default().to_owned(),
            (None, None) => "the tool failed".to_owned(),
        }
    }

    /// The error and its causes, outermost first, for the operator.
    pub fn chain(&self) -> Vec<String> {
        let mut chain: Vec<String> = self.told.iter().cloned().collect();
        let mut next: Option<&(dyn Error + 'static)> = self.source.as_deref().map(|error| error as _);
        while let Some(error) = next {
            chain.push(error.to_string());
            next = error.source();
        }
        chain.dedup();
        chain
    }

    /// The error as it was converted, or a cause of it, in its own type.
    pub fn find<E: Error + 'static>(&self) -> Option<&E> {
        let mut next: Option<&(dyn Error + 'static)> = self.source.as_deref().map(|error| error as _);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self { told: None, source: Some(Box::new(error)), effect: Effect::DidNotHappen }
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.chain().join(": "))
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Says what the model is told, in one word: `find(id).or_tell("no such entity")?`.
pub trait OrTell<T> {
    /// The value, or an error that tells the model `text`; the cause goes to the operator.
    fn or_tell(self, text: impl Into<String>) -> Result<T, ToolError>;
}

impl<T, E: Into<ToolError>> OrTell<T> for Result<T, E> {
    fn or_tell(self, text: impl Into<String>) -> Result<T, ToolError> {
        self.map_err(|error| error.into().tell(text))
    }
}

impl<T> OrTell<T> for Option<T> {
    fn or_tell(self, text: impl Into<String>) -> Result<T, ToolError> {
        self.ok_or_else(|| ToolError::new(text))
    }
}

/// A tool's contract is wrong, or a handler found its parameters wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolValidationError(pub String);

/// A phase of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Rendering the prompt and asking the model.
    Request,
    /// Reading the model's response.
    Response,
    /// Running a tool.
    Tool,
    /// Anything around the budget.
    Budget,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Tool => "tool",
            Self::Budget => "budget",
        })
    }
}

/// An evaluation cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("evaluation failed in phase {phase}: {message}")]
pub struct PromptEvaluationError {
    /// Where.
    pub phase: Phase,
    /// Why.
    pub message: String,
    /// The deadline that passed, if one did.
    pub deadline: Option<Timestamp>,
}

/// A handler needs sections of the prompt that are closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("sections to open: {}", keys.join(", "))]
pub struct VisibilityExpansionRequired {
    /// The sections, by dotted key.
    pub keys: Vec<String>,
    /// Why.
    pub reason: String,
}
