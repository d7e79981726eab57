//! `wink diff`: what an entry of the log changed in files, as a unified diff.

use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstyle::Style;
use serde::Serialize;
use similar::TextDiff;
use wink::filesystem::host::{ChangeKind, HostFilesystem, PastChange, PastContent, PastEntry};
use wink::filesystem::{EntryKind, FsPath, quoted};

use super::progress::Waiting;
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
    /// As headers have them.
    #[serde(skip)]
    names: Names,
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
    let Some(past) = open::past(common)? else {
        return Err(find::unknown(&common.session, which));
    };
    let log = past.log(common).await?;
    let on_disk = past.files();
    let entry = &find::find(common, &log, which).await?;
    let waiting = Waiting::begin("comparing files");
    let (changed, past) = changes_of(on_disk, &log, entry).await?;
    let mut files = Vec::new();
    for change in &past.changes {
        files.push(FileDiff::of(on_disk, change)?);
    }
    drop(waiting);
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
    // As it is, so that it can be a patch. What a patch cannot say is said beside it.
    for file in diff.files.iter().filter(|file| file.is_lost()) {
        note(&format!("no patch has what changed in {}", file.names.after("")));
    }
    let text: String = diff.files.iter().map(FileDiff::text).collect();
    frame::print_bytes(text.as_bytes())
}

impl FileDiff {
    fn of(files: &HostFilesystem, change: &PastChange) -> Result<Self, CliError> {
        let mode =
            |entry: &Option<PastEntry>| entry.as_ref().map(|entry| format!("{:06o}", full_mode(entry)));
        let names = Names::of(change);
        let (diff, note) = match change.kind() {
            ChangeKind::Moved if change.before == change.after => (None, None),
            ChangeKind::Mode => (None, None),
            ChangeKind::Created | ChangeKind::Deleted | ChangeKind::Modified | ChangeKind::Moved => {
                let before = side(files, change.before.as_ref())?;
                let after = side(files, change.after.as_ref())?;
                lines(&names, &before, &after)
            }
        };
        Ok(Self {
            path: change.path.to_string(),
            from: change.moved_from.as_ref().map(ToString::to_string),
            names,
            change: what_happened(change),
            kind: kind_of(change),
            mode_before: mode(&change.before),
            mode_after: mode(&change.after),
            diff,
            note,
        })
    }

    /// As a patch has it, with the words that git uses. What no patch has is in lines that whoever applies it passes over.
    fn text(&self) -> String {
        if let Some(note) = &self.note {
            return format!("not in this patch: {}: {note}\n", self.names.after(""));
        }
        if self.kind == "directory" {
            return self.directory();
        }
        let mut text = format!("diff --git {} {}\n", self.names.before("a/"), self.names.after("b/"));
        let mut line = |said: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{said}");
        };
        match (&self.mode_before, &self.mode_after) {
            (None, Some(mode)) => line(format!("new file mode {mode}")),
            (Some(mode), None) => line(format!("deleted file mode {mode}")),
            (Some(before), Some(after)) if before != after => {
                line(format!("old mode {before}"));
                line(format!("new mode {after}"));
            }
            _ => {}
        }
        if self.from.is_some() {
            line(format!("rename from {}", self.names.before("")));
            line(format!("rename to {}", self.names.after("")));
        }
        text.push_str(self.diff.as_deref().unwrap_or_default());
        text
    }

    fn directory(&self) -> String {
        let name = self.names.after("");
        let mut text = match (&self.from, &self.mode_before, &self.mode_after) {
            (_, None, _) => format!("new directory: {name}\n"),
            (_, _, None) => format!("deleted directory: {name}\n"),
            (Some(_), ..) => format!("moved directory: {} to {name}\n", self.names.before("")),
            (None, ..) => String::new(),
        };
        if let (Some(before), Some(after)) = (&self.mode_before, &self.mode_after)
            && before != after
        {
            text.push_str(&format!("mode of directory: {name}: {before} to {after}\n"));
        }
        text
    }

    /// Whether somebody who applies the patch does not get all of it.
    fn is_lost(&self) -> bool {
        self.note.is_some()
            || (self.kind == "directory" && self.mode_before.is_some() && self.mode_after.is_some())
    }
}

/// What a file was and is called, as patches write it: as it is on disk, and in quotes where it could be taken for something
/// else.
struct Names {
    before: PathBuf,
    after: PathBuf,
}

impl Names {
    fn of(change: &PastChange) -> Self {
        // Every path of a journal is one of the disk's.
        let on_disk =
            |path: &FsPath| HostFilesystem::name_on_disk(path).unwrap_or_else(|_| path.as_str().into());
        let old = change.moved_from.as_ref().unwrap_or(&change.path);
        Self { before: on_disk(old), after: on_disk(&change.path) }
    }

    /// `a/name`, or `"a/na\nme"`.
    fn before(&self, prefix: &str) -> String {
        header(prefix, &self.before)
    }

    fn after(&self, prefix: &str) -> String {
        header(prefix, &self.after)
    }
}

fn header(prefix: &str, name: &Path) -> String {
    quoted(&[prefix.as_bytes(), name.as_os_str().as_bytes()].concat()).into_owned()
}

/// The same in a line that may have a time after it: a name with a space in it says where it ends, as git has it.
fn ended(header: String) -> String {
    if header.contains(' ') && !header.starts_with('"') { header + "\t" } else { header }
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
fn lines(names: &Names, before: &Side, after: &Side) -> (Option<String>, Option<String>) {
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
        return (None, (!same).then(|| "binary files differ".to_owned()));
    };
    if old == new {
        return (None, None);
    }
    let name = |side: &Side, name: String| match side {
        Side::Nothing => "/dev/null".to_owned(),
        _ => ended(name),
    };
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old.as_str(), new.as_str());
    let names = (name(before, names.before("a/")), name(after, names.after("b/")));
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
