//! Who changed since what is to be undone, as far as logs know it, and what can be done about it.

use std::collections::HashSet;

use wink::filesystem::host::{HostFilesystem, PastChange, PastContent};
use wink::filesystem::{EntryKind, FsPath};
use wink::session::{InvocationId, LogEntry, LogEvent, UndoReach};
use wink::store::StoreError;
use wink_store::Workspace;

use super::super::show::changes_of;
use super::{Asked, named};

/// What can be done about files and slices that something later changed. Only what is there to be undone is named.
pub(super) async fn hint(asked: &Asked<'_>, files: &[FsPath], slices: &[String]) -> String {
    const LOOK: &str = "look at it before --force overwrites it";
    let own = own(asked, files, slices).await.unwrap_or_default();
    let others = others(asked, files).await.unwrap_or_default();
    if !others.is_empty() {
        let own = own.into_iter().map(|later| later.name);
        return format!("{} did that: {LOOK}", own.chain(others).collect::<Vec<_>>().join(", "));
    }
    match own.as_slice() {
        [] => format!("no later call of this session did that; {LOOK}"),
        // To undo these would be refused like this.
        own if own.iter().any(|later| later.is_lost) => {
            format!("{} changed it as well, and then something that is in no log: {LOOK}", names(own))
        }
        own => {
            let them = if own.len() == 1 { "that" } else { "these, in this order," };
            let (names, name) = (names(own), named(asked.entry));
            format!("{names}: undo {them} first, or use --force, or --to to go back to before {name}")
        }
    }
}

/// A later entry that changed one of them.
struct Later {
    name: String,
    /// Whether what it left is not there any more, and in no journal either.
    is_lost: bool,
}

fn names(later: &[Later]) -> String {
    later.iter().map(|later| later.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The later entries of this session that changed one of these and count, newest first. None where all since was to be undone:
/// then they are not what is in the way.
async fn own(asked: &Asked<'_>, files: &[FsPath], slices: &[String]) -> Result<Vec<Later>, StoreError> {
    let Asked { workspace, session, entry, reach } = *asked;
    if reach == UndoReach::ToBefore {
        return Ok(Vec::new());
    }
    let log = workspace.logbook(session).await?;
    let mut found: Vec<Later> = Vec::new();
    // What newer entries left there.
    let mut seen: HashSet<FsPath> = HashSet::new();
    for later in counting(log.newest(entry.seq, usize::MAX, |_| true).await?) {
        let Ok((changed, past)) = changes_of(workspace.files(), &log, &later).await else { continue };
        let touched: Vec<&PastChange> = past.changes.iter().filter(|change| touches(change, files)).collect();
        if touched.is_empty() && !changed.slices.iter().any(|slice| slices.contains(slice)) {
            continue;
        }
        let newest = touched.iter().filter(|change| !seen.contains(&change.path));
        let is_lost = newest.clone().any(|change| is_lost(workspace, change));
        seen.extend(touched.iter().map(|change| change.path.clone()));
        found.push(Later { name: named(&later), is_lost });
    }
    Ok(found)
}

/// The later entries of other sessions that changed one of these files and count, newest first.
async fn others(asked: &Asked<'_>, files: &[FsPath]) -> Result<Vec<String>, StoreError> {
    let Asked { workspace, session, entry, .. } = *asked;
    let mut found = Vec::new();
    for other in workspace.store().sessions().await? {
        let other = other.as_str();
        if other == session {
            continue;
        }
        let log = workspace.logbook(other).await?;
        let is_later = |event: &LogEvent| ended_at(event) >= ended_at(&entry.event);
        for later in counting(log.newest(0, usize::MAX, is_later).await?) {
            let Ok((_, past)) = changes_of(workspace.files(), &log, &later).await else { continue };
            if past.changes.iter().any(|change| touches(change, files)) {
                found.push(format!("{} of session '{other}'", named(&later)));
            }
        }
    }
    Ok(found)
}

/// Those of a log's newest entries that count, newest first: neither what a later one has undone, nor undos of nothing but such.
fn counting(entries: Vec<LogEntry>) -> Vec<LogEntry> {
    let known: HashSet<InvocationId> = entries.iter().map(|entry| entry.event.id()).collect();
    let mut undone: HashSet<InvocationId> = HashSet::new();
    let mut counting = Vec::new();
    for entry in entries.into_iter().rev() {
        if undone.contains(&entry.event.id()) {
            continue;
        }
        if let LogEvent::Undone(undo) = &entry.event {
            undone.extend(&undo.calls);
            if undo.calls.iter().all(|call| known.contains(call)) {
                continue;
            }
        }
        counting.push(entry);
    }
    counting
}

fn ended_at(event: &LogEvent) -> jiff::Timestamp {
    match event {
        LogEvent::Call(call) => call.ended_at(),
        LogEvent::Undone(undo) => undo.time,
    }
}

fn touches(change: &PastChange, files: &[FsPath]) -> bool {
    files.contains(&change.path) || change.moved_from.as_ref().is_some_and(|from| files.contains(from))
}

/// Whether what a change left is gone, and nothing knows where.
fn is_lost(workspace: &Workspace, change: &PastChange) -> bool {
    let files = workspace.files();
    match &change.after {
        None => HostFilesystem::name_on_disk(&change.path)
            .is_ok_and(|name| files.root().join(name).symlink_metadata().is_ok()),
        Some(entry) => match entry.kind {
            EntryKind::File | EntryKind::Symlink => {
                matches!(files.past_content(entry, 0), Ok(PastContent::Lost))
            }
            EntryKind::Directory | EntryKind::Other => false,
        },
    }
}
