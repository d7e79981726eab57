//! Reading the command line.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::Arguments;
use crate::frame::{self, CliError, Done, Exit, Form};

/// What was asked; or how the program ends, after whoever asked was told what is wrong with it, or helped.
pub(crate) fn read() -> Result<Arguments, ExitCode> {
    let error = match Arguments::try_parse() {
        Ok(arguments) => {
            frame::speak(if arguments.common.json { Form::Json } else { Form::Text });
            return Ok(arguments);
        }
        Err(error) => error,
    };
    // What is not understood says nothing for sure; but nobody else writes this.
    let json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    frame::speak(if json { Form::Json } else { Form::Text });
    if json && error.kind() == ErrorKind::DisplayVersion {
        let version = serde_json::json!({ "version": env!("WINK_VERSION") });
        return Err(frame::ended(frame::print_json(&version)));
    }
    // One of its texts names commands that are nobody's.
    if !error.use_stderr() || (!json && error.kind() != ErrorKind::MissingSubcommand) {
        error.exit();
    }
    Err(frame::ended(Err(misunderstood(&error))))
}

/// What clap says, without what is for people only.
fn misunderstood(error: &clap::Error) -> CliError {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand
    ) {
        return CliError::new(Exit::Usage, "no command was given").hint("--help lists the commands");
    }
    let text = error.to_string();
    let mut parts = text.trim().split("\n\n");
    let message = parts.next().unwrap_or_default().trim_start_matches("error: ");
    let advice: Vec<&str> = parts.map(str::trim).filter(|part| !part.starts_with("For more")).collect();
    let said = CliError::new(Exit::Usage, message);
    if advice.is_empty() { said } else { said.hint(advice.join("\n")) }
}

/// Writes a completion script.
pub(crate) fn completions(shell: clap_complete::Shell, json: bool) -> Done {
    // Into memory first: a pipe that is closed early is no reason to panic.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "wink", &mut script);
    if json {
        let script = String::from_utf8_lossy(&script);
        return frame::print_json(&serde_json::json!({ "shell": shell.to_string(), "script": script }));
    }
    frame::print_bytes(&script)
}
