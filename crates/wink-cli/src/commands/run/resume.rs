//! Which run is gone on with.

use wink::session::Session;
use wink_models::StopReason;
use wink_models::conversation::{Conversation, ConversationStep, Ended, Next};

use crate::frame::{CliError, Exit};

/// The id of the run that was asked for, or of the session's last, if it can be gone on with.
pub(super) fn find(
    session: &Session,
    asked: Option<&str>,
    max_turns: Option<u32>,
) -> Result<String, CliError> {
    let usage = |message: String| CliError::new(Exit::Usage, message);
    let last = || session.slice::<ConversationStep>().newest().next().map(|step| step.run.to_string());
    let Some(run) = asked.map(str::to_owned).or_else(last) else {
        let message = format!("no run was ever begun in session {}", session.id());
        return Err(usage(message).hint("`wink run TASK` begins one; --session names another session"));
    };
    let known = Conversation::read_back(session, &run).map_err(|error| usage(error.to_string()))?;
    let known = known.map(|mut conversation| {
        conversation.allow_turns(max_turns);
        conversation.next()
    });
    match known {
        None => {
            let message = format!("session {} knows no run {run}", session.id());
            Err(usage(message).hint("--resume alone goes on with the last one"))
        }
        Some(Next::Ended(Ended::Completed(_))) => {
            Err(usage(format!("run {run} is over: the model was done"))
                .hint("`wink run TASK` begins another"))
        }
        Some(Next::Ended(Ended::Stopped(reason))) => {
            let hint = match reason {
                StopReason::TurnCap { .. } => "--max-turns lets it have more",
                _ => "`wink run TASK` begins another",
            };
            Err(usage(format!("run {run} is over: {reason}")).hint(hint))
        }
        Some(_) => Ok(run),
    }
}
