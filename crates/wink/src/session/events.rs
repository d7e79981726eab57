//! The events that the runtime itself records. All of them are LOG: never rolled back, never changed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ids::{InvocationId, SessionId};
use super::slice::{SliceKind, SliceType};
use super::tally::Counted;
use crate::limits::TokenUsage;
use crate::support::future::catch;
use crate::support::size;

/// A tool call, as it ended. Exactly one for every call that reaches the runtime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolInvoked {
    /// This call, unique.
    pub id: InvocationId,
    /// The provider's id of the call; unique within its batch only.
    pub call_id: Arc<str>,
    /// The tool's name, as the model wrote it; cut if it is no name at all.
    pub tool: Arc<str>,
    /// The prompt, as `ns/key`.
    pub prompt: Arc<str>,
    /// The adapter that drives the conversation.
    pub adapter: Arc<str>,
    /// The session.
    pub session: SessionId,
    /// Run, request, worker and trace ids.
    pub run: Arc<RunContext>,
    /// When the call began.
    pub time: Timestamp,
    /// How long it took.
    pub duration: Duration,
    /// Which try of the same call this is, from 1.
    pub attempt: u32,
    /// The [request](crate::executor::ToolCall::request_key) that it was, for a caller that may send it again; cut at the log's
    /// bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<str>>,
    /// The arguments: sensitive ones masked.
    pub params: LoggedParams,
    /// What came of it.
    pub ending: Ending,
    /// Whether everything of the call was kept.
    pub success: bool,
    /// The result's message, up to the log's bound.
    pub message: Arc<str>,
    /// The result's value, whether or not the model saw it. One beyond the log's bound is the beginning of its JSON, as
    /// text.
    pub value: LoggedValue,
    /// Whether the value was kept from the model.
    pub value_hidden: bool,
    /// What the model saw, up to the log's own bound.
    pub rendered: Arc<str>,
    /// The error and its causes, for the operator, outermost first.
    pub error_chain: Vec<String>,
    /// What each policy said, in order.
    pub decisions: Arc<[LoggedDecision]>,
    /// Everybody who approved, in the order they were asked. Who was asked again, because what they had been shown
    /// changed meanwhile, is there again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Arc<str>>,
    /// Whether the result was taken from the ledger instead of running the handler.
    pub replayed: bool,
    /// Tokens used by the evaluation so far, if somebody counts.
    pub usage: Option<TokenUsage>,
}

impl ToolInvoked {
    /// When the call ended.
    pub fn ended_at(&self) -> Timestamp {
        let end = SignedDuration::try_from(self.duration)
            .ok()
            .and_then(|took| self.time.as_duration().checked_add(took));
        end.and_then(|end| Timestamp::from_duration(end).ok()).unwrap_or(self.time)
    }
}

impl SliceType for ToolInvoked {
    const NAME: &'static str = "wink.tool_invoked";
    const KIND: SliceKind = SliceKind::Log;
    const COUNTED: bool = true;

    /// Calls by prompt.
    fn counted(&self) -> Option<Counted<'_>> {
        Some(Counted { under: [&self.prompt, &self.prompt], keep_latest: false })
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It succeeded and was committed.
    Succeeded,
    /// There is no such tool, it is disabled, or it has no handler.
    Unavailable,
    /// The arguments were rejected.
    Rejected,
    /// A policy denied it.
    Denied,
    /// The ledger cannot tell whether an earlier try had its effect.
    InDoubt,
    /// The handler returned a failed result.
    Failed,
    /// The handler returned an error.
    Errored,
    /// The handler, or a step of the runtime around it, panicked.
    Panicked,
    /// The tool's own time limit passed.
    TimedOut,
    /// The deadline or the budget was exhausted.
    Exhausted,
    /// It was cancelled, or whoever waited for it went away.
    Cancelled,
    /// The handler asked for sections to be opened.
    Expanded,
    /// The handler raised an evaluation error.
    Escalated,
    /// A subscriber failed, or the commit did.
    NotCommitted,
    /// It was to be taken back, and that failed: what it did is there, or a part of it.
    NotRestored,
    /// An earlier call of the batch escalated.
    NotRun,
    /// The process died while it ran, or waited to.
    Interrupted,
}

