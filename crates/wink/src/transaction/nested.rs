//! Transactions inside a transaction: each rolls back to its own start.
//!
//! What they need to come back is kept by the outermost transaction. A guard borrows the transaction around it, so a use of
//! that one while a nested one is open means that its guard was leaked: the nested one is rolled back before anything else
//! is done, and never half kept.

use std::ops::Deref;
use std::sync::Arc;

use super::views::Views;
use super::{Transaction, TransactionError, finish_scope, not_merged};
use crate::resource::{CallEnd, CallScope};
use crate::session::Mark;
use crate::support::background::finish;
use crate::support::lock::lock;

/// The nested transactions that have not ended, innermost last.
pub(super) type Levels = Vec<Level>;

pub(super) struct Level {
    /// Where the session's fork was. Absent if the fork was gone already.
    mark: Option<Mark>,
    scope: CallScope,
}

/// A transaction inside another. Dropping it rolls it back; the outer one goes on either way.
#[must_use = "dropping a nested transaction rolls it back"]
pub struct Nested<'a> {
    outer: &'a mut Transaction,
    /// How many are open with this one.
    depth: usize,
    views: Views,
    tag: Arc<str>,
}

impl<'a> Nested<'a> {
    /// Opens one inside the level `depth`; 0 is the transaction itself.
    pub(super) fn open(outer: &'a mut Transaction, depth: usize, tag: Arc<str>) -> Self {
        let views = outer.open_level(depth);
        Self { outer, depth: depth + 1, views, tag }
    }

    /// What the transaction is called, in diagnostics.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Begins a transaction inside this one.
    pub fn nested(&mut self, tag: impl Into<Arc<str>>) -> Nested<'_> {
        Nested::open(self.outer, self.depth, tag.into())
    }

    /// Makes what was done part of the outer transaction, whose end decides about it.
    ///
    /// # Errors
    /// When a resource cannot be merged into the outer transaction's. Then all of this one is taken back.
    pub async fn commit(self) -> Result<(), TransactionError> {
        self.outer.commit_level(self.depth).await
    }

    /// Forgets what was done since the begin, but for LOG events.
    pub async fn rollback(self) {
        self.outer.roll_back_level(self.depth).await;
    }
}

/// What is done in it goes through its [`Views`].
impl Deref for Nested<'_> {
    type Target = Views;

    fn deref(&self) -> &Views {
        self.outer.close_levels_beyond(self.depth);
        &self.views
    }
}

impl Drop for Nested<'_> {
    fn drop(&mut self) {
        self.outer.close_levels_beyond(self.depth - 1);
    }
}

impl Transaction {
    /// Opens a level inside the level `depth`, and gives its views.
    pub(super) fn open_level(&self, depth: usize) -> Views {
        self.close_levels_beyond(depth);
        let work = Arc::clone(self.work());
        // Without parts the transaction has ended, and every view of it says so.
        let resources = self.parts.as_ref().map(|parts| {
            let mut levels = lock(&parts.levels);
            let scope = levels.last().map_or(&parts.scope, |level| &level.scope).tool_scope();
            let resources = scope.handle();
            levels.push(Level { mark: work.mark().ok(), scope });
            resources
        });
        Views::inside(work, resources)
    }

    /// Rolls back the levels inside the level `depth`, innermost first.
    pub(super) fn close_levels_beyond(&self, depth: usize) {
        while let Some(scope) = self.forget_beyond(depth) {
            finish(finish_scope(scope, CallEnd::RolledBack));
        }
    }

    pub(super) async fn roll_back_level(&mut self, depth: usize) {
        self.close_levels_beyond(depth);
        if let Some(scope) = self.forget_beyond(depth - 1) {
            finish_scope(scope, CallEnd::RolledBack).await;
        }
    }

    pub(super) async fn commit_level(&mut self, depth: usize) -> Result<(), TransactionError> {
        self.close_levels_beyond(depth);
        let level = self.parts.as_ref().and_then(|parts| pop_beyond(&mut lock(&parts.levels), depth - 1));
        let Some(Level { mark, scope }) = level else { return Ok(()) };
        match scope.merge() {
            Ok(merged) => {
                finish_scope(scope, CallEnd::Committed(merged)).await;
                Ok(())
            }
            Err(error) => {
                self.roll_back_to(mark);
                finish_scope(scope, CallEnd::RolledBack).await;
                Err(not_merged(error))
            }
        }
    }

    /// Takes back what the innermost level did to the session; its resources are still to be closed. Under the lock: what
    /// another thread does in the transaction around it comes after.
    fn forget_beyond(&self, depth: usize) -> Option<CallScope> {
        let mut levels = lock(&self.parts.as_ref()?.levels);
        let Level { mark, scope } = pop_beyond(&mut levels, depth)?;
        self.roll_back_to(mark);
        Some(scope)
    }

    fn roll_back_to(&self, mark: Option<Mark>) {
        if let Some(mark) = mark {
            // A fork that is gone has nothing to take back.
            let _ = self.work().roll_back_to(mark);
        }
    }
}

fn pop_beyond(levels: &mut Levels, depth: usize) -> Option<Level> {
    if levels.len() > depth { levels.pop() } else { None }
}
