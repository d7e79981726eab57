//! From a plan to an intent: everything the plan touches is looked at, and nothing is changed.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::super::disk::{Disk, Entry};
use super::super::plan::{Origins, Plan, PlanStep, Source};
use super::error::{Doing, JournalError};
use super::intent::{From, Intent, Lost, MetaRecord, Parent, Record, Stamp};
use super::{SettledBy, look_in_tree};
use crate::filesystem::{EntryKind, FileVersion};
use crate::store::JournalId;

/// What a path must be like before the plan begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The path.
    pub path: PathBuf,
    /// What must be there.
    pub state: ExpectedState,
}

/// What must be at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedState {
    /// Nothing.
    Nothing,
    /// A directory, whatever is in it.
    Directory,
    /// This kind of entry, in exactly this state ([`Entry::version`]).
    Version(EntryKind, FileVersion),
}

impl Expected {
    fn is_met_by(&self, entry: Option<&Entry>) -> bool {
        match (&self.state, entry) {
            (ExpectedState::Nothing, None) => true,
            (ExpectedState::Directory, Some(entry)) => entry.kind == EntryKind::Directory,
            (ExpectedState::Version(kind, version), Some(entry)) => {
                entry.kind == *kind && entry.version() == *version
            }
            _ => false,
        }
    }
}

/// An intent, and what the steps that put something will put.
pub(super) struct Prepared {
    pub(super) intent: Intent,
    /// The version of what each step puts, before it does, by the step's number.
    pub(super) versions: HashMap<usize, FileVersion>,
}

pub(super) fn check(disk: &dyn Disk, expected: &[Expected]) -> Result<(), JournalError> {
    for expectation in expected {
        let entry = look_in_tree(disk, &expectation.path)?;
        if !expectation.is_met_by(entry.as_ref()) {
            return Err(conflict(&expectation.path));
        }
    }
    Ok(())
}

pub(super) fn conflict(path: &Path) -> JournalError {
    JournalError::Conflict { path: path.to_owned(), aside: Vec::new() }
}

pub(super) fn prepare(
    disk: &dyn Disk,
    id: JournalId,
    time: Timestamp,
    settled_by: SettledBy,
    plan: &Plan,
) -> Result<Prepared, JournalError> {
    let steps = Vec::with_capacity(plan.steps.len());
    let lost = plan.lost.iter().map(|path| Lost { path: path.clone() }).collect();
    let intent = Intent { id, time, settled_by, steps, parents: Vec::new(), lost };
    let mut look = Look {
        disk,
        origins: Origins::default(),
        taken: HashMap::new(),
        instead: HashMap::new(),
        left: HashSet::new(),
        placed: HashMap::new(),
        set: HashMap::new(),
        seen: HashSet::new(),
        images: 0,
        prepared: Prepared { intent, versions: HashMap::new() },
    };
    plan.steps.iter().try_for_each(|step| look.step(step))?;
    Ok(look.prepared)
}

struct Look<'a> {
    disk: &'a dyn Disk,
    origins: Origins,
    /// What was taken, and where it was before.
    taken: HashMap<u32, (PathBuf, Entry)>,
    /// Slots whose contents came to another's place already, and where there is the same.
    instead: HashMap<u32, u32>,
    /// Where something was taken.
    left: HashSet<PathBuf>,
    /// What was put, and where it was before the plan, if it was in the tree.
    placed: HashMap<&'a Path, (Option<PathBuf>, Stamp)>,
    /// The inodes that the plan gives another mode and time.
    set: HashMap<(u64, u64), MetaRecord>,
    /// Directories that are among the parents already.
    seen: HashSet<PathBuf>,
    images: u32,
    prepared: Prepared,
}

impl<'a> Look<'a> {
    fn step(&mut self, step: &'a PlanStep) -> Result<(), JournalError> {
        let record = match step {
            PlanStep::Take { path, slot } => self.take(path, *slot)?,
            PlanStep::Put { path, from, replaces } => self.put(path, from, *replaces)?,
            PlanStep::Meta { path, meta } => {
                let (origin, before) = self.stays(path)?;
                let after = MetaRecord::from(*meta);
                self.set.insert((before.dev, before.ino), after);
                Record::Meta { path: path.clone(), origin, before, after }
            }
        };
        self.prepared.intent.steps.push(record);
        Ok(())
    }

    fn take(&mut self, path: &Path, slot: u32) -> Result<Record, JournalError> {
        let origin = self.origins.of(path);
        self.parent_of(&origin)?;
        let entry = self.look(&origin)?.ok_or_else(|| conflict(path))?;
        let before = self.by_then(&entry);
        if entry.kind == EntryKind::Directory {
            // Some filesystems write down in a directory where it is, and give it a new time for that.
            self.remember(&origin, &entry);
        }
        self.left.insert(origin.clone());
        self.taken.insert(slot, (origin.clone(), entry));
        Ok(Record::Take { path: path.to_owned(), origin, slot, before })
    }

