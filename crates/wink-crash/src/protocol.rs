//! What parent and child say to each other: one JSON object a line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::calls::Turn;

/// From the parent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// Do this.
    Do(Turn),
    /// Say what there is.
    Dump,
    /// Settle an entry in doubt: whether its effect happened.
    Settle { key: String, happened: bool },
}

/// From the child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Say {
    /// Everything is open; what was interrupted is repaired.
    Ready,
    /// What came of a turn.
    Did(Vec<Answer>),
    /// What there is.
    There(Box<Dump>),
    /// It was settled.
    Settled,
}

/// The answer to one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) id: String,
    pub(crate) success: bool,
    pub(crate) text: String,
}

/// The session and the ledger, as the runtime reads them back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Dump {
    /// The slice of notes.
    pub(crate) notes: Vec<String>,
    /// The log: call id, whether it succeeded, how it ended.
    pub(crate) log: Vec<Logged>,
    /// The ledger by the charge's own key: `recorded`, `in_doubt` or `claimed`.
    pub(crate) ledger: BTreeMap<String, Standing>,
    /// How many undos the session tells of.
    pub(crate) undone: usize,
    /// How commands are captured.
    pub(crate) capture: String,
    /// Whether overlays work for this user.
    pub(crate) has_overlays: bool,
}

/// An event of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Logged {
    pub(crate) call_id: String,
    pub(crate) success: bool,
    pub(crate) ending: String,
    pub(crate) replayed: bool,
}

/// What the ledger says of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    Recorded,
    InDoubt,
    Claimed,
}
