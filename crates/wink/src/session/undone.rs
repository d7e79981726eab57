//! The event of an undo.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::InvocationId;
use super::slice::{SliceKind, SliceType};
use crate::filesystem::{FsPath, LeftAlone, UndoForce};

/// How far an undo goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoReach {
    /// What this call changed.
    #[default]
    Call,
    /// Everything that the session and its calls changed since just before it.
    ToBefore,
}

/// A past call was undone, or several. The calls stay in the log, and so does what they did outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Undone {
    /// This undo, unique among calls: it can be undone by this.
    pub id: InvocationId,
    /// The call, or earlier undo, that was named.
    pub call: InvocationId,
    /// How far it went.
    pub reach: UndoReach,
    /// Whether what something later changed was overwritten.
    pub force: UndoForce,
    /// The successful calls and earlier undos that were undone, in the order in which they ended. Not those that an earlier undo
    /// had undone already.
    pub calls: Vec<InvocationId>,
    /// The paths that were changed, so that they are as they were before, sorted.
    pub files: Vec<FsPath>,
    /// The slices that were changed, so that they are as they were before, by name, sorted.
    pub slices: Vec<String>,
    /// The paths among `files` that something later had changed, and that were overwritten.
    pub overwritten_files: Vec<FsPath>,
    /// The slices among `slices` that something later had changed, and that were overwritten.
    pub overwritten_slices: Vec<String>,
    /// What those calls changed and this did not touch, or could not bring back.
    pub left: Vec<LeftAlone>,
    /// What those calls did outside, which is not undone: the ledger goes on answering for it.
    pub effects: Vec<KeptEffect>,
    /// When.
    pub time: Timestamp,
}

/// An entry of the ledger that outlives the undo of its call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeptEffect {
    /// The tool.
    pub tool: String,
    /// The key under which it counts.
    pub key: String,
    /// The record of the effect.
    pub effect_id: String,
}

impl SliceType for Undone {
    const NAME: &'static str = "wink.undone";
    const KIND: SliceKind = SliceKind::Log;
}

/// For people: what was undone, and what was not.
impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            count => format!("{count} {what}s"),
        };
        let is_nothing = self.calls.is_empty() && self.files.is_empty() && self.slices.is_empty();
        match is_nothing {
            true => write!(f, "undid nothing: whatever was changed since is undone already")?,
            false => write!(f, "undid {}", count(self.calls.len(), "call"))?,
        }
        match (self.files.len(), self.slices.len()) {
            (0, 0) if is_nothing => {}
            (0, 0) => write!(f, ": nothing had to be put back")?,
            (1, 0) => write!(f, ": 1 file is as before")?,
            (0, 1) => write!(f, ": 1 part of the session is as before")?,
            (files, 0) => write!(f, ": {files} files are as before")?,
            (0, parts) => write!(f, ": {parts} parts of the session are as before")?,
            (files, parts) => {
                let parts = if parts == 1 { "1 part".to_owned() } else { format!("{parts} parts") };
                write!(f, ": {} and {parts} of the session are as before", count(files, "file"))?;
            }
        }
        for LeftAlone { what, why } in &self.left {
            write!(f, "\nleft alone: {what}: {why}")?;
        }
        for KeptEffect { tool, key, .. } in &self.effects {
            write!(f, "\nnot undone: what {tool} did outside; the ledger keeps its entry {key}")?;
        }
        Ok(())
    }
}
