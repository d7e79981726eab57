//! Questions that wait for a later request to answer them.
//!
//! A client of the stateless revision is told that its input is required, and sends the call again with the answer. What it
//! is given to send along is sealed: made here, for this session, tool and arguments, good for one answer, and not for
//! long. That the state is still the one that was asked about is the executor's to see, which asks again if it is not.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    BooleanSchema, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequests, PrimitiveSchemaDefinition,
};
use serde_json::Value;
use uuid::Uuid;
use wink::executor::{Approval, ApprovalRequest};
use wink::limits::Clock;
use wink::session::SessionId;

use crate::options::ServerOptions;
use crate::running::{Question, Running};

/// The one question of a round, and the one field of its answer.
pub(crate) const APPROVAL: &str = "approval";
const APPROVE: &str = "approve";

/// The questions of one session.
pub(crate) struct Questions {
    key: [u8; 32],
    session: SessionId,
    open: Mutex<HashMap<Uuid, Parked>>,
    most: usize,
    within: Duration,
    clock: Arc<dyn Clock>,
}

/// A call that waits for its answer, with nobody following it.
struct Parked {
    running: Running,
    question: Question,
    until: Duration,
}

/// A call, as an approval is bound to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a str,
}

/// What comes of an answer.
pub(crate) enum Answered {
    /// The call goes on.
    GoesOn(Running),
    /// There was none to this question, which still stands.
    StillOpen(ApprovalRequest),
}

/// An answer to nothing that was asked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoQuestion {
    /// The state was not made here, or not for this.
    #[error(
        "requestState was not given out for this call: session, tool and arguments must be the same. {AGAIN}"
    )]
    Foreign,
    /// It was, and counts no more.
    #[error("requestState counts no more: it was used already, or is too old. {AGAIN}")]
    Spent,
}

const AGAIN: &str = "To be asked again, call the tool without requestState";

/// There are too many open questions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Questions {
    pub(crate) fn new(session: SessionId, options: &ServerOptions) -> Self {
        let mut key = [0; 32];
        for (half, random) in key.chunks_exact_mut(16).zip([Uuid::new_v4(), Uuid::new_v4()]) {
            half.copy_from_slice(random.as_bytes());
        }
        Self {
            key,
            session,
            open: Mutex::default(),
            most: options.max_questions,
            within: options.answer_within,
            clock: Arc::clone(&options.clock),
        }
    }

    /// Leaves a call waiting, and gives out what its answer has to come with.
    ///
    /// # Errors
    /// When there are too many already. The call is cancelled.
    pub(crate) fn park(
        &self,
        running: Running,
        question: Question,
        bound: Bound<'_>,
    ) -> Result<String, TooMany> {
        let now = self.clock.monotonic();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let spent: Vec<Parked> =
            open.extract_if(|_, parked| parked.until < now).map(|(_, spent)| spent).collect();
        let full = open.len() >= self.most;
        let id = Uuid::new_v4();
        let until = now.saturating_add(self.within);
        let parked = Parked { running, question, until };
        let refused = if full { Some(parked) } else { open.insert(id, parked) };
        drop(open);
        // Cancels calls, which is nothing to be done with the lock held.
        drop(spent);
        drop(refused);
        if full { Err(TooMany) } else { Ok(format!("{}.{}", id.simple(), self.seal(id, bound).to_hex())) }
    }

    /// Answers the question that `state` was given out for, and hands back its call.
    pub(crate) fn answer(
        &self,
        state: &str,
        bound: Bound<'_>,
        answer: Option<&Value>,
        by: &str,
    ) -> Result<Answered, NoQuestion> {
        let id = self.open(state, bound).ok_or(NoQuestion::Foreign)?;
        let answer = answer.and_then(|answer| serde_json::from_value::<ElicitResult>(answer.clone()).ok());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        let Some(answer) = answer else {
            let stands = open.get(&id).filter(|parked| parked.until >= now).ok_or(NoQuestion::Spent)?;
            return Ok(Answered::StillOpen(stands.question.about.clone()));
        };
        let found = open.remove(&id);
        drop(open);
        let parked = found.filter(|parked| parked.until >= now).ok_or(NoQuestion::Spent)?;
        // The call may have given up waiting; then its end says so.
        let _ = parked.question.reply.send(approval_of(&answer, by));
        Ok(Answered::GoesOn(parked.running))
    }

    /// Cancels every call that waits.
    pub(crate) fn forget(&self) {
        let all = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        drop(all);
    }

    /// The id in a state that was made here for this call.
    fn open(&self, state: &str, bound: Bound<'_>) -> Option<Uuid> {
        let (id, seal) = state.split_once('.')?;
        let id = Uuid::try_parse(id).ok()?;
        let seal = blake3::Hash::from_hex(seal).ok()?;
        // Compared in constant time.
        (self.seal(id, bound) == seal).then_some(id)
    }

    fn seal(&self, id: Uuid, bound: Bound<'_>) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in [self.session.as_str(), bound.tool, &uniform(bound.arguments)] {
            hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.update(id.as_bytes());
        hasher.finalize()
    }
}

/// What a person is shown.
pub(crate) fn elicitation(about: &ApprovalRequest) -> ElicitRequestParams {
    let field = BooleanSchema::new()
        .title(format!("Run {}?", about.tool))
        .description("Yes runs the call with exactly these arguments; no denies it.");
    let field = PrimitiveSchemaDefinition::Boolean(field);
    let mut requested_schema = ElicitationSchema::new([(APPROVE.to_owned(), field)].into());
    requested_schema.required = Some(vec![APPROVE.to_owned()]);
    let mut message = about.question.clone();
    if !about.arguments.is_empty() {
        let _ = write!(message, "\n\n{} {}", about.tool, about.arguments);
    }
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }
}

/// The same, for a client that answers with a later request.
pub(crate) fn input_requests(about: &ApprovalRequest) -> InputRequests {
    let request = InputRequest::Elicitation(ElicitRequest::new(elicitation(about)));
    [(APPROVAL.to_owned(), request)].into()
}

/// What somebody said. Everything but a plain yes is a no.
pub(crate) fn approval_of(answer: &ElicitResult, by: &str) -> Approval {
    let said_yes =
        || answer.content.as_ref().and_then(|content| content.get(APPROVE)) == Some(&Value::Bool(true));
    let reason = match answer.action {
        ElicitationAction::Accept if said_yes() => return Approval::Approved { by: by.into() },
        ElicitationAction::Accept => "they said no",
        ElicitationAction::Decline => "they declined",
        _ => "they did not answer",
    };
    Approval::Refused { by: by.into(), reason: reason.to_owned() }
}

/// The same text for all spellings of the same arguments.
fn uniform(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(value) => {
            let mut text = String::new();
            write_sorted(&value, &mut text);
            text
        }
        Err(_) => arguments.to_owned(),
    }
}

fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in fields {
                let _ = write!(text, "{}:", Value::String(name.clone()));
                write_sorted(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_sorted(item, text);
                text.push(',');
            }
            text.push(']');
        }
        plain => {
            let _ = write!(text, "{plain}");
        }
    }
}

#[cfg(test)]
mod tests;
