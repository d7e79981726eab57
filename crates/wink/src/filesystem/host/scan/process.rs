//! The processes of a command that works in the workspace itself. They are written down in its record before they do
//! anything, so that whoever restores the workspace can end them first, and knows when the last one is gone.

#[cfg(target_os = "linux")]
mod kin;

use std::fmt;
use std::io::{self, Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::filesystem::host::disk::Disk;
use crate::filesystem::host::host_disk::HostDisk;

/// How the process that all others of a command are below ends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessTree {
    /// It is the first of a process namespace: all others die with it, before it is gone.
    Namespace,
    /// It ends all others when it is told to (`SIGTERM`), and then itself. It leads the session that the others begin in, and they
    /// begin with this mark: should it be killed, they are found by these.
    Reaper(CommandMark),
}

/// What the processes of one command have in their environment, to be known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandMark(Uuid);

impl CommandMark {
    /// The variable that has the mark for its value.
    pub const VARIABLE: &'static str = "WINK_COMMAND";

    /// One that no other command has.
    pub fn fresh() -> Self {
        // The random part alone makes it unique; no clock is asked.
        Self(crate::session::fresh_uuid(Timestamp::UNIX_EPOCH))
    }
}

impl fmt::Display for CommandMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// The processes of a command, by the one that all others are below: told from all that have its number at other times and places.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandProcesses {
    process: u32,
    tree: ProcessTree,
    /// When it started, in ticks of the machine.
    start: u64,
    /// Where its number counts.
    namespace: u64,
    /// What tells this time that the machine runs from others.
    boot: String,
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

    /// Writes down the processes of a command. It must not have begun anything.
    pub fn note(&self, processes: &CommandProcesses) -> io::Result<()> {
        if self.disk.look(&self.path)?.is_none() {
            let text = "the workspace is restored already; a command that works in it cannot begin any more";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        let mut line = serde_json::to_vec(processes)?;
        line.push(b'\n');
        // Not synced: a machine that goes down ends all processes itself.
        let mut file = self.disk.open_or_create(&self.path, 0o600)?;
        file.seek(io::SeekFrom::End(0))?;
        file.write_all(&line)
    }

    /// Takes back what was written down: these processes have done what they had to do in the workspace, and go on. For a
    /// program that does several things one after the other, each of them kept or undone by itself.
    pub fn withdraw(&self) -> io::Result<()> {
        if self.disk.look(&self.path)?.is_none() {
            return Ok(());
        }
        let text = self.disk.read(&self.path)?;
        let first = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| end + 1);
        self.disk.open_or_create(&self.path, 0o600)?.set_len(first as u64)
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

/// Ends what is written down, and waits until it is gone.
pub(super) fn end_all(lines: &[u8]) -> io::Result<()> {
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // What was not written to its end has not begun.
        if let Ok(noted) = serde_json::from_slice::<CommandProcesses>(line) {
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

    use super::kin::{Kin, Seen};
    use super::{CommandProcesses, ProcessTree};

    /// So long a process that was killed may take: its memory may be large, and its files may have to be closed.
    const SECONDS: i64 = 10;

    impl CommandProcesses {
        /// Whether processes can be known here. An error where `/proc` is missing, or tells of another process namespace, as where
        /// one was entered and its own not mounted: numbers mean others there.
        pub fn check_proc() -> io::Result<()> {
            let text = match fs::read_link("/proc/self") {
                Ok(own) if own.to_str() == Some(&std::process::id().to_string()) => return Ok(()),
                Ok(_) => "/proc is that of another process namespace than this process's".to_owned(),
                Err(error) => format!("/proc does not tell of this process: {error}"),
            };
            let text =
                format!("{text}; mount the one of this process namespace there (mount -t proc proc /proc)");
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }

        /// Those below the process with this number, which is there.
        pub fn new(process: u32, tree: ProcessTree) -> io::Result<Self> {
            Self::check_proc()?;
            let start = Seen::look(process)?.ok_or(io::ErrorKind::NotFound)?.start;
            Ok(Self { process, tree, start, namespace: namespace().unwrap_or(0), boot: boot() })
        }

        /// Ends all that the first does not take with it, and waits until they are gone; not the first itself, which may be gone
        /// already. An error where it cannot be known that nothing is left.
        pub fn end_others(&self) -> io::Result<()> {
            match self.tree {
                ProcessTree::Namespace => Ok(()),
                ProcessTree::Reaper(mark) => Kin::new(self.process, self.start, mark).end(),
            }
        }

        pub(super) fn end(&self) -> io::Result<()> {
            let boot = boot();
            if !boot.is_empty() && boot != self.boot {
                return Ok(());
            }
            if namespace().is_some_and(|namespace| namespace != self.namespace) {
                tracing::warn!(
                    process = self.process,
                    "a command's process belongs to another process namespace, and cannot be waited for"
                );
                return Ok(());
            }
            Self::check_proc()?;
            self.end_first()?;
            // It may have been killed before it could end them.
            self.end_others()
        }

        fn end_first(&self) -> io::Result<()> {
            let Some(pid) = i32::try_from(self.process).ok().and_then(Pid::from_raw) else { return Ok(()) };
            // Pinned first and looked at then, so that nobody is ended who was given its number.
            let pinned = match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(pinned) => pinned,
                Err(Errno::SRCH | Errno::INVAL) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if Seen::look(self.process)?.is_none_or(|seen| seen.start != self.start) {
                return Ok(());
            }
            let signals: &[Signal] = match self.tree {
                ProcessTree::Namespace => &[Signal::KILL],
                // Its command may have stopped it.
                ProcessTree::Reaper(_) => &[Signal::TERM, Signal::CONT],
            };
            for signal in signals {
                match pidfd_send_signal(&pinned, *signal) {
                    // Somebody else's dies all the same, since whoever started it has died.
                    Ok(()) | Err(Errno::SRCH | Errno::PERM) => {}
                    Err(error) => return Err(error.into()),
                }
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

    /// Where this is not told, there is but one.
    fn namespace() -> Option<u64> {
        fs::metadata("/proc/self/ns/pid").ok().map(|found| found.ino())
    }

    fn boot() -> String {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
    }
}

#[cfg(not(target_os = "linux"))]
impl CommandProcesses {
    /// Nothing is known of processes here, and nothing relied on.
    pub fn check_proc() -> io::Result<()> {
        Ok(())
    }

    /// Those below the process with this number, which is there.
    pub fn new(process: u32, tree: ProcessTree) -> io::Result<Self> {
        Ok(Self { process, tree, start: 0, namespace: 0, boot: String::new() })
    }

    /// There is no way here to tell a process from others that were given its number.
    pub fn end_others(&self) -> io::Result<()> {
        Ok(())
    }

    fn end(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
