//! Turns on a session: one process at a time runs its calls.

use std::fs::TryLockError;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wink::filesystem::host::HostDisk;
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
        let mut name = blake3::Hasher::new();
        name.update(self.database.as_bytes()).update(&[0]).update(session.as_str().as_bytes());
        let path = Path::new(self.dir).join(name.finalize().to_hex().as_str());
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
}
