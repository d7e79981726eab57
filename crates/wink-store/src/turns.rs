//! Turns on a session: one process at a time runs its calls.

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wink::limits::Clock;
use wink::session::SessionId;
use wink::store::{StoreError, StoreTurn};

const FIRST_LOOK: Duration = Duration::from_micros(500);
const LAST_LOOK: Duration = Duration::from_millis(20);

/// Where the locks of sessions are.
pub(crate) struct Turns {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    /// Databases in one folder have sessions of their own.
    database: String,
}

impl Turns {
    pub(crate) fn new(dir: PathBuf, clock: Arc<dyn Clock>, database: String) -> std::io::Result<Self> {
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir, clock, database })
    }

    /// Looks again and again: a thread that waited for a lock could not be told to stop.
    pub(crate) async fn take(&self, session: &SessionId) -> Result<StoreTurn, StoreError> {
        let failed = |error: std::io::Error| StoreError::failed("take a turn", error.to_string());
        let mut name = blake3::Hasher::new();
        name.update(self.database.as_bytes()).update(&[0]).update(session.as_str().as_bytes());
        let path = self.dir.join(name.finalize().to_hex().as_str());
        let file = File::options().write(true).create(true).truncate(false).open(path).map_err(failed)?;
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
}
