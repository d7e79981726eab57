//! Snapshots: the whole STATE in one pointer, and its versioned JSON form that comes back typed.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::family::SESSION_TAG;
use super::open::Waiting;
use super::reducer::Registry;
use super::restore::unnamed_logs;
use super::root::{CallStat, PolicyCell, Root};
use super::slice::{Cell, Change, SliceDef, SliceKind};
use super::{Session, SessionError, SessionId, record};
use crate::store::Record;
use crate::support::json;
use crate::support::lock::lock;

/// The version of the JSON form.
const VERSION: u64 = 1;

/// Whether a snapshot has the LOG slices too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SnapshotScope {
    /// What a rollback would restore.
    #[default]
    State,
    /// LOG as well. Restoring still leaves the session's own LOG alone.
    IncludeAll,
}

/// A session's contents at one moment.
#[derive(Clone)]
pub struct SessionSnapshot {
    pub(crate) session: SessionId,
    pub(crate) created_at: Timestamp,
    tags: Arc<BTreeMap<String, String>>,
    parent: Option<SessionId>,
    children: imbl::Vector<SessionId>,
    pub(super) state: Arc<Root>,
    log: Option<Root>,
    pub(super) registry: Arc<Registry>,
    /// What the session had read from the store by then and nobody had named.
    pub(super) waiting: Waiting,
}

/// A snapshot's JSON cannot be used. It changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The text is not JSON.
    #[error("the snapshot is not valid JSON: {0}")]
    NotJson(String),
    /// The form is of another version.
    #[error("snapshot version {found} is not supported; this is version {VERSION}")]
    Version {
        /// The version found, as text.
        found: String,
    },
    /// A field is missing or has the wrong type.
    #[error("snapshot field {field} must be {expected}")]
    Field {
        /// The field.
        field: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A slice type that this session does not know.
    #[error("the snapshot has slice {slice:?}, which this session does not know: register its type first")]
    UnknownSlice {
        /// The slice's name.
        slice: String,
    },
    /// A slice is declared with another kind than in the snapshot.
    #[error("slice {slice:?} is {declared} here and {found} in the snapshot")]
    Kind {
        /// The slice's name.
        slice: String,
        /// As declared.
        declared: &'static str,
        /// As found.
        found: String,
    },
    /// A slice is there twice.
    #[error("the snapshot has slice {slice:?} twice")]
    Twice {
        /// The slice's name.
        slice: String,
    },
    /// An item cannot be encoded for the session's store.
    #[error("the snapshot's slice {slice:?} cannot be stored: {reason}")]
    Encode {
        /// The slice's name.
        slice: String,
        /// Why.
        reason: String,
    },
    /// An item cannot be read in its type.
    #[error("item {at} of slice {slice:?} cannot be read: {reason}")]
    Item {
        /// The slice's name.
        slice: String,
        /// Which item.
        at: usize,
        /// Why.
        reason: String,
    },
}

impl SessionSnapshot {
    /// The session it is of.
    pub fn session_id(&self) -> &SessionId {
        &self.session
    }

    /// When it was taken.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// The versioned JSON form.
    pub fn to_json(&self) -> Result<Value, SessionError> {
        let mut slices = Vec::new();
        for (slot, def) in self.registry.defs() {
            let cell = match (def.kind, &self.log) {
                (SliceKind::State, _) => self.state.cell(slot, def),
                (SliceKind::Log, Some(log)) => log.cell(slot, def),
                (SliceKind::Log, None) => continue,
            };
            // A slice that has nothing is as if nobody had named it; a call that failed may be all that did.
            if cell.items.len() == 0 {
                continue;
            }
            let items: Result<Vec<Value>, String> = cell.items.iter().map(|item| def.encode(&item)).collect();
            let items =
                items.map_err(|reason| SessionError::Unreadable { slice: def.name.to_owned(), reason })?;
            slices
                .push(json!({ "name": def.name, "version": def.version, "kind": def.kind, "items": items }));
        }
        let mut unread = BTreeMap::new();
        for (name, records) in &self.waiting {
            if self.log.is_none() && records.first().and_then(record::kind_of) == Some(SliceKind::Log) {
                continue;
            }
            let bodies: Result<Vec<Value>, String> = records.iter().map(record::decode).collect();
            let bodies =
                bodies.map_err(|reason| SessionError::Unreadable { slice: name.to_string(), reason })?;
            unread.insert(name, bodies);
        }
        let calls: BTreeMap<_, _> = self.state.all_calls().iter().collect();
        let policies =
            self.state.policies().map(|(key, cell)| (key, cell.iter().collect::<BTreeMap<_, _>>()));
        let policies: BTreeMap<_, _> = policies.filter(|(_, items)| !items.is_empty()).collect();
        Ok(json!({
            "version": VERSION,
            "session_id": self.session,
            "created_at": self.created_at,
            "parent_id": self.parent,
            "children_ids": self.children.iter().collect::<Vec<_>>(),
            "tags": *self.tags,
            "slices": slices,
            "unread": unread,
            "calls": calls,
            "policies": policies,
        }))
    }
}

