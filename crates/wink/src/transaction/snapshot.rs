//! Composite snapshots: session and resources at one moment, and their versioned JSON form.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::resource::{BoxError, ResourceContext, ResourceError, ResourceSnapshot};
use crate::session::{Session, SessionError, SessionSnapshot, SnapshotError, fresh_uuid};
use crate::support::json;

/// The version of the JSON form.
const VERSION: u64 = 1;

/// A snapshot's id, unique everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SnapshotId(Uuid);

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// When in the life of a call a snapshot was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotPhase {
    /// Outside any call, by hand.
    #[default]
    Manual,
    /// Before a call.
    BeforeCall,
    /// After a call.
    AfterCall,
}

/// Session and resources at one moment. Taking one copies no contents.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompositeSnapshot {
    /// Its id.
    pub id: SnapshotId,
    /// When it was taken.
    pub created_at: Timestamp,
    /// What it is called.
    pub tag: String,
    /// When in the life of a call it was taken.
    pub phase: SnapshotPhase,
    /// The session's STATE.
    pub session: SessionSnapshot,
    /// The snapshotable resources, by their stable names.
    pub resources: Vec<(String, ResourcePart)>,
    /// Whatever whoever took it wants to remember.
    pub metadata: BTreeMap<String, Value>,
}

/// One resource in a snapshot.
#[derive(Debug, Clone)]
pub enum ResourcePart {
    /// In its resource's own type.
    Ready(ResourceSnapshot),
    /// As it was stored: its resource was not there when the snapshot was read.
    Unread(Value),
}

/// A composite snapshot's JSON form cannot be written or read. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CompositeError {
    /// The text is not JSON.
    #[error("the snapshot is not valid JSON: {0}")]
    NotJson(String),
    /// The form is of another version.
    #[error("snapshot version {found} is not supported; this is version {VERSION}")]
    Version {
        /// The version found, as text.
        found: String,
    },
    /// The id is no id.
    #[error("the snapshot's id must be a UUID, not {found}")]
    Id {
        /// What was found.
        found: String,
    },
    /// The time is no time.
    #[error("the snapshot's created_at must be an RFC 3339 time, not {found}")]
    Time {
        /// What was found.
        found: String,
    },
    /// The resources are no list.
    #[error("the snapshot's resources must be a list of {{name, snapshot}}, not {found}")]
    Resources {
        /// What was found.
        found: String,
    },
    /// A resource is there twice.
    #[error("the snapshot has resource {name:?} twice")]
    Twice {
        /// The resource.
        name: String,
    },
    /// There is no such phase.
    #[error("the snapshot's phase must be \"manual\", \"before_call\" or \"after_call\", not {found}")]
    Phase {
        /// What was found.
        found: String,
    },
    /// Another field is missing or has the wrong type.
    #[error("snapshot field {field} must be {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// The session's part cannot be read.
    #[error(transparent)]
    Session(#[from] SnapshotError),
    /// The session's part cannot be written.
    #[error(transparent)]
    SessionUnwritable(#[from] SessionError),
    /// A resource's part cannot be read.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// A resource's part cannot be written.
    #[error("resource {name} cannot be written to JSON: {reason}")]
    ResourceUnwritable {
        /// The resource.
        name: String,
        /// Why.
        reason: String,
    },
}

impl CompositeSnapshot {
    pub(super) fn new(
        session: SessionSnapshot,
        resources: Vec<(String, ResourceSnapshot)>,
        now: Timestamp,
        tag: String,
    ) -> Self {
        Self {
            id: SnapshotId(fresh_uuid(now)),
            created_at: now,
            tag,
            phase: SnapshotPhase::default(),
            session,
            resources: resources.into_iter().map(|(name, part)| (name, ResourcePart::Ready(part))).collect(),
            metadata: BTreeMap::new(),
        }
    }

    /// The versioned JSON form, which costs as much as there is.
    ///
    /// # Errors
    /// When something in it cannot be written.
    pub fn to_json(&self) -> Result<String, CompositeError> {
        let mut resources = Vec::new();
        for (name, part) in &self.resources {
            let snapshot = part.to_json().map_err(|error| CompositeError::ResourceUnwritable {
                name: name.clone(),
                reason: error.to_string(),
            })?;
            resources.push(json!({ "name": name, "snapshot": snapshot }));
        }
        let whole = json!({
            "version": VERSION,
            "id": self.id,
            "created_at": self.created_at,
            "tag": self.tag,
            "phase": self.phase,
            "session": self.session.to_json()?,
            "resources": resources,
            "metadata": self.metadata,
        });
        Ok(whole.to_string())
    }

    /// Reads the JSON form into the types of `session` and `resources`. Changes nothing. A part whose resource is
    /// not there is kept as it is.
    ///
    /// # Errors
    /// A distinct one for each thing that can be wrong with it.
    pub fn from_json(
        text: &str,
        session: &Session,
        resources: &ResourceContext,
    ) -> Result<Self, CompositeError> {
        let whole: Map<String, Value> = json::read(text).map_err(CompositeError::NotJson)?;
        if whole.get("version").and_then(Value::as_u64) != Some(VERSION) {
            return Err(CompositeError::Version { found: found(&whole, "version") });
        }
        let (mut parts, mut names) = (Vec::new(), BTreeSet::new());
        for StoredPart { name, snapshot } in part::<Vec<StoredPart>>(&whole, "resources")
            .map_err(|found| CompositeError::Resources { found })?
        {
            if !names.insert(name.clone()) {
                return Err(CompositeError::Twice { name });
            }
            let part = match resources.decode_snapshot(&name, &snapshot)? {
                Some(ready) => ResourcePart::Ready(ready),
                None => ResourcePart::Unread(snapshot),
            };
            parts.push((name, part));
        }
        Ok(Self {
            id: part(&whole, "id").map_err(|found| CompositeError::Id { found })?,
            created_at: part(&whole, "created_at").map_err(|found| CompositeError::Time { found })?,
            tag: part(&whole, "tag")
                .map_err(|_| CompositeError::Field { field: "tag", expected: "a string" })?,
            phase: part(&whole, "phase").map_err(|found| CompositeError::Phase { found })?,
            session: session.decode_snapshot_value(whole.get("session").unwrap_or(&Value::Null))?,
            resources: parts,
            metadata: part(&whole, "metadata")
                .map_err(|_| CompositeError::Field { field: "metadata", expected: "an object" })?,
        })
    }
}

impl ResourcePart {
    fn to_json(&self) -> Result<Value, BoxError> {
        match self {
            Self::Ready(part) => part.to_json(),
            Self::Unread(json) => Ok(json.clone()),
        }
    }
}

#[derive(Deserialize)]
struct StoredPart {
    name: String,
    snapshot: Value,
}

/// The field as a `T`; what was found instead, if it is none.
fn part<T: for<'de> Deserialize<'de>>(whole: &Map<String, Value>, field: &str) -> Result<T, String> {
    let value = whole.get(field).ok_or_else(|| found(whole, field))?;
    T::deserialize(value).map_err(|_| found(whole, field))
}

/// What a field is, short enough for a message.
fn found(whole: &Map<String, Value>, field: &str) -> String {
    const SHOWN: usize = 60;
    let Some(value) = whole.get(field) else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
