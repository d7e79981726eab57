//! Opening a durable session costs the same however long its log is, and holds nothing of it: counted in what the store is
//! asked for.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test says what is broken by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use wink::BoxFuture;
use wink::prelude::*;
use wink::session::{InvocationId, Logbook, LoggedParams, SessionId, ToolInvoked, replace_latest};
use wink::store::{
    Batch, CallMark, Claimed, Durability, History, HistoryQuery, LedgerChange, LedgerRow, MemoryStore,
    NumberedRecord, Opening, PageQuery, Rows, Store, StoreError, StoredSession, Summary,
};

/// Keeps one session, and counts what is read of it.
#[derive(Default)]
struct Shelf {
    ledger: MemoryStore,
    records: Mutex<Vec<NumberedRecord>>,
    summary: Mutex<Option<Summary>>,
    read: AtomicUsize,
    bytes: AtomicUsize,
    summaries: AtomicUsize,
}

impl Shelf {
    /// Records and bytes that were read since this was last asked.
    fn read(&self) -> (usize, usize) {
        (self.read.swap(0, Ordering::SeqCst), self.bytes.swap(0, Ordering::SeqCst))
    }

    fn count<'a>(&self, records: impl Iterator<Item = &'a wink::store::Record>) {
        for record in records {
            self.read.fetch_add(1, Ordering::SeqCst);
            self.bytes.fetch_add(record.bytes.len(), Ordering::SeqCst);
        }
    }

    fn sequence(&self) -> u64 {
        self.records.lock().unwrap().last().map_or(0, |last| last.sequence)
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Store for Shelf {
    fn durability(&self) -> Durability {
        Durability::Restart
    }

    fn has_pages(&self) -> bool {
        true
    }

    fn load<'a>(&'a self, _: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        unreachable!("nobody needs all of it")
    }

    fn opening<'a>(&'a self, _: &'a SessionId) -> BoxFuture<'a, Result<Opening, StoreError>> {
        let summary = self.summary.lock().unwrap().clone();
        self.count(summary.iter().flat_map(|summary| summary.records.iter()));
        ready(Opening { summary, sequence: self.sequence(), ..Opening::default() })
    }

    fn page(&self, _: &SessionId, query: &PageQuery) -> Result<Vec<NumberedRecord>, StoreError> {
        let page = query.page_of(self.records.lock().unwrap().iter());
        self.count(page.iter().map(|one| &one.record));
        Ok(page)
    }

    fn summarise<'a>(&'a self, _: &'a SessionId, summary: Summary) -> BoxFuture<'a, Result<(), StoreError>> {
        self.summaries.fetch_add(1, Ordering::SeqCst);
        *self.summary.lock().unwrap() = Some(summary);
        ready(())
    }

    fn history<'a>(
        &'a self,
        _: &'a SessionId,
        query: HistoryQuery,
    ) -> BoxFuture<'a, Result<History, StoreError>> {
        let records = self.records.lock().unwrap();
        let records: Vec<NumberedRecord> = records.iter().filter(|one| query.matches(one)).cloned().collect();
        self.count(records.iter().map(|one| &one.record));
        ready(History { records, ..History::default() })
    }

    fn begin<'a>(&'a self, _: &'a SessionId, _: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(())
    }

    fn start<'a>(&'a self, _: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(())
    }

    fn commit<'a>(&'a self, session: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut records = self.records.lock().unwrap();
        for record in batch.records {
            let sequence = records.len() as u64 + 1;
            records.push(NumberedRecord { sequence, at: None, record });
        }
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

/// What the session remembers.
#[data]
#[derive(Clone, SliceType)]
#[slice(name = "total")]
struct Total {
    sum: u64,
}

/// Adds to what is remembered.
#[tool]
async fn add(number: u64, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let sum = cx.session().slice::<Total>()?.latest().map_or(0, |total| total.sum) + number;
    let _ = cx.session().dispatch(Total { sum })?;
    Ok(ToolResult::done("added"))
}

async fn open(shelf: &Arc<Shelf>) -> (Session, Executor) {
    let session = Session::builder().store(Arc::clone(shelf) as _).id("one").open().await.unwrap();
    session.register(replace_latest::<Total>()).unwrap();
    let section = Section::tools("sums", "Sums").tool(add_tool());
    let prompt = PromptTemplate::builder("tests", "flat").section(section).build().unwrap().prompt();
    let executor = Executor::open(&prompt, &session).await.unwrap();
    (session, executor)
}

