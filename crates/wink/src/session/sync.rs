//! A session that several processes share: what others committed is taken over, and what was done here meanwhile is done
//! again on top of it.
//!
//! Memory may be ahead of the store by what came from outside and was not sent yet. [`Pending`] is what is needed to bring
//! that up to date; sessions of a store that is not shared keep nothing here.

use std::collections::HashMap;
use std::sync::Arc;

use super::core::Inner;
use super::fork::{Action, Touched};
use super::open::SliceProblem;
use super::record::Shape;
use super::reducer::{Registry, Slot};
use super::settle::Held;
use super::slice::{Cell, Change, Item, SliceDef, SliceKind, SliceType};
use super::summary::LogNote;
use super::{Closing, Committing, Fork, InvocationId, Session, ToolInvoked, record, settle};
use crate::store::{CallMark, HistoryQuery, Record, StoreError, StoreTurn};
use crate::support::future::{CatchPanic, catch};
use crate::support::lock::lock;

/// How often a commit that finds the session moved is tried again. A call has the session's turn, so that only what others
/// dispatch from outside can come between.
pub(super) const MOST_RELOADS: usize = 32;

/// What is in memory and not in the store.
#[derive(Default)]
pub(super) struct Unsent {
    pub(super) records: Vec<Record>,
    pub(super) pending: Pending,
    pub(super) held: Held,
}

/// What was done from outside since the store was last given everything.
#[derive(Default, Clone)]
pub(crate) struct Pending {
    actions: Vec<Action>,
    /// Slices that `actions` changed, as the store has them.
    bases: Vec<(Slot, Cell)>,
    /// How many items at the end of LOG slices the store does not have.
    appended: Vec<(Slot, usize)>,
    replaced: Replaced,
}

/// What was replaced as a whole, so that whatever others did to it before is replaced as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Replaced {
    #[default]
    Nothing,
    State,
    Everything,
}

impl Replaced {
    fn covers(self, kind: SliceKind) -> bool {
        match kind {
            SliceKind::State => self >= Self::State,
            SliceKind::Log => self == Self::Everything,
        }
    }
}

impl Pending {
    /// An action is about to change `slot`, which has `cell`.
    pub(super) fn before(&mut self, slot: Slot, cell: impl FnOnce() -> Cell) {
        if self.base(slot).is_none() {
            self.bases.push((slot, cell()));
        }
    }

    pub(super) fn did(&mut self, action: &Action) {
        self.actions.push(action.clone());
    }

    pub(super) fn appended(&mut self, slot: Slot, change: &Change) {
        let more = change.added();
        match self.appended.iter_mut().find(|(of, _)| *of == slot) {
            Some((_, count)) => *count += more,
            None => self.appended.push((slot, more)),
        }
    }

    pub(super) fn replaces(&mut self, what: Replaced) {
        let appended = match what {
            Replaced::Everything => Vec::new(),
            Replaced::State | Replaced::Nothing => std::mem::take(&mut self.appended),
        };
        *self = Self { replaced: what.max(self.replaced), appended, ..Self::default() };
    }

    /// A commit was stored that changed these slices before what is pending.
    pub(super) fn committed_before(&mut self, cells: Vec<(Slot, Cell)>) {
        for (slot, cell) in cells {
            if let Some((_, base)) = self.bases.iter_mut().find(|(of, _)| *of == slot) {
                *base = cell;
            }
        }
    }

    fn base(&self, slot: Slot) -> Option<&Cell> {
        self.bases.iter().find(|(of, _)| *of == slot).map(|(_, cell)| cell)
    }

    fn behind(&self, slot: Slot) -> usize {
        self.appended.iter().find(|(of, _)| *of == slot).map_or(0, |(_, count)| *count)
    }

    /// Puts back what was pending before and could not be sent.
    fn put_before(&mut self, mut earlier: Self) {
        if self.replaced > Replaced::Nothing {
            // What was replaced meanwhile is replaced with all that was pending.
            earlier.replaces(self.replaced);
        }
        earlier.actions.append(&mut self.actions);
        for (slot, cell) in self.bases.drain(..) {
            earlier.before(slot, || cell);
        }
        for (slot, count) in self.appended.drain(..) {
            match earlier.appended.iter_mut().find(|(of, _)| *of == slot) {
                Some((_, before)) => *before += count,
                None => earlier.appended.push((slot, count)),
            }
        }
        *self = earlier;
    }
}

