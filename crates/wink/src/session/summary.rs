//! Opening a session without reading its log: from a summary of what it came to, and what was committed since.
//!
//! A summary has the STATE, the session's tables, and of each LOG slice where it is in the store, how many items it has and the
//! tallies that are kept of it. One is written when as much was committed since the last that opening would cost more than it
//! should, when memory and store are the same. It adds nothing to what the records say: without one, or with one that cannot be
//! read, the session is read from its first record, in pages too.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::items::Items;
use super::open::{SliceProblem, Waiting};
use super::paged::{LogMark, LogSource, Older};
use super::record::{self, LOGS, Shape};
use super::reducer::{Registry, Slot};
use super::root::Root;
use super::settle::weight;
use super::slice::{Cell, SliceDef, SliceKind};
use super::sync::contained;
use super::tally::{StoredTally, Tally};
use super::window::Committing;
use super::{Session, SessionId};
use crate::store::{CallMark, NumberedRecord, PageQuery, Record, SharedStore, StoreError, Summary};
use crate::support::lock::lock;

/// What is known of a LOG slice that nobody has named yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogNote {
    pub(super) mark: LogMark,
    pub(super) tally: Option<StoredTally>,
}

impl LogNote {
    /// A slice that has nothing up to this number.
    pub(super) fn empty(upto: u64) -> Self {
        Self { mark: LogMark::empty(upto), tally: None }
    }
}

/// Slices that nobody has named yet, by name.
pub(crate) type LogNotes = HashMap<Arc<str>, LogNote>;

#[derive(Serialize, Deserialize)]
struct StoredLog {
    after: u64,
    upto: u64,
    count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tally: Option<StoredTally>,
}

type StoredLogs = BTreeMap<Arc<str>, StoredLog>;

/// A session that is being read.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) root: Root,
    version: u64,
    /// Up to this number there is nothing of LOG slices that were not met yet.
    pub(super) floor: u64,
    pub(super) slices: HashMap<String, Vec<Record>>,
    pub(super) logs: LogNotes,
    pub(super) tallies: Vec<(Slot, Tally)>,
    pub(super) problems: Vec<SliceProblem>,
}

impl Reading {
    /// What the summary says; none, if it cannot be read.
    fn begun(registry: &Registry, version: u64, summary: Summary) -> Option<Self> {
        let mut reading = Self { version, floor: summary.sequence, ..Self::default() };
        for one in summary.records {
            if one.stream == LOGS {
                reading.take_logs(registry, &one).ok()?;
            } else {
                reading.take(registry, NumberedRecord { sequence: summary.sequence, at: None, record: one });
            }
        }
        reading.problems.is_empty().then_some(reading)
    }

    fn take_logs(&mut self, registry: &Registry, record: &Record) -> Result<(), String> {
        let logs: StoredLogs = record::decode(record)?;
        for (name, StoredLog { after, upto, count, tally }) in logs {
            let named = registry.find_name(&name).and_then(|slot| Some((slot, registry.def(slot)?)));
            if let (Some((slot, def)), Some(tally)) = (named, &tally) {
                self.tallies.push((slot, Tally::from_stored(def, tally)?));
            }
            self.logs.insert(name, LogNote { mark: LogMark { after, upto, count }, tally });
        }
        Ok(())
    }

    fn take(&mut self, registry: &Registry, NumberedRecord { sequence, record: one, .. }: NumberedRecord) {
        match record::apply_own(&mut self.root, &one, self.version) {
            Ok(true) => return,
            Ok(false) => {}
            Err(reason) => {
                self.problems.push(SliceProblem { slice: one.stream, reason });
                return;
            }
        }
        let known = || Some((record::kind_of(&one)?, Shape::Other));
        let (kind, shape) = record::shape_of(&one).or_else(known).unwrap_or((SliceKind::State, Shape::Other));
        match kind {
            SliceKind::State => {
                let records = self.slices.entry(one.stream.clone()).or_default();
                if matches!(shape, Shape::Replaces(_)) {
                    records.clear();
                }
                records.push(one);
            }
            SliceKind::Log => {
                let note = self.logs.entry(one.stream.as_str().into());
                let note = note.or_insert_with(|| LogNote::empty(self.floor));
                note.mark.take(shape, sequence);
                if matches!(shape, Shape::Replaces(_)) {
                    note.tally = None;
                }
                self.count(registry, &one);
            }
        }
    }

