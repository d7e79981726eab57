//! What the host filesystem and its journal ask of a disk.
//!
//! Paths are relative to the root of the workspace and have no `.`, `..` or empty segments. No operation follows a
//! symbolic link anywhere, neither on the way nor at the end: a link that appears on the way is an error. So nothing
//! here can reach what is outside the root, whatever others do to the tree meanwhile.
//!
//! Nothing is durable until it is synced: the contents of a file by [`Disk::sync_file`], the entries of a directory
//! (made, renamed, removed) by [`Disk::sync_dir`].

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::filesystem::{EntryKind, FileVersion};

/// What is at a path, without following a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// File, directory, link or something else.
    pub kind: EntryKind,
    /// The device; 0 for that of the root.
    pub dev: u64,
    /// The inode: two paths with the same device and inode are one file.
    pub ino: u64,
    /// How many names it has.
    pub links: u64,
    /// Bytes.
    pub len: u64,
    /// What can be set.
    pub meta: Meta,
    /// When the inode last changed, in nanoseconds since the epoch.
    pub changed: i128,
}

/// What can be set about an entry, and what rolling back restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// The permission bits.
    pub mode: u32,
    /// When the contents last changed, in nanoseconds since the epoch.
    pub modified: i128,
    /// Who owns it. Nothing stands for whoever makes it, or does already; what is looked at has one.
    pub owner: Option<OwnedBy>,
}

/// User and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedBy {
    /// The number of the user.
    pub user: u32,
    /// The number of the group.
    pub group: u32,
}

/// A tree of files that can lose what was not synced.
pub trait Disk: Send + Sync + 'static {
    /// What is there; nothing where a part of the path is missing or no directory.
    fn look(&self, path: &Path) -> io::Result<Option<Entry>>;

    /// What is in a directory, by name, in no order.
    fn read_dir(&self, dir: &Path) -> io::Result<Vec<(OsString, EntryKind)>>;

    /// The contents of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Where a link points.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;

    /// Makes a file that was not there, with these contents and exactly this mode. Leaves nothing behind when it fails.
    fn create(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()>;

    /// Makes a file or link that was not there, a copy of another, with its mode and times. Leaves nothing behind when
    /// it fails.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes a directory that was not there, with exactly this mode.
    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()>;

    /// Makes a symbolic link that was not there.
    fn make_link(&self, path: &Path, target: &Path) -> io::Result<()>;

    /// Gives a file or link a second name that was not there.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Moves an entry, in place of what is there if `replace` says so. Where both are names of one file, and replacing is
    /// allowed, nothing happens and both names stay.
    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()>;

    /// Removes a file or link.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Sets mode, time and owner of a file or directory; of a link all but the mode, which it has not. Where this process may not
    /// give it to an owner, it stays whose it is.
    fn set_meta(&self, path: &Path, meta: Meta) -> io::Result<()>;

    /// Lets something be changed that is protected against that, if this process may. Where nothing is, nothing happens.
    fn unprotect(&self, path: &Path) -> io::Result<()> {
        let _ = path;
        Ok(())
    }

    /// Whether something belongs to somebody else, who alone may set its mode and time.
    fn is_anothers(&self, path: &Path) -> io::Result<bool> {
        let _ = path;
        Ok(false)
    }

    /// Makes a file's contents, mode and time durable.
    fn sync_file(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory's entries durable (a link's target is part of its entry), and its own mode and time.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// Whether a rename may replace what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// A file there is replaced, in one step.
    Allowed,
    /// Something there is an error ([`io::ErrorKind::AlreadyExists`]), and nothing happens.
    Refused,
}

impl Entry {
    /// What tells this state of a file from others: device, inode, bytes, and when contents and inode last changed.
    pub fn version(&self) -> FileVersion {
        // The low bits of a time tell it from others; the year is of no interest.
        FileVersion::new([self.dev, self.ino, self.len, self.meta.modified as u64, self.changed as u64])
    }
}

/// What is at a path, where what is behind a link is not in the tree: there is nothing.
pub(super) fn look_in_tree(disk: &dyn Disk, path: &Path) -> io::Result<Option<Entry>> {
    match disk.look(path) {
        Err(error) if is_behind_a_link(&error) => Ok(None),
        looked => looked,
    }
}

/// Whether something cannot be had because a link leads there.
pub(super) fn is_behind_a_link(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP)
}
