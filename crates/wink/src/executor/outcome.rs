//! What comes of a call: the answer for the model, the event in the log, and what the caller must know beside.

use std::sync::Arc;
use std::time::Duration;

use crate::prompt::PromptRenderError;
use crate::session::{CommitError, Ending, LoggedValue, ToolInvoked};
use crate::store::StoreError;
use crate::tool::{PromptEvaluationError, VisibilityExpansionRequired};
use crate::transaction::RestoreFailedError;

/// A call that a model proposes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: Arc<str>,
    /// The tool's name, as the model wrote it.
    pub tool: Arc<str>,
    /// The arguments, as the model wrote them: JSON text, or nothing.
    pub arguments: Arc<str>,
    /// Which try of the same call this is, from 1.
    pub attempt: u32,
    /// The message that the call came in.
    pub parent_message: Option<Arc<str>>,
    /// The request that the call is, for a caller that may send it again.
    pub request_key: Option<Arc<str>>,
    /// How long the request may be sent again and still be known.
    pub request_ttl: Duration,
}

/// How long a request is known, unless its caller says otherwise.
const REQUEST_TTL: Duration = Duration::from_secs(60 * 60);

impl ToolCall {
    /// A first try.
    pub fn new(id: impl Into<Arc<str>>, tool: impl Into<Arc<str>>, arguments: impl Into<Arc<str>>) -> Self {
        Self {
            id: id.into(),
            tool: tool.into(),
            arguments: arguments.into(),
            attempt: 1,
            parent_message: None,
            request_key: None,
            request_ttl: REQUEST_TTL,
        }
    }

    /// Says which try this is.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Says which message the call came in.
    #[must_use]
    pub fn parent_message(mut self, message: impl Into<Arc<str>>) -> Self {
        self.parent_message = Some(message.into());
        self
    }

    /// Says which request this is, for a caller that may send it again, not knowing whether it arrived. A tool that has no
    /// idempotency config of its own then has its effect once for this key and these arguments, for an hour, in the
    /// session; one that only reads is read again. If the first try was stopped after its handler had
    /// started, a tool that [reaches outside](crate::tool::Annotations::open_world) is in doubt; all that another one did was undone
    /// with the try, so it is run.
    #[must_use]
    pub fn request_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.request_key = Some(key.into());
        self
    }

    /// How long the request may be sent again; an hour, if this is not said.
    #[must_use]
    pub fn request_ttl(mut self, ttl: Duration) -> Self {
        self.request_ttl = ttl;
        self
    }
}

/// What the model is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The provider's id of the call.
    pub call_id: Arc<str>,
    /// The tool.
    pub tool: Arc<str>,
    /// The text, bounded.
    pub text: Arc<str>,
    /// Whether the call succeeded.
    pub success: bool,
}

/// Everything that comes of a call. Every call has an answer and an event; some escalate beside.
#[derive(Debug, Clone)]
#[must_use = "an outcome may carry an escalation"]
pub struct Outcome {
    /// What the model is told.
    pub answer: Answer,
    /// What the log says.
    pub event: Arc<ToolInvoked>,
    /// What the caller has to deal with.
    pub escalation: Option<Escalation>,
}

impl Outcome {
    /// Whether the call succeeded.
    pub fn is_success(&self) -> bool {
        self.event.success
    }

    /// The text for the model.
    pub fn text(&self) -> &str {
        &self.answer.text
    }

    /// The value, in its own type.
    pub fn value<R: serde::de::DeserializeOwned + Clone + 'static>(&self) -> Option<R> {
        self.event.value.typed()
    }
}

/// What a call asks of whoever drives the executor.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Escalation {
    /// Sections are to be opened, and the prompt rendered again.
    #[error(transparent)]
    Visibility(VisibilityExpansionRequired),
    /// The evaluation cannot go on: an error that a handler raised, or an exhausted deadline or budget.
    #[error(transparent)]
    Evaluation(PromptEvaluationError),
    /// The call was cancelled.
    #[error("the call was cancelled")]
    Cancelled,
    /// Something could not be put back.
    #[error(transparent)]
    Restore(RestoreFailedError),
    /// The store failed, so the call's end is in the log of this process only.
    #[error("the call's end could not be stored: {0}")]
    Store(CommitError),
    /// Sections were to be opened, and are not ([`Executor::drive`](super::Executor::drive)).
    #[error(transparent)]
    NotOpened(ExpansionError),
}

/// Why sections that a call asked for are not open for good.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExpansionError {
    /// The prompt cannot be rendered with them.
    #[error("the prompt cannot be rendered with these sections open: {0}")]
    Render(#[from] PromptRenderError),
    /// They are open as long as this process runs, and nobody else knows.
    #[error("that these sections are open could not be stored: {0}")]
    Store(#[from] StoreError),
}

/// Why a prompt is not as its session is now.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CatchUpError {
    /// What others did cannot be read.
    #[error("what others did to the session cannot be read: {0}")]
    Store(#[from] StoreError),
    /// The prompt cannot be rendered.
    #[error("the prompt cannot be rendered as the session is now: {0}")]
    Render(#[from] PromptRenderError),
}

/// Why a call did not succeed.
pub(crate) struct Failure {
    pub(crate) ending: Ending,
    pub(crate) message: String,
    pub(crate) chain: Vec<String>,
    /// A failed result's payload, for the log.
    pub(crate) value: LoggedValue,
    pub(crate) hidden: bool,
    pub(crate) escalation: Option<Escalation>,
}

impl Failure {
    /// Boxed: it is carried through every step, and almost always absent.
    pub(crate) fn new(ending: Ending, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            ending,
            message: message.into(),
            chain: Vec::new(),
            value: LoggedValue::None,
            hidden: false,
            escalation: None,
        })
    }

    pub(crate) fn because(mut self: Box<Self>, chain: Vec<String>) -> Box<Self> {
        self.chain = chain;
        self
    }

    pub(crate) fn escalating(mut self: Box<Self>, escalation: Escalation) -> Box<Self> {
        self.escalation = Some(escalation);
        self
    }
}
