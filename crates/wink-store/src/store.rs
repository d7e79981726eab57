//! The store itself: what is asked of it goes to the thread that writes or to the one that reads.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use wink::BoxFuture;
use wink::filesystem::STATE;
use wink::filesystem::host::{HostDisk, Owner, Owners, WorkspaceLock};
use wink::limits::Clock;
use wink::session::{InvocationId, Logbook, Session, SessionId};
use wink::store::{
    Batch, CallMark, Claimed, Durability, History, HistoryQuery, JournalId, LedgerChange, LedgerRow,
    NumberedRecord, Opening, PageQuery, Record, Rows, Store, StoreError, StoreErrorKind, StoreLoss,
    StoreTurn, StoredSession, Summary,
};
use wink::testing::steps::reach;

use crate::chain::Broken;
use crate::ground;
use crate::ledger::{self, moment};
use crate::loss;
use crate::maintain::{self, CheckReport, JournalMarks, Pruned};
use crate::marks::{Marks, refuse_in_a_call};
use crate::options::StoreOptions;
use crate::own;
use crate::read::{self, Reader, Verdict};
use crate::records;
use crate::schema::{self, Opened, failed};
use crate::tail::{self, WriteTx};
use crate::turns::Turns;
use crate::writer::{Kind, Writer};

/// What the database in a folder is called.
const DATABASE: &str = "wink.db";
/// Where it is known who has the store open.
pub(crate) const STORES: &str = "stores";
/// Where the locks are by which processes take turns on a session.
const SESSIONS: &str = "sessions";
const STILL_OPENING: &str =
    "another process has begun to open it and is not done: try again, or end that process if it hangs";

/// Sessions, ledger and marks of journals in an SQLite database, which several processes may have open.
pub struct SqliteStore {
    // In the order in which they are to go: nobody takes the owner for dead before everything is written.
    writer: Writer,
    reader: Reader,
    /// For what is read so quickly that it need not be somebody else's work.
    glance: Mutex<Connection>,
    /// For whoever looks at pages; made when somebody first does.
    pages: Mutex<Option<Connection>>,
    turns: Turns,
    marks: Arc<Marks>,
    owners: Owners,
    _owner: Owner,
    path: PathBuf,
    options: StoreOptions,
    warnings: Vec<String>,
    /// Those that were not acknowledged when it was opened.
    losses: Vec<StoreLoss>,
}

