//! What the baseline holds, on disk: one line for each change of what is known of a path, the last one counts.
//!
//! A line is a hash and JSON. One that does not fit its hash was not finished, and neither is anything after it: what is
//! lost with it is saved once more, since the workspace has another version than the one that is known then.
//!
//! Before a copy is made, replaced or removed, a line says that nothing is known of it. So what a line tells of has its
//! copy, whenever the process or the machine stops; and copies that nothing is known of are found, and removed.

use std::collections::BTreeSet;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::walk::{Before, Protected, Tree};
use crate::filesystem::host::disk::{Disk, Entry, Meta, OwnedBy, Replace};
use crate::filesystem::host::host_disk::{HostDisk, Protection};
use crate::filesystem::host::journal::{bytes, number};
use crate::filesystem::{EntryKind, FileVersion};

/// The index as it was last read or written.
#[derive(Default)]
pub(super) struct Index {
    /// Everything that the baseline holds, as the workspace had it.
    pub(super) tree: Arc<Tree>,
    /// What of it is protected against changes.
    pub(super) protected: Arc<Protected>,
    /// Where there may be something in the baseline that is not known.
    unsure: BTreeSet<PathBuf>,
    lines: usize,
    /// The version of the file, if it ends with a whole line.
    version: Option<FileVersion>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(with = "bytes")]
    path: PathBuf,
    known: Option<Known>,
}

#[derive(Serialize, Deserialize)]
struct Known {
    kind: EntryKind,
    dev: u64,
    ino: u64,
    links: u64,
    len: u64,
    mode: u32,
    #[serde(with = "number")]
    modified: i128,
    #[serde(with = "number")]
    changed: i128,
    /// Lines of before that was kept do not say; then it is saved once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<OwnedBy>,
    #[serde(default, skip_serializing_if = "Protection::is_none")]
    protection: Protection,
}

impl Known {
    fn of(entry: &Entry, protection: Protection) -> Self {
        let Entry { kind, dev, ino, links, len, meta, changed } = *entry;
        let Meta { mode, modified, owner } = meta;
        Self { kind, dev, ino, links, len, mode, modified, changed, owner, protection }
    }
}

impl From<Known> for Entry {
    fn from(known: Known) -> Self {
        let Known { kind, dev, ino, links, len, mode, modified, changed, owner, protection: _ } = known;
        Self { kind, dev, ino, links, len, meta: Meta { mode, modified, owner }, changed }
    }
}

const HASH: usize = 16;

