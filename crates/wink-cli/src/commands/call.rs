//! `wink call`: one transactional call in this workspace's session. Prints what the model would see.

use std::sync::Arc;

use wink::executor::{CallOptions, Escalation, Executor, ExecutorBuilder, Outcome, ToolCall};
use wink::limits::CancelToken;
use wink::session::InvocationId;
use wink::tool::AdapterInfo;

use super::ending::Ending;
use super::progress::{Reporter, Waiting};
use super::row::{self, CallRow};
use super::{approve, arguments, open};
use crate::args::{CallArgs, Common};
use crate::frame::{self, CliError, Done, Exit, note};

pub(super) async fn run(common: &Common, call: CallArgs) -> Done {
    // Before the workspace is touched: what is wrong with these is found at once.
    let agent = open::agent(common)?;
    let text = arguments(call.arguments)?;
    let workspace = open::workspace(common)?;
    let agent = open::settled(&agent, &workspace, common)?;
    let waiting = Waiting::begin(format!("calling {}", call.tool));
    let approver = approve::approver(call.yes, waiting.reporter());
    let can_ask = approver.is_some();
    let surface = |builder: ExecutorBuilder| {
        let builder = builder.adapter(AdapterInfo::new("cli")).progress(Arc::new(waiting.reporter()));
        match approver {
            Some(approver) => builder.approver(approver),
            None => builder,
        }
    };
    let opened = agent.open_with(&workspace, &common.session, surface).await;
    let opened = opened.map_err(|error| open::not_open(&error))?;
    let clock = opened.session().clock();
    let id = call.call_id.unwrap_or_else(|| fresh_id(InvocationId::fresh(clock.now())));
    let call = ToolCall::new(id, call.tool, text);
    let outcome = cancellable(opened.executor(), call, &waiting.reporter()).await?;
    drop(waiting);
    open::tell_left(&workspace.report());
    match common.json {
        true => frame::print_json(&CallRow::of(&outcome.event, outcome.text()))?,
        false => frame::print(outcome.text())?,
    };
    if !can_ask && row::decision(&outcome.event).is_some_and(|decision| decision.outcome == row::REFUSED) {
        note("nobody can be asked in a pipe: call it on a terminal, or with --yes");
    }
    ended(&outcome)
}

/// Makes a call that is cancelled when somebody wants the program to end. Then everything is undone before it does.
async fn cancellable(executor: &Executor, call: ToolCall, reporter: &Reporter) -> Result<Outcome, CliError> {
    let cancel = CancelToken::new();
    let name = Arc::clone(&call.tool);
    let mut calling = std::pin::pin!(executor.drive(call, CallOptions::new().cancel(cancel.clone())));
    let mut ending = Ending::listen()?;
    tokio::select! {
        outcome = &mut calling => return Ok(outcome),
        () = ending.told() => {}
    }
    reporter.say(format!("cancelling {name}"));
    cancel.cancel();
    Ok(calling.await)
}

/// How a call that ended so ends the program.
fn ended(outcome: &Outcome) -> Done {
    match &outcome.escalation {
        // The model is told that they are open, and they are.
        Some(Escalation::Visibility(_)) => Ok(Exit::Success),
        Some(Escalation::Evaluation(_) | Escalation::Cancelled) => Ok(Exit::Evaluation),
        Some(escalation) => Err(CliError::internal(escalation)),
        None if outcome.is_success() => Ok(Exit::Success),
        None => Ok(Exit::Failure),
    }
}

/// An id for a call that nobody gave one: short enough to be typed.
fn fresh_id(id: InvocationId) -> String {
    let text = id.to_string();
    let end = text.get(text.len().saturating_sub(8)..).unwrap_or(&text);
    format!("cli-{end}")
}
