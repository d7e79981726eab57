//! Everything in the workspace, looked at once.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::failed;
use crate::filesystem::host::disk::{Disk, Entry, Meta};
use crate::filesystem::host::host_disk::HostDisk;
use crate::filesystem::host::name::to_shown;
use crate::filesystem::host::view::is_state;
use crate::filesystem::{EntryKind, FsError, FsResult};

/// A tree by path, the root under the empty one. What is in a directory comes right after it.
pub(super) type Tree = BTreeMap<PathBuf, Entry>;

/// What becomes of directories that nobody may look into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// They are somebody's, and an error.
    Refused,
    /// A command closed them: they are opened, and known as they were.
    Opened,
}

/// Looks at everything but the runtime's own state.
pub(super) fn walk(disk: &HostDisk, closed: Closed) -> FsResult<Tree> {
    let root = Path::new("");
    let found = disk.look(root).map_err(failed(root, "looked at"))?.ok_or(FsError::Moved)?;
    let device = found.dev;
    let mut tree = Tree::from([(PathBuf::new(), found)]);
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        let entries = match disk.entries(&dir) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && closed == Closed::Opened => {
                open_up(disk, &dir).and_then(|()| disk.entries(&dir))
            }
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
            if entry.dev != device {
                return Err(FsError::Io {
                    path: to_shown(&path),
                    kind: io::ErrorKind::CrossesDevices,
                    message: "another filesystem is mounted here, which cannot be restored after a command; \
                              unmount it, or mount it outside the workspace"
                        .to_owned(),
                });
            }
            if entry.kind == EntryKind::Directory {
                left.push(path.clone());
            }
            tree.insert(path, entry);
        }
    }
    Ok(tree)
}

/// Lets us look into a directory, and change it.
pub(super) fn open_up(disk: &HostDisk, dir: &Path) -> io::Result<()> {
    let entry = disk.look(dir)?.ok_or(io::ErrorKind::NotFound)?;
    disk.set_meta(dir, Meta { mode: entry.meta.mode | 0o700, ..entry.meta })
}
