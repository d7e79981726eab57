//! Transactions: everything that a call does to session and resources, kept together or forgotten together.
//!
//! A transaction works on forks. Committing consumes it: resources are merged, the session's changes go to the
//! store with the one event, and only then does anybody else see them; when any of that fails, all of it is taken
//! back. Rolling back forgets the forks. LOG events stand either way.

mod work;

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use crate::resource::{CallEnd, CallScope, MergeUndo, ResourceContext, ResourceError};
use crate::session::{Closing, CommitError, Fork, InvocationId, Session};
use crate::support::background::{MustFinish, finish};
use crate::tool::footprint::Footprint;

pub use work::AccessError;
pub(crate) use work::Work;

/// The right to run calls on a session. Calls that overlap share one.
pub(crate) type Turn = Arc<OwnedMutexGuard<()>>;

/// A transaction could not be committed. Nothing of it remains.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The session or the store refused.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A resource could not be merged.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// Taking back what was merged failed.
    #[error(transparent)]
    Restore(#[from] RestoreFailedError),
}

/// Something could not be put back as it was. Never swallowed: what is on the ground is not what the log says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("restoring the state before the call failed: {reason}")]
pub struct RestoreFailedError {
    /// What failed, and why.
    pub reason: String,
}

/// A transaction in progress. Dropping it rolls it back.
#[must_use = "dropping a transaction rolls it back"]
pub struct Transaction {
    /// Present until the transaction ends.
    parts: Option<Parts>,
    work: Arc<Work>,
    tag: Arc<str>,
}

struct Parts {
    scope: CallScope,
    turn: Option<Turn>,
}

/// What a failed commit leaves: nothing but its LOG part and what has to be closed.
pub(crate) struct Aborted {
    pub(crate) session: Session,
    fork: Fork,
    scope: Option<CallScope>,
    _turn: Option<Turn>,
}

impl Transaction {
    /// Begins a transaction when nobody else has one on this session.
    pub async fn begin(session: &Session, resources: &ResourceContext, tag: impl Into<Arc<str>>) -> Self {
        let turn = take_turn(session).await;
        Self::begin_on(session, resources, Some(turn), None, tag.into(), None)
    }

    /// Begins the transaction of a call that is run outside an executor.
    pub(crate) async fn begin_call(
        session: &Session,
        resources: &ResourceContext,
        call: (Arc<str>, InvocationId),
    ) -> Self {
        let turn = take_turn(session).await;
        Self::begin_on(session, resources, Some(turn), None, Arc::clone(&call.0), Some(call))
    }

    /// Begins a transaction whose turn was taken before, or that needs none.
    pub(crate) fn begin_on(
        session: &Session,
        resources: &ResourceContext,
        turn: Option<Turn>,
        footprint: Option<Footprint>,
        tag: Arc<str>,
        call: Option<(Arc<str>, InvocationId)>,
    ) -> Self {
        let scope = resources.tool_scope();
        let (tool, invocation) = call.unzip();
        let work = Arc::new(Work::new(session.clone(), scope.handle(), footprint, tool, invocation));
        Self { parts: Some(Parts { scope, turn }), work, tag }
    }

    /// What the transaction is called, in diagnostics.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    pub(crate) fn work(&self) -> &Arc<Work> {
        &self.work
    }

    /// Keeps everything, together.
    pub async fn commit(self) -> Result<(), TransactionError> {
        let committing = MustFinish::new(async move {
            match self.commit_with(Closing::default()).await {
                Ok(()) => Ok(()),
                Err((error, aborted)) => {
                    aborted.close(Closing::default()).await?;
                    Err(error)
                }
            }
        });
        committing.await
    }

    /// Forgets everything but LOG events.
    pub async fn rollback(self) -> Result<(), TransactionError> {
        let closing = MustFinish::new(async move { self.abort().close(Closing::default()).await });
        Ok(closing.await?)
    }

    /// Keeps everything, with what the call leaves behind. On failure everything is taken back, and the call's end
    /// is still to be recorded.
    pub(crate) async fn commit_with(mut self, closing: Closing) -> Result<(), (TransactionError, Aborted)> {
        let session = self.work.session.clone();
        let committing = session.committing().await;
        let fork = self.work.close();
        let Some(Parts { scope, turn }) = self.parts.take() else { return Ok(()) };
        let merged = match scope.merge() {
            Ok(merged) => merged,
            Err(error) => {
                let error = match error.is_restore_failure() {
                    true => RestoreFailedError { reason: error.to_string() }.into(),
                    false => error.into(),
                };
                return Err((error, Aborted { session: session.clone(), fork, scope: Some(scope), _turn: turn }));
            }
        };
        let events = session.events_of(&fork, true);
        let log = fork.log_only();
        match session.commit(&committing, fork, closing).await {
            Ok(()) => {
                drop(committing);
                finish_scope(scope, CallEnd::Committed(merged)).await;
                deliver(&self.work, &events);
                drop(turn);
                Ok(())
            }
            Err(error) => {
                let error = match undo(merged) {
                    Ok(()) => error.into(),
                    Err(restore) => restore.into(),
                };
                drop(committing);
                Err((error, Aborted { session, fork: log, scope: Some(scope), _turn: turn }))
            }
        }
    }

    /// Closes the gate and forgets the forks. The end is still to be recorded.
    pub(crate) fn abort(mut self) -> Aborted {
        self.abort_parts()
    }

    fn abort_parts(&mut self) -> Aborted {
        let fork = self.work.close();
        let (scope, turn) = self.parts.take().map(|parts| (parts.scope, parts.turn)).unzip();
        Aborted { session: self.work.session.clone(), fork, scope, _turn: turn.flatten() }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.parts.is_some() {
            let aborted = self.abort_parts();
            finish(async move {
                if let Err(error) = aborted.close(Closing::default()).await {
                    tracing::error!(%error, "the LOG part of a dropped transaction was not stored");
                }
            });
        }
    }
}

impl Aborted {
    /// The end of a call that never began its transaction.
    pub(crate) fn before_begin(session: &Session, turn: Option<Turn>) -> Self {
        Self { session: session.clone(), fork: Fork::default(), scope: None, _turn: turn }
    }

    /// Records the end: LOG events, the call's event, what becomes of its claim; then closes what the call built.
    pub(crate) async fn close(mut self, closing: Closing) -> Result<(), CommitError> {
        let events = self.session.events_of(&self.fork, false);
        let committing = self.session.committing().await;
        let closed = self.session.close_failed(&committing, &self.fork, closing).await;
        drop(committing);
        if let Some(scope) = self.scope.take() {
            finish_scope(scope, CallEnd::RolledBack).await;
        }
        for event in &events {
            report(self.session.deliver(event, None));
        }
        closed
    }
}

/// Waits until nobody else runs a call on this session.
pub(crate) async fn take_turn(session: &Session) -> Turn {
    Arc::new(Arc::clone(&session.core.turn).lock_owned().await)
}

fn undo(merged: MergeUndo) -> Result<(), RestoreFailedError> {
    merged.undo().map_err(|errors| RestoreFailedError { reason: errors.to_string() })
}

async fn finish_scope(scope: CallScope, end: CallEnd) {
    for error in scope.finish(end).await {
        tracing::warn!(%error, "a resource of the call could not be closed");
    }
}

fn deliver(work: &Work, events: &[crate::session::Item]) {
    for event in events {
        report(work.session.deliver(event, Some(work.source())));
    }
}

fn report(delivery: crate::session::Delivery) {
    for reason in delivery.failures {
        tracing::warn!(reason, "a subscriber failed on an event that stands");
    }
}
