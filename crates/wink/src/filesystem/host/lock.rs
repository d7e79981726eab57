//! The workspace lock: whoever holds it is the only one who changes the tree, on this machine. It dies with its owner.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use super::host_disk::HostDisk;
use crate::store::JournalId;

/// Held until it is dropped, or its process dies.
#[derive(Debug)]
pub struct WorkspaceLock {
    file: File,
}

impl WorkspaceLock {
    /// Waits until nobody else has it, in this process or another.
    pub fn acquire(disk: &HostDisk, path: &Path) -> io::Result<Self> {
        let file = disk.open_or_create(path, 0o644)?;
        loop {
            match file.lock() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                locked => return locked.map(|()| Self { file }),
            }
        }
    }

    /// Nothing, if somebody else has it.
    pub fn try_acquire(disk: &HostDisk, path: &Path) -> io::Result<Option<Self>> {
        let file = disk.open_or_create(path, 0o644)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Writes down which journal is being applied, for people who wonder; nothing, when none is. What decides is what is
    /// found among the journals.
    pub fn note(&mut self, id: Option<JournalId>) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        match id {
            Some(id) => writeln!(self.file, "{id}"),
            None => Ok(()),
        }
    }

    /// Which journal was last written down, by us or by whoever held the lock before.
    pub fn noted(&mut self) -> io::Result<Option<JournalId>> {
        let mut text = String::new();
        self.file.rewind()?;
        (&self.file).take(100).read_to_string(&mut text)?;
        Ok(text.trim().parse().ok())
    }
}

#[cfg(test)]
mod tests;
