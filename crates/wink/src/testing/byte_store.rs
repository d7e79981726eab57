//! A store that keeps everything as bytes, and can be opened again as a new process would.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::BoxFuture;
use crate::session::{InvocationId, SessionId};
use crate::store::{
    Batch, CallMark, Claimed, Durability, History, HistoryQuery, LedgerChange, LedgerRow, LedgerState,
    NumberedJournal, NumberedRecord, Opening, PageQuery, Record, Rows, Store, StoreError, StoredSession,
    Summary,
};
use crate::support::lock::lock;

/// Length of the payload, check of that length, check of the payload.
const HEADER: usize = 4 + 4 + 8;

/// A [`Store`] for tests that outlives "the process": one journal of bytes, and what can be decoded from it.
///
/// Every entry is read back from its bytes before it counts, so nothing survives that the bytes do not say.
pub struct ByteStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    journal: Vec<u8>,
    sessions: HashMap<SessionId, Kept>,
    /// Calls that began in this process. They are not unfinished while it lives.
    running: HashMap<SessionId, Vec<CallMark>>,
    /// Calls whose handlers started, with their marks.
    started: HashSet<InvocationId>,
    ledger: BTreeMap<String, LedgerRow>,
}

/// What is kept of a session.
#[derive(Default)]
struct Kept {
    records: Vec<NumberedRecord>,
    journals: Vec<NumberedJournal>,
    unfinished: Vec<CallMark>,
    sequence: u64,
    compacted: u64,
    compactions: u64,
    summary: Option<Summary>,
}

#[derive(Serialize, Deserialize)]
enum Entry {
    Begin { session: SessionId, mark: CallMark },
    Start(InvocationId),
    Commit { session: SessionId, batch: Box<Batch> },
    Compact { session: SessionId, upto: u64, whole: Vec<Record> },
    Summary { session: SessionId, sequence: u64, compactions: u64, records: Vec<Record> },
    Put(LedgerRow),
    Removed(Vec<String>),
}

impl ByteStore {
    /// An empty store.
    pub fn new() -> Self {
        Self { state: Mutex::default() }
    }

    /// The journal.
    pub fn bytes(&self) -> Vec<u8> {
        lock(&self.state).journal.clone()
    }

    /// The store as the next process finds it.
    pub fn reopen(&self) -> Result<Self, StoreError> {
        Self::from_bytes(&self.bytes())
    }

    /// The store that a process finds which opens this journal: calls that had begun are unfinished, and claims
    /// are in doubt or released. A last entry that is cut short was not committed; any other damage is an error.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        let mut state = State::default();
        let mut rest = bytes;
        while let Some((payload, after)) = frame(rest)? {
            state.apply(decode(payload)?);
            rest = after;
        }
        let kept = bytes.len() - rest.len();
        state.journal = bytes.iter().take(kept).copied().collect();
        state.settle_claims()?;
        for (session, marks) in std::mem::take(&mut state.running) {
            state.sessions.entry(session).or_default().unfinished = marks;
        }
        Ok(Self { state: Mutex::new(state) })
    }
}

impl Default for ByteStore {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for ByteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByteStore").field("bytes", &lock(&self.state).journal.len()).finish_non_exhaustive()
    }
}

impl State {
    /// Writes an entry, and makes true what can be read back of it.
    fn write(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let payload = serde_json::to_vec(entry).map_err(|error| broken(error.to_string()))?;
        let length = u32::try_from(payload.len()).map_err(|error| broken(error.to_string()))?.to_le_bytes();
        let read: Entry = decode(&payload)?;
        self.journal.extend(length);
        self.journal.extend(check::<4>(&length));
        self.journal.extend(check::<8>(&payload));
        self.journal.extend(payload);
        self.apply(read);
        Ok(())
    }

    fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Begin { session, mark } => self.running.entry(session).or_default().push(mark),
            Entry::Start(call) => _ = self.started.insert(call),
            Entry::Commit { session, batch } => {
                if let Some(ended) = batch.ends {
                    self.started.remove(&ended);
                    self.running.entry(session.clone()).or_default().retain(|mark| mark.invocation != ended);
                }
                let stored = self.sessions.entry(session).or_default();
                stored.unfinished.retain(|mark| Some(mark.invocation) != batch.ends);
                for record in batch.records {
                    stored.sequence += 1;
                    stored.records.push(NumberedRecord { sequence: stored.sequence, at: None, record });
                }
                let (sequence, call) = (stored.sequence, batch.ends);
                let journals = batch.journals.into_iter().map(|id| NumberedJournal { sequence, id, call });
                stored.journals.extend(journals);
                if let Some(LedgerChange { from, to }) = batch.ledger {
                    self.set(from.key, to);
                }
            }
            Entry::Compact { session, upto, whole } => {
                self.sessions.entry(session).or_default().compact(upto, whole);
            }
            Entry::Summary { session, sequence, compactions, records } => {
                let summary = Summary { sequence, compactions, records };
                self.sessions.entry(session).or_default().summary = Some(summary);
            }
            Entry::Put(row) => self.set(row.key.clone(), Some(row)),
            Entry::Removed(keys) => keys.into_iter().for_each(|key| self.set(key, None)),
        }
    }

    /// What becomes of claims whose process has died.
    fn settle_claims(&mut self) -> Result<(), StoreError> {
        let begun: HashSet<InvocationId> =
            self.running.values().flatten().map(|mark| mark.invocation).collect();
        let never_started = |call: InvocationId| begun.contains(&call) && !self.started.contains(&call);
        let mut entries = Vec::new();
        for row in self.ledger.values() {
            let LedgerState::Claimed { since, .. } = &row.state else { continue };
            entries.push(match row.is_released_with_owner(never_started) {
                true => Entry::Removed(vec![row.key.clone()]),
                false => {
                    let reason = "an earlier call was interrupted: its process ended while it ran".to_owned();
                    Entry::Put(LedgerRow {
                        state: LedgerState::InDoubt { reason, since: *since },
                        ..row.clone()
                    })
                }
            });
        }
        entries.iter().try_for_each(|entry| self.write(entry))
    }

    fn set(&mut self, key: String, row: Option<LedgerRow>) {
        match row {
            Some(row) => self.ledger.insert(key, row),
            None => self.ledger.remove(&key),
        };
    }

    fn load(&self, session: &SessionId, since: u64) -> StoredSession {
        let Some(kept) = self.sessions.get(session) else { return StoredSession::default() };
        let new = kept.records.iter().filter(|one| one.sequence > since);
        StoredSession {
            records: new.map(|one| one.record.clone()).collect(),
            unfinished: kept.unfinished.clone(),
            sequence: kept.sequence,
        }
    }

    fn opening(&self, session: &SessionId) -> Opening {
        let Some(kept) = self.sessions.get(session) else { return Opening::default() };
        Opening {
            summary: kept.summary.clone(),
            unfinished: kept.unfinished.clone(),
            sequence: kept.sequence,
            compactions: kept.compactions,
        }
    }

    fn page(&self, session: &SessionId, query: &PageQuery) -> Vec<NumberedRecord> {
        let records = self.sessions.get(session).map(|kept| kept.records.iter());
        records.map_or_else(Vec::new, |records| query.page_of(records))
    }

    fn summarise(
        &mut self,
        session: SessionId,
        Summary { sequence, compactions, records }: Summary,
    ) -> Result<(), StoreError> {
        let Some(kept) = self.sessions.get(&session) else { return Ok(()) };
        let older = kept.summary.as_ref().is_none_or(|known| known.sequence < sequence);
        match older && sequence <= kept.sequence && compactions == kept.compactions {
            true => self.write(&Entry::Summary { session, sequence, compactions, records }),
            false => Ok(()),
        }
    }

    fn history(&self, session: &SessionId, query: &HistoryQuery) -> History {
        let Some(kept) = self.sessions.get(session) else { return History::default() };
        let records = kept.records.iter().filter(|one| query.matches(one)).cloned().collect();
        let journals = kept.journals.iter().filter(|one| query.matches_journal(one)).copied().collect();
        History { records, journals, compacted: kept.compacted, forgotten: 0 }
    }

    fn compact(&mut self, session: SessionId, upto: u64, whole: Vec<Record>) -> Result<u64, StoreError> {
        let count = |state: &Self| state.sessions.get(&session).map_or(0, |kept| kept.records.len() as u64);
        let before = count(self);
        self.write(&Entry::Compact { session: session.clone(), upto, whole })?;
        Ok(before.saturating_sub(count(self)))
    }

    fn commit(&mut self, session: SessionId, batch: Batch) -> Result<(), StoreError> {
        let found = self.sessions.get(&session).map_or(0, |kept| kept.sequence);
        if let Some(expected) = batch.expects.filter(|expected| *expected != found) {
            return Err(StoreError::moved(expected, found));
        }
        match &batch.ledger {
            Some(change) if !change.expects(self.ledger.get(&change.from.key)) => Err(change.refused()),
            Some(_) | None => self.write(&Entry::Commit { session, batch: Box::new(batch) }),
        }
    }

    fn replace(&mut self, change: LedgerChange) -> Result<bool, StoreError> {
        if !change.expects(self.ledger.get(&change.from.key)) {
            return Ok(false);
        }
        self.write(&match change.to {
            Some(row) => Entry::Put(row),
            None => Entry::Removed(vec![change.from.key]),
        })?;
        Ok(true)
    }

    fn claim(&mut self, row: LedgerRow, now: Timestamp) -> Result<Claimed, StoreError> {
        if let Some(there) = self.ledger.get(&row.key).filter(|there| !there.is_expired(now)) {
            return Ok(Claimed::No(there.clone()));
        }
        self.write(&Entry::Put(row))?;
        Ok(Claimed::Yes)
    }

    fn rows(&self, which: &Rows) -> Vec<LedgerRow> {
        self.ledger.values().filter(|row| which.matches(row)).cloned().collect()
    }

    fn remove(&mut self, which: &Rows) -> Result<Vec<LedgerRow>, StoreError> {
        let mut rows = self.rows(which);
        rows.retain(|row| !row.is_claimed());
        if !rows.is_empty() {
            self.write(&Entry::Removed(rows.iter().map(|row| row.key.clone()).collect()))?;
        }
        Ok(rows)
    }
}

