//! How a run ends the program: its result on standard output, why it was stopped on standard error, and an exit code.

use wink::ledger::InDoubt;
use wink::store::Store;
use wink_models::{ModelErrorKind, PromptResponse, RunReport, RunStats, StopReason, Stopped};
use wink_store::Workspace;

use crate::args::Common;
use crate::frame::{self, CliError, Done, Exit, note, visible};

/// In a word or two how it ended, and what it came to.
pub(in crate::commands) fn how(came: &Result<PromptResponse, Stopped>) -> (String, RunStats) {
    let stats = match came {
        Ok(response) => response.stats,
        Err(stopped) => stopped.stats,
    };
    let how = match (came, RunReport::of(came).stopped_by) {
        (Ok(_), how) => how.to_owned(),
        (Err(_), why) => format!("stopped ({why})"),
    };
    (how, stats)
}

/// Prints the result; or tells why there is none.
pub(in crate::commands) fn told(common: &Common, came: &Result<PromptResponse, Stopped>) -> Done {
    if common.json {
        frame::print_json(&RunReport::of(came))?;
    }
    match came {
        Ok(response) => {
            if !common.json {
                print(response)?;
            }
            match &response.missing {
                None => Ok(Exit::Success),
                Some(missing) => Err(CliError::new(
                    Exit::Failure,
                    format!("the model says that it is done, and something is missing: {missing}"),
                )),
            }
        }
        Err(stopped) => {
            if !common.json {
                last_words(stopped)?;
            }
            Err(why(stopped))
        }
    }
}

/// How many effects in doubt are named at the end of a run.
const MOST_DOUBTS: usize = 5;

/// Tells which effects of the session, or of all sessions, are in doubt, and what settles each.
pub(super) async fn tell_doubts(common: &Common, workspace: &Workspace) {
    let doubts = match workspace.in_doubt().await {
        Ok(doubts) => doubts,
        // The run is over, and has its result.
        Err(error) => return note(&format!("which effects are in doubt cannot be read: {error}")),
    };
    let place = common.workspace.as_ref().map(|dir| format!(" (with --workspace {})", dir.display()));
    let of_another = |doubt: &&InDoubt| {
        let mut parts = doubt.key.split(':');
        parts.next() == Some("session") && parts.next() != Some(&common.session)
    };
    let doubts: Vec<&InDoubt> = doubts.iter().filter(|doubt| !of_another(doubt)).collect();
    for doubt in doubts.iter().take(MOST_DOUBTS) {
        let settling = workspace.store().settling(&doubt.key).unwrap_or_default();
        note(&visible(&format!(
            "{} is in doubt: {}; find out whether it happened, and say so: {settling}{}",
            doubt.tool,
            doubt.reason,
            place.as_deref().unwrap_or_default()
        )));
    }
    if let Some(more) = doubts.len().checked_sub(MOST_DOUBTS).filter(|more| *more > 0) {
        note(&format!("{more} more effects are in doubt: `wink ledger list --in-doubt` lists them"));
    }
}

/// The typed result as JSON, else the last word.
pub(in crate::commands) fn print(response: &PromptResponse) -> Done {
    match &response.output {
        Some(output) => frame::print(&serde_json::to_string_pretty(output).map_err(CliError::internal)?),
        None => frame::print(&response.text),
    }
}

/// What there is of an answer that is none.
fn last_words(stopped: &Stopped) -> Done {
    match &stopped.reason {
        StopReason::Truncated { text } | StopReason::Output { text, .. } if !text.is_empty() => {
            note(&format!("the model's last words: {text}"));
        }
        _ => {}
    }
    Ok(Exit::Success)
}

fn why(stopped: &Stopped) -> CliError {
    let resume = format!("`wink run --resume` goes on with it (run {})", stopped.run_id);
    let said = |exit| CliError::new(exit, stopped.reason.to_string());
    match &stopped.reason {
        StopReason::Cancelled | StopReason::Retries(_) => said(Exit::Evaluation).hint(resume),
        StopReason::Deadline(_) => said(Exit::Evaluation).hint(format!("{resume}, with a later --deadline")),
        StopReason::Budget(_) => said(Exit::Evaluation).hint(format!("{resume}, with a larger --budget")),
        StopReason::Request(error) if error.kind == ModelErrorKind::Unauthorized => {
            said(Exit::Usage).hint("look at the key, and at the variable that has it (--key-env)")
        }
        StopReason::Request(error) if error.kind == ModelErrorKind::Rejected => {
            let hint = "look at the name of the model, at --base-url, and at what [model] sends along";
            said(Exit::Evaluation).hint(format!("{hint}; {resume}"))
        }
        StopReason::Request(_) => said(Exit::Evaluation).hint(resume),
        StopReason::Elsewhere { .. } => said(Exit::Usage),
        StopReason::TurnCap { .. } => {
            said(Exit::Evaluation).hint(format!("{resume}, with a larger --max-turns"))
        }
        StopReason::Expansions { .. } | StopReason::Evaluation(_) => said(Exit::Evaluation),
        StopReason::Truncated { .. } => said(Exit::Failure).hint("`max_output_tokens` in [model]"),
        StopReason::Refused { .. } | StopReason::Output { .. } => said(Exit::Failure),
        _ => said(Exit::Internal),
    }
}
