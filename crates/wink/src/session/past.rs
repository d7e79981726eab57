//! What calls changed in a session, and what that was before: read from the store, for going back.
//!
//! Something counts as changed later if it is not as the call left it. So what was changed and changed back, by an undo
//! for example, is no hindrance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::paged::LogMark;
use super::record::{self, CALLS, POLICIES};
use super::root::{CallStat, Recount, Root};
use super::slice::{Cell, Item, SliceDef, SliceKind, SliceType};
use super::sync::contained;
use super::{InvocationId, Registry, Session, Slot, ToolInvoked, UndoReach, Undone};
use crate::filesystem::{MergedBy, Revert};
use crate::store::{History, HistoryQuery, NumberedRecord, PageQuery, Record, StoreError, Summary};
use crate::support::lock::lock;

/// What the store remembers of a call, and of what came after it as far as that is to be undone too.
pub(crate) struct PastCalls {
    reach: UndoReach,
    /// The number of the first record that is undone.
    first: u64,
    /// What the session came to at some number before that, if the store has it.
    summary: Option<Summary>,
    records: Vec<NumberedRecord>,
    pub(crate) journals: Vec<Revert>,
    /// How the call that was named ended; none for an undo.
    pub(crate) named: Option<Arc<ToolInvoked>>,
    /// The successful calls among them, in order.
    pub(crate) calls: Vec<Arc<ToolInvoked>>,
    /// The ids of successful calls and of undos, in order.
    pub(crate) ids: Vec<InvocationId>,
}

/// Why the past of a call cannot be had.
#[derive(Debug, Clone)]
pub(crate) enum PastError {
    /// There is no such call.
    Unknown,
    /// Something of it was compacted, or forgotten.
    Forgotten,
    /// These slices have no type here, or cannot be read.
    Slices(BTreeMap<String, String>),
    /// The store failed.
    Store(StoreError),
}

impl From<StoreError> for PastError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A slice and what it was before.
pub(crate) struct SliceBack {
    pub(crate) slot: Slot,
    pub(crate) name: &'static str,
    pub(crate) items: Vec<Item>,
    /// Whether something later changed it.
    pub(crate) changed: bool,
}

/// What a policy remembers, before and after.
pub(crate) struct PolicyBack {
    pub(crate) policy: Arc<str>,
    pub(crate) item: Arc<str>,
    pub(crate) before: Option<Arc<Value>>,
    /// What the calls left; what is there now, if all since is undone.
    pub(crate) after: Option<Arc<Value>>,
}

/// What the session's own tables were before.
#[derive(Default)]
pub(crate) struct TablesBack {
    pub(crate) policies: Vec<PolicyBack>,
    pub(crate) calls: Vec<(Arc<str>, Recount)>,
}

impl Session {
    /// Finds a call in the store.
    pub(crate) async fn past_calls(
        &self,
        call: InvocationId,
        reach: UndoReach,
    ) -> Result<PastCalls, PastError> {
        let of_call = HistoryQuery { call: Some(call), ..HistoryQuery::default() };
        let mut history = self.history(of_call).await?;
        let Some(first) = history.records.first().map(|record| record.sequence) else {
            // Looks through the log: only when there is nothing else to go by.
            let was = self.has_recorded(call) || self.slice::<Undone>().newest().any(|undo| undo.id == call);
            return Err(if was { PastError::Forgotten } else { PastError::Unknown });
        };
        if history.compacted >= first || history.forgotten >= first {
            return Err(PastError::Forgotten);
        }
        let named = self.events::<ToolInvoked>(&history.records)?.into_iter().find(|event| event.id == call);
        if reach == UndoReach::ToBefore {
            let since = HistoryQuery { after: Some(first - 1), ..HistoryQuery::default() };
            history = self.history(since).await?;
        }
        let History { records, journals, .. } = history;
        let mut calls = self.events::<ToolInvoked>(&records)?;
        calls.retain(|event| event.success);
        let undos = self.events::<Undone>(&records)?;
        let known: BTreeSet<InvocationId> =
            calls.iter().map(|event| event.id).chain(undos.iter().map(|undo| undo.id)).collect();
        let mut ids: Vec<InvocationId> = Vec::new();
        for id in records.iter().filter_map(|one| one.record.call).filter(|id| known.contains(id)) {
            if ids.last() != Some(&id) {
                ids.push(id);
            }
        }
        if reach == UndoReach::ToBefore {
            let over = over(&ids, &undos);
            ids.retain(|id| !over.contains(id));
            calls.retain(|event| !over.contains(&event.id));
        }
        let counting = counting(&undos);
        let by = |call: Option<InvocationId>| match call.is_some_and(|call| counting.contains(&call)) {
            true => MergedBy::Undo,
            false => MergedBy::Call,
        };
        let journals = journals.into_iter();
        let journals = journals.map(|one| Revert { journal: one.id, by: by(one.call) }).collect();
        let summary = self.summary_before(first).await?;
        Ok(PastCalls { reach, first, summary, records, journals, named, calls, ids })
    }

