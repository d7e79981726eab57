//! Forks and how they come back: a fork's layer becomes a plan, and the journal applies that.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::disk::{Disk, Entry, Meta};
use super::guard::{ChangedBy, Guarded};
use super::host_disk::{HostDisk, Lifting};
use super::journal::{After, Applied, Before, JournalError, KeptAside, Past, Stamp, told};
use super::layer::{Layer, Prepared, WrittenAs, differences, plan, rebase};
use super::lock::{LockedWork, WorkspaceLock};
use super::name::to_shown;
use super::staged::Staged;
use super::view::is_in_state;
use super::{Base, Fork, ForkState, STATE, Shared, Writing, io_error};
use crate::filesystem::{FileVersion, FsError, FsPath, FsResult, LeftAlone, MergeReceipt, named};
use crate::limits::CancelToken;
use crate::store::JournalId;
use crate::support::lock::lock;
use crate::support::steps::reach;

/// How often a change of the workspace itself is tried when somebody else was quicker. From the second time on that can
/// only be somebody who knows nothing of locks.
const TRIES: usize = 5;

/// What a merge did.
enum Merged {
    /// There was nothing to do.
    Nothing { instance: u64 },
    /// Into a fork.
    Nested(Box<Nested>),
    /// Into the workspace.
    OnDisk(Box<OnDisk>),
}

struct Nested {
    instance: u64,
    before: Layer,
    after: Layer,
    /// What was merged, and what it had been.
    fork: Arc<Shared>,
    was: ForkState,
}

