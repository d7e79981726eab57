//! Calls of a run that is taken up again: what failed before is not made again, and answered with what came of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use wink::executor::{Answer, Outcome, ToolCall};
use wink::session::{Ending, ToolInvoked};

use crate::conversation::Tally;
use crate::driver::{Ground, Watch};

impl Ground<'_> {
    /// What comes of calls, in their order, and how those ended that were made. One that failed before, when the run was stopped, is
    /// answered with what came of it then: by its own word it had no effect, but it may have left something outside, and nobody has
    /// asked for it again.
    pub(crate) async fn outcomes(&self, calls: Vec<ToolCall>) -> (Vec<Outcome>, Tally) {
        let mut failed = match calls.iter().any(|call| call.attempt > 1) {
            true => self.failed_before(&calls),
            false => HashMap::new(),
        };
        let known: Vec<Option<Outcome>> = calls
            .iter()
            .map(|call| call.request_key.as_ref().and_then(|key| failed.remove(key)).map(answered_again))
            .collect();
        let open = calls.into_iter().zip(&known).filter(|(_, known)| known.is_none());
        let open: Vec<ToolCall> = open.map(|(call, _)| call).collect();
        let told = |outcome: &Outcome| self.watch.outcomes(std::slice::from_ref(outcome));
        known.iter().flatten().for_each(told);
        let made = match open.is_empty() {
            true => Vec::new(),
            false => self.executor.batch_watched(open, Some(self.cancel.clone()), &told).await,
        };
        let tally = Tally::of(made.iter().map(|outcome| outcome.event.ending));
        let mut made = made.into_iter();
        (known.into_iter().filter_map(|known| known.or_else(|| made.next())).collect(), tally)
    }

    /// Those of the calls that the log says have come back and failed, by their keys: one that could not tell what became of its effect
    /// has said so. Those that were stopped are the ledger's business.
    fn failed_before(&self, calls: &[ToolCall]) -> HashMap<Arc<str>, Arc<ToolInvoked>> {
        let keys: HashSet<&str> = calls.iter().filter_map(|call| call.request_key.as_deref()).collect();
        let mut failed = HashMap::new();
        for event in self.session().slice::<ToolInvoked>().newest() {
            let Some(key) = &event.request else { continue };
            if keys.contains(&**key) {
                if matches!(event.ending, Ending::Failed | Ending::Errored) {
                    failed.insert(Arc::clone(key), Arc::clone(&event));
                }
            } else if event.run.run_id == self.run.run_id {
                // Of an earlier response: these are the last.
                break;
            }
        }
        failed
    }
}

/// What came of a call that is not made again.
fn answered_again(event: Arc<ToolInvoked>) -> Outcome {
    let answer = Answer {
        call_id: Arc::clone(&event.call_id),
        tool: Arc::clone(&event.tool),
        text: Arc::clone(&event.rendered),
        success: false,
    };
    Outcome { answer, event, escalation: None }
}
