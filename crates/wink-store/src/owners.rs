//! Who has the store open: one locked file for each, whose lock dies with its process.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use wink::store::JournalId;

/// Not yet locked: such a file says nothing.
const NEW: &str = "new-";

/// The owner that this store is, for as long as it is open.
pub(crate) struct Owner {
    id: String,
    path: PathBuf,
    _locked: File,
}

/// Where owners are known by.
#[derive(Clone)]
pub(crate) struct Owners {
    dir: PathBuf,
    me: String,
}

impl Owner {
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        // Another text each time is all that is needed.
        let id = JournalId::fresh().to_string();
        let new = dir.join(format!("{NEW}{id}"));
        let file = File::options().write(true).create_new(true).open(&new)?;
        file.try_lock().map_err(io::Error::from)?;
        // Locked before anybody can find it: a file without a lock is a dead owner's.
        let path = dir.join(&id);
        std::fs::rename(&new, &path)?;
        Ok(Self { id, path, _locked: file })
    }

    pub(crate) fn owners(&self) -> Owners {
        let dir = self.path.parent().unwrap_or(Path::new("")).to_owned();
        Owners { dir, me: self.id.clone() }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // An owner without a file is dead, which is what this one is now.
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "the file of an owner could not be removed; its lock is gone all the same");
        }
    }
}

impl Owners {
    pub(crate) fn me(&self) -> &str {
        &self.me
    }

    /// Whether an owner's process has ended. When it cannot be known, it has not.
    pub(crate) fn is_dead(&self, owner: &str) -> bool {
        if owner == self.me {
            return false;
        }
        match File::open(self.dir.join(owner)) {
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

    /// Removes what dead owners left.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !name.starts_with(NEW) && self.is_dead(&name) {
                // Another process may be doing the same.
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}
