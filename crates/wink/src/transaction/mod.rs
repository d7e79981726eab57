//! Transactions: everything that a call does to session and resources, kept together or forgotten together.
//!
//! A transaction works on forks. Committing consumes it: resources are merged, the session's changes go to the
//! store with the one event, and only then does anybody else see them; when any of that fails, all of it is taken
//! back. Rolling back forgets the forks. LOG events stand either way, and so does what was done to a resource that
//! is not snapshotable.

mod aborted;
mod error;
mod manual;
mod nested;
mod restore;
mod snapshot;
mod tracker;
mod turn;
mod undo;
mod views;
mod work;

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;

use crate::filesystem::WriteTurn;
use crate::resource::{
    CallEnd, CallScope, MergeUndo, MustWait, ResourceClosing, ResourceContext, ResourceError,
};
use crate::session::{Closing, CommitError, Committing, Delivery, Fork, InvocationId, Item, Session};
use crate::support::background::{MustFinish, finish, off_this_thread};
use crate::support::future::drop_contained;
use crate::support::holding;
use crate::tool::footprint::Footprint;

pub use crate::filesystem::{LeftAlone, UndoForce};
pub use crate::session::{KeptEffect, UndoReach, Undone};
pub use error::{RestoreFailedError, TransactionError};
pub use manual::{ScopedTransaction, transaction};
pub use nested::Nested;
pub use restore::{RestoreOutcome, create_snapshot, restore_snapshot};
pub use snapshot::{CompositeError, CompositeSnapshot, ResourcePart, SnapshotId, SnapshotPhase};
pub use tracker::{PendingCall, PendingToolTracker, Standing, ToolEnd, TrackerError};
pub use turn::InsideCall;
pub use undo::{UndoError, UndoRequest, undo};
pub use views::Views;
pub use work::AccessError;

pub(crate) use aborted::Aborted;
use nested::Levels;
pub(crate) use turn::{NoTurn, Turn, take_turn, take_turn_of_call, try_turn_of_call};
pub(crate) use work::Work;

/// A transaction in progress. Dropping it rolls it back: nothing it does arrives any more, what it built is closed
/// in the background, and the next transaction of the session waits for that.
///
/// ```
/// # use wink::resource::ResourceRegistry;
/// # use wink::session::{Session, SliceType};
/// # use wink::transaction::Transaction;
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Note(String);
/// # impl SliceType for Note { const NAME: &'static str = "note"; }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let session = Session::new();
/// # let resources = ResourceRegistry::default().open().await?;
/// let tx = Transaction::begin(&session, &resources, "notes").await;
/// let _ = tx.session().dispatch(Note("kept with everything else, or not at all".into()))?;
/// tx.commit().await?;
/// assert_eq!(session.slice::<Note>().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "dropping a transaction rolls it back"]
pub struct Transaction {
    /// Present until the transaction ends.
    parts: Option<Parts>,
    /// The success to count, if it is a call's.
    success: Option<(Arc<str>, Timestamp)>,
    views: Views,
    tag: Arc<str>,
    /// The workspace's write turn, until everything is kept or forgotten.
    write_turn: Vec<WriteTurn>,
}

struct Parts {
    scope: CallScope,
    turn: Option<Turn>,
    /// The nested transactions that have not ended, innermost last. Behind a lock, since a leaked one is rolled back by the
    /// next use of the transaction around it, which may be a shared one.
    levels: Mutex<Levels>,
}

/// A transaction whose resources are merged, before the session's word.
struct Merged {
    fork: Fork,
    rest: MergedRest,
}

struct MergedRest {
    scope: CallScope,
    turn: Option<Turn>,
    undo: MergeUndo,
    events: Vec<Item>,
}

/// A transaction that is committed, and of which subscribers have not heard yet.
struct Settled {
    closing: Option<ResourceClosing>,
    turn: Option<Turn>,
    events: Vec<Item>,
}

impl Merged {
    fn split(self) -> (Fork, MergedRest) {
        (self.fork, self.rest)
    }
}

impl Transaction {
    /// Begins a transaction when nobody else has one on this session. Beginning a second one before the first has
    /// ended therefore waits; [`Transaction::nested`] is for a transaction inside another. Begun from inside a call of
    /// the same session, which would wait for itself, it has failed before it began: everything it is asked says so.
    pub async fn begin(session: &Session, resources: &ResourceContext, tag: impl Into<Arc<str>>) -> Self {
        let scope = resources.tool_scope();
        match take_turn(session).await {
            Ok(turn) => Self::begin_on(session, scope, Some(turn), None, tag.into(), None),
            Err(why) => Self::refused(session, &scope, tag.into(), why),
        }
    }

