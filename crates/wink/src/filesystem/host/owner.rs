//! Who owns what in the state directory: one locked file per process that has the workspace open. The lock dies with its
//! owner, so whoever can take it knows that the owner is dead.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::STATE;
use super::disk::Disk;
use super::host_disk::HostDisk;
use super::staged::make_dir;
use crate::store::JournalId;

/// A name of our own, for as long as this lives.
pub(super) struct Owner {
    disk: Arc<HostDisk>,
    id: OsString,
    /// Holds the lock.
    _file: File,
}

impl Owner {
    pub(super) fn new(disk: &Arc<HostDisk>) -> io::Result<Self> {
        make_dir(disk, &owners())?;
        loop {
            let id = OsString::from(JournalId::fresh().to_string());
            let path = owners().join(&id);
            let file = disk.open_or_create(&path, 0o600)?;
            // Somebody who was clearing up may have taken the file for a dead one's before it was locked: then it
            // is gone, or about to be.
            match file.try_lock() {
                Ok(()) if disk.look(&path)?.is_some() => {
                    return Ok(Self { disk: Arc::clone(disk), id, _file: file });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    pub(super) fn id(&self) -> &OsStr {
        &self.id
    }

    /// Clears up after every owner that is dead, then forgets it. What cannot be cleared away is in nobody's way, and is tried
    /// again by whoever comes next.
    pub(super) fn for_each_dead(&self, clear: impl Fn(&OsStr) -> io::Result<()>) -> io::Result<()> {
        for (name, _) in self.disk.read_dir(&owners())? {
            if name == self.id {
                continue;
            }
            let path = owners().join(&name);
            let Ok(file) = self.disk.open_file(&path) else { continue };
            match file.try_lock() {
                Ok(()) => match clear(&name) {
                    Ok(()) => self.disk.unlink(&path)?,
                    Err(error) => {
                        tracing::warn!(%error, "what a dead process left could not be cleared away")
                    }
                },
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // What is left lying is cleared up when somebody finds that the lock can be taken.
        let _ = self.disk.unlink(&owners().join(&self.id));
    }
}

fn owners() -> PathBuf {
    Path::new(STATE).join("owners")
}
