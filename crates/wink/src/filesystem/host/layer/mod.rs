//! What a fork changed: a persistent tree over the live workspace.
//!
//! A directory of the layer names its *source*, the directory of the workspace that shows through, and the entries
//! that differ from it. Moving a directory moves its node (or makes one that names the source), so it costs the same
//! however much is in it; copies share everything.
//!
//! Beside the tree the layer has *records*: what was in the workspace at each place that the fork read, took something from,
//! removed or replaced, when it first did. Merging checks those of places that it changed, so nobody else's work is
//! overwritten.

mod diff;
mod plan;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::disk::{Entry, Meta};
use super::host_disk::Attributes;
use super::journal::Pin;
use super::scan::TrashDir;
use super::staged::Staged;
use crate::filesystem::{EntryKind, FileVersion, Resolutions};

pub(super) use diff::{differences, rebase};
pub(super) use plan::{Planned, Prepared, plan};

/// A state of a fork. Cloning does not copy.
#[derive(Clone)]
pub(super) struct Layer {
    pub(super) root: Arc<Dir>,
    pub(super) records: OrdMap<Arc<Path>, Expected>,
    /// What a command removed that cannot be made again.
    pub(super) lost: OrdSet<Arc<Path>>,
    /// What the policies of the call met.
    pub(super) held: Option<Arc<Resolutions>>,
    /// Places of the workspace that commands wrote on an overlay. The records are of the time after the command, so a
    /// merge also asks the journals what others committed at these places since the command began.
    pub(super) written: OrdMap<Arc<Path>, Written>,
}

/// A place that a command wrote on an overlay.
#[derive(Clone)]
pub(super) struct Written {
    /// The last journal when the command began.
    pub(super) since: Arc<Pin>,
    pub(super) how: WrittenAs,
}

/// What a command did at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrittenAs {
    /// It made, changed, moved or removed what is there.
    Changed,
    /// It made a directory. Another process may have made one there too.
    MadeDirectory,
    /// It wrote what is there already, so that nothing is to be merged.
    Same,
    /// It changed something in this directory, and perhaps its mode or owner, of which nothing is to be seen.
    Inside,
}

/// A directory with changes below it, or a new one.
#[derive(Clone)]
pub(super) struct Dir {
    /// What shows through, in the workspace; nothing for a new directory.
    pub(super) source: Option<Arc<Path>>,
    /// The entries that differ from the source.
    pub(super) changed: OrdMap<Arc<OsStr>, Node>,
    /// Mode, time and owner: of a new one, or if they were set.
    pub(super) meta: Option<Meta>,
    /// Whether a new one has its time whatever comes into it.
    pub(super) keeps_time: bool,
    /// The attributes of a new one, if it had any before.
    pub(super) attributes: Option<Arc<Attributes>>,
}

/// An entry that differs.
#[derive(Clone)]
pub(super) enum Node {
    /// What the workspace has elsewhere, unchanged: it was moved here.
    Moved(Arc<Path>),
    Dir(Arc<Dir>),
    /// A file, or what else can be made anew and is no directory and no link.
    File(Arc<Staged>),
    Link(Arc<Link>),
    /// The source has something here that the fork has not.
    Gone,
}

/// A symbolic link that a fork made.
pub(super) struct Link {
    pub(super) target: PathBuf,
    pub(super) meta: Meta,
    pub(super) version: FileVersion,
    /// Where it also is, as long as it may turn out to be somebody else's.
    pub(super) _trash: Option<Arc<TrashDir>>,
}

/// What was in the workspace when the fork first read the file or changed the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Absent,
    /// This very state.
    Exactly(EntryKind, FileVersion),
    /// This directory, whatever is in it: it was moved, and takes along what others do in it.
    Directory {
        dev: u64,
        ino: u64,
    },
}

impl Expected {
    /// What is there now, and has to stay so.
    pub(super) fn exactly(found: Option<&Entry>) -> Self {
        found.map_or(Self::Absent, |entry| Self::Exactly(entry.kind, entry.version()))
    }

    /// What is there now, to be moved.
    pub(super) fn movable(found: &Entry) -> Self {
        match found.kind {
            EntryKind::Directory => Self::Directory { dev: found.dev, ino: found.ino },
            _ => Self::exactly(Some(found)),
        }
    }

    /// Whether it is still so.
    pub(super) fn holds(&self, found: Option<&Entry>) -> bool {
        match (self, found) {
            (Self::Directory { dev, ino }, Some(entry)) => {
                entry.kind == EntryKind::Directory && (entry.dev, entry.ino) == (*dev, *ino)
            }
            (Self::Directory { .. }, None) => false,
            _ => *self == Self::exactly(found),
        }
    }

    /// The version of what was there; of a directory that was moved, none is known.
    pub(super) fn version(&self) -> Option<FileVersion> {
        match self {
            Self::Exactly(_, version) => Some(*version),
            Self::Absent | Self::Directory { .. } => None,
        }
    }

    pub(super) fn kind(&self) -> Option<EntryKind> {
        match self {
            Self::Absent => None,
            Self::Exactly(kind, _) => Some(*kind),
            Self::Directory { .. } => Some(EntryKind::Directory),
        }
    }
}

impl Node {
    /// Whether both are the very same.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Moved(one), Self::Moved(two)) => one == two,
            (Self::Dir(one), Self::Dir(two)) => Arc::ptr_eq(one, two),
            (Self::File(one), Self::File(two)) => Arc::ptr_eq(one, two),
            (Self::Link(one), Self::Link(two)) => Arc::ptr_eq(one, two),
            (Self::Gone, Self::Gone) => true,
            _ => false,
        }
    }
}

