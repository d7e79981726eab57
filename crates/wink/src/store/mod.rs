//! The store: where a session's changes, events and ledger rows go, one transaction per call.
//!
//! It knows names and bytes, not meanings: a session turns its changes into [`Record`]s, and reads them back. It
//! never runs a reducer, never renders, never decides. [`MemoryStore`] keeps the ledger for as long as the
//! process lives and nothing else, since the session itself is the copy in memory.

mod boot;
mod error;
mod memory;
mod page;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::BoxFuture;
use crate::session::{InvocationId, RunContext, SessionId};

pub use boot::boot_id;
pub use error::{StoreError, StoreErrorKind};
pub use memory::MemoryStore;
pub use page::{Opening, PageOrder, PageQuery, Summary};

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
    /// The call that made it; none for what came from outside any call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<InvocationId>,
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
    /// The session's sequence as whoever wrote this knows it. Where it is another, somebody else has committed meanwhile:
    /// nothing of the batch becomes true, and the error is [`StoreErrorKind::Moved`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<u64>,
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
    /// Which run it belongs to. Nothing in stores that were written before marks had it; the same goes for what follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunContext>,
    /// The request that it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Which try of the same call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// What a store holds of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredSession {
    /// Its changes, in order.
    pub records: Vec<Record>,
    /// Its calls whose process died before they ended, in the order in which they began. A call that is running, here
    /// or in another process, is not among them.
    pub unfinished: Vec<CallMark>,
    /// The number of its last record: how many were ever committed.
    pub sequence: u64,
}

/// Which records and journals of a session. Every condition that is given has to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Of this stream. Journals are of none.
    pub stream: Option<String>,
    /// Made by this call.
    pub call: Option<InvocationId>,
    /// Numbered higher than this.
    pub after: Option<u64>,
    /// Numbered no higher than this.
    pub upto: Option<u64>,
}

/// Records as they were written, by number, and the journals that were committed with them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// Those asked for.
    pub records: Vec<NumberedRecord>,
    /// Those asked for, by number. Those with the same number are in no order.
    pub journals: Vec<NumberedJournal>,
    /// Up to this number records were replaced by what they came to ([`Store::compact`]), those of some streams at least:
    /// what the session was before is no longer known.
    pub compacted: u64,
    /// Up to this number it may be forgotten of journals that they were committed.
    pub forgotten: u64,
}

/// A record and its place in the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedRecord {
    /// Its number, from 1.
    pub sequence: u64,
    /// When it was committed, where the store keeps that.
    pub at: Option<Timestamp>,
    /// What was written.
    pub record: Record,
}

/// A journal that was committed, and its place in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberedJournal {
    /// The number of the last record when it was committed, those of its own batch among them.
    pub sequence: u64,
    /// Which.
    pub id: JournalId,
    /// The call that it came with; none for a transaction by hand.
    pub call: Option<InvocationId>,
}

/// The right to run calls of a session in this process, from a store that several processes share. Dropping it gives it
/// back, and so does the death of the process.
#[derive(Default)]
pub struct StoreTurn(Option<Box<dyn Send + Sync>>);

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
    /// A call is running. A claim whose owner is gone becomes [`LedgerState::InDoubt`] or is removed, as its rule says, when
    /// the store is next opened or its row next read.
    Claimed {
        /// Who runs it: another text for each claim.
        owner: String,
        /// Since when.
        since: Timestamp,
        /// What becomes of the claim when its owner is gone.
        #[serde(default, skip_serializing_if = "OrphanRule::is_default")]
        orphan: OrphanRule,
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

/// What becomes of a claim whose owner is gone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrphanRule {
    /// It is in doubt. So is every claim of a store that was written before there were rules.
    #[default]
    InDoubt,
    /// It is released if its handler never started, and in doubt otherwise. See [`LedgerRow::is_released_with_owner`].
    ReleaseUnlessStarted {
        /// The call that claims: [`Store::begin`] was told of it, and [`Store::start`] is before its handler is first polled.
        call: InvocationId,
        /// The boot of the machine in which it claims ([`boot_id`]). In another one the mark of the start may be lost.
        boot: String,
    },
    /// It is released: all that the call did is undone with it.
    Release,
}