/// The arguments of a recorded call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoggedParams {
    /// They were accepted. JSON text, as it came, sensitive values masked; cut at the log's bound.
    Accepted(Arc<str>),
    /// They were rejected, or never looked at.
    Rejected {
        /// The text as it came, sensitive values masked.
        raw: Arc<str>,
        /// What was wrong with them.
        problems: Arc<str>,
    },
}

impl LoggedParams {
    /// The arguments' text.
    pub fn text(&self) -> &str {
        match self {
            Self::Accepted(text) => text,
            Self::Rejected { raw, .. } => raw,
        }
    }
}

/// What one policy said of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedDecision {
    /// The policy's stable key.
    pub policy: Arc<str>,
    /// Its answer.
    pub answer: LoggedAnswer,
}

/// A policy's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoggedAnswer {
    /// It may run.
    Allow,
    /// It may not.
    Deny(Arc<str>),
    /// Somebody was asked.
    Ask {
        /// What was asked.
        question: Arc<str>,
        /// Whether they agreed.
        approved: bool,
    },
}

/// A value in the log: encoded only when somebody looks.
#[derive(Clone, Default)]
pub enum LoggedValue {
    /// There is none.
    #[default]
    None,
    /// As the handler returned it.
    Typed(Arc<dyn ErasedValue>),
    /// As it was read back.
    Json(Arc<Value>),
}

/// A tool's value with its type erased.
pub trait ErasedValue: std::any::Any + Send + Sync {
    /// The value as JSON.
    ///
    /// # Errors
    /// When it cannot be written, or would be read back as another value: its `Serialize` fails or panics, a number is NaN,
    /// infinite or has more than 64 bits, or a key of a map is no text.
    fn to_json(&self) -> Result<Value, String>;

    /// The beginning of the value's JSON text, if that has more than `max` bytes.
    ///
    /// # Errors
    /// As [`ErasedValue::to_json`].
    fn beginning(&self, max: usize) -> Result<Option<String>, String>;
}

impl<T: Serialize + Send + Sync + 'static> ErasedValue for T {
    fn to_json(&self) -> Result<Value, String> {
        // The value's own code: it may panic.
        catch(|| {
            size::is_within(self, usize::MAX)?;
            serde_json::to_value(self).map_err(|error| error.to_string())
        })?
    }

    fn beginning(&self, max: usize) -> Result<Option<String>, String> {
        if catch(|| size::is_within(self, max))?? {
            return Ok(None);
        }
        let mut beginning = Beginning { bytes: Vec::new(), max };
        Ok(match catch(|| serde_json::to_writer(&mut beginning, self))? {
            // The count was rough; the text is short enough after all.
            Ok(()) => None,
            Err(_) => {
                let text = String::from_utf8_lossy(&beginning.bytes);
                Some(text.get(..text.floor_char_boundary(max)).unwrap_or_default().to_owned())
            }
        })
    }
}

/// Takes the first bytes and refuses the rest.
struct Beginning {
    bytes: Vec<u8>,
    max: usize,
}

impl std::io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = self.max - self.bytes.len().min(self.max);
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.bytes.extend_from_slice(taken);
        match taken.len() == bytes.len() {
            true => Ok(taken.len()),
            false => Err(std::io::ErrorKind::StorageFull.into()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl LoggedValue {
    /// The value as JSON; null when there is none or it cannot be encoded.
    pub fn to_json(&self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Typed(value) => value.as_ref().to_json().unwrap_or(Value::Null),
            Self::Json(value) => Value::clone(value),
        }
    }

    /// The value in its own type.
    pub fn typed<T: serde::de::DeserializeOwned + Clone + 'static>(&self) -> Option<T> {
        match self {
            Self::None => None,
            Self::Typed(value) => {
                let any: &dyn std::any::Any = value.as_ref();
                any.downcast_ref::<T>().cloned()
            }
            Self::Json(value) => T::deserialize(value.as_ref()).ok(),
        }
    }

    /// Whether there is a value.
    pub fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }
}

