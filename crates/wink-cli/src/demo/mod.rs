//! `wink demo`: a short session to watch, in a directory of its own. Everything that it claims is read back from session and
//! disk and checked.
//!
//! [`scenes`] is the story, [`stage`] what it is played on, [`place`] where, [`tools`] and [`bank`] what somebody who builds an
//! agent would write. [`commands`] is what this machine can run, and [`victim`] the process that is killed.

mod bank;
mod commands;
mod place;
mod scenes;
mod stage;
mod tools;
pub(crate) mod victim;

use std::io;
use std::process::ExitCode;

use crate::frame::{self, CliError, Exit};
use crate::term::Screen;
use commands::Commands;
use place::Place;
use stage::Stage;

/// Why the demo did not go through.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    /// Something is not as it was claimed.
    #[error("scene {scene}: not so: {claim}\n  expected: {expected}\n  found:    {found}")]
    Check { scene: String, claim: String, expected: String, found: String },
    /// The output went away.
    #[error("the output cannot be written: {0}")]
    Output(#[from] io::Error),
    /// The runtime could not do what the demo relies on.
    #[error("{doing}: {reason}")]
    Runtime { doing: &'static str, reason: String },
}

/// Says what the demo was doing when the runtime failed.
trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, DemoError>;
}

impl<T, E: std::fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, doing: &'static str) -> Result<T, DemoError> {
        self.map_err(|error| DemoError::Runtime { doing, reason: error.to_string() })
    }
}

/// Runs the demo and says how it ended. For programs that is all it says.
pub(crate) fn main(json: bool) -> ExitCode {
    let made = tempfile::Builder::new().prefix("wink-demo-").tempdir();
    let mut dir = match made.doing("make a temporary directory") {
        Ok(dir) => dir,
        Err(error) => {
            return frame::ended(Err(CliError::new(Exit::Failure, error.to_string())));
        }
    };
    let screen = if json { Screen::over(io::sink()) } else { Screen::stdout() };
    match run(screen, Place::at(dir.path().to_owned())) {
        Ok(()) if json => frame::ended(frame::print_json(&serde_json::json!({ "passed": true }))),
        Ok(()) => ExitCode::SUCCESS,
        // Whoever watched has seen enough, as `head` does.
        Err(DemoError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // For whoever wants to look.
            dir.disable_cleanup(true);
            let left = format!("its directory was left as it is: {}", dir.path().display());
            frame::ended(Err(CliError::new(Exit::Failure, error.to_string()).hint(left)))
        }
    }
}

fn run(screen: Screen, place: Place) -> Result<(), DemoError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.doing("start a runtime")?.block_on(async {
        let mut stage = Stage::open(screen, place, Commands::find()).await?;
        scenes::play(&mut stage).await
    })
}