    /// What the slices that these calls changed were before.
    pub(crate) async fn slices_before(&self, past: &PastCalls) -> Result<Vec<SliceBack>, PastError> {
        let registry = self.registry();
        let (mut streams, mut unknown) = (BTreeMap::new(), BTreeMap::new());
        for one in past.records.iter().filter(|one| !record::is_own(&one.record.stream)) {
            let name = one.record.stream.as_str();
            if streams.contains_key(name) || record::kind_of(&one.record) == Some(SliceKind::Log) {
                continue;
            }
            match known(&registry, name) {
                Ok(found) if found.1.kind == SliceKind::Log => {}
                Ok(found) => _ = streams.insert(name, found),
                Err(reason) => _ = unknown.insert(name.to_owned(), reason),
            }
        }
        if !unknown.is_empty() {
            return Err(PastError::Slices(unknown));
        }
        let mut slices = Vec::new();
        for (name, (slot, def)) in streams {
            let unreadable = |reason| PastError::Slices(BTreeMap::from([(name.to_owned(), reason)]));
            let mut records = self.before(name, past).await?;
            let before = record::cell_of(&def, &records).map_err(unreadable)?;
            let own = past.records.iter().filter(|one| one.record.stream == name);
            let last = own.clone().map(|one| one.sequence).max().unwrap_or(past.first);
            let mut changed = false;
            if past.reach == UndoReach::Call && self.has_more(name, last).await? {
                records.extend(own.map(|one| one.record.clone()));
                let after = record::cell_of(&def, &records).map_err(unreadable)?;
                let now = lock(self.inner()).state.cell(slot, &def);
                changed = !is_same(&def, &after, &now).map_err(unreadable)?;
            }
            let now = lock(self.inner()).state.cell(slot, &def);
            if past.reach == UndoReach::ToBefore && is_same(&def, &before, &now).map_err(unreadable)? {
                // An undo among them has put it back.
                continue;
            }
            let items = before.items.iter().collect();
            slices.push(SliceBack { slot, name: def.name, items, changed });
        }
        Ok(slices)
    }

    /// What policies remembered and the index of calls said before.
    pub(crate) async fn tables_before(&self, past: &PastCalls) -> Result<TablesBack, PastError> {
        let own = |stream: &str| past.records.iter().any(|one| one.record.stream == stream);
        let mut before = Root::default();
        for stream in [POLICIES, CALLS].into_iter().filter(|stream| own(stream)) {
            let unreadable = |reason| PastError::Slices(BTreeMap::from([(stream.to_owned(), reason)]));
            for one in self.before(stream, past).await? {
                record::apply_own(&mut before, &one, 0).map_err(unreadable)?;
            }
        }
        let after = match past.reach {
            UndoReach::ToBefore => Root::clone(&lock(self.inner()).state),
            UndoReach::Call => {
                let mut after = before.clone();
                for NumberedRecord { record: one, .. } in &past.records {
                    let unreadable =
                        |reason| PastError::Slices(BTreeMap::from([(one.stream.clone(), reason)]));
                    record::apply_own(&mut after, one, 0).map_err(unreadable)?;
                }
                after
            }
        };
        let mut back = TablesBack::default();
        if own(POLICIES) {
            back.policies = policies_back(&before, &after);
        }
        if own(CALLS) {
            let (was, is) = (before.all_calls(), after.all_calls());
            let tools: BTreeSet<&Arc<str>> = was.keys().chain(is.keys()).collect();
            for tool in tools {
                let (was, is) = (was.get(tool), is.get(tool));
                if was != is {
                    back.calls.push((Arc::clone(tool), recount(was, is)));
                }
            }
        }
        Ok(back)
    }

