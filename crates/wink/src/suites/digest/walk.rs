//! The one walk through a workspace: a survey tells what it found, and a mark whether another would find the same.

use std::collections::VecDeque;

use super::known;
use crate::filesystem::{DirEntry, EntryKind, Filesystem, FsPath, FsResult};

/// Entries that are looked at.
pub(super) const MAX_ENTRIES: usize = 20_000;
/// Segments below which nothing is walked, where a filesystem allows more.
pub(super) const MAX_DEPTH: usize = 32;
/// Key files that are read.
pub(super) const MAX_KEY_FILES: usize = 40;
/// Goes up when surveys say other things about the same tree.
const FORMAT: &str = "2";

/// What was found.
pub(super) struct Walk {
    pub(super) entries: Vec<DirEntry>,
    /// Directories that could not be listed.
    pub(super) closed: u64,
    /// Entries that were listed, and too many to be looked at.
    cut: usize,
    pub(super) is_complete: bool,
}

impl Walk {
    /// Walks the tree, level by level, so that what is left out at the limit is deepest.
    pub(super) async fn through(files: &dyn Filesystem) -> FsResult<Self> {
        let mut walk = Self { entries: Vec::new(), closed: 0, cut: 0, is_complete: true };
        let mut waiting = VecDeque::new();
        let mut listed = files.list(&FsPath::root()).await?;
        loop {
            let left = MAX_ENTRIES - walk.entries.len();
            walk.cut = listed.len().saturating_sub(left);
            listed.truncate(left);
            for entry in &listed {
                if entry.kind == EntryKind::Directory && !known::is_heavy(entry.name()) {
                    match entry.path.depth() < MAX_DEPTH {
                        true => waiting.push_back(entry.path.clone()),
                        false => walk.is_complete = false,
                    }
                }
            }
            walk.entries.append(&mut listed);
            if walk.entries.len() == MAX_ENTRIES {
                break;
            }
            let Some(next) = waiting.pop_front() else { break };
            match files.list(&next).await {
                Ok(found) => listed = found,
                // One that went meanwhile, or is closed to us.
                Err(_) => walk.closed += 1,
            }
        }
        walk.is_complete &= waiting.is_empty() && walk.cut == 0;
        Ok(walk)
    }

    /// The key files, what is most worth reading first.
    pub(super) fn keys(&self) -> Vec<&DirEntry> {
        let is_key = |entry: &&DirEntry| entry.kind == EntryKind::File && known::rank(entry).is_some();
        let mut keys: Vec<_> = self.entries.iter().filter(is_key).collect();
        keys.sort_by_cached_key(|entry| (known::rank(entry), entry.path.clone()));
        keys
    }

    /// A short text that is the same as long as a survey would say the same.
    pub(super) async fn mark(&self, files: &dyn Filesystem) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(FORMAT.as_bytes());
        for entry in &self.entries {
            let (kind, len) = match entry.kind {
                EntryKind::File => (0_u8, entry.len),
                EntryKind::Directory => (1, 0),
                EntryKind::Symlink => (2, 0),
                EntryKind::Other => (3, 0),
            };
            hasher
                .update(&[kind])
                .update(&len.to_le_bytes())
                .update(entry.path.as_str().as_bytes())
                .update(b"\0");
        }
        hasher.update(&self.closed.to_le_bytes()).update(&(self.cut as u64).to_le_bytes());
        for key in self.keys().into_iter().take(MAX_KEY_FILES) {
            if let Ok(meta) = files.stat(&key.path).await {
                hasher.update(meta.version.to_string().as_bytes());
            }
        }
        hasher.finalize().to_hex().chars().take(32).collect()
    }
}
