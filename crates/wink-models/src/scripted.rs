//! A model that answers what a script says: for tests, for demonstrations, and for replaying what another model once said.
//!
//! A script is JSON lines, one response each: `{"text": …, "tool_calls": [{"id", "name", "arguments"}]}`. Everything but the line
//! itself may be left out. A line may be a failure instead: `{"error": {"kind", "message", …}}`. A recording is a script too.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use wink::BoxFuture;
use wink::limits::{CancelToken, TokenUsage};

use crate::lock;
use crate::message::{Called, Message};
use crate::model::{Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, Piece, Stop, Stream};
use crate::recording;

/// A model that answers from a script, one line for each request.
///
/// Its first request decides where it starts: a conversation that has responses already goes on after them, so that a run can
/// be taken up again.
#[derive(Debug)]
pub struct ScriptedModel {
    name: String,
    lines: Vec<Result<ModelResponse, ModelError>>,
    at: Mutex<Option<usize>>,
}

/// A script cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// It cannot be read.
    #[error("the script {path} cannot be read: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not a response.
    #[error(
        "line {line} of the script is not a response: {reason}; expected {{\"text\": …, \"tool_calls\": [{{\"id\", \"name\", \"arguments\"}}]}}"
    )]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It has no responses.
    #[error("the script has no responses: write one JSON object on each line")]
    Empty,
}

impl ScriptedModel {
    /// A model that gives these responses.
    pub fn new(responses: impl IntoIterator<Item = ModelResponse>) -> Self {
        Self::of("scripted", responses.into_iter().map(Ok).collect())
    }

    /// A model that gives these responses, and fails in these ways.
    pub fn with_failures(lines: impl IntoIterator<Item = Result<ModelResponse, ModelError>>) -> Self {
        Self::of("scripted", lines.into_iter().collect())
    }

    /// Reads a script or a recording.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is not a response.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ScriptError> {
        let path = path.as_ref();
        let failed = |source| ScriptError::Io { path: path.display().to_string(), source };
        Self::parse(&recording::read_text(path).map_err(failed)?)
    }

    /// Reads the text of a script or a recording.
    ///
    /// # Errors
    /// When a line is not a response; it is named by its number.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let lines = match recording::is_recording(text) {
            true => recording::answers(text).map_err(|(line, reason)| ScriptError::Line { line, reason })?,
            false => {
                let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
                let read = |(at, line)| {
                    read_line(at + 1, line).map_err(|reason| ScriptError::Line { line: at + 1, reason })
                };
                lines.map(read).collect::<Result<Vec<_>, ScriptError>>()?
            }
        };
        match lines.is_empty() {
            true => Err(ScriptError::Empty),
            false => Ok(Self::of("scripted", lines)),
        }
    }

    fn of(name: &str, lines: Vec<Result<ModelResponse, ModelError>>) -> Self {
        Self { name: name.to_owned(), lines, at: Mutex::new(None) }
    }

    /// The next line: the one after the responses that the conversation has.
    fn next(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let mut at = lock(&self.at);
        let here = at.unwrap_or_else(|| self.after(request));
        *at = Some(here + 1);
        self.lines.get(here).cloned().unwrap_or_else(|| {
            let many = self.lines.len();
            Err(ModelError {
                kind: ModelErrorKind::Rejected,
                message: format!(
                    "the script is over: it has {many} lines, and another response was asked for"
                ),
                retry_safe: false,
                retry_after: None,
            })
        })
    }

    fn after(&self, request: &ModelRequest) -> usize {
        let said = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
        let said = request.messages.iter().filter(said).count();
        if said == 0 {
            return 0;
        }
        let answers = self.lines.iter().enumerate().filter(|(_, line)| line.is_ok());
        answers.map(|(at, _)| at + 1).nth(said - 1).unwrap_or(self.lines.len())
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        stream: &'a dyn Stream,
        _: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let answer = self.next(request);
        if let Ok(response) = &answer {
            tell(stream, response);
        }
        Box::pin(std::future::ready(answer))
    }
}

/// Tells a response that arrives whole.
pub(crate) fn tell(stream: &dyn Stream, response: &ModelResponse) {
    if !response.text.is_empty() {
        stream.piece(Piece::Text(&response.text));
    }
    for call in &response.calls {
        stream.piece(Piece::Call { name: &call.name });
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(default)]
    text: Arc<str>,
    #[serde(default, borrow)]
    tool_calls: Vec<Call<'a>>,
    #[serde(default)]
    stop: Stop,
    #[serde(default)]
    usage: TokenUsage,
    #[serde(default)]
    provider: Option<Arc<Value>>,
    #[serde(default)]
    error: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call<'a> {
    #[serde(default)]
    id: Option<Arc<str>>,
    name: Arc<str>,
    #[serde(default, borrow)]
    arguments: Option<&'a RawValue>,
}

/// A failure as it is written down.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failure {
    kind: ModelErrorKind,
    #[serde(default)]
    message: String,
    #[serde(default = "safe")]
    retry_safe: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

fn safe() -> bool {
    true
}

impl From<Failure> for ModelError {
    fn from(failure: Failure) -> Self {
        let Failure { kind, message, retry_safe, retry_after_ms } = failure;
        Self { kind, message, retry_safe, retry_after: retry_after_ms.map(Duration::from_millis) }
    }
}

impl From<&ModelError> for Failure {
    fn from(error: &ModelError) -> Self {
        let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Self {
            kind: error.kind,
            message: error.message.clone(),
            retry_safe: error.retry_safe,
            retry_after_ms: error.retry_after.map(millis),
        }
    }
}

fn read_line(number: usize, line: &str) -> Result<Result<ModelResponse, ModelError>, String> {
    let Line { text, tool_calls, stop, usage, provider, error } = recording::object(line)?;
    if let Some(failure) = error {
        return Ok(Err(failure.into()));
    }
    let calls: Result<Vec<Called>, String> =
        tool_calls.into_iter().enumerate().map(|(index, call)| read_call(number, index, call)).collect();
    Ok(Ok(ModelResponse { text, calls: calls?, stop, usage, provider }))
}

fn read_call(line: usize, index: usize, call: Call<'_>) -> Result<Called, String> {
    let Call { id, name, arguments } = call;
    let arguments: Arc<str> = match arguments.map(|raw| raw.get().trim()) {
        None | Some("null") => Arc::default(),
        Some(text) if text.starts_with('{') => text.into(),
        Some(text) if text.starts_with('"') => {
            serde_json::from_str(text).map_err(|error| error.to_string())?
        }
        Some(other) => {
            return Err(format!(
                "the arguments of {name} must be an object, or a string with one in it, not {other}"
            ));
        }
    };
    let id = id.unwrap_or_else(|| format!("call_{line}_{index}").into());
    Ok(Called { id, name, arguments })
}
