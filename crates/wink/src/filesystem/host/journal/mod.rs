//! The journal: changes to the tree that happen all together or not at all, whatever dies meanwhile.
//!
//! Before the first change, all that is needed to take every change back is on disk: what will be replaced has a second
//! name, and the *intent* says what will be done and what was found. Then entries are renamed into and out of the tree,
//! and the directories synced. Whoever asked for it then decides: [`Journal::keep`] makes it an undo point,
//! [`Journal::roll_back`] takes it back, and [`Journal::recover`] does the one or the other for somebody who died.
//!
//! Rolling back is by renames alone: it needs no space, and can be interrupted and done again.
//!
//! Only who holds the workspace lock may call what changes something here.

mod apply;
mod detach;
mod error;
mod intent;
mod past;
mod prepare;
mod shelf;
mod touched;
mod undo;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::clear::remove_tree;
use super::disk::{self, Disk, Entry, Replace};
use super::plan::Plan;
use crate::limits::{Clock, SystemClock};
use crate::store::{JournalId, StoreError};
use crate::support::lock::lock;
use crate::support::steps::reach;

pub use apply::Placed;
pub(super) use error::told;
pub use error::{JournalError, KeptAside};
pub use intent::Stamp;
pub(super) use intent::{bytes, number};
pub use past::{After, Before, Past};
pub use prepare::{Expected, ExpectedState};

use error::Doing;
use intent::Intent;
use prepare::{check, prepare};
use shelf::{Name, Place, State, ensure_dirs, list};

/// How journals are kept.
#[derive(Clone)]
pub struct JournalOptions {
    /// How long what was replaced can be brought back.
    pub retention: Retention,
    /// What decides about a journal whose owner died.
    pub settled_by: SettledBy,
    /// Which time it is.
    pub clock: Arc<dyn Clock>,
    /// How others learn of marks, if there are others.
    pub pins: Option<Arc<dyn Pins>>,
}

/// How processes that share a workspace tell each other to which marks they may want to go back.
pub trait Pins: Send + Sync {
    /// Says what this process's lowest mark is. It counts as long as this process lives.
    fn publish(&self, lowest: Option<u64>) -> io::Result<()>;

    /// The lowest mark of all others.
    fn of_others(&self) -> io::Result<Option<u64>>;
}

impl Default for JournalOptions {
    /// The last hundred, settled by themselves.
    fn default() -> Self {
        let clock = Arc::new(SystemClock);
        Self { retention: Retention::Last(100), settled_by: SettledBy::Journal, clock, pins: None }
    }
}

/// Which kept journals stay. The last one always does: the next is counted from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// So many.
    Last(usize),
    /// Those that are not older.
    For(Duration),
}

/// Who knows whether a journal was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettledBy {
    /// Nobody but the journal: keeping it is durable when [`Journal::keep`] returns.
    #[default]
    Journal,
    /// A store, that is asked when an owner died: [`Journal::keep`] need not wait for the disk.
    Store,
}

/// Whether a journal was committed, for [`Journal::recover`].
pub type Verdict<'a> = &'a dyn Fn(&JournalId) -> Result<bool, StoreError>;

/// The journals of one workspace.
pub struct Journal {
    disk: Arc<dyn Disk>,
    state_dir: PathBuf,
    shelf: PathBuf,
    trash: PathBuf,
    options: JournalOptions,
    /// Marks that somebody may want to go back to, and how many do.
    pins: Mutex<BTreeMap<u64, usize>>,
}

/// A plan that was carried out, durably, and waits to be kept or rolled back.
#[must_use = "what was applied must be kept or rolled back"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The journal.
    pub id: JournalId,
    /// How many journals there have been, with this one.
    pub sequence: u64,
    /// What was put, in the order of the plan, where it is now.
    pub placed: Vec<Placed>,
}

/// What became of journals whose owners died.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Those that had been committed.
    pub kept: Vec<JournalId>,
    /// Those that had not.
    pub rolled_back: Vec<JournalId>,
    /// What somebody else changed, and rolling back therefore left alone.
    pub aside: Vec<KeptAside>,
    /// Where that is which was found in the workspace when a command that had worked in it, without an overlay, was
    /// undone.
    pub trash: Vec<PathBuf>,
    /// What calls changed that other programs may run later (`.github/workflows`, `.husky`, `node_modules/.bin`).
    pub noticed: Vec<PathBuf>,
}

