//! What providers say when they do not answer, as kinds of errors.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde::Deserialize;
use serde_json::Value;

use crate::{ModelError, ModelErrorKind};

/// Characters of a provider's words that are kept.
const MAX_MESSAGE: usize = 1_000;

/// An error of this kind. Asking again does no harm where the same request can be answered another time: what a model says has no
/// effect before it is complete.
pub(super) fn new(kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
    use ModelErrorKind as Kind;
    let retry_safe = matches!(
        kind,
        Kind::Throttled | Kind::Unavailable | Kind::Connection | Kind::TimedOut | Kind::Malformed
    );
    ModelError { kind, message: message.into(), retry_safe, retry_after: None }
}

/// The answer is not what the provider says that it sends.
pub(super) fn malformed(reason: impl std::fmt::Display) -> ModelError {
    new(ModelErrorKind::Malformed, reason.to_string())
}

/// The answer ended before it was complete.
pub(super) fn ended_early() -> ModelError {
    new(ModelErrorKind::Connection, "the answer ended before it was complete")
}

/// An answer that is not a success.
pub(super) fn of_status(status: StatusCode, headers: &HeaderMap, body: &[u8], now: Timestamp) -> ModelError {
    let said = Said::read(body);
    let kind = said.kind().filter(|kind| fits(*kind, status)).unwrap_or_else(|| kind_of(status));
    let mut error = new(kind, format!("{}: {}", status.as_u16(), said.message));
    error.retry_safe &= !said.is_final();
    error.retry_after = retry_after(headers, now);
    match header(headers, "x-should-retry") {
        Some("true") => error.retry_safe = true,
        Some("false") => error.retry_safe = false,
        _ => {}
    }
    error
}

/// An error that was told instead of, or in the middle of, an answer.
pub(super) fn of_object(error: &Value) -> ModelError {
    let said = Said::of(error);
    let mut error = new(said.kind().unwrap_or(ModelErrorKind::Unavailable), said.message.clone());
    error.retry_safe &= !said.is_final();
    error
}

/// What a provider said.
struct Said {
    message: String,
    /// Its type and its code, whatever it calls them.
    words: Vec<String>,
}

#[derive(Deserialize)]
struct Envelope {
    error: Value,
}

impl Said {
    fn read(body: &[u8]) -> Self {
        match serde_json::from_slice::<Envelope>(body) {
            Ok(envelope) => Self::of(&envelope.error),
            Err(_) => match serde_json::from_slice::<Value>(body) {
                Ok(value) => Self::of(&value),
                Err(_) => Self { message: reason(&String::from_utf8_lossy(body)), words: Vec::new() },
            },
        }
    }

    fn of(error: &Value) -> Self {
        let text = ["message", "detail", "error"].iter().find_map(|name| error.get(name)?.as_str());
        let message = text.or(error.as_str()).map_or_else(|| error.to_string(), str::to_owned);
        let word = |name: &&str| Some(error.get(name)?.as_str()?.to_ascii_lowercase());
        Self {
            message: reason(&message),
            words: ["code", "type", "status"].iter().filter_map(word).collect(),
        }
    }

    fn kind(&self) -> Option<ModelErrorKind> {
        let message = self.message.to_ascii_lowercase();
        let long = [
            "prompt is too long",
            "maximum context length",
            "context window",
            "context length",
            "context size",
        ];
        if long.iter().any(|words| message.contains(words)) {
            return Some(ModelErrorKind::TooLong);
        }
        self.words.iter().find_map(|word| kind_of_word(word))
    }

    /// Whether waiting does not help: what was bought is used up.
    fn is_final(&self) -> bool {
        self.words.iter().any(|word| matches!(word.as_str(), "insufficient_quota" | "billing_error"))
    }
}

fn kind_of_word(word: &str) -> Option<ModelErrorKind> {
    Some(match word {
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" | "too_many_requests" => {
            ModelErrorKind::Throttled
        }
        "overloaded_error" | "api_error" | "server_error" | "internal_server_error" => {
            ModelErrorKind::Unavailable
        }
        "authentication_error" | "permission_error" | "invalid_api_key" | "billing_error" => {
            ModelErrorKind::Unauthorized
        }
        "request_too_large"
        | "context_length_exceeded"
        | "exceed_context_size_error"
        | "string_above_max_length" => ModelErrorKind::TooLong,
        "timeout_error" => ModelErrorKind::TimedOut,
        "invalid_prompt" | "not_found_error" | "model_not_found" => ModelErrorKind::Rejected,
        _ => return None,
    })
}

/// Whether a status can mean this: some servers use the same words for everything.
fn fits(kind: ModelErrorKind, status: StatusCode) -> bool {
    match kind {
        ModelErrorKind::TooLong => matches!(status.as_u16(), 400 | 413 | 422 | 500),
        ModelErrorKind::Throttled => status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error(),
        ModelErrorKind::Unavailable => status.is_server_error(),
        _ => status.is_client_error(),
    }
}

fn kind_of(status: StatusCode) -> ModelErrorKind {
    match status.as_u16() {
        401 | 402 | 403 | 407 => ModelErrorKind::Unauthorized,
        408 | 504 => ModelErrorKind::TimedOut,
        413 => ModelErrorKind::TooLong,
        429 => ModelErrorKind::Throttled,
        // A conflict is one of the provider's own making.
        409 | 425 | 500.. => ModelErrorKind::Unavailable,
        _ => ModelErrorKind::Rejected,
    }
}

/// A header of the provider's, also where LiteLLM's proxy hands it on under a name of its own.
fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let value = headers.get(name).or_else(|| headers.get(format!("llm_provider-{name}")))?;
    value.to_str().ok().map(str::trim)
}

/// For how long the provider wants to be left alone.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    // What is more than any clock knows is as long as that.
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number >= 0.0);
    if let Some(milliseconds) = header(headers, "retry-after-ms").and_then(number) {
        return Some(seconds(milliseconds / 1_000.0));
    }
    let after = header(headers, RETRY_AFTER.as_str())?;
    number(after).map(seconds).or_else(|| {
        let date = jiff::fmt::rfc2822::parse(after).ok()?.timestamp();
        // A moment that is over is no reason to wait.
        Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
    })
}

fn reason(text: &str) -> String {
    match text.trim() {
        "" => "no reason was given".to_owned(),
        text => text.to_owned(),
    }
}

/// Not more of it than anybody reads. What has keys in it is masked first: half of a key is not found.
pub(super) fn bounded(masked: String) -> String {
    match masked.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", masked.get(..end).unwrap_or_default()),
        None => masked,
    }
}

#[cfg(test)]
mod tests;
