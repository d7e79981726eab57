//! `wink show`: all of one entry of the log, and what it changed.

use std::io;

use serde::Serialize;
use serde_json::Value;
use wink::filesystem::EntryKind;
use wink::filesystem::host::{ChangeKind, HostFilesystem, PastChange, PastChanges, quoted_path};
use wink::session::{CallChanges, LogEntry, LogEvent, Logbook, LoggedAnswer, ToolInvoked, Undone};

use super::log::style;
use super::row::{LogRow, arguments, ended};
use super::{find, open};
use crate::args::Common;
use crate::frame::{self, CliError, Done, Exit, visible};
use crate::term::{BOLD, DIM, GOOD, NAME, PLAIN, Screen, span};

/// What `show --json` prints.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    row: LogRow,
    prompt: Option<String>,
    adapter: Option<String>,
    attempt: u32,
    value_hidden: bool,
    causes: Vec<String>,
    decisions: Value,
    approvers: Vec<String>,
    changes: Changes,
}

/// What an entry changed.
#[derive(Serialize)]
pub(super) struct Changes {
    files: Vec<FileChange>,
    slices: Vec<String>,
    /// Whether something may be missing here.
    forgotten: bool,
}

/// A path that was changed.
#[derive(Serialize)]
struct FileChange {
    path: String,
    from: Option<String>,
    change: &'static str,
    kind: &'static str,
    /// For people.
    #[serde(skip)]
    name: String,
}

pub(super) async fn run(common: &Common, which: &str) -> Done {
    let Some(past) = open::past(common)? else {
        return Err(find::unknown(&common.session, which));
    };
    let log = past.log(common).await?;
    let entry = &find::find(common, &log, which).await?;
    let (changed, files) = changes_of(past.files(), &log, entry).await?;
    let changes = Changes {
        files: files.changes.iter().map(FileChange::of).collect(),
        slices: changed.slices,
        forgotten: changed.forgotten || !files.forgotten.is_empty(),
    };
    if common.json {
        return frame::print_json(&Shown::of(entry, &common.session, changes));
    }
    let mut screen = Screen::fitted();
    match &entry.event {
        LogEvent::Call(call) => show_call(&mut screen, entry.seq, call)?,
        LogEvent::Undone(undone) => show_undo(&mut screen, entry.seq, undone)?,
    }
    show_changes(&mut screen, &changes)?;
    Ok(Exit::Success)
}

/// What an entry of a session's log changed in session and files, as far as that is kept.
pub(super) async fn changes_of(
    files: &HostFilesystem,
    log: &Logbook,
    entry: &LogEntry,
) -> Result<(CallChanges, PastChanges), CliError> {
    let succeeded = match &entry.event {
        LogEvent::Call(call) => call.success,
        LogEvent::Undone(_) => true,
    };
    if !succeeded {
        return Ok(Default::default());
    }
    let changed = log.changes(entry.event.id()).await?;
    let files = files.past_changes(&changed.journals).map_err(CliError::internal)?;
    Ok((changed, files))
}

/// In a word, what happened to a path.
pub(super) fn what_happened(change: &PastChange) -> &'static str {
    match change.kind() {
        ChangeKind::Created => "created",
        ChangeKind::Modified => "modified",
        ChangeKind::Mode => "mode",
        ChangeKind::Moved => "moved",
        ChangeKind::Deleted => "deleted",
    }
}

/// What kind of thing a path is, or was.
pub(super) fn kind_of(change: &PastChange) -> &'static str {
    match change.after.as_ref().or(change.before.as_ref()).map(|entry| entry.kind) {
        Some(EntryKind::Directory) => "directory",
        Some(EntryKind::Symlink) => "symlink",
        Some(EntryKind::File) => "file",
        Some(EntryKind::Other) | None => "other",
    }
}

impl FileChange {
    fn of(change: &PastChange) -> Self {
        let kind = kind_of(change);
        let mut name = quoted_path(&change.path);
        if kind == "directory" {
            // Inside of the quotes, if there are any.
            let quote = name.strip_suffix('"').map(str::len);
            name.insert(quote.unwrap_or(name.len()), '/');
        }
        if let Some(from) = &change.moved_from {
            name.push_str(&format!("  from {}", quoted_path(from)));
        }
        Self {
            path: change.path.to_string(),
            from: change.moved_from.as_ref().map(ToString::to_string),
            change: what_happened(change),
            kind,
            name,
        }
    }
}