impl Inner {
    pub(super) fn take_unsent(&mut self) -> Unsent {
        Unsent {
            held: self.hold(),
            records: std::mem::take(&mut self.outbox),
            pending: std::mem::take(&mut self.pending),
        }
    }

    pub(super) fn put_back(&mut self, unsent: Unsent) {
        self.outbox.splice(0..0, unsent.records);
        self.pending.put_before(unsent.pending);
        self.paging.put_back(&unsent.held);
    }
}

/// What others did to one slice.
struct Foreign {
    slot: Slot,
    def: Arc<SliceDef>,
    changes: Result<Vec<Change>, String>,
    /// Of a LOG slice that the store keeps: what they did to how many items there are. Then `changes` are those to be counted.
    shapes: Vec<Shape>,
    /// The slice with what is pending here done again, and the records of that.
    again: Option<(Cell, Vec<Record>)>,
}

impl Session {
    /// Whether other processes may commit to it.
    pub(crate) fn is_shared(&self) -> bool {
        self.core.is_shared
    }

    /// Whether the event of a call is in the log. Looks through all of it: for when something went badly wrong.
    pub(crate) fn has_recorded(&self, call: InvocationId) -> bool {
        self.slice::<ToolInvoked>().newest().any(|event| event.id == call)
    }

    /// Whether the event of a call is in the log, without looking through that part of it that is in the store.
    async fn is_recorded(&self, call: InvocationId) -> Result<bool, StoreError> {
        if lock(self.inner()).paging.source.is_none() {
            return Ok(self.has_recorded(call));
        }
        let is_it = |item: Item| item.downcast_ref::<ToolInvoked>().is_some_and(|event| event.id == call);
        let slot = self.slot_of::<ToolInvoked>();
        let unsent = slot.is_ok_and(|slot| self.cell_now(slot).items.in_memory().any(is_it));
        let stream = Some(ToolInvoked::NAME.to_owned());
        let query = HistoryQuery { call: Some(call), stream, ..HistoryQuery::default() };
        Ok(unsent || !self.history(query).await?.records.is_empty())
    }

    /// Waits until no other process runs a call of this session, and takes over what they left.
    pub(crate) async fn store_turn(&self) -> Result<StoreTurn, StoreError> {
        let turn = contained("take a turn", || self.core.store.turn(&self.core.id)).await?;
        let committing = self.committing().await;
        let unfinished = self.catch_up(&committing).await?;
        self.close_interrupted(&committing, unfinished).await?;
        Ok(turn)
    }