impl SqliteStore {
    /// Opens the database at `path`, or `wink.db` in it if it is a folder; it is made if it is not there. Claims whose process
    /// died are in doubt from here on.
    ///
    /// # Errors
    /// When the place cannot be written, or when what is there was written by a newer version or by something else; then
    /// it is left as it is.
    pub fn open(path: impl AsRef<Path>, options: StoreOptions) -> Result<Self, StoreError> {
        let failed_to_open = |error: std::io::Error| {
            let kind = match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreErrorKind::NoSpace,
                _ => StoreErrorKind::Failed,
            };
            StoreError { doing: "open", reason: error.to_string(), kind }
        };
        let path = database_in(path.as_ref());
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            Some(_) | None => Path::new("."),
        };
        std::fs::create_dir_all(dir).map_err(failed_to_open)?;
        let disk = Arc::new(HostDisk::open(dir).map_err(failed_to_open)?);
        let calls = format!("{name}-calls");
        own::files(&*disk, &name)?;
        for own in [STORES, SESSIONS, &calls] {
            own::dir(&*disk, own)?;
        }
        // One at a time: tables are made, and dead owners buried, once.
        let opening = Path::new(STORES).join("new-opening");
        let not_opened = |error: std::io::Error| match error.kind() {
            ErrorKind::TimedOut => StoreError::failed("open", STILL_OPENING),
            _ => failed_to_open(error),
        };
        let _opening =
            WorkspaceLock::acquire(&disk, &opening, options.busy, &*options.clock).map_err(not_opened)?;

        let Opened { conn, mark } = schema::open(&path, &options)?;
        if options.check {
            let problems = maintain::pages(&conn, "quick_check").map_err(failed("open"))?;
            if !problems.is_empty() {
                return Err(StoreError::failed("open", format!("it is damaged: {}", problems.join("; "))));
            }
        }
        let owner = Owner::new(&disk, STORES).map_err(failed_to_open)?;
        let owners = owner.owners().clone();
        let transaction =
            Transaction::new_unchecked(&conn, TransactionBehavior::Immediate).map_err(failed("open"))?;
        let (burying, before) = (WriteTx::new(&transaction), conn.total_changes());
        let marks = Marks::new(Arc::clone(&disk), calls.into(), &owners).map_err(failed_to_open)?;
        ledger::bury(&burying, &owners, &marks)?;
        let dead = marks.dead(&owners).map_err(failed_to_open)?;
        dead.iter().try_for_each(|owner| marks.bury(&burying, owner))?;
        let buried = conn.total_changes() > before;
        let counted = buried.then(|| burying.count()).transpose().map_err(failed("open"))?;
        transaction.commit().map_err(failed("open"))?;
        if let Some((tail, what)) = counted {
            mark.write(&tail, &what);
        }
        dead.iter().for_each(|owner| marks.forget(owner));
        owners.for_each_dead(|_| Ok(())).map_err(failed_to_open)?;

        let reader = Reader::start(schema::open_to_read(&path, &options)?).map_err(failed_to_open)?;
        let glance = schema::open_to_read(&path, &options)?;
        glance.busy_timeout(Duration::ZERO).map_err(failed("open"))?;
        let losses = loss::open(&conn).map_err(failed("open"))?;
        let writer = Writer::start(conn, mark).map_err(failed_to_open)?;
        let turns = Turns::new(disk, SESSIONS, Arc::clone(&options.clock), name);
        let warnings: Vec<String> = ground::doubts(dir).into_iter().collect();
        for warning in &warnings {
            tracing::warn!(warning, "the store is open, and not on safe ground");
        }
        for StoreLoss { what, .. } in &losses {
            tracing::error!(what, "the store has lost commits");
        }
        Ok(Self {
            writer,
            reader,
            glance: Mutex::new(glance),
            pages: Mutex::new(None),
            turns,
            marks: Arc::new(marks),
            owners,
            _owner: owner,
            path,
            options,
            warnings,
            losses,
        })
    }

    /// The database's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is doubtful about the place where the database is.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The [losses](Store::losses) that were not acknowledged when it was opened.
    pub fn lost(&self) -> &[StoreLoss] {
        &self.losses
    }

    /// Says whether a journal's changes became true, without waiting for anybody who writes.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn verdict(&self) -> Result<Verdict, StoreError> {
        Ok(read::verdict_by(schema::open_to_read(&self.path, &self.options)?))
    }

    /// The same of the store in a directory that cannot be opened, since there is no space for what that writes.
    pub(crate) fn verdict_in(dir: &Path, options: &StoreOptions) -> Result<Verdict, StoreError> {
        Ok(read::verdict_by(schema::look(&dir.join(DATABASE), options)?))
    }

    /// Looks through everything, and says what is wrong with it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn check(&self) -> Result<CheckReport, StoreError> {
        // By somebody of its own: it takes long, and calls wait for the one who reads.
        let failed_to_start = |error: std::io::Error| StoreError::failed("check", error.to_string());
        let reader =
            Reader::start(schema::open_to_read(&self.path, &self.options)?).map_err(failed_to_start)?;
        reader.ask("check", |conn| Ok(maintain::check(conn))).await
    }

    /// Removes the effects that the [retention](crate::StoreRetention) of this store does not keep. What is known of journals
    /// stays: only [`Workspace::prune`](crate::Workspace::prune) can be sure that nobody needs it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn prune(&self) -> Result<Pruned, StoreError> {
        self.prune_with(JournalMarks::Stay).await
    }

    pub(crate) async fn prune_with(&self, marks: JournalMarks) -> Result<Pruned, StoreError> {
        let (owners, keep, now) = (self.owners.clone(), self.options.retention, self.options.clock.now());
        self.writer.ask(Kind::Other, move |conn| maintain::prune(conn, &owners, keep, &marks, now)).await
    }

    /// Acknowledges every [loss](Store::losses), which the operator has looked into: from here on, tools with a key run again. Returns what
    /// was acknowledged.
    ///
    /// # Errors
    /// When a call is running, in any process, or the store cannot be written.
    pub async fn acknowledge_losses(&self) -> Result<Vec<StoreLoss>, StoreError> {
        refuse_in_a_call(&self.path, "acknowledge a loss")?;
        let now = self.options.clock.now();
        self.writer.ask(Kind::Other, move |tx| loss::acknowledge(tx, now)).await
    }

    /// Knows the last journal of a workspace that is newer than the store from here on. Says what was lost, if it did not.
    pub(crate) async fn take_over_journal(&self, id: JournalId) -> Result<Option<StoreLoss>, StoreError> {
        refuse_in_a_call(&self.path, "acknowledge a loss")?;
        let now = self.options.clock.now();
        self.writer.ask(Kind::Other, move |tx| loss::take_over_journal(tx, id, now)).await
    }

    /// The sessions that there are, by name.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        self.reader.ask("list sessions", read::session_names).await
    }

    /// The log of the session of this name. Calls whose process died are given their event first.
    ///
    /// # Errors
    /// When it cannot be read, or an event not be written.
    pub async fn logbook(self: &Arc<Self>, session: impl Into<SessionId>) -> Result<Logbook, StoreError> {
        let session = session.into();
        // Without its records, which nobody needs for this.
        let left = self.load_since(&session, u64::MAX).await?;
        if !left.unfinished.is_empty() {
            drop(Session::builder().store(Arc::clone(self) as _).id(session.clone()).open().await?);
        }
        Ok(Logbook::of(Arc::clone(self) as _, session))
    }

    /// First who is dead, then what they left: what they wrote last is there by then.
    fn load_after<'a>(
        &'a self,
        session: &SessionId,
        since: u64,
    ) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            self.bury_calls().await?;
            self.reader.ask("load", move |conn| read::load(conn, &session, since)).await
        })
    }

    /// Makes rows of the marks of calls whose process has died. Its claims are settled by the same marks, which are gone then.
    async fn bury_calls(&self) -> Result<(), StoreError> {
        for owner in self.dead()? {
            let (marks, buried) = (Arc::clone(&self.marks), Arc::clone(&self.marks));
            let (dead, owners) = (owner.clone(), self.owners.clone());
            let bury = move |conn: &WriteTx<'_>| {
                ledger::bury(conn, &owners, &marks)?;
                marks.bury(conn, &dead)
            };
            self.writer.ask_then(Kind::Other, bury, move || buried.forget(&owner)).await?;
        }
        Ok(())
    }

    /// Reads on the caller's thread.
    fn look<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let conn = match &mut *pages {
            Some(conn) => conn,
            none => none.insert(schema::open_to_read(&self.path, &self.options)?),
        };
        read(conn).map_err(failed("read a page"))
    }

    /// The dead who left marks of calls.
    fn dead(&self) -> Result<Vec<String>, StoreError> {
        let failed = |error: std::io::Error| StoreError::failed("look for marks of calls", error.to_string());
        self.marks.dead(&self.owners).map_err(failed)
    }

    /// The clock that it reads.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.options.clock
    }

    /// What the moment is called in the database.
    fn now(&self) -> i64 {
        moment(self.options.clock.now())
    }
}

