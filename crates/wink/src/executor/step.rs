//! The steps of a call, in order, and who may watch them.

use crate::BoxFuture;
use crate::session::InvocationId;

/// A step of the pipeline. The executor matches on it exhaustively; nothing happens to a call outside a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Find the tool.
    Lookup,
    /// Read the arguments.
    Parse,
    /// Is there time and budget left?
    Deadline,
    /// Wait for the session's turn; build what the handler will be lent.
    Context,
    /// May it run?
    Policies,
    /// Did it happen already?
    Ledger,
    /// Fork session and resources.
    Begin,
    /// Run the handler.
    Handler,
    /// Tell the policies of the success.
    OnResult,
    /// Show the event to subscribers.
    Subscribers,
    /// Make everything true together.
    Commit,
    /// Record the end of a call that did not commit.
    Record,
    /// Ask the feedback providers.
    Feedback,
    /// Write the answer.
    Answer,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 14] = [
        Self::Lookup,
        Self::Parse,
        Self::Deadline,
        Self::Context,
        Self::Policies,
        Self::Ledger,
        Self::Begin,
        Self::Handler,
        Self::OnResult,
        Self::Subscribers,
        Self::Commit,
        Self::Record,
        Self::Feedback,
        Self::Answer,
    ];

    /// The step's name, in diagnostics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Parse => "parse",
            Self::Deadline => "deadline",
            Self::Context => "context",
            Self::Policies => "policies",
            Self::Ledger => "ledger",
            Self::Begin => "begin",
            Self::Handler => "handler",
            Self::OnResult => "on_result",
            Self::Subscribers => "subscribers",
            Self::Commit => "commit",
            Self::Record => "record",
            Self::Feedback => "feedback",
            Self::Answer => "answer",
        }
    }
}

/// Where in a step a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Before the step's work.
    Before,
    /// After it went through.
    After,
}

/// Watches calls go through their steps, and may make a step fail. This is how faults are injected; see
/// [`crate::testing`].
pub trait StepHook: Send + Sync + 'static {
    /// A call is at a step. An error fails the step; a panic is contained like one of the step itself.
    fn at<'a>(
        &'a self,
        step: Step,
        moment: Moment,
        invocation: InvocationId,
    ) -> BoxFuture<'a, Result<(), String>>;
}