    fn count(&mut self, registry: &Registry, one: &Record) {
        let named = registry.find_name(&one.stream).and_then(|slot| Some((slot, registry.def(slot)?)));
        let Some((slot, def)) = named.filter(|(_, def)| def.is_counted) else { return };
        let at = self.tallies.iter().position(|(of, _)| *of == slot).unwrap_or_else(|| {
            self.tallies.push((slot, Tally::default()));
            self.tallies.len() - 1
        });
        match (record::change_in(def, one), self.tallies.get_mut(at)) {
            (Ok(change), Some((_, tally))) => tally.apply(def, &change),
            (Err(reason), _) => {
                self.problems.push(SliceProblem { slice: def.name.to_owned(), reason });
            }
            (Ok(_), None) => {}
        }
    }
}

impl Session {
    /// Reads the session from its summary and what was committed since. Returns its calls whose process died.
    pub(super) async fn read_pages(&self) -> Result<Vec<CallMark>, StoreError> {
        let store = &self.core.store;
        let opening = contained("open a session", || store.opening(&self.core.id)).await?;
        let source =
            Arc::new(LogSource::new(Arc::clone(store), self.core.id.clone(), Arc::clone(&self.core.unread)));
        let registry = self.registry();
        let version = lock(self.inner()).next_version();
        let (mut after, mut size) = (0, 0);
        let mut reading = Reading { version, ..Reading::default() };
        if let Some(summary) = opening.summary {
            let (sequence, weighs) = (summary.sequence, weight(&summary.records));
            match Reading::begun(&registry, version, summary) {
                Some(begun) => (reading, after, size) = (begun, sequence, weighs),
                None => tracing::warn!("the summary of a session cannot be read; all of it is"),
            }
        }
        let mut since = 0;
        while after < opening.sequence {
            let query = PageQuery { after, upto: opening.sequence, ..PageQuery::default() };
            let page = source.page(&query)?;
            let Some(last) = page.last() else { break };
            after = last.sequence;
            since += weight(page.iter().map(|one| &one.record));
            page.into_iter().for_each(|one| reading.take(&registry, one));
        }
        {
            let mut inner = lock(self.inner());
            inner.known = opening.sequence;
            inner.paging.compactions = opening.compactions;
            inner.paging.floor = reading.floor;
            inner.paging.source = Some(source);
            inner.paging.summarised(Some(size));
            inner.paging.grew(since);
        }
        self.place(reading);
        Ok(opening.unfinished)
    }

    /// A LOG slice that now has a name, as the store has it, and its tally.
    pub(super) fn read_log(
        &self,
        source: &Arc<LogSource>,
        def: &Arc<SliceDef>,
        note: &LogNote,
    ) -> Result<(Cell, Option<Tally>), String> {
        let LogNote { mark, tally } = note;
        if def.kind == SliceKind::State {
            // It was LOG when it was stored.
            let mut records = Vec::new();
            let read = source.each(def.name, *mark, |one| records.push(one.record));
            read.map_err(|error| error.to_string())?;
            return Ok((record::cell_of(def, &records)?, None));
        }
        let older = Older::new(Arc::clone(source), Arc::clone(def), *mark);
        let cell = Cell { items: Items::Stored { older, tail: imbl::Vector::new() }, version: 0 };
        if !def.is_counted {
            return Ok((cell, None));
        }
        let begun =
            tally.as_ref().and_then(|stored| Some((Tally::from_stored(def, stored).ok()?, stored.upto)));
        let (mut tally, upto) = begun.unwrap_or((Tally::default(), mark.after));
        let rest = LogMark { after: upto.max(mark.after), ..*mark };
        let counted = source.each(def.name, rest, |one| match record::change_in(def, &one.record) {
            Ok(change) => tally.apply(def, &change),
            Err(reason) => tracing::error!(slice = def.name, reason, "an event cannot be counted"),
        });
        counted.map_err(|error| error.to_string())?;
        Ok((cell, Some(tally)))
    }