impl Index {
    /// Reads it; one that is not there is empty.
    pub(super) fn load(disk: &HostDisk, path: &Path) -> io::Result<Self> {
        let Some(entry) = disk.look(path)? else { return Ok(Self::default()) };
        let text = disk.read(path)?;
        let (mut tree, mut lines, mut is_whole) = (Tree::new(), 0, true);
        let (mut protected, mut unsure) = (Protected::new(), BTreeSet::new());
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let Some(Line { path, known }) = decode(line) else {
                is_whole = false;
                break;
            };
            lines += 1;
            match known {
                Some(known) => {
                    match known.protection.is_none() {
                        true => _ = protected.remove(&path),
                        false => _ = protected.insert(path.clone(), known.protection),
                    }
                    unsure.remove(&path);
                    tree.insert(path, known.into());
                }
                // Nothing is known at all.
                None if path.as_os_str().is_empty() => {
                    (tree, protected) = (Tree::new(), Protected::new());
                    unsure.insert(path);
                }
                None => {
                    protected.remove(&path);
                    tree.remove(&path);
                    unsure.insert(path);
                }
            }
        }
        let (tree, protected) = (Arc::new(tree), Arc::new(protected));
        Ok(Self { tree, protected, unsure, lines, version: is_whole.then(|| entry.version()) })
    }

    /// What it says.
    pub(super) fn before(&self) -> Before {
        Before { tree: Arc::clone(&self.tree), protected: Arc::clone(&self.protected) }
    }

    /// Takes the places where there may be something that is not known: whoever asks removes it.
    pub(super) fn take_unsure(&mut self) -> BTreeSet<PathBuf> {
        std::mem::take(&mut self.unsure)
    }

    /// Says durably that nothing is known of these any more, since their copies are about to change.
    pub(super) fn forget(&mut self, disk: &HostDisk, path: &Path, paths: &[PathBuf]) -> io::Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let (tree, protected) = (Arc::make_mut(&mut self.tree), Arc::make_mut(&mut self.protected));
        for path in paths {
            tree.remove(path);
            protected.remove(path);
        }
        // All of it, if that is all there is.
        let all = [PathBuf::new()];
        let paths = if tree.is_empty() { &all } else { paths };
        if self.version.is_none() {
            self.rewrite(disk, path)?;
        }
        let mut text = Vec::new();
        for path in paths {
            encode(path, None, &mut text)?;
        }
        self.append(disk, path, &text, paths.len())
    }

    /// Whether the file is still as it was.
    pub(super) fn is_current(&self, disk: &HostDisk, path: &Path) -> io::Result<bool> {
        Ok(disk.look(path)?.map(|entry| entry.version()) == self.version && self.version.is_some())
    }

    /// Makes it say what `tree` is, durably. Costs what has changed, and now and then what there is.
    pub(super) fn save(
        &mut self,
        disk: &HostDisk,
        path: &Path,
        tree: Tree,
        protected: Protected,
    ) -> io::Result<()> {
        let gone = self.tree.keys().filter(|path| !tree.contains_key(*path)).map(|path| (path, None));
        let changed = tree.iter().filter(|(path, entry)| self.tree.get(*path) != Some(entry));
        let changed = changed.map(|(path, entry)| (path, Some(entry)));
        let mut text = Vec::new();
        let mut count = 0;
        for (path, entry) in gone.chain(changed) {
            let known = entry.map(|entry| known(path, entry, &protected));
            encode(path, known, &mut text)?;
            count += 1;
        }
        let is_long = self.lines + count > 2 * tree.len() + 100;
        (self.tree, self.protected) = (Arc::new(tree), Arc::new(protected));
        match self.version.is_none() || is_long {
            true => self.rewrite(disk, path),
            false if count > 0 => self.append(disk, path, &text, count),
            false => Ok(()),
        }
    }

    fn append(&mut self, disk: &HostDisk, path: &Path, text: &[u8], count: usize) -> io::Result<()> {
        let mut file = disk.open_or_create(path, 0o600)?;
        // What fails half-way is not known.
        self.version = None;
        file.seek(io::SeekFrom::End(0))?;
        file.write_all(text)?;
        file.sync_data()?;
        self.lines += count;
        self.version = disk.look(path)?.map(|entry| entry.version());
        Ok(())
    }

    fn rewrite(&mut self, disk: &HostDisk, path: &Path) -> io::Result<()> {
        let mut text = Vec::new();
        for (path, entry) in &*self.tree {
            let known = known(path, entry, &self.protected);
            encode(path, Some(known), &mut text)?;
        }
        let fresh = path.with_extension("new");
        if disk.look(&fresh)?.is_some() {
            disk.unlink(&fresh)?;
        }
        self.version = None;
        disk.create(&fresh, &text, 0o600)?;
        disk.sync_file(&fresh)?;
        disk.rename(&fresh, path, Replace::Allowed)?;
        disk.sync_dir(path.parent().unwrap_or(Path::new("")))?;
        self.lines = self.tree.len();
        self.version = disk.look(path)?.map(|entry| entry.version());
        Ok(())
    }
}

fn known(path: &Path, entry: &Entry, protected: &Protected) -> Known {
    Known::of(entry, protected.get(path).copied().unwrap_or_default())
}

fn encode(path: &Path, known: Option<Known>, text: &mut Vec<u8>) -> io::Result<()> {
    let line = serde_json::to_vec(&Line { path: path.to_owned(), known })?;
    text.extend_from_slice(blake3::hash(&line).to_hex().as_bytes().get(..HASH).unwrap_or_default());
    text.push(b' ');
    text.extend_from_slice(&line);
    text.push(b'\n');
    Ok(())
}

fn decode(line: &[u8]) -> Option<Line> {
    let (hash, rest) = line.strip_suffix(b"\n")?.split_at_checked(HASH)?;
    let body = rest.strip_prefix(b" ")?;
    if blake3::hash(body).to_hex().as_bytes().get(..HASH)? != hash {
        return None;
    }
    serde_json::from_slice(body).ok()
}

#[cfg(test)]
mod tests;
