//! Replacing everything at once: restore, reset, and copies of a session.

use std::sync::Arc;

use super::family::SESSION_TAG;
use super::open::Waiting;
use super::paged::LogSource;
use super::reducer::Registry;
use super::root::Root;
use super::slice::SliceKind;
use super::summary::LogNotes;
use super::sync::{Pending, Replaced};
use super::window::Late;
use super::{Committing, Session, SessionBuilder, SessionSnapshot, SnapshotError, record};
use crate::store::Record;
use crate::support::lock::lock;

/// A session as it is in memory, with what its store has not got: to be put back if the store takes nothing more.
pub(crate) struct Remembered {
    state: Arc<Root>,
    log: Root,
    waiting: Waiting,
    logs: LogNotes,
    outbox: Vec<Record>,
    pending: Pending,
    known: u64,
}

impl Session {
    pub(crate) fn remember(&self) -> Remembered {
        let stored = lock(&self.core.stored);
        let inner = lock(self.inner());
        Remembered {
            state: Arc::clone(&inner.state),
            log: inner.log.clone(),
            waiting: stored.waiting.clone(),
            logs: stored.logs.clone(),
            outbox: inner.outbox.clone(),
            pending: inner.pending.clone(),
            known: inner.known,
        }
    }

    /// Makes everything as it was remembered. What was heard of others since is heard again.
    pub(crate) fn put_back(&self, was: Remembered, _: &Committing<'_>) {
        let mut stored = lock(&self.core.stored);
        let mut inner = lock(self.inner());
        let mut root = Root::clone(&was.state);
        root.renew(inner.state_changes());
        let gone =
            (std::mem::replace(&mut inner.state, Arc::new(root)), std::mem::replace(&mut inner.log, was.log));
        (inner.outbox, inner.pending, inner.known) = (was.outbox, was.pending, was.known);
        (stored.waiting, stored.logs) = (was.waiting, was.logs);
        drop(inner);
        drop(stored);
        drop((gone, was.state));
    }

    /// Makes STATE what it was when `snapshot` was taken. LOG stays. A snapshot of another session will do, if this
    /// one knows its slices.
    pub fn restore(&self, snapshot: &SessionSnapshot) -> Result<(), SnapshotError> {
        loop {
            let (registry, was, was_waiting) = {
                let stored = lock(&self.core.stored);
                (self.registry(), Arc::clone(&lock(self.inner()).state), stored.waiting.clone())
            };
            let mut root = translated(&registry, snapshot)?;
            let waiting = waiting_after(&registry, &was_waiting, &snapshot.waiting);
            let mut records = Vec::new();
            if self.is_durable() {
                // What others do before this is stored has to be replaced as well.
                let all = self.is_shared();
                records = slice_records(&registry, &was, &root, all)?;
                records.extend(waiting_records(&registry, &was_waiting, &waiting, all));
            }

            let mut stored = lock(&self.core.stored);
            let mut inner = lock(self.inner());
            // Holding `was` keeps anybody from changing it in place, so the same pointer is the same contents.
            if !Arc::ptr_eq(&inner.state, &was)
                || !Arc::ptr_eq(&self.core.registry.load(), &registry)
                || stored.waiting != was_waiting
            {
                continue;
            }
            root.renew(inner.state_changes());
            let gone = std::mem::replace(&mut inner.state, Arc::new(root));
            stored.waiting = waiting;
            if self.is_shared() {
                inner.pending.replaces(Replaced::State);
            }
            match &mut inner.window {
                Some(window) => window.late.push(Late::Restored(records)),
                None => inner.outbox.extend(records),
            }
            drop(inner);
            drop(stored);
            drop((gone, was));
            return Ok(());
        }
    }

