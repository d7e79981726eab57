//! Snapshotable resources: the trait users implement, its values, and the erased form the runtime works with.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::binding::Erased;
use super::error::{BoxError, Panicked, ResourceError, ResourceErrors, SnapshotStep};
use super::merge::RestoringOne;
use super::name::ResourceName;
use crate::BoxFuture;
use crate::filesystem::{Ground, Resolutions, WriteTurn};
use crate::support::future::catch;

/// A resource that takes part in every transaction.
///
/// A call works on its own [`fork`](Snapshotable::fork). When it commits, the fork is merged into the original;
/// when it does not, the fork is forgotten. All operations are synchronous and should be cheap: use
/// [`Shared`](super::Shared) or persistent collections inside.
pub trait Snapshotable: Sized + Send + Sync + 'static {
    /// The state as it is now.
    ///
    /// # Errors
    /// Whatever keeps the state from being read.
    fn snapshot(&self) -> Result<ResourceSnapshot, BoxError>;

    /// Goes back to `snapshot`.
    ///
    /// # Errors
    /// When the snapshot is another resource's, or cannot be applied.
    fn restore(&self, snapshot: &ResourceSnapshot) -> Result<(), BoxError>;

    /// A private copy for one call: what is done to it is not seen here.
    ///
    /// # Errors
    /// When no copy can be made.
    fn fork(&self) -> Result<Self, BoxError>;

    /// Brings what a call did to `fork` in here. `base` is the fork's state when it was made.
    ///
    /// It is asked only when the fork has changed. The default refuses when this resource has changed since,
    /// too, so that nothing is overwritten; a resource that can combine both sides does so here.
    ///
    /// # Errors
    /// When both sides changed and cannot be combined.
    fn merge(&self, fork: &Self, base: &ResourceSnapshot) -> Result<(), BoxError> {
        if !self.snapshot()?.same(base) {
            return Err(Box::new(ResourceError::Conflict { name: ResourceName::of::<Self>() }));
        }
        self.restore(&fork.snapshot()?)
    }

    /// A snapshot from its JSON form.
    ///
    /// # Errors
    /// When the value is not a snapshot of this resource.
    fn decode(&self, json: &Value) -> Result<ResourceSnapshot, BoxError>;
}

/// The state of a resource at one moment. Cloning it is cheap.
#[derive(Clone)]
pub struct ResourceSnapshot {
    state: Arc<dyn SnapshotValue>,
    sameness: Sameness,
}

/// How two snapshots of a resource are told apart.
#[derive(Clone, Copy)]
enum Sameness {
    /// By the place in memory: flat, for states that are shared and replaced whole.
    Place,
    /// By the JSON form, for states that are copied each time.
    Content,
    /// In a way of their own.
    Own(fn(&ResourceSnapshot, &ResourceSnapshot) -> bool),
}

impl ResourceSnapshot {
    /// A snapshot that is a copy of the state; its JSON form is that value's.
    pub fn new<V: Serialize + Send + Sync + 'static>(state: V) -> Self {
        Self { state: Arc::new(state), sameness: Sameness::Content }
    }

    /// A snapshot that shares the state instead of copying it. The resource hands out the same `Arc` for as long
    /// as nothing changed, so that comparing two snapshots costs nothing.
    pub fn shared<V: Serialize + Send + Sync + 'static>(state: Arc<V>) -> Self {
        Self { state, sameness: Sameness::Place }
    }

    /// A snapshot that knows itself how it is told from another.
    pub(super) fn with_sameness<V: Serialize + Send + Sync + 'static>(
        state: V,
        same: fn(&Self, &Self) -> bool,
    ) -> Self {
        Self { state: Arc::new(state), sameness: Sameness::Own(same) }
    }

    /// The state, if it is a `V`.
    #[must_use]
    pub fn state<V: Send + Sync + 'static>(&self) -> Option<Arc<V>> {
        let state: Arc<dyn Any + Send + Sync> = Arc::clone(&self.state) as _;
        state.downcast().ok()
    }

    /// The JSON form, for storing.
    ///
    /// # Errors
    /// When the state cannot be serialised.
    pub fn to_json(&self) -> Result<Value, BoxError> {
        Ok(self.state.json()?)
    }

    /// Whether both are the same state: one value in memory, or (for copied states) the same JSON.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.state, &other.state) {
            return true;
        }
        match (self.sameness, other.sameness) {
            (Sameness::Place, Sameness::Place) => false,
            (Sameness::Own(same), _) => same(self, other),
            (Sameness::Place | Sameness::Content, _) => {
                matches!((self.state.json(), other.state.json()), (Ok(mine), Ok(theirs)) if mine == theirs)
            }
        }
    }
}

