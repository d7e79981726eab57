//! `wink init`: writes a commented agent file to start from, and beside it the schema that its first line tells editors of.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use serde_json::json;
use wink_agent::{Agent, FILE_NAME};

use super::above;
use super::open::Refused;
use crate::args::Common;
use crate::frame::{self, CliError, Done, Exit, note};

/// What is written. It is a valid agent as it is; so is each of its examples without the comment signs.
const TEMPLATE: &str = include_str!("init.toml");
/// Where the template says that its schema is.
const SCHEMA: &str = "wink.schema.json";

pub(super) fn run(common: &Common, force: bool) -> Done {
    if let Some(above) = above::surrounding(common) {
        note(&format!("this directory becomes a workspace of its own, inside that of {}", above.display()));
    }
    let path = common.agent.clone().unwrap_or_else(|| common.root().join(FILE_NAME));
    let failed = |path: &Path, error: io::Error| {
        let said = CliError::new(Exit::Usage, format!("{} cannot be written: {error}", path.display()));
        match (error.kind(), Refused::of(error.kind())) {
            (_, Some(refused)) => said.hint(refused.hint()),
            (ErrorKind::NotFound, None) => said.hint("make its directory first"),
            (_, None) => said,
        }
    };
    write(&path, TEMPLATE, force).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            CliError::new(Exit::Usage, format!("{} is there already", path.display()))
                .hint("--force replaces it")
        }
        _ => failed(&path, error),
    })?;
    let schema = path.with_file_name(SCHEMA);
    let schema = match write(&schema, &(schema_text()? + "\n"), force) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            note(&format!("{} is there already, and is left as it is", schema.display()));
            None
        }
        written => {
            written.map(|()| Some(schema.display().to_string())).map_err(|error| failed(&schema, error))?
        }
    };
    let path = path.display();
    if common.json {
        return frame::print_json(&json!({ "written": path.to_string(), "schema": schema }));
    }
    let wrote = match schema {
        Some(schema) => format!("wrote {path}, and {schema}, by which editors know what can be in it"),
        None => format!("wrote {path}"),
    };
    let option = common.agent.as_ref().map(|_| format!(" --agent {path}")).unwrap_or_default();
    frame::print(&format!(
        "{wrote}\nNext: `wink tools{option}` lists what the model would be given, `wink call TOOL JSON{option}` calls a tool, `wink run TASK{option}` runs the agent.",
    ))
}

/// What editors are told of agent files.
pub(super) fn schema() -> Done {
    frame::print(&schema_text()?)
}

fn schema_text() -> Result<String, CliError> {
    serde_json::to_string_pretty(&Agent::schema()).map_err(CliError::internal)
}

fn write(path: &Path, text: &str, force: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match force {
        true => options.write(true).create(true).truncate(true),
        false => options.write(true).create_new(true),
    };
    options.open(path)?.write_all(text.as_bytes())
}
