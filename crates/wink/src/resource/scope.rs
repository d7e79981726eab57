//! One tool call's view of the resources: its own instances, its own copies of the snapshotable ones, and how
//! all of that ends.

use std::any::TypeId;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::core::Core;
use super::error::ResourceError;
use super::merge::{CallEnd, MergeUndo, merge_all};
use super::resolve::{Access, View};
use super::scope_inner::{ScopeInner, Verdict};
use super::slot::Closing;
use crate::filesystem::{Resolutions, WriteTurn};
use crate::support::future::drop_contained;

/// The resources of one tool call, held by whoever runs the call.
///
/// The call itself works with [`CallScope::handle`], which this is too. At the end: [`CallScope::merge`], then whatever else commits,
/// then [`CallScope::finish`]. Dropping it instead rolls back; what then remains to be closed is left to
/// [`ResourceContext::drain`](super::ResourceContext::drain).
#[must_use = "dropping a scope rolls it back"]
pub struct CallScope {
    handle: CallResources,
    /// Whether [`CallScope::finish`] has been called: then nothing is left to do when this is dropped.
    finished: bool,
}

/// What a call gets its resources from; it fails once the call is over. Cloning it is cheap.
#[derive(Clone)]
pub struct CallResources {
    inner: Arc<ScopeInner>,
}

impl CallScope {
    pub(super) fn new(core: &Arc<Core>, parent: Option<&Arc<ScopeInner>>) -> Self {
        let inner = ScopeInner::new(core, parent);
        Self { handle: CallResources { inner: Arc::new(inner) }, finished: false }
    }

    /// What the call gets its resources from.
    #[must_use]
    pub fn handle(&self) -> CallResources {
        self.handle.clone()
    }

    /// A resource itself, not the call's copy of it.
    pub(super) async fn original<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, ResourceError> {
        View { access: Access::Original, ..self.inner.view() }.get().await
    }

    /// A scope inside this one: it has its own instances, and its copies are copies of this scope's. Merging it
    /// merges into this scope only. It is closed before this one, at the latest.
    pub fn tool_scope(&self) -> Self {
        let nested = Self::new(&self.inner.core, Some(&self.inner));
        self.inner.adopt(&nested.inner);
        nested
    }

    /// Copies of the workspace that are made from now on lead where policies saw them lead.
    pub(super) fn hold_to(&self, seen: Arc<Resolutions>) {
        self.inner.hold_to(seen);
    }

    /// Waits until no other call of this context is between its merge and its end. Nothing to wait for when this
    /// one has no copies.
    pub(crate) async fn merging(&self) -> Option<tokio::sync::OwnedMutexGuard<()>> {
        if !self.inner.must_merge() {
            return None;
        }
        Some(Arc::clone(&self.inner.core.merging).lock_owned().await)
    }

    /// [`CallScope::merging`] without waiting.
    pub(crate) fn try_merging(&self) -> Result<Option<tokio::sync::OwnedMutexGuard<()>>, MustWait> {
        if !self.inner.must_merge() {
            return Ok(None);
        }
        if self.blocks() {
            return Err(MustWait);
        }
        Arc::clone(&self.inner.core.merging).try_lock_owned().map(Some).map_err(|_| MustWait)
    }

    /// Whether merging waits for a disk.
    pub(crate) fn blocks(&self) -> bool {
        self.inner.blocks()
    }

    /// Waits for the turns to merge what waits for a disk. Before [`CallScope::merging`], which another call may hold while it
    /// waits for the very turn that this one has.
    pub(crate) async fn write_turns(&self) -> Result<Vec<WriteTurn>, ResourceError> {
        let mut turns = Vec::new();
        for waiting in self.inner.write_turns() {
            turns.extend(waiting.await?);
        }
        Ok(turns)
    }

