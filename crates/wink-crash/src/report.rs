//! What was done and found, for people and as one line of JSON.

use std::collections::BTreeMap;

use serde::Serialize;

/// Everything that a run tells.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// Children that were killed inside a call.
    pub(crate) kills: u64,
    /// How many things were found; none, if all is well.
    pub(crate) findings: u64,
    /// How many of each kind.
    pub(crate) kinds: BTreeMap<&'static str, u64>,
    /// What they are: the first of them.
    pub(crate) found: Vec<String>,
    /// Calls that were sent.
    pub(crate) calls: u64,
    /// Calls that were answered.
    pub(crate) answered: u64,
    /// Kills at a random moment.
    pub(crate) random: u64,
    /// Kills while a command ran.
    pub(crate) in_commands: u64,
    /// How many of those with another process that waited for the workspace.
    pub(crate) waited_for: u64,
    /// How often two processes wrote one file at once.
    pub(crate) races: u64,
    /// Kills in the middle of an undo.
    pub(crate) in_undos: u64,
    /// Children that were killed after they had answered: they do not count.
    pub(crate) answered_before: u64,
    /// Children that died while they repaired what another had left.
    pub(crate) recoveries: u64,
    /// Workspaces that could not be used any more.
    pub(crate) lost: u64,
    /// Kills in each cell of the matrix: user, capture and filesystem.
    pub(crate) cells: BTreeMap<String, u64>,
    /// Kills at each named step.
    pub(crate) steps: BTreeMap<&'static str, u64>,
    /// Steps at which no child could be killed.
    pub(crate) never_reached: Vec<String>,
    /// How commands were captured, and how many workspaces were opened so.
    pub(crate) capture: BTreeMap<String, u64>,
    /// Crashes of the model disk.
    pub(crate) disk_crashes: u64,
    /// How long it took.
    pub(crate) seconds: f64,
    /// With what it can be done again.
    pub(crate) seed: u64,
}

impl Report {
    /// Takes note of something that must not be.
    pub(crate) fn find(&mut self, kind: &'static str, what: String) {
        // Some of each kind are told, so that many of one do not hide another.
        if self.kinds.get(kind).is_none_or(|told| *told < 5) {
            self.found.push(format!("{kind}: {what}"));
        }
        *self.kinds.entry(kind).or_default() += 1;
        self.findings += 1;
    }

    /// Takes note of something after which its workspace is left.
    pub(crate) fn lose(&mut self, kind: &'static str, what: String) {
        self.lost += 1;
        self.find(kind, what);
    }
}
