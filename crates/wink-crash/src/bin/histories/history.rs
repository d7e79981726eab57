//! A history: what calls read and wrote, and how they ended.
//!
//! A *list* is a file to which each call appends its own id, so that what a call read says which calls it saw. A *counter* is
//! a file with a number that each call counts on: two calls that write it write the same, which a list never has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The lists and counters that all processes share.
pub(crate) const LISTS: [&str; 2] = ["lists/a", "lists/b"];
pub(crate) const COUNTERS: [&str; 2] = ["counters/a", "counters/b"];

/// What a call does, by its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A file tool that reads one file.
    Peek,
    /// A file tool that changes one file.
    Append,
    /// A file tool that counts one counter on.
    Bump,
    /// A command that appends to, or counts on, some files, and reads others.
    Command,
    /// The same, with the write turn.
    Serial,
    /// A call with a key: an effect outside, and an entry in a list.
    Charge,
    /// Reads and changes the slice of the session.
    Note,
}

impl Kind {
    /// As the tool is called.
    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Peek => "peek",
            Self::Append => "append",
            Self::Bump => "bump",
            Self::Command => "command",
            Self::Serial => "serial",
            Self::Charge => "charge",
            Self::Note => "note",
        }
    }

    pub(crate) fn of(tool: &str) -> Option<Self> {
        let all =
            [Self::Peek, Self::Append, Self::Bump, Self::Command, Self::Serial, Self::Charge, Self::Note];
        all.into_iter().find(|kind| kind.tool() == tool)
    }
}

/// What a call says of what it read: the number of entries of a list or the value of a counter, and the last entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) reads: BTreeMap<String, Version>,
    /// What it wrote over the version that it read.
    pub(crate) writes: Vec<String>,
    /// How many entries the slice had.
    pub(crate) notes: Option<usize>,
}

/// A version of a list or counter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) length: usize,
    /// The last entry; none of a counter, or of an empty list.
    pub(crate) last: Option<String>,
}

impl Version {
    /// What a file says.
    pub(crate) fn of(path: &str, text: &str) -> Option<Self> {
        if path.starts_with("counters/") {
            return Some(Self { length: text.trim().parse().ok()?, last: None });
        }
        let last = text.lines().last().map(str::to_owned);
        Some(Self { length: text.lines().count(), last })
    }
}

/// A call, as the log tells it.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) session: String,
    pub(crate) success: bool,
    /// How it ended, and what was answered.
    pub(crate) ending: String,
    pub(crate) text: String,
    pub(crate) replayed: bool,
    pub(crate) seen: Option<Seen>,
}

/// Everything that is left when all processes have ended.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The log of each session, in its order.
    pub(crate) sessions: BTreeMap<String, Vec<Event>>,
    pub(crate) lists: BTreeMap<String, Vec<String>>,
    pub(crate) counters: BTreeMap<String, usize>,
    /// The slice of each session.
    pub(crate) notes: BTreeMap<String, Vec<String>>,
    /// The effects outside, by key, each with how often it happened.
    pub(crate) effects: BTreeMap<String, usize>,
    /// Keys that are in doubt.
    pub(crate) in_doubt: Vec<String>,
    /// Whether processes were killed.
    pub(crate) killed: bool,
    /// Whether some commands worked in the workspace itself.
    pub(crate) scanned: bool,
}

impl History {
    /// Whether a version that a call says it has read must have been committed. A call that only reads can see a command at
    /// work in the workspace itself, and a commit that is taken back when its process dies: the guide says so.
    pub(crate) fn is_clean(&self, event: &Event, path: &str) -> bool {
        let wrote = event.seen.as_ref().is_some_and(|seen| seen.writes.iter().any(|write| write == path));
        wrote || event.kind == Kind::Serial || !(self.killed || self.scanned)
    }
}
