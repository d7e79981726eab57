//! Opaque marks: what an implementation hands out to come back to a state later.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::FileVersion;
use crate::store::JournalId;

/// What an implementation keeps in an [`FsSnapshot`].
pub trait SnapshotData: Any + Send + Sync {
    /// The snapshot as JSON, from which [`Filesystem::decode_snapshot`](super::Filesystem::decode_snapshot)
    /// makes it again.
    fn to_json(&self) -> Value;

    /// Whether `other` marks the same state. Unless there is a better way, the JSON forms are compared, which costs as
    /// much as there are files.
    fn is_same(&self, other: &FsSnapshot) -> bool {
        self.to_json() == other.to_json()
    }
}

/// A marked state of a filesystem. Cloning does not copy.
#[derive(Clone)]
pub struct FsSnapshot(Arc<dyn SnapshotData>);

impl FsSnapshot {
    /// Wraps what an implementation keeps.
    pub fn new(data: impl SnapshotData) -> Self {
        Self(Arc::new(data))
    }

    /// What [`FsSnapshot::new`] wrapped, if it is a `T`.
    pub fn downcast_ref<T: SnapshotData>(&self) -> Option<&T> {
        let data: &dyn Any = &*self.0;
        data.downcast_ref()
    }

    /// Whether both mark the same state. One that was left and come back to may count as another.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.is_same(other)
    }

    /// The whole state as JSON: contents, modes and times. Costs as much as there are files.
    pub fn to_json(&self) -> Value {
        self.0.to_json()
    }
}

impl fmt::Debug for FsSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FsSnapshot")
    }
}

/// What is needed to take a merge back.
#[must_use = "keep it until the commit went through: it is the only way back"]
pub struct MergeReceipt {
    data: Box<dyn Any + Send + Sync>,
    ground: Option<Ground>,
}

/// What a merge left on a disk.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    /// What decides about it.
    pub(crate) journal: JournalId,
    /// The versions that the fork showed, and those that they became.
    pub(crate) versions: Vec<(FileVersion, FileVersion)>,
}

impl MergeReceipt {
    /// Wraps what an implementation needs.
    pub fn new<T: Any + Send + Sync>(data: T) -> Self {
        Self { data: Box::new(data), ground: None }
    }

    /// For a merge that is on a disk: `journal` is decided by the batch that names it, and each file that had the
    /// first version of a pair in the fork has the second one now.
    pub fn on_disk(self, journal: JournalId, versions: Vec<(FileVersion, FileVersion)>) -> Self {
        Self { ground: Some(Ground { journal, versions }), ..self }
    }

    /// What [`MergeReceipt::new`] wrapped, if it is a `T`.
    pub fn downcast<T: Any>(self) -> Option<T> {
        self.data.downcast().ok().map(|data| *data)
    }

    pub(crate) fn take_ground(&mut self) -> Option<Ground> {
        self.ground.take()
    }
}

impl fmt::Debug for MergeReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MergeReceipt")
    }
}
