//! Calls of a run that is taken up again: what was answered before is not made again, and answered with what came of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use wink::executor::{Answer, Outcome, ToolCall};
use wink::session::{Ending, ToolInvoked};

use crate::conversation::Tally;
use crate::driver::{Ground, Watch};

impl Ground<'_> {
    /// What comes of calls, in their order, and how those ended that were made. One that was answered before, when the run was stopped, is
    /// answered with that: nobody has asked for it again. A policy would say something else by now, a file would be read as it has become,
    /// and one that failed may have left something outside.
    pub(crate) async fn outcomes(&self, calls: Vec<ToolCall>) -> (Vec<Outcome>, Tally) {
        let mut answered = match calls.iter().any(|call| call.attempt > 1) {
            true => self.answered_before(&calls),
            false => HashMap::new(),
        };
        let known: Vec<Option<Outcome>> = calls
            .iter()
            .map(|call| call.request_key.as_ref().and_then(|key| answered.remove(key)).map(answered_again))
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

    /// What the log says that calls came to, by their keys, if that is all that will come of them.
    fn answered_before(&self, calls: &[ToolCall]) -> HashMap<Arc<str>, Arc<ToolInvoked>> {
        let mut open: HashSet<&str> = calls.iter().filter_map(|call| call.request_key.as_deref()).collect();
        let keys = open.clone();
        let mut answered = HashMap::new();
        for event in self.session().slice::<ToolInvoked>().newest() {
            let Some(key) = &event.request else { continue };
            if keys.contains(&**key) {
                // Of several tries the last counts.
                if open.remove(&**key) && is_final(event.ending) {
                    answered.insert(Arc::clone(key), Arc::clone(&event));
                }
            } else if event.run.run_id == self.run.run_id {
                // Of an earlier response: these are the last.
                break;
            }
        }
        answered
    }
}

/// Whether a call that ended so is over. One that was stopped is not, and one of which nobody knew what became may be known by now: both
/// are the ledger's business. Of one that wanted sections opened it is not known whether they were.
fn is_final(ending: Ending) -> bool {
    match ending {
        Ending::Succeeded
        | Ending::Unavailable
        | Ending::Rejected
        | Ending::Denied
        | Ending::Failed
        | Ending::Errored
        | Ending::Panicked
        | Ending::TimedOut
        | Ending::NotCommitted
        | Ending::NotRestored => true,
        Ending::InDoubt
        | Ending::Expanded
        | Ending::Exhausted
        | Ending::Cancelled
        | Ending::Escalated
        | Ending::NotRun
        | Ending::Interrupted => false,
    }
}

/// What came of a call that is not made again.
fn answered_again(event: Arc<ToolInvoked>) -> Outcome {
    let answer = Answer {
        call_id: Arc::clone(&event.call_id),
        tool: Arc::clone(&event.tool),
        text: Arc::clone(&event.rendered),
        success: event.success,
    };
    Outcome { answer, event, escalation: None }
}
