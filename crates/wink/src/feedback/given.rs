//! What a provider says, how the model sees it, and what the log keeps of it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::session::{Counted, InvocationId, SliceKind, SliceType};

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// To be heeded.
    Warning,
}

impl Severity {
    /// The severity as the model sees it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
        }
    }
}

/// What a provider says.
///
/// ```
/// use wink::feedback::Feedback;
///
/// let feedback = Feedback::warning("Half of the time is gone.")
///     .observe("12 of 20 calls only read files.")
///     .suggest("Begin to write.");
/// assert_eq!(
///     feedback.render("pace"),
///     "[feedback from pace, warning] Half of the time is gone.\n\
///      Observations:\n- 12 of 20 calls only read files.\n\
///      Suggestions:\n- Begin to write."
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[must_use = "feedback says nothing until a provider returns it"]
pub struct Feedback {
    /// How much it matters.
    pub severity: Severity,
    /// All of it in one line.
    pub summary: String,
    /// What was seen.
    pub observations: Vec<String>,
    /// What could be done.
    pub suggestions: Vec<String>,
}

impl Feedback {
    /// Something that is good to know.
    pub fn info(summary: impl Into<String>) -> Self {
        Self::new(Severity::Info, summary.into())
    }

    /// Something that is to be heeded.
    pub fn warning(summary: impl Into<String>) -> Self {
        Self::new(Severity::Warning, summary.into())
    }

    fn new(severity: Severity, summary: String) -> Self {
        Self { severity, summary, observations: Vec::new(), suggestions: Vec::new() }
    }

    /// Adds something that was seen.
    pub fn observe(mut self, observation: impl Into<String>) -> Self {
        self.observations.push(observation.into());
        self
    }

    /// Adds something that could be done.
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestions.push(suggestion.into());
        self
    }

    /// The block that the model sees.
    pub fn render(&self, provider: &str) -> String {
        let severity = self.severity.as_str();
        // One line, whatever is in it, so that a block cannot look like two.
        let summary = self.summary.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut block = format!("[feedback from {provider}, {severity}] {summary}");
        list(&mut block, "Observations", &self.observations);
        list(&mut block, "Suggestions", &self.suggestions);
        block
    }
}

fn list(block: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    block.push_str(&format!("\n{title}:"));
    for item in items {
        block.push_str("\n- ");
        block.push_str(&item.trim().replace('\n', "\n  "));
    }
}

/// Feedback was given with an answer. LOG.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedbackGiven {
    /// Who said it.
    pub provider: Arc<str>,
    /// The prompt, as `ns/key`.
    pub prompt: Arc<str>,
    /// The call that it was added to.
    pub invocation: InvocationId,
    /// When.
    pub time: Timestamp,
    /// What was said.
    #[serde(flatten)]
    pub feedback: Feedback,
    /// How many calls of the prompt there were in the session by then.
    pub calls: u64,
    /// The files whose appearance it was about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Arc<str>>,
    /// All files whose appearance this provider spoke of so far, these included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_files: Vec<Arc<str>>,
}

impl SliceType for FeedbackGiven {
    const NAME: &'static str = "wink.feedback_given";
    const KIND: SliceKind = SliceKind::Log;
    const COUNTED: bool = true;

    /// By prompt and provider.
    fn counted(&self) -> Option<Counted<'_>> {
        Some(Counted { under: [&self.prompt, &self.provider], keep_latest: true })
    }
}
