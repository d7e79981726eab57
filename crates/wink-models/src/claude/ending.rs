//! Why a run ended before the model was done, from what the program says of it.

use std::time::Duration;

use super::wire::Finished;
use crate::conversation::{RetriesExhausted, StopReason, Terms};
use crate::model::{ModelError, ModelErrorKind};

/// Why the run ended; nothing if the model is done.
pub(super) fn reason(
    finished: &Finished,
    terms: &Terms,
    scrub: impl Fn(&str) -> String,
) -> Option<StopReason> {
    let text = || scrub(&told(finished));
    match finished.subtype.as_str() {
        "error_max_turns" => return Some(StopReason::TurnCap { max_turns: terms.max_turns }),
        "error_max_structured_output_retries" => {
            let said = scrub(finished.result.as_deref().unwrap_or_default());
            return Some(StopReason::Output { reason: text(), text: said.into() });
        }
        _ if !finished.is_error => return None,
        _ => {}
    }
    let kind = kind(finished);
    let error = |retry_safe| failure(kind, text(), retry_safe);
    Some(match kind {
        // The program has tried again as often as it may.
        ModelErrorKind::Throttled
        | ModelErrorKind::Unavailable
        | ModelErrorKind::Connection
        | ModelErrorKind::TimedOut
            if finished.terminal_reason.as_deref() == Some("api_error") =>
        {
            let attempts = terms.retry.max_attempts.max(1);
            RetriesExhausted::Attempts { attempts, last: error(true) }.into()
        }
        _ => StopReason::Request(error(false)),
    })
}

/// A request failed, and the program sends it again.
pub(super) fn retried(status: Option<u16>, error: &str, delay: Option<Duration>) -> ModelError {
    let kind = status.map_or(ModelErrorKind::Connection, by_status);
    ModelError { kind, message: error.to_owned(), retry_safe: true, retry_after: delay }
}

/// The program did what it should not, or ended.
pub(super) fn failure(kind: ModelErrorKind, message: impl Into<String>, retry_safe: bool) -> ModelError {
    ModelError { kind, message: message.into(), retry_safe, retry_after: None }
}

fn kind(finished: &Finished) -> ModelErrorKind {
    if finished.terminal_reason.as_deref() == Some("prompt_too_long") {
        return ModelErrorKind::TooLong;
    }
    match (finished.api_error_status, finished.api_error.as_deref()) {
        (Some(status), _) => by_status(status),
        (None, Some(error)) if error.contains("timeout") => ModelErrorKind::TimedOut,
        (None, Some(_)) => ModelErrorKind::Connection,
        (None, None) => ModelErrorKind::Unavailable,
    }
}

fn by_status(status: u16) -> ModelErrorKind {
    match status {
        401 | 403 => ModelErrorKind::Unauthorized,
        408 | 504 => ModelErrorKind::TimedOut,
        413 => ModelErrorKind::TooLong,
        429 => ModelErrorKind::Throttled,
        400..=499 => ModelErrorKind::Rejected,
        _ => ModelErrorKind::Unavailable,
    }
}

fn told(finished: &Finished) -> String {
    match &finished.result {
        Some(result) if !result.is_empty() => result.clone(),
        _ if !finished.errors.is_empty() => finished.errors.join("; "),
        _ => format!("Claude Code ended the turn with {:?}", finished.subtype),
    }
}

#[cfg(test)]
mod tests;
