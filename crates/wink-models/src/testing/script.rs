//! What a model is to say, in words of no provider.

use std::time::Duration;

use serde_json::{Value, json};
use wink::limits::TokenUsage;

use super::Replies;
use crate::{Called, ModelResponse, Stop};

/// What a model says, one line for each request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    /// In order.
    pub lines: Vec<Line>,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// It is answered.
    Says(ModelResponse),
    /// The provider asks to slow down.
    Throttled {
        /// For how long it wants to be left alone.
        retry_after: Duration,
    },
    /// The provider is overloaded.
    Overloaded,
    /// The connection is closed before there is an answer.
    Gone,
    /// The key is wrong.
    Unauthorized,
    /// The conversation is too long.
    TooLong,
    /// No answer ever comes.
    Silent,
}

impl Line {
    /// As JSON: a response like a line of a [`ScriptedModel`](crate::ScriptedModel)'s script, or `{"fault": …}`. The fake provider of
    /// the tests reads it.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Says(response) => serde_json::to_value(response).unwrap_or_default(),
            Self::Throttled { retry_after } => {
                json!({ "fault": "throttled", "retry_after": retry_after.as_secs_f64().to_string() })
            }
            Self::Overloaded => json!({ "fault": "overloaded" }),
            Self::Gone => json!({ "fault": "gone" }),
            Self::Unauthorized => json!({ "fault": "unauthorized" }),
            Self::TooLong => json!({ "fault": "too_long" }),
            Self::Silent => json!({ "fault": "silent" }),
        }
    }
}

impl Script {
    /// One line of JSON for each.
    pub fn to_json_lines(&self) -> String {
        self.lines.iter().map(|line| format!("{}\n", line.to_json())).collect()
    }

    /// The script as a model says it that can say no more than this at a time.
    pub(super) fn told_by(&self, replies: Replies) -> Self {
        match replies {
            Replies::Any => self.clone(),
            Replies::OneCallOrText => Self { lines: self.lines.iter().flat_map(one_by_one).collect() },
        }
    }
}

/// Each call in a response of its own, without words. Where the response was cut, so is the last of them.
fn one_by_one(line: &Line) -> Vec<Line> {
    let Line::Says(response) = line else { return vec![line.clone()] };
    let Some(last) = response.calls.len().checked_sub(1) else { return vec![line.clone()] };
    let one = |(at, call): (usize, &Called)| {
        let stop = if at == last { response.stop } else { Stop::Complete };
        Line::Says(ModelResponse { text: "".into(), calls: vec![call.clone()], stop, ..response.clone() })
    };
    response.calls.iter().enumerate().map(one).collect()
}

/// Text, and what it cost.
pub(super) fn says(text: &str) -> ModelResponse {
    let usage = TokenUsage { input_tokens: 100, output_tokens: 20, cached_tokens: 30 };
    ModelResponse { text: text.into(), calls: Vec::new(), stop: Stop::Complete, usage, provider: None }
}
