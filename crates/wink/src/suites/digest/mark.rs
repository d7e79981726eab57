//! What a workspace looks like from far away, at a cost that does not grow with it.

use super::known;
use crate::filesystem::{DirEntry, EntryKind, Filesystem, FsPath, FsResult};

/// Entries that count at most.
const MAX_ENTRIES: usize = 1000;
/// Directories of the root that are listed at most.
const MAX_DIRECTORIES: usize = 64;
/// Goes up when surveys say other things about the same tree.
const FORMAT: &str = "1";

/// A short text that is the same as long as nothing changed that is looked at.
pub(super) async fn of(files: &dyn Filesystem) -> FsResult<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(FORMAT.as_bytes());
    let top = files.list(&FsPath::root()).await?;
    let mut left = MAX_ENTRIES;
    take(&mut hasher, &top, &mut left);
    let mut directories = 0;
    for entry in &top {
        match entry.kind {
            EntryKind::Directory if known::is_heavy(entry.name()) => {}
            EntryKind::Directory if directories < MAX_DIRECTORIES && left > 0 => {
                directories += 1;
                // One that went meanwhile, or is closed to us, counts as empty.
                take(&mut hasher, &files.list(&entry.path).await.unwrap_or_default(), &mut left);
            }
            EntryKind::File if known::rank(entry).is_some() => {
                if let Ok(meta) = files.stat(&entry.path).await {
                    hasher.update(meta.version.to_string().as_bytes());
                }
            }
            _ => {}
        }
    }
    Ok(hasher.finalize().to_hex().chars().take(32).collect())
}

fn take(hasher: &mut blake3::Hasher, entries: &[DirEntry], left: &mut usize) {
    // How many there are counts also where not all are looked at.
    hasher.update(&(entries.len() as u64).to_le_bytes());
    let looked_at = entries.len().min(*left);
    *left -= looked_at;
    for entry in entries.iter().take(looked_at) {
        let heavy = entry.kind == EntryKind::Directory && known::is_heavy(entry.name());
        let (kind, len) = match entry.kind {
            EntryKind::File => (0_u8, entry.len),
            EntryKind::Directory => (1 + u8::from(heavy), 0),
            EntryKind::Symlink => (3, 0),
            EntryKind::Other => (4, 0),
        };
        hasher
            .update(&[kind])
            .update(&len.to_le_bytes())
            .update(entry.path.as_str().as_bytes())
            .update(b"\0");
    }
}
