//! `wink init`: writes a commented agent file to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};

use serde_json::json;
use wink_agent::{Agent, FILE_NAME};

use super::above;
use crate::args::Common;
use crate::frame::{self, CliError, Done, Exit, note};

/// What is written. It is a valid agent as it is; so is each of its examples without the comment signs.
const TEMPLATE: &str = include_str!("init.toml");

pub(super) fn run(common: &Common, force: bool) -> Done {
    if let Some(above) = above::surrounding(common) {
        note(&format!("this directory becomes a workspace of its own, inside that of {}", above.display()));
    }
    let path = common.root().join(FILE_NAME);
    let mut options = OpenOptions::new();
    match force {
        true => options.write(true).create(true).truncate(true),
        false => options.write(true).create_new(true),
    };
    let written = options.open(&path).and_then(|mut file| file.write_all(TEMPLATE.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            CliError::new(Exit::Usage, format!("{} is there already", path.display()))
                .hint("--force replaces it")
        }
        _ => CliError::new(Exit::Usage, format!("{} cannot be written: {error}", path.display())),
    })?;
    match common.json {
        true => frame::print_json(&json!({ "written": path.display().to_string() })),
        false => frame::print(&format!(
            "wrote {}\nNext: `wink tools` lists what the model would be given, `wink call TOOL JSON` calls a tool.",
            path.display()
        )),
    }
}

/// What editors are told of agent files.
pub(super) fn schema() -> Done {
    frame::print(&serde_json::to_string_pretty(&Agent::schema()).map_err(CliError::internal)?)
}
