//! `wink undo`: takes back what a call changed in files and session.

use wink::filesystem::UndoForce;
use wink::session::{InvocationId, LogEntry, LogEvent, UndoReach};
use wink::suites;
use wink::transaction::{UndoError, UndoRequest};

use super::progress::Waiting;
use super::{find, open};
use crate::args::Common;
use crate::frame::{self, CliError, Done, Exit};

pub(super) async fn run(common: &Common, which: &str, to: bool, force: bool) -> Done {
    let Some(workspace) = open::workspace_with_past(common)? else {
        return Err(find::unknown(&common.session, which));
    };
    let log = open::log(&workspace, common).await?;
    let entry = find::find(common, &log, which)?;
    let call = entry.event.id();
    if let Some(undo) = undone_by(&log, call)
        && !to
    {
        let message = format!("{} was undone already, by entry {}", named(entry), undo.seq);
        return Err(CliError::new(Exit::Failure, message)
            .hint(format!("`wink undo {}` brings back what it changed", undo.seq)));
    }
    let waiting = Waiting::begin(format!("undoing {}", named(entry)));
    let session = workspace.session(common.session.as_str()).open().await?;
    suites::know_slices(&session).map_err(CliError::internal)?;
    let reach = if to { UndoReach::ToBefore } else { UndoReach::Call };
    let force = if force { UndoForce::Anyway } else { UndoForce::Refuse };
    let undone = workspace.undo(&session, UndoRequest { call, reach, force }).await;
    drop(waiting);
    let undone = undone.map_err(|error| refused(entry, error))?;
    if common.json {
        return frame::print_json(&undone);
    }
    let mut text = format!("{undone}\n");
    for path in &undone.files {
        let overwritten = if undone.overwritten_files.contains(path) { " (overwritten)" } else { "" };
        text.push_str(&format!("  {path}{overwritten}\n"));
    }
    for slice in &undone.slices {
        let overwritten = if undone.overwritten_slices.contains(slice) { " (overwritten)" } else { "" };
        text.push_str(&format!("  slice {slice}{overwritten}\n"));
    }
    frame::print(&text)
}

/// The undo of this entry alone that was not undone in turn.
fn undone_by(log: &[LogEntry], call: InvocationId) -> Option<&LogEntry> {
    let mut undo = None;
    for entry in log {
        let LogEvent::Undone(undone) = &entry.event else { continue };
        if undone.calls.contains(&call) {
            undo = Some(entry);
        } else if undo.is_some_and(|undo: &LogEntry| undone.calls.contains(&undo.event.id())) {
            undo = None;
        }
    }
    undo
}

/// An entry, as an error calls it.
fn named(entry: &LogEntry) -> String {
    match &entry.event {
        LogEvent::Call(call) => format!("call {} ({})", entry.seq, call.tool),
        LogEvent::Undone(_) => format!("undo {}", entry.seq),
    }
}

fn refused(entry: &LogEntry, error: UndoError) -> CliError {
    let name = named(entry);
    let (exit, hint) = match &error {
        UndoError::Unknown { .. } => (Exit::Usage, None),
        UndoError::NotSucceeded { .. } => (Exit::Failure, Some("what did not succeed has changed nothing")),
        UndoError::Forgotten { .. } => {
            (Exit::Failure, Some("the last hundred changes to files are kept, for as long as `wink gc` is told to"))
        }
        UndoError::Changed { .. } => (
            Exit::Failure,
            Some("`wink log` and `wink show` tell which calls came later; --force overwrites, --to goes back to before this call"),
        ),
        UndoError::Slices { .. } => (Exit::Failure, Some("they belong to another program: undo it there")),
        _ => (Exit::Internal, None),
    };
    let error = CliError::new(exit, format!("{name}: {error}"));
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