impl Kept {
    fn compact(&mut self, upto: u64, whole: Vec<Record>) {
        let mut compacts = false;
        for record in whole {
            let same = |one: &NumberedRecord| one.sequence <= upto && one.record.stream == record.stream;
            let Some(last) = self.records.iter().filter(|one| same(one)).map(|one| one.sequence).max() else {
                continue;
            };
            self.records.retain(|one| !same(one) || one.sequence == last);
            if let Some(one) = self.records.iter_mut().find(|one| one.sequence == last) {
                one.record = record;
            }
            self.compacted = self.compacted.max(upto.min(self.sequence));
            compacts = true;
        }
        if compacts {
            self.compactions += 1;
            // What it says of the log may not be so any more.
            self.summary = None;
        }
    }
}

impl Store for ByteStore {
    fn durability(&self) -> Durability {
        Durability::Restart
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        ready(Ok(lock(&self.state).load(session, 0)))
    }

    fn load_since<'a>(
        &'a self,
        session: &'a SessionId,
        since: u64,
    ) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        ready(Ok(lock(&self.state).load(session, since)))
    }

    fn has_pages(&self) -> bool {
        true
    }

    fn opening<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Opening, StoreError>> {
        ready(Ok(lock(&self.state).opening(session)))
    }

    fn page(&self, session: &SessionId, query: &PageQuery) -> Result<Vec<NumberedRecord>, StoreError> {
        Ok(lock(&self.state).page(session, query))
    }

    fn summarise<'a>(
        &'a self,
        session: &'a SessionId,
        summary: Summary,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(lock(&self.state).summarise(session.clone(), summary))
    }

    fn history<'a>(
        &'a self,
        session: &'a SessionId,
        query: HistoryQuery,
    ) -> BoxFuture<'a, Result<History, StoreError>> {
        ready(Ok(lock(&self.state).history(session, &query)))
    }

    fn compact<'a>(
        &'a self,
        session: &'a SessionId,
        upto: u64,
        whole: Vec<Record>,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        ready(lock(&self.state).compact(session.clone(), upto, whole))
    }

    fn begin<'a>(&'a self, session: &'a SessionId, mark: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(lock(&self.state).write(&Entry::Begin { session: session.clone(), mark }))
    }

    fn start<'a>(&'a self, call: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(lock(&self.state).write(&Entry::Start(call)))
    }

    fn commit<'a>(&'a self, session: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(lock(&self.state).commit(session.clone(), batch))
    }

    fn claim<'a>(&'a self, row: LedgerRow, now: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        ready(lock(&self.state).claim(row, now))
    }

    fn replace<'a>(&'a self, change: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>> {
        ready(lock(&self.state).replace(change))
    }

    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        ready(Ok(lock(&self.state).rows(&which)))
    }

    fn remove<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        ready(lock(&self.state).remove(&which))
    }
}

fn ready<'a, T: Send + 'a>(value: Result<T, StoreError>) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(value))
}

type Split<'a> = (&'a [u8], &'a [u8]);

/// The first entry's payload and what follows it; none at the end, and for an entry that is cut short.
fn frame(bytes: &[u8]) -> Result<Option<Split<'_>>, StoreError> {
    let Some((header, rest)) = bytes.split_at_checked(HEADER) else { return Ok(None) };
    let (length, checks) = header.split_at(4);
    let (of_length, of_payload) = checks.split_at(4);
    if check::<4>(length) != of_length {
        return Err(broken("the length of an entry is damaged".to_owned()));
    }
    let length = length.iter().rev().fold(0usize, |sum, byte| (sum << 8) | usize::from(*byte));
    let Some((payload, after)) = rest.split_at_checked(length) else { return Ok(None) };
    if check::<8>(payload) != of_payload {
        return Err(broken("an entry is damaged".to_owned()));
    }
    Ok(Some((payload, after)))
}

fn check<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut check = [0; N];
    blake3::Hasher::new().update(bytes).finalize_xof().fill(&mut check);
    check
}

fn decode(payload: &[u8]) -> Result<Entry, StoreError> {
    serde_json::from_slice(payload).map_err(|error| broken(error.to_string()))
}

fn broken(reason: String) -> StoreError {
    StoreError::failed("use its journal", reason)
}