/// The database at a path, or in it if it is a folder.
pub(crate) fn database_in(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(DATABASE) } else { path.to_owned() }
}

impl Store for SqliteStore {
    fn durability(&self) -> Durability {
        Durability::Restart
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        self.load_after(session, 0)
    }

    fn load_since<'a>(
        &'a self,
        session: &'a SessionId,
        since: u64,
    ) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        // Mostly there is nothing new, and nobody has to be woken to find that out.
        let nothing = self.dead().ok().filter(Vec::is_empty).and_then(|_| {
            let conn = self.glance.try_lock().ok()?;
            read::has_nothing_new(&conn, session, since).ok().filter(|nothing| *nothing)
        });
        match nothing {
            Some(_) => {
                let same = StoredSession { sequence: since, ..StoredSession::default() };
                Box::pin(std::future::ready(Ok(same)))
            }
            None => self.load_after(session, since),
        }
    }

    fn has_pages(&self) -> bool {
        true
    }

    fn opening<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Opening, StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            self.bury_calls().await?;
            let asked = session.clone();
            let read = self.reader.ask("open a session", move |conn| read::opening(conn, &asked));
            let (opening, broken) = read.await?;
            if let Some(Broken { number, why }) = broken {
                let what = format!("record {number} of session '{session}' is lost: {why}");
                tracing::error!(what, "the store is damaged");
                let now = self.options.clock.now();
                let note = move |tx: &WriteTx<'_>| {
                    let commits = tail::of(tx).map_err(failed("note a loss"))?.unwrap_or_default().commits;
                    loss::note(tx, now, commits, None, &what).map_err(failed("note a loss"))
                };
                self.writer.ask(Kind::Other, note).await?;
            }
            Ok(opening)
        })
    }

    fn page(&self, session: &SessionId, query: &PageQuery) -> Result<Vec<NumberedRecord>, StoreError> {
        self.look(|conn| read::page(conn, session, query))
    }

    fn count(&self, session: &SessionId, query: &PageQuery) -> Result<u64, StoreError> {
        self.look(|conn| read::count(conn, session, query))
    }

    fn summarise<'a>(
        &'a self,
        session: &'a SessionId,
        summary: Summary,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let session = session.clone();
        self.writer.ask(Kind::Other, move |conn| {
            records::summarise(conn, &session, &summary).map_err(failed("keep a summary"))
        })
    }

    fn turn<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoreTurn, StoreError>> {
        Box::pin(self.turns.take(session))
    }

    fn hold<'a>(
        &'a self,
        session: &'a SessionId,
        what: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoreTurn>, StoreError>> {
        Box::pin(std::future::ready(self.turns.hold(session, what)))
    }

    fn history<'a>(
        &'a self,
        session: &'a SessionId,
        query: HistoryQuery,
    ) -> BoxFuture<'a, Result<History, StoreError>> {
        let session = session.clone();
        let doing = "look into the history";
        self.reader.ask(doing, move |conn| read::history(conn, &session, &query).map_err(failed(doing)))
    }

    fn compact<'a>(
        &'a self,
        session: &'a SessionId,
        upto: u64,
        whole: Vec<Record>,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        let session = session.clone();
        self.writer.ask(Kind::Other, move |conn| {
            records::compact(conn, &session, upto, &whole).map_err(failed("compact a session"))
        })
    }

    fn begin<'a>(&'a self, session: &'a SessionId, mark: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        let begun = self.marks.begin(session, &mark);
        if begun.is_ok() {
            reach("store.begin-written");
        }
        Box::pin(std::future::ready(begun))
    }

    fn start<'a>(&'a self, call: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
        let started = self.marks.start(call);
        if started.is_ok() {
            reach("store.start-written");
        }
        Box::pin(std::future::ready(started))
    }

    fn commit<'a>(&'a self, session: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        let (owners, session, at) = (self.owners.clone(), session.clone(), self.now());
        // Also of calls before it whose end was refused, and is in this batch.
        let mut ends: Vec<InvocationId> = batch.records.iter().filter_map(|record| record.call).collect();
        ends.extend(batch.ends);
        ends.dedup();
        let marks = Arc::clone(&self.marks);
        let work = move |conn: &WriteTx<'_>| records::commit(conn, &owners, &session, &batch, at);
        self.writer.ask_then(Kind::Commit, work, move || ends.into_iter().for_each(|call| marks.ended(call)))
    }

    fn losses(&self) -> BoxFuture<'_, Result<Vec<StoreLoss>, StoreError>> {
        // Another process may have noticed it, or acknowledged it.
        let doing = "read what was lost";
        self.reader.ask(doing, move |conn| loss::open(conn).map_err(failed(doing)))
    }

    fn claim<'a>(&'a self, row: LedgerRow, now: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        let (owners, marks) = (self.owners.clone(), Arc::clone(&self.marks));
        self.writer.ask(Kind::Claim, move |conn| ledger::claim(conn, &owners, &marks, &row, now))
    }

    fn replace<'a>(&'a self, change: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>> {
        let owners = self.owners.clone();
        self.writer.ask(Kind::Claim, move |conn| ledger::replace(conn, &owners, &change))
    }

    fn settling(&self, key: &str) -> Option<String> {
        // The program finds the database of a workspace only.
        let state = self.path.parent()?;
        let is_workspace = state.file_name()? == STATE && self.path.file_name()? == DATABASE;
        is_workspace.then(|| ledger::settling(key))
    }

    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        Box::pin(async move {
            loop {
                let (owners, asked) = (self.owners.clone(), which.clone());
                let found = self.reader.ask("list rows", move |conn| ledger::rows(conn, &owners, &asked));
                let (rows, dead) = found.await?;
                if !dead {
                    return Ok(rows);
                }
                let (owners, marks) = (self.owners.clone(), Arc::clone(&self.marks));
                self.writer.ask(Kind::Other, move |conn| ledger::bury(conn, &owners, &marks)).await?;
            }
        })
    }

    fn remove<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        let (owners, marks) = (self.owners.clone(), Arc::clone(&self.marks));
        self.writer.ask(Kind::Other, move |conn| {
            ledger::bury(conn, &owners, &marks)?;
            ledger::remove(conn, &owners, &which)
        })
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}
