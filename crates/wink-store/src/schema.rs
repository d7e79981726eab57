//! The tables, and how older ones become the present ones.

use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use std::path::Path;
use wink::store::{StoreError, StoreErrorKind};

use crate::identity::Noted;
use crate::image;
use crate::mark::Mark;
use crate::options::StoreOptions;
use crate::tail::WriteTx;

/// Marks a database as a store ("wink").
const APPLICATION: i32 = 0x7769_6e6b;

/// When the log is folded into the database, in pages. Whoever opens the store first reads what is in the log: a megabyte at most,
/// unless somebody was killed.
const LOG_PAGES: i64 = 256;

/// What makes each version of the tables from the one before; the first is made from nothing. Never change one that
/// was released: add another.
const MIGRATIONS: &[fn(&Connection) -> rusqlite::Result<()>] =
    &[tables, journals, journals_by_session, identity, summaries, tail];

/// Records of one session are numbered from 1, and the number is the lower part of the row's own: a session's records stand
/// together and in order, without an index.
fn tables(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
         INSERT INTO meta VALUES ('fence', 0);
         CREATE TABLE sessions (
             id INTEGER PRIMARY KEY,
             name TEXT NOT NULL UNIQUE,
             compacted INTEGER NOT NULL DEFAULT 0
         );
         CREATE TABLE records (
             id INTEGER PRIMARY KEY,
             at INTEGER NOT NULL,
             call BLOB,
             stream TEXT NOT NULL,
             bytes BLOB NOT NULL
         );
         CREATE TABLE calls (
             id INTEGER PRIMARY KEY,
             session INTEGER NOT NULL,
             invocation TEXT NOT NULL,
             owner TEXT NOT NULL,
             mark TEXT NOT NULL
         );
         CREATE TABLE ledger (
             key TEXT PRIMARY KEY,
             tool TEXT NOT NULL,
             owner TEXT,
             expires INTEGER,
             row TEXT NOT NULL
         ) WITHOUT ROWID;
         CREATE INDEX ledger_by_tool ON ledger (tool);
         CREATE INDEX ledger_by_owner ON ledger (owner) WHERE owner IS NOT NULL;
         CREATE INDEX ledger_by_expiry ON ledger (expires) WHERE expires IS NOT NULL;",
    )
}

/// Marks of journals, and the way from a call to its records.
fn journals(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(
        "CREATE TABLE journals (
             id TEXT PRIMARY KEY,
             session INTEGER NOT NULL,
             invocation TEXT,
             sequence INTEGER NOT NULL,
             at INTEGER NOT NULL
         ) WITHOUT ROWID;
         CREATE INDEX records_by_call ON records (call) WHERE call IS NOT NULL;",
    )
}

/// The way from a session to its journals, and up to where they were forgotten.
fn journals_by_session(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(
        "CREATE INDEX journals_by_session ON journals (session, sequence);
         ALTER TABLE sessions ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0;",
    )
}

/// By what a database is known.
fn identity(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(crate::identity::TABLE)
}

/// What sessions are opened from. Its rows are numbered as those of records are, by place in the summary. A session that has
/// none yet is read as a whole once.
fn summaries(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(
        "CREATE TABLE summaries (
             id INTEGER PRIMARY KEY,
             stream TEXT NOT NULL,
             bytes BLOB NOT NULL
         );
         ALTER TABLE sessions ADD COLUMN summed INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE sessions ADD COLUMN compactions INTEGER NOT NULL DEFAULT 0;",
    )
}

/// The count of commits, the chains of sessions, and the checksums of rows. Chains begin with what is committed from now on; the rows of
/// the ledger get their checksums now. Nothing reads `pruned`, and nothing writes it any more.
fn tail(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(
        "CREATE TABLE tail (
             id INTEGER PRIMARY KEY CHECK (id = 1),
             commits INTEGER NOT NULL,
             digest BLOB NOT NULL,
             pruned INTEGER
         );
         INSERT INTO tail (id, commits, digest) VALUES (1, 0, zeroblob(32));
         ALTER TABLE records ADD COLUMN sum BLOB;
         ALTER TABLE records ADD COLUMN chain BLOB;
         ALTER TABLE summaries ADD COLUMN sum BLOB;
         ALTER TABLE ledger ADD COLUMN sum BLOB;
         ALTER TABLE sessions ADD COLUMN unchained INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE sessions ADD COLUMN base INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE sessions ADD COLUMN base_digest BLOB;
         ALTER TABLE sessions ADD COLUMN summed_chain BLOB;
         UPDATE sessions SET unchained = coalesce(
             (SELECT max(id) & ((1 << 40) - 1) FROM records
              WHERE id BETWEEN sessions.id << 40 AND (sessions.id << 40) + (1 << 40) - 1), 0);
         UPDATE sessions SET base = unchained;",
    )?;
    conn.execute_batch(crate::loss::TABLE)?;
    crate::ledger::sum_all(conn)
}

/// A database that is open for writing, and its mark.
pub(crate) struct Opened {
    pub(crate) conn: Connection,
    pub(crate) mark: Mark,
}

