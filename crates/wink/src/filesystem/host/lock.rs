//! The workspace lock: whoever holds it is the only one who changes the tree, on this machine. It dies with its owner.
//!
//! Nobody waits for it without end: a holder may have been stopped, or run a command that takes long. The kernel's own
//! waiting cannot be given up, so this asks again and again.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use super::host_disk::HostDisk;
use crate::limits::{CancelToken, Clock};
use crate::store::JournalId;

/// The first pause between two tries, and the longest: short, since who has it may want it again at once, and whoever
/// asks seldom would never find it free.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(2));
/// After so long, that it is waited for is worth a warning.
const LONG: Duration = Duration::from_secs(5);
/// How a command is written down.
const COMMAND: &str = "command";
/// How a write turn is written down.
const TURN: &str = "turn";
/// A lock that is free or changes hands has its note rewritten within this time.
const SETTLED_NOTE: Duration = Duration::from_millis(10);

/// Held until it is dropped, or its process dies.
#[derive(Debug)]
pub struct WorkspaceLock {
    file: File,
    since: Timestamp,
}

/// Who holds a lock, as they wrote down themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder {
    /// The process.
    pub process: u32,
    /// Since when.
    pub since: Timestamp,
    /// What is half-done meanwhile.
    pub work: Option<LockedWork>,
}

/// What the holder of the lock does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockedWork {
    /// The journal that is being applied, or waits to be kept or rolled back.
    Journal(JournalId),
    /// A command that works in the workspace itself.
    Command,
    /// A call holds the write turn, and the tree is whole: it has changed nothing yet, and a dead process left nothing.
    Turn,
}

impl WorkspaceLock {
    /// Waits until nobody else has it, in this process or another; not much longer than `timeout`, and then it is an
    /// [`io::ErrorKind::TimedOut`] that says who has it.
    pub fn acquire(disk: &HostDisk, path: &Path, timeout: Duration, clock: &dyn Clock) -> io::Result<Self> {
        Self::acquire_unless(disk, path, timeout, clock, &CancelToken::new())
    }

    /// As [`WorkspaceLock::acquire`], unless `cancel` says so first: then it is an [`io::ErrorKind::Interrupted`].
    pub fn acquire_unless(
        disk: &HostDisk,
        path: &Path,
        timeout: Duration,
        clock: &dyn Clock,
        cancel: &CancelToken,
    ) -> io::Result<Self> {
        let file = disk.open_or_create(path, 0o644)?;
        let (first, longest) = PAUSES;
        let (mut waited, mut is_warned) = (Duration::ZERO, false);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self::held(file, clock)),
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {}
            }
            if cancel.is_cancelled() {
                let message = "the wait for the workspace was cancelled; nothing was changed";
                return Err(io::Error::new(io::ErrorKind::Interrupted, message));
            }
            if waited >= timeout {
                return Err(gave_up(&file, waited));
            }
            if waited >= LONG && !is_warned {
                is_warned = true;
                let holder = holder(&file).map(tracing::field::display);
                tracing::warn!(
                    holder,
                    ?waited,
                    ?timeout,
                    "waiting for the workspace, which somebody else has"
                );
            }
            let pause = (waited / 4).clamp(first, longest);
            rest(pause);
            waited += pause;
        }
    }

    /// As [`WorkspaceLock::acquire`], but nothing if another call has the write turn and the tree is whole meanwhile.
    pub(super) fn acquire_unless_whole(
        disk: &HostDisk,
        path: &Path,
        timeout: Duration,
        clock: &dyn Clock,
    ) -> io::Result<Option<Self>> {
        match Self::acquire(disk, path, SETTLED_NOTE.min(timeout), clock) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            acquired => return acquired.map(Some),
        }
        match Self::holder(disk, path)?.and_then(|holder| holder.work) {
            Some(LockedWork::Turn) => Ok(None),
            _ => Self::acquire(disk, path, timeout, clock).map(Some),
        }
    }

    /// Nothing, if somebody else has it.
    pub fn try_acquire(disk: &HostDisk, path: &Path, clock: &dyn Clock) -> io::Result<Option<Self>> {
        let file = disk.open_or_create(path, 0o644)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self::held(file, clock))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// It, if whoever had it last died in the middle of something. Costs next to nothing if not.
    pub(super) fn of_the_dead(
        noted: &File,
        disk: &HostDisk,
        path: &Path,
        clock: &dyn Clock,
    ) -> io::Result<Option<Self>> {
        match holder(noted).and_then(|holder| holder.work).filter(LockedWork::is_half_done) {
            Some(_) => Self::try_acquire(disk, path, clock),
            None => Ok(None),
        }
    }

    /// Who has a lock, or had it last.
    pub fn holder(disk: &HostDisk, path: &Path) -> io::Result<Option<LockHolder>> {
        Ok(holder(&disk.open_or_create(path, 0o644)?))
    }

    /// Writes down what is half-done from now on, for people who wonder, and for those who would else read it when this
    /// process is dead; nothing, when all is done. What decides is what is found in the workspace.
    pub fn note(&mut self, work: Option<LockedWork>) {
        let (process, since) = (std::process::id(), self.since);
        let work = work.map(|work| work.to_string()).unwrap_or_default();
        let written = self
            .file
            .set_len(0)
            .and_then(|()| self.file.rewind())
            .and_then(|()| self.file.write_all(format!("{process} {since} {work}\n").as_bytes()));
        if let Err(error) = written {
            tracing::debug!(%error, "the lock could not be written to");
        }
    }

    /// What whoever had it before left half-done stays written down until it is settled.
    fn held(file: File, clock: &dyn Clock) -> Self {
        let left = holder(&file).and_then(|holder| holder.work).filter(LockedWork::is_half_done);
        let mut lock = Self { file, since: clock.now() };
        lock.note(left);
        lock
    }
}

