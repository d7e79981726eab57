//! A scope as its handles, resolvers and inner scopes share it: what a call has built, copied and used.

use std::any::TypeId;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::binding::{AnyBinding, Erased};
use super::core::{self, Core, Found};
use super::error::ResourceError;
use super::resolve::{Access, View};
use super::slot::{Flight, Instance, Made, Ready, Serial, Slot, in_order};
use super::snapshot::{ErasedFork, ErasedSnapshot};
use crate::BoxFuture;
use crate::filesystem::{Resolutions, WriteTurn};
use crate::support::future::drop_contained;
use crate::support::lock::lock;

/// What becomes of the singletons that a call built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
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
    /// What the call's policies saw of the workspace.
    seen: OnceLock<Arc<Resolutions>>,
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
pub(super) struct Fork {
    at: usize,
    /// What it is a copy of. An inner scope that builds a singleton has it copied here on its way; when that scope
    /// is rolled back, the singleton goes, and nobody has seen or changed this copy of it.
    original: Erased,
    pub(super) copy: Box<dyn ErasedFork>,
}

impl Data {
    fn slot(&mut self, at: usize) -> Option<&mut Slot> {
        self.slots.iter_mut().find_map(|(place, slot)| (*place == at).then_some(slot))
    }
}

impl ScopeInner {
    pub(super) fn new(core: &Arc<Core>, parent: Option<&Arc<Self>>) -> Self {
        Self {
            core: Arc::clone(core),
            parent: parent.cloned(),
            serial: core.next_serial(),
            over: AtomicBool::new(false),
            only_looks: AtomicBool::new(false),
            named: OnceLock::new(),
            seen: OnceLock::new(),
            data: Mutex::new(None),
        }
    }

    /// What is built for the call gets copies of these only. Said once, when the call begins.
    pub(super) fn only_named(&self, named: Vec<TypeId>) {
        let _ = self.named.set(named.into());
    }

    /// Copies of the workspace lead where policies saw them lead. Said once, before the call begins.
    pub(super) fn hold_to(&self, seen: Arc<Resolutions>) {
        let _ = self.seen.set(seen);
    }

    /// From now on the call may only look.
    pub(super) fn only_look(&self) {
        self.only_looks.store(true, Ordering::Release);
    }

    /// Whether merging waits for a disk.
    pub(super) fn blocks(&self) -> bool {
        lock(&self.data).as_ref().is_some_and(|data| data.forks.iter().any(|fork| fork.copy.blocks()))
    }

    /// The waits for the turns to merge what waits for a disk.
    pub(super) fn write_turns(&self) -> Vec<BoxFuture<'static, Result<Option<WriteTurn>, ResourceError>>> {
        let data = lock(&self.data);
        let forks = data.iter().flat_map(|data| &data.forks).filter(|fork| fork.copy.blocks());
        forks.map(|fork| fork.copy.write_turn()).collect()
    }

    /// Ends all access if nothing was used so far; false if something was.
    pub(super) fn seal_unused(&self) -> bool {
        let data = lock(&self.data);
        let unused = data.is_none();
        if unused {
            self.over.store(true, Ordering::Release);
        }
        unused
    }

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
        let copy = operations.fork(binding.name(), &original, self.seen.get())?;
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

    pub(super) fn view(self: &Arc<Self>) -> View<'_> {
        View { core: &self.core, scope: Some(self), frame: None, access: Access::Transacted }
    }

    fn with<R>(&self, binding: &AnyBinding, work: impl FnOnce(&mut Data) -> R) -> Result<R, ResourceError> {
        let mut data = lock(&self.data);
        if self.is_over() {
            return Err(ResourceError::CallOver { name: binding.name().clone() });
        }
        Ok(work(data.get_or_insert_default()))
    }

    pub(super) fn only_looks(&self) -> bool {
        self.only_looks.load(Ordering::Acquire)
    }

    pub(super) fn must_merge(&self) -> bool {
        !self.only_looks() && lock(&self.data).as_ref().is_some_and(|data| !data.forks.is_empty())
    }

    pub(super) fn adopt(&self, nested: &Arc<Self>) {
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
    pub(super) fn seal(&self) -> Vec<Fork> {
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
    pub(super) fn end(&self, verdict: Verdict, closing: &mut Vec<Instance>) {
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