/// A mark that can be gone back to as long as this lives.
pub struct Pin {
    journal: Arc<Journal>,
    sequence: u64,
}

impl Journal {
    /// The journals in `state_dir`, a directory that is, or will be, right below the root.
    pub fn new(
        disk: Arc<dyn Disk>,
        state_dir: impl Into<PathBuf>,
        options: JournalOptions,
    ) -> Result<Self, JournalError> {
        let state_dir = state_dir.into();
        let (shelf, trash) = (state_dir.join("journal"), state_dir.join("trash"));
        // The trash is made now: rolling back needs no space.
        ensure_dirs(&*disk, &state_dir, &[&state_dir, &shelf, &trash])?;
        Ok(Self { disk, state_dir, shelf, trash, options, pins: Mutex::default() })
    }

    /// The journals in `state_dir`, to be looked at: nothing is made.
    pub fn to_look_at(disk: Arc<dyn Disk>, state_dir: impl Into<PathBuf>) -> Self {
        let state_dir = state_dir.into();
        let (shelf, trash) = (state_dir.join("journal"), state_dir.join("trash"));
        Self { disk, state_dir, shelf, trash, options: JournalOptions::default(), pins: Mutex::default() }
    }

    /// Carries out a plan, if all is as expected. When this returns, the changes and all that is needed to take them back
    /// are durable; when it fails, the tree is as it was before, unless the error says otherwise.
    pub fn apply(&self, id: JournalId, plan: &Plan, expected: &[Expected]) -> Result<Applied, JournalError> {
        plan.check(&self.state_dir).map_err(|reason| JournalError::Plan { reason })?;
        let names = list(&*self.disk, &self.shelf)?;
        if let Some(name) = names.iter().find(|name| name.state == State::Unsettled) {
            return Err(JournalError::Unsettled { id: name.id });
        }
        check(&*self.disk, expected)?;
        let time = self.options.clock.now();
        let prepared = prepare(&*self.disk, id, time, self.options.settled_by, plan)?;
        let sequence = names.last().map_or(0, |name| name.sequence) + 1;
        let name = Name { sequence, time, id, state: State::Unsettled };
        let place = Place::new(&self.shelf, &name);

        // Once the intent may be durable, what failed is taken back as after a crash.
        let done = apply::write_ahead(&*self.disk, &self.shelf, &place, &prepared.intent)
            .and_then(|()| apply::carry_out(&*self.disk, &place, &prepared));
        match done {
            Ok(placed) => Ok(Applied { id, sequence, placed }),
            Err(error) => Err(match self.take_back(&name) {
                Err(JournalError::NotUndone { undoing, left, .. }) => {
                    JournalError::NotUndone { id, source: Some(Box::new(error)), undoing, left }
                }
                Err(undoing) => JournalError::NotUndone {
                    id,
                    source: Some(Box::new(error)),
                    undoing: Box::new(undoing),
                    left: Vec::new(),
                },
                Ok(aside) => match error {
                    JournalError::Conflict { path, .. } => JournalError::Conflict { path, aside },
                    error => JournalError::NotApplied { source: Box::new(error), aside },
                },
            }),
        }
    }

    /// What was applied stays; the journal becomes an undo point, and those that are too old go.
    pub fn keep(&self, id: JournalId) -> Result<(), JournalError> {
        let name = self.unsettled(id)?;
        self.settle_kept(&name, State::Kept)
    }

    /// The same for one of which the store has said that it was committed: whoever has that store later can be told from
    /// somebody who has an older one.
    pub fn keep_stored(&self, id: JournalId) -> Result<(), JournalError> {
        let name = self.unsettled(id)?;
        self.settle_kept(&name, State::Stored)
    }

    /// The last journal that a store knew to be committed.
    pub fn last_stored(&self) -> Result<Option<JournalId>, JournalError> {
        let names = list(&*self.disk, &self.shelf)?;
        Ok(last_stored(&names))
    }

    /// An error if the store does not know the last journal that it knew: then it is an older one, or another, and must not
    /// be asked about any.
    pub fn check_store(&self, verdict: Verdict<'_>) -> Result<(), JournalError> {
        let names = list(&*self.disk, &self.shelf)?;
        let Some(id) = last_stored(&names) else { return Ok(()) };
        if verdict(&id).map_err(|source| JournalError::Verdict { id, source })? {
            return Ok(());
        }
        let undecided = names.iter().filter(|name| name.state == State::Unsettled).count();
        Err(JournalError::OlderStore { id, undecided })
    }

