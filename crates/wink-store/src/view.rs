//! A store that is only looked at: it writes nothing where the database is, and needs no space there.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use rusqlite::Connection;
use wink::BoxFuture;
use wink::limits::{Clock, SystemClock};
use wink::session::{InvocationId, SessionId};
use wink::store::{
    Batch, CallMark, Claimed, Durability, History, HistoryQuery, LedgerChange, LedgerRow, NumberedRecord,
    Opening, PageQuery, Rows, Store, StoreError, StoreLoss, StoredSession,
};

use crate::maintain::{self, CheckReport};
use crate::marks::refuse_in_a_call;
use crate::read::{Verdict, knows_journal, session_names};
use crate::schema::failed;
use crate::store::database_in;
use crate::{ledger, loss, read, schema};

/// What a store has, as of one moment, read into memory with what is only in its log. It works on a read-only or full file system, and on
/// a copy. Nothing is locked, written or made whole: a call whose process died has no event yet, and its claim is still one.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use wink::session::Logbook;
/// use wink_store::StoreView;
///
/// # let dir = tempfile::tempdir()?;
/// # drop(wink_store::Workspace::open(dir.path())?);
/// let view = Arc::new(StoreView::open(dir.path().join(".wink"))?);
/// let log = Logbook::of(view, "main").entries().await?;
/// assert!(log.is_empty(), "nothing has happened here");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct StoreView {
    conn: Mutex<Connection>,
    path: PathBuf,
}

impl StoreView {
    /// Reads the database at `path`, or `wink.db` in it if it is a folder.
    ///
    /// # Errors
    /// When it cannot be read, is not the one that belongs there, or was written by a newer version or by something else.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = database_in(path.as_ref());
        Ok(Self { conn: Mutex::new(schema::image(&path, SystemClock.now())?), path })
    }

    /// The sessions that there are, by name.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        self.read(session_names)
    }

    /// Says whether a journal's changes became true, as of this moment.
    pub fn verdict(self: &Arc<Self>) -> Verdict {
        let view = Arc::clone(self);
        Arc::new(move |journal| view.read(|conn| knows_journal(conn, journal)))
    }

    /// Looks through everything, and says what is wrong with it. Nothing is changed.
    ///
    /// # Errors
    /// When a call is running, in any process, or it cannot be read.
    pub fn check(&self) -> Result<CheckReport, StoreError> {
        refuse_in_a_call(&self.path, "check")?;
        self.read(|conn| Ok(maintain::check(conn)))
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        read(&self.conn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        Box::pin(std::future::ready(self.read(read)))
    }
}

fn only_looked_at<T: Send + 'static>(doing: &'static str) -> BoxFuture<'static, Result<T, StoreError>> {
    Box::pin(std::future::ready(Err(StoreError::failed(doing, "the store is only looked at"))))
}

impl Store for StoreView {
    fn durability(&self) -> Durability {
        Durability::Restart
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        self.answer(|conn| read::load(conn, session, 0))
    }

    fn load_since<'a>(
        &'a self,
        session: &'a SessionId,
        since: u64,
    ) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        self.answer(|conn| read::load(conn, session, since))
    }

    fn history<'a>(
        &'a self,
        session: &'a SessionId,
        query: HistoryQuery,
    ) -> BoxFuture<'a, Result<History, StoreError>> {
        self.answer(|conn| read::history(conn, session, &query).map_err(failed("look into the history")))
    }

    fn has_pages(&self) -> bool {
        true
    }

    fn opening<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Opening, StoreError>> {
        self.answer(|conn| Ok(read::opening(conn, session)?.0))
    }

    fn page(&self, session: &SessionId, query: &PageQuery) -> Result<Vec<NumberedRecord>, StoreError> {
        self.read(|conn| read::page(conn, session, query).map_err(failed("read a page")))
    }

    fn count(&self, session: &SessionId, query: &PageQuery) -> Result<u64, StoreError> {
        self.read(|conn| read::count(conn, session, query).map_err(failed("read a page")))
    }

    fn losses(&self) -> BoxFuture<'_, Result<Vec<StoreLoss>, StoreError>> {
        self.answer(|conn| loss::open(conn).map_err(failed("read what was lost")))
    }

    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        self.answer(|conn| ledger::stored(conn, &which))
    }

    fn begin<'a>(&'a self, _: &'a SessionId, _: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        only_looked_at("begin")
    }

    fn start<'a>(&'a self, _: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
        only_looked_at("start")
    }

    fn commit<'a>(&'a self, _: &'a SessionId, _: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        only_looked_at("commit")
    }

    fn claim<'a>(&'a self, _: LedgerRow, _: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        only_looked_at("claim")
    }

    fn replace<'a>(&'a self, _: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>> {
        only_looked_at("replace a row")
    }

    fn remove<'a>(&'a self, _: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        only_looked_at("remove rows")
    }
}

impl std::fmt::Debug for StoreView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreView").finish_non_exhaustive()
    }
}
