//! The wink program: its arguments and its exit codes. What a command does is in the command's own module.

#[cfg(unix)]
mod demo;
#[cfg(unix)]
mod term;

#[cfg(unix)]
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Wink, a tool runtime for LLM agents.
///
/// A model proposes tool calls; Wink decides whether each may run, runs it as
/// one atomic transaction over session state, files and resources, records it,
/// and renders what the model sees.
#[derive(Parser)]
#[command(
    name = "wink",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    verbatim_doc_comment,
    after_help = EXIT_CODES
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Watch a session: calls that are denied, undone, replayed, killed and in doubt
    ///
    /// Plays a short agent session and checks it. A script stands in for the
    /// model; the runtime is the real one, on a temporary directory that is
    /// removed at the end: no network, no key. One scene runs commands in a
    /// sandbox, where the machine allows that. It takes a moment.
    ///
    /// Colours are used on a terminal. NO_COLOR and TERM=dumb turn them off,
    /// CLICOLOR_FORCE=1 turns them on.
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    Demo,
    /// The process that the demo kills
    #[cfg(unix)]
    #[command(name = demo::victim::COMMAND, hide = true)]
    DemoVictim { root: PathBuf, tool: String, arguments: String },
}

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the demo failed: one of its own checks did, or its output could not be
     written; standard error says which, and where its directory is
  2  the command line was not understood";

fn main() -> ExitCode {
    #[cfg(feature = "eval")]
    if wink_eval::worker::is_called() {
        return wink_eval::worker::main();
    }
    match Arguments::parse().command {
        #[cfg(unix)]
        Command::Demo => demo::main(),
        #[cfg(not(unix))]
        Command::Demo => {
            eprintln!("wink demo: it plays on a real directory, which is not built for this system yet");
            ExitCode::FAILURE
        }
        #[cfg(unix)]
        Command::DemoVictim { root, tool, arguments } => demo::victim::main(root, &tool, &arguments),
    }
}

/// Without this the memory of a worker is bounded by the operating system alone.
#[cfg(feature = "eval")]
#[global_allocator]
static ALLOCATOR: wink_eval::LimitedAllocator = wink_eval::LimitedAllocator;
