//! What kept journals changed, for whoever wants to see it: path by path, with what was there before and after.
//!
//! What was there before is in the journal. What it left is where it was put, or, if a later journal changed that in
//! turn, in the later one. Somebody else's changes are not in any journal: what they replaced is lost, and said to be.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::Disk;
use super::fork::journal_error;
use super::journal::{After, Before, Journal, JournalError, Past, Stamp};
use super::name::{to_disk, to_shown};
use super::{HostFilesystem, io_error};
use crate::filesystem::{EntryKind, FsPath, FsResult, STATE};
use crate::store::JournalId;

/// What journals changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PastChanges {
    /// Every path that was changed, by journal and path.
    pub changes: Vec<PastChange>,
    /// The journals that are not kept any more.
    pub forgotten: Vec<JournalId>,
}

/// One path that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastChange {
    /// Where it is afterwards; where it was, if it is gone.
    pub path: FsPath,
    /// Where it was before, if it was moved.
    pub moved_from: Option<FsPath>,
    /// What was there before, if anything was.
    pub before: Option<PastEntry>,
    /// What is there afterwards, if anything is.
    pub after: Option<PastEntry>,
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Nothing was there.
    Created,
    /// It has other contents, or is of another kind.
    Modified,
    /// It has another mode, and is otherwise what it was.
    Mode,
    /// It was elsewhere before.
    Moved,
    /// It is gone.
    Deleted,
}

impl PastChange {
    /// What happened to it.
    pub fn kind(&self) -> ChangeKind {
        match (&self.before, &self.after) {
            _ if self.moved_from.is_some() => ChangeKind::Moved,
            (None, _) => ChangeKind::Created,
            (_, None) => ChangeKind::Deleted,
            // One entry, told twice.
            (Some(before), Some(after)) if before.place == after.place => ChangeKind::Mode,
            (Some(_), Some(_)) => ChangeKind::Modified,
        }
    }
}

/// Something that was at a path; [`HostFilesystem::past_content`] reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastEntry {
    /// File, directory, link or something else.
    pub kind: EntryKind,
    /// The permission bits.
    pub mode: u32,
    /// Bytes.
    pub len: u64,
    /// Where it can be read.
    place: PathBuf,
    modified: i128,
}

/// What was in a file, or where a link pointed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PastContent {
    /// This.
    Bytes(Vec<u8>),
    /// More than was asked for.
    TooLarge,
    /// It is not kept: somebody else has changed it since.
    Lost,
}

impl HostFilesystem {
    /// What these journals changed. Nothing is read of the contents, and nobody is kept from changing the workspace.
    ///
    /// # Errors
    /// When a journal cannot be read.
    pub fn past_changes(&self, journals: &[JournalId]) -> FsResult<PastChanges> {
        let failed = |error: JournalError| journal_error(&error);
        let base = &self.shared.base;
        let journal = match &base.writing {
            Some(writing) => Arc::clone(&writing.journal),
            None => Arc::new(Journal::to_look_at(Arc::clone(&base.disk) as _, STATE)),
        };
        let mut found = PastChanges::default();
        let mut pasts = Vec::new();
        for id in journals {
            match journal.past(*id).map_err(failed)? {
                Some(past) => pasts.push(past),
                None => found.forgotten.push(*id),
            }
        }
        pasts.sort_by_key(|past| past.sequence);
        let Some(first) = pasts.first() else { return Ok(found) };
        // What came after one that was pruned says nothing about this.
        let later = journal.since(first.sequence).map_err(failed)?.unwrap_or_default();
        let later: Vec<Later<'_>> = later.iter().rev().map(Later::new).collect();
        for past in &pasts {
            let start = later.partition_point(|later| later.sequence <= past.sequence);
            let mut changes = self.changes_of(past, later.get(start..).unwrap_or_default());
            changes.sort_by(|one, other| one.path.cmp(&other.path));
            found.changes.append(&mut changes);
        }
        Ok(found)
    }

