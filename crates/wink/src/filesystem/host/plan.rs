//! What a merge does to the workspace, step by step: the only three things that the journal does, and undoes.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use super::disk::Meta;

/// Changes to the tree, in the order in which they are made. Paths are relative to the root and speak of the tree as the
/// steps before have left it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<PlanStep>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanStep {
    /// The entry leaves its place, with all that is below it: removed, moved, or making place for another kind.
    Take {
        /// Where it is.
        path: PathBuf,
        /// What a later step may call it by.
        slot: u32,
    },
    /// Something prepared comes into place.
    Put {
        /// Where to. The parent is there.
        path: PathBuf,
        /// What.
        from: Source,
        /// Whether a file or link that is there is replaced, in one step. Otherwise nothing may be there.
        replaces: bool,
    },
    /// Something that stays in place, or was put there as a directory, gets a mode and a time. Whoever plans does not move or
    /// replace it afterwards.
    Meta {
        /// Where it is.
        path: PathBuf,
        /// What it gets.
        meta: Meta,
    },
}

/// Where something that comes into place has been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In the stage: a file or link, or an empty directory, that nobody else knows of.
    Staged(PathBuf),
    /// In the tree: what an earlier step took.
    Taken(u32),
}

impl PlanStep {
    /// What it changes.
    pub fn path(&self) -> &Path {
        match self {
            Self::Take { path, .. } | Self::Put { path, .. } | Self::Meta { path, .. } => path,
        }
    }
}

impl Plan {
    /// What is wrong with the plan by itself, whatever the tree. A path is put, taken and given a mode at most once each,
    /// and what was put is not taken again, nor what was given a mode taken or put: so what each step found can be told from
    /// what the plan did.
    pub(super) fn check(&self, state_dir: &Path) -> Result<(), String> {
        let mut seen = Seen::default();
        self.steps.iter().try_for_each(|step| seen.step(step, state_dir))
    }
}

#[derive(Default)]
struct Seen<'a> {
    taken: HashSet<&'a Path>,
    put: HashSet<&'a Path>,
    set: HashSet<&'a Path>,
    /// Whether a slot that was filled is still so.
    slots: HashMap<u32, bool>,
}

impl<'a> Seen<'a> {
    fn step(&mut self, step: &'a PlanStep, state_dir: &Path) -> Result<(), String> {
        let path = step.path();
        if !is_plain(path) || path.starts_with(state_dir) || state_dir.starts_with(path) {
            return Err(format!("'{}' is not a path of the workspace", path.display()));
        }
        let twice = || format!("'{}' is changed twice", path.display());
        match step {
            PlanStep::Take { slot, .. } => {
                if self.put.contains(path) || self.set.contains(path) || !self.taken.insert(path) {
                    return Err(twice());
                }
                if self.slots.insert(*slot, true).is_some() {
                    return Err(format!("slot {slot} is filled twice"));
                }
            }
            PlanStep::Put { from, .. } => {
                if self.set.contains(path) || !self.put.insert(path) {
                    return Err(twice());
                }
                match from {
                    Source::Staged(staged) if is_plain(staged) && staged.starts_with(state_dir) => {}
                    Source::Staged(staged) => {
                        return Err(format!("'{}' is not in the stage", staged.display()));
                    }
                    Source::Taken(slot) => {
                        if self.slots.insert(*slot, false) != Some(true) {
                            return Err(format!("slot {slot} is empty"));
                        }
                    }
                }
            }
            PlanStep::Meta { .. } => {
                if !self.set.insert(path) {
                    return Err(twice());
                }
            }
        }
        Ok(())
    }
}

fn is_plain(path: &Path) -> bool {
    path != Path::new("") && path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Where things were before a plan began: paths below a directory that the plan moves are followed back.
#[derive(Debug, Default)]
pub(super) struct Origins {
    moves: Vec<Move>,
    /// Directories that were taken and are not put yet, by slot.
    taken: HashMap<u32, Taken>,
}

#[derive(Debug)]
struct Move {
    to: PathBuf,
    taken: Taken,
}

#[derive(Debug)]
struct Taken {
    path: PathBuf,
    /// How many moves had been made when it was taken: later ones did not change what is in it.
    after: usize,
}

impl Origins {
    /// Where that which is now at `path` was; where nothing is, what would be there if the moves were taken back.
    pub(super) fn of(&self, path: &Path) -> PathBuf {
        let mut path = path.to_owned();
        let mut count = self.moves.len();
        while let Some(index) = count.checked_sub(1) {
            count = index;
            if let Some(Move { to, taken }) = self.moves.get(index)
                && let Ok(rest) = path.strip_prefix(to)
            {
                // Joining an empty rest would leave a slash at the end.
                path = if rest == Path::new("") { taken.path.clone() } else { taken.path.join(rest) };
                count = taken.after;
            }
        }
        path
    }

    /// A directory is taken.
    pub(super) fn take(&mut self, path: &Path, slot: u32) {
        self.taken.insert(slot, Taken { path: path.to_owned(), after: self.moves.len() });
    }

    /// What was taken is put; only directories are of interest.
    pub(super) fn put(&mut self, path: &Path, slot: u32) {
        if let Some(taken) = self.taken.remove(&slot) {
            self.moves.push(Move { to: path.to_owned(), taken });
        }
    }
}

#[cfg(test)]
mod tests;
