//! One tool call's view of the resources: its own instances, its own copies of the snapshotable ones, and how
//! all of that ends.

use std::any::TypeId;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::binding::{AnyBinding, Erased};
use super::core::{self, Core, Found};
use super::error::ResourceError;
use super::merge::{CallEnd, MergeUndo, merge_all};
use super::resolve::{Access, View};
use super::slot::{Closing, Flight, Instance, Made, Ready, Serial, Slot, in_order};
use super::snapshot::{ErasedFork, ErasedSnapshot};
use crate::support::future::drop_contained;
use crate::support::lock::lock;

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
        let inner = ScopeInner {
            core: Arc::clone(core),
            parent: parent.cloned(),
            serial: core.next_serial(),
            over: AtomicBool::new(false),
            only_looks: AtomicBool::new(false),
            named: OnceLock::new(),
            data: Mutex::new(None),
        };
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
        let data = lock(&self.inner.data);
        data.as_ref().is_some_and(|data| data.forks.iter().any(|fork| fork.copy.blocks()))
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
        let data = lock(&self.inner.data);
        let unused = data.is_none();
        if unused {
            self.inner.over.store(true, Ordering::Release);
        }
        unused
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
        // Said once, when the call begins.
        let _ = self.inner.named.set(named.into());
    }

    /// From now on the call may only look: what it gets cannot be changed, and what it changes nevertheless is not
    /// kept but an error at its end.
    pub(crate) fn only_look(&self) {
        self.inner.only_looks.store(true, Ordering::Release);
    }
}

impl fmt::Debug for CallResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallResources").field("over", &self.inner.is_over()).finish_non_exhaustive()
    }
}

/// What becomes of the singletons that a call built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Keep,
    Forget,
}

/// A scope as its handles, resolvers and inner scopes share it. Until something is used, it is one allocation.
pub(super) struct ScopeInner {
    pub(super) core: Arc<Core>,
    pub(super) serial: Serial,
    parent: Option<Arc<ScopeInner>>,
    /// Set under the lock of `data`; whoever changes `data` looks at it there.
    over: AtomicBool,
    only_looks: AtomicBool,
    /// The resources that the call says it uses; everything unless told.
    named: OnceLock<Box<[TypeId]>>,
    data: Mutex<Option<Box<Data>>>,
}

#[derive(Default)]
struct Data {
    slots: Vec<(usize, Slot)>,
    forks: Vec<Fork>,
    loose: Vec<Instance>,
    used: Vec<usize>,
    nested: Vec<Weak<ScopeInner>>,
}

/// A scope's copy of one resource.
struct Fork {
    at: usize,
    /// What it is a copy of. An inner scope that builds a singleton has it copied here on its way; when that scope
    /// is rolled back, the singleton goes, and nobody has seen or changed this copy of it.
    original: Erased,
    copy: Box<dyn ErasedFork>,
}

impl Data {
    fn slot(&mut self, at: usize) -> Option<&mut Slot> {
        self.slots.iter_mut().find_map(|(place, slot)| (*place == at).then_some(slot))
    }
}

