//! Calls whose tools somebody else runs: a harness says when each begins and ends.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use super::views::Views;
use super::{Transaction, TransactionError};
use crate::resource::ResourceContext;
use crate::session::Session;
use crate::support::lock::lock;

/// Transactions for a harness that runs its own tools.
///
/// Calls may overlap: each works on its own forks of session and resources, through its [`PendingCall`], and undoes
/// only its own changes. Two that changed the same thing conflict when the second ends, and then nothing of that
/// one remains. Dropping the tracker rolls back every call that has not ended.
pub struct PendingToolTracker {
    session: Session,
    resources: ResourceContext,
    pending: Mutex<HashMap<String, Transaction>>,
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
        pending.insert(id, tx);
        Ok(())
    }

    /// The call, to work with; nothing if none of this id is pending.
    pub fn call(&self, id: &str) -> Option<PendingCall> {
        let pending = lock(&self.pending);
        Some(PendingCall { views: Views::new(Arc::clone(pending.get(id)?.work())) })
    }

    /// The ids of the calls that have not ended, sorted.
    pub fn pending(&self) -> Vec<String> {
        let mut ids: Vec<String> = lock(&self.pending).keys().cloned().collect();
        ids.sort_unstable();
        ids
    }

    /// Ends a call. False, and nothing happens, if none of this id is pending. A success counts in the session's
    /// index of calls.
    ///
    /// # Errors
    /// When the call cannot be kept: then all of it is taken back. When it is taken back and the store does not
    /// take its LOG events.
    pub async fn end(&self, id: &str, end: ToolEnd) -> Result<bool, TransactionError> {
        let Some(mut tx) = self.take(id) else { return Ok(false) };
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
        self.end(id, ToolEnd::Failed).await
    }

    fn take(&self, id: &str) -> Option<Transaction> {
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
