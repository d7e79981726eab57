//! A store that outlives the process as far as anybody can tell, and so is told everything; it turns all of it into
//! bytes and keeps only the ledger. What the library costs around a store that costs always the same.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "every test uses its own part")]

use std::future::ready;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use wink::BoxFuture;
use wink::session::{InvocationId, SessionId};
use wink::store::{
    Batch, CallMark, Claimed, Durability, LedgerChange, LedgerRow, MemoryStore, Rows, Store, StoreError,
    StoredSession,
};

#[derive(Default)]
pub struct Discards {
    ledger: MemoryStore,
    written: AtomicUsize,
}

impl Discards {
    /// How many bytes it was given so far.
    pub fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    fn write(&self, entry: &impl serde::Serialize) {
        let bytes = serde_json::to_vec(black_box(entry)).unwrap();
        self.written.fetch_add(bytes.len(), Ordering::Relaxed);
    }
}

impl Store for Discards {
    fn durability(&self) -> Durability {
        Durability::Restart
    }

    fn load<'a>(&'a self, _: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        Box::pin(ready(Ok(StoredSession::default())))
    }

    fn begin<'a>(&'a self, _: &'a SessionId, mark: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(&mark);
        Box::pin(ready(Ok(())))
    }

    fn start<'a>(&'a self, _: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    fn commit<'a>(&'a self, session: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(&batch);
        self.ledger.commit(session, Batch { ledger: batch.ledger, ..Batch::default() })
    }

    fn claim<'a>(&'a self, row: LedgerRow, now: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        self.ledger.claim(row, now)
    }

    fn replace<'a>(&'a self, change: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.ledger.replace(change)
    }

    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        self.ledger.rows(which)
    }

    fn remove<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        self.ledger.remove(which)
    }
}
