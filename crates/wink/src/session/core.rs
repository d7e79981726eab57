//! How changes become part of a session: outside dispatches, and the commit of a call.
//!
//! The lock is held for pointer copies and comparisons, never while a reducer, a subscriber, an encoder or the
//! store runs. Whoever changes STATE works on a [`Fork`], and publishes it if what it was made from is still
//! there; else it is brought up to date and tried again, so concurrent changes are applied one after the other and
//! none is lost. LOG slices only grow, so additions to them never have to be tried again once decided.

use std::sync::Arc;

use super::fork::{Action, Conflict, Fork};
use super::ids::InvocationId;
use super::log_part::{LogAppend, LogPart};
use super::reducer::{Registry, Slot, type_of};
use super::root::Root;
use super::settle::{Paging, Sent, weight};
use super::slice::{Change, Item, SliceDef, SliceKind};
use super::sync::{MOST_RELOADS, Pending, Unsent};
use super::window::{Late, Window};
use super::{Committing, ReducerFailure, Session, record};
use crate::store::{Batch, Durability, JournalId, LedgerChange, Record, StoreError};
use crate::support::background::MustFinish;
use crate::support::future::{CatchPanic, catch, drop_contained};
use crate::support::holding::Key;
use crate::support::lock::lock;

/// The part of a session that changes.
#[derive(Default)]
pub(crate) struct Inner {
    /// STATE.
    pub(crate) state: Arc<Root>,
    /// LOG. Not shared with forks, so that appending never copies.
    pub(crate) log: Root,
    /// Counts publications; every changed slice carries the number of the last one that changed it.
    published: u64,
    /// The last publication that changed STATE.
    state_version: u64,
    /// Changes that are in memory and that the store has not been given yet.
    pub(crate) outbox: Vec<Record>,
    /// What that takes to be brought up to date, if others write to the store too.
    pub(super) pending: Pending,
    /// The number of the last record of the store that is in here.
    pub(super) known: u64,
    /// What came from outside while a commit is on its way to the store.
    pub(super) window: Option<Window>,
    /// How the log is left to the store.
    pub(super) paging: Paging,
}

/// What a call leaves behind beside its fork.
#[derive(Default)]
pub(crate) struct Closing {
    /// The one event.
    pub(crate) event: Option<Item>,
    /// What becomes of the call's ledger row with the commit.
    pub(crate) ledger: Option<Box<LedgerChange>>,
    /// The call that ends.
    pub(crate) ends: Option<InvocationId>,
    /// The changes to files that are decided with it.
    pub(crate) journals: Vec<JournalId>,
}

/// Why a commit did not go through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Somebody else changed what the call relied on.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// A value could not be encoded for the store.
    #[error("a change could not be encoded: {0}")]
    Encode(String),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Inner {
    pub(crate) fn next_version(&mut self) -> u64 {
        self.published += 1;
        self.published
    }

    pub(crate) fn version(&self) -> u64 {
        self.published
    }

    pub(crate) fn state_version(&self) -> u64 {
        self.state_version
    }

    /// The number of the publication that changes STATE now.
    pub(crate) fn state_changes(&mut self) -> u64 {
        self.state_version = self.next_version();
        self.state_version
    }

    /// Goes on counting where another session is, whose contents were taken over.
    pub(crate) fn start_at(&mut self, version: u64) {
        self.published = version;
    }

    /// Takes over what `fork` and `log` change. What was there before goes back with the fork, so that it is
    /// dropped after the lock.
    pub(super) fn publish(&mut self, mut fork: Fork, log: &[LogAppend]) -> Fork {
        let version = self.next_version();
        if !fork.is_clean() {
            self.state_version = version;
            Arc::make_mut(&mut self.state).take(&mut fork, version);
        }
        for append in log {
            self.log.apply(append.slot, &append.def, &append.change, version);
        }
        fork
    }
}

impl Session {
    /// By what it is known who holds this session's turn.
    pub(crate) fn turn_key(&self) -> Key {
        Key::of(Arc::as_ptr(&self.core.turn))
    }