/// Commits that a store has lost, or may have. Until the operator acknowledges it, no call with a key has an effect outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLoss {
    /// The number of the first commit that is missing, among all commits of the store.
    pub first: u64,
    /// The last; none, if that is not known.
    pub last: Option<u64>,
    /// What is known of it, in words.
    pub what: String,
    /// When it was noticed.
    pub noticed: Timestamp,
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

    /// Whether other processes may commit to the same sessions. Then a call takes the [store's turn](Store::turn) as
    /// well, and every batch says what the session [knows](Batch::expects). Sessions of a store that is not shared are spared
    /// both.
    fn is_shared(&self) -> bool {
        false
    }

    /// Everything kept of a session; nothing for one that was never committed to.
    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>>;

    /// What was committed to a session after record number `since`, and its calls whose process has died.
    fn load_since<'a>(
        &'a self,
        session: &'a SessionId,
        since: u64,
    ) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        let _ = (session, since);
        unsupported("load what is new")
    }

    /// Waits until no other process runs a call of the session. Dropping the future gives up waiting.
    fn turn<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoreTurn, StoreError>> {
        let _ = session;
        Box::pin(std::future::ready(Ok(StoreTurn::none())))
    }

    /// Takes something of a session that one at a time can have, among processes too; nothing if somebody has it. It is given back
    /// like a [turn](Store::turn), and is another thing than that: whoever has it lets others run calls.
    fn hold<'a>(
        &'a self,
        session: &'a SessionId,
        what: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoreTurn>, StoreError>> {
        let _ = (session, what);
        Box::pin(std::future::ready(Ok(Some(StoreTurn::none()))))
    }

    /// Records and journals of a session, by number: what a call changed, or what a stream was at some point.
    fn history<'a>(
        &'a self,
        session: &'a SessionId,
        query: HistoryQuery,
    ) -> BoxFuture<'a, Result<History, StoreError>> {
        let _ = (session, query);
        unsupported("look into the history")
    }

    /// Whether sessions may leave their LOG to the store, and open without it: it has [`Store::opening`], [`Store::page`] and
    /// [`Store::summarise`]. Sessions of a store that has not are read as a whole, and keep their LOG in memory.
    fn has_pages(&self) -> bool {
        false
    }

    /// What a session is opened from: its summary, if it has one. What was committed after that is read by [pages](Store::page).
    fn opening<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Opening, StoreError>> {
        let _ = session;
        unsupported("open a session")
    }

    /// A page of a session's records, at once and on the caller's thread: whoever looks at a LOG slice waits for it.
    ///
    /// # Errors
    /// When they cannot be read.
    fn page(&self, session: &SessionId, query: &PageQuery) -> Result<Vec<NumberedRecord>, StoreError> {
        let _ = (session, query);
        Err(StoreError::unsupported("read a page"))
    }

    /// How many records a [page](Store::page) of any size would have.
    ///
    /// # Errors
    /// When they cannot be read.
    fn count(&self, session: &SessionId, query: &PageQuery) -> Result<u64, StoreError> {
        let (mut query, mut count) = (query.clone(), 0);
        loop {
            let page = self.page(session, &query)?;
            let Some(last) = page.last() else { return Ok(count) };
            count += page.len() as u64;
            query.skip = 0;
            match query.order {
                PageOrder::OldestFirst => query.after = last.sequence,
                PageOrder::NewestFirst => query.upto = last.sequence.saturating_sub(1),
            }
        }
    }

    /// Keeps what a session comes to at some number, to be opened from. It takes the place of an older summary; a newer one
    /// stays, and so does what there is if the session has fewer records, or was compacted since. [Compacting](Store::compact)
    /// a session leaves it without one.
    fn summarise<'a>(
        &'a self,
        session: &'a SessionId,
        summary: Summary,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let _ = (session, summary);
        unsupported("keep a summary")
    }

    /// Of every stream that `whole` has a record of, the records numbered up to `upto` are replaced by that one, in the place
    /// of the last of them. A stream that has none up to there stays as it is. Returns how many records fewer there are.
    fn compact<'a>(
        &'a self,
        session: &'a SessionId,
        upto: u64,
        whole: Vec<Record>,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        let _ = (session, upto, whole);
        unsupported("compact a session")
    }

    /// Makes it known that a call begins, which may have to wait for its turn yet. Must survive the death of the process.
    fn begin<'a>(&'a self, session: &'a SessionId, mark: CallMark) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Makes it known that the handler of a call which [began](Store::begin) is about to be polled for the first time. Must
    /// survive the death of the process, and need not survive the machine: no implementation waits for the disk.
    ///
    /// # Errors
    /// When it cannot be made known. The handler is not started then.
    fn start<'a>(&'a self, call: InvocationId) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Makes the whole batch true, or nothing of it: an error says that nothing of it is, or ever will be. A ledger
    /// row that is not as the batch expects it is such an error; [`LedgerChange::refused`] is its text.
    fn commit<'a>(&'a self, session: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The losses of commits that the operator has not acknowledged, oldest first. What such a commit recorded is not known any more:
    /// an effect that happened may not be in the ledger.
    fn losses(&self) -> BoxFuture<'_, Result<Vec<StoreLoss>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Puts `row` in the ledger unless its key has a row that still counts at `now`.
    fn claim<'a>(&'a self, row: LedgerRow, now: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>>;

    /// Makes a change of the ledger, if the row is as the change expects it; says whether it was. Of any number of
    /// changes that expect the same row, in however many processes, one goes through.
    fn replace<'a>(&'a self, change: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// What a person types to [settle](crate::ledger::EffectLedger::settle) an entry in doubt by hand, if there is a program for it.
    fn settling(&self, key: &str) -> Option<String> {
        let _ = key;
        None
    }

    /// The rows that match, by key.
    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>>;

    /// Removes the rows that match, and returns them, by key. Claims stay: only [`Store::replace`] removes one.
    fn remove<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>>;
}

