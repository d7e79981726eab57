//! How a run ends the program: its result on standard output, why it was stopped on standard error, and an exit code.

use wink_models::{ModelErrorKind, PromptResponse, RunReport, RunStats, StopReason, Stopped};

use crate::args::Common;
use crate::frame::{self, CliError, Done, Exit, note};

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
