//! What a plan, or taking one back, has changed and not yet synced.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use super::super::disk::Disk;
use super::error::{Doing, JournalError};
use super::look_in_tree;
use crate::filesystem::EntryKind;

/// What must be synced, each thing once, wherever it has moved meanwhile.
#[derive(Default)]
pub(super) struct Touched {
    dirs: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
    /// Directories of which it is not durable yet that they are there.
    places: BTreeSet<PathBuf>,
}

impl Touched {
    /// An entry came into the directory that this is in, or left it.
    pub(super) fn parent_of(&mut self, path: &Path) {
        let parent = path.parent().unwrap_or(Path::new(""));
        if !self.dirs.contains(parent) {
            self.dirs.insert(parent.to_owned());
        }
    }

    /// Its own mode or time changed, or it is new.
    pub(super) fn itself(&mut self, path: &Path, kind: EntryKind) {
        match kind {
            EntryKind::Directory => drop(self.dirs.insert(path.to_owned())),
            EntryKind::File => drop(self.files.insert(path.to_owned())),
            EntryKind::Symlink | EntryKind::Other => self.parent_of(path),
        }
    }

    /// It is somewhere else now, and all that is below it.
    pub(super) fn moved(&mut self, from: &Path, to: &Path) {
        for set in [&mut self.dirs, &mut self.files, &mut self.places] {
            // Paths are sorted by component: all that is below comes right after.
            let below: Vec<PathBuf> = set
                .range::<Path, _>((Bound::Included(from), Bound::Unbounded))
                .take_while(|path| path.starts_with(from))
                .cloned()
                .collect();
            for path in below {
                if let Some(now) = rebased(&path, from, to) {
                    set.remove(&path);
                    set.insert(now);
                }
            }
        }
    }

    /// A directory is in a place that is new for it.
    pub(super) fn came_to(&mut self, path: &Path) {
        self.places.insert(path.to_owned());
    }

    /// Something else is where this file was.
    pub(super) fn is_replaced(&mut self, path: &Path) {
        self.files.remove(path);
    }

    /// Whether a directory that this is in has come to its place only now.
    pub(super) fn is_in_new_place(&self, path: &Path) -> bool {
        path.ancestors().any(|dir| self.places.contains(dir))
    }

    /// Whether it was touched itself, or something below it.
    pub(super) fn is_within(&self, path: &Path) -> bool {
        let first = self.dirs.range::<Path, _>((Bound::Included(path), Bound::Unbounded)).next();
        first.is_some_and(|dir| dir.starts_with(path))
    }

    /// Makes what is still there of it durable: the rest was removed since.
    pub(super) fn sync_rest(&mut self, disk: &dyn Disk) -> Result<(), JournalError> {
        for (set, kind) in [(&mut self.dirs, EntryKind::Directory), (&mut self.files, EntryKind::File)] {
            for path in std::mem::take(set) {
                if look_in_tree(disk, &path)?.is_some_and(|entry| entry.kind == kind) {
                    set.insert(path);
                }
            }
        }
        self.sync(disk)
    }

    /// Makes all of it durable.
    pub(super) fn sync(&mut self, disk: &dyn Disk) -> Result<(), JournalError> {
        self.files.iter().try_for_each(|file| disk.sync_file(file).doing("sync", file))?;
        self.dirs.iter().try_for_each(|dir| disk.sync_dir(dir).doing("sync", dir))?;
        *self = Self::default();
        Ok(())
    }
}

/// `path`, if it is at or below `from`, after that has moved to `to`.
pub(super) fn rebased(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(from).ok()?;
    Some(if rest == Path::new("") { to.to_owned() } else { to.join(rest) })
}
