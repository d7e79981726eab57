//! Histories of many writers: processes and sessions that change one workspace at the same time, and a judge of what each
//! call read, wrote and answered.
//!
//! ```text
//! cargo run -p wink-crash --bin histories                         # about a minute, as the gate does
//! cargo run --release -p wink-crash --bin histories -- --seconds 3600
//! cargo run -p wink-crash --bin histories -- --plant same-content  # a bug that it must find
//! ```
//!
//! Every call reads and changes shared files or its session's slice, and its event in the log says what it read. When all
//! processes have ended, some of them killed, the logs and the files are the whole history ([`history`]), and [`check`]
//! holds it to the isolation that is promised:
//!
//! - a call that succeeded has changed what it wrote exactly once, any other nothing;
//! - a call that changed a file changed the very version that it had read: the first to commit wins;
//! - calls of one session, file tools and serial commands are in one order that explains all that they read;
//! - serial commands, and calls with a key, never meet a conflict.
//!
//! Exit codes: 0 nothing was found, 1 something was, 2 usage, 4 the kit itself did not work.

#![expect(clippy::disallowed_methods, reason = "real processes work, and die, at real times")]

mod check;
mod drive;
mod history;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

#[derive(Parser)]
#[command(about = "Has many processes change one workspace, and checks the history of it", version)]
pub(crate) struct Options {
    /// How long the processes work; half of the time some of them are killed.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// How many processes work at a time.
    #[arg(long, default_value_t = 10)]
    processes: usize,
    /// How many sessions they share.
    #[arg(long, default_value_t = 4)]
    sessions: usize,
    /// Another run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A bug to plant, which has to be found.
    #[arg(long)]
    plant: Option<Plant>,
    /// One object on one line instead of text.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    mode: Option<Mode>,
}

/// What the kit's own processes are started with.
#[derive(Subcommand)]
enum Mode {
    /// Work in a workspace.
    #[command(hide = true)]
    Work(Work),
}

/// What a process that works is told.
#[derive(clap::Args)]
pub(crate) struct Work {
    /// The workspace.
    dir: PathBuf,
    /// Its session.
    session: String,
    /// What its calls are called after.
    name: String,
    /// Where chance comes from.
    seed: u64,
    /// How long it works, in milliseconds.
    time: u64,
    /// Whether its commands work in the workspace itself.
    #[arg(long)]
    scan: bool,
    /// The bug to have.
    #[arg(long)]
    plant: Option<Plant>,
}

/// A bug that is built in on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plant {
    /// What a command wrote on an overlay is dropped if the workspace has the same by then.
    SameContent,
    /// Serial commands do not take the write turn.
    NoTurn,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.mode {
        Some(Mode::Work(work)) => work::work(work).map(|()| None).map_err(|error| error.to_string()),
        None => drive::run(&options).map(Some).map_err(|error| error.to_string()),
    };
    match done {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(report)) => {
            report.tell(options.json);
            if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(error) => {
            eprintln!("histories: {error}");
            ExitCode::from(4)
        }
    }
}
