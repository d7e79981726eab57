//! Turns on a session: one process at a time runs its calls. And what of a session one at a time can have for longer.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wink::filesystem::host::HostDisk;
use wink::filesystem::host::disk::Disk;
use wink::limits::Clock;
use wink::session::SessionId;
use wink::store::{StoreError, StoreTurn};

const FIRST_LOOK: Duration = Duration::from_micros(500);
const LAST_LOOK: Duration = Duration::from_millis(20);

/// Where the locks of sessions are.
pub(crate) struct Turns {
    disk: Arc<HostDisk>,
    dir: &'static str,
    clock: Arc<dyn Clock>,
    /// Databases in one folder have sessions of their own.
    database: String,
}

impl Turns {
    pub(crate) fn new(
        disk: Arc<HostDisk>,
        dir: &'static str,
        clock: Arc<dyn Clock>,
        database: String,
    ) -> Self {
        Self { disk, dir, clock, database }
    }

    /// Looks again and again: a thread that waited for a lock could not be told to stop.
    pub(crate) async fn take(&self, session: &SessionId) -> Result<StoreTurn, StoreError> {
        let failed = |error: std::io::Error| StoreError::failed("take a turn", error.to_string());
        let path = self.path(&[session.as_str()]);
        let file = self.disk.open_or_create(&path, 0o644).map_err(failed)?;
        let mut look = FIRST_LOOK;
        loop {
            match file.try_lock() {
                // Closing the file gives the lock back, and so does the end of the process.
                Ok(()) => return Ok(StoreTurn::of(file)),
                Err(TryLockError::WouldBlock) => {
                    self.clock.sleep_until(self.clock.monotonic().saturating_add(look)).await;
                    look = look.saturating_mul(2).min(LAST_LOOK);
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }

    /// Takes something of a session that one at a time can have, if nobody has it.
    pub(crate) fn hold(&self, session: &SessionId, what: &str) -> Result<Option<StoreTurn>, StoreError> {
        let failed = |error: std::io::Error| StoreError::failed("hold", error.to_string());
        let path = self.path(&[session.as_str(), what]);
        loop {
            let file = self.disk.open_or_create(&path, 0o644).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // Whoever had it removed the file before it let go: a lock on that one keeps nobody out.
            if file.metadata().map_err(failed)?.nlink() > 0 {
                return Ok(Some(StoreTurn::of(Held { disk: Arc::clone(&self.disk), path, _file: file })));
            }
        }
    }

    /// The file of something that belongs to these names.
    fn path(&self, names: &[&str]) -> PathBuf {
        let mut hash = blake3::Hasher::new();
        hash.update(self.database.as_bytes());
        for name in names {
            hash.update(&[0]).update(name.as_bytes());
        }
        Path::new(self.dir).join(hash.finalize().to_hex().as_str())
    }
}

/// Something that is held. Its file goes with it: unlike sessions, there is no end of these.
struct Held {
    disk: Arc<HostDisk>,
    path: PathBuf,
    /// Has the lock, and is closed last.
    _file: File,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = self.disk.unlink(&self.path) {
            tracing::debug!(%error, "the file of a lock could not be removed; the lock is gone all the same");
        }
    }
}