impl fmt::Debug for LoggedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_json())
    }
}

/// By what is stored, so that a value of nothing (`()`) equals its reading, which is none.
impl PartialEq for LoggedValue {
    fn eq(&self, other: &Self) -> bool {
        self.to_json() == other.to_json()
    }
}

impl Serialize for LoggedValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_none(),
            some => serializer.serialize_some(&some.to_json()),
        }
    }
}

impl<'de> Deserialize<'de> for LoggedValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Option::<Value>::deserialize(deserializer)? {
            None => Self::None,
            Some(value) => Self::Json(Arc::new(value)),
        })
    }
}

/// Which run, request and worker a call belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunContext {
    /// The run.
    pub run_id: Option<String>,
    /// The request within it.
    pub request_id: Option<String>,
    /// The worker that serves it.
    pub worker_id: Option<String>,
    /// The trace it is part of.
    pub trace_id: Option<String>,
}

/// A prompt was rendered, and the model sees something else than before: an executor was opened or refreshed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptRendered {
    /// This rendering, unique. The [`ToolsRendered`] that follows has the same.
    #[serde(default = "InvocationId::unknown")]
    pub id: InvocationId,
    /// Which run it was for.
    #[serde(default)]
    pub run: Arc<RunContext>,
    /// The prompt, as `ns/key`.
    pub prompt: Arc<str>,
    /// When.
    pub time: Timestamp,
    /// The text, up to the log's bound.
    pub text: Arc<str>,
    /// The names of the tools that the model is given, in order.
    pub tools: Vec<Arc<str>>,
}

impl SliceType for PromptRendered {
    const NAME: &'static str = "wink.prompt_rendered";
    const KIND: SliceKind = SliceKind::Log;
    const COUNTED: bool = true;

    /// The latest by prompt.
    fn counted(&self) -> Option<Counted<'_>> {
        Some(Counted { under: [&self.prompt, &self.prompt], keep_latest: true })
    }
}

/// The tools that go with a rendered prompt, as the model is told of them. Right after its [`PromptRendered`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolsRendered {
    /// The id of the rendering.
    pub id: InvocationId,
    /// Which run it was for.
    #[serde(default)]
    pub run: Arc<RunContext>,
    /// The prompt, as `ns/key`.
    pub prompt: Arc<str>,
    /// When.
    pub time: Timestamp,
    /// The tools, in order.
    pub tools: Vec<RenderedTool>,
}

/// What a model is told of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderedTool {
    /// Its name.
    pub name: Arc<str>,
    /// What it is for.
    pub description: Arc<str>,
    /// The hash of its schema's text: which one it was, without keeping it.
    pub schema: Arc<str>,
}

impl SliceType for ToolsRendered {
    const NAME: &'static str = "wink.tools_rendered";
    const KIND: SliceKind = SliceKind::Log;
}

/// A prompt was evaluated to the end. Whoever evaluates prompts records it, with
/// [`Session::record_executed`](super::Session::record_executed).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptExecuted {
    /// Which run it was.
    #[serde(default)]
    pub run: Arc<RunContext>,
    /// The prompt, as `ns/key`.
    pub prompt: Arc<str>,
    /// When.
    pub time: Timestamp,
    /// The model's final text.
    pub text: Arc<str>,
    /// The structured output, if one was asked for.
    pub output: LoggedValue,
    /// Tokens used.
    pub usage: Option<TokenUsage>,
}

impl SliceType for PromptExecuted {
    const NAME: &'static str = "wink.prompt_executed";
    const KIND: SliceKind = SliceKind::Log;
}
