//! Making a session: in memory, or from what a store holds of it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use super::core::Inner;
use super::events::{Ending, LoggedParams, LoggedValue, ToolInvoked};
use super::family::Family;
use super::record;
use super::reducer::{Registry, Slot};
use super::slice::{Cell, SliceDef, SliceKind, SliceType};
use super::summary::{LogNotes, Reading};
use super::tally::Tally;
use super::{Core, Dispatcher, IdSource, Session, SessionError, SessionId};
use crate::limits::Clock;
use crate::store::{CallMark, Record, SharedStore, StoreError};
use crate::support::lock::lock;

/// Makes a [`Session`].
#[must_use = "a builder does nothing until built"]
pub struct SessionBuilder {
    store: SharedStore,
    clock: Arc<dyn Clock>,
    id: Option<SessionId>,
    ids: IdSource,
    dispatcher: Option<Arc<Dispatcher>>,
    tags: BTreeMap<String, String>,
}

/// A stored slice that could not be read. Its records stay in the store; the session goes on without them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceProblem {
    /// The slice's stable name.
    pub slice: String,
    /// Why.
    pub reason: String,
}

/// Stored records of slices that nobody has named yet, by the slice's name. Copied in flat time.
pub(crate) type Waiting = imbl::HashMap<Arc<str>, Arc<Vec<Record>>>;

/// What was read from the store. Its lock is also the right to change the registry, and is taken before that of
/// the session's contents.
#[derive(Default)]
pub(crate) struct Stored {
    pub(super) waiting: Waiting,
    pub(super) problems: Vec<SliceProblem>,
    /// LOG slices that nobody has named yet, where the store keeps them.
    pub(super) logs: LogNotes,
}

impl SessionBuilder {
    pub(crate) fn new(store: SharedStore, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, id: None, ids: IdSource::random(), dispatcher: None, tags: BTreeMap::new() }
    }

    /// Where the session is kept.
    pub fn store(mut self, store: SharedStore) -> Self {
        self.store = store;
        self
    }

    /// The clock that everything in the session reads.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The session's id. A fresh one if not given.
    pub fn id(mut self, id: impl Into<SessionId>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Where the ids of its calls come from. By chance if not given.
    pub fn ids(mut self, ids: IdSource) -> Self {
        self.ids = ids;
        self
    }

    /// Who hears its events, together with those of every other session that has the same dispatcher. One of its own, if
    /// none is given.
    pub fn dispatcher(mut self, dispatcher: Arc<Dispatcher>) -> Self {
        self.dispatcher = Some(dispatcher);
        self
    }

    /// A tag.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(name.into(), value.into());
        self
    }

    /// A session without history.
    pub fn build(self) -> Session {
        let now = self.clock.now();
        let id = self.id.unwrap_or_else(|| SessionId::fresh(now));
        let core = Core {
            durability: self.store.durability(),
            hears_every_commit: self.store.hears_every_commit(),
            is_shared: self.store.is_shared(),
            family: Mutex::new(Family::new(&id, self.tags)),
            id,
            created_at: now,
            clock: self.clock,
            ids: self.ids,
            store: self.store,
            registry: ArcSwap::from_pointee(Registry::with_own_types()),
            reduces_calls: AtomicBool::new(false),
            inner: Mutex::new(Inner::default()),
            dispatcher: self.dispatcher.unwrap_or_default(),
            turn: Arc::default(),
            committing: tokio::sync::Mutex::new(()),
            stored: Mutex::default(),
            unread: Arc::default(),
        };
        Session { core: Arc::new(core) }
    }

    /// A session with what the store holds of it. Calls that were in flight when the last process died get their
    /// event here.
    pub async fn open(self) -> Result<Session, StoreError> {
        let session = self.build();
        let unfinished = match session.is_durable() && session.core.store.has_pages() {
            true => session.read_pages().await?,
            false => {
                let stored = session.core.store.load(session.id()).await?;
                session.read_back(stored.records);
                lock(session.inner()).known = stored.sequence;
                stored.unfinished
            }
        };
        match unfinished.is_empty() {
            true => {}
            // Whoever has the turn gives them their event, so that nobody does it twice.
            false if session.is_shared() => drop(session.store_turn().await?),
            false => {
                let committing = session.committing().await;
                session.close_interrupted(&committing, unfinished).await?;
            }
        }
        session.summarise_if_due(&session.committing().await).await;
        Ok(session)
    }
}

