//! The store of sessions that need not outlive the process.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::Timestamp;

use super::{
    Batch, CallMark, Claimed, Durability, History, HistoryQuery, LedgerChange, LedgerRow, Record, Rows,
    Store, StoreError, StoredSession,
};
use crate::BoxFuture;
use crate::session::{InvocationId, SessionId};
use crate::support::lock::lock;

/// Keeps the ledger in memory, and nothing per call.
#[derive(Debug, Default)]
pub struct MemoryStore {
    ledger: Mutex<BTreeMap<String, LedgerRow>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Store for MemoryStore {
    fn durability(&self) -> Durability {
        Durability::Process
    }

    fn hears_every_commit(&self) -> bool {
        false
    }

    fn load<'a>(&'a self, _: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        ready(StoredSession::default())
    }

    fn load_since<'a>(
        &'a self,
        _: &'a SessionId,
        _: u64,
    ) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        ready(StoredSession::default())
    }

    fn history<'a>(
        &'a self,
        _: &'a SessionId,
        _: HistoryQuery,
    ) -> BoxFuture<'a, Result<History, StoreError>> {
        ready(History::default())
    }

    fn compact<'a>(
        &'a self,
        _: &'a SessionId,
        _: u64,
        _: Vec<Record>,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        ready(0)
    }

    fn begin<'a>(&'a self, _: &'a SessionId, _: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(())
    }

    fn start<'a>(&'a self, _: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(())
    }

    fn commit<'a>(&'a self, _: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        if let Some(change) = batch.ledger {
            let refused = change.refused();
            if !make(&mut lock(&self.ledger), change) {
                return Box::pin(std::future::ready(Err(refused)));
            }
        }
        ready(())
    }

    fn claim<'a>(&'a self, row: LedgerRow, now: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        let mut ledger = lock(&self.ledger);
        let claimed = match ledger.get(&row.key) {
            Some(there) if !there.is_expired(now) => Claimed::No(there.clone()),
            Some(_) | None => {
                ledger.insert(row.key.clone(), row);
                Claimed::Yes
            }
        };
        ready(claimed)
    }

    fn replace<'a>(&'a self, change: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>> {
        ready(make(&mut lock(&self.ledger), change))
    }

    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        let ledger = lock(&self.ledger);
        ready(match &which {
            Rows::Key(key) => ledger.get(key).cloned().into_iter().collect(),
            Rows::Tool(_) | Rows::ExpiredAt(_) | Rows::All => {
                ledger.values().filter(|row| which.matches(row)).cloned().collect()
            }
        })
    }

    fn remove<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        let mut ledger = lock(&self.ledger);
        let gone: Vec<LedgerRow> = match &which {
            Rows::Key(key) => match ledger.get(key) {
                Some(row) if !row.is_claimed() => ledger.remove(key).into_iter().collect(),
                Some(_) | None => Vec::new(),
            },
            Rows::Tool(_) | Rows::ExpiredAt(_) | Rows::All => {
                let free = |row: &LedgerRow| !row.is_claimed() && which.matches(row);
                ledger.extract_if(.., |_, row| free(row)).map(|(_, row)| row).collect()
            }
        };
        ready(gone)
    }
}

/// Makes the change, if the row is as expected.
fn make(ledger: &mut BTreeMap<String, LedgerRow>, change: LedgerChange) -> bool {
    if !change.expects(ledger.get(&change.from.key)) {
        return false;
    }
    match change.to {
        Some(row) => ledger.insert(change.from.key, row),
        None => ledger.remove(&change.from.key),
    };
    true
}
