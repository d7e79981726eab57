//! How changes become part of a session: outside dispatches, and the commit of a call.
//!
//! The lock is held for pointer copies and comparisons, never while a reducer, a subscriber or the store runs.
//! Whoever changes the session works on a [`Fork`], and publishes it if what it was made from is still there;
//! else it is brought up to date and tried again, so concurrent changes are applied one after the other and none
//! is lost.

use std::sync::Arc;

use super::fork::{Action, Conflict, Fork};
use super::ids::InvocationId;
use super::reducer::{Registry, Slot, type_of};
use super::root::Root;
use super::slice::{Change, Item, SliceDef, SliceKind};
use super::{Committing, ReducerFailure, Session, record};
use crate::store::{Batch, Durability, LedgerRow, Record, StoreError};
use crate::support::future::{CatchPanic, catch};
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
    /// Changes from outside a call that the store has not been given yet.
    outbox: Vec<Record>,
    /// What was dispatched from outside while a commit is on its way to the store.
    window: Option<Vec<Action>>,
}

/// What a call leaves behind beside its fork.
#[derive(Default)]
pub(crate) struct Closing {
    /// The one event.
    pub(crate) event: Option<Item>,
    /// The ledger row that becomes true with the commit.
    pub(crate) ledger: Option<LedgerRow>,
    /// The call that ends.
    pub(crate) ends: Option<InvocationId>,
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

    /// STATE was replaced whole.
    pub(crate) fn state_replaced(&mut self) -> u64 {
        self.state_version = self.next_version();
        self.state_version
    }

    /// Goes on counting where another session is, whose contents were taken over.
    pub(crate) fn start_at(&mut self, version: u64) {
        self.published = version;
    }

    pub(crate) fn outbox(&mut self) -> &mut Vec<Record> {
        &mut self.outbox
    }

    fn publish(&mut self, state: Fork, log: LogPart) {
        let version = self.next_version();
        if !state.is_clean() {
            self.state_version = version;
            Arc::make_mut(&mut self.state).take(state, version);
        }
        if !log.fork.is_clean() {
            self.log.take(log.fork, version);
        }
        for (slot, def, item) in log.appends {
            self.log.append(slot, &def, item, version);
        }
    }
}

/// What goes to LOG slices: plain appends, which touch nothing else, and the work of registered reducers.
#[derive(Default)]
struct LogPart {
    appends: Vec<(Slot, Arc<SliceDef>, Item)>,
    fork: Fork,
}

impl Session {
    /// Applies an action from outside any call: its STATE and LOG part.
    pub(crate) fn apply_outside(&self, action: Action) -> Vec<ReducerFailure> {
        let registry = self.registry();
        loop {
            let mut fork = Fork::default();
            let mut failures =
                fork.apply(&registry, &action, SliceKind::State, |slot, def| lock(&self.core.inner).state.cell(slot, def));
            let (log, log_failures) = self.log_part(&registry, [&action]);
            failures.extend(log_failures);
            let records = match self.records(&registry, &fork, &log) {
                Ok(records) => records,
                Err(reason) => {
                    failures.push(ReducerFailure { slice: "(store)", reason });
                    return failures;
                }
            };
            let mut inner = lock(&self.core.inner);
            if fork.is_current(&inner.state) && log.fork.is_current(&inner.log) {
                match &mut inner.window {
                    // What this comes to is only known once the commit on its way is decided.
                    Some(window) if !fork.is_clean() => window.push(action),
                    Some(_) | None => inner.outbox.extend(records),
                }
                inner.publish(fork, log);
                return failures;
            }
        }
    }

    /// Makes a call's changes part of the session, together with its event and its ledger row, or nothing of them.
    pub(crate) async fn commit(
        &self,
        _one_at_a_time: &Committing<'_>,
        mut fork: Fork,
        closing: Closing,
    ) -> Result<(), CommitError> {
        let registry = self.registry();
        self.bring_up_to_date(&registry, &mut fork)?;
        let log = self.closing_log(&registry, &fork, closing.event);
        let stored = match self.records(&registry, &fork, &log) {
            Ok(records) => self.send(records, closing.ends, closing.ledger).await.map_err(CommitError::from),
            Err(reason) => Err(CommitError::Encode(reason)),
        };
        match stored {
            Ok(()) => self.close_window(&registry, fork, log),
            Err(_) => self.close_window(&registry, Fork::default(), LogPart::default()),
        }
        stored
    }

    /// Records the end of a call that did not commit: its LOG part, its event and what becomes of its claim.
    ///
    /// The event is in the log even when the store fails; that failure is the caller's to report.
    pub(crate) async fn close_failed(
        &self,
        _one_at_a_time: &Committing<'_>,
        fork: &Fork,
        closing: Closing,
    ) -> Result<(), CommitError> {
        let registry = self.registry();
        let log = self.closing_log(&registry, fork, closing.event);
        let records = self.records(&registry, &Fork::default(), &log);
        lock(&self.core.inner).publish(Fork::default(), log);
        self.send(records.map_err(CommitError::Encode)?, closing.ends, closing.ledger).await?;
        Ok(())
    }