    /// Takes over what other processes have committed, without waiting for their calls. Hands back the calls whose process has
    /// died and that have no event yet, as they will be in the log: whoever runs a call next, or opens the session, puts them
    /// there. Nothing is done for a session that only one process can have open.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn refresh(&self) -> Result<Vec<ToolInvoked>, StoreError> {
        if !self.is_shared() {
            return Ok(Vec::new());
        }
        let unfinished = self.catch_up(&self.committing().await).await?;
        Ok(unfinished.into_iter().map(|mark| self.interrupted(mark)).collect())
    }

    /// Takes something of the session that one at a time can have, among processes too, and what others have committed until
    /// then; nothing if somebody has it. It is given back when it is dropped, or the process dies.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn hold(&self, what: &str) -> Result<Option<StoreTurn>, StoreError> {
        let held = contained("hold", || self.core.store.hold(&self.core.id, what)).await?;
        if held.is_some() {
            self.refresh().await?;
        }
        Ok(held)
    }

    /// Gives calls whose process died their event.
    pub(super) async fn close_interrupted(
        &self,
        committing: &Committing<'_>,
        marks: Vec<CallMark>,
    ) -> Result<(), StoreError> {
        for mark in marks {
            let ends = Some(mark.invocation);
            // The event of a call whose end could not be stored may have come with a later batch.
            let known = self.is_recorded(mark.invocation).await?;
            let event = (!known).then(|| Arc::new(self.interrupted(mark)) as Item);
            let closing = Closing { event, ends, ..Closing::default() };
            let closed = self.close_failed(committing, &Fork::default(), closing).await;
            closed.map_err(|error| StoreError::failed("record an interrupted call", error.to_string()))?;
        }
        Ok(())
    }

    /// Takes over what others committed. Returns the calls whose process has died.
    pub(crate) async fn catch_up(&self, _: &Committing<'_>) -> Result<Vec<CallMark>, StoreError> {
        let known = lock(self.inner()).known;
        let load = || self.core.store.load_since(&self.core.id, known);
        let news = contained("load what is new", load).await?;
        if news.sequence < known {
            let reason = format!("it has {} records of this session, which knew {known}", news.sequence);
            return Err(StoreError::failed("load what is new", reason));
        }
        if news.sequence > known {
            let source = lock(self.inner()).paging.source.clone();
            let starts = match &source {
                Some(source) => settle::starts(source, &news.records, known, news.sequence)?,
                None => HashMap::new(),
            };
            while !self.try_take_over(&news.records, news.sequence, &starts) {}
        }
        Ok(news.unfinished)
    }

    /// False when something changed here meanwhile. `starts` are the numbers of the records that emptied LOG slices.
    fn try_take_over(&self, records: &[Record], sequence: u64, starts: &HashMap<String, u64>) -> bool {
        let registry = self.registry();
        let paged = lock(self.inner()).paging.source.is_some();
        let (actions, replaced) = {
            let inner = lock(self.inner());
            (inner.pending.actions.clone(), inner.pending.replaced)
        };
        // The slice types' own code, so no lock is held.
        let mut foreign = self.by_slice(&registry, records, replaced, paged);
        for one in foreign.iter_mut().filter(|one| one.def.kind == SliceKind::State) {
            let base = lock(self.inner()).pending.base(one.slot).cloned();
            if let (Some(base), Ok(changes)) = (base, &one.changes) {
                one.again = Some(self.again(&registry, one.slot, &one.def, base, changes, &actions));
            }
        }

        let mut stored = lock(&self.core.stored);
        let mut inner = lock(self.inner());
        let inner = &mut *inner;
        if !Arc::ptr_eq(&self.core.registry.load(), &registry)
            || inner.pending.actions.len() != actions.len()
            || inner.pending.replaced != replaced
        {
            return false;
        }
        let mut broken = Vec::new();
        let is_state = |record: &Record| {
            let kind = || record::kind_of(record).unwrap_or(SliceKind::State);
            record::is_own(&record.stream) || kind() == SliceKind::State
        };
        let version = match records.iter().any(is_state) {
            true => inner.state_changes(),
            false => inner.next_version(),
        };
        for record in records {
            let own = record::is_own(&record.stream);
            if own && !replaced.covers(SliceKind::State) {
                let root = Arc::make_mut(&mut inner.state);
                if let Err(reason) = record::apply_own(root, record, version) {
                    stored.problems.push(SliceProblem { slice: record.stream.clone(), reason });
                }
            }
            if own || registry.find_name(&record.stream).is_some() {
                continue;
            }
            let kind = record::kind_of(record).unwrap_or(SliceKind::State);
            match replaced.covers(kind) {
                true => inner.empty_too(&record.stream, kind),
                false if paged && kind == SliceKind::Log => {
                    let note = stored.logs.entry(record.stream.as_str().into());
                    let note = note.or_insert_with(|| LogNote::empty(inner.paging.floor));
                    let shape = record::shape_of(record).map_or(Shape::Other, |(_, shape)| shape);
                    note.mark.take_foreign(&[shape], starts.get(&record.stream).copied(), sequence);
                    if matches!(shape, Shape::Replaces(_)) {
                        note.tally = None;
                    }
                }
                false => {
                    let waiting = stored.waiting.entry(record.stream.as_str().into()).or_default();
                    Arc::make_mut(waiting).push(record.clone());
                }
            }
        }
        for Foreign { slot, def, changes, shapes, again } in foreign {
            let changes = match changes {
                Ok(changes) => changes,
                Err(reason) => {
                    broken.push((slot, def, reason));
                    continue;
                }
            };
            if replaced.covers(def.kind) {
                inner.empty_too(def.name, def.kind);
                continue;
            }
            match (def.kind, again) {
                (SliceKind::Log, _) if paged => {
                    let numbers = (starts.get(def.name).copied(), sequence);
                    inner.settle_foreign((slot, &def), &shapes, &changes, numbers, version);
                }
                (SliceKind::Log, _) => {
                    let behind = inner.pending.behind(slot);
                    for change in &changes {
                        inner.log.apply_under(slot, &def, change, version, behind);
                    }
                    if !changes.iter().all(Change::only_adds) {
                        inner.log.count(slot, &def);
                    }
                }
                (SliceKind::State, Some((cell, records))) => {
                    let mut base = inner.pending.base(slot).cloned().unwrap_or_else(|| cell.clone());
                    changes.iter().for_each(|change| base.apply(&def, change));
                    inner.pending.committed_before(vec![(slot, base)]);
                    Arc::make_mut(&mut inner.state).set(slot, Cell { version, ..cell });
                    inner.outbox.retain(|record| record.stream != def.name);
                    inner.outbox.extend(records);
                }
                (SliceKind::State, None) => {
                    let root = Arc::make_mut(&mut inner.state);
                    changes.iter().for_each(|change| root.apply(slot, &def, change, version));
                }
            }
        }
        inner.known = sequence;
        inner.paging.grew(settle::weight(records));
        if !broken.is_empty() {
            let mut registry = Registry::clone(&registry);
            for (slot, def, reason) in broken {
                tracing::error!(slice = def.name, reason, "a value of another process cannot be read");
                stored.problems.push(SliceProblem { slice: def.name.to_owned(), reason: reason.clone() });
                registry.set_broken(slot, reason.into());
            }
            self.set_registry(Arc::new(registry));
        }
        true
    }

    /// The changes of each slice that has a type here and can be read.
    fn by_slice(
        &self,
        registry: &Registry,
        records: &[Record],
        replaced: Replaced,
        paged: bool,
    ) -> Vec<Foreign> {
        let mut foreign: Vec<Foreign> = Vec::new();
        for record in records.iter().filter(|record| !record::is_own(&record.stream)) {
            let Some(slot) = registry.find_name(&record.stream) else { continue };
            let Some(def) = registry.def(slot) else { continue };
            if registry.broken(slot).is_some() {
                continue;
            }
            let at = foreign.iter().position(|one| one.slot == slot).unwrap_or_else(|| {
                let def = Arc::clone(def);
                foreign.push(Foreign { slot, def, changes: Ok(Vec::new()), shapes: Vec::new(), again: None });
                foreign.len() - 1
            });
            let Some(one) = foreign.get_mut(at) else { continue };
            if replaced.covers(def.kind) {
                continue;
            }
            if paged && def.kind == SliceKind::Log {
                one.shapes.push(record::shape_of(record).map_or(Shape::Other, |(_, shape)| shape));
                let counted = def.is_counted.then(|| record::change_in(def, record));
                if let (Ok(changes), Some(Ok(change))) = (&mut one.changes, counted) {
                    changes.push(change);
                }
                continue;
            }
            if let Ok(changes) = &mut one.changes {
                match record::change_in(def, record) {
                    Ok(change) => changes.push(change),
                    Err(reason) => one.changes = Err(reason),
                }
            }
        }
        foreign
    }

    /// What a slice comes to when `actions`, which were done before others' `changes` were known, follow them.
    fn again(
        &self,
        registry: &Registry,
        slot: Slot,
        def: &SliceDef,
        mut cell: Cell,
        changes: &[Change],
        actions: &[Action],
    ) -> (Cell, Vec<Record>) {
        changes.iter().for_each(|change| cell.apply(def, change));
        let mut touched = Touched { slot, base: 0, cell, changes: Vec::new(), blind: None };
        for action in actions {
            if let Err(reason) = touched.repeat(registry, def, action) {
                tracing::warn!(slice = def.name, reason, "a reducer fails on what another process left");
            }
        }
        let mut records = Vec::new();
        for change in &touched.changes {
            match record::of_change(def, change) {
                Ok(record) => records.push(record),
                Err(reason) => {
                    tracing::error!(slice = def.name, reason, "a change from outside cannot be encoded");
                }
            }
        }
        (touched.cell, records)
    }
}

impl Inner {
    /// What others did to a stream that was replaced here is replaced too.
    fn empty_too(&mut self, stream: &str, kind: SliceKind) {
        if !self.outbox.iter().any(|record| record.stream == stream)
            && let Ok(nothing) = record::of_nothing(stream, kind)
        {
            // Before whatever is still to be stored: of LOG, all that comes after what empties it is new.
            self.outbox.insert(0, nothing);
            if kind == SliceKind::Log {
                self.paging.empty_more();
            }
        }
    }
}

/// A store that panics has failed, like any other.
pub(super) async fn contained<'a, T>(
    doing: &'static str,
    ask: impl FnOnce() -> crate::BoxFuture<'a, Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let answer = match catch(ask) {
        Ok(asking) => CatchPanic::new(asking).await,
        Err(panic) => Err(panic),
    };
    answer.unwrap_or_else(|panic| Err(StoreError::failed(doing, format!("it panicked: {panic}"))))
}
