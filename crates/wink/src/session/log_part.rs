//! What the actions of a call or from outside add to LOG slices.

use std::sync::Arc;

use super::fork::{Action, Fork};
use super::reducer::{Registry, Slot, type_of};
use super::slice::{Cell, Change, Item, SliceDef, SliceKind};
use super::{ReducerFailure, Session};
use crate::support::lock::lock;

/// One addition to a LOG slice.
pub(super) struct LogAppend {
    pub(super) slot: Slot,
    pub(super) def: Arc<SliceDef>,
    pub(super) change: Change,
}

/// What goes to LOG slices.
#[derive(Default)]
pub(super) struct LogPart {
    pub(super) appends: Vec<LogAppend>,
    /// What registered reducers looked at to decide it.
    pub(super) seen: Fork,
}

impl Session {
    pub(super) fn closing_log(&self, registry: &Registry, fork: &Fork, event: Option<Item>) -> LogPart {
        let (mut log, failures) = match fork.steps.is_empty() {
            true => (LogPart::default(), Vec::new()),
            false => self.log_part(registry, fork.actions()),
        };
        for failure in failures {
            tracing::warn!(slice = failure.slice, reason = failure.reason, "a LOG reducer failed");
        }
        if let Some(event) = event
            && let Some((slot, def)) = registry.find_def(type_of(&event))
        {
            log.appends.push(LogAppend { slot, def, change: Change::Append(event) });
        }
        log
    }

    pub(super) fn log_part<'a>(
        &self,
        registry: &Registry,
        actions: impl IntoIterator<Item = &'a Action>,
    ) -> (LogPart, Vec<ReducerFailure>) {
        let mut log = LogPart::default();
        let mut failures = Vec::new();
        for action in actions {
            let LogPart { appends, seen } = &mut log;
            if let Action::Event(event) = action
                && registry.reducers(type_of(event)).is_none()
            {
                let found = registry.place(type_of(event));
                if let Some((slot, def)) = found.filter(|(_, def)| def.kind == SliceKind::Log) {
                    let change = Change::Append(Arc::clone(event));
                    if let Some(touched) = seen.touched.iter_mut().find(|touched| touched.slot == slot) {
                        touched.cell.apply(def, &change);
                    }
                    appends.push(LogAppend { slot, def: Arc::clone(def), change });
                }
                continue;
            }
            let base = |slot, def: &SliceDef| {
                let mut cell: Cell = lock(&self.core.inner).log.cell(slot, def);
                let earlier = appends.iter().filter(|append| append.slot == slot);
                earlier.for_each(|append| cell.apply(def, &append.change));
                cell
            };
            failures.extend(seen.apply(registry, action, SliceKind::Log, base));
            for touched in &mut seen.touched {
                let slot = touched.slot;
                let Some(def) = registry.def(slot) else { continue };
                let changes = touched.changes.drain(..);
                appends.extend(changes.map(|change| LogAppend { slot, def: Arc::clone(def), change }));
            }
        }
        (log, failures)
    }
}
