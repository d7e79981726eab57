//! The commands, one module for each, and what they share: opening a workspace ([`open`], [`above`]), the rows of the log ([`row`]),
//! finding one of them ([`find`]), and the wait that a person sees ([`progress`]).

mod above;
mod approve;
mod call;
mod diff;
mod doctor;
mod ending;
mod find;
mod gc;
mod init;
mod ledger;
mod log;
mod open;
mod overrides;
mod policy;
mod progress;
mod prompt;
mod replay;
mod row;
mod run;
mod serve;
mod show;
mod tools;
mod undo;

use std::io::Read;

use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Command, Common, LedgerCommand, OverrideCommand, PolicyCommand};
use crate::frame::{CliError, Done, Exit};

/// Does what was asked.
pub(crate) fn run(common: &Common, command: Command) -> Done {
    match command {
        Command::Call(call) => block_on(call::run(common, call))?,
        Command::Run(run) => block_on(run::run(common, run))?,
        Command::Replay(replay) => block_on(replay::run(common, &replay))?,
        // Many clients at once are what the other threads are for.
        Command::Serve(serve) if serve.http.is_some() => {
            run_on(tokio::runtime::Builder::new_multi_thread(), serve::run(common, serve))?
        }
        Command::Serve(serve) => block_on(serve::run(common, serve))?,
        Command::Tools { format } => block_on(tools::run(common, format))?,
        Command::Prompt { format } => block_on(prompt::run(common, format))?,
        Command::Log { last, tool, failed } => {
            block_on(log::run(common, &log::Filter { last, tool, failed }))?
        }
        Command::Show { call } => block_on(show::run(common, &call.call))?,
        Command::Diff { call } => block_on(diff::run(common, &call.call))?,
        Command::Undo { to, force, call } => block_on(undo::run(common, &call.call, to, force))?,
        Command::Policy(PolicyCommand::Check { tool, arguments }) => {
            block_on(policy::check(common, tool, arguments))?
        }
        Command::Ledger(LedgerCommand::List { in_doubt }) => block_on(ledger::list(common, in_doubt))?,
        Command::Ledger(LedgerCommand::Resolve { key, verdict, message, value }) => {
            block_on(ledger::resolve(common, &key, &verdict, message, value))?
        }
        Command::Ledger(LedgerCommand::AcknowledgeLoss) => block_on(ledger::acknowledge_loss(common))?,
        Command::Override(OverrideCommand::Seed) => overrides::seed(common),
        Command::Override(OverrideCommand::List) => overrides::list(common),
        Command::Override(OverrideCommand::Diff) => overrides::diff(common),
        Command::Init { schema: true, .. } => init::schema(),
        Command::Init { force, .. } => init::run(common, force),
        Command::Doctor { deep, repair } => block_on(doctor::run(common, deep, repair))?,
        Command::Gc { keep_days } => block_on(gc::run(common, keep_days))?,
        Command::Demo | Command::Completions { .. } => {
            Err(CliError::internal("this command has no workspace"))
        }
    }
}

/// One thread is enough: what takes long has threads of its own.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, CliError> {
    run_on(tokio::runtime::Builder::new_current_thread(), work)
}

/// Runs the work of a command. A file that may not grow any more is an error like any other from here on: it would end the
/// program where it is. That is heard and not ignored, since who is ignored is so by the programs that are started, too.
fn run_on<T>(mut runtime: tokio::runtime::Builder, work: impl Future<Output = T>) -> Result<T, CliError> {
    spare_files()?;
    let runtime = runtime.enable_all().build().map_err(CliError::internal)?;
    let _entered = runtime.enter();
    let too_large = rustix::process::Signal::XFSZ.as_raw();
    let _heard = signal(SignalKind::from_raw(too_large)).map_err(CliError::internal)?;
    Ok(runtime.block_on(work))
}

/// Whether this process may open as many files as it takes to begin at all: the runtime panics where it may not.
fn spare_files() -> Result<(), CliError> {
    const BEGINNING: usize = 12;
    let opened: Result<Vec<_>, _> = (0..BEGINNING).map(|_| std::fs::File::open("/dev/null")).collect();
    opened.map(drop).map_err(|error| {
        CliError::internal(format!("this process cannot open the files that it needs: {error}"))
            .hint("nothing was done; raise its limit of open files (ulimit -n)")
    })
}

/// All of standard input, which may have so many MiB.
fn piped(most: u64) -> Result<Vec<u8>, CliError> {
    let limit = most << 20;
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|error| CliError::new(Exit::Usage, format!("standard input cannot be read: {error}")))?;
    match bytes.len() as u64 > limit {
        // Half of it is not what was meant.
        true => Err(CliError::new(Exit::Usage, format!("standard input has more than {most} MiB"))
            .hint("nothing was done; put what is large into a file, and say which")),
        false => Ok(bytes),
    }
}

/// The arguments of a call, from the command line or from standard input.
fn arguments(given: Option<String>) -> Result<String, CliError> {
    match given {
        None => Ok(String::new()),
        Some(text) if text != "-" => Ok(text),
        Some(_) => {
            // More than any executor reads; the answer to less says how much that is.
            String::from_utf8(piped(16)?).map_err(|error| {
                let at = error.utf8_error().valid_up_to();
                CliError::new(
                    Exit::Usage,
                    format!("standard input is not UTF-8: byte {at} is part of no character"),
                )
                .hint("nothing was done; arguments are JSON, which is text in UTF-8")
            })
        }
    }
}