    /// Applies an action from outside any call: its STATE and LOG part.
    pub(crate) fn apply_outside(&self, action: Action) -> Vec<ReducerFailure> {
        let registry = self.registry();
        if let Action::Event(event) = &action
            && let Some((slot, def)) = registry.plain(type_of(event))
        {
            return self.append_outside(&registry, slot, def, event);
        }
        loop {
            let mut fork = Fork::default();
            let mut failures = fork.apply(&registry, &action, SliceKind::State, |slot, def| {
                lock(&self.core.inner).state.cell(slot, def)
            });
            let (log, log_failures) = self.log_part(&registry, [&action]);
            failures.extend(log_failures);
            let (slices, rest) = match self.records(&registry, &fork, &log.appends) {
                Ok(records) => records,
                Err(failure) => {
                    failures.push(failure);
                    return failures;
                }
            };
            let mut guard = lock(&self.core.inner);
            if fork.is_current(&guard.state) && log.seen.is_current(&guard.log) {
                let inner = &mut *guard;
                match &mut inner.window {
                    Some(window) => {
                        log.appends.iter().for_each(|append| window.count(append.slot, &append.change));
                        if !fork.is_clean() {
                            window.late.push(Late::Action(action.clone(), slices));
                        }
                    }
                    None => inner.outbox.extend(slices.into_iter().map(|(_, record)| record)),
                }
                inner.outbox.extend(rest);
                if self.core.is_shared {
                    let changed = fork.touched.iter().filter(|touched| !touched.changes.is_empty());
                    for (slot, def) in changed.filter_map(|one| Some((one.slot, registry.def(one.slot)?))) {
                        inner.pending.before(slot, || inner.state.cell(slot, def));
                    }
                    if !fork.is_clean() {
                        inner.pending.did(&action);
                    }
                    log.appends.iter().for_each(|one| inner.pending.appended(one.slot, &one.change));
                }
                let gone = inner.publish(fork, &log.appends);
                drop(guard);
                drop_contained(gone);
                return failures;
            }
        }
    }

    /// The common case: an event without reducers goes to the end of its own slice, in place.
    fn append_outside(
        &self,
        registry: &Registry,
        slot: Slot,
        def: &SliceDef,
        event: &Item,
    ) -> Vec<ReducerFailure> {
        let failed = |reason| vec![ReducerFailure { slice: def.name, reason }];
        let is_log = def.kind == SliceKind::Log;
        if !is_log && let Some(reason) = registry.broken(slot) {
            return failed(reason.to_string());
        }
        let change = Change::Append(Arc::clone(event));
        let record = match self.is_durable().then(|| record::of_change(def, &change)).transpose() {
            Ok(record) => record,
            Err(reason) => return failed(reason),
        };
        let mut inner = lock(&self.core.inner);
        let inner = &mut *inner;
        match (&mut inner.window, is_log) {
            (Some(window), true) => {
                window.count(slot, &change);
                inner.outbox.extend(record);
            }
            (Some(window), false) => {
                let records = record.into_iter().map(|record| (slot, record)).collect();
                window.late.push(Late::Action(Action::Event(Arc::clone(event)), records));
            }
            (None, _) => inner.outbox.extend(record),
        }
        match self.core.is_shared {
            true if is_log => inner.pending.appended(slot, &change),
            true => {
                inner.pending.before(slot, || inner.state.cell(slot, def));
                inner.pending.did(&Action::Event(Arc::clone(event)));
            }
            false => {}
        }
        let (version, root) = match is_log {
            true => (inner.next_version(), &mut inner.log),
            false => (inner.state_changes(), Arc::make_mut(&mut inner.state)),
        };
        root.apply(slot, def, &change, version);
        Vec::new()
    }

    /// Makes a call's changes part of the session, together with its event and its ledger row, or nothing of them.
    pub(crate) async fn commit(
        &self,
        one_at_a_time: &Committing<'_>,
        mut fork: Fork,
        mut closing: Closing,
    ) -> Result<(), CommitError> {
        for tries in 0.. {
            let registry = self.registry();
            let before = self.open_window(&registry, &mut fork)?;
            let log = self.closing_log(&registry, &fork, closing.event.clone());
            let stored = match self.records(&registry, &fork, &log.appends) {
                Ok((slices, rest)) => {
                    let own = slices.into_iter().map(|(_, record)| record).chain(rest);
                    self.send(before, own, &mut closing).await.map_err(CommitError::from)
                }
                Err(failure) => {
                    lock(&self.core.inner).put_back(before);
                    Err(CommitError::Encode(failure.to_string()))
                }
            };
            match stored {
                Ok(sent) => {
                    self.close_window(&registry, fork, &log.appends, sent);
                    break;
                }
                Err(error) => {
                    self.close_window(&registry, Fork::default(), &[], Sent::default());
                    match error {
                        CommitError::Store(error) if error.is_moved() && tries < MOST_RELOADS => {
                            self.catch_up(one_at_a_time).await?;
                        }
                        error => return Err(error),
                    }
                }
            }
        }
        self.summarise_if_due(one_at_a_time).await;
        Ok(())
    }

