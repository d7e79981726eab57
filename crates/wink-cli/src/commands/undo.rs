//! `wink undo`: takes back what a call changed in files and session.

mod by_whom;

use std::collections::HashSet;

use wink::filesystem::UndoForce;
use wink::filesystem::host::quoted_path;
use wink::session::{Ending, InvocationId, LogEntry, LogEvent, UndoReach};
use wink::suites;
use wink::transaction::{UndoError, UndoRequest};
use wink_store::Workspace;

use super::progress::Waiting;
use super::{find, open};
use crate::args::Common;
use crate::frame::{self, CliError, Done, Exit};

/// What was to be undone.
struct Asked<'a> {
    workspace: &'a Workspace,
    session: &'a str,
    entry: &'a LogEntry,
    reach: UndoReach,
}

pub(super) async fn run(common: &Common, which: &str, to: bool, force: bool) -> Done {
    let Some(workspace) = open::workspace_with_past(common)? else {
        return Err(find::unknown(&common.session, which));
    };
    let log = open::log(&workspace, common).await?;
    let entry = &find::find(common, &log, which).await?;
    let call = entry.event.id();
    let undos = match to {
        true => Vec::new(),
        false => log.newest(entry.seq, usize::MAX, |event| matches!(event, LogEvent::Undone(_))).await?,
    };
    if let [undo, others @ ..] = undone_by(&undos, call).as_slice() {
        let message = format!("{} was undone already, by entry {}", named(entry), undo.seq);
        let mut hint = format!("`wink undo {}`", undo.seq);
        for other in others {
            hint.push_str(&format!(", then `wink undo {}`", other.seq));
        }
        let bring = if others.is_empty() { "brings" } else { "bring" };
        return Err(
            CliError::new(Exit::Failure, message).hint(format!("{hint} {bring} back what it changed"))
        );
    }
    let waiting = Waiting::begin(format!("undoing {}", named(entry)));
    let session = workspace.session(common.session.as_str()).open().await?;
    suites::know_slices(&session).map_err(CliError::internal)?;
    let reach = if to { UndoReach::ToBefore } else { UndoReach::Call };
    let force = if force { UndoForce::Anyway } else { UndoForce::Refuse };
    let undone = workspace.undo(&session, UndoRequest { call, reach, force }).await;
    drop(waiting);
    let undone = match undone {
        Ok(undone) => undone,
        Err(error) => {
            let asked = Asked { workspace: &workspace, session: &common.session, entry, reach };
            return Err(refused(&asked, error).await);
        }
    };
    if common.json {
        return frame::print_json(&undone);
    }
    let mut text = format!("{undone}\n");
    for path in &undone.files {
        let overwritten = if undone.overwritten_files.contains(path) { " (overwritten)" } else { "" };
        text.push_str(&format!("  {}{overwritten}\n", quoted_path(path)));
    }
    for slice in &undone.slices {
        let overwritten = if undone.overwritten_slices.contains(slice) { " (overwritten)" } else { "" };
        text.push_str(&format!("  in the session: {slice}{overwritten}\n"));
    }
    frame::print(&text)
}

/// The undos that have to be undone, in this order, for an entry to count again; among those that came after it. None if it
/// counts.
fn undone_by(undos: &[LogEntry], call: InvocationId) -> Vec<&LogEntry> {
    let mut lifted = Vec::new();
    while let Some(undo) = undone_now(undos, call, &lifted) {
        lifted.push(undo);
    }
    lifted
}

/// The undo because of which an entry does not count, if these are lifted. The later ones decide which of the earlier count.
fn undone_now<'u>(undos: &'u [LogEntry], call: InvocationId, lifted: &[&LogEntry]) -> Option<&'u LogEntry> {
    let mut undone: HashSet<InvocationId> = lifted.iter().map(|undo| undo.event.id()).collect();
    for entry in undos.iter().rev() {
        let LogEvent::Undone(undo) = &entry.event else { continue };
        if undone.contains(&undo.id) {
            continue;
        }
        if undo.calls.contains(&call) {
            return Some(entry);
        }
        undone.extend(&undo.calls);
    }
    None
}

/// An entry, as an error calls it.
fn named(entry: &LogEntry) -> String {
    match &entry.event {
        LogEvent::Call(call) => format!("call {} ({})", entry.seq, call.tool),
        LogEvent::Undone(_) => format!("undo {}", entry.seq),
    }
}

/// Why nothing was undone, and what can be done about it.
async fn refused(asked: &Asked<'_>, error: UndoError) -> CliError {
    let name = named(asked.entry);
    let failure = |message: String| CliError::new(Exit::Failure, message);
    match &error {
        UndoError::NotSucceeded { ending: Ending::Expanded, .. } => {
            failure(format!("{name} opened sections, which the undo of one call does not close"))
                .hint(format!("`wink undo --to {}` goes back to before it, and closes them", asked.entry.seq))
        }
        UndoError::NotSucceeded { .. } => {
            failure(format!("{name} did not succeed, so there is nothing of it to undo"))
        }
        UndoError::Forgotten { .. } => failure(format!("{name}: {error}"))
            .hint("the last hundred changes to files are kept, and for as long as `wink gc` is told to"),
        UndoError::Changed { files, slices } => {
            failure(format!("{name}: {error}")).hint(by_whom::hint(asked, files, slices).await)
        }
        UndoError::Slices { .. } => {
            failure(format!("{name}: {error}")).hint("they belong to another program: undo it there")
        }
        UndoError::Files(_) => CliError::internal(format!("{name}: {error}"))
            .hint("everything is as it was: mend what is named, then undo it again"),
        _ => CliError::internal(format!("{name}: {error}")),
    }
}
