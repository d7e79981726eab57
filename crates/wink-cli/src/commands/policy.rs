//! `wink policy check`: what every policy would answer to a call, and why. Nothing is run, and nothing recorded.

use serde::Serialize;
use wink::executor::{DryRun, PolicyOpinion, ToolCall};
use wink::policy::Decision;

use super::row;
use super::{arguments, open};
use crate::args::Common;
use crate::frame::{self, Done, Exit, visible};
use crate::term::{BAD, BOLD, DIM, GOOD, NAME, ODD, PLAIN, Screen, span};

/// What `policy check --json` prints.
#[derive(Serialize)]
struct Checked {
    tool: String,
    would_run: bool,
    /// Why it would not even get to the policies.
    refused: Option<String>,
    decision: Option<row::Decision>,
    opinions: Vec<Opinion>,
}

#[derive(Serialize)]
struct Opinion {
    policy: String,
    kind: &'static str,
    outcome: &'static str,
    reason: Option<String>,
}

pub(super) async fn check(common: &Common, tool: String, given: Option<String>) -> Done {
    let agent = open::agent(common)?;
    let text = arguments(given)?;
    let workspace = open::workspace_with_past(common)?;
    let opened = match &workspace {
        Some(workspace) => {
            let agent = open::settled(&agent, workspace, common)?.with_native_tools();
            agent.open(workspace, &common.session).await
        }
        None => agent.with_native_tools().open_untouched(common.root(), &common.session).await,
    };
    let opened = opened.map_err(|error| open::not_open(&error))?;
    let dry = opened.executor().dry_run(ToolCall::new("dry-run", tool.as_str(), text)).await;
    let exit = if dry.would_run() { Exit::Success } else { Exit::Failure };
    let checked = Checked::of(tool, dry);
    match common.json {
        true => frame::print_json(&checked)?,
        false => checked.show()?,
    };
    Ok(exit)
}

impl Checked {
    fn of(tool: String, dry: DryRun) -> Self {
        let decision = match (&dry.refused, dry.decisive()) {
            (Some(_), _) => None,
            (None, None) => Some(row::Decision { outcome: "allow", policy: None, reason: None }),
            (None, Some(opinion)) => {
                let (outcome, reason) = said(&opinion.decision);
                Some(row::Decision { outcome, policy: Some(opinion.policy.to_string()), reason })
            }
        };
        Self {
            tool,
            would_run: dry.would_run(),
            refused: dry.refused,
            decision,
            opinions: dry.opinions.iter().map(Opinion::of).collect(),
        }
    }

    fn show(&self) -> Done {
        let mut screen = Screen::fitted();
        let (verdict, style) = match (self.would_run, &self.decision) {
            (true, _) => ("would run", GOOD),
            (false, Some(row::Decision { outcome: "ask", .. })) => ("would be asked about", ODD),
            (false, _) => ("would not run", BAD),
        };
        screen.spans(&[span(visible(&self.tool), NAME), span("  ", PLAIN), span(verdict, style)])?;
        if let Some(refused) = &self.refused {
            screen.labelled(&[span("  ", PLAIN)], span(visible(refused), PLAIN))?;
        }
        for Opinion { policy, kind, outcome, reason } in &self.opinions {
            let style = match *outcome {
                "allow" => GOOD,
                "ask" => ODD,
                _ => BAD,
            };
            let label = [span(format!("  {outcome:<6}"), style), span(format!("{policy} "), BOLD)];
            let reason =
                reason.as_ref().map_or_else(|| format!("({kind})"), |reason| format!("({kind}) {reason}"));
            screen.labelled(&label, span(visible(&reason), DIM))?;
        }
        Ok(Exit::Success)
    }
}

impl Opinion {
    fn of(opinion: &PolicyOpinion) -> Self {
        let (outcome, reason) = said(&opinion.decision);
        Self { policy: opinion.policy.to_string(), kind: opinion.kind, outcome, reason }
    }
}

fn said(decision: &Decision) -> (&'static str, Option<String>) {
    match decision {
        Decision::Allow => ("allow", None),
        Decision::Deny(reason) => ("deny", Some(reason.to_string())),
        Decision::Ask(question) => ("ask", Some(question.to_string())),
    }
}
