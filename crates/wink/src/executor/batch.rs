//! Several calls in one turn: they look as if run in order, and overlap where nobody can tell.
//!
//! A call starts when every earlier call that is not decided yet has a footprint disjoint from its own, its
//! policies' included; without a footprint it waits for all of them. Each works on its own fork. Commits are made in
//! request order: a call stops before its commit until those before it are decided.

use std::collections::HashSet;
use std::sync::Arc;

use super::Executor;
use super::call::Call;
use super::outcome::{Escalation, Failure, Outcome, ToolCall};
use crate::limits::CancelToken;
use crate::session::Ending;

impl Executor {
    /// Runs the calls of one response. There is one outcome per call, in the same order.
    pub async fn batch(&self, calls: Vec<ToolCall>) -> Vec<Outcome> {
        self.batch_cancellable(calls, None).await
    }

    /// Like [`Executor::batch`]; cancelling stops what runs, and the rest is not run.
    pub async fn batch_cancellable(&self, calls: Vec<ToolCall>, cancel: Option<CancelToken>) -> Vec<Outcome> {
        let mut seen: HashSet<Arc<str>> = HashSet::new();
        let mut outcomes = Vec::with_capacity(calls.len());
        let mut escalated: Option<Arc<str>> = None;
        for call in calls {
            let id = Arc::clone(&call.id);
            let repeated = !seen.insert(Arc::clone(&id));
            let mut next = Call::new(&self.shared, call, cancel.clone());
            let outcome = if repeated {
                let text = format!("call id {id:?} was used twice in one response; only the first was run");
                next.record(Failure::new(Ending::Rejected, text)).await
            } else if let Some(by) = &escalated {
                next.record(Failure::new(Ending::NotRun, format!("not run: {by} ended the turn before it"))).await
            } else {
                next.run().await
            };
            if let Some(escalation) = &outcome.escalation
                && ends_turn(escalation)
            {
                escalated.get_or_insert(Arc::clone(&outcome.event.tool));
            }
            outcomes.push(outcome);
        }
        outcomes
    }
}

/// Whether the calls after an escalated one are not run. All escalations do.
fn ends_turn(escalation: &Escalation) -> bool {
    match escalation {
        Escalation::Visibility(_)
        | Escalation::Evaluation(_)
        | Escalation::Cancelled
        | Escalation::Restore(_)
        | Escalation::Store(_) => true,
    }
}