impl Registry {
    /// A registry that knows the runtime's own events.
    pub(crate) fn with_own_types() -> Self {
        let mut registry = Self::default();
        let own = [
            SliceDef::of::<ToolInvoked>(),
            SliceDef::of::<super::PromptRendered>(),
            SliceDef::of::<super::ToolsRendered>(),
            SliceDef::of::<super::PromptExecuted>(),
            SliceDef::of::<super::Undone>(),
        ];
        for def in own {
            // Their names differ, so this cannot fail.
            let _ = registry.slot(def);
        }
        registry
    }
}

impl Session {
    /// What could not be read from the store. Of a LOG slice that the store keeps, what nobody could read who looked at it.
    pub fn problems(&self) -> Vec<SliceProblem> {
        let mut problems = lock(&self.core.stored).problems.clone();
        problems.extend(self.core.unread.problems());
        problems
    }

    pub(crate) fn slot_of<T: SliceType>(&self) -> Result<Slot, SessionError> {
        match self.core.registry.load().find(std::any::TypeId::of::<T>()) {
            Some(slot) => Ok(slot),
            None => self.slot_for(SliceDef::of::<T>()),
        }
    }

    /// The slot of `def`'s type; what the store held of it is read when it is first named.
    pub(crate) fn slot_for(&self, def: SliceDef) -> Result<Slot, SessionError> {
        let def = Arc::new(def);
        loop {
            let (records, note) = {
                let stored = lock(&self.core.stored);
                (stored.waiting.get(def.name).cloned(), stored.logs.get(def.name).cloned())
            };
            let source = lock(&self.core.inner).paging.source.clone();
            // The slice type's own code, so no lock is held.
            let read = match (&note, &source) {
                (Some(note), Some(source)) => Some(self.read_log(source, &def, note)),
                _ => records.as_ref().map(|records| Ok((record::cell_of(&def, records)?, None))),
            };

            let mut stored = lock(&self.core.stored);
            let mut registry = Registry::clone(&self.core.registry.load());
            if let Some(slot) = registry.find(def.type_id) {
                return Ok(slot);
            }
            let still = match (&records, stored.waiting.get(def.name)) {
                (Some(read), Some(now)) => Arc::ptr_eq(read, now),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            let mark = |logs: &LogNotes| logs.get(def.name).map(|note| note.mark);
            if still && mark(&stored.logs) == note.map(|note| note.mark) {
                let slot = registry.slot_shared(Arc::clone(&def))?;
                if let Some(read) = read {
                    stored.waiting.remove(def.name);
                    stored.logs.remove(def.name);
                    self.take_in(&mut stored, &mut registry, slot, &def, read);
                }
                self.set_registry(Arc::new(registry));
                return Ok(slot);
            }
        }
    }

    pub(crate) fn change_registry(&self, change: impl FnOnce(&mut Registry)) {
        let _one_at_a_time = lock(&self.core.stored);
        let mut registry = Registry::clone(&self.core.registry.load());
        change(&mut registry);
        self.set_registry(Arc::new(registry));
    }

    /// The slot of a slice whose stored contents could be read.
    pub(crate) fn readable_slot<T: SliceType>(&self) -> Result<Slot, SessionError> {
        let slot = self.slot_of::<T>()?;
        match self.unreadable(slot) {
            None => Ok(slot),
            Some(reason) => Err(SessionError::Unreadable { slice: T::NAME.to_owned(), reason }),
        }
    }

    /// How often something of the log could not be read. Whoever decides by the log looks before and after.
    pub(crate) fn unread(&self) -> u64 {
        self.core.unread.count()
    }

    /// Why a slice's stored contents could not be read, if they could not.
    pub(crate) fn unreadable(&self, slot: Slot) -> Option<String> {
        self.core.registry.load().broken(slot).map(|reason| reason.to_string())
    }

    fn read_back(&self, records: Vec<Record>) {
        let mut reading = Reading::default();
        let version = lock(&self.core.inner).next_version();
        for record in records {
            match record::apply_own(&mut reading.root, &record, version) {
                Ok(true) => {}
                Ok(false) => reading.slices.entry(record.stream.clone()).or_default().push(record),
                Err(reason) => reading.problems.push(SliceProblem { slice: record.stream, reason }),
            }
        }
        self.place(reading);
    }

    /// Makes what was read the session's contents.
    pub(super) fn place(&self, reading: Reading) {
        let Reading { root, slices, logs, tallies, problems, .. } = reading;
        lock(&self.core.inner).state = Arc::new(root);

        let mut stored = lock(&self.core.stored);
        let mut registry = Registry::clone(&self.core.registry.load());
        stored.problems = problems;
        {
            let mut inner = lock(&self.core.inner);
            let inner = &mut *inner;
            for (name, note) in logs {
                let known = registry.find_name(&name).and_then(|slot| Some((slot, registry.def(slot)?)));
                match (known, &inner.paging.source) {
                    (Some((slot, def)), Some(source)) => {
                        if let Some(cell) = inner.log.cell_mut(slot, def) {
                            cell.set_mark(source, def, note.mark);
                        }
                    }
                    _ => _ = stored.logs.insert(name, note),
                }
            }
            tallies.into_iter().for_each(|(slot, tally)| inner.log.set_tally(slot, tally));
        }
        for (name, records) in slices {
            let known = registry.find_name(&name);
            match known.and_then(|slot| Some((slot, Arc::clone(registry.def(slot)?)))) {
                // The runtime's own types, so this is no foreign code.
                Some((slot, def)) => {
                    let read = record::cell_of(&def, &records).map(|cell| (cell, None));
                    self.take_in(&mut stored, &mut registry, slot, &def, read);
                }
                None => {
                    stored.waiting.insert(name.into(), Arc::new(records));
                }
            }
        }
        self.set_registry(Arc::new(registry));
    }

    /// Makes what was stored of a slice its contents.
    fn take_in(
        &self,
        stored: &mut Stored,
        registry: &mut Registry,
        slot: Slot,
        def: &SliceDef,
        read: Result<(Cell, Option<Tally>), String>,
    ) {
        match read {
            Ok((mut cell, tally)) => {
                let mut inner = lock(&self.core.inner);
                cell.version = inner.next_version();
                match def.kind {
                    SliceKind::State => Arc::make_mut(&mut inner.state).set(slot, cell),
                    SliceKind::Log => inner.log.set(slot, cell),
                };
                match tally {
                    Some(tally) => inner.log.set_tally(slot, tally),
                    None => inner.log.count(slot, def),
                }
            }
            Err(reason) => {
                tracing::error!(slice = def.name, reason, "a stored value cannot be read");
                stored.problems.push(SliceProblem { slice: def.name.to_owned(), reason: reason.clone() });
                registry.set_broken(slot, reason.into());
            }
        }
    }

    pub(super) fn interrupted(&self, mark: CallMark) -> ToolInvoked {
        let message: Arc<str> = format!(
            "{} was interrupted: its process ended before it did; nothing of it was kept in this session",
            mark.tool
        )
        .into();
        ToolInvoked {
            id: mark.invocation,
            call_id: mark.call_id.into(),
            tool: mark.tool.into(),
            prompt: mark.prompt.into(),
            adapter: mark.adapter.into(),
            session: self.core.id.clone(),
            run: Arc::new(mark.run.unwrap_or_default()),
            time: mark.time,
            duration: std::time::Duration::ZERO,
            attempt: mark.attempt.unwrap_or(1),
            request: mark.request.map(Into::into),
            params: LoggedParams::Accepted(mark.arguments.into()),
            ending: Ending::Interrupted,
            success: false,
            rendered: Arc::clone(&message),
            message,
            value: LoggedValue::None,
            value_hidden: false,
            error_chain: Vec::new(),
            decisions: Arc::default(),
            approvers: Vec::new(),
            replayed: false,
            usage: None,
        }
    }
}
