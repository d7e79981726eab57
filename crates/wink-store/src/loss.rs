//! Commits that a store has lost: notices them, keeps a copy for the operator, and takes the operator's acknowledgement.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, params};
use wink::store::{JournalId, StoreError, StoreErrorKind, StoreLoss};

use crate::declared::lossy;
use crate::ledger::moment;
use crate::mark::{Found, Marked};
use crate::schema::failed;
use crate::tail::{self, Tail, WriteTx, sum_of};

/// What makes the table of losses.
pub(crate) const TABLE: &str = "CREATE TABLE losses (
         id INTEGER PRIMARY KEY,
         at INTEGER NOT NULL,
         first INTEGER NOT NULL,
         last INTEGER,
         what TEXT NOT NULL,
         acknowledged INTEGER
     );";

/// What a database has lost, if it is behind its mark.
pub(crate) struct Behind {
    /// The count that goes on from here: no number is used twice.
    pub(crate) tail: Tail,
    first: u64,
    last: Option<u64>,
    what: String,
}

/// Compares a database with its mark, which was read before.
pub(crate) fn behind(found: &Found, tail: Option<Tail>) -> Option<Behind> {
    let here = tail.unwrap_or_default();
    let next = here.commits.saturating_add(1);
    let marked = match found {
        // The first store that counts commits makes the mark.
        Found::Missing if here.commits == 0 => return None,
        Found::Missing => {
            let what =
                "the mark 'wink.db-mark' is not there, so it cannot be known whether commits are missing";
            return Some(Behind { tail: here, first: next, last: None, what: what.to_owned() });
        }
        Found::Unreadable => {
            let what =
                "the mark 'wink.db-mark' cannot be read, so it cannot be known whether commits are missing";
            return Some(Behind { tail: here, first: next, last: None, what: what.to_owned() });
        }
        Found::Commits(marked) => marked,
    };
    let Marked { tail: mark, what: last } = marked.last()?;
    let first = if mark.commits == here.commits && mark.digest != here.digest { here.commits } else { next };
    if mark.commits < first {
        return None;
    }
    let told = match marked.iter().find(|marked| marked.tail.commits == first) {
        Some(marked) => format!("commit {first} is missing: {}", marked.what),
        None => format!("commit {first} is missing; what it was is not known. The last was: {last}"),
    };
    let what = match mark.commits - first {
        0 => told,
        more => format!("{told}; and {more} after it, up to commit {}", mark.commits),
    };
    Some(Behind { tail: *mark, first, last: Some(mark.commits), what })
}

impl Behind {
    /// Copies the database and its log aside: the commits behind the damage are still in the log.
    pub(crate) fn keep_copy(&self, database: &Path) -> Result<(), StoreError> {
        let name = database.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let dir = database.with_file_name(format!("{name}-lost-{}", self.first));
        copy_into(database, &dir).map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreErrorKind::NoSpace,
                _ => StoreErrorKind::Failed,
            };
            let reason = format!(
                "{}. A copy of what is left could not be kept in {}: {error}. Nothing was changed; make room and try again",
                self.what,
                dir.display()
            );
            StoreError { doing: "open", reason, kind }
        })
    }

    /// Notes the loss in the database, to be acknowledged.
    pub(crate) fn note(&self, writing: &WriteTx<'_>, now: Timestamp) -> rusqlite::Result<()> {
        tail::set(writing, &self.tail)?;
        note(writing, now, self.first, self.last, &self.what)
    }
}

/// Notes that something is lost, unless the same is noted and not acknowledged.
pub(crate) fn note(
    writing: &WriteTx<'_>,
    now: Timestamp,
    first: u64,
    last: Option<u64>,
    what: &str,
) -> rusqlite::Result<()> {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    writing.tell(format!("a loss is noted: {what}"), sum_of(&[what.as_bytes()]));
    writing
        .prepare_cached(
            "INSERT INTO losses (at, first, last, what) SELECT ?1, ?2, ?3, ?4
             WHERE NOT EXISTS (SELECT 1 FROM losses WHERE what = ?4 AND acknowledged IS NULL)",
        )?
        .execute(params![moment(now), number(first), last.map(number), what])
        .map(drop)
}

/// The losses that are not acknowledged, oldest first.
pub(crate) fn open(conn: &Connection) -> rusqlite::Result<Vec<StoreLoss>> {
    let number = |number: i64| u64::try_from(number).unwrap_or_default();
    conn.prepare_cached("SELECT at, first, last, what FROM losses WHERE acknowledged IS NULL ORDER BY id")?
        .query_map([], |row| {
            let (at, first, last): (i64, i64, Option<i64>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(StoreLoss {
                first: number(first),
                last: last.map(number),
                what: lossy(row.get_ref(3)?),
                noticed: Timestamp::from_nanosecond(at.into()).unwrap_or(Timestamp::UNIX_EPOCH),
            })
        })?
        .collect()
}

/// Acknowledges every loss. Returns them.
pub(crate) fn acknowledge(writing: &WriteTx<'_>, now: Timestamp) -> Result<Vec<StoreLoss>, StoreError> {
    let failed = failed("acknowledge a loss");
    let losses = open(writing).map_err(&failed)?;
    if !losses.is_empty() {
        writing.tell("losses are acknowledged", [0; 16]);
        writing
            .execute("UPDATE losses SET acknowledged = ?1 WHERE acknowledged IS NULL", [moment(now)])
            .map_err(failed)?;
    }
    Ok(losses)
}

/// Makes a journal known that was committed to a store which knew more. It belongs to no session.
pub(crate) fn take_over_journal(
    writing: &WriteTx<'_>,
    id: JournalId,
    now: Timestamp,
) -> Result<Option<StoreLoss>, StoreError> {
    let take_over = || -> rusqlite::Result<_> {
        let taken = writing.execute(
            "INSERT INTO journals (id, session, invocation, sequence, at) VALUES (?1, 0, NULL, 0, ?2)
             ON CONFLICT (id) DO NOTHING",
            params![id.to_string(), moment(now)],
        )?;
        if taken == 0 {
            return Ok(None);
        }
        let what = format!("change {id} was committed, and the database does not know it");
        writing.tell(what.clone(), [0; 16]);
        let commits = tail::of(writing)?.unwrap_or_default().commits;
        Ok(Some(StoreLoss { first: commits.saturating_add(1), last: None, what, noticed: now }))
    };
    take_over().map_err(failed("acknowledge a loss"))
}

/// Copies a database and what belongs to it into a directory, unless a whole copy is there. The copy is on disk when this returns.
pub(crate) fn copy_into(database: &Path, dir: &Path) -> io::Result<()> {
    if dir.exists() {
        return Ok(());
    }
    let mut new = dir.as_os_str().to_owned();
    new.push("-new");
    let new = PathBuf::from(new);
    match std::fs::remove_dir_all(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::create_dir(&new)?;
    let name = database.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for ending in ["", "-wal", "-id", "-mark"] {
        let name = format!("{name}{ending}");
        match std::fs::copy(database.with_file_name(&name), new.join(&name)) {
            Ok(_) => File::open(new.join(&name))?.sync_all()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    File::open(&new)?.sync_all()?;
    std::fs::rename(&new, dir)?;
    File::open(dir.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()
}