struct OnDisk {
    instance: u64,
    held: Held,
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
        self.change_under(Some(&self.guarded), change)
    }

    /// The same for the operator, who takes changes back: guarded paths come back as well.
    pub(super) fn take_back<T>(
        &self,
        change: impl Fn(&Base, &mut Layer) -> FsResult<T>,
    ) -> FsResult<Changed<T>> {
        if let Some(fork) = &self.fork {
            fork.by_operator.store(true, Ordering::Release);
        }
        self.change_under(None, change)
    }

    /// Changes the fork, or the workspace itself by way of one; without a guard, what was judged before, or is not to be.
    pub(super) fn change_under<T>(
        &self,
        guarded: Option<&Guarded>,
        change: impl Fn(&Base, &mut Layer) -> FsResult<T>,
    ) -> FsResult<Changed<T>> {
        let judge = guarded.map(|guarded| (guarded, ChangedBy::FileTool));
        let writing = self.base.writing()?;
        if let Some(fork) = &self.fork {
            let mut state = lock(&fork.state);
            let mut layer = state.layer.clone().held_to(self.held.as_ref());
            let done = change(&self.base, &mut layer)?;
            if let Some((guarded, by)) = judge {
                guarded.check(&self.base, &state.layer, &layer, by)?;
            }
            state.layer = layer;
            return Ok(Changed { done, versions: Vec::new() });
        }
        let _turn = lock(&writing.turn);
        let mut tries = 0;
        loop {
            tries += 1;
            // Whoever was not quick enough makes the others wait.
            let lock = if tries > 1 { Some(writing.lock(&self.base.disk)?) } else { None };
            let mut layer = Layer::default().held_to(self.held.as_ref());
            let done = change(&self.base, &mut layer)?;
            match self.base.apply(&layer, lock, judge) {
                Ok(None) => return Ok(Changed { done, versions: Vec::new() }),
                Ok(Some((held, settled))) => {
                    let id = held.applied.id;
                    if let Err(error) = self.base.keep(held) {
                        // What could not be said to stand does not.
                        let _lock = writing.lock(&self.base.disk)?;
                        let _lifting = writing.lifting()?;
                        return Err(match writing.journal.roll_back(id) {
                            Ok(aside) => {
                                writing.report.aside(aside);
                                error
                            }
                            // It is kept, and nobody knows for how long.
                            Err(JournalError::Unknown { .. }) => error,
                            Err(error) => journal_error(&error),
                        });
                    }
                    return Ok(Changed { done, versions: settled.versions });
                }
                Err(FsError::Conflict { .. }) if tries < TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn fork(&self) -> Self {
        if let (None, Ok(writing)) = (&self.fork, self.base.writing()) {
            writing.settle_dead(&self.base.disk);
        }
        let layer = self.layer();
        let state = ForkState { start: layer.clone(), layer };
        let fork = Fork {
            origin: self.instance,
            nested: self.fork.is_some(),
            by_operator: AtomicBool::new(false),
            state: Mutex::new(state),
            // What a call does inside itself is done in its turn.
            turn: Mutex::new(self.turn_slot().unwrap_or_default()),
        };
        let (base, guarded, held) = (Arc::clone(&self.base), self.guarded.clone(), self.held.clone());
        let fork = Some(Arc::new(fork));
        Self { base, instance: super::instance(), fork, guarded, held, shown: self.shown }
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
            if let Some(own) = &self.fork {
                // What was read in it was read.
                lock(&own.state).layer.record_all(&state.layer);
            }
            return Ok(MergeReceipt::new(Merged::Nothing { instance }));
        }
        self.base.writing()?;
        let by_operator = fork.by_operator.load(Ordering::Acquire);
        if let Some(own) = &self.fork {
            own.by_operator.fetch_or(by_operator, Ordering::AcqRel);
            let mut own = lock(&own.state);
            let before = own.layer.clone();
            own.layer = if Arc::ptr_eq(&before.root, &state.start.root) {
                let mut merged = state.layer.clone();
                merged.record_all(&before);
                merged
            } else {
                rebase(&self.base.disk, &state.start, &state.layer, &before)
                    .map_err(|error| io_error(&FsPath::root(), "merged", &error))?
                    .map_err(|paths| FsError::Conflict { paths: sorted(paths) })?
            };
            let after = own.layer.clone();
            let now = ForkState { layer: after.clone(), start: after.clone() };
            let was = std::mem::replace(&mut *state, now);
            let fork = Arc::clone(theirs);
            let merged = Nested { instance, before, after, fork, was };
            return Ok(MergeReceipt::new(Merged::Nested(Box::new(merged))));
        }
        let judge = (!by_operator).then_some((&theirs.guarded, ChangedBy::Command));
        let Some((held, settled)) = self.base.apply(&state.layer, fork.take_turn(), judge)? else {
            return Ok(MergeReceipt::new(Merged::Nothing { instance }));
        };
        // What it changed is what shows through now.
        let layer = std::mem::take(&mut state.layer);
        state.start = state.layer.clone();
        let (journal, versions) = (held.applied.id, settled.versions.clone());
        let merged = OnDisk { instance, held, settled, fork: Arc::clone(theirs), layer };
        Ok(MergeReceipt::new(Merged::OnDisk(Box::new(merged))).on_disk(journal, versions))
    }

    pub(super) fn unmerge(&self, receipt: MergeReceipt) -> FsResult<()> {
        match self.own(receipt)? {
            Merged::Nothing { .. } => Ok(()),
            Merged::Nested(merged) => {
                let Nested { before, after, fork, was, .. } = *merged;
                let Some(own) = &self.fork else { return Err(FsError::Foreign { what: "merge receipt" }) };
                let mut own = lock(&own.state);
                if !Arc::ptr_eq(&own.layer.root, &after.root) {
                    return Err(FsError::Moved);
                }
                own.layer = before;
                drop(own);
                fork.came_back(was);
                Ok(())
            }
            Merged::OnDisk(merged) => {
                let OnDisk { held, settled, fork, mut layer, .. } = *merged;
                let aside = self.base.roll_back(held, &settled)?;
                layer.renew(|place, _| self.base.disk.look(place).ok().flatten());
                fork.came_back(ForkState { layer, start: Layer::default() });
                match aside.is_empty() {
                    true => Ok(()),
                    false => Err(FsError::LeftAlone { left: aside.iter().map(left_alone).collect() }),
                }
            }
        }
    }

    /// A merge of this fork was taken back: it has its changes again, unless it went on meanwhile.
    fn came_back(&self, was: ForkState) {
        let Some(fork) = &self.fork else { return };
        let mut state = lock(&fork.state);
        if Arc::ptr_eq(&state.layer.root, &state.start.root) {
            *state = was;
        }
    }

    pub(super) fn keep(&self, receipt: MergeReceipt) {
        let kept = self.own(receipt).and_then(|merged| match merged {
            Merged::OnDisk(merged) => self.base.keep(merged.held),
            Merged::Nothing { .. } | Merged::Nested(_) => Ok(()),
        });
        if let Err(error) = kept {
            tracing::error!(%error, "a merge that stands could not be marked so; it will be when the store is asked");
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
        let found = differences(&self.base.disk, &start, &layer).or_else(|error| {
            if error.kind() != io::ErrorKind::PermissionDenied {
                return Err(error);
            }
            // In a directory that is closed: its mode is lifted, if the lock for that is free now.
            let Ok(writing) = self.base.writing() else { return Err(error) };
            let Some(_lock) = self.try_locked()? else { return Err(error) };
            let lifting = writing.disk.lifting()?;
            let found = differences(&self.base.disk, &start, &layer);
            if let Err(error) = writing.end_lifting(lifting, &mut super::lock(&fork.state).layer) {
                tracing::error!(%error, "a mode could not be put back");
            }
            found
        });
        found.map(sorted).unwrap_or_else(|error| {
            // Whoever asks must not take this for nothing.
            tracing::warn!(%error, "what a fork changed could not be found out in full");
            vec![FsPath::root()]
        })
    }

    fn own(&self, receipt: MergeReceipt) -> FsResult<Merged> {
        let merged: Option<Merged> = receipt.downcast();
        merged
            .filter(|merged| merged.instance() == self.instance)
            .ok_or(FsError::Foreign { what: "merge receipt" })
    }
}

impl Merged {
    fn instance(&self) -> u64 {
        match self {
            Self::Nothing { instance } => *instance,
            Self::Nested(merged) => merged.instance,
            Self::OnDisk(merged) => merged.instance,
        }
    }
}

/// Changes that are in the workspace, which nobody else may change before it is decided what becomes of them.
struct Held {
    applied: Applied,
    lock: WorkspaceLock,
}

impl Writing {
    /// Waits until nobody else changes the workspace, as long as the options allow.
    pub(super) fn lock(&self, disk: &HostDisk) -> FsResult<WorkspaceLock> {
        self.lock_unless(disk, self.lock_timeout, &CancelToken::new())
    }

    /// The same, but nothing if another call has the write turn and the tree is whole meanwhile.
    pub(super) fn lock_unless_whole(&self, disk: &HostDisk) -> FsResult<Option<WorkspaceLock>> {
        let (timeout, clock) = (self.lock_timeout, &*self.clock);
        WorkspaceLock::acquire_unless_whole(disk, &lock_path(), timeout, clock)
            .map_err(|error| not_locked(&error))
    }

    /// [`Writing::lock`], for so long and unless it is cancelled.
    pub(super) fn lock_unless(
        &self,
        disk: &HostDisk,
        timeout: Duration,
        cancel: &CancelToken,
    ) -> FsResult<WorkspaceLock> {
        WorkspaceLock::acquire_unless(disk, &lock_path(), timeout, &*self.clock, cancel)
            .map_err(|error| not_locked(&error))
    }

    /// Settles what somebody who died left, so that a call does not read it. If that cannot be done now, it has to be when
    /// the call commits.
    fn settle_dead(&self, disk: &HostDisk) {
        let settled = match WorkspaceLock::of_the_dead(&self.noted, disk, &lock_path(), &*self.clock) {
            Ok(None) => return,
            Ok(Some(mut lock)) => self.recover(&mut lock),
            Err(error) => Err(io_error(&FsPath::root(), "locked", &error)),
        };
        if let Err(error) = settled {
            tracing::warn!(%error, "what a dead process left half-done is not settled");
        }
    }

    /// As [`Writing::lock`]; what somebody who died left is settled.
    pub(super) fn settled(&self, disk: &HostDisk) -> FsResult<WorkspaceLock> {
        let mut lock = self.lock(disk)?;
        self.recover(&mut lock)?;
        Ok(lock)
    }

    /// Lets this thread change what only modes keep this user from changing. It must have the workspace lock.
    pub(super) fn lifting(&self) -> FsResult<Lifting<'_>> {
        self.disk.lifting().map_err(|error| io_error(&FsPath::root(), "changed", &error))
    }

    /// Puts the modes back that were lifted to make a layer, which expects what is there then.
    pub(super) fn end_lifting(&self, lifting: Lifting<'_>, layer: &mut Layer) -> FsResult<()> {
        let closed =
            lifting.end().map_err(|error| io_error(&FsPath::root(), "given its modes back", &error))?;
        if !closed.is_empty() {
            // A file may have other names than the one by which it was lifted.
            let closed: HashMap<(u64, u64), Entry> =
                closed.into_iter().map(|entry| ((entry.dev, entry.ino), entry)).collect();
            layer.renew(|_, [dev, ino, ..]| closed.get(&(*dev, *ino)).cloned());
        }
        Ok(())
    }

    /// Settles what somebody who died left, and reports it. Whoever holds the lock may do so.
    pub(super) fn recover(&self, lock: &mut WorkspaceLock) -> FsResult<()> {
        let lifting = self.lifting()?;
        let verdict = self.verdict.as_deref().map(|verdict| verdict as _);
        self.report.add(self.journal.recover(verdict).map_err(|error| journal_error(&error))?);
        self.report.add(self.scanner.recover()?);
        lifting.end().map_err(|error| io_error(&FsPath::root(), "given its modes back", &error))?;
        lock.note(None);
        Ok(())
    }
}

impl Base {
    /// Brings a layer into the workspace, which is held until that is kept or rolled back. Guarded paths are judged while no other
    /// process can commit.
    fn apply(
        &self,
        layer: &Layer,
        lock: Option<WorkspaceLock>,
        judge: Option<(&Guarded, ChangedBy)>,
    ) -> FsResult<Option<(Held, Settled)>> {
        let writing = self.writing()?;
        let mut lock = match lock {
            Some(lock) => lock,
            None => writing.lock(&self.disk)?,
        };
        // Modes are back before anything is decided: with this, whatever becomes of it.
        let _lifting = writing.lifting()?;
        writing.recover(&mut lock)?;
        self.check_written(layer)?;
        let planned = plan(&self.disk, &writing.stage, layer)?;
        if planned.plan.steps.is_empty() && planned.plan.lost.is_empty() {
            return Ok(None);
        }
        if let Some((guarded, by)) = judge {
            let noticed = guarded.check_merge(self, layer, by)?;
            writing.report.noticed(noticed);
        }
        reach("host.planned");
        let id = JournalId::fresh();
        lock.note(Some(LockedWork::Journal(id)));
        let applied = writing.journal.apply(id, &planned.plan, &planned.expected).map_err(|error| {
            writing.report.aside(error.aside().to_vec());
            journal_error(&error)
        })?;
        // Nothing may fail from here on.
        let placed: HashMap<&Path, FileVersion> =
            applied.placed.iter().map(|placed| (placed.path.as_path(), placed.version)).collect();
        let versions: Vec<(FileVersion, FileVersion)> = planned
            .versions
            .iter()
            .filter_map(|(before, path)| Some((*before, *placed.get(path.as_path())?)))
            .collect();
        let mut staged = Vec::with_capacity(planned.staged.len());
        for (file, path) in planned.staged {
            file.merged(&path, placed.get(path.as_path()).copied().unwrap_or(file.version()));
            staged.push(file);
        }
        reach("host.merged");
        Ok(Some((Held { applied, lock }, Settled { staged, versions, _prepared: planned.prepared })))
    }

    /// Checks that no journal since a command began changed a place that the command wrote. The caller holds the lock, so no
    /// journal is unsettled.
    ///
    /// What is at a place does not tell: another process may have put the same there, put back what was there before, or
    /// removed what the command replaced.
    fn check_written(&self, layer: &Layer) -> FsResult<()> {
        let Some(first) = layer.written.values().map(|written| written.since.sequence()).min() else {
            return Ok(());
        };
        let journal = &self.writing()?.journal;
        let since = journal.since(first).map_err(|error| journal_error(&error))?;
        let Some(since) = since else {
            // They are pinned. If one is missing all the same, the command has to look again.
            return Err(FsError::Conflict {
                paths: sorted(layer.written.keys().map(|place| place.to_path_buf())),
            });
        };
        let mut conflicts = BTreeSet::new();
        for past in &since {
            let left = past.after.iter().map(|(path, _)| (path, &Before::Nothing));
            for (path, before) in past.before.iter().map(|(path, before)| (path, before)).chain(left) {
                let below = layer.written.range(Arc::from(path.as_path())..);
                for (place, written) in below.take_while(|(place, _)| place.starts_with(path)) {
                    let is_it = **place == **path;
                    let is_changed = match (before, written.how) {
                        // A directory that the place was in is another one now.
                        (Before::Image { .. } | Before::Moved { .. }, _) => true,
                        // Its time says only that something in it changed.
                        (Before::InPlace(stamp), WrittenAs::Inside) => {
                            is_it && has_other_rights(past, path, stamp)
                        }
                        (Before::InPlace(_), _) => is_it,
                        // Both may have made a directory there.
                        (Before::Nothing, WrittenAs::MadeDirectory | WrittenAs::Inside) => false,
                        (Before::Nothing, WrittenAs::Changed | WrittenAs::Same) => is_it,
                    };
                    if is_changed && past.sequence > written.since.sequence() {
                        conflicts.insert(place.to_path_buf());
                    }
                }
            }
        }
        match conflicts.is_empty() {
            true => Ok(()),
            false => Err(FsError::Conflict { paths: sorted(conflicts) }),
        }
    }

    /// What was applied stands.
    fn keep(&self, held: Held) -> FsResult<()> {
        let Held { applied, mut lock } = held;
        let writing = self.writing()?;
        let _lifting = writing.lifting()?;
        // The workspace itself was changed, or a session of another store has it: the one that is asked when the power
        // is lost would say no. Without any, the journal has made it durable.
        let is_known = writing.verdict.as_ref().map(|knows| knows(&applied.id).unwrap_or(false));
        let kept = match is_known {
            Some(true) => writing.journal.keep_stored(applied.id),
            Some(false) | None => writing.journal.keep(applied.id),
        };
        kept.map_err(|error| journal_error(&error))?;
        reach("host.kept");
        if is_known == Some(false) {
            let shelf = Path::new(STATE).join("journal");
            self.disk.sync_dir(&shelf).map_err(|error| io_error(&FsPath::root(), "synced", &error))?;
            reach("host.kept-synced");
        }
        lock.note(None);
        Ok(())
    }

    /// What was applied is taken back; what was staged is staged again. What somebody else had changed is reported.
    fn roll_back(&self, held: Held, settled: &Settled) -> FsResult<Vec<KeptAside>> {
        let Held { applied, mut lock } = held;
        let writing = self.writing()?;
        let _lifting = writing.lifting()?;
        // Rolling back removes what was put.
        settled.staged.iter().for_each(|staged| staged.unmerge());
        let aside = writing.journal.roll_back(applied.id).map_err(|error| journal_error(&error))?;
        writing.report.aside(aside.clone());
        lock.note(None);
        Ok(aside)
    }
}

/// Whether a journal gave what it left in place another mode or owner.
fn has_other_rights(past: &Past, path: &Path, before: &Stamp) -> bool {
    let rights = |meta: Meta| (meta.mode, meta.owner);
    past.after.iter().any(|(at, after)| {
        matches!(after, After::Meta(meta) if at == path && rights(*meta) != rights(before.meta()))
    })
}

/// Why the workspace lock could not be had.
fn not_locked(error: &io::Error) -> FsError {
    match error.kind() {
        kind @ (io::ErrorKind::TimedOut | io::ErrorKind::Interrupted) => {
            FsError::Io { path: FsPath::root(), kind, message: error.to_string() }
        }
        _ => io_error(&FsPath::root(), "locked", error),
    }
}

/// Where the workspace lock is.
pub(super) fn lock_path() -> PathBuf {
    Path::new(STATE).join("lock")
}

/// What was left as somebody else changed it, in the words of filesystems.
fn left_alone(KeptAside { path, aside }: &KeptAside) -> LeftAlone {
    let why = match aside {
        Some(aside) => {
            format!("somebody else changed it meanwhile; what was there before is in '{}'", aside.display())
        }
        None => "somebody else changed it meanwhile".to_owned(),
    };
    LeftAlone { what: named(&to_shown(path)), why }
}

/// What the journal says, in the words of filesystems.
pub(super) fn journal_error(error: &JournalError) -> FsError {
    let cause = match error {
        JournalError::NotApplied { source, .. } => source,
        error => error,
    };
    match (error, cause) {
        (JournalError::NotUndone { left, .. }, _) => {
            FsError::NotUndone { left: sorted(left.iter().cloned()), reason: error.to_string() }
        }
        // What else somebody changed meanwhile is in conflict as well.
        (JournalError::Conflict { path, aside }, _) => {
            let mut paths = sorted(aside.iter().map(|kept| kept.path.clone()).chain([path.clone()]));
            paths.dedup();
            FsError::Conflict { paths }
        }
        (_, JournalError::Io { doing, path, source }) if !is_in_state(path) => FsError::Io {
            path: to_shown(path),
            kind: source.kind(),
            message: format!(
                "cannot {doing} it: {source}; everything is as it was before{}",
                told(error.aside())
            ),
        },
        (_, JournalError::Io { source, .. }) => {
            FsError::Io { path: FsPath::root(), kind: source.kind(), message: error.to_string() }
        }
        _ => FsError::Io { path: FsPath::root(), kind: io::ErrorKind::Other, message: error.to_string() },
    }
}

fn sorted(paths: impl IntoIterator<Item = PathBuf>) -> Vec<FsPath> {
    let mut paths: Vec<FsPath> = paths.into_iter().map(|path| to_shown(&path)).collect();
    paths.sort_unstable();
    paths
}
