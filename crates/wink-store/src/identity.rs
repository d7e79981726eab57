//! Whether a database is the one that belongs where it is: it has an id, which is noted in a file beside it.
//!
//! A database that was removed, emptied or exchanged would else be taken for a new one, which knows no session, no effect that
//! happened and no change that was committed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};
use wink::store::{StoreError, StoreErrorKind};

use crate::declared::lossy;
use crate::loss::{self, Behind};
use crate::mark::{self, Found, Mark};
use crate::schema::failed;
use crate::tail;

/// What makes an id, with the table that it is in.
pub(crate) const TABLE: &str = "CREATE TABLE identity (id TEXT NOT NULL);
     INSERT INTO identity VALUES (lower(hex(randomblob(16))));";

/// The id that is noted beside a database, and its mark.
pub(crate) struct Noted {
    file: PathBuf,
    database: PathBuf,
    id: Option<String>,
    /// Read before the database is; none for a store that is not known yet.
    mark: Option<Found>,
}

impl Noted {
    pub(crate) fn beside(database: &Path) -> Result<Self, StoreError> {
        let mut name = OsString::from(database);
        name.push("-id");
        let file = PathBuf::from(name);
        let id = match std::fs::read_to_string(&file) {
            Ok(text) => Some(text.trim().to_owned()).filter(|id| !id.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(cannot(&file, &error)),
        };
        let mark = id.as_deref().map(|id| mark::read(database, id)).transpose()?;
        let noted = Self { file, database: database.to_owned(), id, mark };
        match noted.id {
            // It is not even made.
            Some(_) if !database.exists() => Err(noted.lost(database, "is not there")),
            _ => Ok(noted),
        }
    }

    /// The database must be the one that was noted.
    pub(crate) fn check(&self, conn: &Connection, database: &Path) -> Result<(), StoreError> {
        let Some(noted) = &self.id else { return Ok(()) };
        match of(conn).map_err(failed("open"))? {
            Some(id) if id == *noted => Ok(()),
            Some(_) => Err(self.lost(database, "is another one")),
            None => Err(self.lost(database, "was emptied, or lost its '-wal' file")),
        }
    }

    /// What the database has lost, if it is behind its mark.
    pub(crate) fn behind(&self, conn: &Connection) -> Result<Option<Behind>, StoreError> {
        let Some(mark) = &self.mark else { return Ok(None) };
        let tail = match has(conn, "tail").map_err(failed("open"))? {
            true => tail::of(conn).map_err(failed("open"))?,
            false => None,
        };
        Ok(loss::behind(mark, tail))
    }

    /// Notes the id of a database that has one, and opens its mark.
    pub(crate) fn note(self, conn: &Connection) -> Result<Mark, StoreError> {
        let Some(id) = of(conn).map_err(failed("open"))? else {
            return Err(StoreError::failed("open", "the database has no id"));
        };
        let tail = tail::of(conn).map_err(failed("open"))?.unwrap_or_default();
        if self.id.is_none() {
            // A mark that is there is of another database, which the operator has given up.
            match std::fs::remove_file(mark::file_of(&self.database)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(cannot(&self.file, &error));
                }
                _ => {}
            }
        }
        let mark = Mark::open(&self.database, id.clone(), &tail)
            .map_err(|error| cannot(&mark::file_of(&self.database), &error))?;
        if self.id.is_none() {
            write(&self.file, &id).map_err(|error| cannot(&self.file, &error))?;
        }
        Ok(mark)
    }

    fn lost(&self, database: &Path, what: &str) -> StoreError {
        let reason = format!(
            "the database {} {what}: {} tells which one belongs here. Nothing was changed. Bring it back, with the '-wal' file \
             if there was one; or remove {1} to begin with what is there, which does not know the sessions, the effects that \
             happened and the changes that were committed",
            database.display(),
            self.file.display(),
        );
        StoreError { doing: "open", reason, kind: StoreErrorKind::Incompatible }
    }
}

/// The id of a database; none, if its tables are older than that.
fn of(conn: &Connection) -> rusqlite::Result<Option<String>> {
    match has(conn, "identity")? {
        true => conn.query_row("SELECT id FROM identity", [], |row| row.get_ref(0).map(lossy)).optional(),
        false => Ok(None),
    }
}

/// Whether there is such a table.
fn has(conn: &Connection, table: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1)";
    conn.query_row(sql, [table], |row| row.get(0))
}

/// All of it is there, or nothing.
fn write(file: &Path, id: &str) -> io::Result<()> {
    let mut new = OsString::from(file);
    new.push("-new");
    let new = PathBuf::from(new);
    let mut writing = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writing.write_all(format!("{id}\n").as_bytes())?;
    writing.sync_all()?;
    std::fs::rename(&new, file)?;
    File::open(file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()
}

fn cannot(file: &Path, error: &io::Error) -> StoreError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreErrorKind::NoSpace,
        _ => StoreErrorKind::Failed,
    };
    StoreError { doing: "open", reason: format!("{}: {error}", file.display()), kind }
}
