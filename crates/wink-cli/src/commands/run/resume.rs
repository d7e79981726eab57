//! Which run is gone on with.

use wink::session::Session;
use wink_models::conversation::{Conversation, ConversationStep};

use crate::frame::{CliError, Exit};

/// The id of the run that was asked for, or of the session's last, if it can be read back.
pub(super) fn find(session: &Session, asked: Option<&str>) -> Result<String, CliError> {
    let usage = |message: String| CliError::new(Exit::Usage, message);
    let last = || session.slice::<ConversationStep>().newest().next().map(|step| step.run.to_string());
    let Some(run) = asked.map(str::to_owned).or_else(last) else {
        let message = format!("no run was ever begun in session {}", session.id());
        return Err(usage(message).hint("`wink run TASK` begins one; --session names another session"));
    };
    match Conversation::read_back(session, &run).map_err(|error| usage(error.to_string()))? {
        // What one came to that is over is said again.
        Some(_) => Ok(run),
        None => {
            let message = format!("session {} knows no run {run}", session.id());
            Err(usage(message).hint("--resume alone goes on with the last one"))
        }
    }
}
