//! The store: where a session's changes, events and ledger rows go, one transaction per call.
//!
//! It knows names and bytes, not meanings: a session turns its changes into [`Record`]s, and reads them back. It
//! never runs a reducer, never renders, never decides. [`MemoryStore`] keeps the ledger for as long as the
//! process lives and nothing else, since the session itself is the copy in memory.

mod memory;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::BoxFuture;
use crate::session::{InvocationId, SessionId};

pub use memory::MemoryStore;

/// Whether what a store was given outlives the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Gone with the process. Sessions hand over no records.
    Process,
    /// There again when the store is next opened.
    Restart,
}

/// One change of a session, encoded. A session is read back by applying its records in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What the record belongs to: a slice's stable name, or one of the session's own tables.
    pub stream: String,
    /// The encoded change.
    pub bytes: Vec<u8>,
}

/// One set of changes to files that the batch of a call decides about: made before, and taken back if the batch never
/// becomes true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JournalId(uuid::Uuid);

/// Everything that becomes true together when a call ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// The changes to files that this makes true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub journals: Vec<JournalId>,
    /// The session's changes, in order.
    pub records: Vec<Record>,
    /// The call that ends here; its mark goes.
    pub ends: Option<InvocationId>,
    /// What becomes of the call's ledger row. Where it is no longer as expected, nothing of the batch becomes true.
    pub ledger: Option<LedgerChange>,
}

/// A call that has begun. One without its end is found when the store is next opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallMark {
    /// The invocation.
    pub invocation: InvocationId,
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The arguments, masked.
    pub arguments: String,
    /// The prompt, as `ns/key`.
    pub prompt: String,
    /// The adapter.
    pub adapter: String,
    /// When it began.
    pub time: Timestamp,
}

/// What a store holds of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredSession {
    /// Its changes, in order.
    pub records: Vec<Record>,
    /// Its calls that began before the store was opened, and never ended, in the order in which they began. A
    /// call that is running in this process is not among them.
    pub unfinished: Vec<CallMark>,
}

/// One row of the ledger, by key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// The idempotency key.
    pub key: String,
    /// The tool.
    pub tool: String,
    /// The hash of all the parameters.
    pub params_hash: String,
    /// How long the effect counts once it is recorded; forever, if absent.
    pub ttl: Option<Duration>,
    /// What is known of the effect.
    pub state: LedgerState,
}

/// A row becomes another, if it is still what whoever decided this had seen: compare and swap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LedgerChange {
    /// The row as it has to be, all of it.
    pub from: LedgerRow,
    /// The row as it then is; removed, if absent. Its key is that of `from`.
    pub to: Option<LedgerRow>,
}

/// What is known of an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerState {
    /// A call is running. When a store is opened, a claim whose owner is gone becomes [`LedgerState::InDoubt`].
    Claimed {
        /// Who runs it: another text for each claim.
        owner: String,
        /// Since when.
        since: Timestamp,
    },
    /// It cannot be known whether the effect happened.
    InDoubt {
        /// Why.
        reason: String,
        /// Since when.
        since: Timestamp,
    },
    /// It happened; this is what came of it.
    Recorded {
        /// The encoded effect.
        effect: Value,
        /// When the row stops counting; never, if absent.
        expires_at: Option<Timestamp>,
    },
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Claimed {
    /// The key is the caller's.
    Yes,
    /// Somebody else's row stands in the way.
    No(LedgerRow),
}

/// Which rows of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// The one with this key.
    Key(String),
    /// Those of a tool.
    Tool(String),
    /// Recorded ones whose time has come.
    ExpiredAt(Timestamp),
    /// Every one.
    All,
}

/// A failure of the ground that the runtime stands on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store failed to {doing}: {reason}")]
pub struct StoreError {
    /// What it was asked to do.
    pub doing: &'static str,
    /// Why it could not.
    pub reason: String,
}

/// Keeps sessions and the ledger. [`crate::testing::store_contract`] is the suite that every implementation
/// passes.
pub trait Store: Send + Sync + 'static {
    /// Whether commits outlive the process.
    fn durability(&self) -> Durability;

    /// Whether the store has to hear of every commit. One that keeps only the ledger need not be asked when a call
    /// leaves no row, and the call is spared the way.
    fn hears_every_commit(&self) -> bool {
        true
    }

    /// Everything kept of a session; nothing for one that was never committed to.
    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>>;

    /// Makes it known that a call begins. Must survive the death of the process.
    fn begin<'a>(&'a self, session: &'a SessionId, mark: CallMark) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Makes the whole batch true, or nothing of it: an error says that nothing of it is, or ever will be. A ledger
    /// row that is not as the batch expects it is such an error; [`LedgerChange::refused`] is its text.
    fn commit<'a>(&'a self, session: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Puts `row` in the ledger unless its key has a row that still counts at `now`.
    fn claim<'a>(&'a self, row: LedgerRow, now: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>>;

    /// Makes a change of the ledger, if the row is as the change expects it; says whether it was. Of any number of
    /// changes that expect the same row, in however many processes, one goes through.
    fn replace<'a>(&'a self, change: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// The rows that match, by key.
    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>>;

    /// Removes the rows that match, and returns them, by key. Claims stay: only [`Store::replace`] removes one.
    fn remove<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>>;
}

impl JournalId {
    /// Another one each time.
    pub fn fresh() -> Self {
        // The random part alone makes it unique; no clock is asked.
        Self(crate::session::fresh_uuid(Timestamp::UNIX_EPOCH))
    }
}

impl std::fmt::Display for JournalId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for JournalId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Rows {
    /// Whether `row` is meant.
    pub fn matches(&self, row: &LedgerRow) -> bool {
        match self {
            Self::Key(key) => row.key == *key,
            Self::Tool(tool) => row.tool == *tool,
            Self::ExpiredAt(now) => row.is_expired(*now),
            Self::All => true,
        }
    }
}

impl LedgerChange {
    /// Whether this is the row that the change expects.
    pub fn expects(&self, row: Option<&LedgerRow>) -> bool {
        row == Some(&self.from)
    }

    /// The error of a commit whose ledger row is not as it was expected.
    pub fn refused(&self) -> StoreError {
        let reason = format!("the claim on {:?} is no longer this call's", self.from.key);
        StoreError { doing: "commit", reason }
    }
}

impl LedgerRow {
    /// Whether a call holds the key.
    pub fn is_claimed(&self) -> bool {
        matches!(self.state, LedgerState::Claimed { .. })
    }

    /// Whether the row is a recorded effect whose time has come. Exactly at its time it no longer counts.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        matches!(&self.state, LedgerState::Recorded { expires_at: Some(at), .. } if *at <= now)
    }
}

/// A store, shared.
pub type SharedStore = Arc<dyn Store>;