impl Shown {
    fn of(entry: &LogEntry, session: &str, changes: Changes) -> Self {
        let call = match &entry.event {
            LogEvent::Call(call) => Some(call),
            LogEvent::Undone(_) => None,
        };
        Self {
            row: LogRow::of(entry, session),
            prompt: call.map(|call| call.prompt.to_string()),
            adapter: call.map(|call| call.adapter.to_string()),
            attempt: call.map_or(1, |call| call.attempt),
            value_hidden: call.is_some_and(|call| call.value_hidden),
            causes: call.map(|call| call.error_chain.clone()).unwrap_or_default(),
            decisions: call.and_then(|call| serde_json::to_value(&call.decisions).ok()).unwrap_or_default(),
            approvers: call.iter().flat_map(|call| call.approvers.iter().map(ToString::to_string)).collect(),
            changes,
        }
    }
}

fn show_call(screen: &mut Screen, seq: u64, call: &ToolInvoked) -> io::Result<()> {
    let took = format!("  in {:.3} s", call.duration.as_secs_f64());
    screen.spans(&[
        span(format!("{seq}  "), BOLD),
        span(visible(&call.tool), NAME),
        span("  ", PLAIN),
        span(ended(call), style(call)),
        span(took, DIM),
    ])?;
    field(screen, "time", &call.time.to_string())?;
    field(screen, "invocation", &call.id.to_string())?;
    field(screen, "call id", &call.call_id)?;
    field(screen, "prompt", &call.prompt)?;
    for decision in &*call.decisions {
        let said = match &decision.answer {
            LoggedAnswer::Allow => "allowed it".to_owned(),
            LoggedAnswer::Deny(reason) => format!("denied it: {reason}"),
            LoggedAnswer::Ask { question, approved: true } => {
                format!("asked, and was answered yes: {question}")
            }
            LoggedAnswer::Ask { question, approved: false } => {
                format!("asked, and was not answered yes: {question}")
            }
        };
        field(screen, "policy", &format!("{} {said}", decision.policy))?;
    }
    for approver in &call.approvers {
        field(screen, "approved by", approver)?;
    }
    block(screen, "arguments", &pretty(&arguments(&call.params)))?;
    block(screen, "answer", &call.rendered)?;
    match call.value.to_json() {
        Value::Null => {}
        value if call.value_hidden => block(screen, "value (not shown to the model)", &pretty(&value))?,
        value => block(screen, "value", &pretty(&value))?,
    }
    match call.error_chain.is_empty() {
        true => Ok(()),
        false => block(screen, "causes", &call.error_chain.join("\n")),
    }
}

fn show_undo(screen: &mut Screen, seq: u64, undone: &Undone) -> io::Result<()> {
    screen.spans(&[span(format!("{seq}  "), BOLD), span("(undo)  ", DIM), span("ok", GOOD)])?;
    field(screen, "time", &undone.time.to_string())?;
    field(screen, "invocation", &undone.id.to_string())?;
    field(screen, "of", &undone.call.to_string())?;
    block(screen, "undone", &undone.to_string())
}

fn show_changes(screen: &mut Screen, changes: &Changes) -> io::Result<()> {
    if !changes.files.is_empty() {
        screen.spans(&[span("files", BOLD)])?;
    }
    for FileChange { change, name, .. } in &changes.files {
        screen.spans(&[span(format!("  {change:<9}"), DIM), span(visible(name), PLAIN)])?;
    }
    if !changes.slices.is_empty() {
        field(screen, "session", &changes.slices.join(", "))?;
    }
    match changes.forgotten {
        true => field(screen, "changes", "not all of what it changed is kept any more"),
        false => Ok(()),
    }
}

fn field(screen: &mut Screen, name: &str, value: &str) -> io::Result<()> {
    screen.labelled(&[span(format!("  {name:<12}"), DIM)], span(visible(value), PLAIN))
}

/// A text of its own, indented and otherwise as it is.
fn block(screen: &mut Screen, title: &str, text: &str) -> io::Result<()> {
    screen.spans(&[span(title, BOLD)])?;
    for line in visible(text).lines() {
        let indent = if line.is_empty() { "" } else { "  " };
        screen.spans(&[span(format!("{indent}{line}"), PLAIN)])?;
    }
    Ok(())
}

fn pretty(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}
