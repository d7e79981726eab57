//! What the section asks of an interpreter, and what a worker is told and answers: the same types.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wink::BoxFuture;
use wink::limits::Clock;

/// Runs programs.
pub trait Interpreter: Send + Sync + 'static {
    /// Runs a program to its end, or to the end of its limits. Dropping the future stops the program.
    ///
    /// Whatever the program does is an answer: this has no way to fail beside it.
    fn run<'a>(
        &'a self,
        program: Program,
        limits: &'a Limits,
        clock: &'a Arc<dyn Clock>,
    ) -> BoxFuture<'a, Finished>;
}

/// A program and what it is given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Program {
    /// The code.
    pub code: String,
    /// Variables that are there from the start: name and text.
    pub inputs: Vec<(String, String)>,
    /// Variables whose text is wanted at the end.
    pub outputs: Vec<String>,
}

/// What a program is held to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How long it may run.
    pub time: Duration,
    /// Bytes of memory.
    pub memory: usize,
    /// Calls within calls.
    pub recursion: usize,
    /// Bytes of printed text, and of a value's text, that are kept. What is printed beyond is counted.
    pub output: usize,
    /// Bytes of printed text at which the program is stopped.
    pub flood: usize,
    /// Bytes of all inputs, and of all outputs, together.
    pub text: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(5),
            memory: 64 * 1024 * 1024,
            recursion: 200,
            output: 32 * 1024,
            flood: 4 * 1024 * 1024,
            text: 4 * 1024 * 1024,
        }
    }
}

/// A program that ran, or did not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// What it printed before it ended.
    pub stdout: Captured,
    /// How it ended.
    pub outcome: Result<Success, Failure>,
}

impl Finished {
    /// One that failed before it printed anything.
    pub fn failed(failure: Failure) -> Self {
        Self { stdout: Captured::default(), outcome: Err(failure) }
    }
}

/// Printed text, as much as is kept of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Captured {
    /// The first part.
    pub text: String,
    /// Bytes that followed.
    pub dropped: u64,
}

/// A program ended well.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Success {
    /// The value of its last expression, as `repr` shows it; nothing for `None`.
    pub value: Option<String>,
    /// The texts of the variables that were wanted, in order.
    pub outputs: Vec<String>,
}

/// Why a program did not end well. The texts are for the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Failure {
    /// It was not run, since something in it cannot work here.
    #[error("{text}")]
    Rejected {
        /// What, where, and what to do instead.
        text: String,
    },
    /// It raised an exception.
    #[error("{text}")]
    Raised {
        /// The exception, and what to do instead where that is known.
        text: String,
        /// Where it was raised.
        traceback: String,
    },
    /// It took too long.
    #[error("the program was stopped after {}; nothing it did counts. Do less in one call", shown_time(.millis))]
    Time {
        /// The limit.
        millis: u64,
    },
    /// It took too much memory.
    #[error("the program used more than {} MiB of memory and was stopped; work on less at a time", .bytes / (1024 * 1024))]
    Memory {
        /// The limit.
        bytes: usize,
    },
    /// It printed too much.
    #[error("the program printed more than {bytes} bytes and was stopped; print less")]
    Flood {
        /// The limit.
        bytes: usize,
    },
    /// A variable that was wanted is not there, or has no text.
    #[error("variable '{name}' is to be written, but {problem}")]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The worker ended without an answer.
    #[error(
        "the interpreter stopped without an answer ({how}); the program may nest too deeply or use too much memory"
    )]
    Died {
        /// Its exit status.
        how: String,
    },
    /// There is no interpreter.
    #[error("Python cannot be run here: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
}

fn shown_time(millis: &u64) -> String {
    match millis {
        millis if millis % 1000 == 0 => format!("{} s", millis / 1000),
        millis => format!("{millis} ms"),
    }
}

/// What a worker is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) program: Program,
    pub(crate) limits: Limits,
}

/// No request and no answer is longer: the worker is not trusted, and neither is whoever starts it.
pub(crate) const MAX_MESSAGE: u64 = 64 * 1024 * 1024;

/// Exit status of a worker that took too long by its own clock.
pub(crate) const OUT_OF_TIME: u8 = 67;
/// Exit status of a worker whose allocator refused.
pub(crate) const OUT_OF_MEMORY: i32 = 65;

/// The first part of a text that fits, cut between characters; and how much was cut.
pub(crate) fn cut(mut text: String, max: usize) -> (String, usize) {
    let whole = text.len();
    text.truncate(boundary(&text, max));
    let dropped = whole - text.len();
    (text, dropped)
}

/// The last place between two characters that is not beyond `max`.
pub(crate) fn boundary(text: &str, max: usize) -> usize {
    let max = max.min(text.len());
    (0..=max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