    /// The slices among these that somebody changed after record number `seen`, all of which is in memory.
    pub(crate) async fn changed_since(
        &self,
        slices: &[SliceBack],
        seen: u64,
    ) -> Result<Option<&'static str>, StoreError> {
        self.flush().await?;
        for slice in slices {
            if self.has_more(slice.name, seen).await? {
                return Ok(Some(slice.name));
            }
        }
        Ok(None)
    }

    /// The number of the last record that is in memory.
    pub(crate) fn last_known(&self) -> u64 {
        lock(self.inner()).known
    }

    async fn summary_before(&self, first: u64) -> Result<Option<Summary>, StoreError> {
        if lock(self.inner()).paging.source.is_none() {
            return Ok(None);
        }
        let opening = || self.core.store.opening(&self.core.id);
        let summary = contained("look into the history", opening).await?.summary;
        Ok(summary.filter(|summary| summary.sequence < first))
    }

    /// What a stream comes to just before these calls.
    async fn before(&self, stream: &str, past: &PastCalls) -> Result<Vec<Record>, StoreError> {
        let upto = past.first.saturating_sub(1);
        let source = lock(self.inner()).paging.source.clone();
        let Some(source) = source else {
            let stream = Some(stream.to_owned());
            let query = HistoryQuery { stream, upto: Some(upto), ..HistoryQuery::default() };
            return Ok(self.history(query).await?.records.into_iter().map(|one| one.record).collect());
        };
        let (mut after, mut records) = (0, Vec::new());
        if let Some(summary) = &past.summary {
            after = summary.sequence;
            records.extend(summary.records.iter().filter(|one| one.stream == stream).cloned());
        }
        source.each(stream, LogMark { after, upto, count: 0 }, |one| records.push(one.record))?;
        Ok(records)
    }

    async fn has_more(&self, stream: &str, after: u64) -> Result<bool, StoreError> {
        let source = lock(self.inner()).paging.source.clone();
        if let Some(source) = source {
            let streams = vec![stream.to_owned()];
            return Ok(!source
                .page(&PageQuery { streams, after, most: 1, ..PageQuery::default() })?
                .is_empty());
        }
        let stream = Some(stream.to_owned());
        let query = HistoryQuery { stream, after: Some(after), ..HistoryQuery::default() };
        Ok(!self.history(query).await?.records.is_empty())
    }

    pub(super) async fn history(&self, query: HistoryQuery) -> Result<History, StoreError> {
        contained("look into the history", || self.core.store.history(&self.core.id, query)).await
    }

    /// The events of one of the runtime's own types among records.
    fn events<E: SliceType>(&self, records: &[NumberedRecord]) -> Result<Vec<Arc<E>>, PastError> {
        let def = SliceDef::of::<E>();
        let mut events = Vec::new();
        for one in records.iter().filter(|one| one.record.stream == def.name) {
            let unreadable = |reason| PastError::Slices(BTreeMap::from([(def.name.to_owned(), reason)]));
            let added = record::change_in(&def, &one.record).map_err(unreadable)?.into_added();
            events.extend(added.into_iter().filter_map(|item| item.downcast::<E>().ok()));
        }
        Ok(events)
    }
}

/// Those of these that stand no more, since an undo among them took them back; and that undo, of which nothing is left then.
/// One that took back something else as well is undone with all of it.
fn over(ids: &[InvocationId], undos: &[Arc<Undone>]) -> BTreeSet<InvocationId> {
    let known: BTreeSet<InvocationId> = ids.iter().copied().collect();
    let mut over = BTreeSet::new();
    for undo in undos.iter().rev() {
        if !over.contains(&undo.id) && undo.calls.iter().all(|call| known.contains(call)) {
            over.insert(undo.id);
            over.extend(&undo.calls);
        }
    }
    over
}

/// The undos that no later one has undone.
fn counting(undos: &[Arc<Undone>]) -> BTreeSet<InvocationId> {
    let mut counting: BTreeSet<InvocationId> = BTreeSet::new();
    let mut undone: BTreeSet<InvocationId> = BTreeSet::new();
    for undo in undos.iter().rev() {
        if !undone.contains(&undo.id) {
            counting.insert(undo.id);
            undone.extend(&undo.calls);
        }
    }
    counting
}

/// A slice that has a type here and can be read.
fn known(registry: &Registry, name: &str) -> Result<(Slot, Arc<SliceDef>), String> {
    let none = || "no type of this program has this name: name it with `Session::know` first".to_owned();
    let slot = registry.find_name(name).ok_or_else(none)?;
    let def = registry.def(slot).ok_or_else(none)?;
    match registry.broken(slot) {
        Some(reason) => Err(reason.to_string()),
        None => Ok((slot, Arc::clone(def))),
    }
}

/// Whether two cells hold equal items, by how they are stored.
fn is_same(def: &SliceDef, one: &Cell, other: &Cell) -> Result<bool, String> {
    if one.items.len() != other.items.len() {
        return Ok(false);
    }
    for (one, other) in one.items.iter().zip(other.items.iter()) {
        if !Arc::ptr_eq(&one, &other) && def.encode(&one)? != def.encode(&other)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The items that differ.
fn policies_back(before: &Root, after: &Root) -> Vec<PolicyBack> {
    let mut items: BTreeSet<(Arc<str>, Arc<str>)> = BTreeSet::new();
    for (policy, cell) in before.policies().chain(after.policies()) {
        items.extend(cell.iter().map(|(item, _)| (Arc::clone(policy), Arc::clone(item))));
    }
    let mut back = Vec::new();
    for (policy, item) in items {
        let [before, after] = [before, after].map(|root| root.policy_item(&policy, &item));
        if before != after {
            back.push(PolicyBack { policy, item, before, after });
        }
    }
    back
}

/// What makes `is` to `was`.
fn recount(was: Option<&CallStat>, is: Option<&CallStat>) -> Recount {
    let count =
        |stat: Option<&CallStat>| stat.map_or(0, |stat| i64::try_from(stat.count).unwrap_or(i64::MAX));
    Recount {
        more: count(was).saturating_sub(count(is)),
        was: is.map(|stat| stat.last),
        last: was.map(|stat| stat.last),
    }
}