    /// Begins the transaction of a call that is run outside an executor.
    pub(crate) async fn begin_call(
        session: &Session,
        resources: &ResourceContext,
        call: (Arc<str>, InvocationId),
    ) -> Self {
        let scope = resources.tool_scope();
        match take_turn(session).await {
            Ok(turn) => Self::begin_on(session, scope, Some(turn), None, Arc::clone(&call.0), Some(call)),
            Err(why) => Self::refused(session, &scope, call.0, why),
        }
    }

    /// A transaction that never began: everything it is asked says why.
    fn refused(session: &Session, scope: &CallScope, tag: Arc<str>, why: NoTurn) -> Self {
        let work = Work::refused(session.clone(), scope.handle(), why);
        Self { parts: None, success: None, views: Views::new(Arc::new(work)), tag, write_turn: Vec::new() }
    }

    /// Begins a transaction whose turn was taken before, or that needs none.
    pub(crate) fn begin_on(
        session: &Session,
        scope: CallScope,
        turn: Option<Turn>,
        footprint: Option<Footprint>,
        tag: Arc<str>,
        call: Option<(Arc<str>, InvocationId)>,
    ) -> Self {
        let (tool, invocation) = call.unzip();
        if let Some(named) = footprint.as_ref().and_then(Footprint::named_resources) {
            scope.handle().only_named(named);
        }
        let work = Work::new(session.clone(), scope.handle(), footprint, tool, invocation);
        let parts = Parts { scope, turn, levels: Mutex::default() };
        let views = Views::new(Arc::new(work));
        Self { parts: Some(parts), success: None, views, tag, write_turn: Vec::new() }
    }

    /// What the transaction is called, in diagnostics.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Holds the write turn of the workspace until the end.
    pub(crate) fn hold(&mut self, turn: WriteTurn) {
        self.write_turn.push(turn);
    }

    /// Counts as a success of the tool if it is committed.
    pub(crate) fn succeeds(&mut self, tool: Arc<str>, at: Timestamp) {
        self.success = Some((tool, at));
    }

    pub(crate) fn work(&self) -> &Arc<Work> {
        self.views.work()
    }

