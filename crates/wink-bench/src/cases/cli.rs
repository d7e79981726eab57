//! Programs from their start to their end: `wink call` in a workspace that is there, `wink --version` as what starting it
//! takes, and the smallest program with the Python original.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::place::scratch;
use super::program::{READ, SET_UP, plan, wink, workspace};
use super::{Case, Contender};

/// Names a Python that has the original.
const ORIGINAL: &str = "WINK_BENCH_ORIGINAL";
/// One tool, one session, one call.
const PROGRAM: &str = include_str!("original.py");

pub(super) fn make(contender: Contender) -> Option<Case> {
    match contender {
        Contender::Wink => Some(call()),
        Contender::Floor => {
            let wink = program();
            Some(Box::new(move || run(Command::new(&wink).arg("--version"))))
        }
        Contender::Original => {
            let python = env::var_os(ORIGINAL)?;
            let place = scratch();
            let path = place.path().join("original.py");
            fs::write(&path, PROGRAM).unwrap_or_else(|error| unreachable!("{error}"));
            Some(Box::new(move || {
                run(Command::new(&python).arg(&path));
                let _place = &place;
            }))
        }
        Contender::Rmcp | Contender::Rig | Contender::Git | Contender::PydanticAi | Contender::LangGraph => {
            None
        }
    }
}

fn call() -> Case {
    let (wink, workspace) = (program(), workspace());
    let called = |tool: &str| {
        let mut command = Command::new(&wink);
        command.arg("--workspace").arg(workspace.path()).args(["call", tool]);
        command
    };
    run(called(SET_UP).arg(plan().to_string()));
    let mut command = called(READ);
    Box::new(move || {
        run(&mut command);
        let _workspace = &workspace;
    })
}

fn program() -> PathBuf {
    wink().unwrap_or_else(|error| unreachable!("{error}"))
}

/// Nothing is asked of it but that it ends well.
fn run(command: &mut Command) {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.as_ref().is_ok_and(|status| status.success()), "{command:?}: {status:?}");
}
