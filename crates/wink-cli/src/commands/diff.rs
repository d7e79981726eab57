//! `wink diff`: what an entry of the log changed in files, as a unified diff.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use anstyle::Style;
use serde::Serialize;
use similar::TextDiff;
use wink::filesystem::EntryKind;
use wink::filesystem::host::{ChangeKind, HostFilesystem, PastChange, PastContent, PastEntry};

use super::show::{changes_of, kind_of, what_happened};
use super::{find, open};
use crate::args::Common;
use crate::frame::{self, CliError, Done, Exit, note, visible};
use crate::term::{BAD, BOLD, DIM, GOOD, NAME, PLAIN, Screen, span};

/// Larger files are not compared line by line.
const MOST_BYTES: u64 = 8 << 20;
/// How long two files are compared before the result need not be the smallest any more.
const PATIENCE: Duration = Duration::from_secs(2);

/// What `diff --json` prints.
#[derive(Serialize)]
struct Diff {
    seq: u64,
    invocation_id: String,
    files: Vec<FileDiff>,
    /// Whether something may be missing here.
    forgotten: bool,
}

/// One path.
#[derive(Serialize)]
struct FileDiff {
    path: String,
    from: Option<String>,
    change: &'static str,
    kind: &'static str,
    mode_before: Option<String>,
    mode_after: Option<String>,
    /// The changed lines; none for what has no lines.
    diff: Option<String>,
    /// Why there are none.
    note: Option<String>,
}

pub(super) async fn run(common: &Common, which: &str) -> Done {
    let Some(workspace) = open::workspace_with_past(common)? else {
        return Err(find::unknown(&common.session, which));
    };
    let log = open::log(&workspace, common).await?;
    let entry = find::find(common, &log, which)?;
    let (changed, past) = changes_of(&workspace, common, entry).await?;
    let mut files = Vec::new();
    for change in &past.changes {
        files.push(FileDiff::of(workspace.files(), change)?);
    }
    let forgotten = changed.forgotten || !past.forgotten.is_empty();
    let diff = Diff { seq: entry.seq, invocation_id: entry.event.id().to_string(), files, forgotten };
    if common.json {
        return frame::print_json(&diff);
    }
    if diff.forgotten {
        note("not all of what this call changed is kept any more");
    } else if diff.files.is_empty() {
        note("this call changed no files");
    }
    if frame::is_terminal() {
        let mut screen = Screen::fitted();
        diff.files.iter().try_for_each(|file| show(&mut screen, &file.text()))?;
        return Ok(Exit::Success);
    }
    // As it is, so that it can be a patch.
    let text: String = diff.files.iter().map(FileDiff::text).collect();
    frame::print_bytes(text.as_bytes())
}

impl FileDiff {
    fn of(files: &HostFilesystem, change: &PastChange) -> Result<Self, CliError> {
        let mode =
            |entry: &Option<PastEntry>| entry.as_ref().map(|entry| format!("{:06o}", full_mode(entry)));
        let (diff, note) = match change.kind() {
            ChangeKind::Moved if change.before == change.after => (None, None),
            ChangeKind::Mode => (None, None),
            ChangeKind::Created | ChangeKind::Deleted | ChangeKind::Modified | ChangeKind::Moved => {
                let before = side(files, change.before.as_ref())?;
                let after = side(files, change.after.as_ref())?;
                lines(change, &before, &after)
            }
        };
        Ok(Self {
            path: change.path.to_string(),
            from: change.moved_from.as_ref().map(ToString::to_string),
            change: what_happened(change),
            kind: kind_of(change),
            mode_before: mode(&change.before),
            mode_after: mode(&change.after),
            diff,
            note,
        })
    }

