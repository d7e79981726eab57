//! The processes of a command that works in the workspace itself. They are written down in its record before they do
//! anything, so that whoever restores the workspace can end them first, and knows when the last one is gone.

use std::fmt;
use std::io::{self, Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::filesystem::host::disk::Disk;
use crate::filesystem::host::host_disk::HostDisk;

/// How the process that all others of a command are below ends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessTree {
    /// It is the first of a process namespace: all others die with it, before it is gone.
    Namespace,
    /// It ends all others when it is told to (`SIGTERM`), and then itself.
    Reaper,
}

/// Where the processes of a command are written down that works in the workspace itself.
#[derive(Clone)]
pub struct CommandRecord {
    disk: Arc<HostDisk>,
    path: PathBuf,
}

impl CommandRecord {
    pub(super) fn new(disk: &Arc<HostDisk>, path: PathBuf) -> Self {
        Self { disk: Arc::clone(disk), path }
    }

    /// Writes down the process that all others of a command are below. It must not have begun anything.
    pub fn note(&self, process: u32, tree: ProcessTree) -> io::Result<()> {
        if self.disk.look(&self.path)?.is_none() {
            let text = "the workspace is restored already; a command that works in it cannot begin any more";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        let mut line = serde_json::to_vec(&Noted::of(process, tree)?)?;
        line.push(b'\n');
        // Not synced: a machine that goes down ends all processes itself.
        let mut file = self.disk.open_or_create(&self.path, 0o600)?;
        file.seek(io::SeekFrom::End(0))?;
        file.write_all(&line)
    }
}

impl fmt::Debug for CommandRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandRecord").field("path", &self.path).finish_non_exhaustive()
    }
}

impl PartialEq for CommandRecord {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.disk, &other.disk) && self.path == other.path
    }
}

impl Eq for CommandRecord {}

/// A process, told from all others that have its number at other times and places.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Noted {
    process: u32,
    tree: ProcessTree,
    /// When it started, in ticks of the machine.
    start: u64,
    /// Where its number counts.
    namespace: u64,
    /// What tells this time that the machine runs from others.
    boot: String,
}

/// Ends what is written down, and waits until it is gone.
pub(super) fn end_all(lines: &[u8]) -> io::Result<()> {
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // What was not written to its end has not begun.
        if let Ok(noted) = serde_json::from_slice::<Noted>(line) {
            noted.end()?;
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io;
    use std::os::unix::fs::MetadataExt;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    use super::{Noted, ProcessTree};

    /// So long a process that was killed may take: its memory may be large, and its files may have to be closed.
    const SECONDS: i64 = 10;

    impl Noted {
        pub(super) fn of(process: u32, tree: ProcessTree) -> io::Result<Self> {
            let start = start_of(process)?;
            Ok(Self { process, tree, start, namespace: namespace(), boot: boot() })
        }

        pub(super) fn end(&self) -> io::Result<()> {
            if boot() != self.boot {
                return Ok(());
            }
            if namespace() != self.namespace {
                tracing::warn!(
                    process = self.process,
                    "a command's process belongs to another process namespace, and cannot be waited for"
                );
                return Ok(());
            }
            let Some(pid) = i32::try_from(self.process).ok().and_then(Pid::from_raw) else { return Ok(()) };
            // Pinned first and looked at then, so that nobody is ended who was given its number.
            let pinned = match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(pinned) => pinned,
                Err(Errno::SRCH | Errno::INVAL) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            match start_of(self.process) {
                Ok(start) if start == self.start => {}
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
            let signal = match self.tree {
                ProcessTree::Namespace => Signal::KILL,
                ProcessTree::Reaper => Signal::TERM,
            };
            match pidfd_send_signal(&pinned, signal) {
                // Somebody else's dies all the same, since whoever started it has died.
                Ok(()) | Err(Errno::SRCH | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
            let mut fds = [PollFd::new(&pinned, PollFlags::IN)];
            loop {
                match poll(&mut fds, Some(&Timespec { tv_sec: SECONDS, tv_nsec: 0 })) {
                    Ok(0) => break,
                    Ok(_) => return Ok(()),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let text = format!(
                "process {} of the command that worked in the workspace was told to end and is still there; \
                 find out what holds it, or end it, and try again",
                self.process
            );
            Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
        }
    }

    fn start_of(process: u32) -> io::Result<u64> {
        // The name is in parentheses and may have any bytes in it, parentheses too. The time is the 22nd word.
        let stat = fs::read(format!("/proc/{process}/stat")).map_err(|error| {
            // A process that is gone while it is read about.
            if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) {
                io::ErrorKind::NotFound.into()
            } else {
                error
            }
        })?;
        let stat = String::from_utf8_lossy(&stat);
        let words = stat.rsplit_once(')').map(|(_, words)| words);
        let start = words.and_then(|words| words.split_ascii_whitespace().nth(19)?.parse().ok());
        start.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc tells nothing of a process"))
    }

    /// Where this is not told, there is but one.
    fn namespace() -> u64 {
        fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
    }

    fn boot() -> String {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
    }
}

#[cfg(not(target_os = "linux"))]
impl Noted {
    fn of(process: u32, tree: ProcessTree) -> io::Result<Self> {
        Ok(Self { process, tree, start: 0, namespace: 0, boot: String::new() })
    }

    /// There is no way here to tell a process from others that were given its number.
    fn end(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
