//! The session's STATE: every slice, every policy's state, and the index of successful calls.
//!
//! The root sits behind an `Arc`. A snapshot is a copy of that pointer; the next publication then copies the
//! tables (their entries are persistent collections) and leaves the snapshot alone. Without a snapshot the
//! tables are changed in place.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fork::Fork;
use super::reducer::Slot;
use super::slice::{Cell, Change, Item, SliceDef};
use super::tally::Tally;
use crate::support::names::ByName;

/// How often a tool succeeded in this session, and when last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallStat {
    /// The number of committed successes.
    pub count: u64,
    /// The time of the last one.
    pub last: Timestamp,
}

/// A change of how often a tool succeeded. It can be made on whatever is there, so that it loses no success that came
/// between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recount {
    /// How many more successes.
    pub(crate) more: i64,
    /// The time of the last one, if nobody succeeded since.
    pub(crate) was: Option<Timestamp>,
    /// What that becomes.
    pub(crate) last: Option<Timestamp>,
}

#[derive(Clone, Default)]
pub(crate) struct Root {
    /// By slot; shorter than the registry while nobody wrote to the later ones.
    slices: Vec<Option<Cell>>,
    policies: HashMap<Arc<str>, PolicyCell>,
    calls: ByName<CallStat>,
    /// The sum of all counts in `calls`.
    total_calls: u64,
    /// Of the LOG slices that are counted.
    tallies: Vec<(Slot, Tally)>,
}

impl Root {
    pub(crate) fn cell(&self, slot: Slot, def: &SliceDef) -> Cell {
        match self.slices.get(slot.0) {
            Some(Some(cell)) => cell.clone(),
            Some(None) | None => Cell::empty(def),
        }
    }

    pub(crate) fn version(&self, slot: Slot) -> u64 {
        self.slices.get(slot.0).and_then(Option::as_ref).map_or(0, |cell| cell.version)
    }

    pub(crate) fn policy_version(&self, key: &str) -> u64 {
        self.policies.get(key).map_or(0, |cell| cell.version)
    }

    /// Changes a slice in place.
    pub(crate) fn apply(&mut self, slot: Slot, def: &SliceDef, change: &Change, version: u64) {
        if self.slices.get(slot.0).is_none_or(Option::is_none) {
            self.set(slot, Cell::empty(def));
        }
        if let Some(Some(cell)) = self.slices.get_mut(slot.0) {
            cell.apply(def, change);
            cell.version = version;
        }
        if def.is_counted {
            self.tally_mut(slot).apply(def, change);
        }
    }

    /// As [`Root::apply`], for a LOG slice whose last `later` items come after the change.
    pub(crate) fn apply_under(
        &mut self,
        slot: Slot,
        def: &SliceDef,
        change: &Change,
        version: u64,
        later: usize,
    ) {
        let tail = match self.slices.get_mut(slot.0) {
            Some(Some(cell)) if later > 0 => Some(cell.take_last(later)),
            _ => None,
        };
        self.apply(slot, def, change, version);
        if let (Some(tail), Some(Some(cell))) = (tail, self.slices.get_mut(slot.0)) {
            cell.put_last(tail);
        }
    }

    /// A slice, to be changed where it is.
    pub(super) fn cell_mut(&mut self, slot: Slot, def: &SliceDef) -> Option<&mut Cell> {
        if self.slices.get(slot.0).is_none_or(Option::is_none) {
            self.set(slot, Cell::empty(def));
        }
        self.slices.get_mut(slot.0).and_then(Option::as_mut)
    }

    /// How many items of each slice are in memory, of those that have some there.
    pub(super) fn held(&self) -> Vec<(Slot, usize)> {
        let held = self.slices.iter().enumerate().filter_map(|(at, cell)| {
            let held = cell.as_ref()?.items.held();
            (held > 0).then_some((Slot(at), held))
        });
        held.collect()
    }

    /// Counts what was added to a slice without being in memory.
    pub(super) fn tally_change(&mut self, slot: Slot, def: &SliceDef, change: &Change) {
        if def.is_counted {
            self.tally_mut(slot).apply(def, change);
        }
    }

    pub(super) fn tally(&self, slot: Slot) -> Option<&Tally> {
        self.tallies.iter().find(|(of, _)| *of == slot).map(|(_, tally)| tally)
    }

    pub(super) fn set_tally(&mut self, slot: Slot, tally: Tally) {
        *self.tally_mut(slot) = tally;
    }

    /// Counts a slice whose contents were set.
    pub(crate) fn count(&mut self, slot: Slot, def: &SliceDef) {
        if def.is_counted {
            *self.tally_mut(slot) = Tally::of(def, &self.cell(slot, def).items);
        }
    }

    /// How many items of a counted slice there are under two names, and the latest if it is kept.
    pub(crate) fn counted(&self, slot: Slot, under: [Arc<str>; 2]) -> Option<(u64, Option<&Item>)> {
        self.tally(slot)?.get(under)
    }