    /// What was applied is taken back. What somebody else changed meanwhile stays as it is, and is reported.
    pub fn roll_back(&self, id: JournalId) -> Result<Vec<KeptAside>, JournalError> {
        let name = self.unsettled(id)?;
        self.take_back(&name)
    }

    /// Settles what somebody who died left: whoever holds the workspace lock is the only one alive. Without a verdict,
    /// what is not marked as kept was not; one that a store settles is then an error, and nothing is changed.
    pub fn recover(&self, verdict: Option<Verdict<'_>>) -> Result<Recovered, JournalError> {
        let mut recovered = Recovered::default();
        let names = list(&*self.disk, &self.shelf)?;
        if verdict.is_none() {
            self.refuse_those_of_a_store(&names)?;
        }
        for name in names.iter().rev() {
            match name.state {
                State::Kept | State::Stored => {}
                // One that cannot be removed is in nobody's way.
                State::Gone => self.remove(name),
                State::Unsettled => {
                    let asked = verdict.map_or(Ok(false), |verdict| verdict(&name.id));
                    if asked.map_err(|source| JournalError::Verdict { id: name.id, source })? {
                        self.settle_kept(name, State::Stored)?;
                        recovered.kept.push(name.id);
                    } else {
                        recovered.aside.extend(self.take_back(name)?);
                        recovered.rolled_back.push(name.id);
                    }
                }
            }
        }
        Ok(recovered)
    }

    /// The number of the last journal that was kept; 0 before the first.
    pub fn sequence(&self) -> Result<u64, JournalError> {
        let names = list(&*self.disk, &self.shelf)?;
        Ok(names.iter().rev().find(|name| name.is_kept()).map_or(0, |name| name.sequence))
    }

    /// Keeps all journals after `sequence` from being pruned.
    pub fn pin(self: &Arc<Self>, sequence: u64) -> Pin {
        let mut pins = lock(&self.pins);
        *pins.entry(sequence).or_default() += 1;
        self.publish(&pins, sequence);
        Pin { journal: Arc::clone(self), sequence }
    }

    /// The present as a mark, with all that comes after it kept.
    pub fn pin_now(self: &Arc<Self>) -> Result<Pin, JournalError> {
        let mut sequence = self.sequence()?;
        loop {
            let pin = self.pin(sequence);
            // What others did before they could know of it may be pruned.
            let now = self.sequence()?;
            if now == sequence {
                return Ok(pin);
            }
            sequence = now;
        }
    }

    /// Tells others, if what changed is the lowest mark.
    fn publish(&self, pins: &BTreeMap<u64, usize>, changed: u64) {
        let lowest = pins.keys().next().copied();
        if let Some(others) = &self.options.pins
            && lowest.is_none_or(|lowest| lowest >= changed)
            && let Err(error) = others.publish(lowest)
        {
            tracing::warn!(%error, "others cannot be told that the way back to a snapshot is needed");
        }
    }

    /// The lowest mark of anybody.
    fn pinned(&self) -> Result<u64, JournalError> {
        let own = lock(&self.pins).keys().next().copied();
        let others = match &self.options.pins {
            Some(others) => others.of_others().doing("look for snapshots of others in", &self.state_dir)?,
            None => None,
        };
        Ok(own.into_iter().chain(others).min().unwrap_or(u64::MAX))
    }

    /// Only the store knows whether they were committed: rolling one back could undo what was answered.
    fn refuse_those_of_a_store(&self, names: &[Name]) -> Result<(), JournalError> {
        for name in names.iter().filter(|name| name.state == State::Unsettled) {
            let intent = self.intent(&Place::new(&self.shelf, name))?;
            if intent.is_some_and(|intent| intent.settled_by == SettledBy::Store) {
                return Err(JournalError::StoreDecides { id: name.id });
            }
        }
        Ok(())
    }

    fn unsettled(&self, id: JournalId) -> Result<Name, JournalError> {
        let names = list(&*self.disk, &self.shelf)?;
        let found = names.into_iter().find(|name| name.id == id && name.state == State::Unsettled);
        found.ok_or(JournalError::Unknown { id })
    }

    fn settle_kept(&self, name: &Name, state: State) -> Result<(), JournalError> {
        let place = Place::new(&self.shelf, name);
        if let Some(intent) = self.intent(&place)? {
            self.detach(&place, &intent);
        }
        self.rename(name, state)?;
        if self.options.settled_by == SettledBy::Journal {
            self.disk.sync_dir(&self.shelf).doing("sync", &self.shelf)?;
        }
        reach("journal.kept");
        if let Err(error) = self.prune() {
            // It is kept; what is old goes another time.
            tracing::warn!(%error, "old journals could not be removed");
        }
        Ok(())
    }