    /// Hands what was dispatched from outside since the last commit to the store.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.committing().await;
        if lock(&self.core.inner).outbox.is_empty() {
            return Ok(());
        }
        self.send(Vec::new(), None, None).await
    }

    /// Gives the store one batch; what came from outside before goes with it.
    async fn send(
        &self,
        records: Vec<Record>,
        ends: Option<InvocationId>,
        ledger: Option<LedgerRow>,
    ) -> Result<(), StoreError> {
        let durable = self.is_durable();
        let mut all = if durable { std::mem::take(&mut lock(&self.core.inner).outbox) } else { Vec::new() };
        let from_outside = all.clone();
        all.extend(records);
        if all.is_empty() && ends.is_none() && ledger.is_none() {
            return Ok(());
        }
        let stored = self.store_batch(Batch { records: all, ends, ledger }).await;
        if stored.is_err() && durable {
            lock(&self.core.inner).outbox.splice(0..0, from_outside);
        }
        stored
    }

    /// A store that panics has failed, like any other: what waits for its answer must get one.
    async fn store_batch(&self, batch: Batch) -> Result<(), StoreError> {
        let stored = match catch(|| self.core.store.commit(&self.core.id, batch)) {
            Ok(storing) => CatchPanic(storing).await,
            Err(panic) => Err(panic),
        };
        stored.unwrap_or_else(|panic| Err(StoreError { doing: "commit", reason: format!("it panicked: {panic}") }))
    }

    /// Rebases `fork` until it fits, and opens the window in the same breath.
    fn bring_up_to_date(&self, registry: &Registry, fork: &mut Fork) -> Result<(), Conflict> {
        loop {
            let root = {
                let mut inner = lock(&self.core.inner);
                if fork.is_current(&inner.state) {
                    inner.window = Some(Vec::new());
                    return Ok(());
                }
                Arc::clone(&inner.state)
            };
            fork.rebase(registry, &root)?;
        }
    }

    /// Publishes what was stored, and what came from outside meanwhile on top of it.
    fn close_window(&self, registry: &Registry, mut fork: Fork, log: LogPart) {
        let mut done = 0;
        loop {
            let mut inner = lock(&self.core.inner);
            let late: Vec<Action> = inner.window.iter().flatten().skip(done).cloned().collect();
            if late.is_empty() {
                let late = inner.window.take().unwrap_or_default();
                inner.publish(fork, log);
                if !late.is_empty() && self.is_durable() {
                    let whole = record::whole_slices(registry, &inner.state, &late);
                    inner.outbox.extend(whole);
                }
                return;
            }
            drop(inner);
            done += late.len();
            late.iter().for_each(|action| fork.repeat_on_touched(registry, action));
        }
    }

    fn closing_log(&self, registry: &Registry, fork: &Fork, event: Option<Item>) -> LogPart {
        let (mut log, failures) = self.log_part(registry, fork.actions());
        for failure in failures {
            tracing::warn!(slice = failure.slice, reason = failure.reason, "a LOG reducer failed");
        }
        if let Some(event) = event
            && let Some((slot, def)) = registry.find_def(type_of(&event))
        {
            log.appends.push((slot, def, event));
        }
        log
    }

    fn log_part<'a>(
        &self,
        registry: &Registry,
        actions: impl IntoIterator<Item = &'a Action>,
    ) -> (LogPart, Vec<ReducerFailure>) {
        let mut log = LogPart::default();
        let mut failures = Vec::new();
        for action in actions {
            if let Action::Event(event) = action
                && registry.reducers(type_of(event)).is_none()
            {
                let found = registry.find_def(type_of(event));
                if let Some((slot, def)) = found.filter(|(_, def)| def.kind == SliceKind::Log) {
                    log.appends.push((slot, def, Arc::clone(event)));
                }
                continue;
            }
            let base = |slot, def: &SliceDef| lock(&self.core.inner).log.cell(slot, def);
            failures.extend(log.fork.apply(registry, action, SliceKind::Log, base));
        }
        (log, failures)
    }

    fn records(&self, registry: &Registry, fork: &Fork, log: &LogPart) -> Result<Vec<Record>, String> {
        if !self.is_durable() {
            return Ok(Vec::new());
        }
        let mut records = record::of_fork(registry, fork)?;
        records.extend(record::of_fork(registry, &log.fork)?);
        for (_, def, item) in &log.appends {
            records.push(record::of_change(def, &Change::Append(Arc::clone(item)))?);
        }
        Ok(records)
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.core.durability == Durability::Restart
    }
}