impl LockedWork {
    /// Whether the tree needs repair if the holder dies now.
    fn is_half_done(&self) -> bool {
        match self {
            Self::Journal(_) | Self::Command => true,
            Self::Turn => false,
        }
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} since {}", self.process, self.since)?;
        match self.work {
            None => Ok(()),
            Some(LockedWork::Journal(id)) => write!(f, " (journal {id})"),
            Some(LockedWork::Command) => f.write_str(" (a command)"),
            Some(LockedWork::Turn) => f.write_str(" (a call that runs alone)"),
        }
    }
}

/// As it is written down.
impl fmt::Display for LockedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal(id) => write!(f, "{id}"),
            Self::Command => f.write_str(COMMAND),
            Self::Turn => f.write_str(TURN),
        }
    }
}

/// What is written down; nothing, if that is not what a holder writes.
fn holder(file: &File) -> Option<LockHolder> {
    let mut bytes = [0; 200];
    let length = file.read_at(&mut bytes, 0).ok()?;
    let mut words = std::str::from_utf8(bytes.get(..length)?).ok()?.split_whitespace();
    let (process, since) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let work = match words.next() {
        Some(COMMAND) => Some(LockedWork::Command),
        Some(TURN) => Some(LockedWork::Turn),
        Some(id) => id.parse().ok().map(LockedWork::Journal),
        None => None,
    };
    Some(LockHolder { process, since, work })
}

fn gave_up(file: &File, waited: Duration) -> io::Error {
    let who = holder(file).map_or_else(|| "somebody".to_owned(), |holder| holder.to_string());
    let message = format!(
        "the workspace is held by {who}; gave up after {waited:.1?}. Nothing was changed: try again when that is done, \
         end that process if it hangs, or allow more time (HostOptions::lock_timeout)"
    );
    io::Error::new(io::ErrorKind::TimedOut, message)
}

/// On a thread that may block. What is waited for is another process, which no clock of ours knows of.
#[expect(clippy::disallowed_methods, reason = "a lock of the kernel is waited for, not a time")]
fn rest(pause: Duration) {
    std::thread::sleep(pause);
}

#[cfg(test)]
mod tests;
