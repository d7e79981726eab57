//! What the model is told about the mounts.

use std::fmt::Write;

use super::super::super::plain::{counted, plain};
use super::MountReport;

/// Entries of a mount that are named.
const MAX_ENTRIES: usize = 20;
/// Skipped things that are named.
const MAX_SKIPPED: usize = 5;

impl MountReport {
    /// One paragraph: what is where, how much, and the first entries.
    pub(in super::super) fn preview(&self) -> String {
        let place = match self.at.is_root() {
            true => "The root".to_owned(),
            false => format!("`{}`", name(self.at.as_str())),
        };
        let mut out = format!(
            "{place} was copied from a directory of the host ({}, {}); changes stay in the workspace.",
            counted(self.files, "file"),
            counted(self.bytes, "byte")
        );
        if !self.top.is_empty() {
            let named = self.top.iter().take(MAX_ENTRIES).map(|entry| format!("`{}`", name(entry)));
            let _ = write!(out, " In it: {}", Vec::from_iter(named).join(", "));
            match self.top.len().saturating_sub(MAX_ENTRIES) {
                0 => out.push('.'),
                more => {
                    let _ = write!(out, ", +{more} more.");
                }
            }
        }
        if !self.skipped.is_empty() {
            let named = self.skipped.iter().take(MAX_SKIPPED);
            let named = named.map(|skipped| format!("`{}` ({})", name(&skipped.path), skipped.why));
            let _ = write!(out, " Not copied: {}", Vec::from_iter(named).join(", "));
            match self.skipped.len().saturating_sub(MAX_SKIPPED) as u64 + self.more_skipped {
                0 => out.push('.'),
                more => {
                    let _ = write!(out, ", +{more} more.");
                }
            }
        }
        out
    }
}

/// A name between backticks.
fn name(text: &str) -> String {
    plain(text, 100).replace('`', "\u{fffd}")
}