impl std::fmt::Debug for SessionSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionSnapshot").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Session {
    /// The STATE as it is now, in constant time.
    pub fn snapshot(&self) -> SessionSnapshot {
        self.snapshot_of(SnapshotScope::State)
    }

    /// The STATE as it is now, with or without LOG.
    pub fn snapshot_of(&self, scope: SnapshotScope) -> SessionSnapshot {
        let (tags, parent, children) = self.family_ids();
        let unnamed = match scope {
            SnapshotScope::State => Waiting::new(),
            SnapshotScope::IncludeAll => {
                let notes = lock(&self.core.stored).logs.clone();
                let source = lock(self.inner()).paging.source.clone();
                unnamed_logs(source.as_deref(), &notes)
            }
        };
        let (state, log, registry, waiting) = {
            // Naming a slice moves what was stored of it, so both ends are looked at together.
            let stored = lock(&self.core.stored);
            let inner = lock(self.inner());
            let log = match scope {
                SnapshotScope::State => None,
                SnapshotScope::IncludeAll => Some(inner.log.clone()),
            };
            (Arc::clone(&inner.state), log, self.registry(), stored.waiting.clone().union(unnamed))
        };
        SessionSnapshot {
            session: self.id().clone(),
            created_at: self.clock().now(),
            tags,
            parent,
            children,
            state,
            log,
            registry,
            waiting,
        }
    }

    /// Reads a snapshot's JSON form into this session's types. Changes nothing.
    pub fn decode_snapshot(&self, text: &str) -> Result<SessionSnapshot, SnapshotError> {
        let value: Value = json::read(text).map_err(SnapshotError::NotJson)?;
        self.decode_snapshot_value(&value)
    }

    /// Like [`Session::decode_snapshot`], from a parsed value.
    pub fn decode_snapshot_value(&self, value: &Value) -> Result<SessionSnapshot, SnapshotError> {
        let object = value.as_object().ok_or(field("(root)", "an object"))?;
        match object.get("version") {
            Some(Value::Number(version)) if version.as_u64() == Some(VERSION) => {}
            found => {
                let found = found.map_or("missing".to_owned(), Value::to_string);
                return Err(SnapshotError::Version { found });
            }
        }
        let registry = self.registry();
        let mut reading = Reading::default();
        for slice in part::<Vec<Map<String, Value>>>(object, "slices", "a list of objects")? {
            let (def, slot, cell) = read_slice(&registry, &slice)?;
            reading.set(def, slot, cell)?;
        }
        let mut waiting = Waiting::new();
        for (name, bodies) in unread(object)? {
            if record::is_own(&name) {
                let expected = "absent: the session keeps its own tables there";
                return Err(field(&format!("unread.{name}"), expected));
            }
            let records: Vec<Record> =
                bodies.iter().map(|body| Record::new(name.clone(), body.to_string())).collect();
            match registry.find_name(&name).and_then(|slot| Some((slot, registry.def(slot)?))) {
                Some((slot, def)) => {
                    let read = record::cell_of(def, &records);
                    let cell = read.map_err(|reason| SnapshotError::Item { slice: name, at: 0, reason })?;
                    reading.set(def, slot, cell)?;
                }
                None => {
                    // Only a snapshot with the LOG has such, be its other LOG slices empty.
                    if records.first().and_then(record::kind_of) == Some(SliceKind::Log) {
                        reading.log.get_or_insert_default();
                    }
                    waiting.insert(name.into(), Arc::new(records));
                }
            }
        }
        let Reading { mut state, log, .. } = reading;
        let calls: BTreeMap<Arc<str>, CallStat> = part(object, "calls", "an object of {count, last}")?;
        state.set_calls(calls.into_iter().collect());
        let policies: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Value>> =
            part(object, "policies", "an object of objects")?;
        for (key, items) in policies {
            let mut cell = PolicyCell::default();
            for (item, value) in items {
                cell.set(item, Some(Arc::new(value)));
            }
            state.set_policy(key, cell);
        }
        let session: SessionId = part(object, "session_id", "a string")?;
        let mut tags: BTreeMap<String, String> = part(object, "tags", "an object of strings")?;
        tags.insert(SESSION_TAG.to_owned(), session.to_string());
        let children: Vec<SessionId> = part(object, "children_ids", "a list of strings")?;
        Ok(SessionSnapshot {
            session,
            created_at: part(object, "created_at", "an RFC 3339 time")?,
            tags: Arc::new(tags),
            parent: part(object, "parent_id", "a string or null")?,
            children: children.into_iter().collect(),
            state: Arc::new(state),
            log,
            registry,
            waiting,
        })
    }
}

