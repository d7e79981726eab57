//! The worker: reads one request, runs one program within its limits, writes one answer, and ends.

mod check;
mod limit;
mod python;

use std::io::{self, Read, Write};
use std::process::ExitCode;

use crate::interpreter::{Failure, Finished, MAX_MESSAGE, Request};

/// The first argument of a program that is to be a worker.
pub const ARGUMENT: &str = "evaluate-python-worker";

/// The interpreter goes deep where a program does. Only what is used of it is ever there.
const STACK: usize = 256 * 1024 * 1024;

/// Whether this program was started to be a worker.
pub fn is_called() -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT)
}

/// Is a worker: to be called before anything else, and to be left with the code that it returns.
pub fn main() -> ExitCode {
    match answer() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer() -> io::Result<()> {
    let mut request = Vec::new();
    io::stdin().take(MAX_MESSAGE).read_to_end(&mut request)?;
    let Request { program, limits } = serde_json::from_slice(&request)?;
    drop(request);
    if let Err(reason) = limit::arm(&limits) {
        return tell(&Finished::failed(Failure::Unavailable { reason }));
    }
    let running = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let finished = python::run(&program, &limits);
        // What is left to do is ours, not the program's.
        limit::lift();
        finished
    })?;
    let finished = running.join().unwrap_or_else(|_| {
        limit::lift();
        let text = "the interpreter failed on this program; write it differently".to_owned();
        Finished::failed(Failure::Rejected { text })
    });
    tell(&finished)
}

fn tell(finished: &Finished) -> io::Result<()> {
    let mut answer = serde_json::to_vec(finished)?;
    answer.truncate(usize::try_from(MAX_MESSAGE).unwrap_or(usize::MAX));
    io::stdout().write_all(&answer)?;
    io::stdout().flush()
}