    /// Whether a commit that changes the ledger like this has to be stored.
    pub(crate) fn must_store(&self, ledger: Option<&LedgerChange>) -> bool {
        self.core.hears_every_commit || ledger.is_some()
    }

    /// [`Session::commit`] for what need not be stored: nothing has to be waited for.
    pub(crate) fn commit_unstored(
        &self,
        _one_at_a_time: &Committing<'_>,
        mut fork: Fork,
        event: Option<Item>,
    ) -> Result<(), (Conflict, Fork)> {
        let registry = self.registry();
        let event = event.and_then(|event| Some((registry.place(type_of(&event))?, Change::Append(event))));
        loop {
            // What its reducers looked at may have grown meanwhile, so this too is decided anew.
            let log = match fork.steps.is_empty() {
                true => LogPart::default(),
                false => self.closing_log(&registry, &fork, None),
            };
            let root = {
                let mut inner = lock(&self.core.inner);
                if fork.is_current(&inner.state) && log.seen.is_current(&inner.log) {
                    let published = inner.publish(fork, &log.appends);
                    if let Some(((slot, def), append)) = &event {
                        let version = inner.version();
                        inner.log.apply(*slot, def, append, version);
                    }
                    drop(inner);
                    // Items are foreign: what one does when it is dropped cannot change that it was replaced.
                    drop_contained(published);
                    return Ok(());
                }
                Arc::clone(&inner.state)
            };
            if let Err(conflict) = fork.rebase(&registry, &root) {
                return Err((conflict, fork));
            }
        }
    }

    /// Records the end of a call that did not commit: its LOG part and its event.
    ///
    /// The event is in the log even when the store fails; that failure is the caller's to report, and the event
    /// goes to the store with the next batch.
    pub(crate) async fn close_failed(
        &self,
        one_at_a_time: &Committing<'_>,
        fork: &Fork,
        closing: Closing,
    ) -> Result<(), CommitError> {
        let registry = self.registry();
        // Without the event of the success that did not come about.
        let facts = fork.log_only();
        loop {
            let mut log = self.closing_log(&registry, &facts, closing.event.clone());
            if let Some(event) = &closing.event
                && registry.reducers(type_of(event)).is_some()
            {
                // Whoever reduces calls into LOG slices hears of failed ones too; STATE does not.
                let (reduced, failures) = self.log_part(&registry, [&Action::Event(Arc::clone(event))]);
                failures.iter().for_each(|failure| tracing::warn!(%failure, "a LOG reducer failed"));
                log.appends.extend(reduced.appends);
                log.seen.touched.extend(reduced.seen.touched);
            }
            let records = self.encodable(&mut log.appends);
            let mut inner = lock(&self.core.inner);
            if log.seen.is_current(&inner.log) {
                let _clean = inner.publish(Fork::default(), &log.appends);
                let call = closing.ends;
                inner.outbox.extend(records.into_iter().map(|record| Record { call, ..record }));
                if self.core.is_shared {
                    log.appends.iter().for_each(|one| inner.pending.appended(one.slot, &one.change));
                }
                break;
            }
        }
        Ok(self.send_all(one_at_a_time, closing).await?)
    }

