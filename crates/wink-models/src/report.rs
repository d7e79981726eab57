//! What a run came to, for programs.

use serde::Serialize;
use serde_json::Value;
use wink::limits::TokenUsage;

use crate::adapter::{PromptResponse, Stopped};

/// A run in one object, as it is printed for programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// The typed result; the model's last word, if none was asked for; nothing, if it was stopped.
    pub output: Value,
    /// Responses of the model.
    pub turns: u32,
    /// Calls that it made.
    pub calls: u64,
    /// Those that failed and were rolled back.
    pub rolled_back: u64,
    /// Those that were denied.
    pub denied: u64,
    /// What it cost.
    pub usage: TokenUsage,
    /// How it ended: `completed`, `incomplete` (the model is done, and something is missing), or
    /// [why it was stopped](crate::StopReason::name).
    pub stopped_by: &'static str,
}

impl RunReport {
    /// Of a run that came to this.
    pub fn of(came: &Result<PromptResponse, Stopped>) -> Self {
        let (output, stats, stopped_by) = match came {
            Ok(response) => {
                let stopped_by = if response.missing.is_some() { "incomplete" } else { "completed" };
                (response.value(), response.stats, stopped_by)
            }
            Err(stopped) => (Value::Null, stopped.stats, stopped.reason.name()),
        };
        Self {
            output,
            turns: stats.turns,
            calls: stats.calls,
            rolled_back: stats.rolled_back,
            denied: stats.denied,
            usage: stats.usage,
            stopped_by,
        }
    }
}
