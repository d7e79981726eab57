//! Which entry of the log is meant: an invocation id, a call id (the latest), a seq, or `last`; and which of the ledger.

use wink::session::{InvocationId, LogEntry, LogEvent};
use wink::store::{LedgerRow, LedgerState};

use crate::args::Common;
use crate::frame::{CliError, Exit};

/// The entry that `text` names. A number that is the seq of one entry and the call id of another is refused: nobody should
/// undo what they did not mean.
pub(super) fn find<'a>(common: &Common, log: &'a [LogEntry], text: &str) -> Result<&'a LogEntry, CliError> {
    let session = &common.session;
    if text == "last" {
        let last = log.iter().rev().find(|entry| matches!(entry.event, LogEvent::Call(_)));
        return last.ok_or_else(|| unknown(session, text));
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

/// There is no such entry.
pub(super) fn unknown(session: &str, text: &str) -> CliError {
    let message = match text {
        "last" => format!("session '{session}' has no calls yet"),
        text => format!("session '{session}' has no call '{text}'"),
    };
    CliError::new(Exit::Usage, message).hint("`wink log` lists them; --session names another session")
}

/// The key of the effect in doubt that `text` names: a key, or the beginning of one, or of its last part. What may be one of
/// several is refused.
pub(super) fn find_doubt<'a>(rows: &'a [LedgerRow], text: &str) -> Result<&'a str, CliError> {
    let in_doubt = rows.iter().filter(|row| matches!(row.state, LedgerState::InDoubt { .. }));
    let in_doubt: Vec<&LedgerRow> = in_doubt.collect();
    if let Some(row) = in_doubt.iter().find(|row| row.key == text) {
        return Ok(&row.key);
    }
    let last = |row: &'a LedgerRow| row.key.split_once(&format!(":{}:", row.tool)).map(|(_, last)| last);
    let begins = |row: &&&'a LedgerRow| {
        row.key.starts_with(text) || last(row).is_some_and(|last| last.starts_with(text))
    };
    let mut found = in_doubt.iter().filter(begins);
    match (found.next(), found.next()) {
        _ if text.is_empty() => Err(no_doubt(text)),
        (None, _) => Err(no_doubt(text)),
        (Some(row), None) => Ok(&row.key),
        (Some(_), Some(_)) => {
            let keys: Vec<&str> = in_doubt.iter().filter(begins).map(|row| row.key.as_str()).collect();
            let message = format!("'{text}' is the beginning of {} keys in doubt", keys.len());
            Err(CliError::new(Exit::Usage, message).hint(format!("give more of one:\n{}", keys.join("\n"))))
        }
    }
}

/// Nothing is in doubt there.
pub(super) fn no_doubt(text: &str) -> CliError {
    CliError::new(Exit::Usage, format!("nothing is in doubt under the key '{text}'"))
        .hint("`wink ledger list --in-doubt` lists what is")
}