    /// As a patch has it, with the words that git uses.
    fn text(&self) -> String {
        let old = self.from.as_ref().unwrap_or(&self.path);
        let mut text = format!("diff --git a/{old} b/{}\n", self.path);
        let mut line = |said: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{said}");
        };
        match (self.kind, &self.mode_before, &self.mode_after) {
            ("directory", None, _) => line("new directory".to_owned()),
            ("directory", _, None) => line("deleted directory".to_owned()),
            (_, None, Some(mode)) => line(format!("new file mode {mode}")),
            (_, Some(mode), None) => line(format!("deleted file mode {mode}")),
            (_, Some(before), Some(after)) if before != after => {
                line(format!("old mode {before}"));
                line(format!("new mode {after}"));
            }
            _ => {}
        }
        if let Some(from) = &self.from {
            line(format!("rename from {from}"));
            line(format!("rename to {}", self.path));
        }
        if let Some(note) = &self.note {
            line(format!("({note})"));
        }
        text.push_str(self.diff.as_deref().unwrap_or_default());
        text
    }
}

/// One side of a comparison.
enum Side {
    Nothing,
    Text(String),
    Binary(Vec<u8>),
    Unknown(&'static str),
}

fn side(files: &HostFilesystem, entry: Option<&PastEntry>) -> Result<Side, CliError> {
    let Some(entry) = entry else { return Ok(Side::Nothing) };
    match entry.kind {
        EntryKind::Directory => return Ok(Side::Nothing),
        EntryKind::Other => return Ok(Side::Unknown("neither file nor link: there are no contents")),
        EntryKind::File | EntryKind::Symlink => {}
    }
    Ok(match files.past_content(entry, MOST_BYTES).map_err(CliError::internal)? {
        PastContent::TooLarge => Side::Unknown("too large to be compared"),
        PastContent::Lost => {
            Side::Unknown("changed since by something else: what this call left is not kept")
        }
        PastContent::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Side::Text(text),
            Ok(text) => Side::Binary(text.into_bytes()),
            Err(bytes) => Side::Binary(bytes.into_bytes()),
        },
    })
}

/// The changed lines, or why there are none.
fn lines(change: &PastChange, before: &Side, after: &Side) -> (Option<String>, Option<String>) {
    if let (Side::Unknown(why), _) | (_, Side::Unknown(why)) = (before, after) {
        return (None, Some((*why).to_owned()));
    }
    let text = |side: &Side| match side {
        Side::Nothing => Some(String::new()),
        Side::Text(text) => Some(text.clone()),
        Side::Binary(_) | Side::Unknown(_) => None,
    };
    let (Some(old), Some(new)) = (text(before), text(after)) else {
        let same = matches!((before, after), (Side::Binary(old), Side::Binary(new)) if old == new);
        return (None, Some(if same { "binary, and the same" } else { "binary files differ" }.to_owned()));
    };
    if old == new {
        return (None, None);
    }
    let path = change.path.to_string();
    let from = change.moved_from.as_ref().map_or_else(|| path.clone(), ToString::to_string);
    let name = |side: &Side, prefix: &str, path: &str| match side {
        Side::Nothing => "/dev/null".to_owned(),
        _ => format!("{prefix}/{path}"),
    };
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old.as_str(), new.as_str());
    let names = (name(before, "a", &from), name(after, "b", &path));
    (Some(diff.unified_diff().header(&names.0, &names.1).to_string()), None)
}

/// The mode as git writes it, with the kind.
fn full_mode(entry: &PastEntry) -> u32 {
    let kind = match entry.kind {
        EntryKind::File => 0o100_000,
        EntryKind::Directory => 0o040_000,
        EntryKind::Symlink => 0o120_000,
        EntryKind::Other => 0,
    };
    kind | (entry.mode & 0o7777)
}

/// On a terminal, in colours, and without commands to it.
fn show(screen: &mut Screen, text: &str) -> io::Result<()> {
    let mut is_head = true;
    for line in text.lines() {
        if line.starts_with("@@") {
            is_head = false;
        }
        screen.spans(&[span(visible(line), style(line, is_head))])?;
    }
    Ok(())
}

fn style(line: &str, is_head: bool) -> Style {
    match line.as_bytes().first() {
        _ if is_head => BOLD,
        Some(b'@') => NAME,
        Some(b'+') => GOOD,
        Some(b'-') => BAD,
        Some(b'\\') => DIM,
        _ => PLAIN,
    }
}
