//! How a conversation ends, and what it came to.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wink::limits::{BudgetExceededError, DeadlineExceededError, TokenUsage};
use wink::session::Ending;
use wink::tool::PromptEvaluationError;

use super::retry::RetriesExhausted;
use crate::model::ModelError;

/// The end of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The model is done.
    Completed(Completed),
    /// It was stopped before.
    Stopped(StopReason),
}

/// What the model came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completed {
    /// Its last word.
    pub text: Arc<str>,
    /// The typed result, if one was asked for.
    pub output: Option<Arc<Value>>,
    /// What is missing all the same, after all reminders.
    pub missing: Option<Arc<str>>,
}

/// Why a run was stopped. None of these goes away by asking again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// There were as many responses as there may be.
    #[error(
        "stopped after {max_turns} turns: the model was not done; raise max_turns if it was getting anywhere"
    )]
    TurnCap {
        /// How many there may be.
        max_turns: u32,
    },
    /// Sections were opened again and again.
    #[error("stopped: sections were to be opened more than {max_expansions} times")]
    Expansions {
        /// How often they may be.
        max_expansions: u32,
    },
    /// The tokens are used up.
    #[error(transparent)]
    Budget(#[from] BudgetExceededError),
    /// The time is.
    #[error(transparent)]
    Deadline(#[from] DeadlineExceededError),
    /// Somebody cancelled it.
    #[error("the run was cancelled")]
    Cancelled,
    /// It was to stop where the model is asked.
    #[error("stopped before the model is asked")]
    Asking,
    /// The request failed, and asking again is of no use.
    #[error(transparent)]
    Request(#[from] ModelError),
    /// The request failed again and again.
    #[error(transparent)]
    Retries(#[from] RetriesExhausted),
    /// The model refused.
    #[error("the model refused{}", said(.text))]
    Refused {
        /// Its words.
        text: Arc<str>,
    },
    /// Its last word was cut off.
    #[error("the model's last message was cut off at its length limit; allow it more output tokens")]
    Truncated {
        /// What there is of it.
        text: Arc<str>,
    },
    /// Its last word is not what it has to be.
    #[error("the model's last message is not the result that was asked for: {reason}")]
    Output {
        /// What is wrong with it.
        reason: String,
        /// Its words.
        text: Arc<str>,
    },
    /// A call ended the evaluation.
    #[error(transparent)]
    Evaluation(#[from] PromptEvaluationError),
    /// Another process has it.
    #[error("run {run} is going on in another process: wait until it has ended there, or stop it")]
    Elsewhere {
        /// The run.
        run: Arc<str>,
    },
    /// The run could not be begun, taken up or kept.
    #[error("{0}")]
    Runtime(String),
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl StopReason {
    /// A word for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TurnCap { .. } => "turn_cap",
            Self::Expansions { .. } => "expansions",
            Self::Budget(_) => "budget",
            Self::Deadline(_) => "deadline",
            Self::Cancelled => "cancelled",
            Self::Asking => "asking",
            Self::Request(_) => "request_failed",
            Self::Retries(RetriesExhausted::Attempts { .. }) => "retry_attempts",
            Self::Retries(RetriesExhausted::Window { .. }) => "retry_window",
            Self::Retries(RetriesExhausted::Deadline { .. }) => "retry_deadline",
            Self::Refused { .. } => "refused",
            Self::Truncated { .. } => "truncated",
            Self::Output { .. } => "output",
            Self::Evaluation(_) => "tool",
            Self::Elsewhere { .. } => "elsewhere",
            Self::Runtime(_) => "runtime",
        }
    }
}

/// How a batch of calls ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many calls there were.
    pub calls: u64,
    /// How many began, failed, and were rolled back.
    pub rolled_back: u64,
    /// How many were denied.
    pub denied: u64,
    /// What the runs inside them cost.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub usage: TokenUsage,
}

fn is_nothing(usage: &TokenUsage) -> bool {
    *usage == TokenUsage::default()
}

impl Tally {
    /// Of calls that ended so.
    pub fn of(endings: impl IntoIterator<Item = Ending>) -> Self {
        endings.into_iter().fold(Self::default(), |tally, ending| {
            let (rolled_back, denied) = match ending {
                Ending::Denied => (0, 1),
                Ending::Failed
                | Ending::Errored
                | Ending::Panicked
                | Ending::TimedOut
                | Ending::Exhausted
                | Ending::Cancelled
                | Ending::Escalated
                | Ending::NotCommitted
                | Ending::Interrupted => (1, 0),
                // Nothing was begun, or nothing had to be taken back, or it could not be.
                Ending::Succeeded
                | Ending::Unavailable
                | Ending::Rejected
                | Ending::InDoubt
                | Ending::Expanded
                | Ending::NotRestored
                | Ending::NotRun => (0, 0),
            };
            Self {
                calls: tally.calls + 1,
                rolled_back: tally.rolled_back + rolled_back,
                denied: tally.denied + denied,
                usage: tally.usage,
            }
        })
    }
}

/// What a run came to, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStats {
    /// Responses of the model.
    pub turns: u32,
    /// Calls that it made: one for each that the log has, also of those that were stopped with the run and made again.
    pub calls: u64,
    /// Those that failed and were rolled back.
    pub rolled_back: u64,
    /// Those that were denied.
    pub denied: u64,
    /// What it cost, with all sub-runs of calls that were answered.
    pub usage: TokenUsage,
}

impl RunStats {
    pub(super) fn count(&mut self, tally: Tally) {
        self.calls = self.calls.saturating_add(tally.calls);
        self.rolled_back = self.rolled_back.saturating_add(tally.rolled_back);
        self.denied = self.denied.saturating_add(tally.denied);
        self.usage = self.usage.plus(tally.usage);
    }

    /// Counts all calls that the log has, with those that nobody answered because the run was stopped. There are no fewer than were
    /// answered, wherever the log begins.
    pub(super) fn count_logged(&mut self, logged: Tally) {
        self.calls = self.calls.max(logged.calls);
        self.rolled_back = self.rolled_back.max(logged.rolled_back);
        self.denied = self.denied.max(logged.denied);
    }
}