    fn put(&mut self, path: &'a Path, from: &Source, replaces: bool) -> Result<Record, JournalError> {
        let origin = self.origins.of(path);
        self.parent_of(&origin)?;
        let (from, entry, was) = match from {
            Source::Staged(staged) => (From::Staged(staged.clone()), self.staged(staged)?, None),
            Source::Taken(slot) => {
                let slot = self.name_for(*slot, &origin);
                let no_slot = || JournalError::Plan { reason: format!("slot {slot} is empty") };
                let (was, entry) = self.taken.remove(&slot).ok_or_else(no_slot)?;
                if entry.kind == EntryKind::Directory {
                    self.origins.moved(&was, path);
                }
                (From::Taken(slot), entry, Some(was))
            }
        };
        let replaced = if replaces {
            let before = self.look(&origin)?.filter(|entry| entry.kind != EntryKind::Directory);
            let number = self.images;
            self.images += 1;
            Some((self.by_then(&before.ok_or_else(|| conflict(path))?), number))
        } else {
            let makes_place = origin.ancestors().any(|path| self.left.contains(path));
            if !makes_place && self.look(&origin)?.is_some() {
                return Err(conflict(path));
            }
            None
        };
        let ours = Stamp::of(&entry);
        self.prepared.versions.insert(self.prepared.intent.steps.len(), entry.version());
        self.placed.insert(path, (was, ours.clone()));
        Ok(Record::Put { path: path.to_owned(), origin, from, ours, replaced })
    }

    /// Of two names of one file, both taken, the one comes back that was there: nobody could tell them apart otherwise.
    fn name_for(&mut self, slot: u32, origin: &Path) -> u32 {
        let slot = self.instead.remove(&slot).unwrap_or(slot);
        let Some((_, entry)) = self.taken.get(&slot).filter(|(_, entry)| entry.links > 1) else {
            return slot;
        };
        let is_other_name = |(_, (was, other)): &(&u32, &(PathBuf, Entry))| {
            was == origin && (other.dev, other.ino) == (entry.dev, entry.ino)
        };
        match self.taken.iter().find(is_other_name).map(|(other, _)| *other) {
            Some(other) if other != slot => {
                self.instead.insert(other, slot);
                other
            }
            _ => slot,
        }
    }

    fn staged(&self, staged: &Path) -> Result<Entry, JournalError> {
        let problem =
            |what| JournalError::Plan { reason: format!("'{}' in the stage {what}", staged.display()) };
        let entry = self.look(staged)?.ok_or_else(|| problem("does not exist"))?;
        match entry.kind {
            EntryKind::Directory if !self.disk.read_dir(staged).doing("list", staged)?.is_empty() => {
                // Each path is put by itself, so that each can be told from what somebody else made there.
                Err(problem("is a directory that is not empty"))
            }
            _ => Ok(entry),
        }
    }

    /// What an entry is known by when the plan has come here: it may have got another time, by this name or another.
    fn by_then(&self, entry: &Entry) -> Stamp {
        let stamp = Stamp::of(entry);
        match self.set.get(&(entry.dev, entry.ino)) {
            Some(set) => {
                let owner = set.owner.or(stamp.owner);
                Stamp { mode: set.mode, modified: set.modified, owner, ..stamp }
            }
            None => stamp,
        }
    }

    /// Where what gets a mode and a time was, and what it was like.
    fn stays(&self, path: &Path) -> Result<(PathBuf, Stamp), JournalError> {
        match self.placed.get(path) {
            Some((None, stamp)) if stamp.kind != EntryKind::Directory => {
                let reason = format!("'{}' is put: stage it with its mode and time", path.display());
                Err(JournalError::Plan { reason })
            }
            Some((None, stamp)) => Ok((path.to_owned(), stamp.clone())),
            Some((Some(was), stamp)) => Ok((was.clone(), stamp.clone())),
            None => {
                let origin = self.origins.of(path);
                let entry = self.look(&origin)?.ok_or_else(|| conflict(path))?;
                Ok((origin, Stamp::of(&entry)))
            }
        }
    }

    /// Remembers the directory that an entry is in. One that the plan itself makes was not there, or behind a link that
    /// it takes away, and goes again.
    fn parent_of(&mut self, origin: &Path) -> Result<(), JournalError> {
        let parent = origin.parent().unwrap_or(Path::new(""));
        if !self.seen.contains(parent)
            && let Some(entry) = look_in_tree(self.disk, parent)?
            && entry.kind == EntryKind::Directory
        {
            self.remember(parent, &entry);
        }
        Ok(())
    }

    fn remember(&mut self, path: &Path, entry: &Entry) {
        if self.seen.insert(path.to_owned()) {
            self.prepared.intent.parents.push(Parent { path: path.to_owned(), before: Stamp::of(entry) });
        }
    }

    fn look(&self, path: &Path) -> Result<Option<Entry>, JournalError> {
        self.disk.look(path).doing("look at", path)
    }
}
