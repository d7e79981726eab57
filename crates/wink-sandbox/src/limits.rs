//! What a command in a sandbox may use.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use crate::error::SandboxError;

/// What a command in a sandbox may use, with everything that it starts. None means: without a limit.
///
/// A limit that is asked for is enforced, or the sandbox cannot be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Bytes of memory, with what is in `/tmp` and `/dev/shm`.
    pub memory: Option<u64>,
    /// Processors; parts of one too.
    pub cpu: Option<f64>,
    /// Processes and threads at once.
    pub processes: Option<u32>,
    /// How long a command may take, unless it asks for less.
    pub time: Duration,
    /// Characters of each of its outputs that are kept.
    pub output: usize,
    /// Bytes in `/tmp`.
    pub temporary: u64,
    /// Bytes in one file: 4 GiB unless told. It bounds a command that writes without end, not what all files take together.
    pub file: Option<u64>,
    /// Files that a process has open.
    pub open_files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: Some(1024 * 1024 * 1024),
            cpu: Some(1.0),
            processes: Some(256),
            time: Duration::from_secs(120),
            output: 32_768,
            temporary: 64 * 1024 * 1024,
            file: Some(4 * 1024 * 1024 * 1024),
            open_files: 1024,
        }
    }
}

impl Limits {
    /// Bytes of each output that hold as many characters as are kept, whatever they are.
    pub(crate) fn output_bytes(&self) -> usize {
        self.output.saturating_mul(4)
    }

    /// How long a command may take that asks for this much.
    pub(crate) fn allow(&self, asked: Option<Duration>) -> Duration {
        asked.map_or(self.time, |asked| asked.min(self.time))
    }

    /// Whether they make sense, wherever that is.
    ///
    /// # Errors
    /// The first that makes none.
    pub fn check(&self) -> Result<(), SandboxError> {
        let invalid = |limit, value: String, expected| Err(SandboxError::Invalid { limit, value, expected });
        if let Some(memory) = self.memory
            && memory < 4 * 1024 * 1024
        {
            return invalid("memory", format!("{memory} bytes"), "nothing runs in less than 4 MiB");
        }
        if let Some(cpu) = self.cpu
            && !(0.01..=4096.0).contains(&cpu)
        {
            return invalid("cpu", cpu.to_string(), "it is a number of processors from 0.01 to 4096");
        }
        if self.processes.is_some_and(|most| most < 2) {
            return invalid("processes", "less than 2".to_owned(), "a shell and what it runs are two");
        }
        if self.time.is_zero() {
            return invalid("time", "0".to_owned(), "a command needs some");
        }
        if self.temporary < 4096 {
            return invalid("temporary", format!("{} bytes", self.temporary), "a page is 4096 bytes");
        }
        if self.open_files < 16 {
            return invalid("open_files", self.open_files.to_string(), "a program needs at least 16");
        }
        Ok(())
    }
}

/// A limit of the system's, but no more than what this program itself may have: nobody can raise it.
pub(crate) fn at_most(resource: Resource, most: u64) -> u64 {
    getrlimit(resource).maximum.map_or(most, |own| own.min(most))
}

#[cfg(test)]
mod tests;
