//! What kept journals remember: for undoing a call, and for going back to a mark.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::super::disk::Meta;
use super::Journal;
use super::error::JournalError;
use super::intent::{From, Intent, Record, Stamp};
use super::shelf::{Name, Place, list};
use super::touched::rebased;
use crate::filesystem::EntryKind;
use crate::store::JournalId;

/// One kept journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// Which.
    pub id: JournalId,
    /// How many there had been, with this one.
    pub sequence: u64,
    /// When.
    pub time: Timestamp,
    /// What was at the paths that it changed, as they were called before it, in the order of the plan. Going back is to
    /// make these true, last first.
    pub before: Vec<(PathBuf, Before)>,
    /// What it left, at the paths as they were called when it had done that, in the order of the plan.
    pub after: Vec<(PathBuf, After)>,
    /// What was gone when it began, and cannot be made again.
    pub lost: Vec<PathBuf>,
}

impl Past {
    /// Every path that it changed, as it was called before or after; some twice.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let before = self.before.iter().map(|(path, _)| path.as_path());
        before.chain(self.after.iter().map(|(path, _)| path.as_path()))
    }
}

/// What was at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// This, which is now in the journal, with all that was below it.
    Image {
        /// Where it can be read, as long as the journal is kept.
        at: PathBuf,
        /// What it was. An image that does not fit was changed through another name of it, and cannot be used.
        stamp: Stamp,
    },
    /// This, which was moved.
    Moved {
        /// Where to.
        to: PathBuf,
        /// What it was.
        stamp: Stamp,
    },
    /// This, which stayed, with another mode or time.
    InPlace(Stamp),
}

/// What a journal left at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// Nothing.
    Nothing,
    /// This.
    Entry(Stamp),
    /// What had been there, with this mode and time.
    Meta(Meta),
}

impl Journal {
    /// What a kept journal remembers; nothing, if it was pruned or never was.
    pub fn past(&self, id: JournalId) -> Result<Option<Past>, JournalError> {
        let names = list(&*self.disk, &self.shelf)?;
        let found = names.iter().find(|name| name.id == id && name.is_kept());
        found.map_or(Ok(None), |name| self.remembered(name))
    }

    /// What the kept journals after `sequence` remember, last first. Nothing, if one of them was pruned: then there is no
    /// way back.
    pub fn since(&self, sequence: u64) -> Result<Option<Vec<Past>>, JournalError> {
        let names = list(&*self.disk, &self.shelf)?;
        let kept = names.iter().filter(|name| name.is_kept());
        let later: Vec<&Name> = kept.filter(|name| name.sequence > sequence).collect();
        let last = later.last().map_or(sequence, |name| name.sequence);
        if later.len() as u64 != last - sequence {
            return Ok(None);
        }
        // Collecting options: one that is missing makes all of it missing.
        later.into_iter().rev().map(|name| self.remembered(name)).collect()
    }

    fn remembered(&self, name: &Name) -> Result<Option<Past>, JournalError> {
        let place = Place::new(&self.shelf, name);
        Ok(self.intent(&place)?.map(|intent| past(name, &place, intent)))
    }
}

fn past(name: &Name, place: &Place, intent: Intent) -> Past {
    let after = left_by(place, &intent);
    let moved: HashMap<u32, &Path> =
        after.iter().filter_map(|left| Some((left.slot?, left.path.as_path()))).collect();
    // Where something was taken or replaced, it was there, and not nothing.
    let mut held = HashSet::new();
    let mut before = Vec::with_capacity(intent.steps.len());
    for step in &intent.steps {
        let state = match step {
            Record::Take { slot, before, .. } => match moved.get(slot) {
                Some(to) => Before::Moved { to: (*to).to_owned(), stamp: before.clone() },
                None => Before::Image { at: place.taken(*slot), stamp: before.clone() },
            },
            Record::Put { replaced: Some((stamp, number)), .. } => {
                Before::Image { at: place.image(*number), stamp: stamp.clone() }
            }
            Record::Put { replaced: None, .. } => Before::Nothing,
            Record::Meta { before, .. } => Before::InPlace(before.clone()),
        };
        if matches!(state, Before::Image { .. } | Before::Moved { .. }) {
            held.insert(step.origin());
        }
        before.push((step.origin().to_owned(), state));
    }
    before.retain(|(path, state)| *state != Before::Nothing || !held.contains(path.as_path()));
    let after = after.into_iter().map(|left| (left.path, left.state)).collect();
    let lost = intent.lost.into_iter().map(|lost| lost.path).collect();
    Past { id: name.id, sequence: name.sequence, time: intent.time, before, after, lost }
}

struct Left {
    path: PathBuf,
    state: After,
    /// What it was called by, if it was moved.
    slot: Option<u32>,
}

/// Follows what is put as directories are moved; what ends in the journal was not left in the tree.
fn left_by(place: &Place, intent: &Intent) -> Vec<Left> {
    let mut all: Vec<Left> = Vec::with_capacity(intent.steps.len());
    let mut put = HashSet::new();
    for step in &intent.steps {
        let (path, state, slot) = match step {
            Record::Take { path, slot, before, .. } => {
                follow(&mut all, path, &place.taken(*slot), before);
                (path, After::Nothing, None)
            }
            Record::Put { path, from, ours, .. } => {
                put.insert(path.as_path());
                let slot = match from {
                    From::Staged(_) => None,
                    From::Taken(slot) => {
                        follow(&mut all, &place.taken(*slot), path, ours);
                        Some(*slot)
                    }
                };
                (path, After::Entry(ours.clone()), slot)
            }
            Record::Meta { path, after, .. } => (path, After::Meta(Meta::from(*after)), None),
        };
        all.push(Left { path: path.clone(), state, slot });
    }
    all.retain(|left| {
        !left.path.starts_with(&place.dir)
            && (left.state != After::Nothing || !put.contains(left.path.as_path()))
    });
    all
}

fn follow(all: &mut [Left], from: &Path, to: &Path, what: &Stamp) {
    if what.kind == EntryKind::Directory {
        for left in all {
            if let Some(now) = rebased(&left.path, from, to) {
                left.path = now;
            }
        }
    }
}