impl ScopeInner {
    /// Whether what is built for the call may have a copy of a resource.
    pub(super) fn names(&self, resource: TypeId) -> bool {
        self.named.get().is_none_or(|named| named.contains(&resource))
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(super) fn look(&self, at: usize, binding: &AnyBinding) -> Result<Found, ResourceError> {
        self.with(binding, |data| match data.slot(at) {
            Some(Slot::Ready(ready)) => Found::Value(Arc::clone(&ready.value), Vec::new()),
            Some(Slot::Building(flight)) => Found::Building(flight.clone()),
            Some(Slot::Empty) | None => Found::Empty,
        })
    }

    pub(super) fn claim(
        &self,
        at: usize,
        flight: Flight,
        binding: &AnyBinding,
    ) -> Result<bool, ResourceError> {
        self.with(binding, |data| {
            if data.slot(at).is_none() {
                data.slots.push((at, Slot::Empty));
            }
            core::claim(data.slot(at), flight)
        })
    }

    pub(super) fn vacate(&self, at: usize, build: Serial) {
        if let Some(data) = lock(&self.data).as_mut() {
            core::vacate(data.slot(at), build);
        }
    }

    /// Puts a finished build into its slot; hands it back when the call is over.
    pub(super) fn publish(&self, at: usize, ready: Ready) -> Result<(), Ready> {
        let mut data = lock(&self.data);
        match data.as_mut().and_then(|data| data.slot(at)) {
            Some(slot) if !self.is_over() => {
                *slot = Slot::Ready(ready);
                Ok(())
            }
            _ => Err(ready),
        }
    }

    /// Looks after prototypes of this call; hands them back when it is over.
    pub(super) fn keep(&self, made: Made) -> Result<(), Made> {
        if made.closing.is_empty() {
            return Ok(());
        }
        let mut data = lock(&self.data);
        if self.is_over() {
            return Err(made);
        }
        data.get_or_insert_default().loose.extend(made.closing);
        Ok(())
    }

    /// Notes provisional singletons that this call uses, so that its end decides about them.
    pub(super) fn note_use(&self, used: &[usize], binding: &AnyBinding) -> Result<(), ResourceError> {
        let noted = self.with(binding, |data| data.used.extend_from_slice(used));
        if noted.is_err() {
            self.core.orphan(self.core.release(used, self.serial));
        }
        noted
    }

    /// This call's copy of a resource, made at the first get.
    pub(super) fn fork(
        &self,
        at: usize,
        binding: &AnyBinding,
        operations: &dyn ErasedSnapshot,
        original: Erased,
    ) -> Result<Erased, ResourceError> {
        let original = match &self.parent {
            Some(parent) => parent.fork(at, binding, operations, original)?,
            None => original,
        };
        // A copy of an instance that has since been given up does not count: see `Fork::original`.
        let known = self.with(binding, |data| {
            let fork = data.forks.iter().find(|fork| fork.at == at)?;
            Arc::ptr_eq(&fork.original, &original).then(|| self.shown(fork))
        })?;
        if let Some(value) = known {
            return Ok(value);
        }
        let copy = operations.fork(binding.name(), &original)?;
        let fork = Fork { at, original, copy };
        let value = self.shown(&fork);
        // What is not needed is dropped after the lock is free again: that is foreign code.
        let (value, _unneeded) =
            self.with(binding, |data| match data.forks.iter_mut().find(|known| known.at == at) {
                // Another thread of the same call was quicker: the call has one copy.
                Some(known) if Arc::ptr_eq(&known.original, &fork.original) => {
                    (self.shown(known), Some(fork))
                }
                Some(stale) => (value, Some(std::mem::replace(stale, fork))),
                None => {
                    data.forks.push(fork);
                    (value, None)
                }
            })?;
        Ok(value)
    }

    fn shown(&self, fork: &Fork) -> Erased {
        match self.only_looks() {
            true => fork.copy.to_look_at(),
            false => Arc::clone(fork.copy.value()),
        }
    }

    fn view(self: &Arc<Self>) -> View<'_> {
        View { core: &self.core, scope: Some(self), frame: None, access: Access::Transacted }
    }

    fn with<R>(&self, binding: &AnyBinding, work: impl FnOnce(&mut Data) -> R) -> Result<R, ResourceError> {
        let mut data = lock(&self.data);
        if self.is_over() {
            return Err(ResourceError::CallOver { name: binding.name().clone() });
        }
        Ok(work(data.get_or_insert_default()))
    }

    fn only_looks(&self) -> bool {
        self.only_looks.load(Ordering::Acquire)
    }

    fn must_merge(&self) -> bool {
        !self.only_looks() && lock(&self.data).as_ref().is_some_and(|data| !data.forks.is_empty())
    }

    fn adopt(&self, nested: &Arc<Self>) {
        let mut data = lock(&self.data);
        if self.is_over() {
            nested.over.store(true, Ordering::Release);
            return;
        }
        let known = &mut data.get_or_insert_default().nested;
        known.retain(|scope| scope.strong_count() > 0);
        known.push(Arc::downgrade(nested));
    }

    /// Ends all access, and hands out the copies. What inner scopes have not merged by now is not part of it.
    fn seal(&self) -> Vec<Fork> {
        let (forks, nested) = {
            let mut data = lock(&self.data);
            self.over.store(true, Ordering::Release);
            let Some(data) = data.as_mut() else { return Vec::new() };
            (std::mem::take(&mut data.forks), data.nested.clone())
        };
        for scope in nested.iter().filter_map(Weak::upgrade) {
            drop_contained(scope.seal());
        }
        forks
    }

    /// Ends the scope and those inside it. What is to be closed is added to `closing`, the first to close last.
    fn end(&self, verdict: Verdict, closing: &mut Vec<Instance>) {
        let taken = {
            let mut data = lock(&self.data);
            self.over.store(true, Ordering::Release);
            data.take()
        };
        let Some(mut data) = taken else { return };
        let mut mine = std::mem::take(&mut data.loose);
        for (_, slot) in &mut data.slots {
            if let Slot::Ready(ready) = slot {
                mine.append(&mut ready.made.closing);
            }
        }
        match (verdict, &self.parent) {
            (Verdict::Forget, _) => mine.extend(self.core.release(&data.used, self.serial)),
            (Verdict::Keep, None) => self.core.promote(&data.used),
            (Verdict::Keep, Some(parent)) => {
                self.core.hand_over(&data.used, self.serial, parent.serial);
                parent.inherit(&data.used);
            }
        }
        closing.extend(in_order(mine));
        for scope in data.nested.iter().filter_map(Weak::upgrade) {
            scope.end(Verdict::Forget, closing);
        }
        drop_contained(data);
    }

    /// Takes over what a committed inner scope used.
    fn inherit(&self, used: &[usize]) {
        if used.is_empty() {
            return;
        }
        let mut data = lock(&self.data);
        if self.is_over() {
            drop(data);
            self.core.orphan(self.core.release(used, self.serial));
        } else {
            data.get_or_insert_default().used.extend_from_slice(used);
        }
    }
}
