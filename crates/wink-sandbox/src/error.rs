//! What can go wrong around a command, as opposed to what a command reports of itself.

use std::io;
use std::path::PathBuf;

/// A command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Its program is not there, or may not be executed.
    #[error("{program:?} cannot be executed: {source}; give the name of a program on the PATH, or its path")]
    Program {
        /// As it was asked for.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It was given more than a program can be given.
    #[error(
        "the arguments and the environment are too large for {program:?}; give it long texts on its standard input, or in a file"
    )]
    TooLarge {
        /// As it was asked for.
        program: String,
    },
    /// Its working directory is not there, is no directory, or leads out of the workspace.
    #[error("the working directory {cwd:?} cannot be used: {source}; give a directory below the workspace")]
    Cwd {
        /// As it was asked for.
        cwd: String,
        /// What the system said.
        source: io::Error,
    },
    /// Something on the way to the program did not work.
    #[error("the command could not be started: {what} failed: {source}")]
    Surroundings {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Its processes could not be told from others.
    #[error("the command was not run: its processes could not be known and ended: {0}")]
    ForeignProc(io::Error),
    /// A text has a zero byte in it, which no program can be given.
    #[error("{what} has a zero byte in it; programs cannot be given one")]
    Zero {
        /// Which text.
        what: &'static str,
    },
    /// There is no overlay on this machine for this workspace.
    #[error("the workspace {workspace:?} cannot be overlaid: {reason}")]
    NoOverlay {
        /// The workspace.
        workspace: PathBuf,
        /// Why.
        reason: String,
    },
    /// Whoever watched the command is gone.
    #[error("the command was lost: {0}")]
    Lost(String),
}

/// A sandbox cannot be what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A limit was asked for that nothing here can enforce.
    #[error("the limit on {limit} cannot be enforced here: {reason}; {advice}")]
    Unenforceable {
        /// Which limit.
        limit: &'static str,
        /// Why.
        reason: String,
        /// What to do.
        advice: &'static str,
    },
    /// Something that the sandbox is made of is missing.
    #[error("there is no {part}: {reason}; {advice}")]
    Missing {
        /// What.
        part: &'static str,
        /// How that was found out.
        reason: String,
        /// What to do.
        advice: &'static str,
    },
    /// A limit makes no sense.
    #[error("the limit on {limit} is {value}; {expected}")]
    Invalid {
        /// Which limit.
        limit: &'static str,
        /// What was asked for.
        value: String,
        /// What can be.
        expected: &'static str,
    },
    /// A command could not be run.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The sandbox itself failed; nothing is known of the command.
    #[error("the sandbox failed: {0}")]
    Failed(String),
}