/// The slices of a snapshot that is being read.
#[derive(Default)]
struct Reading {
    state: Root,
    log: Option<Root>,
    seen: Vec<super::Slot>,
}

impl Reading {
    fn set(&mut self, def: &SliceDef, slot: super::Slot, cell: Cell) -> Result<(), SnapshotError> {
        if self.seen.contains(&slot) {
            return Err(SnapshotError::Twice { slice: def.name.to_owned() });
        }
        self.seen.push(slot);
        match def.kind {
            SliceKind::State => self.state.set(slot, cell),
            SliceKind::Log => self.log.get_or_insert_with(Root::default).set(slot, cell),
        };
        Ok(())
    }
}

/// Slices in their stored form: the snapshot's session had not named their types.
fn unread(object: &Map<String, Value>) -> Result<BTreeMap<String, Vec<Value>>, SnapshotError> {
    if object.contains_key("unread") {
        part(object, "unread", "an object of lists")
    } else {
        Ok(BTreeMap::new())
    }
}

fn field(field: &str, expected: &'static str) -> SnapshotError {
    SnapshotError::Field { field: field.to_owned(), expected }
}

fn part<T: for<'de> Deserialize<'de>>(
    object: &Map<String, Value>,
    name: &str,
    expected: &'static str,
) -> Result<T, SnapshotError> {
    let value = object.get(name).ok_or_else(|| field(name, expected))?;
    T::deserialize(value).map_err(|_| field(name, expected))
}

fn read_slice<'a>(
    registry: &'a Registry,
    slice: &Map<String, Value>,
) -> Result<(&'a SliceDef, super::Slot, Cell), SnapshotError> {
    let name: String = part(slice, "name", "a string")?;
    let slot = registry.find_name(&name);
    let Some((slot, def)) = slot.and_then(|slot| Some((slot, registry.def(slot)?))) else {
        return Err(SnapshotError::UnknownSlice { slice: name });
    };
    let version: u32 = part(slice, "version", "a whole number")?;
    let kind: String = part(slice, "kind", "\"state\" or \"log\"")?;
    let declared = match def.kind {
        SliceKind::State => "state",
        SliceKind::Log => "log",
    };
    if kind != declared {
        return Err(SnapshotError::Kind { slice: name, declared, found: kind });
    }
    let mut items = Vec::new();
    for (at, value) in part::<Vec<Value>>(slice, "items", "a list")?.into_iter().enumerate() {
        let item = def.decode(version, value);
        items.push(item.map_err(|reason| SnapshotError::Item { slice: name.clone(), at, reason })?);
    }
    let mut cell = Cell::empty(def);
    cell.apply(def, &Change::Replace(items));
    Ok((def, slot, cell))
}