    /// Empties every slice, LOG too. Reducers and subscribers stay.
    pub fn reset(&self) {
        let mut stored = lock(&self.core.stored);
        let mut registry = Registry::clone(&self.core.registry.load());
        registry.mend_all();
        let (mut state, mut log) = (Vec::new(), Vec::new());
        if self.is_durable() {
            let known = registry.defs().map(|(_, def)| (def.name, def.kind));
            let unread = stored.waiting.iter().map(|(name, records)| {
                (&**name, records.first().and_then(record::kind_of).unwrap_or(SliceKind::State))
            });
            let unnamed = stored.logs.keys().map(|name| (&**name, SliceKind::Log));
            for (name, kind) in known.chain(unread).chain(unnamed) {
                let records = if kind == SliceKind::Log { &mut log } else { &mut state };
                records.extend(reported(record::of_nothing(name, kind)));
            }
            state.extend(reported(record::of_all_tables(&Root::default())).into_iter().flatten());
        }
        stored.waiting = Waiting::new();
        stored.logs = LogNotes::new();
        stored.problems.clear();
        let gone = {
            let mut inner = lock(self.inner());
            inner.state_changes();
            inner.outbox.extend(log);
            inner.paging.empty();
            if self.is_shared() {
                inner.pending.replaces(Replaced::Everything);
            }
            match &mut inner.window {
                Some(window) => {
                    window.forget_appends();
                    window.late.push(Late::Reset(state));
                }
                None => inner.outbox.extend(state),
            }
            (std::mem::take(&mut inner.state), std::mem::take(&mut inner.log))
        };
        self.set_registry(Arc::new(registry));
        drop(stored);
        drop(gone);
    }

    /// A session of its own with equal contents and the same reducers. Subscribers and children stay behind.
    pub fn duplicate(&self) -> Session {
        let mut builder = SessionBuilder::new(Arc::clone(self.store()), Arc::clone(self.clock()));
        for (name, value) in self.tags().iter().filter(|(name, _)| *name != SESSION_TAG) {
            builder = builder.tag(name, value);
        }
        let copy = builder.build();
        {
            let (notes, source) =
                (lock(&self.core.stored).logs.clone(), lock(self.inner()).paging.source.clone());
            let unnamed = unnamed_logs(source.as_deref(), &notes);
            let stored = lock(&self.core.stored);
            let inner = lock(self.inner());
            copy.set_registry(self.registry());
            lock(&copy.core.stored).waiting = stored.waiting.clone().union(unnamed);
            let mut copied = lock(copy.inner());
            copied.state = Arc::clone(&inner.state);
            copied.log = inner.log.clone();
            copied.start_at(inner.version());
        }
        if copy.is_durable() {
            // Nobody else has the copy yet.
            let records = copy.everything();
            lock(copy.inner()).outbox = records;
        }
        copy
    }

    /// A [duplicate](Session::duplicate) that is this session's child.
    pub fn fork(&self) -> Session {
        let child = self.duplicate();
        // A fresh session has no parent and is not this one, so it can always be adopted.
        let _ = self.adopt(&child);
        child
    }

    fn everything(&self) -> Vec<Record> {
        let registry = self.registry();
        let (state, log) = {
            let inner = lock(self.inner());
            (Arc::clone(&inner.state), inner.log.clone())
        };
        let mut records = Vec::new();
        for (slot, def) in registry.defs() {
            let cell = if def.kind == SliceKind::Log { log.cell(slot, def) } else { state.cell(slot, def) };
            if cell.items.len() > 0 {
                records.extend(reported(record::of_cell(def, &cell)));
            }
        }
        records.extend(reported(record::of_all_tables(&state)).into_iter().flatten());
        let waiting = lock(&self.core.stored).waiting.clone();
        records.extend(waiting.values().flat_map(|stored| stored.iter().cloned()));
        records
    }
}

/// The stored form of LOG slices that nobody has named, which the store keeps.
pub(super) fn unnamed_logs(source: Option<&LogSource>, notes: &LogNotes) -> Waiting {
    let mut waiting = Waiting::new();
    for (name, note) in notes {
        let mut records = Vec::new();
        let read =
            source.map_or(Ok(()), |source| source.each(name, note.mark, |one| records.push(one.record)));
        if let Err(error) = read {
            tracing::error!(slice = &**name, %error, "a part of the log cannot be read");
        }
        waiting.insert(Arc::clone(name), Arc::new(records));
    }
    waiting
}

