//! What a merge does to the workspace, step by step: the only three things that the journal does, and undoes.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use super::disk::Meta;

/// Changes to the tree, in the order in which they are made: first all that leaves its place, what is deeper before what
/// it is in; then all that comes into place; then modes and times. Paths are relative to the root and speak of the tree as
/// the steps before have left it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<PlanStep>,
    /// What is gone already, and cannot be made again when this is undone: only remembered.
    pub lost: Vec<PathBuf>,
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
    /// Something that stays in place, or was put there as a directory, gets a mode and a time.
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
    /// In the stage: a file, link, pipe or device, or an empty directory, that nobody else knows of.
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
    /// and in this order: so what each step found can be told from what the plan did.
    pub(super) fn check(&self, state_dir: &Path) -> Result<(), String> {
        let mut seen = Seen::default();
        self.steps.iter().try_for_each(|step| seen.step(step, state_dir))
    }
}

/// What a step does, in the order in which plans do it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    #[default]
    Takes,
    Puts,
    Metas,
}

#[derive(Default)]
struct Seen<'a> {
    part: Part,
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
        let part = match step {
            PlanStep::Take { .. } => Part::Takes,
            PlanStep::Put { .. } => Part::Puts,
            PlanStep::Meta { .. } => Part::Metas,
        };
        if part < self.part {
            return Err(format!("'{}' comes after {:?}, and is one of {part:?}", path.display(), self.part));
        }
        self.part = part;
        let twice = || format!("'{}' is changed twice", path.display());
        match step {
            PlanStep::Take { slot, .. } => {
                if path.ancestors().any(|path| self.taken.contains(path)) {
                    return Err(twice());
                }
                self.taken.insert(path);
                if self.slots.insert(*slot, true).is_some() {
                    return Err(format!("slot {slot} is filled twice"));
                }
            }
            PlanStep::Put { from, .. } => {
                if !self.put.insert(path) {
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
    /// Where directories went, and where they had been.
    moves: Vec<(PathBuf, PathBuf)>,
}

impl Origins {
    /// Where that which is now at `path` was; where nothing is, what would be there if the moves were taken back.
    pub(super) fn of(&self, path: &Path) -> PathBuf {
        // All was taken before anything moved: so what is in a directory has moved with it alone, and the last that moved
        // into another is the deepest.
        let found = self.moves.iter().rev().find_map(|(to, from)| Some((from, path.strip_prefix(to).ok()?)));
        match found {
            // Joining an empty rest would leave a slash at the end.
            Some((from, rest)) if rest == Path::new("") => from.clone(),
            Some((from, rest)) => from.join(rest),
            None => path.to_owned(),
        }
    }

    /// A directory that was at `from` is put.
    pub(super) fn moved(&mut self, from: &Path, to: &Path) {
        self.moves.push((to.to_owned(), from.to_owned()));
    }
}

#[cfg(test)]
mod tests;
