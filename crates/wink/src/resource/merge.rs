//! How a call's copies come back into the originals, and how that is taken back until it is settled.

use std::fmt;

use super::error::{ResourceError, ResourceErrors};
use super::snapshot::{Fate, Merged};
use crate::filesystem::{FileVersion, Ground};
use crate::store::JournalId;

/// How a call ended.
#[derive(Debug)]
pub enum CallEnd {
    /// Everything committed: what [`CallScope::merge`](super::CallScope::merge) did stays.
    Committed(MergeUndo),
    /// Nothing of the call stays.
    RolledBack,
}

/// Resources that are to become what snapshots say, all of them or none. Until they are merged nothing has changed.
pub(crate) struct Restoring {
    pub(super) steps: Vec<RestoringOne>,
}

/// One of them.
pub(crate) struct RestoringOne {
    pub(super) merge: Box<dyn FnOnce() -> Result<Option<Merged>, ResourceError> + Send>,
    /// Whether that waits for a disk.
    pub(super) blocks: bool,
}

impl Restoring {
    /// Whether merging waits for a disk.
    pub(crate) fn blocks(&self) -> bool {
        self.steps.iter().any(|step| step.blocks)
    }

    /// Brings them all there.
    pub(crate) fn merge(self) -> Result<MergeUndo, ResourceError> {
        merge_all(self.steps.into_iter().map(|step| (step.merge)()))
    }
}

/// Merges one after the other; when one fails, those before it are put back.
pub(super) fn merge_all(
    merging: impl Iterator<Item = Result<Option<Merged>, ResourceError>>,
) -> Result<MergeUndo, ResourceError> {
    let mut merged = MergeUndo { steps: Vec::new() };
    for one in merging {
        match one {
            Ok(step) => merged.steps.extend(step),
            Err(cause) => {
                return Err(match merged.undo() {
                    Ok(()) => cause,
                    Err(failures) => ResourceError::NotPutBack { cause: Box::new(cause), failures },
                });
            }
        }
    }
    Ok(merged)
}

/// What [`CallScope::merge`](super::CallScope::merge) did, until it is settled: given to
/// [`CallScope::finish`](super::CallScope::finish) it stays, otherwise it is undone, at the latest when this is
/// dropped.
#[must_use = "dropping it undoes the merge"]
pub struct MergeUndo {
    pub(super) steps: Vec<Merged>,
}

impl MergeUndo {
    /// Whether nothing was merged: the call changed no resource.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Takes the merges back, last first.
    ///
    /// # Errors
    /// When some could not be; the others were.
    pub fn undo(mut self) -> Result<(), ResourceErrors> {
        ResourceErrors::check(self.take_back())
    }

    /// The journals that are decided together with whatever else commits.
    pub(crate) fn journals(&self) -> Vec<JournalId> {
        self.grounds().map(|ground| ground.journal).collect()
    }

    /// The versions that files had in the call's copies, and those that they became.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (FileVersion, FileVersion)> {
        self.grounds().flat_map(|ground| ground.versions.iter().copied())
    }

    /// Whether settling it waits for a disk.
    pub(crate) fn blocks(&self) -> bool {
        self.grounds().next().is_some()
    }

    /// It stands.
    pub(crate) fn keep(mut self) {
        for Merged { settle, ground } in std::mem::take(&mut self.steps) {
            if ground.is_some()
                && let Err(error) = settle(Fate::Stands)
            {
                tracing::error!(%error, "a merge that stands could not be tidied up after");
            }
        }
    }

    fn grounds(&self) -> impl Iterator<Item = &Ground> {
        self.steps.iter().filter_map(|step| step.ground.as_ref())
    }

    fn take_back(&mut self) -> Vec<ResourceError> {
        let mut failures = Vec::new();
        while let Some(Merged { settle, .. }) = self.steps.pop() {
            if let Err(failure) = settle(Fate::IsUndone) {
                failures.push(failure);
            }
        }
        failures
    }
}

impl Drop for MergeUndo {
    #[inline]
    fn drop(&mut self) {
        if self.steps.is_empty() {
            return;
        }
        for failure in self.take_back() {
            tracing::error!(%failure, "a merge that was given up could not be undone");
        }
    }
}

impl fmt::Debug for MergeUndo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergeUndo").field("steps", &self.steps.len()).finish()
    }
}