    fn tally_mut(&mut self, slot: Slot) -> &mut Tally {
        let at = self.tallies.iter().position(|(of, _)| *of == slot).unwrap_or_else(|| {
            self.tallies.push((slot, Tally::default()));
            self.tallies.len() - 1
        });
        // The place was just found or made.
        #[expect(clippy::indexing_slicing, reason = "the index is of this very list")]
        &mut self.tallies[at].1
    }

    /// Sets a slice, and hands back what was there.
    pub(crate) fn set(&mut self, slot: Slot, cell: Cell) -> Option<Cell> {
        if self.slices.len() <= slot.0 {
            self.slices.resize_with(slot.0 + 1, || None);
        }
        self.slices.get_mut(slot.0).and_then(|place| place.replace(cell))
    }

    pub(crate) fn policy(&self, key: &str) -> PolicyCell {
        self.policies.get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn policy_item(&self, key: &str, item: &str) -> Option<Arc<Value>> {
        self.policies.get(key).and_then(|cell| cell.get(item))
    }

    pub(crate) fn set_policy(&mut self, key: Arc<str>, cell: PolicyCell) {
        self.policies.insert(key, cell);
    }

    pub(crate) fn set_policy_item(
        &mut self,
        key: Arc<str>,
        item: Arc<str>,
        value: Option<Arc<Value>>,
        version: u64,
    ) {
        let cell = self.policies.entry(key).or_default();
        cell.set(item, value);
        cell.version = version;
    }

    pub(crate) fn clear_policies(&mut self) {
        self.policies.clear();
    }

    pub(crate) fn policies(&self) -> impl Iterator<Item = (&Arc<str>, &PolicyCell)> {
        self.policies.iter()
    }

    pub(crate) fn calls(&self, tool: &str) -> Option<CallStat> {
        self.calls.get(tool).copied()
    }

    pub(crate) fn total_calls(&self) -> u64 {
        self.total_calls
    }

    pub(crate) fn all_calls(&self) -> &ByName<CallStat> {
        &self.calls
    }

    pub(crate) fn set_calls(&mut self, calls: ByName<CallStat>) {
        self.total_calls = calls.values().fold(0, |total, stat| total.saturating_add(stat.count));
        self.calls = calls;
    }

    pub(crate) fn count_success(&mut self, tool: &Arc<str>, at: Timestamp) {
        self.total_calls = self.total_calls.saturating_add(1);
        match self.calls.get_mut(tool) {
            Some(stat) => *stat = CallStat { count: stat.count.saturating_add(1), last: at },
            None => {
                self.calls.insert(Arc::clone(tool), CallStat { count: 1, last: at });
            }
        }
    }

    pub(crate) fn recount(&mut self, tool: &Arc<str>, Recount { more, was, last }: Recount) {
        let now = self.calls(tool);
        let before = now.map_or(0, |stat| stat.count);
        let count = before.saturating_add_signed(more);
        let last = if now.map(|stat| stat.last) == was { last } else { None };
        match last.or(now.map(|stat| stat.last)).filter(|_| count > 0) {
            Some(last) => _ = self.calls.insert(Arc::clone(tool), CallStat { count, last }),
            None => _ = self.calls.remove(tool),
        }
        let counted = self.calls(tool).map_or(0, |stat| stat.count);
        self.total_calls = self.total_calls.saturating_sub(before).saturating_add(counted);
    }

    /// Takes over what `fork` changed, and leaves it what was there. The fork has been rebased onto this root.
    pub(crate) fn take(&mut self, fork: &mut Fork, version: u64) {
        for touched in fork.touched.iter_mut().filter(|touched| !touched.changes.is_empty()) {
            if let Some(def) = &touched.blind {
                for change in &touched.changes {
                    self.apply(touched.slot, def, change, version);
                }
                continue;
            }
            let cell = std::mem::replace(&mut touched.cell, Cell::nothing());
            if let Some(before) = self.set(touched.slot, Cell { version, ..cell }) {
                touched.cell = before;
            }
        }
        for policy in fork.policies.iter_mut().filter(|policy| !policy.changes.is_empty()) {
            let cell = std::mem::take(&mut policy.cell);
            self.set_policy(Arc::clone(&policy.key), PolicyCell { version, ..cell });
        }
        if let Some((tool, at)) = &fork.success {
            self.count_success(tool, *at);
        }
    }

    /// Marks everything as changed by publication `version`, so that no fork from before mistakes it for what it
    /// saw.
    pub(crate) fn renew(&mut self, version: u64) {
        for cell in self.slices.iter_mut().flatten() {
            cell.version = version;
        }
        for cell in self.policies.values_mut() {
            cell.version = version;
        }
    }
}

/// One policy instance's state: small JSON values by key.
#[derive(Clone, Default)]
pub(crate) struct PolicyCell {
    items: imbl::HashMap<Arc<str>, Arc<Value>>,
    pub(crate) version: u64,
}

impl PolicyCell {
    pub(crate) fn get(&self, item: &str) -> Option<Arc<Value>> {
        self.items.get(item).cloned()
    }

    pub(crate) fn set(&mut self, item: Arc<str>, value: Option<Arc<Value>>) {
        match value {
            Some(value) => self.items.insert(item, value),
            None => self.items.remove(&item),
        };
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Value>)> {
        self.items.iter()
    }
}
