//! Feedback: what is added to an answer after a call, to keep a model on its way.
//!
//! A [`FeedbackProvider`] is asked when its [`Trigger`] fires. What it says becomes a block after the tool's own text,
//! and a [`FeedbackGiven`] in the log, from which the counting goes on in the next executor or process. A provider
//! sees only what it may read; it changes nothing and can spoil nothing: when it fails, the answer goes out without
//! it. The executor knows one function of this room.
//!
//! A [`CompletionChecker`] is asked when the model says that it is done; whoever drives the model sends back what is
//! [missing](Completion::Missing).

mod board;
mod builtin;
mod completion;
mod given;
mod trigger;

use jiff::Timestamp;

use crate::BoxFuture;
use crate::limits::{BudgetTracker, Deadline};
use crate::resource::BoxError;
use crate::session::{Session, SliceType, SliceView, ToolInvoked};

pub use builtin::{DeadlineFeedback, FnFeedback, StaticFeedback, feedback_fn};
pub use completion::{
    AllComplete, AnyComplete, CheckerPanicked, Completion, CompletionChecker, CompletionContext,
};
pub use given::{Feedback, FeedbackGiven, Severity};
pub use trigger::Trigger;

pub(crate) use board::{Around, Board};

/// Somebody who has something to say after a call.
pub trait FeedbackProvider: Send + Sync + 'static {
    /// Who says it. Stable: what is counted is counted under this name.
    fn name(&self) -> &str;

    /// What it has to say, if anything. Its trigger starts again either way.
    fn feedback<'a>(
        &'a self,
        cx: &'a FeedbackContext<'a>,
    ) -> BoxFuture<'a, Result<Option<Feedback>, BoxError>>;
}

/// A shared provider is that provider.
impl<T: FeedbackProvider + ?Sized> FeedbackProvider for std::sync::Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn feedback<'a>(
        &'a self,
        cx: &'a FeedbackContext<'a>,
    ) -> BoxFuture<'a, Result<Option<Feedback>, BoxError>> {
        (**self).feedback(cx)
    }
}

/// What a provider may look at. Nothing here changes anything.
pub struct FeedbackContext<'a> {
    session: &'a Session,
    event: &'a ToolInvoked,
    calls: u64,
    started: Timestamp,
    deadline: Option<Deadline>,
    budget: Option<&'a BudgetTracker>,
}

impl FeedbackContext<'_> {
    /// The call that has just ended.
    pub fn event(&self) -> &ToolInvoked {
        self.event
    }

    /// How many calls of this prompt there were in the session, this one included.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// The slice of `T`.
    pub fn slice<T: SliceType>(&self) -> SliceView<T> {
        self.session.slice()
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.session.clock().now()
    }

    /// When the executor was opened.
    pub fn started(&self) -> Timestamp {
        self.started
    }

    /// When everything must be over.
    pub fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    /// How many tokens there are left.
    pub fn budget(&self) -> Option<&BudgetTracker> {
        self.budget
    }
}