impl fmt::Debug for ResourceSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResourceSnapshot(..)")
    }
}

trait SnapshotValue: Any + Send + Sync {
    fn json(&self) -> Result<Value, serde_json::Error>;
}

impl<V: Serialize + Send + Sync + 'static> SnapshotValue for V {
    fn json(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self)
    }
}

/// One merge, until it is settled.
pub(crate) struct Merged {
    /// Undoes it, or says that it stands.
    pub(super) settle: Box<dyn FnOnce(Fate) -> Result<(), ResourceError> + Send>,
    /// What it left on a disk. Without that there is nobody to tell that it stands.
    pub(super) ground: Option<Ground>,
}

/// What becomes of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Stands,
    IsUndone,
}

/// The snapshot operations of a binding whose type is no longer known: one implementation for [`Snapshotable`]
/// types, one for the filesystem's own trait. `original` always holds an `Arc` of the bound type.
pub(crate) trait ErasedSnapshot: Send + Sync {
    /// A copy; of the workspace, one whose paths lead where policies saw them lead (`seen`).
    fn fork(
        &self,
        name: &ResourceName,
        original: &Erased,
        seen: Option<&Arc<Resolutions>>,
    ) -> Result<Box<dyn ErasedFork>, ResourceError>;
    fn snapshot(&self, name: &ResourceName, original: &Erased) -> Result<ResourceSnapshot, ResourceError>;
    fn restore(
        &self,
        name: &ResourceName,
        original: &Erased,
        snapshot: &ResourceSnapshot,
    ) -> Result<(), ResourceError>;
    /// Gets ready to make `original` what it was, without changing it yet.
    fn restoring(
        &self,
        name: &ResourceName,
        original: &Erased,
        snapshot: &ResourceSnapshot,
    ) -> Result<RestoringOne, ResourceError>;
    fn decode(
        &self,
        name: &ResourceName,
        original: &Erased,
        json: &Value,
    ) -> Result<ResourceSnapshot, ResourceError>;
}

/// One call's copy of one resource.
pub(crate) trait ErasedFork: Send + Sync {
    /// The copy, as the call sees it.
    fn value(&self) -> &Erased;

    /// The copy, as a call sees it that only looks.
    fn to_look_at(&self) -> Erased {
        Arc::clone(self.value())
    }

    /// An error if the call did something to it.
    fn unchanged(&self) -> Result<(), ResourceError>;

    /// Brings the copy's changes into its original; `None` when there were none. A merge that fails has
    /// changed nothing.
    fn merge(&self) -> Result<Option<Merged>, ResourceError>;

    /// Whether merging waits for a disk.
    fn blocks(&self) -> bool {
        false
    }

    /// Waits for the turn to merge it, where writers take turns.
    fn write_turn(&self) -> BoxFuture<'static, Result<Option<WriteTurn>, ResourceError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// Runs one operation of foreign code: a failure or a panic becomes an error that names the resource.
pub(crate) fn step<T>(
    name: &ResourceName,
    step: SnapshotStep,
    work: impl FnOnce() -> Result<T, BoxError>,
) -> Result<T, ResourceError> {
    let cause = match catch(work) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(cause)) => match cause.downcast::<ResourceError>() {
            Ok(error) if matches!(*error, ResourceError::Conflict { .. }) => {
                return Err(ResourceError::Conflict { name: name.clone() });
            }
            Ok(error) => error,
            Err(cause) => cause,
        },
        Err(panic) => Box::new(Panicked(panic)),
    };
    Err(ResourceError::Snapshot { name: name.clone(), step, cause: cause.into() })
}

/// The bound type of an erased value. It is always the right one, since values are kept by their type; should
/// it ever not be, that is an error and no panic.
pub(crate) fn typed<T: ?Sized + Send + Sync + 'static>(
    name: &ResourceName,
    value: &Erased,
) -> Result<Arc<T>, ResourceError> {
    value.downcast_ref::<Arc<T>>().cloned().ok_or_else(|| ResourceError::Unbound { name: name.clone() })
}

/// The operations of any [`Snapshotable`] type.
pub(crate) struct SnapshotOf<T>(pub(crate) std::marker::PhantomData<fn() -> T>);

impl<T: Snapshotable> ErasedSnapshot for SnapshotOf<T> {
    fn fork(
        &self,
        name: &ResourceName,
        original: &Erased,
        _: Option<&Arc<Resolutions>>,
    ) -> Result<Box<dyn ErasedFork>, ResourceError> {
        let original = typed::<T>(name, original)?;
        let fork = Arc::new(step(name, SnapshotStep::Fork, || original.fork())?);
        // Taken from the copy, not from the original: it is exactly what the call started from, whatever
        // happens to the original at this moment.
        let base = step(name, SnapshotStep::Snapshot, || fork.snapshot())?;
        let value: Erased = Arc::new(Arc::clone(&fork));
        Ok(Box::new(ForkOf { name: name.clone(), original, fork, value, base }))
    }

