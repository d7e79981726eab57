//! The end of a call, on its own: nothing it needs can be dropped from under it.

use std::sync::Arc;

use super::logged::bound_chain;
use super::outcome::{Answer, Escalation, Outcome};
use crate::ledger::Claim;
use crate::session::{Closing, Ending, Session, ToolInvoked};
use crate::store::StoreError;
use crate::support::future::CatchPanic;
use crate::tool::render::bounded;
use crate::transaction::{Aborted, Transaction, TransactionError};

/// How a call ends, and all that has to be said about it.
pub(super) struct End {
    pub(super) event: Arc<ToolInvoked>,
    pub(super) shown: Arc<str>,
    pub(super) claim: Option<Box<Claim>>,
    /// Whether its effect outside may have happened although the call did not succeed.
    pub(super) doubtful: bool,
    pub(super) escalation: Option<Escalation>,
    /// How much the log keeps.
    pub(super) max_logged: usize,
}

impl End {
    pub(super) async fn commit(self, tx: Transaction, closing: Closing) -> Outcome {
        let session = tx.work().session.clone();
        match CatchPanic::new(Box::pin(tx.commit_with(closing))).await {
            Ok(Ok(())) => self.outcome(),
            Ok(Err((error, aborted))) => self.not_committed(error, aborted).await,
            Err(panic) => self.commit_panicked(session, panic).await,
        }
    }

    /// Something foreign panicked inside the commit. What counts is whether the event is in the log.
    pub(super) async fn commit_panicked(self, session: Session, panic: String) -> Outcome {
        tracing::error!(panic, tool = &*self.event.tool, "a commit panicked");
        match session.has_recorded(self.event.id) {
            true => self.outcome(),
            false => {
                let aborted = Aborted::before_begin(&session, None, None);
                self.not_committed(TransactionError::Panicked(panic), aborted).await
            }
        }
    }

    pub(super) async fn not_committed(mut self, error: TransactionError, aborted: Aborted) -> Outcome {
        tracing::error!(%error, tool = &*self.event.tool, "a call could not be committed");
        let (ending, remains) = match &error {
            TransactionError::Restore(_) => {
                // What was not rolled back may be there, wherever the effect is.
                self.doubtful |= self.claim.is_some();
                (Ending::NotRestored, what_is_left(self.doubtful))
            }
            _ => (Ending::NotCommitted, what_remains(self.doubtful)),
        };
        let settling = self.claim.as_ref().filter(|_| self.doubtful).and_then(|claim| claim.settling());
        let settling = settling.map(|settling| to_settle(&settling)).unwrap_or_default();
        let text = format!("{} was not committed: {error}; {remains}{settling}", self.event.tool);
        self.shown = bounded(&text, MAX_REASON_BYTES).into();
        let mut error_chain = vec![error.to_string()];
        bound_chain(&mut error_chain, self.max_logged);
        self.event = Arc::new(ToolInvoked {
            ending,
            success: false,
            message: Arc::clone(&self.shown),
            rendered: Arc::clone(&self.shown),
            error_chain,
            ..ToolInvoked::clone(&self.event)
        });
        if let TransactionError::Restore(error) = error {
            self.escalation = Some(Escalation::Restore(error));
        }
        self.record(aborted).await
    }

    pub(super) async fn record(mut self, aborted: Aborted) -> Outcome {
        let session = aborted.session.clone();
        let closing = || Closing {
            event: Some(Arc::clone(&self.event) as _),
            ends: Some(self.event.id),
            ..Closing::default()
        };
        let closed = match CatchPanic::new(Box::pin(aborted.close(closing()))).await {
            Ok(closed) => closed,
            Err(panic) => {
                tracing::error!(panic, tool = &*self.event.tool, "the end of a call panicked");
                match session.has_recorded(self.event.id) {
                    true => Ok(()),
                    false => Aborted::before_begin(&session, None, None).close(closing()).await,
                }
            }
        };
        if let Err(error) = closed {
            tracing::error!(%error, "the end of a call could not be stored");
            self.escalation.get_or_insert(Escalation::Store(error));
        }
        if let Some(claim) = self.claim.take() {
            // A claim that is left as it is counts as in doubt from here on, so nothing is lost before this.
            let ended = match self.doubtful {
                true => {
                    let reason = format!("an earlier call {} while it ran", ended(self.event.ending));
                    claim.leave_in_doubt(reason, self.event.time).await
                }
                false => claim.release().await,
            };
            if let Err(error) = ended {
                tracing::error!(%error, "the end of a claim could not be stored; it is in doubt now");
                self.escalation.get_or_insert(Escalation::Store(StoreError::into(error)));
            }
        }
        self.outcome()
    }

    pub(super) fn outcome(self) -> Outcome {
        let answer = Answer {
            call_id: Arc::clone(&self.event.call_id),
            tool: Arc::clone(&self.event.tool),
            text: self.shown,
            success: self.event.success,
        };
        Outcome { answer, event: self.event, escalation: self.escalation }
    }
}

/// How much of a store's or resource's error the model is told.
const MAX_REASON_BYTES: usize = 4 * 1024;

/// What is left of a call that did not succeed. A tool with a claim says that it reaches outside.
pub(super) fn what_remains(outside_in_doubt: bool) -> &'static str {
    match outside_in_doubt {
        false => "nothing was changed",
        true => "what it did here was undone, and whether its effect outside happened is not known",
    }
}

/// How a doubt is settled, after what is told of a call that leaves one.
pub(super) fn to_settle(settling: &str) -> String {
    format!("\nFind out whether it happened, and say so: {settling}")
}

/// The same of one that could not be taken back.
fn what_is_left(outside_in_doubt: bool) -> &'static str {
    match outside_in_doubt {
        false => "what it did here is not undone, or not all of it",
        true => {
            "what it did here is not undone, or not all of it, and whether its effect outside happened is not known"
        }
    }
}

/// How a call ended, in a sentence about it.
fn ended(ending: Ending) -> &'static str {
    match ending {
        Ending::Cancelled => "was cancelled",
        Ending::TimedOut => "took too long and was stopped",
        Ending::Exhausted => "was stopped at the deadline",
        Ending::Panicked => "panicked",
        Ending::NotCommitted => "could not be committed",
        Ending::NotRestored => "could not be committed, nor taken back",
        Ending::NotRun => "was taken back",
        Ending::Interrupted => "was interrupted",
        Ending::Succeeded
        | Ending::Unavailable
        | Ending::Rejected
        | Ending::Denied
        | Ending::InDoubt
        | Ending::Failed
        | Ending::Errored
        | Ending::Expanded
        | Ending::Escalated => "ended",
    }
}
