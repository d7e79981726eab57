//! Counts that are kept with a LOG slice, so that nobody has to read the log to know how much of something is in it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Session;
use super::items::Items;
use super::slice::{Change, Item, SliceDef, SliceType};
use crate::support::lock::lock;

/// Under what an item of a LOG slice is counted.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// The names.
    pub under: [&'a Arc<str>; 2],
    /// Whether the latest one has to be found by them as well.
    pub keep_latest: bool,
}

/// How many items there are under each pair of names.
#[derive(Clone, Default)]
pub(super) struct Tally {
    entries: Vec<Entry>,
    places: HashMap<[Arc<str>; 2], usize>,
    /// Where the last item was counted: most likely the next one is, too.
    recent: usize,
}

#[derive(Clone)]
struct Entry {
    under: [Arc<str>; 2],
    count: u64,
    latest: Option<Item>,
}

/// A tally as a summary has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredTally {
    /// The number of the last record that is counted.
    pub(super) upto: u64,
    /// The version of the items.
    version: u32,
    entries: Vec<StoredEntry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredEntry {
    under: [Arc<str>; 2],
    count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latest: Option<Value>,
}

impl Tally {
    /// The form in which it is kept, of all records up to number `upto`.
    pub(super) fn to_stored(&self, def: &SliceDef, upto: u64) -> Result<StoredTally, String> {
        let mut entries = Vec::new();
        for Entry { under, count, latest } in &self.entries {
            let latest = latest.as_ref().map(|latest| def.encode(latest)).transpose()?;
            entries.push(StoredEntry { under: under.clone(), count: *count, latest });
        }
        Ok(StoredTally { upto, version: def.version, entries })
    }

    /// Reads what [`Tally::to_stored`] made.
    pub(super) fn from_stored(def: &SliceDef, stored: &StoredTally) -> Result<Self, String> {
        let mut tally = Self::default();
        for StoredEntry { under, count, latest } in &stored.entries {
            let latest = latest.clone().map(|latest| def.decode(stored.version, latest)).transpose()?;
            tally.places.insert(under.clone(), tally.entries.len());
            tally.entries.push(Entry { under: under.clone(), count: *count, latest });
        }
        Ok(tally)
    }

    /// The counts of a whole slice.
    pub(super) fn of(def: &SliceDef, items: &Items) -> Self {
        let mut tally = Self::default();
        items.iter().for_each(|item| tally.add(def, &item));
        tally
    }

    pub(super) fn apply(&mut self, def: &SliceDef, change: &Change) {
        match change {
            Change::Append(item) => self.add(def, item),
            Change::Extend(items) => items.iter().for_each(|item| self.add(def, item)),
            Change::Replace(items) => {
                *self = Self::default();
                items.iter().for_each(|item| self.add(def, item));
            }
            // Nothing else happens to a LOG slice.
            Change::Upsert(_) | Change::ReplaceKey(_) | Change::Remove(_) => {}
        }
    }

    pub(super) fn get(&self, under: [Arc<str>; 2]) -> Option<(u64, Option<&Item>)> {
        let entry = self.entries.get(*self.places.get(&under)?)?;
        Some((entry.count, entry.latest.as_ref()))
    }

    fn add(&mut self, def: &SliceDef, item: &Item) {
        let Some(counted) = def.counted(item) else { return };
        let same =
            |entry: &Entry| entry.under.iter().zip(counted.under).all(|(own, other)| Arc::ptr_eq(own, other));
        if !self.entries.get(self.recent).is_some_and(same) {
            let under = counted.under.map(Arc::clone);
            self.recent = *self.places.entry(under.clone()).or_insert_with(|| {
                self.entries.push(Entry { under, count: 0, latest: None });
                self.entries.len() - 1
            });
        }
        if let Some(entry) = self.entries.get_mut(self.recent) {
            entry.count += 1;
            if counted.keep_latest {
                entry.latest = Some(Arc::clone(item));
            }
        }
    }
}

impl Session {
    /// How many events of a counted LOG slice there are under two names, and the latest of them if it is kept.
    pub(crate) fn counted<T: SliceType>(&self, under: [&Arc<str>; 2]) -> Option<(u64, Option<Arc<T>>)> {
        let slot = self.slot_of::<T>().ok()?;
        let inner = lock(self.inner());
        let (count, latest) = inner.log.counted(slot, under.map(Arc::clone))?;
        Some((count, latest.and_then(|latest| Arc::clone(latest).downcast().ok())))
    }
}
