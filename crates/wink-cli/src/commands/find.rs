//! Which entry of the log is meant: a seq, an invocation id, a call id (the latest), or `last`; and which of the ledger.

use wink::session::{InvocationId, LogEntry, LogEvent, Logbook};
use wink::store::{LedgerRow, LedgerState};

use super::progress::Waiting;
use crate::args::Common;
use crate::frame::{CliError, Exit};

/// What a call id begins with that could be something else.
const BY_CALL_ID: &str = "id:";

/// The entry that `text` names. A number is a seq, which is what `wink log` shows, whatever clients call their calls: nobody
/// should undo what they did not mean.
pub(super) async fn find(common: &Common, log: &Logbook, text: &str) -> Result<LogEntry, CliError> {
    let _waiting = Waiting::begin("reading the log");
    let newest =
        async |takes: &dyn Fn(&LogEvent) -> bool| log.newest(0, 1, takes).await.map(|mut found| found.pop());
    let found = match named(text) {
        Named::Last => newest(&|event| matches!(event, LogEvent::Call(_))).await?,
        Named::Seq(seq) => log.entry(seq).await?,
        Named::Invocation(id) => log.find(id).await?,
        Named::CallId(id) => {
            newest(&|event| matches!(event, LogEvent::Call(call) if *call.call_id == *id)).await?
        }
    };
    found.ok_or_else(|| unknown(&common.session, text))
}

/// What an entry can be named by.
#[derive(Debug, PartialEq)]
enum Named<'a> {
    Last,
    Seq(u64),
    Invocation(InvocationId),
    CallId(&'a str),
}

fn named(text: &str) -> Named<'_> {
    if let Some(id) = text.strip_prefix(BY_CALL_ID) {
        return Named::CallId(id);
    }
    if text == "last" {
        return Named::Last;
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // One that is too large is the number of no entry either.
        return Named::Seq(text.parse().unwrap_or(u64::MAX));
    }
    InvocationId::parse(text).map_or(Named::CallId(text), Named::Invocation)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_seq_and_a_call_id_can_always_be_named() {
        assert_eq!(named("5"), Named::Seq(5));
        assert_eq!(named("99999999999999999999999"), Named::Seq(u64::MAX));
        assert_eq!(named("id:5"), Named::CallId("5"));
        assert_eq!(named("last"), Named::Last);
        assert_eq!(named("id:last"), Named::CallId("last"));
        assert_eq!(named("id:id:5"), Named::CallId("id:5"));
        for id in ["cli-1", "+5", "-5", ""] {
            assert_eq!(named(id), Named::CallId(id));
        }
    }
}