/// Opens the database for writing, with the tables of this version.
pub(crate) fn open(path: &Path, options: &StoreOptions) -> Result<Opened, StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let noted = Noted::beside(path)?;
    let mut conn = connect(path, flags, options)?;
    // A database that is not ours, or not yet, is not touched.
    recognised(&conn, path)?;
    noted.check(&conn, path)?;
    let behind = noted.behind(&conn)?;
    if let Some(behind) = &behind {
        // Before anything is written: what is lost may be in the log yet.
        behind.keep_copy(path)?;
    }
    prepare(&mut conn, options).map_err(failed("open"))??;
    let mark = noted.note(&conn)?;
    if let Some(behind) = behind {
        let noting =
            conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed("open"))?;
        let noted = || -> rusqlite::Result<_> {
            let writing = WriteTx::new(&noting);
            behind.note(&writing, options.clock.now())?;
            writing.count()
        };
        let (tail, what) = noted().map_err(failed("open"))?;
        noting.commit().map_err(failed("open"))?;
        mark.write(&tail, &what);
    }
    Ok(Opened { conn, mark })
}

/// Opens the database, whose tables are there, for reading.
pub(crate) fn open_to_read(path: &Path, options: &StoreOptions) -> Result<Connection, StoreError> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX, options)?;
    conn.pragma_update(None, "query_only", true).map_err(failed("open"))?;
    Ok(conn)
}

/// The same of a store that could not be opened, for which it may have been too early to say whether it is the right one.
pub(crate) fn look(path: &Path, options: &StoreOptions) -> Result<Connection, StoreError> {
    let noted = Noted::beside(path)?;
    let conn = open_to_read(path, options)?;
    recognised(&conn, path)?;
    noted.check(&conn, path)?;
    Ok(conn)
}

/// The database in memory, with the tables of this version, as it is on disk.
pub(crate) fn image(path: &Path, now: Timestamp) -> Result<Connection, StoreError> {
    let noted = Noted::beside(path)?;
    let mut conn = image::read(path)?;
    recognised(&conn, path)?;
    noted.check(&conn, path)?;
    let behind = noted.behind(&conn)?;
    migrate(&mut conn).map_err(failed("read"))??;
    if let Some(behind) = behind {
        behind.note(&WriteTx::new(&conn), now).map_err(failed("read"))?;
    }
    Ok(conn)
}

fn connect(path: &Path, flags: OpenFlags, options: &StoreOptions) -> Result<Connection, StoreError> {
    let conn = Connection::open_with_flags(path, flags).map_err(failed("open"))?;
    conn.busy_timeout(options.busy).map_err(failed("open"))?;
    conn.set_prepared_statement_cache_capacity(64);
    // Whoever makes one call and ends would wait for the disk three times to fold the log in, and the next three times for a
    // new one.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed("open"))?;
    Ok(conn)
}

fn prepare(conn: &mut Connection, options: &StoreOptions) -> rusqlite::Result<Result<(), StoreError>> {
    let mode = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        let reason = format!("the database cannot be written ahead here (its journal is {mode:?})");
        return Ok(Err(StoreError::failed("open", reason)));
    }
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    conn.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    if let Some(most) = options.most_pages {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        conn.pragma_update_and_check(None, "max_page_count", most, |_| Ok(()))?;
    }
    migrate(conn)
}

/// A database in memory with the tables of this version.
pub(crate) fn empty() -> rusqlite::Result<Connection> {
    let mut conn = Connection::open_in_memory()?;
    // One that has no tables is not of a newer version.
    let _ = migrate(&mut conn)?;
    Ok(conn)
}

/// Brings the tables up to date.
pub(crate) fn migrate(conn: &mut Connection) -> rusqlite::Result<Result<(), StoreError>> {
    let migrating = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&migrating)?;
    if found == MIGRATIONS.len() {
        return Ok(Ok(()));
    }
    let Some(missing) = MIGRATIONS.get(found..) else { return Ok(Err(newer(found))) };
    for migrate in missing {
        migrate(&migrating)?;
    }
    migrating.pragma_update(None, "application_id", APPLICATION)?;
    migrating.pragma_update(None, "user_version", i64::try_from(MIGRATIONS.len()).unwrap_or_default())?;
    migrating.commit()?;
    if found > 0 {
        tracing::info!(from = found, to = MIGRATIONS.len(), "the store was brought up to date");
    }
    Ok(Ok(()))
}

fn recognised(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let looked = || -> rusqlite::Result<_> {
        let application: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
        Ok((version(conn)?, application, tables))
    };
    let (found, application, tables) = looked().map_err(failed("open"))?;
    if tables > 0 && application != APPLICATION {
        let reason = format!("{} is a database of something else", path.display());
        return Err(StoreError { doing: "open", reason, kind: StoreErrorKind::Incompatible });
    }
    if found > MIGRATIONS.len() { Err(newer(found)) } else { Ok(()) }
}

fn version(conn: &Connection) -> rusqlite::Result<usize> {
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

fn newer(found: usize) -> StoreError {
    let known = MIGRATIONS.len();
    let reason = format!(
        "it was written by a newer version of Wink: its tables are version {found}, and this one knows them up to {known}. \
         Use the newer version"
    );
    StoreError { doing: "open", reason, kind: StoreErrorKind::Incompatible }
}

/// What SQLite said.
pub(crate) fn failed(doing: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| {
        let code = error.sqlite_error_code();
        let advice = match code {
            Some(rusqlite::ErrorCode::DiskFull) => {
                ". There is no space left: nothing was written; make room and try again"
            }
            Some(rusqlite::ErrorCode::DatabaseBusy) => {
                ". Another process kept the database for too long; try again"
            }
            Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
                ". The database is damaged: `check` says where"
            }
            _ => "",
        };
        let kind = match code {
            Some(rusqlite::ErrorCode::DiskFull) => StoreErrorKind::NoSpace,
            _ => StoreErrorKind::Failed,
        };
        StoreError { doing, reason: format!("{error}{advice}"), kind }
    }
}