    fn snapshot(&self, name: &ResourceName, original: &Erased) -> Result<ResourceSnapshot, ResourceError> {
        let original = typed::<T>(name, original)?;
        step(name, SnapshotStep::Snapshot, || original.snapshot())
    }

    fn restore(
        &self,
        name: &ResourceName,
        original: &Erased,
        snapshot: &ResourceSnapshot,
    ) -> Result<(), ResourceError> {
        let original = typed::<T>(name, original)?;
        step(name, SnapshotStep::Restore, || original.restore(snapshot))
    }

    fn restoring(
        &self,
        name: &ResourceName,
        original: &Erased,
        snapshot: &ResourceSnapshot,
    ) -> Result<RestoringOne, ResourceError> {
        let (name, snapshot) = (name.clone(), snapshot.clone());
        let original = typed::<T>(&name, original)?;
        let merge = Box::new(move || {
            let before = step(&name, SnapshotStep::Snapshot, || original.snapshot())?;
            if let Err(cause) = step(&name, SnapshotStep::Restore, || original.restore(&snapshot)) {
                // It may be restored half.
                return Err(match step(&name, SnapshotStep::Restore, || original.restore(&before)) {
                    Ok(()) => cause,
                    Err(failure) => not_put_back(cause, failure),
                });
            }
            let settle = Box::new(move |fate| match fate {
                Fate::Stands => Ok(()),
                Fate::IsUndone => step(&name, SnapshotStep::Restore, || original.restore(&before)),
            });
            Ok(Some(Merged { settle, ground: None }))
        });
        Ok(RestoringOne { merge, blocks: false })
    }

    fn decode(
        &self,
        name: &ResourceName,
        original: &Erased,
        json: &Value,
    ) -> Result<ResourceSnapshot, ResourceError> {
        let original = typed::<T>(name, original)?;
        step(name, SnapshotStep::Decode, || original.decode(json))
    }
}

struct ForkOf<T> {
    name: ResourceName,
    original: Arc<T>,
    fork: Arc<T>,
    value: Erased,
    base: ResourceSnapshot,
}

impl<T: Snapshotable> ErasedFork for ForkOf<T> {
    fn value(&self) -> &Erased {
        &self.value
    }

    fn unchanged(&self) -> Result<(), ResourceError> {
        match self.is_changed()? {
            false => Ok(()),
            true => Err(ResourceError::OnlyLooks { name: self.name.clone() }),
        }
    }

    fn merge(&self) -> Result<Option<Merged>, ResourceError> {
        if !self.is_changed()? {
            return Ok(None);
        }
        let name = &self.name;
        let before = step(name, SnapshotStep::Snapshot, || self.original.snapshot())?;
        let after = step(name, SnapshotStep::Merge, || self.original.merge(&self.fork, &self.base))
            .and_then(|()| step(name, SnapshotStep::Snapshot, || self.original.snapshot()))
            .or_else(|cause| self.put_back(&before, cause))?;
        let (name, original) = (name.clone(), Arc::clone(&self.original));
        let settle = Box::new(move |fate| {
            if fate == Fate::Stands {
                return Ok(());
            }
            step(&name, SnapshotStep::Restore, || {
                if !original.snapshot()?.same(&after) {
                    return Err(
                        "it was changed by somebody else after the merge, and is left as it is".into()
                    );
                }
                original.restore(&before)
            })
        });
        Ok(Some(Merged { settle, ground: None }))
    }
}

impl<T: Snapshotable> ForkOf<T> {
    fn is_changed(&self) -> Result<bool, ResourceError> {
        step(&self.name, SnapshotStep::Snapshot, || Ok(!self.fork.snapshot()?.same(&self.base)))
    }

    /// Foreign code may have merged half before it failed. A refused merge has changed nothing, and then
    /// nothing is restored over what somebody else may be writing.
    fn put_back(
        &self,
        before: &ResourceSnapshot,
        cause: ResourceError,
    ) -> Result<ResourceSnapshot, ResourceError> {
        if matches!(cause, ResourceError::Conflict { .. }) {
            return Err(cause);
        }
        match step(&self.name, SnapshotStep::Restore, || self.original.restore(before)) {
            Ok(()) => Err(cause),
            Err(failure) => Err(not_put_back(cause, failure)),
        }
    }
}

fn not_put_back(cause: ResourceError, failure: ResourceError) -> ResourceError {
    ResourceError::NotPutBack { cause: Box::new(cause), failures: ResourceErrors(vec![failure]) }
}