    /// What a path is called on disk, from the root. Names that are not UTF-8 are as they are there, and not as they are
    /// shown.
    ///
    /// # Errors
    /// When no file can be shown so.
    pub fn name_on_disk(path: &FsPath) -> FsResult<PathBuf> {
        to_disk(path)
    }

    /// What was in a file that journals changed, or where a link pointed. Of a directory there is nothing.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn past_content(&self, entry: &PastEntry, most: u64) -> FsResult<PastContent> {
        match self.read_past(entry, most) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PastContent::Lost),
            read => read.map_err(|error| io_error(&to_shown(&entry.place), "read", &error)),
        }
    }

    fn read_past(&self, entry: &PastEntry, most: u64) -> io::Result<PastContent> {
        let disk = &self.shared.base.disk;
        let is_it = |kind, len, modified| (kind, len, modified) == (entry.kind, entry.len, entry.modified);
        match (entry.kind, disk.look(&entry.place)?) {
            (EntryKind::Directory | EntryKind::Other, Some(_)) => Ok(PastContent::Bytes(Vec::new())),
            (EntryKind::Symlink, Some(there))
                if (there.kind, there.meta.modified) == (entry.kind, entry.modified) =>
            {
                let target = disk.read_link(&entry.place)?;
                Ok(PastContent::Bytes(target.into_os_string().into_encoded_bytes()))
            }
            (EntryKind::File, Some(there)) if is_it(there.kind, there.len, there.meta.modified) => {
                if there.len > most {
                    return Ok(PastContent::TooLarge);
                }
                let file = disk.open_file(&entry.place)?;
                let about = file.metadata()?;
                let modified = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
                if !is_it(EntryKind::File, about.len(), modified) {
                    return Ok(PastContent::Lost);
                }
                let mut bytes = Vec::new();
                file.take(entry.len).read_to_end(&mut bytes)?;
                Ok(PastContent::Bytes(bytes))
            }
            _ => Ok(PastContent::Lost),
        }
    }

    fn changes_of(&self, past: &Past, later: &[Later<'_>]) -> Vec<PastChange> {
        let moves = Moves::of(past);
        // What was put can have been given a mode and time as well.
        let (mut left, mut set) = (HashMap::new(), HashMap::new());
        for (path, after) in &past.after {
            match after {
                After::Meta(meta) => _ = set.insert(path.as_path(), meta),
                After::Nothing | After::Entry(_) => _ = left.insert(path.as_path(), after),
            }
        }
        let after = |path: &Path, stamp: &Stamp| Some(left_entry(path, stamp, later));
        let mut changes = Vec::new();
        let mut told: HashSet<PathBuf> = moves.0.values().map(|to| (*to).to_owned()).collect();
        for (path, before) in &past.before {
            match before {
                Before::Nothing => {}
                Before::Moved { to, stamp } => changes.push(PastChange {
                    path: to_shown(to),
                    moved_from: Some(to_shown(path)),
                    before: after(to, stamp),
                    after: after(to, stamp),
                }),
                Before::Image { at, stamp } => {
                    for (path, at, stamp) in self.all_of(path, at, stamp) {
                        let now = moves.place_of(&path);
                        let put = match left.get(now.as_path()) {
                            Some(After::Entry(put)) if told.insert(now.clone()) => Some(put),
                            _ => None,
                        };
                        let before = Some(entry(at, &stamp));
                        changes.push(match put {
                            Some(put) => PastChange {
                                path: to_shown(&now),
                                moved_from: (now != path).then(|| to_shown(&path)),
                                before,
                                after: after(&now, put),
                            },
                            None => {
                                PastChange { path: to_shown(&path), moved_from: None, before, after: None }
                            }
                        });
                    }
                }
                Before::InPlace(stamp) => {
                    let now = moves.place_of(path);
                    if let Some(meta) = set.get(now.as_path())
                        && meta.mode != stamp.mode
                    {
                        let left = Stamp { mode: meta.mode, modified: meta.modified, ..stamp.clone() };
                        let after = left_entry(&now, &left, later);
                        let before = PastEntry { mode: stamp.mode, ..after.clone() };
                        let (before, after) = (Some(before), Some(after));
                        changes.push(PastChange { path: to_shown(&now), moved_from: None, before, after });
                    }
                }
            }
        }
        for (path, state) in &past.after {
            if let After::Entry(stamp) = state
                && told.insert(path.clone())
            {
                let after = after(path, stamp);
                changes.push(PastChange { path: to_shown(path), moved_from: None, before: None, after });
            }
        }
        changes
    }

    /// Something that left its place, and all that was in it: what it was called, and where it is kept.
    fn all_of(&self, path: &Path, at: &Path, stamp: &Stamp) -> Vec<(PathBuf, PathBuf, Stamp)> {
        let disk = &self.shared.base.disk;
        let mut all = Vec::new();
        let mut left = vec![(path.to_owned(), at.to_owned(), stamp.clone())];
        while let Some((path, at, stamp)) = left.pop() {
            // What cannot be listed has left its place all the same.
            let inside = match stamp.kind {
                EntryKind::Directory => disk.read_dir(&at).unwrap_or_default(),
                EntryKind::File | EntryKind::Symlink | EntryKind::Other => Vec::new(),
            };
            for (name, _) in inside {
                let at = at.join(&name);
                if let Ok(Some(there)) = disk.look(&at) {
                    left.push((path.join(&name), at, Stamp::of(&there)));
                }
            }
            all.push((path, at, stamp));
        }
        all
    }
}

