//! Which entry of the log is meant: an invocation id, a call id (the latest), a seq, or `last`.

use wink::session::{InvocationId, LogEntry, LogEvent};

use crate::args::Common;
use crate::frame::{CliError, Exit};

/// The entry that `text` names. A number that is the seq of one entry and the call id of another is refused: nobody should
/// undo what they did not mean.
pub(super) fn find<'a>(common: &Common, log: &'a [LogEntry], text: &str) -> Result<&'a LogEntry, CliError> {
    let session = &common.session;
    if text == "last" {
        let last = log.iter().rev().find(|entry| matches!(entry.event, LogEvent::Call(_)));
        return last
            .ok_or_else(|| CliError::new(Exit::Usage, format!("session '{session}' has no calls yet")));
    }
    if let Some(id) = InvocationId::parse(text) {
        let found = log.iter().find(|entry| entry.event.id() == id);
        return found.ok_or_else(|| unknown(session, text));
    }
    let by_seq = text.parse().ok().and_then(|seq: u64| log.iter().find(|entry| entry.seq == seq));
    let by_call = log.iter().rev().find(|entry| match &entry.event {
        LogEvent::Call(call) => *call.call_id == *text,
        LogEvent::Undone(_) => false,
    });
    match (by_seq, by_call) {
        (Some(one), Some(other)) if one.seq != other.seq => {
            let message = format!("'{text}' is the seq of one entry and the call id of another");
            let ids = format!("{} (seq {}) or {} (call id)", one.event.id(), one.seq, other.event.id());
            Err(CliError::new(Exit::Usage, message).hint(format!("name the invocation id: {ids}")))
        }
        (Some(found), _) | (None, Some(found)) => Ok(found),
        (None, None) => Err(unknown(session, text)),
    }
}

/// Nothing ever happened here.
pub(super) fn unknown(session: &str, text: &str) -> CliError {
    CliError::new(Exit::Usage, format!("session '{session}' has no call '{text}'"))
        .hint("`wink log` lists them; --session names another session")
}
