//! Repairing a damaged database: what is whole of it becomes a new one, in one transaction, and what is not is noted as lost.

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};
use wink::filesystem::host::disk::Disk;
use wink::filesystem::host::{HostDisk, Owner, WorkspaceLock};
use wink::store::{CallMark, JournalId, StoreError, StoreErrorKind};

use crate::chain::Broken;
use crate::declared::{self, Column};
use crate::identity::Noted;
use crate::options::StoreOptions;
use crate::schema::{self, failed};
use crate::store::{STORES, database_in};
use crate::tail::WriteTx;
use crate::{SqliteStore, chain, ledger, loss, maintain, records};

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// Where the database and its log are as they were before.
    pub copy: PathBuf,
    /// What is not whole, and was left out or put in doubt. It is noted as [lost](wink::store::Store::losses), to be acknowledged.
    pub left_out: Vec<String>,
}

impl SqliteStore {
    /// Repairs the database at `path`, or `wink.db` in it if it is a folder: everything in it that is whole is kept. A copy of the database
    /// and its log is kept beside it. Nothing is done, and none returned, if nothing is wrong.
    ///
    /// # Errors
    /// When a process has the store open, a call among them, or the database cannot be read at all, or not be written.
    pub fn repair(path: impl AsRef<Path>, options: &StoreOptions) -> Result<Option<Repaired>, StoreError> {
        let failed_to = |error: std::io::Error| StoreError::failed("repair", error.to_string());
        let path = database_in(path.as_ref());
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let disk = Arc::new(HostDisk::open(dir).map_err(failed_to)?);
        let opening = Path::new(STORES).join("new-opening");
        let _opening =
            WorkspaceLock::acquire(&disk, &opening, options.busy, &*options.clock).map_err(failed_to)?;
        let owner = Owner::new(&disk, STORES).map_err(failed_to)?;
        refuse_if_open(&disk, &owner)?;

        let now = options.clock.now();
        let noted = Noted::beside(&path)?;
        let source = schema::image(&path, now)?;
        let mut left_out = maintain::damage(&source);
        if left_out.is_empty() {
            return Ok(None);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let copy = path.with_file_name(format!("{name}-before-repair-{}", now.as_second()));
        loss::copy_into(&path, &copy).map_err(failed_to)?;

        let whole = schema::empty().map_err(failed("repair"))?;
        copy_whole(&source, &whole, &mut left_out).map_err(failed("repair"))?;
        let writing = WriteTx::new(&whole);
        drop_damaged(&writing).map_err(failed("repair"))?;
        left_out.extend(ledger::doubt_damaged(&writing, owner.owners(), ledger::indexed(&source))?);
        match maintain::pages(&source, "integrity_check(ledger)") {
            Ok(pages) if pages.is_empty() => {}
            _ => left_out.push(
                "table ledger: its pages are damaged; effects may be missing, and not named".to_owned(),
            ),
        }
        let counted = || -> rusqlite::Result<_> {
            for what in &left_out {
                loss::note(&writing, now, 0, None, &format!("found by a repair: {what}"))?;
            }
            writing.tell("the store was repaired", [0; 16]);
            writing.count()
        };
        let (tail, what) = counted().map_err(failed("repair"))?;
        write_over(&whole, &path).map_err(failed("repair"))?;
        noted.note(&whole)?.write(&tail, &what);
        Ok(Some(Repaired { copy, left_out }))
    }
}

/// No process may have the store open: a call that is running stands on it.
fn refuse_if_open(disk: &HostDisk, owner: &Owner) -> Result<(), StoreError> {
    let names = disk.read_dir(Path::new(STORES));
    for (name, _) in names.map_err(|error| StoreError::failed("repair", error.to_string()))? {
        let Ok(name) = name.into_string() else { continue };
        if name.parse::<JournalId>().is_ok() && name != owner.id() && !owner.owners().is_dead(&name) {
            let reason = "a process has the store open, or runs a call: end it, and try again".to_owned();
            return Err(StoreError { doing: "repair", reason, kind: StoreErrorKind::InUse });
        }
    }
    Ok(())
}

/// Copies every row that can be read. What a column does not take becomes the nearest that it does: checks have named it.
fn copy_whole(from: &Connection, to: &Connection, left_out: &mut Vec<String>) -> rusqlite::Result<()> {
    for table in declared::TABLES {
        to.execute(&format!("DELETE FROM {table}"), [])?;
        let key = match table {
            "ledger" => "key",
            "identity" => "rowid",
            _ => "id",
        };
        let mut copied = 0;
        // From both ends: what cannot be read is between them.
        for order in ["", "DESC"] {
            let sql = format!("SELECT * FROM {table} ORDER BY {key} {order}");
            let (rows, error) = copy_until(from, to, table, &sql);
            copied += rows;
            match error {
                None => break,
                Some(error) => left_out.push(format!("table {table}, after {copied} rows: {error}")),
            }
        }
    }
    Ok(())
}

/// Copies rows until one cannot be read. Says how many, and why no more.
fn copy_until(
    from: &Connection,
    to: &Connection,
    table: &str,
    sql: &str,
) -> (usize, Option<rusqlite::Error>) {
    let mut copied = 0;
    let mut copy = || -> rusqlite::Result<()> {
        let columns = declared::columns(to, table)?;
        let mut select = from.prepare(sql)?;
        let places = vec!["?"; columns.len()].join(", ");
        let mut insert = to.prepare(&format!("INSERT OR IGNORE INTO {table} VALUES ({places})"))?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let value = |(at, column): (usize, &Column)| Ok(column.nearest(row.get_ref(at)?));
            let values: Vec<Value> =
                columns.iter().enumerate().map(value).collect::<rusqlite::Result<_>>()?;
            copied += insert.execute(params_from_iter(values))?;
        }
        Ok(())
    };
    let error = copy().err();
    (copied, error)
}

/// Leaves out records, summaries and marks of calls that are not as they were committed.
fn drop_damaged(writing: &WriteTx<'_>) -> rusqlite::Result<()> {
    let sessions: Vec<i64> = writing
        .prepare("SELECT id FROM sessions")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for session in sessions {
        let mut broken = Vec::new();
        chain::check_all(writing, session, |one| broken.push(one))?;
        for Broken { number, .. } in broken.iter().filter(|one| one.is_damaged()) {
            let row = records::row_of(session, *number);
            writing.execute("DELETE FROM records WHERE id = ?1", [row])?;
        }
        let mut is_sound = records::summary_is_whole(writing, session)?;
        if !broken.is_empty() {
            let last = records::sequence(writing, session)?;
            chain::compacted(writing, session, last)?;
            // What is broken yet is where the summary ends.
            chain::check_all(writing, session, |_| is_sound = false)?;
        }
        if !is_sound {
            records::drop_summary(writing, session)?;
        }
    }
    writing.execute("DELETE FROM records WHERE (id >> 40) NOT IN (SELECT id FROM sessions)", [])?;
    let calls: Vec<(i64, String)> = writing
        .prepare("SELECT id, mark FROM calls")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (call, _) in calls.iter().filter(|(_, mark)| serde_json::from_str::<CallMark>(mark).is_err()) {
        writing.execute("DELETE FROM calls WHERE id = ?1", [call])?;
    }
    Ok(())
}

/// Puts a database in the place of another in one transaction, as others see it.
fn write_over(whole: &Connection, path: &Path) -> rusqlite::Result<()> {
    let mut there = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    there.pragma_update(None, "synchronous", "FULL")?;
    Backup::new(whole, &mut there)?.run_to_completion(c_int::MAX, Duration::from_millis(10), None)
}