    /// Begins a transaction inside this one, which rolls back to here and commits into this one.
    pub fn nested(&mut self, tag: impl Into<Arc<str>>) -> Nested<'_> {
        Nested::open(self, 0, tag.into())
    }

    /// Keeps everything, together. Once it is on its way it is finished, even if nobody waits for it any more.
    ///
    /// # Errors
    /// When the session or a resource was changed by somebody else in a way that contradicts this, or the store
    /// failed. Then everything is taken back.
    pub async fn commit(self) -> Result<(), TransactionError> {
        if let Some(why) = self.work().refusal() {
            return Err(why.into());
        }
        let committing = MustFinish::new(async move {
            match self.commit_with(Closing::default()).await {
                Ok(()) => Ok(()),
                Err((error, aborted)) => Err(match aborted.close(Closing::default()).await {
                    Ok(()) => error,
                    Err(log) if matches!(error, TransactionError::Restore(_)) => {
                        tracing::error!(error = %log, "the LOG part of a failed commit was not stored");
                        error
                    }
                    Err(log) => TransactionError::NotRecorded { cause: error.to_string(), error: log },
                }),
            }
        });
        committing.await
    }

    /// Forgets everything but LOG events.
    ///
    /// # Errors
    /// When the store does not take the LOG events; everything else is forgotten nevertheless.
    pub async fn rollback(self) -> Result<(), TransactionError> {
        let closing = MustFinish::new(async move { self.abort().close(Closing::default()).await });
        Ok(closing.await?)
    }

    /// Keeps everything, with what the call leaves behind. On failure everything is taken back, and the call's end
    /// is still to be recorded.
    pub(crate) async fn commit_with(mut self, closing: Closing) -> Result<(), (TransactionError, Aborted)> {
        let session = self.work().session.clone();
        let committing = session.committing().await;
        // In this order: the session, the workspace, this process's other calls.
        let turns = match &self.parts {
            Some(parts) => parts.scope.write_turns().await,
            None => Ok(Vec::new()),
        };
        match turns {
            Ok(turns) => self.write_turn.extend(turns),
            Err(error) => return Err((not_merged(error), self.abort())),
        }
        let merging = match &self.parts {
            Some(parts) => parts.scope.merging().await,
            None => None,
        };
        let on_disk = self.parts.as_ref().is_some_and(|parts| parts.scope.blocks());
        let merged = match on_disk {
            false => self.merge(),
            true => {
                let merging = move || (self.merge(), self);
                let (merged, back) = off_this_thread(merging).await;
                self = back;
                merged
            }
        };
        let Some(merged) = merged? else { return Ok(()) };
        let log = merged.fork.log_only();
        let (mut fork, rest) = merged.split();
        let on_disk = rest.undo.blocks();
        let mut closing = closing;
        if on_disk {
            fork.versions_became(rest.undo.versions());
            closing.journals = rest.undo.journals();
        }
        let committed = session.commit(&committing, fork, closing).await;
        let settled = match on_disk {
            false => self.settle(rest, committed, log),
            true => {
                let settling = move || (self.settle(rest, committed, log), self);
                let (settled, back) = off_this_thread(settling).await;
                self = back;
                settled
            }
        };
        drop((merging, committing));
        if let Some(closing) = self.tell(settled?) {
            report_closing(closing.run().await);
        }
        Ok(())
    }

    /// [`Transaction::commit_with`] for a call that leaves nothing to be stored, when nobody else has to go first.
    /// Gives itself back when it has to wait after all.
    pub(crate) fn commit_now(
        mut self,
        event: Item,
    ) -> Result<Result<(), (TransactionError, Aborted)>, (Self, Item)> {
        let session = self.work().session.clone();
        let Some(committing) = session.try_committing() else { return Err((self, event)) };
        if let Some(parts) = self.parts.take_if(|parts| parts.scope.seal_unused()) {
            let settled = self.commit_session(parts, &session, &committing, event);
            drop(committing);
            return Ok(settled.map(|settled| drop(self.tell(settled))));
        }
        let merging = match self.parts.as_ref().map(|parts| parts.scope.try_merging()) {
            Some(Ok(merging)) => merging,
            Some(Err(MustWait)) => return Err((self, event)),
            None => None,
        };
        let merged = match self.merge() {
            Ok(Some(merged)) => merged,
            Ok(None) => return Ok(Ok(())),
            Err(failed) => return Ok(Err(failed)),
        };
        let (fork, rest) = merged.split();
        // Nothing but a conflict can stop it now, and then what was dispatched to LOG slices is still there.
        let (committed, log) = match session.commit_unstored(&committing, fork, Some(event)) {
            Ok(()) => (Ok(()), Fork::default()),
            Err((conflict, fork)) => (Err(conflict.into()), fork.log_only()),
        };
        let settled = self.settle(rest, committed, log);
        drop((merging, committing));
        Ok(settled.map(|settled| {
            if let Some(closing) = self.tell(settled) {
                finish(async move { report_closing(closing.run().await) });
            }
        }))
    }

    /// Commits a call that used no resource.
    fn commit_session(
        &mut self,
        Parts { scope, turn, .. }: Parts,
        session: &Session,
        committing: &Committing<'_>,
        event: Item,
    ) -> Result<Settled, (TransactionError, Aborted)> {
        let fork = match self.work().close_whole() {
            Ok(fork) => Fork { success: self.success.take(), ..fork },
            Err(steps) => {
                return Err((TransactionError::Unfinished, self.aborted(Fork::of_steps(steps), scope, turn)));
            }
        };
        let events = match fork.steps.is_empty() {
            true => Vec::new(),
            false => session.events_of(&fork, true),
        };
        match session.commit_unstored(committing, fork, Some(event)) {
            Ok(()) => {
                scope.end_unused();
                Ok(Settled { closing: None, turn, events })
            }
            Err((conflict, fork)) => {
                Err((CommitError::from(conflict).into(), self.aborted(fork.log_only(), scope, turn)))
            }
        }
    }

    /// Closes the gate and merges the resources; none for a transaction that has ended.
    fn merge(&mut self) -> Result<Option<Merged>, (TransactionError, Aborted)> {
        self.close_levels_beyond(0);
        let closed = self.work().close_whole();
        let Some(Parts { scope, turn, .. }) = self.parts.take() else { return Ok(None) };
        let fork = match closed {
            Ok(fork) => Fork { success: self.success.take(), ..fork },
            Err(steps) => {
                return Err((TransactionError::Unfinished, self.aborted(Fork::of_steps(steps), scope, turn)));
            }
        };
        if !self.work().has_read_all() {
            return Err((TransactionError::LogUnread, self.aborted(fork, scope, turn)));
        }
        match scope.merge() {
            Ok(undo) => {
                let events = self.work().session.events_of(&fork, true);
                Ok(Some(Merged { fork, rest: MergedRest { scope, turn, undo, events } }))
            }
            Err(error) => Err((not_merged(error), self.aborted(fork, scope, turn))),
        }
    }

    /// What follows the session's word: everything stays, or everything is taken back.
    fn settle(
        &self,
        merged: MergedRest,
        committed: Result<(), CommitError>,
        log: Fork,
    ) -> Result<Settled, (TransactionError, Aborted)> {
        let MergedRest { scope, turn, undo, events } = merged;
        match committed {
            Ok(()) => {
                let closing = scope.end(CallEnd::Committed(undo));
                drop_contained(log);
                Ok(Settled { closing, turn, events })
            }
            Err(error) => {
                let error = match undo.undo() {
                    Ok(()) => error.into(),
                    Err(errors) => {
                        RestoreFailedError { reason: format!("{errors}; the commit had failed: {error}") }
                            .into()
                    }
                };
                Err((error, self.aborted(log, scope, turn)))
            }
        }
    }

    /// Tells subscribers what was dispatched in the transaction, and gives the turn back. What they do may need what a
    /// commit needs, so it is over by now.
    fn tell(&self, Settled { closing, turn, events }: Settled) -> Option<ResourceClosing> {
        if !events.is_empty() {
            match &turn {
                Some(_) => holding::inside(self.work().session.turn_key(), || deliver(self.work(), &events)),
                None => deliver(self.work(), &events),
            }
        }
        drop(turn);
        closing
    }

    fn aborted(&self, fork: Fork, scope: CallScope, turn: Option<Turn>) -> Aborted {
        Aborted {
            session: self.work().session.clone(),
            fork,
            scope: Some(scope),
            work: Some(Arc::clone(self.work())),
            turn,
        }
    }

    /// Closes the gate and forgets the forks. The end is still to be recorded.
    pub(crate) fn abort(mut self) -> Aborted {
        self.abort_parts()
    }

    fn abort_parts(&mut self) -> Aborted {
        self.close_levels_beyond(0);
        let work = Arc::clone(self.work());
        let (session, fork) = (work.session.clone(), work.close());
        let (scope, turn) = self.parts.take().map(|parts| (parts.scope, parts.turn)).unzip();
        Aborted { session, fork, scope, work: Some(work), turn: turn.flatten() }
    }
}