fn reported<T>(encoded: Result<T, String>) -> Option<T> {
    encoded
        .inspect_err(|reason| {
            tracing::error!(reason, "a part of the session cannot be encoded for the store")
        })
        .ok()
}

/// The snapshot's STATE in this session's slots.
fn translated(registry: &Registry, snapshot: &SessionSnapshot) -> Result<Root, SnapshotError> {
    let mut root = Root::default();
    for (slot, def) in snapshot.registry.defs().filter(|(_, def)| def.kind == SliceKind::State) {
        let cell = snapshot.state.cell(slot, def);
        if cell.items.len() == 0 {
            continue;
        }
        let here =
            registry.find(def.type_id).ok_or(SnapshotError::UnknownSlice { slice: def.name.to_owned() })?;
        root.set(here, cell);
    }
    // What nobody had named then and somebody has since.
    for (slot, def) in registry.defs().filter(|(_, def)| def.kind == SliceKind::State) {
        if let Some(records) = snapshot.waiting.get(def.name)
            && let Ok(cell) = record::cell_of(def, records)
        {
            root.set(slot, cell);
        }
    }
    for (key, cell) in snapshot.state.policies() {
        root.set_policy(Arc::clone(key), cell.clone());
    }
    root.set_calls(snapshot.state.all_calls().clone());
    Ok(root)
}

/// What waits to be named once the snapshot is restored: its STATE, and the LOG that is there.
fn waiting_after(registry: &Registry, now: &Waiting, then: &Waiting) -> Waiting {
    let is_log =
        |records: &Arc<Vec<Record>>| records.first().and_then(record::kind_of) == Some(SliceKind::Log);
    let log = now.iter().filter(|(_, records)| is_log(records));
    let state = then.iter().filter(|(_, records)| !is_log(records));
    let known = |name: &str| registry.find_name(name).is_some();
    let all = log.chain(state).filter(|(name, _)| !known(name));
    all.map(|(name, records)| (Arc::clone(name), Arc::clone(records))).collect()
}

/// The slices that `next` has otherwise than `was`, or all of them, and the tables.
fn slice_records(
    registry: &Registry,
    was: &Root,
    next: &Root,
    all: bool,
) -> Result<Vec<Record>, SnapshotError> {
    let mut records = Vec::new();
    for (slot, def) in registry.defs().filter(|(_, def)| def.kind == SliceKind::State) {
        let (was, next) = (was.cell(slot, def).items, next.cell(slot, def));
        let same = was.is(&next.items) || (was.len() == 0 && next.items.len() == 0);
        if all || !same {
            let encoded = record::of_cell(def, &next);
            records.push(
                encoded.map_err(|reason| SnapshotError::Encode { slice: def.name.to_owned(), reason })?,
            );
        }
    }
    let tables = record::of_all_tables(next);
    let tables = tables
        .map_err(|reason| SnapshotError::Encode { slice: "(policies and calls)".to_owned(), reason })?;
    records.extend(tables);
    Ok(records)
}

/// The stored form of slices without a type, where it changes.
fn waiting_records(registry: &Registry, was: &Waiting, next: &Waiting, all: bool) -> Vec<Record> {
    let mut records = Vec::new();
    for name in was.keys().filter(|name| !next.contains_key(*name) && registry.find_name(name).is_none()) {
        records.extend(reported(record::of_nothing(name, SliceKind::State)));
    }
    for (name, stored) in next {
        let there = !all && was.get(name).is_some_and(|was| Arc::ptr_eq(was, stored));
        if !there {
            records.extend(reported(record::of_nothing(name, SliceKind::State)));
            records.extend(stored.iter().cloned());
        }
    }
    records
}
