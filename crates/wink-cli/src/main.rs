//! The wink program: its arguments and its exit codes. What a command does is in the command's own module.

mod demo;
mod term;

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
    /// Watch a session: calls that are denied, undone, replayed and in doubt
    ///
    /// Plays a short agent session and checks it. A script stands in for the
    /// model; the runtime is the real one, in memory: no network, no key, nothing
    /// is written. It takes a moment.
    ///
    /// Colours are used on a terminal. NO_COLOR and TERM=dumb turn them off,
    /// CLICOLOR_FORCE=1 turns them on.
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    Demo,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the demo failed: one of its own checks did, or its output could not be
     written; standard error says which
  2  the command line was not understood";

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Demo => demo::main(),
    }
}
