//! What can be wrong with a prompt: when it is built or bound, and when it is rendered.

use std::fmt;

/// A prompt cannot be built or bound: the whole of it is checked before anything is rendered.
///
/// ```
/// use wink::prompt::{PromptTemplate, Section};
///
/// let error = PromptTemplate::builder("docs", "demo")
///     .section(Section::markdown("intro", "Intro").body("It costs $5."))
///     .build()
///     .unwrap_err();
/// assert_eq!(error.section, "intro");
/// assert_eq!(error.to_string(), "section intro: stray $ in its body, at \"$5.\"; write $$ for a dollar sign");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptValidationError {
    /// The section, by dotted path; empty for the prompt itself.
    pub section: String,
    /// The tool.
    pub tool: Option<String>,
    /// The params type.
    pub params: Option<&'static str>,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl PromptValidationError {
    pub(crate) fn in_prompt(reason: impl Into<String>) -> Self {
        Self::in_section("", reason)
    }

    pub(crate) fn in_section(section: &str, reason: impl Into<String>) -> Self {
        Self { section: section.to_owned(), tool: None, params: None, reason: reason.into() }
    }

    pub(crate) fn of_tool(self, tool: &str) -> Self {
        Self { tool: Some(tool.to_owned()), ..self }
    }

    pub(crate) fn of_params(self, params: &'static str) -> Self {
        Self { params: Some(params), ..self }
    }
}

impl fmt::Display for PromptValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        place(f, &self.section)?;
        if let Some(tool) = &self.tool {
            write!(f, ", tool {tool}")?;
        }
        if let Some(params) = self.params {
            write!(f, ", params {params}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for PromptValidationError {}

/// A prompt cannot be rendered in this session with what is bound to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptRenderError {
    /// The section, by dotted path; empty for the prompt itself.
    pub section: String,
    /// The params type.
    pub params: Option<&'static str>,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl PromptRenderError {
    pub(crate) fn in_section(section: &str, reason: impl Into<String>) -> Self {
        Self { section: section.to_owned(), params: None, reason: reason.into() }
    }
}

impl fmt::Display for PromptRenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        place(f, &self.section)?;
        if let Some(params) = self.params {
            write!(f, ", params {params}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for PromptRenderError {}

fn place(f: &mut fmt::Formatter<'_>, section: &str) -> fmt::Result {
    if section.is_empty() { f.write_str("prompt") } else { write!(f, "section {section}") }
}