/// What is done in it goes through its [`Views`]. A nested transaction whose guard was leaked is rolled back first: rolled
/// back later it would take along what is done now.
impl Deref for Transaction {
    type Target = Views;

    fn deref(&self) -> &Views {
        self.close_levels_beyond(0);
        &self.views
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.parts.is_some() {
            // The forks are forgotten here and now; the turn goes along with what is left to do.
            let aborted = self.abort_parts();
            finish(async move {
                if let Err(error) = aborted.close(Closing::default()).await {
                    tracing::error!(%error, "the LOG part of a dropped transaction was not stored");
                }
            });
        }
    }
}

/// A merge that failed has been taken back; if that failed too, it is another kind of error.
fn not_merged(error: ResourceError) -> TransactionError {
    match error.is_restore_failure() {
        true => RestoreFailedError { reason: error.to_string() }.into(),
        false => error.into(),
    }
}

async fn finish_scope(scope: CallScope, end: CallEnd) {
    report_closing(scope.finish(end).await);
}

fn report_closing(failures: Vec<ResourceError>) {
    for error in failures {
        tracing::warn!(%error, "a resource of the call could not be closed");
    }
}

fn deliver(work: &Work, events: &[Item]) {
    for event in events {
        report(work.session.dispatcher().deliver_from(&**event, || Cow::Owned(work.source())));
    }
}

fn report(delivery: Delivery) {
    for reason in delivery.failures {
        tracing::warn!(reason, "a subscriber failed on an event that stands");
    }
}