    /// Ends the call's access, and brings what it did to its copies into the originals, in order of first use.
    ///
    /// Two calls must not merge at the same time, or between one's merge and its end: whoever runs the calls
    /// sees to that, as for all other state.
    ///
    /// # Errors
    /// When one cannot be merged. Those before it are put back; [`ResourceError::is_restore_failure`] when even
    /// that failed.
    pub fn merge(&self) -> Result<MergeUndo, ResourceError> {
        let only_looks = self.inner.only_looks();
        let forks = self.inner.seal();
        let merged = merge_all(forks.iter().map(|fork| match only_looks {
            true => fork.copy.unchanged().map(|()| None),
            false => fork.copy.merge(),
        }));
        if !forks.is_empty() {
            drop_contained(forks);
        }
        merged
    }

    /// Ends the call, and then closes its instances in reverse order of construction. Singletons that were built
    /// inside it stay if it committed, and go if no other call uses them.
    ///
    /// The end holds as soon as this returns; the future only closes. It hands back the failures of closing, none
    /// of which stops the rest; given up, it leaves what remains to [`ResourceContext::drain`].
    ///
    /// [`ResourceContext::drain`]: super::ResourceContext::drain
    pub fn finish(self, end: CallEnd) -> impl Future<Output = Vec<ResourceError>> + Send + use<> {
        let closing = self.end(end);
        async move {
            match closing {
                Some(closing) => closing.run().await,
                None => Vec::new(),
            }
        }
    }

    /// Ends all access if nothing was used so far; false if something was.
    pub(crate) fn seal_unused(&self) -> bool {
        self.inner.seal_unused()
    }

    /// The end of a call that [`CallScope::seal_unused`].
    pub(crate) fn end_unused(mut self) {
        self.finished = true;
    }

    /// [`CallScope::finish`], for a call that most likely has nothing to close.
    pub(crate) fn end(mut self, end: CallEnd) -> Option<Closing> {
        let verdict = match end {
            CallEnd::Committed(merged) => {
                merged.keep();
                Verdict::Keep
            }
            CallEnd::RolledBack => Verdict::Forget,
        };
        let mut closing = Vec::new();
        self.inner.end(verdict, &mut closing);
        self.finished = true;
        Closing::some(&self.inner.core, closing)
    }
}

/// Somebody else has to go first.
#[derive(Debug)]
pub(crate) struct MustWait;

impl Drop for CallScope {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut closing = Vec::new();
        self.inner.end(Verdict::Forget, &mut closing);
        self.inner.core.orphan(closing);
    }
}

/// Whoever runs the call gets resources as the call does.
impl Deref for CallScope {
    type Target = CallResources;

    fn deref(&self) -> &CallResources {
        &self.handle
    }
}

impl fmt::Debug for CallScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallScope").field("over", &self.inner.is_over()).finish_non_exhaustive()
    }
}

impl CallResources {
    /// The resource of type `T`: the call's own instance, or copy, where it has one; built if need be.
    ///
    /// # Errors
    /// When it is not bound, cannot be built or copied, or the call is over.
    pub async fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, ResourceError> {
        self.inner.view().get().await
    }

    /// As [`CallResources::get`]; nothing when `T` is not bound.
    ///
    /// # Errors
    /// As [`CallResources::get`].
    pub async fn get_optional<T: ?Sized + Send + Sync + 'static>(
        &self,
    ) -> Result<Option<Arc<T>>, ResourceError> {
        self.inner.view().get_optional().await
    }

    /// The resource if it can be had without waiting: made outside, or built before.
    ///
    /// # Errors
    /// As [`CallResources::get`].
    pub fn ready<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Option<Arc<T>>, ResourceError> {
        self.inner.view().ready()
    }

    /// What is built for the call gets copies of these resources only: what a call-scoped resource does through them
    /// is done by the call.
    pub(crate) fn only_named(&self, named: Vec<TypeId>) {
        self.inner.only_named(named);
    }

    /// From now on the call may only look: what it gets cannot be changed, and what it changes nevertheless is not
    /// kept but an error at its end.
    pub(crate) fn only_look(&self) {
        self.inner.only_look();
    }
}

impl fmt::Debug for CallResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallResources").field("over", &self.inner.is_over()).finish_non_exhaustive()
    }
}