impl Dir {
    /// The directory `source` of the workspace, unchanged.
    pub(super) fn over(source: Arc<Path>) -> Self {
        Self { source: Some(source), changed: OrdMap::new(), meta: None, keeps_time: false, attributes: None }
    }

    /// A new directory.
    pub(super) fn new(meta: Meta) -> Self {
        Self { source: None, changed: OrdMap::new(), meta: Some(meta), keeps_time: false, attributes: None }
    }

    /// A new directory that has its time when everything is in it.
    pub(super) fn of_time(meta: Meta) -> Self {
        Self { keeps_time: true, ..Self::new(meta) }
    }

    /// The place in the workspace that shows through at `name`.
    pub(super) fn below(&self, name: &OsStr) -> Option<PathBuf> {
        self.source.as_ref().map(|source| source.join(name))
    }
}

impl Default for Layer {
    fn default() -> Self {
        let root = Arc::new(Dir::over(Arc::from(Path::new(""))));
        Self { root, records: OrdMap::new(), lost: OrdSet::new(), held: None, written: OrdMap::new() }
    }
}

impl Layer {
    /// The same, of a call whose policies met this.
    pub(super) fn held_to(self, held: Option<&Arc<Resolutions>>) -> Self {
        Self { held: held.cloned(), ..self }
    }

    /// Whether nothing was changed.
    pub(super) fn is_empty(&self) -> bool {
        self.root.changed.is_empty()
    }

    /// Notes what was at a place of the workspace, unless that was noted before.
    pub(super) fn record(&mut self, place: &Path, expected: Expected) {
        match self.records.get(place) {
            None => _ = self.records.insert(Arc::from(place), expected),
            // It is the stricter promise.
            Some(Expected::Directory { .. }) if matches!(expected, Expected::Exactly(..)) => {
                self.records.insert(Arc::from(place), expected);
            }
            Some(_) => {}
        }
    }

    /// Notes all that another layer has noted, and lost.
    pub(super) fn record_all(&mut self, other: &Self) {
        for (place, expected) in &other.records {
            self.record(place, *expected);
        }
        self.lost = self.lost.clone().union(other.lost.clone());
        self.written = self.written.clone().union(other.written.clone());
    }

    /// Notes that a command that began after the journal `since` wrote a place. What an earlier command of the same fork
    /// wrote stays noted with its earlier beginning.
    pub(super) fn write(&mut self, place: &Path, since: &Arc<Pin>, how: WrittenAs) {
        match self.written.get_mut(place) {
            None => {
                let written = Written { since: Arc::clone(since), how };
                self.written.insert(Arc::from(place), written);
            }
            Some(written) if how != WrittenAs::Inside => written.how = how,
            Some(_) => {}
        }
    }

    /// Notes that something was removed that cannot be had again. That is a change, though nothing else may be one.
    pub(super) fn lose(&mut self, path: &Path) {
        self.lost.insert(Arc::from(path));
        self.root = Arc::new(Dir::clone(&self.root));
    }

    /// Brings the records up to date after a merge was taken back: what went and came back has other inode times, and
    /// nothing else.
    ///
    /// The same after modes were lifted and put back.
    pub(super) fn renew(&mut self, look: impl Fn(&Path, &[u64; 5]) -> Option<Entry>) {
        let contents = |version: &FileVersion| version.parts().split_last().map(|(_, rest)| rest.to_vec());
        for (place, expected) in self.records.clone() {
            if let Expected::Exactly(kind, version) = expected
                && let Some(entry) = look(&place, version.parts())
                && entry.kind == kind
                && contents(&entry.version()) == contents(&version)
            {
                self.records.insert(place, Expected::Exactly(kind, entry.version()));
            }
        }
    }

    /// Puts a node at a path whose parents are directories in the fork.
    pub(super) fn put(&mut self, path: &Path, node: Node) {
        if let Some((dir, name)) = self.parent_mut(path) {
            dir.changed.insert(Arc::from(name), node);
        }
    }

    /// Forgets what the fork has at a path, so that the source shows through again.
    pub(super) fn forget(&mut self, path: &Path) {
        if let Some((dir, name)) = self.parent_mut(path) {
            dir.changed.remove(name);
        }
    }

    /// Takes away what is at a path; `is_below` says whether the source has something there.
    pub(super) fn remove(&mut self, path: &Path, is_below: bool) {
        if is_below {
            self.put(path, Node::Gone);
        } else {
            self.forget(path);
        }
    }

    /// The directory at a path, to be changed.
    pub(super) fn dir_mut(&mut self, path: &Path) -> Option<&mut Dir> {
        let mut dir = Arc::make_mut(&mut self.root);
        for name in path {
            let below = dir.below(name);
            let node = dir.changed.entry(Arc::from(name)).or_insert(Node::Gone);
            let source = match node {
                Node::Dir(_) => None,
                Node::Moved(source) => Some(Arc::clone(source)),
                _ => below.map(Arc::from),
            };
            if let Some(source) = source {
                *node = Node::Dir(Arc::new(Dir::over(source)));
            }
            let Node::Dir(child) = node else { return None };
            dir = Arc::make_mut(child);
        }
        Some(dir)
    }

    fn parent_mut<'p>(&mut self, path: &'p Path) -> Option<(&mut Dir, &'p OsStr)> {
        let (parent, name) = (path.parent()?, path.file_name()?);
        Some((self.dir_mut(parent)?, name))
    }
}
