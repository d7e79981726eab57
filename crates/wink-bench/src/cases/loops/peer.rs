//! The loops of other libraries: a Python each, which makes a run when it is told to and says how long each turn took.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use tempfile::TempDir;

use super::{DONE, Turns, last_answer};
use crate::cases::place::scratch;
use crate::cases::{Contender, Keeping};

const PROGRAM: &str = include_str!("peers.py");

/// What is said of a run.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Told {
    pub(super) ns: Turns,
    pub(super) answer: String,
    pub(super) text: String,
}

/// The variable that names a Python with the library, for those who have a loop, and can keep it so.
fn variable(contender: Contender, keeping: Keeping) -> Option<&'static str> {
    match (contender, keeping) {
        (Contender::PydanticAi, Keeping::Memory) => Some("WINK_BENCH_PYDANTIC_AI"),
        (Contender::LangGraph, Keeping::Memory | Keeping::Durable) => Some("WINK_BENCH_LANGGRAPH"),
        _ => None,
    }
}

pub(super) fn make(
    contender: Contender,
    script: &Path,
    turns: usize,
    keeping: Keeping,
) -> Option<Box<dyn FnMut() -> Turns>> {
    let python = env::var_os(variable(contender, keeping)?)?;
    let place = scratch();
    let program = place.path().join("peers.py");
    fs::write(&program, PROGRAM).unwrap_or_else(|error| unreachable!("{}: {error}", program.display()));
    let mut command = Command::new(python);
    command.arg(program).arg(contender.name()).arg(script);
    if keeping == Keeping::Durable {
        command.arg(place.path());
    }
    let mut peer = Peer::start(command, place);
    Some(Box::new(move || {
        let told = peer.run();
        assert_eq!((told.ns.len(), told.answer, told.text), (turns, last_answer(turns), DONE.to_owned()));
        told.ns
    }))
}

/// Ended when it is dropped; its place goes with it.
struct Peer {
    command: Command,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _place: TempDir,
}

impl Peer {
    fn start(mut command: Command, place: TempDir) -> Self {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.unwrap_or_else(|error| unreachable!("{command:?}: {error}"));
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            unreachable!("both were asked for")
        };
        Self { command, process, input, output: BufReader::new(output), _place: place }
    }

    fn run(&mut self) -> Told {
        let mut line = String::new();
        let asked = self.input.write_all(b"\n").and_then(|()| self.input.flush());
        let read = asked.and_then(|()| self.output.read_line(&mut line));
        serde_json::from_str(&line)
            .unwrap_or_else(|error| unreachable!("{:?} says {line:?} ({read:?}): {error}", self.command))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
