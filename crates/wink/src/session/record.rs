//! The stored form of a session's changes: one JSON object per change, by the slice's stable name and version.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ReducerFailure;
use super::fork::Fork;
use super::reducer::{Registry, Slot};
use super::root::{CallStat, Recount, Root};
use super::slice::{Cell, Change, Item, SliceDef, SliceKind};
use crate::store::Record;

/// The stream of the session's index of successful calls.
pub(super) const CALLS: &str = "wink.calls";
/// The stream of policy states.
pub(super) const POLICIES: &str = "wink.policies";
/// The stream of what a summary says of the log.
pub(super) const LOGS: &str = "wink.log";

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    kind: SliceKind,
    change: StoredChange,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredChange {
    Append(Value),
    Extend(Vec<Value>),
    Upsert(Value),
    ReplaceKey(Value),
    Replace(Vec<Value>),
    Remove(Vec<usize>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredCalls {
    Success { tool: Arc<str>, at: Timestamp },
    Recount { tool: Arc<str>, recount: Recount },
    Reset(std::collections::BTreeMap<Arc<str>, CallStat>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredPolicy {
    Set { policy: Arc<str>, item: Arc<str>, value: Value },
    Forget { policy: Arc<str>, item: Arc<str> },
    Reset(Vec<(Arc<str>, Arc<str>, Value)>),
}

pub(super) fn record(stream: &str, body: &impl Serialize) -> Result<Record, String> {
    let bytes = serde_json::to_vec(body).map_err(|error| error.to_string())?;
    Ok(Record::new(stream, bytes))
}

/// A change of one slice.
pub(crate) fn of_change(def: &SliceDef, change: &Change) -> Result<Record, String> {
    let all = |items: &[Item]| items.iter().map(|item| def.encode(item)).collect::<Result<Vec<_>, _>>();
    let change = match change {
        Change::Append(item) => StoredChange::Append(def.encode(item)?),
        Change::Extend(items) => StoredChange::Extend(all(items)?),
        Change::Upsert(item) => StoredChange::Upsert(def.encode(item)?),
        Change::ReplaceKey(item) => StoredChange::ReplaceKey(def.encode(item)?),
        Change::Replace(items) => StoredChange::Replace(all(items)?),
        Change::Remove(positions) => StoredChange::Remove(positions.clone()),
    };
    record(def.name, &Stored { version: def.version, kind: def.kind, change })
}

/// What empties a stream, whatever its type.
pub(crate) fn of_nothing(stream: &str, kind: SliceKind) -> Result<Record, String> {
    record(stream, &Stored { version: 0, kind, change: StoredChange::Replace(Vec::new()) })
}

/// The slices that a fork changed.
pub(crate) fn of_slices(registry: &Registry, fork: &Fork) -> Result<Vec<(Slot, Record)>, ReducerFailure> {
    let mut records = Vec::new();
    for touched in &fork.touched {
        let Some(def) = registry.def(touched.slot) else { continue };
        for change in &touched.changes {
            let record =
                of_change(def, change).map_err(|reason| ReducerFailure { slice: def.name, reason })?;
            records.push((touched.slot, record));
        }
    }
    Ok(records)
}

/// The policy states and the success that a fork leaves.
pub(crate) fn of_tables(fork: &Fork) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    for touched in &fork.policies {
        for (item, value) in &touched.changes {
            let (policy, item) = (Arc::clone(&touched.key), Arc::clone(item));
            let body = match value {
                Some(value) => StoredPolicy::Set { policy, item, value: Value::clone(value) },
                None => StoredPolicy::Forget { policy, item },
            };
            records.push(record(POLICIES, &body)?);
        }
    }
    if let Some((tool, at)) = &fork.success {
        records.push(record(CALLS, &StoredCalls::Success { tool: Arc::clone(tool), at: *at })?);
    }
    for (tool, recount) in fork.recounts() {
        let (tool, recount) = (Arc::clone(tool), *recount);
        records.push(record(CALLS, &StoredCalls::Recount { tool, recount })?);
    }
    Ok(records)
}

/// The whole contents of a slice, as what replaces whatever was there.
pub(crate) fn of_cell(def: &SliceDef, cell: &Cell) -> Result<Record, String> {
    of_change(def, &Change::Replace(cell.items.iter().collect()))
}

/// All policy states and the index of calls, as what replaces whatever was there.
pub(crate) fn of_all_tables(root: &Root) -> Result<Vec<Record>, String> {
    let policies = root.policies().flat_map(|(key, cell)| {
        cell.iter().map(|(item, value)| (Arc::clone(key), Arc::clone(item), Value::clone(value)))
    });
    let calls = root.all_calls().iter().map(|(tool, stat)| (Arc::clone(tool), *stat)).collect();
    Ok(vec![
        record(POLICIES, &StoredPolicy::Reset(policies.collect()))?,
        record(CALLS, &StoredCalls::Reset(calls))?,
    ])
}

/// The streams of the session's own tables in STATE.
pub(super) fn tables() -> impl Iterator<Item = String> {
    [CALLS, POLICIES].into_iter().map(str::to_owned)
}

/// Whether a stream is one of the session's own tables, so that no slice can have its name.
pub(crate) fn is_own(stream: &str) -> bool {
    [CALLS, POLICIES, LOGS].contains(&stream)
}

/// Applies a stored record of the session's own tables. False when it is a slice's.
pub(crate) fn apply_own(root: &mut Root, record: &Record, version: u64) -> Result<bool, String> {
    match record.stream.as_str() {
        CALLS => match decode(record)? {
            StoredCalls::Success { tool, at } => root.count_success(&tool, at),
            StoredCalls::Recount { tool, recount } => root.recount(&tool, recount),
            StoredCalls::Reset(calls) => root.set_calls(calls.into_iter().collect()),
        },
        POLICIES => match decode(record)? {
            StoredPolicy::Set { policy, item, value } => {
                root.set_policy_item(policy, item, Some(Arc::new(value)), version);
            }
            StoredPolicy::Forget { policy, item } => root.set_policy_item(policy, item, None, version),
            StoredPolicy::Reset(items) => {
                root.clear_policies();
                for (policy, item, value) in items {
                    root.set_policy_item(policy, item, Some(Arc::new(value)), version);
                }
            }
        },
        _ => return Ok(false),
    }
    Ok(true)
}

/// A slice as its stored changes make it, in its present type.
///
/// What came before the last replacement of everything no longer matters, readable or not.
pub(crate) fn cell_of(def: &SliceDef, records: &[Record]) -> Result<Cell, String> {
    let mut changes = Vec::new();
    for record in records.iter().rev() {
        let stored: Stored = decode(record)?;
        let whole = matches!(stored.change, StoredChange::Replace(_));
        changes.push(stored);
        if whole {
            break;
        }
    }
    let mut cell = Cell::empty(def);
    for stored in changes.into_iter().rev() {
        cell.apply(def, &change_of(def, stored)?);
    }
    Ok(cell)
}

/// One stored change of a slice, in its present type.
pub(crate) fn change_in(def: &SliceDef, record: &Record) -> Result<Change, String> {
    change_of(def, decode(record)?)
}

/// The kind of slice that a record is of.
pub(crate) fn kind_of(record: &Record) -> Option<SliceKind> {
    #[derive(Deserialize)]
    struct Kind {
        kind: SliceKind,
    }
    decode(record).ok().map(|found: Kind| found.kind)
}

/// What a change of a slice does to how many items it has, whatever its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// So many come to the end.
    Adds(u64),
    /// These are all.
    Replaces(u64),
    /// It depends on the items.
    Other,
}

/// The kind of slice that a record is of, and what it does to it; none for what is no record of a slice.
pub(crate) fn shape_of(record: &Record) -> Option<(SliceKind, Shape)> {
    use serde::de::IgnoredAny;

    #[derive(Deserialize)]
    struct Outline {
        kind: SliceKind,
        change: OutlineChange,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum OutlineChange {
        Append(IgnoredAny),
        Extend(Vec<IgnoredAny>),
        Upsert(IgnoredAny),
        ReplaceKey(IgnoredAny),
        Replace(Vec<IgnoredAny>),
        Remove(IgnoredAny),
    }
    let Outline { kind, change } = decode(record).ok()?;
    let shape = match change {
        OutlineChange::Append(_) => Shape::Adds(1),
        OutlineChange::Extend(items) => Shape::Adds(items.len() as u64),
        OutlineChange::Replace(items) => Shape::Replaces(items.len() as u64),
        OutlineChange::Upsert(_) | OutlineChange::ReplaceKey(_) | OutlineChange::Remove(_) => Shape::Other,
    };
    Some((kind, shape))
}

fn change_of(def: &SliceDef, Stored { version, change, .. }: Stored) -> Result<Change, String> {
    let one = |value| def.decode(version, value);
    let all = |values: Vec<Value>| values.into_iter().map(one).collect::<Result<Vec<_>, _>>();
    Ok(match change {
        StoredChange::Append(value) => Change::Append(one(value)?),
        StoredChange::Extend(values) => Change::Extend(all(values)?),
        StoredChange::Upsert(value) => Change::Upsert(one(value)?),
        StoredChange::ReplaceKey(value) => Change::ReplaceKey(one(value)?),
        StoredChange::Replace(values) => Change::Replace(all(values)?),
        StoredChange::Remove(positions) => Change::Remove(positions),
    })
}

/// What a record says.
pub(crate) fn decode<'a, T: Deserialize<'a>>(record: &'a Record) -> Result<T, String> {
    let mut decoder = serde_json::Deserializer::from_slice(&record.bytes);
    // What was written was a value in memory, however deep; it must come back.
    decoder.disable_recursion_limit();
    T::deserialize(&mut decoder).map_err(|error| error.to_string())
}
