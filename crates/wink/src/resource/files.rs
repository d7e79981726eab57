//! The workspace as a resource: `dyn Filesystem` brings its own forks and snapshots.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::binding::{Binding, Erased};
use super::error::{ResourceError, SnapshotStep};
use super::merge::RestoringOne;
use super::name::ResourceName;
use super::snapshot::{ErasedFork, ErasedSnapshot, Fate, Merged, ResourceSnapshot, step, typed};
use crate::BoxFuture;
use crate::filesystem::{Filesystem, FsError, FsResult, FsSnapshot, Looking, Resolutions, WriteTurn};

/// The name under which the workspace's snapshot is stored.
const NAME: &str = "filesystem";

impl Binding<dyn Filesystem> {
    /// Binds the workspace. Each call works on its own fork of it.
    pub fn filesystem(files: Arc<dyn Filesystem>) -> Self {
        Self::instance(files).named(NAME)
    }
}

/// How the workspace takes part in transactions.
pub(super) fn operations() -> Arc<dyn ErasedSnapshot> {
    Arc::new(Files)
}

struct Files;

/// A filesystem's snapshot among those of other resources.
struct Kept(FsSnapshot);

fn kept(snapshot: FsSnapshot) -> ResourceSnapshot {
    ResourceSnapshot::with_sameness(
        Kept(snapshot),
        |one, other| matches!((one.state::<Kept>(), other.state::<Kept>()), (Some(one), Some(other)) if one.0.is_same(&other.0)),
    )
}

impl Serialize for Kept {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.to_json().serialize(serializer)
    }
}

impl ErasedSnapshot for Files {
    fn fork(
        &self,
        name: &ResourceName,
        original: &Erased,
        seen: Option<&Arc<Resolutions>>,
    ) -> Result<Box<dyn ErasedFork>, ResourceError> {
        Ok(Box::new(self.copy(name, original, seen)?))
    }

    fn snapshot(&self, name: &ResourceName, original: &Erased) -> Result<ResourceSnapshot, ResourceError> {
        let original = typed::<dyn Filesystem>(name, original)?;
        step(name, SnapshotStep::Snapshot, || Ok(kept(original.snapshot()?)))
    }

    fn restore(
        &self,
        name: &ResourceName,
        original: &Erased,
        snapshot: &ResourceSnapshot,
    ) -> Result<(), ResourceError> {
        let original = typed::<dyn Filesystem>(name, original)?;
        step(name, SnapshotStep::Restore, || {
            let kept = snapshot.state::<Kept>().ok_or("the snapshot is not a filesystem's")?;
            Ok(original.restore(&kept.0)?)
        })
    }

    fn restoring(
        &self,
        name: &ResourceName,
        original: &Erased,
        snapshot: &ResourceSnapshot,
    ) -> Result<RestoringOne, ResourceError> {
        let copy = self.copy(name, original, None)?;
        step(name, SnapshotStep::Restore, || {
            let kept = snapshot.state::<Kept>().ok_or("the snapshot is not a filesystem's")?;
            Ok(copy.fork.restore(&kept.0)?)
        })?;
        let blocks = copy.blocks();
        Ok(RestoringOne { merge: Box::new(move || copy.merge()), blocks })
    }

    fn decode(
        &self,
        name: &ResourceName,
        original: &Erased,
        json: &Value,
    ) -> Result<ResourceSnapshot, ResourceError> {
        let original = typed::<dyn Filesystem>(name, original)?;
        step(name, SnapshotStep::Decode, || Ok(kept(original.decode_snapshot(json)?)))
    }
}

impl Files {
    fn copy(
        &self,
        name: &ResourceName,
        original: &Erased,
        seen: Option<&Arc<Resolutions>>,
    ) -> Result<FilesFork, ResourceError> {
        let original = typed::<dyn Filesystem>(name, original)?;
        let fork = step(name, SnapshotStep::Fork, || {
            let held = seen.and_then(|seen| original.held_to(seen));
            Ok(held.as_ref().unwrap_or(&original).fork()?)
        })?;
        let value: Erased = Arc::new(Arc::clone(&fork));
        Ok(FilesFork { name: name.clone(), original, fork, value })
    }
}

/// What a step of a merge gave. One that failed has changed nothing, unless something could not be taken back.
fn merge_step<T>(name: &ResourceName, done: FsResult<T>) -> Result<T, ResourceError> {
    let failed = match done {
        Err(FsError::NotUndone { .. }) => SnapshotStep::Restore,
        _ => SnapshotStep::Merge,
    };
    step(name, failed, || Ok(done?))
}

struct FilesFork {
    name: ResourceName,
    original: Arc<dyn Filesystem>,
    fork: Arc<dyn Filesystem>,
    value: Erased,
}

impl ErasedFork for FilesFork {
    fn value(&self) -> &Erased {
        &self.value
    }

    fn to_look_at(&self) -> Erased {
        let looking: Arc<dyn Filesystem> = Arc::new(Looking(Arc::clone(&self.fork)));
        Arc::new(looking)
    }

    fn unchanged(&self) -> Result<(), ResourceError> {
        let changed = step(&self.name, SnapshotStep::Snapshot, || Ok(!self.fork.changes().is_empty()))?;
        match changed {
            false => Ok(()),
            true => Err(ResourceError::OnlyLooks { name: self.name.clone() }),
        }
    }

    fn merge(&self) -> Result<Option<Merged>, ResourceError> {
        let merged = step(&self.name, SnapshotStep::Merge, || Ok(self.original.merge(&*self.fork)))?;
        let mut receipt = merge_step(&self.name, merged)?;
        let ground = receipt.take_ground();
        let (name, original) = (self.name.clone(), Arc::clone(&self.original));
        let settle = Box::new(move |fate| {
            step(&name, SnapshotStep::Restore, || match fate {
                Fate::Stands => {
                    original.keep(receipt);
                    Ok(())
                }
                Fate::IsUndone => Ok(original.unmerge(receipt)?),
            })
        });
        Ok(Some(Merged { settle, ground }))
    }

    fn blocks(&self) -> bool {
        self.fork.blocks()
    }

    fn write_turn(&self) -> BoxFuture<'static, Result<Option<WriteTurn>, ResourceError>> {
        let (name, fork) = (self.name.clone(), Arc::clone(&self.fork));
        Box::pin(async move { merge_step(&name, fork.write_turn(None).await) })
    }
}
