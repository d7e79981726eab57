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
    pub(super) fn keep(mut self) {
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
