//! The time during which a commit is on its way to the store.
//!
//! What comes from outside meanwhile is in memory at once, as if there were no commit. Only when the store has
//! answered is it known what it comes to: on top of the commit, or without it. LOG additions go to the outbox as
//! they come; they are stored after what the commit adds to the same slice, and stand after it in memory too.

use std::sync::Arc;

use super::Session;
use super::core::Inner;
use super::fork::{Action, Fork};
use super::log_part::LogAppend;
use super::record;
use super::reducer::{Registry, Slot};
use super::settle::Sent;
use super::slice::{Cell, Change};
use crate::store::Record;
use crate::support::future::drop_contained;
use crate::support::lock::lock;

/// The right to commit: one commit at a time.
pub(crate) struct Committing<'a> {
    _guard: tokio::sync::MutexGuard<'a, ()>,
}

#[derive(Default)]
pub(super) struct Window {
    pub(super) late: Vec<Late>,
    /// How many items were added to which LOG slices.
    appended: Vec<(Slot, usize)>,
}

/// One change of STATE from outside, and its records if there is no commit.
#[derive(Clone)]
pub(super) enum Late {
    Action(Action, Vec<(Slot, Record)>),
    /// All STATE was replaced.
    Restored(Vec<Record>),
    /// Everything was emptied, LOG too.
    Reset(Vec<Record>),
}

impl Window {
    pub(super) fn count(&mut self, slot: Slot, change: &Change) {
        let more = change.added();
        match self.appended.iter_mut().find(|(other, _)| *other == slot) {
            Some((_, count)) => *count += more,
            None => self.appended.push((slot, more)),
        }
    }

    /// How many items were added to a LOG slice.
    fn appended_to(&self, slot: Slot) -> usize {
        self.appended.iter().find(|(of, _)| *of == slot).map_or(0, |(_, count)| *count)
    }

    /// What was added to LOG before is gone.
    pub(super) fn forget_appends(&mut self) {
        self.appended.clear();
    }
}

impl Inner {
    /// [`Inner::publish`] of what was stored. Only that can change the index of calls in other ways than by a success, so
    /// that nobody else has to look.
    fn publish_stored(&mut self, fork: Fork, log: &[LogAppend]) -> Fork {
        let gone = self.publish(fork, log);
        for (tool, recount) in gone.recounts() {
            Arc::make_mut(&mut self.state).recount(tool, *recount);
        }
        gone
    }
}

impl Session {
    /// The right to commit, if nobody else has it.
    pub(crate) fn try_committing(&self) -> Option<Committing<'_>> {
        Some(Committing { _guard: self.core.committing.try_lock().ok()? })
    }

    /// Waits until no other commit is on its way.
    pub(crate) async fn committing(&self) -> Committing<'_> {
        Committing { _guard: self.core.committing.lock().await }
    }

    /// Publishes what was stored, and what came from outside meanwhile on top of it.
    pub(super) fn close_window(
        &self,
        registry: &Registry,
        mut fork: Fork,
        mut log: &[LogAppend],
        sent: Sent,
    ) {
        let mut done = 0;
        let shared = self.is_shared();
        let changed = fork.touched.iter().filter(|touched| shared && !touched.changes.is_empty());
        let mut stored: Vec<(Slot, Cell)> = changed.map(|one| (one.slot, one.cell.clone())).collect();
        let mut records = Vec::new();
        loop {
            let mut inner = lock(self.inner());
            let late: Vec<Late> =
                inner.window.iter().flat_map(|window| window.late.iter().skip(done)).cloned().collect();
            if late.is_empty() {
                let window = inner.window.take().unwrap_or_default();
                inner.outbox.extend(records);
                inner.pending.committed_before(stored);
                let paged = inner.paging.source.is_some();
                let gone = match self.is_durable() {
                    // Memory has to be as the store is: it is read in that order.
                    true => {
                        let gone = inner.publish_stored(fork, &[]);
                        let version = inner.version();
                        for LogAppend { slot, def, change } in log.iter().filter(|_| !paged) {
                            let later = window.appended_to(*slot);
                            inner.log.apply_under(*slot, def, change, version, later);
                        }
                        gone
                    }
                    false => inner.publish_stored(fork, log),
                };
                let stored = inner.settle(registry, sent, log);
                drop(inner);
                drop_contained((gone, stored, window));
                return;
            }
            drop(inner);
            done += late.len();
            for late in late {
                match late {
                    Late::Action(action, alone) => {
                        records.extend(
                            alone.into_iter().filter(|(slot, _)| !fork.changes(*slot)).map(|(_, one)| one),
                        );
                        self.repeat_on_changed(registry, &mut fork, &action, &mut records);
                    }
                    Late::Restored(whole) => {
                        fork = Fork::default();
                        stored.clear();
                        records.extend(whole);
                    }
                    Late::Reset(whole) => {
                        fork = Fork::default();
                        stored.clear();
                        log = &[];
                        records.extend(whole);
                    }
                }
            }
        }
    }

    /// Applies an action from outside on top of the slices that `fork` changed; the others have it already.
    fn repeat_on_changed(
        &self,
        registry: &Registry,
        fork: &mut Fork,
        action: &Action,
        records: &mut Vec<Record>,
    ) {
        let durable = self.is_durable();
        for touched in fork.touched.iter_mut().filter(|touched| !touched.changes.is_empty()) {
            let Some(def) = registry.def(touched.slot) else { continue };
            let (kept, known) = (touched.cell.clone(), touched.changes.len());
            if let Err(reason) = touched.repeat(registry, def, action) {
                tracing::warn!(slice = def.name, reason, "a reducer fails on what a commit left");
            }
            let new = touched.changes.iter().skip(known).filter(|_| durable);
            match new.map(|change| record::of_change(def, change)).collect::<Result<Vec<_>, _>>() {
                Ok(new) => records.extend(new),
                Err(reason) => {
                    touched.cell = kept;
                    touched.changes.truncate(known);
                    tracing::error!(
                        slice = def.name,
                        reason,
                        "a change from outside cannot be encoded and is dropped"
                    );
                }
            }
        }
    }
}
