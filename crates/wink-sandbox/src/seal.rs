//! Giving up everything but computing: for a process of the program's own that runs what nobody vouches for.

use crate::child::{Landlock, landlock_abi, restrict};
use crate::error::SandboxError;

/// What holds a process that was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// The version of Landlock that refuses all files, beside the filter of system calls, which always does.
    pub landlock: Option<u32>,
}

/// Seals this process, for good: from here on it can open no file, make no socket, start no program and no process, and signal
/// nobody but itself. What it has open it keeps; memory and threads it may have.
///
/// By seccomp, without which this is an error, and by Landlock as well where there is one. To be called while the process has
/// one thread: others that are there already are filtered too, but not held by Landlock.
pub fn seal() -> Result<Sealed, SandboxError> {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        SandboxError::Failed(format!("the process could not be sealed: {what}: {error}"))
    };
    let filters = crate::seccomp::sealing()?;
    rustix::thread::set_no_new_privs(true).map_err(|error| failed("no_new_privs", &error))?;
    let landlock = landlock_abi();
    if let Some(version) = landlock {
        restrict(&Landlock::nothing(version)).map_err(|error| failed("Landlock", &error))?;
    }
    // Last the one that refuses what sealing itself may need.
    for filter in &filters {
        seccompiler::apply_filter_all_threads(filter).map_err(|error| failed("seccomp", &error))?;
    }
    Ok(Sealed { landlock })
}
