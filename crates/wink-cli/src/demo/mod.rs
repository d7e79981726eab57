//! `wink demo`: a short session to watch. Everything that it claims is read back from the session and checked.
//!
//! [`scenes`] is the story, [`stage`] what it is played on, [`tools`] and [`bank`] what somebody who builds an agent
//! would write.

mod bank;
mod scenes;
mod stage;
mod tools;

use std::io;
use std::process::ExitCode;

use crate::term::Screen;
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

/// Runs the demo and says how it ended.
pub(crate) fn main() -> ExitCode {
    match run(Screen::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever watched has seen enough, as `head` does.
        Err(DemoError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("wink demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(screen: Screen) -> Result<(), DemoError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.doing("start a runtime")?.block_on(async {
        let mut stage = Stage::open(screen).await?;
        scenes::play(&mut stage).await
    })
}
