//! Calls whose tools somebody else runs: a harness says when each begins and ends.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::oneshot;

use super::views::Views;
use super::{Transaction, TransactionError, Work};
use crate::resource::ResourceContext;
use crate::session::Session;
use crate::support::lock::lock;
use crate::tool::ToolContext;

/// Transactions for a harness that runs its own tools.
///
/// Calls may overlap: each works on its own forks of session and resources, through its [`PendingCall`], and undoes
/// only its own changes. Two that changed the same thing conflict when the second ends, and then nothing of that
/// one remains. Dropping the tracker rolls back every call that has not ended.
///
/// A call that is only [begun](PendingToolTracker::begin) here is a transaction and nothing more: no policy is asked, and no event is
/// left. A harness that wants all that a call has gives it to an executor, as a call of a tool whose handler
/// [stands](PendingToolTracker::stand) for the harness.
pub struct PendingToolTracker {
    session: Session,
    resources: ResourceContext,
    pending: Mutex<HashMap<String, Pending>>,
}

enum Pending {
    /// It is kept or taken back here.
    Tracked(Transaction),
    /// By an executor, whose handler waits for this.
    Executed(Arc<Work>, oneshot::Sender<(ToolEnd, Value)>),
}

/// A handler that stands for somebody else. Dropping it says that the call is not pending any more.
#[must_use = "whoever stands for a call waits for its end"]
pub struct Standing<'a> {
    tracker: &'a PendingToolTracker,
    id: Arc<str>,
    end: oneshot::Receiver<(ToolEnd, Value)>,
}

impl Standing<'_> {
    /// Waits for the end: how it was, and what was said of it. Nothing if the call was [aborted](PendingToolTracker::abort), or the
    /// tracker is gone: then nobody knows how far it got, and the handler has to fail.
    pub async fn ended(mut self) -> Option<(ToolEnd, Value)> {
        (&mut self.end).await.ok()
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.end.close();
        let mut pending = lock(&self.tracker.pending);
        // One that was told its end may be followed by another of the same id.
        if matches!(pending.get(&*self.id), Some(Pending::Executed(_, ends)) if ends.is_closed()) {
            pending.remove(&*self.id);
        }
    }
}

/// How a tracked call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolEnd {
    /// What it did is kept.
    Succeeded,
    /// What it did is taken back.
    Failed,
}

/// A call cannot be tracked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrackerError {
    /// A call with this id is pending.
    #[error("call {id:?} has begun already; end it first, or begin with another id")]
    Pending {
        /// The id.
        id: String,
    },
}

/// A tracked call, to work with. Everything fails once the call has ended.
pub struct PendingCall {
    views: Views,
}

impl PendingToolTracker {
    /// A tracker of calls on this session and these resources.
    pub fn new(session: Session, resources: ResourceContext) -> Self {
        Self { session, resources, pending: Mutex::default() }
    }

    /// Begins a call.
    ///
    /// # Errors
    /// When a call with this id has not ended; it goes on undisturbed.
    pub async fn begin(&self, id: impl Into<String>, tool: impl Into<Arc<str>>) -> Result<(), TrackerError> {
        let (id, tool) = (id.into(), tool.into());
        let invocation = self.session.fresh_id(self.session.clock().now());
        // Calls overlap, so none has the session's turn.
        let call = Some((Arc::clone(&tool), invocation));
        let tx = Transaction::begin_on(&self.session, self.resources.tool_scope(), None, None, tool, call);
        let mut pending = lock(&self.pending);
        if pending.contains_key(&id) {
            drop(pending);
            return Err(TrackerError::Pending { id });
        }
        pending.insert(id, Pending::Tracked(tx));
        Ok(())
    }

    /// Tracks the call of this context, under its call id: the executor has looked it up, policies have allowed it, and its
    /// transaction has begun. The handler then waits until the harness says how the call [ended](PendingToolTracker::report), and
    /// answers accordingly; the executor does the rest, with the one event.
    ///
    /// # Errors
    /// When a call with this id has not ended; it goes on undisturbed.
    pub fn stand(&self, cx: &ToolContext) -> Result<Standing<'_>, TrackerError> {
        let id = Arc::clone(&cx.invocation().call_id);
        let (ends, end) = oneshot::channel();
        let mut pending = lock(&self.pending);
        if pending.contains_key(&*id) {
            return Err(TrackerError::Pending { id: id.to_string() });
        }
        pending.insert(id.to_string(), Pending::Executed(Arc::clone(cx.work()), ends));
        drop(pending);
        Ok(Standing { tracker: self, id, end })
    }

    /// The call, to work with; nothing if none of this id is pending.
    pub fn call(&self, id: &str) -> Option<PendingCall> {
        let pending = lock(&self.pending);
        let work = match pending.get(id)? {
            Pending::Tracked(tx) => tx.work(),
            Pending::Executed(work, _) => work,
        };
        Some(PendingCall { views: Views::new(Arc::clone(work)) })
    }

    /// The ids of the calls that have not ended, sorted.
    pub fn pending(&self) -> Vec<String> {
        let mut ids: Vec<String> = lock(&self.pending).keys().cloned().collect();
        ids.sort_unstable();
        ids
    }

    /// Says how a call ended that a handler [stands](PendingToolTracker::stand) for, and what is to be said of it: the executor answers
    /// when it has kept the call, or taken it back. False, and nothing happens, if there is no such call.
    pub fn report(&self, id: &str, end: ToolEnd, said: Value) -> bool {
        let mut pending = lock(&self.pending);
        if !matches!(pending.get(id), Some(Pending::Executed(..))) {
            return false;
        }
        let Some(Pending::Executed(_, ends)) = pending.remove(id) else { return false };
        drop(pending);
        // A handler that is being dropped does not hear it.
        ends.send((end, said)).is_ok()
    }

    /// Ends a call. False, and nothing happens, if none of this id is pending. A success counts in the session's
    /// index of calls. One that a handler stands for is ended by its executor, which says what came of it.
    ///
    /// # Errors
    /// When the call cannot be kept: then all of it is taken back. When it is taken back and the store does not
    /// take its LOG events.
    pub async fn end(&self, id: &str, end: ToolEnd) -> Result<bool, TransactionError> {
        let mut tx = match self.take(id) {
            None => return Ok(false),
            Some(Pending::Executed(_, ends)) => return Ok(ends.send((end, Value::Null)).is_ok()),
            Some(Pending::Tracked(tx)) => tx,
        };
        match end {
            ToolEnd::Failed => tx.rollback().await?,
            ToolEnd::Succeeded => {
                let now = self.session.clock().now();
                let tool: Arc<str> = tx.tag().into();
                // Refused only if an operation panicked; the commit then says so.
                tx.succeeds(tool, now);
                tx.commit().await?;
            }
        }
        Ok(true)
    }

    /// Takes back what a call did, whatever it says of itself. False if none of this id is pending.
    ///
    /// # Errors
    /// When the store does not take its LOG events.
    pub async fn abort(&self, id: &str) -> Result<bool, TransactionError> {
        match self.take(id) {
            None => return Ok(false),
            // Its handler hears that nobody says anything any more.
            Some(Pending::Executed(_, ends)) => drop(ends),
            Some(Pending::Tracked(tx)) => tx.rollback().await?,
        }
        Ok(true)
    }

    fn take(&self, id: &str) -> Option<Pending> {
        lock(&self.pending).remove(id)
    }
}

/// What is done in it goes through its [`Views`].
impl Deref for PendingCall {
    type Target = Views;

    fn deref(&self) -> &Views {
        &self.views
    }
}
