//! Forks and how they come back: a fork's layer becomes a plan, and the journal applies that.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::disk::Disk;
use super::journal::Applied;
use super::layer::{Layer, Prepared, differences, plan, rebase};
use super::name::to_shown;
use super::staged::Staged;
use super::{Base, Fork, ForkState, Shared, io_error, version_of};
use crate::filesystem::{FileVersion, FsError, FsPath, FsResult, MergeReceipt};
use crate::support::lock::lock;

/// How often a change of the workspace itself is tried again when somebody else was quicker.
const TRIES: usize = 20;

/// What a merge did.
enum Merged {
    /// There was nothing to do.
    Nothing { instance: u64 },
    /// Into a fork.
    Nested { instance: u64, before: Layer, after: Layer },
    /// Into the workspace.
    OnDisk(Box<OnDisk>),
}

struct OnDisk {
    instance: u64,
    applied: Applied,
    settled: Settled,
    /// What was merged, and what it had changed.
    fork: Arc<Shared>,
    layer: Layer,
}

/// What a plan that was applied leaves to be known.
struct Settled {
    staged: Vec<Arc<Staged>>,
    versions: Vec<(FileVersion, FileVersion)>,
    /// What was made for it and is in the workspace now, or back in the stage if it is taken back.
    _prepared: Prepared,
}

/// What a change did, and the versions that its files have by now.
pub(super) struct Changed<T> {
    pub(super) done: T,
    versions: Vec<(FileVersion, FileVersion)>,
}

impl<T> Changed<T> {
    /// The version that what had `version` in the layer has now.
    pub(super) fn now(&self, version: FileVersion) -> FileVersion {
        self.versions.iter().find(|(before, _)| *before == version).map_or(version, |(_, now)| *now)
    }
}

