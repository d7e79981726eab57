//! Taking back what was merged and kept long ago: what is asked for, and what came of it.

use serde::{Deserialize, Serialize};

use super::FsPath;
use crate::store::JournalId;

/// What becomes of what something later changed, when an earlier change is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoForce {
    /// It stays, and nothing is undone.
    #[default]
    Refuse,
    /// It is overwritten.
    Anyway,
}

/// A journal that is to be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revert {
    /// Which.
    pub journal: JournalId,
    /// What it was merged by.
    pub by: MergedBy,
}

/// What merged a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergedBy {
    /// A call; or an undo that was undone in turn.
    Call,
    /// An undo that counts. Whatever somebody else had made of what it put back was given up then: on the way to what was
    /// before, nobody is asked for it again.
    Undo,
}

/// What [`Filesystem::revert`](super::Filesystem::revert) did, or why it did nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "nothing may have been done"]
pub struct Reverted {
    /// The paths that were changed, so that they are as they were before, sorted.
    pub files: Vec<FsPath>,
    /// The paths that are not as the journals left them, whoever changed them, sorted. Unless
    /// [forced](UndoForce::Anyway), nothing was done if there is one; else they were overwritten.
    pub changed: Vec<FsPath>,
    /// What could not be brought back, or was not removed although it was forced; sorted.
    pub left: Vec<LeftAlone>,
    /// The journals that are not kept any more. Nothing was done if there is one.
    pub forgotten: Vec<JournalId>,
}

/// Something that an undo did not touch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeftAlone {
    /// A path, or what else it is called.
    pub what: String,
    /// Why.
    pub why: String,
}

impl Reverted {
    /// Whether nothing was done.
    pub fn is_refused(&self, force: UndoForce) -> bool {
        !self.forgotten.is_empty() || (force == UndoForce::Refuse && !self.changed.is_empty())
    }
}
