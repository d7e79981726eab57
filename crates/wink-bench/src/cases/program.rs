//! The program `wink`, which is measured as a program, and a workspace for it.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::place::scratch;

/// The tool that is called where nothing is to be changed, and the one that gives it something to show.
pub(super) const READ: &str = "planning_read_plan";
pub(super) const SET_UP: &str = "planning_setup_plan";
/// The tool that replaces a file.
pub(super) const WRITE: &str = "write_file";

/// An agent with few tools.
const AGENT: &str = r#"
[agent]
ns = "bench"
key = "programs"

[[section]]
key = "work"
title = "Work"
body = "Keep a plan, and write files."
suites = ["planning", "files"]
"#;

/// The program, as it was built beside this one.
pub(super) fn wink() -> Result<PathBuf, String> {
    let here = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let wink = here.with_file_name(format!("wink{}", env::consts::EXE_SUFFIX));
    if wink.exists() {
        return Ok(wink);
    }
    let profile = if cfg!(debug_assertions) { "" } else { " --profile dist" };
    Err(format!("{} is not there; `cargo build{profile} -p wink-cli` makes it", wink.display()))
}

/// Which one that is.
pub(crate) fn version() -> Result<String, String> {
    let wink = wink()?;
    let output = Command::new(&wink).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", wink.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A directory with an agent in it, which goes with it.
pub(super) fn workspace() -> TempDir {
    let place = scratch();
    fs::write(place.path().join("wink.toml"), AGENT).unwrap_or_else(|error| unreachable!("{error}"));
    place
}

/// A plan, as it is set up.
pub(super) fn plan() -> Value {
    json!({ "objective": "Make the tests pass", "initial_steps": ["Reproduce the failure", "Fix it", "Add a test"] })
}

/// A small file; no two calls write the same.
pub(super) fn file(number: usize) -> Value {
    json!({ "path": "notes.txt", "content": format!("call {number} was here\n").repeat(12) })
}
