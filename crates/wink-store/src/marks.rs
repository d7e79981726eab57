//! Marks of calls in flight: a file for each process that has the store open, which only that process writes.
//!
//! A mark has to survive its process and not the machine, so nobody waits for the disk, and no transaction is needed: a
//! line is written when the call begins, and struck out when its end is committed. What is not struck out when the process
//! is dead becomes a row of the database, unless the database knows of the call's end.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, params};
use wink::filesystem::host::Owners;
use wink::session::{InvocationId, SessionId};
use wink::store::{CallMark, StoreError};

use crate::records::{call_bytes, find_or_make};
use crate::schema::failed;

/// What a line begins with, and what that becomes.
const LIVE: u8 = b'+';
const STRUCK: u8 = b'-';
/// From which size on a file without live marks is emptied.
const LARGE: u64 = 64 << 10;

/// The marks of this process.
pub(crate) struct Marks {
    dir: PathBuf,
    path: PathBuf,
    file: File,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    end: u64,
    /// Where the marks of calls are that have not ended.
    live: HashMap<InvocationId, u64>,
}

impl Marks {
    pub(crate) fn new(dir: PathBuf, owners: &Owners) -> io::Result<Self> {
        std::fs::create_dir_all(&dir)?;
        let path = dir.join(owners.me());
        let file = File::options().write(true).create_new(true).open(&path)?;
        Ok(Self { dir, path, file, lines: Mutex::default() })
    }

    /// A call begins.
    pub(crate) fn begin(&self, session: &SessionId, mark: &CallMark) -> Result<(), StoreError> {
        let failed = |error: io::Error| {
            let advice = match error.kind() {
                ErrorKind::StorageFull => ". There is no space left: make room and try again",
                _ => "",
            };
            StoreError::failed("begin", format!("{error}{advice}"))
        };
        let mut line = vec![LIVE];
        serde_json::to_writer(&mut line, &(session.as_str(), mark))
            .map_err(|error| StoreError::failed("begin", error.to_string()))?;
        line.push(b'\n');
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let at = lines.end;
        // A part of a line, without its end, is no mark; the next one is written over it.
        self.file.write_all_at(&line, at).map_err(failed)?;
        lines.end += line.len() as u64;
        lines.live.insert(mark.invocation, at);
        Ok(())
    }

    /// The end of a call is in the database.
    pub(crate) fn ended(&self, call: InvocationId) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = lines.live.remove(&call) else { return };
        // One that is not struck out is compared with the database when this process is dead.
        let struck = self.file.write_all_at(&[STRUCK], at);
        if struck.is_ok() && lines.live.is_empty() && lines.end > LARGE && self.file.set_len(0).is_ok() {
            lines.end = 0;
        }
    }

    /// The dead who left marks.
    pub(crate) fn dead(&self, owners: &Owners) -> io::Result<Vec<String>> {
        let mut dead = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if owners.is_dead(&name) {
                dead.push(name);
            }
        }
        Ok(dead)
    }

    /// Where an owner's marks are.
    pub(crate) fn of(&self, owner: &str) -> PathBuf {
        self.dir.join(owner)
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        let lines = self.lines.get_mut().unwrap_or_else(PoisonError::into_inner);
        if lines.live.is_empty() {
            forget(&self.path);
        }
    }
}

/// Makes rows of the marks that a dead owner left. Whoever did this may die before the file is gone: it can be done again.
pub(crate) fn bury(conn: &Connection, owner: &str, path: &Path) -> Result<(), StoreError> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        // Another process was quicker.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::failed("read the marks of calls", error.to_string())),
    };
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_prefix(&[LIVE]).and_then(|line| line.strip_suffix(b"\n")) else {
            continue;
        };
        match serde_json::from_slice(line) {
            Ok((session, mark)) => {
                keep(conn, owner, session, &mark).map_err(failed("keep the mark of a call"))?
            }
            // The machine may have stopped before it was on disk.
            Err(error) => tracing::warn!(%error, "the mark of a call cannot be read"),
        }
    }
    Ok(())
}

pub(crate) fn forget(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(%error, "a file without marks could not be removed");
    }
}

fn keep(conn: &Connection, owner: &str, session: String, mark: &CallMark) -> rusqlite::Result<()> {
    let invocation = mark.invocation.to_string();
    let known: bool = conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM records WHERE call = ?1) OR EXISTS (SELECT 1 FROM calls WHERE invocation = ?2)",
        )?
        .query_row(params![call_bytes(mark.invocation), invocation], |row| row.get(0))?;
    if known {
        return Ok(());
    }
    let session = find_or_make(conn, &SessionId::from(session))?;
    let text =
        serde_json::to_string(mark).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    conn.prepare_cached("INSERT INTO calls (session, invocation, owner, mark) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![session, invocation, owner, text])?;
    Ok(())
}
