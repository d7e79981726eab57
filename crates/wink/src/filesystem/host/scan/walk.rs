//! Everything in the workspace, looked at once.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::failed;
use crate::filesystem::host::command::{MOST_LEVELS, mounted_there};
use crate::filesystem::host::disk::{Disk, Entry};
use crate::filesystem::host::host_disk::{HostDisk, Protection};
use crate::filesystem::host::view::is_state;
use crate::filesystem::{EntryKind, FsError, FsResult};

/// A tree by path, the root under the empty one. What is in a directory comes right after it.
pub(super) type Tree = BTreeMap<PathBuf, Entry>;

/// What in a tree is protected against changes.
pub(super) type Protected = BTreeMap<PathBuf, Protection>;

/// What a workspace was before a command.
#[derive(Clone)]
pub(super) struct Before {
    pub(super) tree: Arc<Tree>,
    pub(super) protected: Arc<Protected>,
}

/// Longer paths than this leave no room for the names of the places where things are kept.
const LONGEST: usize = 3500;

/// Everything in the workspace, after a command was there.
pub(super) struct Left {
    pub(super) tree: Tree,
    /// Where something is mounted that was not before: nobody can move it or give its files back.
    pub(super) mounts: Vec<PathBuf>,
    /// Whether there are new directories with more in them than can be looked at: those are not looked into.
    pub(super) is_too_deep: bool,
}

/// Looks at everything but the runtime's own state. A directory that this user may not look into, and does not own, is an error.
pub(super) fn walk(disk: &HostDisk) -> FsResult<Tree> {
    walk_as(disk, None).map(|left| left.tree)
}

/// The same after a command: what was not there `before` is only looked into as deep as a workspace may be, and what belongs to
/// another user, who came meanwhile, is not looked into.
pub(super) fn walk_after(disk: &HostDisk, before: &Tree) -> FsResult<Left> {
    walk_as(disk, Some(before))
}

/// What is not as it was `before`; of a directory that is new or gone, only that. Nothing, if nobody can look.
pub(super) fn differing(disk: &HostDisk, before: &Tree) -> Vec<PathBuf> {
    let Ok(Left { tree: found, .. }) = walk_after(disk, before) else { return Vec::new() };
    let is_same = |path: &PathBuf, known: &Entry| {
        found.get(path).is_some_and(|entry| match known.kind {
            EntryKind::Directory => entry.kind == known.kind,
            _ => entry == known,
        })
    };
    let gone = before.iter().filter(|(path, known)| !is_same(path, known)).map(|(path, _)| path);
    let new = found.keys().filter(|path| !before.contains_key(*path));
    let mut differing: Vec<PathBuf> = gone.chain(new).cloned().collect();
    differing.sort_unstable();
    differing.dedup_by(|path, above| path.starts_with(above));
    differing
}

/// Whether a directory is deeper than a workspace may be.
pub(super) fn is_too_deep(dir: &Path) -> bool {
    dir.as_os_str().len() > LONGEST || dir.iter().count() > MOST_LEVELS
}

fn walk_as(disk: &HostDisk, before: Option<&Tree>) -> FsResult<Left> {
    let root = Path::new("");
    let found = disk.look(root).map_err(failed(root, "looked at"))?.ok_or(FsError::Moved)?;
    let device = found.dev;
    let mounted = disk.mounts().map_err(failed(root, "looked at: what is mounted in it"))?;
    let mut tree = Tree::from([(PathBuf::new(), found)]);
    let (mut mounts, mut has_deep) = (Vec::new(), false);
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        let entries = match disk.entries(&dir) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && before.is_some() => continue,
            // Gone meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !dir.as_os_str().is_empty() => {
                tree.remove(&dir);
                continue;
            }
            entries => entries,
        };
        for (name, entry) in entries.map_err(failed(&dir, "looked into"))? {
            if dir.as_os_str().is_empty() && is_state(&name) {
                continue;
            }
            let path = dir.join(name);
            if entry.dev != device || mounted.contains(&path) {
                if before.is_some() {
                    mounts.push(path);
                    continue;
                }
                return Err(mounted_there(&path));
            }
            if entry.kind == EntryKind::Directory {
                match before {
                    Some(before) if is_too_deep(&path) && !before.contains_key(&path) => has_deep = true,
                    _ => left.push(path.clone()),
                }
            }
            tree.insert(path, entry);
        }
    }
    Ok(Left { tree, mounts, is_too_deep: has_deep })
}
