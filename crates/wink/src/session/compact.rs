//! Making a long stored session short: old changes of a slice are replaced by what they come to.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::paged::{LogMark, LogSource};
use super::root::Root;
use super::slice::{Change, Item, SliceDef, SliceKind};
use super::summary::LogNote;
use super::sync::contained;
use super::tally::Tally;
use super::{Session, record};
use crate::store::{HistoryQuery, NumberedRecord, Record, StoreError};
use crate::support::lock::lock;

/// What [`Session::compact`] leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Compaction {
    /// The last record that is made part of a whole, or the last before a call that it would divide; all that are stored,
    /// if none is named. What the session was before it cannot be found out any more, and calls before it cannot be undone.
    pub upto: Option<u64>,
    /// Which LOG events before that stay.
    pub log: LogRetention,
}

/// Which LOG events are kept. What is left out is gone, where the store keeps the log; else when the session is next opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogRetention {
    /// All: the log is kept for good.
    #[default]
    All,
    /// The last so many of each slice.
    Last(usize),
    /// Those stored at this time or later, as far as the store knows when that was.
    Since(Timestamp),
}

impl Session {
    /// Has the store replace old records by what they come to, so that the session opens faster and takes less room. Nothing
    /// that is true changes, except what LOG events `how` says need not be kept. Slices that this program has not
    /// named, or cannot read, stay as they are. Returns how many records fewer there are.
    pub async fn compact(&self, how: Compaction) -> Result<u64, StoreError> {
        self.flush().await?;
        let query = HistoryQuery { upto: how.upto, ..HistoryQuery::default() };
        let mut history = self.core.store.history(&self.core.id, query).await?;
        if let Some(upto) = how.upto {
            // A call of which half were left could not be undone as a whole any more, and nobody would know.
            let next = HistoryQuery {
                after: Some(upto),
                upto: Some(upto.saturating_add(1)),
                ..HistoryQuery::default()
            };
            let next = self.core.store.history(&self.core.id, next).await?;
            if let Some(call) = next.records.first().and_then(|one| one.record.call) {
                while history.records.pop_if(|last| last.record.call == Some(call)).is_some() {}
            }
        }
        let Some(upto) = history.records.last().map(|last| last.sequence) else { return Ok(0) };
        let mut streams: BTreeMap<String, Vec<NumberedRecord>> = BTreeMap::new();
        let mut tables = Root::default();
        let mut unreadable = false;
        for one in history.records {
            match record::apply_own(&mut tables, &one.record, 0) {
                Ok(true) => {}
                Ok(false) => streams.entry(one.record.stream.clone()).or_default().push(one),
                Err(_) => unreadable = true,
            }
        }
        let failed = |reason| StoreError::failed("compact a session", reason);
        let mut whole =
            if unreadable { Vec::new() } else { record::of_all_tables(&tables).map_err(failed)? };
        let registry = self.registry();
        for (name, records) in streams {
            let def = registry.find_name(&name).and_then(|slot| registry.def(slot));
            if let Some(def) = def.filter(|_| records.len() > 1) {
                whole.extend(whole_of(def, &records, how.log));
            }
        }
        let fewer = self.core.store.compact(&self.core.id, upto, whole).await?;
        self.recount().await?;
        Ok(fewer)
    }

    /// Counts LOG slices anew when the store has dropped something, for this session or for another process.
    async fn recount(&self) -> Result<(), StoreError> {
        let _nothing_moves = self.committing().await;
        let Some(source) = lock(self.inner()).paging.source.clone() else { return Ok(()) };
        let opening = contained("open a session", || self.core.store.opening(&self.core.id)).await?;
        if opening.compactions == lock(self.inner()).paging.compactions {
            return Ok(());
        }
        let notes = lock(&self.core.stored).logs.clone();
        for (name, LogNote { mark, .. }) in notes {
            let mark = counted(&source, &name, mark, |_| {})?;
            if let Some(note) = lock(&self.core.stored).logs.get_mut(&name) {
                *note = LogNote { mark, tally: None };
            }
        }
        for (slot, def) in self.registry().defs().filter(|(_, def)| def.kind == SliceKind::Log) {
            let Some(mark) = lock(self.inner()).log.cell(slot, def).mark() else { continue };
            let mut tally = Tally::default();
            let mark = counted(&source, def.name, mark, |one| {
                if let Some(Ok(change)) = def.is_counted.then(|| record::change_in(def, one)) {
                    tally.apply(def, &change);
                }
            })?;
            let mut inner = lock(self.inner());
            if let Some(cell) = inner.log.cell_mut(slot, def) {
                cell.set_mark(&source, def, mark);
                let unsent: Vec<Item> = cell.items.in_memory().collect();
                if def.is_counted {
                    tally.apply(def, &Change::Extend(unsent));
                    inner.log.set_tally(slot, tally);
                }
            }
        }
        lock(self.inner()).paging.compactions = opening.compactions;
        Ok(())
    }
}

/// The mark of a LOG slice as it is now.
fn counted(
    source: &LogSource,
    name: &str,
    mark: LogMark,
    mut each: impl FnMut(&Record),
) -> Result<LogMark, StoreError> {
    let mut counted = LogMark { count: 0, ..mark };
    source.each(name, mark, |one| {
        let shape = record::shape_of(&one.record).map_or(record::Shape::Adds(1), |(_, shape)| shape);
        counted.take(shape, one.sequence);
        each(&one.record);
    })?;
    Ok(counted)
}

/// The record that says what all of these come to; none if they have to stay.
fn whole_of(def: &SliceDef, records: &[NumberedRecord], log: LogRetention) -> Option<Record> {
    let plain: Vec<Record> = records.iter().map(|one| one.record.clone()).collect();
    let cell = record::cell_of(def, &plain).ok()?;
    let items: Vec<Item> = cell.items.iter().collect();
    let kept = match (def.kind, log) {
        (SliceKind::State, _) => items.len(),
        (SliceKind::Log, LogRetention::All) => return None,
        (SliceKind::Log, LogRetention::Last(count)) => count,
        (SliceKind::Log, LogRetention::Since(time)) => {
            // What came with them, since a LOG slice only grows.
            let new = records.iter().filter(|one| one.at.is_none_or(|at| at >= time));
            new.filter_map(|one| record::change_in(def, &one.record).ok()).map(|change| change.added()).sum()
        }
    };
    if def.kind == SliceKind::Log && kept >= items.len() {
        return None;
    }
    let items = items.into_iter().skip(cell.items.len().saturating_sub(kept)).collect();
    record::of_change(def, &Change::Replace(items)).ok()
}