    /// Has the store keep what the session comes to, if it is time to. That it cannot is no failure of whoever commits.
    pub(super) async fn summarise_if_due(&self, _one_at_a_time: &Committing<'_>) {
        if !lock(self.inner()).paging.is_due() {
            return;
        }
        let Some((ground, known, compactions)) = self.ground() else { return };
        let size = match ground.records(known) {
            Ok(records) => {
                let size = weight(&records);
                let summary = Summary { sequence: known, compactions, records };
                let kept =
                    contained("keep a summary", || self.core.store.summarise(&self.core.id, summary)).await;
                kept.map(|()| size).map_err(|error| error.to_string())
            }
            Err(reason) => Err(reason),
        };
        if let Err(reason) = &size {
            tracing::warn!(reason, "a session could not be summarised; opening it takes longer");
        }
        lock(self.inner()).paging.summarised(size.ok());
    }

    /// What is to be summarised, if the store has everything that is in memory.
    fn ground(&self) -> Option<(Ground, u64, u64)> {
        let stored = lock(&self.core.stored);
        let mut inner = lock(self.inner());
        let registry = self.registry();
        if !stored.problems.is_empty() || registry.has_broken() {
            // What cannot be read here stays as it is: others may be able to.
            inner.paging.summarised(None);
            return None;
        }
        if !inner.outbox.is_empty() || inner.window.is_some() {
            return None;
        }
        let (waiting, logs) = (stored.waiting.clone(), stored.logs.clone());
        let (state, log, floor) = (Arc::clone(&inner.state), inner.log.clone(), inner.paging.floor);
        let ground = Ground { registry, state, log, waiting, logs, floor };
        Some((ground, inner.known, inner.paging.compactions))
    }
}

/// Where LOG slices are in the store, by name, without opening the session.
pub(super) async fn marks_of(
    store: &SharedStore,
    session: &SessionId,
    names: &[&str],
) -> Result<Vec<LogMark>, StoreError> {
    let opening = contained("open a session", || store.opening(session)).await?;
    let mut marks = vec![LogMark::default(); names.len()];
    let mut after = 0;
    if let Some(summary) = opening.summary {
        let logs = summary.records.iter().find(|one| one.stream == LOGS);
        if let Some(Ok(logs)) = logs.map(record::decode::<StoredLogs>) {
            after = summary.sequence;
            for (mark, name) in marks.iter_mut().zip(names) {
                *mark = match logs.get(*name) {
                    Some(StoredLog { after, upto, count, .. }) => {
                        LogMark { after: *after, upto: *upto, count: *count }
                    }
                    None => LogMark::empty(summary.sequence),
                };
            }
        }
    }
    let source = LogSource::new(Arc::clone(store), session.clone(), Arc::default());
    let rest = LogMark { after, upto: opening.sequence, count: 0 };
    for (mark, name) in marks.iter_mut().zip(names) {
        source.each(name, rest, |one| {
            if let Some((_, shape)) = record::shape_of(&one.record) {
                mark.take(shape, one.sequence);
            }
        })?;
    }
    Ok(marks)
}

/// All that a summary is made of.
struct Ground {
    registry: Arc<Registry>,
    state: Arc<Root>,
    log: Root,
    waiting: Waiting,
    logs: LogNotes,
    floor: u64,
}

impl Ground {
    fn records(self, known: u64) -> Result<Vec<Record>, String> {
        let mut records = Vec::new();
        let mut logs = StoredLogs::new();
        for (name, LogNote { mark: LogMark { after, upto, count }, tally }) in self.logs {
            logs.insert(name, StoredLog { after, upto, count, tally });
        }
        for (slot, def) in self.registry.defs() {
            if def.kind == SliceKind::State {
                let cell = self.state.cell(slot, def);
                if cell.items.len() > 0 {
                    records.push(record::of_cell(def, &cell)?);
                }
            } else {
                // Those that have nothing too: it is then known since when.
                let mark = self.log.cell(slot, def).mark().unwrap_or(LogMark::empty(self.floor));
                let LogMark { after, upto, count } = mark;
                let tally = self.log.tally(slot).filter(|_| def.is_counted);
                let tally = tally.map(|tally| tally.to_stored(def, known)).transpose()?;
                logs.insert(def.name.into(), StoredLog { after, upto, count, tally });
            }
        }
        records.extend(record::of_all_tables(&self.state)?);
        records.extend(self.waiting.values().flat_map(|stored| stored.iter().cloned()));
        records.push(record::record(LOGS, &logs)?);
        Ok(records)
    }
}
