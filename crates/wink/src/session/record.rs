//! The stored form of a session's changes: one JSON object per change, by the slice's stable name and version.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fork::{Action, Fork};
use super::reducer::{Registry, type_of};
use super::root::{CallStat, Root};
use super::slice::{Change, Item, SliceDef, SliceKind};
use crate::store::Record;

/// The stream of the session's index of successful calls.
const CALLS: &str = "wink.calls";
/// The stream of policy states.
const POLICIES: &str = "wink.policies";

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
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
    Reset(std::collections::BTreeMap<Arc<str>, CallStat>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredPolicy {
    Set { policy: Arc<str>, item: Arc<str>, value: Option<Value> },
    Reset,
}

fn record(stream: &str, body: &impl Serialize) -> Result<Record, String> {
    let bytes = serde_json::to_vec(body).map_err(|error| error.to_string())?;
    Ok(Record { stream: stream.to_owned(), bytes })
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
    record(def.name, &Stored { version: def.version, change })
}

/// Everything that a fork changed.
pub(crate) fn of_fork(registry: &Registry, fork: &Fork) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    for touched in &fork.touched {
        let Some(def) = registry.def(touched.slot) else { continue };
        for change in &touched.changes {
            records.push(of_change(def, change)?);
        }
    }
    for policy in &fork.policies {
        for (item, value) in &policy.changes {
            let value = value.as_deref().cloned();
            let body = StoredPolicy::Set { policy: Arc::clone(&policy.key), item: Arc::clone(item), value };
            records.push(record(POLICIES, &body)?);
        }
    }
    if let Some((tool, at)) = &fork.success {
        records.push(record(CALLS, &StoredCalls::Success { tool: Arc::clone(tool), at: *at })?);
    }
    Ok(records)
}

/// The slices that `actions` changed, whole. For the rare change whose order against a commit only became known
/// afterwards.
pub(crate) fn whole_slices(registry: &Registry, root: &Root, actions: &[Action]) -> Vec<Record> {
    let mut slots = Vec::new();
    for action in actions {
        match action {
            Action::Edit { slot, .. } => slots.push(*slot),
            Action::Event(event) => {
                slots.extend(registry.targets(type_of(event)).into_iter().filter_map(|target| registry.find(target)));
            }
        }
    }
    slots.sort_unstable();
    slots.dedup();
    let defs = slots.into_iter().filter_map(|slot| registry.def(slot).map(|def| (slot, def)));
    defs.filter(|(_, def)| def.kind == SliceKind::State)
        .filter_map(|(slot, def)| {
            let items = root.cell(slot, def).items.iter().cloned().collect();
            of_change(def, &Change::Replace(items)).ok()
        })
        .collect()
}

/// A whole STATE, as what replaces whatever was there.
pub(crate) fn of_root(registry: &Registry, root: &Root) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    for (slot, def) in registry.defs().filter(|(_, def)| def.kind == SliceKind::State) {
        let items = root.cell(slot, def).items.iter().cloned().collect();
        records.push(of_change(def, &Change::Replace(items))?);
    }
    records.push(record(POLICIES, &StoredPolicy::Reset)?);
    for (key, cell) in root.policies() {
        for (item, value) in cell.iter() {
            let value = Some(Value::clone(value));
            records.push(record(
                POLICIES,
                &StoredPolicy::Set { policy: Arc::clone(key), item: Arc::clone(item), value },
            )?);
        }
    }
    let calls = root.all_calls().iter().map(|(tool, stat)| (Arc::clone(tool), *stat)).collect();
    records.push(record(CALLS, &StoredCalls::Reset(calls))?);
    Ok(records)
}

/// Applies a stored record of the session's own tables. False when it is a slice's.
pub(crate) fn apply_own(root: &mut Root, record: &Record, version: u64) -> Result<bool, String> {
    match record.stream.as_str() {
        CALLS => match decode(record)? {
            StoredCalls::Success { tool, at } => root.count_success(&tool, at),
            StoredCalls::Reset(calls) => root.set_calls(calls.into_iter().collect()),
        },
        POLICIES => match decode(record)? {
            StoredPolicy::Set { policy, item, value } => {
                let mut cell = root.policy(&policy);
                cell.set(item, value.map(Arc::new));
                cell.version = version;
                root.set_policy(policy, cell);
            }
            StoredPolicy::Reset => root.clear_policies(),
        },
        _ => return Ok(false),
    }
    Ok(true)
}

/// A stored change of a slice, in its present type.
pub(crate) fn change_of(def: &SliceDef, record: &Record) -> Result<Change, String> {
    let Stored { version, change } = decode(record)?;
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

fn decode<'a, T: Deserialize<'a>>(record: &'a Record) -> Result<T, String> {
    serde_json::from_slice(&record.bytes).map_err(|error| error.to_string())
}