/// What left its place for another.
struct Moves<'a>(HashMap<&'a Path, &'a Path>);

impl<'a> Moves<'a> {
    fn of(past: &'a Past) -> Self {
        let mut moves = HashMap::new();
        for (path, before) in &past.before {
            if let Before::Moved { to, .. } = before {
                moves.insert(path.as_path(), to.as_path());
            }
        }
        Self(moves)
    }

    /// What a path is called after the directories that it is in were moved.
    fn place_of(&self, path: &Path) -> PathBuf {
        let moved = path.ancestors().skip(1).find_map(|above| self.0.get_key_value(above));
        moved.map_or_else(|| path.to_owned(), |(above, to)| below(path, above, to))
    }
}

/// A journal that came later, by path.
struct Later<'a> {
    sequence: u64,
    before: HashMap<&'a Path, &'a Before>,
    after: HashMap<&'a Path, &'a After>,
}

impl<'a> Later<'a> {
    fn new(past: &'a Past) -> Self {
        Self {
            sequence: past.sequence,
            before: past.before.iter().map(|(path, before)| (path.as_path(), before)).collect(),
            after: past.after.iter().map(|(path, after)| (path.as_path(), after)).collect(),
        }
    }
}

/// What a journal left at a path, wherever that is by now.
fn left_entry(path: &Path, stamp: &Stamp, later: &[Later<'_>]) -> PastEntry {
    let (mut path, mut stamp) = (path.to_owned(), stamp.clone());
    for later in later {
        // Itself, or the nearest directory that it is in, left its place.
        let left = path.ancestors().find_map(|above| match later.before.get(above) {
            Some(Before::Image { at, .. }) => Some((above, at, true)),
            Some(Before::Moved { to, .. }) => Some((above, to, false)),
            Some(Before::Nothing | Before::InPlace(_)) | None => None,
        });
        if let Some((above, to, is_kept)) = left {
            path = below(&path, above, to);
            if is_kept {
                break;
            }
        }
        if let Some(After::Meta(meta)) = later.after.get(path.as_path()) {
            stamp.modified = meta.modified;
        }
    }
    entry(path, &stamp)
}

fn entry(place: PathBuf, stamp: &Stamp) -> PastEntry {
    let Stamp { kind, mode, len, modified, .. } = *stamp;
    PastEntry { kind, mode, len, place, modified }
}

/// What `path`, which is `above` or below it, is called where that is `to`.
fn below(path: &Path, above: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(above) {
        Ok(rest) if rest != Path::new("") => to.join(rest),
        _ => to.to_owned(),
    }
}
