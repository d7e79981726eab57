//! The store of sessions that need not outlive the process.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::Timestamp;

use super::{Batch, CallMark, Claimed, Durability, LedgerRow, Rows, Store, StoreError, StoredSession};
use crate::BoxFuture;
use crate::session::SessionId;
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

    fn begin<'a>(&'a self, _: &'a SessionId, _: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(())
    }

    fn commit<'a>(&'a self, _: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        if let Some(row) = batch.ledger {
            lock(&self.ledger).insert(row.key.clone(), row);
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

    fn put<'a>(&'a self, row: LedgerRow) -> BoxFuture<'a, Result<(), StoreError>> {
        lock(&self.ledger).insert(row.key.clone(), row);
        ready(())
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
            Rows::Key(key) => ledger.remove(key).into_iter().collect(),
            Rows::Tool(_) | Rows::ExpiredAt(_) | Rows::All => {
                ledger.extract_if(.., |_, row| which.matches(row)).map(|(_, row)| row).collect()
            }
        };
        ready(gone)
    }
}
