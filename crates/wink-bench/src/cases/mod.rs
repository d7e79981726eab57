//! What is measured: every row of the benchmark, and how each contender does it.
//!
//! A contender offers one function, `make(row)`: it sets the row up, does the work once to see that the answer
//! is right, and gives back a closure that does the work once per run. `None` means that the contender has
//! nothing to show in that row.

use std::str::FromStr;

#[cfg(test)]
mod tests;

mod floor;
mod rig;
mod rmcp;
mod typed_call;
mod wink;

/// The work of one row, done once per run.
pub(crate) type Case = Box<dyn FnMut()>;

/// A row of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// The typed call whose handler touches nothing.
    CallEmpty,
    /// The same, whose handler records one event and writes one small file in memory.
    CallWrite,
    /// `call/write` with a great deal of state, history and files around it.
    CallLarge,
    /// `call/write` that fails after its writes, which are taken back.
    CallFail,
    /// One question about the history of the session: the one that a policy's context asks for a policy.
    PolicyHistory,
}

impl Row {
    pub(crate) const ALL: [Row; 5] =
        [Row::CallEmpty, Row::CallWrite, Row::CallLarge, Row::CallFail, Row::PolicyHistory];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Row::CallEmpty => "call/empty",
            Row::CallWrite => "call/write",
            Row::CallLarge => "call/large",
            Row::CallFail => "call/fail",
            Row::PolicyHistory => "policy/history",
        }
    }
}

impl FromStr for Row {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        one_of(Row::ALL, Row::name, "row", name)
    }
}

/// Somebody who does the work of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// This project.
    Wink,
    /// The least that the row can cost: no checks, no transaction, no record.
    Floor,
    /// The tool router of rmcp, called directly.
    Rmcp,
    /// The tool set of rig.
    Rig,
}

impl Contender {
    pub(crate) const ALL: [Contender; 4] =
        [Contender::Wink, Contender::Floor, Contender::Rmcp, Contender::Rig];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::Wink => "wink",
            Contender::Floor => "floor",
            Contender::Rmcp => "rmcp",
            Contender::Rig => "rig",
        }
    }

    pub(crate) fn make(self, row: Row) -> Option<Case> {
        match self {
            Contender::Wink => wink::make(row, wink::Around::MUCH),
            Contender::Floor => floor::make(row),
            Contender::Rmcp => rmcp::make(row),
            Contender::Rig => rig::make(row),
        }
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        one_of(Contender::ALL, Contender::name, "contender", name)
    }
}

fn one_of<T: Copy, const N: usize>(
    all: [T; N],
    name_of: fn(T) -> &'static str,
    what: &str,
    name: &str,
) -> Result<T, String> {
    all.into_iter()
        .find(|one| name_of(*one) == name)
        .ok_or_else(|| format!("`{name}` is not a {what}; use one of: {}", all.map(name_of).join(", ")))
}
