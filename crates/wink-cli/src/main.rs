//! The wink program. What it can be asked is in [`args`]; what a command does is in the command's own module, below
//! [`commands`].

mod args;
#[cfg(unix)]
mod commands;
#[cfg(unix)]
mod demo;
mod diagnostics;
#[cfg(target_os = "linux")]
mod environment;
mod frame;
mod stderr;
#[cfg(unix)]
mod term;

use std::process::ExitCode;

use args::{Arguments, Command};

fn main() -> ExitCode {
    #[cfg(feature = "eval")]
    if wink_eval::worker::is_called() {
        return wink_eval::worker::main();
    }
    // No command of anybody's, and so none that a shell completes.
    #[cfg(unix)]
    if let Some(exit) = demo::victim::called() {
        return exit;
    }
    let Arguments { common, command } = match args::read() {
        Ok(arguments) => arguments,
        Err(exit) => return exit,
    };
    #[cfg(target_os = "linux")]
    if matches!(command, Command::Run(_) | Command::Replay(_) | Command::Call(_) | Command::Serve(_)) {
        // Before there is another thread.
        environment::hide();
    }
    if matches!(command, Command::Serve(_))
        && let Err(error) = stderr::detach()
    {
        return frame::ended(Err(frame::CliError::internal(error)));
    }
    if let Err(error) = diagnostics::begin(common.verbose, matches!(command, Command::Serve(_))) {
        return frame::ended(Err(error));
    }
    match command {
        #[cfg(unix)]
        Command::Demo => demo::main(common.json),
        Command::Completions { shell } => frame::ended(args::completions(shell, common.json)),
        #[cfg(unix)]
        command => frame::ended(commands::run(&common, command)),
        #[cfg(not(unix))]
        _ => {
            let _ = common;
            let message = "it works on a real directory, which is not built for this system yet";
            frame::ended(Err(frame::CliError::new(frame::Exit::Usage, message)))
        }
    }
}

/// Without this the memory of a worker is bounded by the operating system alone.
#[cfg(feature = "eval")]
#[global_allocator]
static ALLOCATOR: wink_eval::LimitedAllocator = wink_eval::LimitedAllocator;
