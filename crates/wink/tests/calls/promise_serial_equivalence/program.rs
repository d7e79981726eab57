//! What the tools of the test are told to do. Both the tools and the model read it.

use proptest::prelude::*;
use wink::schemars::{self, JsonSchema};
use wink::serde::{self, Deserialize, Serialize};

pub(crate) const SLICES: [&str; 3] = ["red", "green", "blue"];
/// Files, directories, and files in directories that need not be there.
pub(crate) const PATHS: [&str; 7] = ["a", "b", "d/x", "d/y", "d", "e/f/z", "e/w"];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "serde")]
#[schemars(crate = "schemars")]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    pub(crate) end: End,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "serde")]
#[schemars(crate = "schemars")]
pub(crate) struct Op {
    pub(crate) verb: Verb,
    /// Which slice or path.
    pub(crate) on: usize,
    pub(crate) value: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "serde")]
#[schemars(crate = "schemars")]
pub(crate) enum Verb {
    Look,
    Push,
    Clear,
    Read,
    Write,
    Delete,
    /// Deletes with everything below.
    DeleteAll,
    /// Makes a directory, but no parents.
    Mkdir,
    /// Moves to another path.
    Rename,
    /// Says something in a LOG slice.
    Trail,
    /// Does something that no rollback reaches.
    Outside,
    /// Asks how often the declared tool succeeded.
    History,
    /// Asks how many calls there were.
    Log,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "serde")]
#[schemars(crate = "schemars")]
pub(crate) enum End {
    Well,
    Error,
    Refuse,
    Escalate,
}

impl Op {
    pub(crate) fn path(&self) -> &'static str {
        PATHS[self.on % PATHS.len()]
    }

    /// Where it is moved to.
    pub(crate) fn target(&self) -> &'static str {
        PATHS[(self.on + 1 + self.value.unsigned_abs() as usize) % PATHS.len()]
    }

    /// What an undeclared use of it is called; none for what the lying tool does declare.
    pub(crate) fn undeclared(&self) -> Option<(String, &'static str)> {
        let slice = || format!("slice {}", SLICES[self.on % SLICES.len()]);
        let path = || format!("path {}", self.path());
        Some(match self.verb {
            Verb::Look => (slice(), "read"),
            Verb::Push | Verb::Clear => (slice(), "write"),
            // What is deleted is looked for first.
            Verb::Read | Verb::Delete => (path(), "read"),
            Verb::Write | Verb::DeleteAll | Verb::Mkdir | Verb::Rename => (path(), "write"),
            Verb::Trail => ("slice trail".to_owned(), "write"),
            Verb::Outside => return None,
            Verb::History => ("the history of calls".to_owned(), "read"),
            Verb::Log => ("slice wink.tool_invoked".to_owned(), "read"),
        })
    }
}

pub(crate) fn program() -> impl Strategy<Value = Program> {
    let verb = prop_oneof![
        10 => Just(Verb::Look),
        10 => Just(Verb::Push),
        2 => Just(Verb::Clear),
        10 => Just(Verb::Read),
        10 => Just(Verb::Write),
        2 => Just(Verb::Delete),
        2 => Just(Verb::DeleteAll),
        4 => Just(Verb::Mkdir),
        6 => Just(Verb::Rename),
        2 => Just(Verb::Trail),
        1 => Just(Verb::Outside),
        2 => Just(Verb::History),
        2 => Just(Verb::Log),
    ];
    // Few values, so that idempotent calls come twice.
    let op = (verb, 0..PATHS.len(), 0..3_i64).prop_map(|(verb, on, value)| Op { verb, on, value });
    let end = prop_oneof![
        12 => Just(End::Well),
        2 => Just(End::Error),
        2 => Just(End::Refuse),
        1 => Just(End::Escalate),
    ];
    (proptest::collection::vec(op, 0..3), end).prop_map(|(ops, end)| Program { ops, end })
}