async fn calls(executor: &Executor, count: usize) {
    for number in 0..count {
        let outcome = executor.call(ToolCall::new(number.to_string(), "add", r#"{"number": 1}"#)).await;
        assert!(outcome.is_success(), "{outcome:?}");
    }
}

#[tokio::test]
async fn opening_costs_the_same_however_long_the_log_is() {
    let shelf = Arc::new(Shelf::default());
    let (session, executor) = open(&shelf).await;
    calls(&executor, 10).await;
    drop((session, executor));
    shelf.read();
    drop(open(&shelf).await);
    let (records, bytes) = shelf.read();
    assert!(records > 10, "all of a short one is read");

    let (session, executor) = open(&shelf).await;
    calls(&executor, 9_990).await;
    assert_eq!(session.slice::<ToolInvoked>().len(), 10_000);
    drop((session, executor));
    let all = shelf.records.lock().unwrap().len();
    assert!(all >= 30_000, "{all}");
    shelf.read();
    let (session, executor) = open(&shelf).await;
    let (many, much) = shelf.read();
    // No more than 128 KiB since the last summary, each record counting half a KiB more than it has, and a summary.
    let is_flat = |many: usize, much: usize| many <= records + 256 && much <= bytes + (160 << 10);
    assert!(is_flat(many, much), "{many} records, {much} bytes");

    // What policies and feedback ask is there without the log.
    assert_eq!(session.calls("add").unwrap().count, 10_000);
    assert_eq!((session.total_calls(), session.slice::<ToolInvoked>().len()), (10_000, 10_000));
    assert_eq!(session.slice::<Total>().latest().unwrap().sum, 10_000);
    assert_eq!(shelf.read(), (0, 0));
    calls(&executor, 1).await;
    let (read, _) = shelf.read();
    assert_eq!(read, 0, "nor does a call read it");

    // And looking costs what is looked at.
    let log = session.slice::<ToolInvoked>();
    assert_eq!(&*log.latest().unwrap().call_id, "0");
    assert_eq!(shelf.read().0, 1);
    assert_eq!(log.newest().take(50).count(), 50);
    let (read, _) = shelf.read();
    assert!(read < 200, "{read}");
    assert_eq!(log.iter().count(), 10_001, "all of it, if need be");

    shelf.read();
    let logbook = Logbook::of(Arc::clone(&shelf) as _, "one");
    let last = logbook.newest(0, 1, |_| true).await.unwrap();
    assert_eq!((last.len(), last[0].seq), (1, 10_001));
    let (many, much) = shelf.read();
    assert!(is_flat(many, much), "{many} records, {much} bytes");
    assert_eq!(logbook.entry(1).await.unwrap().unwrap().event.id(), log.iter().next().unwrap().id);
    assert_eq!(logbook.entry(10_002).await.unwrap(), None);
    assert_eq!(logbook.entry(0).await.unwrap(), None);
    assert_eq!(logbook.find(last[0].event.id()).await.unwrap().as_ref(), last.first());
}

#[tokio::test]
async fn large_events_are_not_read_when_a_session_is_opened() {
    let shelf = Arc::new(Shelf::default());
    let (session, executor) = open(&shelf).await;
    let large = format!("{{\"nothing\": \"{}\"}}", "x".repeat(1 << 20));
    for _ in 0..20 {
        let outcome = executor.call(ToolCall::new("1", "add", large.clone())).await;
        assert!(!outcome.is_success());
    }
    drop((session, executor));
    shelf.read();
    let (session, _) = open(&shelf).await;
    let (_, much) = shelf.read();
    assert!(much <= 1 << 20, "{much} bytes");
    assert_eq!(session.slice::<ToolInvoked>().len(), 20);
    let raw = session.slice::<ToolInvoked>().latest().unwrap();
    assert!(
        matches!(&raw.params, LoggedParams::Rejected { raw, .. } if **raw == *large),
        "all of it is kept"
    );
}

#[tokio::test]
async fn summaries_are_as_rare_as_they_are_large() {
    let shelf = Arc::new(Shelf::default());
    let (session, executor) = open(&shelf).await;
    // Two megabytes of STATE.
    session.know::<Entry>().unwrap();
    for number in 0..20_000 {
        assert!(session.dispatch(Entry { text: format!("{number:0100}") }).is_ok());
    }
    session.flush().await.unwrap();
    let before = shelf.summaries.load(Ordering::SeqCst);
    calls(&executor, 500).await;
    let more = shelf.summaries.load(Ordering::SeqCst) - before;
    assert!(more <= 1, "{more} summaries for 500 small calls");
    drop((session, executor));
    let (session, _) = open(&shelf).await;
    session.know::<Entry>().unwrap();
    assert_eq!(session.slice::<Entry>().len(), 20_000);
    assert_eq!(session.calls("add").unwrap().count, 500);
}

/// One of many.
#[data]
#[derive(SliceType)]
#[slice(name = "entry")]
struct Entry {
    text: String,
}
