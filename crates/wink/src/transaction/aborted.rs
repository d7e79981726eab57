//! What is left of a transaction that did not commit, and how its end is recorded.

use std::sync::Arc;

use super::{Turn, Work, report, report_closing};
use crate::resource::{CallEnd, CallScope};
use crate::session::{Closing, CommitError, Fork, Session};
use crate::support::holding::{self, Inside};

/// What a failed commit leaves: nothing but its LOG part and what has to be closed.
pub(crate) struct Aborted {
    pub(crate) session: Session,
    pub(super) fork: Fork,
    pub(super) scope: Option<CallScope>,
    /// Where its events come from; none for a call that never began.
    pub(super) work: Option<Arc<Work>>,
    /// Kept until the end is recorded.
    pub(super) turn: Option<Turn>,
}

impl Aborted {
    /// The end of a call that never began its transaction.
    pub(crate) fn before_begin(session: &Session, turn: Option<Turn>, scope: Option<CallScope>) -> Self {
        Self { session: session.clone(), fork: Fork::default(), scope, work: None, turn }
    }

    /// For a call that is to have done nothing at all: not even its LOG events stand.
    pub(crate) fn without_log(mut self) -> Self {
        self.fork = Fork::default();
        self
    }

    /// Records the end: LOG events, the call's event, what becomes of its claim; then closes what the call built.
    pub(crate) async fn close(mut self, closing: Closing) -> Result<(), CommitError> {
        let events = self.session.events_of(&self.fork, false);
        let committing = self.session.committing().await;
        let closed = self.session.close_failed(&committing, &self.fork, closing).await;
        drop(committing);
        let key = self.turn.as_ref().map(|_| self.session.turn_key());
        if let Some(closing) = self.scope.take().and_then(|scope| scope.end(CallEnd::RolledBack)) {
            report_closing(match key {
                Some(key) => Inside(key, closing.run()).await,
                None => closing.run().await,
            });
        }
        let deliver = || {
            for event in &events {
                report(self.session.deliver(event, self.work.as_ref().map(|work| work.source())));
            }
        };
        match key.filter(|_| !events.is_empty()) {
            Some(key) => holding::inside(key, deliver),
            None => deliver(),
        }
        closed
    }
}