fn unsupported<'a, T: Send + 'a>(doing: &'static str) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Err(StoreError::unsupported(doing))))
}

impl Record {
    /// A change from outside any call.
    pub fn new(stream: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { stream: stream.into(), bytes: bytes.into(), call: None }
    }
}

impl HistoryQuery {
    /// Whether this record is asked for.
    pub fn matches(&self, NumberedRecord { sequence, record, .. }: &NumberedRecord) -> bool {
        self.stream.as_ref().is_none_or(|stream| *stream == record.stream)
            && self.call.is_none_or(|call| record.call == Some(call))
            && self.after.is_none_or(|after| *sequence > after)
            && self.upto.is_none_or(|upto| *sequence <= upto)
    }

    /// Whether this journal is asked for.
    pub fn matches_journal(&self, NumberedJournal { sequence, call, .. }: &NumberedJournal) -> bool {
        self.stream.is_none()
            && self.call.is_none_or(|asked| *call == Some(asked))
            && self.after.is_none_or(|after| *sequence > after)
            && self.upto.is_none_or(|upto| *sequence <= upto)
    }
}

impl StoreTurn {
    /// The turn that nobody else can want.
    pub fn none() -> Self {
        Self(None)
    }

    /// A turn that lasts for as long as `guard`.
    pub fn of(guard: impl Send + Sync + 'static) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl std::fmt::Debug for StoreTurn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StoreTurn").field(&self.0.is_some()).finish()
    }
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
        StoreError::failed("commit", reason)
    }
}

impl OrphanRule {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl LedgerRow {
    /// Whether a call holds the key.
    pub fn is_claimed(&self) -> bool {
        matches!(self.state, LedgerState::Claimed { .. })
    }

    /// Whether this is a claim that is released, and not in doubt, now that its owner is gone. `never_started` says of a call of
    /// this boot whether it is known that its handler never started: what the store knows of it is there and undamaged, and it
    /// began and did not [start](Store::start).
    pub fn is_released_with_owner(&self, never_started: impl FnOnce(InvocationId) -> bool) -> bool {
        let LedgerState::Claimed { orphan, .. } = &self.state else { return false };
        match orphan {
            OrphanRule::InDoubt => false,
            OrphanRule::ReleaseUnlessStarted { call, boot } => {
                boot_id() == Some(boot.as_str()) && never_started(*call)
            }
            OrphanRule::Release => true,
        }
    }

    /// Whether the row is a recorded effect whose time has come. Exactly at its time it no longer counts.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        matches!(&self.state, LedgerState::Recorded { expires_at: Some(at), .. } if *at <= now)
    }
}

/// A store, shared.
pub type SharedStore = Arc<dyn Store>;