    /// Hands what was dispatched from outside since the last commit to the store.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let session = self.clone();
        let flushing = async move {
            let one_at_a_time = session.committing().await;
            let empty = lock(&session.core.inner).outbox.is_empty();
            if empty { Ok(()) } else { session.send_all(&one_at_a_time, Closing::default()).await }
        };
        // What was taken out of the outbox must arrive or come back, whoever stops waiting.
        MustFinish::new(flushing).await
    }

    /// Gives the store everything that is in memory, on top of what others have committed.
    async fn send_all(&self, one_at_a_time: &Committing<'_>, mut closing: Closing) -> Result<(), StoreError> {
        for tries in 0.. {
            let unsent = lock(&self.core.inner).take_unsent();
            match self.send(unsent, [], &mut closing).await {
                Err(error) if error.is_moved() && tries < MOST_RELOADS => {
                    self.catch_up(one_at_a_time).await?;
                }
                Err(error) => return Err(error),
                Ok(sent) => {
                    let registry = self.registry();
                    let gone = lock(&self.core.inner).settle(&registry, sent, &[]);
                    drop_contained(gone);
                    break;
                }
            }
        }
        self.summarise_if_due(one_at_a_time).await;
        Ok(())
    }

    /// Gives the store one batch: what was in memory `before`, and the call's `own` changes. On failure the former
    /// waits for the next batch.
    async fn send(
        &self,
        before: Unsent,
        own: impl IntoIterator<Item = Record>,
        closing: &mut Closing,
    ) -> Result<Sent, StoreError> {
        let (call, shared) = (closing.ends, self.core.is_shared);
        let mut records = before.records.clone();
        records.extend(own.into_iter().map(|record| Record { call, ..record }));
        let expects = shared.then(|| lock(&self.core.inner).known);
        let (sent, weighs) = (records.len() as u64, weight(&records));
        let emptied = before.held.emptied_at(&before.records);
        // What another process is first with has to be tried again.
        let ledger = if shared { closing.ledger.clone() } else { closing.ledger.take() };
        let journals = closing.journals.clone();
        let ledger = ledger.map(|change| *change);
        let batch = Batch { records, ends: call, ledger, journals, expects };
        let stored = self.store_batch(batch).await;
        let mut inner = lock(&self.core.inner);
        match stored {
            Ok(()) => {
                let floor = emptied.map(|at| inner.known + at + 1);
                inner.known += sent;
                inner.paging.grew(weighs);
                Ok(Sent::new(before.held, inner.known, floor))
            }
            Err(error) => {
                inner.put_back(before);
                Err(error)
            }
        }
    }

    /// A store that panics has failed, like any other: what waits for its answer must get one.
    async fn store_batch(&self, batch: Batch) -> Result<(), StoreError> {
        let stored = match catch(|| self.core.store.commit(&self.core.id, batch)) {
            Ok(storing) => CatchPanic::new(storing).await,
            Err(panic) => Err(panic),
        };
        stored.unwrap_or_else(|panic| Err(StoreError::failed("commit", format!("it panicked: {panic}"))))
    }

    /// Rebases `fork` until it fits; in the same breath opens the window and takes what the store has not got yet.
    fn open_window(&self, registry: &Registry, fork: &mut Fork) -> Result<Unsent, Conflict> {
        loop {
            let root = {
                let mut inner = lock(&self.core.inner);
                if fork.is_current(&inner.state) {
                    fork.see_all(&inner.state);
                    inner.window = Some(Window::default());
                    return Ok(inner.take_unsent());
                }
                Arc::clone(&inner.state)
            };
            fork.rebase(registry, &root)?;
        }
    }

    /// The records of STATE slices, by slot, and all others.
    fn records(
        &self,
        registry: &Registry,
        fork: &Fork,
        log: &[LogAppend],
    ) -> Result<(Vec<(Slot, Record)>, Vec<Record>), ReducerFailure> {
        if !self.is_durable() {
            return Ok((Vec::new(), Vec::new()));
        }
        let failed = |slice| move |reason| ReducerFailure { slice, reason };
        let slices = record::of_slices(registry, fork)?;
        let mut rest = record::of_tables(fork).map_err(failed("(policies and calls)"))?;
        for LogAppend { def, change, .. } in log {
            rest.push(record::of_change(def, change).map_err(failed(def.name))?);
        }
        Ok((slices, rest))
    }

    /// The records of `log`, without what cannot be encoded: the end of a call is recorded whatever else it left.
    fn encodable(&self, log: &mut Vec<LogAppend>) -> Vec<Record> {
        let mut records = Vec::new();
        if self.is_durable() {
            log.retain(|append| match record::of_change(&append.def, &append.change) {
                Ok(record) => {
                    records.push(record);
                    true
                }
                Err(reason) => {
                    tracing::error!(
                        slice = append.def.name,
                        reason,
                        "a LOG event cannot be encoded and is dropped"
                    );
                    false
                }
            });
        }
        records
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.core.durability == Durability::Restart
    }
}