impl Shared {
    /// Changes the fork, or the workspace itself by way of one.
    pub(super) fn change<T>(
        &self,
        change: impl Fn(&Base, &mut Layer) -> FsResult<T>,
    ) -> FsResult<Changed<T>> {
        let writing = self.base.writing()?;
        if let Some(fork) = &self.fork {
            let mut state = lock(&fork.state);
            let mut layer = state.layer.clone();
            let done = change(&self.base, &mut layer)?;
            state.layer = layer;
            return Ok(Changed { done, versions: Vec::new() });
        }
        let _turn = lock(&writing.turn);
        let mut tries = 0;
        loop {
            tries += 1;
            let mut layer = Layer::default();
            let done = change(&self.base, &mut layer)?;
            match self.base.apply(&layer) {
                Ok(None) => return Ok(Changed { done, versions: Vec::new() }),
                Ok(Some((applied, settled))) => {
                    self.base.keep(applied);
                    return Ok(Changed { done, versions: settled.versions });
                }
                Err(FsError::Conflict { .. }) if tries < TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn fork(&self) -> Self {
        let layer = self.layer();
        let state = ForkState { start: layer.clone(), layer };
        let fork = Fork { origin: self.instance, nested: self.fork.is_some(), state: Mutex::new(state) };
        Self { base: Arc::clone(&self.base), instance: super::instance(), fork: Some(fork) }
    }

    pub(super) fn merge(&self, theirs: &Arc<Self>) -> FsResult<MergeReceipt> {
        let foreign = FsError::Foreign { what: "fork" };
        let Some(fork) = &theirs.fork else { return Err(foreign) };
        if fork.origin != self.instance {
            return Err(foreign);
        }
        // Nobody locks a fork while holding what it was made from.
        let mut state = lock(&fork.state);
        let instance = self.instance;
        if Arc::ptr_eq(&state.layer.root, &state.start.root) {
            return Ok(MergeReceipt::new(Merged::Nothing { instance }));
        }
        self.base.writing()?;
        if let Some(own) = &self.fork {
            let mut own = lock(&own.state);
            let before = own.layer.clone();
            own.layer = if Arc::ptr_eq(&before.root, &state.start.root) {
                state.layer.clone()
            } else {
                rebase(&self.base.disk, &state.start, &state.layer, &before)
                    .map_err(|error| io_error(&FsPath::root(), "merged", &error))?
                    .map_err(|paths| FsError::Conflict { paths: sorted(paths) })?
            };
            let after = own.layer.clone();
            *state = ForkState { layer: after.clone(), start: after.clone() };
            return Ok(MergeReceipt::new(Merged::Nested { instance, before, after }));
        }
        let Some((applied, settled)) = self.base.apply(&state.layer)? else {
            return Ok(MergeReceipt::new(Merged::Nothing { instance }));
        };
        // What it changed is what shows through now.
        let layer = std::mem::take(&mut state.layer);
        state.start = state.layer.clone();
        let (journal, versions) = (applied.id(), settled.versions.clone());
        let merged = OnDisk { instance, applied, settled, fork: Arc::clone(theirs), layer };
        Ok(MergeReceipt::new(Merged::OnDisk(Box::new(merged))).on_disk(journal, versions))
    }

    pub(super) fn unmerge(&self, receipt: MergeReceipt) -> FsResult<()> {
        match self.own(receipt)? {
            Merged::Nothing { .. } => Ok(()),
            Merged::Nested { before, after, .. } => {
                let Some(own) = &self.fork else { return Err(FsError::Foreign { what: "merge receipt" }) };
                let mut own = lock(&own.state);
                if !Arc::ptr_eq(&own.layer.root, &after.root) {
                    return Err(FsError::Moved);
                }
                own.layer = before;
                Ok(())
            }
            Merged::OnDisk(merged) => {
                let OnDisk { applied, settled, fork, layer, .. } = *merged;
                self.base.roll_back(applied)?;
                for staged in &settled.staged {
                    staged.unmerged();
                }
                if let Some(fork) = &fork.fork {
                    let mut state = lock(&fork.state);
                    if Arc::ptr_eq(&state.layer.root, &state.start.root) {
                        state.layer = layer;
                    }
                }
                Ok(())
            }
        }
    }

    pub(super) fn keep(&self, receipt: MergeReceipt) {
        match self.own(receipt) {
            Ok(Merged::OnDisk(merged)) => self.base.keep(merged.applied),
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "a merge was kept by another filesystem"),
        }
    }

    pub(super) fn blocks(&self) -> bool {
        self.fork.as_ref().is_some_and(|fork| {
            let state = lock(&fork.state);
            !fork.nested && !Arc::ptr_eq(&state.layer.root, &state.start.root)
        })
    }

    pub(super) fn changes(&self) -> Vec<FsPath> {
        let Some(fork) = &self.fork else { return Vec::new() };
        let (start, layer) = {
            let state = lock(&fork.state);
            (state.start.clone(), state.layer.clone())
        };
        differences(&self.base.disk, &start, &layer).map(sorted).unwrap_or_else(|error| {
            // Whoever asks must not take this for nothing.
            tracing::warn!(%error, "what a fork changed could not be found out in full");
            vec![FsPath::root()]
        })
    }

    fn own(&self, receipt: MergeReceipt) -> FsResult<Merged> {
        let merged: Option<Merged> = receipt.downcast();
        merged.filter(|merged| merged.instance() == self.instance).ok_or(FsError::Foreign { what: "merge receipt" })
    }
}

impl Merged {
    fn instance(&self) -> u64 {
        match self {
            Self::Nothing { instance } | Self::Nested { instance, .. } => *instance,
            Self::OnDisk(merged) => merged.instance,
        }
    }
}

impl Base {
    /// Brings a layer into the workspace, which is held until that is kept or rolled back.
    fn apply(&self, layer: &Layer) -> FsResult<Option<(Applied, Settled)>> {
        let writing = self.writing()?;
        let failed = |error: io::Error| io_error(&FsPath::root(), "merged", &error);
        let planned = plan(&self.disk, &writing.stage, layer)?;
        if planned.plan.steps.is_empty() {
            return Ok(None);
        }
        let applied = Applied::apply(&self.disk, &planned.plan).map_err(failed)?;
        let mut versions = Vec::with_capacity(planned.versions.len());
        for (before, path) in &planned.versions {
            if let Some(entry) = self.disk.look(path).map_err(failed)? {
                versions.push((*before, version_of(&entry)));
            }
        }
        let mut staged = Vec::with_capacity(planned.staged.len());
        for (file, path) in planned.staged {
            let now = versions.iter().find(|(before, _)| *before == file.version());
            file.merged(&path, now.map_or(file.version(), |(_, now)| *now));
            staged.push(file);
        }
        Ok(Some((applied, Settled { staged, versions, _prepared: planned.prepared })))
    }

    fn keep(&self, _applied: Applied) {}

    fn roll_back(&self, applied: Applied) -> FsResult<()> {
        applied.roll_back(&self.disk).map_err(|error| io_error(&FsPath::root(), "rolled back", &error))
    }
}

fn sorted(paths: impl IntoIterator<Item = PathBuf>) -> Vec<FsPath> {
    let mut paths: Vec<FsPath> = paths.into_iter().map(|path| to_shown(&path)).collect();
    paths.sort_unstable();
    paths
}
