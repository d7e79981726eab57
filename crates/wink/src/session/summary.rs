//! Opening a session without reading its log: from a summary of what it came to, and what was committed since.
//!
//! A summary has the STATE, the session's tables, and of each LOG slice where it is in the store, how many items it has and the
//! tallies that are kept of it. One is written when as much was committed since the last that opening would cost more than it
//! should, when memory and store are the same. It adds nothing to what the records say: without one, or with one that cannot be
//! read, the session is read from its first record, in pages too. Its STATE is made from the stored records as well, and not from
//! memory, where an item with interior mutability may have changed since its commit.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::items::Items;
use super::open::SliceProblem;
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
use crate::store::{CallMark, NumberedRecord, Opening, PageQuery, Record, SharedStore, StoreError, Summary};
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
    /// What the summary weighs that this began with, and the records since.
    weights: (u64, u64),
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

    /// What was stored up to this number, in these streams or in all: the last summary, and what was committed since.
    fn of(
        source: &LogSource,
        registry: &Registry,
        version: u64,
        summary: Option<Summary>,
        query: PageQuery,
    ) -> Result<Self, StoreError> {
        let mut reading = Self { version, ..Self::default() };
        let mut query = query;
        if let Some(summary) = summary {
            let (sequence, weighs) = (summary.sequence, weight(&summary.records));
            match Self::begun(registry, version, summary) {
                Some(begun) => (reading, query.after) = (begun, sequence),
                None => tracing::warn!("the summary of a session cannot be read; all of it is"),
            }
            reading.weights.0 = weighs;
        }
        while query.after < query.upto {
            let page = source.page(&query)?;
            let Some(last) = page.last() else { break };
            query.after = last.sequence;
            reading.weights.1 += weight(page.iter().map(|one| &one.record));
            page.into_iter().for_each(|one| reading.take(registry, one));
        }
        Ok(reading)
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
        // What cannot be read is one entry of a log, which says why when it is looked at.
        let named = || Some(registry.def(registry.find_name(&one.stream)?)?.kind);
        let known = || Some((record::kind_of(&one).or_else(named)?, Shape::Adds(1)));
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
        let Opening { summary, unfinished, sequence, compactions } = opening;
        let query = PageQuery { upto: sequence, ..PageQuery::default() };
        let reading = Reading::of(&source, &registry, version, summary, query)?;
        {
            let mut inner = lock(self.inner());
            inner.known = sequence;
            inner.paging.compactions = compactions;
            inner.paging.floor = reading.floor;
            inner.paging.source = Some(source);
            inner.paging.summarised(Some(reading.weights.0));
            inner.paging.grew(reading.weights.1);
        }
        self.place(reading);
        Ok(unfinished)
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
        let Some(ground) = self.ground() else { return };
        let size = self.summarise(ground).await;
        if let Err(reason) = &size {
            tracing::warn!(reason, "a session could not be summarised; opening it takes longer");
        }
        lock(self.inner()).paging.summarised(size.ok());
    }

    async fn summarise(&self, ground: Ground) -> Result<u64, String> {
        let failed = |error: StoreError| error.to_string();
        let store = &self.core.store;
        let opening = contained("open a session", || store.opening(&self.core.id)).await.map_err(failed)?;
        if let Some(later) = opening.summary.as_ref().filter(|last| last.sequence > ground.known) {
            // Another process was faster.
            return Ok(weight(&later.records));
        }
        let query = PageQuery { streams: ground.state_streams(), upto: ground.known, ..PageQuery::default() };
        let state =
            Reading::of(&ground.source, &ground.registry, 0, opening.summary, query).map_err(failed)?;
        let (sequence, compactions) = (ground.known, ground.compactions);
        let records = ground.records(state)?;
        let size = weight(&records);
        let summary = Summary { sequence, compactions, records };
        contained("keep a summary", || store.summarise(&self.core.id, summary)).await.map_err(failed)?;
        Ok(size)
    }

    /// What is to be summarised, if the store has everything that is in memory.
    fn ground(&self) -> Option<Ground> {
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
        Some(Ground {
            registry,
            source: inner.paging.source.clone()?,
            waiting: stored.waiting.keys().cloned().collect(),
            state: Arc::clone(&inner.state),
            log: inner.log.clone(),
            logs: stored.logs.clone(),
            floor: inner.paging.floor,
            known: inner.known,
            compactions: inner.paging.compactions,
        })
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
            let shape = record::shape_of(&one.record).map_or(Shape::Adds(1), |(_, shape)| shape);
            mark.take(shape, one.sequence);
        })?;
    }
    Ok(marks)
}

/// What memory has for a summary.
struct Ground {
    registry: Arc<Registry>,
    source: Arc<LogSource>,
    state: Arc<Root>,
    /// STATE slices that no type was named for yet.
    waiting: Vec<Arc<str>>,
    log: Root,
    logs: LogNotes,
    floor: u64,
    /// The number of the last record that is part of it.
    known: u64,
    compactions: u64,
}

impl Ground {
    /// The streams of STATE and of the session's tables.
    fn state_streams(&self) -> Vec<String> {
        let slices = self.registry.defs().filter(|(_, def)| def.kind == SliceKind::State);
        let slices = slices.map(|(_, def)| def.name.to_owned());
        slices.chain(self.waiting.iter().map(|name| name.to_string())).chain(record::tables()).collect()
    }

    fn records(self, state: Reading) -> Result<Vec<Record>, String> {
        if let Some(SliceProblem { slice, reason }) = state.problems.first() {
            return Err(format!("`{slice}` cannot be read: {reason}"));
        }
        let Reading { root, mut slices, logs: once_logs, .. } = state;
        let mut records = Vec::new();
        for (slot, def) in self.registry.defs() {
            let stored = slices.remove(def.name);
            if def.kind == SliceKind::Log {
                continue;
            }
            let cell = match stored.filter(|_| !once_logs.contains_key(def.name)) {
                Some(stored) => record::cell_of(def, &stored)?,
                // It was LOG when it was stored, and was read as that.
                None => self.state.cell(slot, def).clone(),
            };
            if cell.items.len() > 0 {
                records.push(record::of_cell(def, &cell)?);
            }
        }
        records.extend(slices.into_values().flatten());
        records.extend(record::of_all_tables(&root)?);

        let mut logs = StoredLogs::new();
        for (name, LogNote { mark: LogMark { after, upto, count }, tally }) in self.logs {
            logs.insert(name, StoredLog { after, upto, count, tally });
        }
        for (slot, def) in self.registry.defs().filter(|(_, def)| def.kind == SliceKind::Log) {
            // Those that have nothing too: it is then known since when.
            let mark = self.log.cell(slot, def).mark().unwrap_or(LogMark::empty(self.floor));
            let LogMark { after, upto, count } = mark;
            let tally = self.log.tally(slot).filter(|_| def.is_counted);
            let tally = tally.map(|tally| tally.to_stored(def, self.known)).transpose()?;
            logs.insert(def.name.into(), StoredLog { after, upto, count, tally });
        }
        records.push(record::record(LOGS, &logs)?);
        Ok(records)
    }
}
