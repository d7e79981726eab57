//! Who owns what in the state directory: one locked file for each who has something open. The lock dies with its owner, so
//! whoever can take it knows that the owner is dead.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::disk::{Disk, Replace};
use super::host_disk::HostDisk;
use super::staged::make_dir;
use crate::store::JournalId;

/// Not yet locked: a file with such a name says nothing.
const NEW: &str = "new-";
/// A note is no longer than this.
const MAX_NOTE: u64 = 256;

/// A name of one's own, for as long as this lives. Others find it, and can tell whether it does.
///
/// ```
/// use std::sync::Arc;
/// use wink::filesystem::host::{HostDisk, Owner};
///
/// # let dir = tempfile::tempdir()?;
/// let disk = Arc::new(HostDisk::open(dir.path())?);
/// let (one, two) = (Owner::new(&disk, "owners")?, Owner::new(&disk, "owners")?);
/// let id = one.id().to_owned();
/// assert!(!two.owners().is_dead(&id));
/// drop(one);
/// assert!(two.owners().is_dead(&id));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Owner {
    owners: Owners,
    /// Holds the lock.
    file: File,
}

/// All who are known in a directory, as one of them sees them. Cloning it is cheap.
#[derive(Debug, Clone)]
pub struct Owners {
    disk: Arc<HostDisk>,
    dir: Arc<Path>,
    me: Arc<str>,
}

impl Owner {
    /// A new one, in a directory that is made if it is not there.
    pub fn new(disk: &Arc<HostDisk>, dir: impl AsRef<Path>) -> io::Result<Self> {
        let dir = dir.as_ref();
        make_dir(disk, dir)?;
        // Another text each time is all that is needed.
        let me = JournalId::fresh().to_string();
        let new = dir.join(format!("{NEW}{me}"));
        let file = disk.open_or_create(&new, 0o644)?;
        file.try_lock().map_err(io::Error::from)?;
        // Locked before anybody can find it: a file without a lock is a dead owner's.
        disk.rename(&new, &dir.join(&me), Replace::Refused)?;
        Ok(Self { owners: Owners { disk: Arc::clone(disk), dir: dir.into(), me: me.into() }, file })
    }

    /// What it is known by.
    pub fn id(&self) -> &str {
        &self.owners.me
    }

    /// The others.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Leaves a short text for others to see as long as this lives, in place of the one before. Whoever reads it meanwhile gets
    /// the one or the other, if both are of the same length.
    pub fn note(&self, text: &str) -> io::Result<()> {
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // An owner without a file is dead, which is what this one is now. What is left lying is found when the lock can be taken.
        if let Err(error) = self.owners.disk.unlink(&self.owners.dir.join(self.id())) {
            tracing::debug!(%error, "the file of an owner could not be removed; its lock is gone all the same");
        }
    }
}

impl Owners {
    /// All who are known in a directory, as seen without being one of them.
    pub fn seen(disk: &Arc<HostDisk>, dir: impl AsRef<Path>) -> Self {
        Self { disk: Arc::clone(disk), dir: dir.as_ref().into(), me: "".into() }
    }

    /// Who looks.
    pub fn me(&self) -> &str {
        &self.me
    }

    /// Whether an owner's process has ended. When it cannot be known, it has not.
    pub fn is_dead(&self, owner: &str) -> bool {
        if owner == self.me() {
            return false;
        }
        match self.disk.open_file(&self.dir.join(owner)) {
            // Shared, so that two who look at the same time do not take each other for the owner.
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(error)) => {
                    tracing::warn!(%error, owner, "it cannot be told whether an owner lives");
                    false
                }
            },
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Clears up after every owner that is dead, then forgets it. What cannot be cleared away is in nobody's way, and is tried
    /// again by whoever comes next.
    pub fn for_each_dead(&self, clear: impl Fn(&str) -> io::Result<()>) -> io::Result<()> {
        for name in self.others()? {
            let path = self.dir.join(&name);
            let Ok(file) = self.disk.open_file(&path) else { continue };
            match file.try_lock() {
                Ok(()) => match clear(&name) {
                    // Another process may have done the same before.
                    Ok(()) => drop(self.disk.unlink(&path)),
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

    /// What others who live have noted.
    pub fn notes(&self) -> io::Result<Vec<String>> {
        let mut notes = Vec::new();
        for name in self.others()? {
            let Ok(file) = self.disk.open_file(&self.dir.join(&name)) else { continue };
            let len = file.metadata()?.len().min(MAX_NOTE);
            if len == 0 || file.try_lock_shared().is_ok() {
                continue;
            }
            let mut text = vec![0; usize::try_from(len).unwrap_or_default()];
            let read = file.read_at(&mut text, 0)?;
            text.truncate(read);
            notes.extend(String::from_utf8(text));
        }
        Ok(notes)
    }

    fn others(&self) -> io::Result<impl Iterator<Item = String>> {
        let me = Arc::clone(&self.me);
        let names = self.disk.read_dir(&self.dir)?.into_iter();
        Ok(names
            .filter_map(|(name, _)| OsStr::to_str(&name).map(str::to_owned))
            .filter(move |name| *name != *me && !name.starts_with(NEW)))
    }
}