    fn take_back(&self, name: &Name) -> Result<Vec<KeptAside>, JournalError> {
        let place = Place::new(&self.shelf, name);
        // Without an intent the tree was not touched, and neither without the directory that is durable before it.
        let has_begun = self.disk.look(&place.pre()).doing("look at", &place.dir)?.is_some();
        let aside = match self.intent(&place)? {
            Some(intent) if has_begun => {
                // Its owner may have died before it was durable; what is moved through it must not be lost with it.
                for dir in [&place.pre(), &place.dir, &self.shelf] {
                    self.disk.sync_dir(dir).doing("sync", dir)?;
                }
                undo::undo(&*self.disk, &place, &self.trash, &intent).map_err(|error| {
                    let left = undo::left(&*self.disk, &place, &intent);
                    let (id, undoing) = (name.id, Box::new(error));
                    JournalError::NotUndone { id, source: None, undoing, left }
                })?
            }
            _ => Vec::new(),
        };
        if self.disk.look(&place.dir).doing("look at", &place.dir)?.is_some() {
            self.rename(name, State::Gone)?;
            // It must not come back when the tree has gone on.
            self.disk.sync_dir(&self.shelf).doing("sync", &self.shelf)?;
            reach("journal.gone");
            self.remove(&name.with(State::Gone));
        }
        Ok(aside)
    }

    fn rename(&self, name: &Name, state: State) -> Result<(), JournalError> {
        let from = Place::new(&self.shelf, name).dir;
        let to = Place::new(&self.shelf, &name.with(state)).dir;
        self.disk.rename(&from, &to, Replace::Refused).doing("settle", &from)
    }

    fn prune(&self) -> Result<(), JournalError> {
        let now = self.options.clock.now();
        let names = list(&*self.disk, &self.shelf)?;
        let kept: Vec<&Name> = names.iter().filter(|name| name.is_kept()).collect();
        let mut pinned = None;
        for (newer, name) in kept.iter().rev().enumerate() {
            let is_wanted = match self.options.retention {
                Retention::Last(count) => newer < count,
                Retention::For(age) => !is_older(name.time, now, age),
            };
            if newer == 0 || is_wanted {
                continue;
            }
            let pinned = match pinned {
                Some(pinned) => pinned,
                None => *pinned.insert(self.pinned()?),
            };
            if name.sequence <= pinned {
                self.rename(name, State::Gone)?;
                reach("journal.pruned");
                self.remove(&name.with(State::Gone));
            }
        }
        Ok(())
    }

    /// What is not removed now is removed when the journals are next recovered.
    fn remove(&self, name: &Name) {
        if let Err(error) = remove_tree(&*self.disk, &Place::new(&self.shelf, name).dir) {
            tracing::warn!(%error, "a journal that is not needed any more could not be removed");
        }
    }

    /// What a journal was to do; nothing, if it never came to that.
    fn intent(&self, place: &Place) -> Result<Option<Intent>, JournalError> {
        let path = place.intent();
        let Some(entry) = self.disk.look(&path).doing("look at", &path)? else { return Ok(None) };
        if entry.len > intent::MAX_BYTES as u64 {
            let reason = format!("it has {} bytes, which none of ours has", entry.len);
            return Err(JournalError::Unreadable { path: place.dir.clone(), reason });
        }
        let text = self.disk.read(&path).doing("read", &path)?;
        Intent::decode(&text).map_err(|reason| JournalError::Unreadable { path: place.dir.clone(), reason })
    }
}

impl Pin {
    /// The mark.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = lock(&self.journal.pins);
        if let Some(count) = pins.get_mut(&self.sequence) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&self.sequence);
                self.journal.publish(&pins, self.sequence);
            }
        }
    }
}

fn last_stored(names: &[Name]) -> Option<JournalId> {
    names.iter().rev().find(|name| name.state == State::Stored).map(|name| name.id)
}

fn look_in_tree(disk: &dyn Disk, path: &Path) -> Result<Option<Entry>, JournalError> {
    disk::look_in_tree(disk, path).doing("look at", path)
}

fn is_older(time: Timestamp, now: Timestamp, age: Duration) -> bool {
    now.duration_since(time).unsigned_abs() > age && now > time
}
