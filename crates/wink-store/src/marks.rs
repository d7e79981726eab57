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
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::params;
use wink::filesystem::EntryKind;
use wink::filesystem::host::disk::{Disk, Replace};
use wink::filesystem::host::{HostDisk, Owners};
use wink::session::{InvocationId, SessionId};
use wink::store::{CallMark, JournalId, StoreError, StoreErrorKind};

use crate::records::{call_bytes, find_or_make};
use crate::schema::failed;
use crate::store::STORES;
use crate::tail::WriteTx;

/// What a line begins with, and what that becomes.
const LIVE: u8 = b'+';
const STRUCK: u8 = b'-';
/// From which size on a file is made smaller, if most of it is struck out.
const LARGE: u64 = 64 << 10;

/// The marks of this process.
pub(crate) struct Marks {
    disk: Arc<HostDisk>,
    dir: PathBuf,
    path: PathBuf,
    lines: Mutex<Lines>,
}

struct Lines {
    file: File,
    end: u64,
    /// Where the marks of calls are that have not ended, and how long.
    live: HashMap<InvocationId, (u64, usize)>,
    /// How long these are together.
    live_bytes: u64,
}

impl Marks {
    pub(crate) fn new(disk: Arc<HostDisk>, dir: PathBuf, owners: &Owners) -> io::Result<Self> {
        let path = dir.join(owners.me());
        let file = disk.open_or_create(&path, 0o600)?;
        let lines = Lines { file, end: 0, live: HashMap::new(), live_bytes: 0 };
        Ok(Self { disk, dir, path, lines: Mutex::new(lines) })
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
        lines.file.write_all_at(&line, at).map_err(failed)?;
        lines.end += line.len() as u64;
        lines.live_bytes += line.len() as u64;
        lines.live.insert(mark.invocation, (at, line.len()));
        Ok(())
    }

    /// The end of a call is in the database.
    pub(crate) fn ended(&self, call: InvocationId) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, len)) = lines.live.remove(&call) else { return };
        lines.live_bytes = lines.live_bytes.saturating_sub(len as u64);
        // One that is not struck out is compared with the database when this process is dead.
        let struck = lines.file.write_all_at(&[STRUCK], at);
        if struck.is_ok() && lines.end > LARGE && lines.end / 2 > lines.live_bytes {
            let cleared = if lines.live.is_empty() { lines.empty() } else { self.rewrite(&mut lines) };
            if let Err(error) = cleared {
                tracing::warn!(%error, "the marks of calls that have ended could not be removed");
            }
        }
    }

    /// The dead who left marks.
    pub(crate) fn dead(&self, owners: &Owners) -> io::Result<Vec<String>> {
        let mut dead = Vec::new();
        for (name, kind) in self.disk.read_dir(&self.dir)? {
            let Ok(name) = name.into_string() else { continue };
            // Nothing else was put there by a store.
            let is_ours = kind == EntryKind::File && name.parse::<JournalId>().is_ok();
            if is_ours && owners.is_dead(&name) {
                dead.push(name);
            }
        }
        Ok(dead)
    }

    /// Makes rows of the marks that a dead owner left. Whoever did this may die before the file is gone: it can be done again.
    pub(crate) fn bury(&self, conn: &WriteTx<'_>, owner: &str) -> Result<(), StoreError> {
        let text = match self.disk.read(&self.dir.join(owner)) {
            Ok(text) => text,
            // Another process was quicker.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(StoreError::failed("read the marks of calls", error.to_string())),
        };
        for line in live(&text) {
            match line {
                Ok((session, mark)) => {
                    keep(conn, owner, session, &mark).map_err(failed("keep the mark of a call"))?
                }
                // The machine may have stopped before it was on disk.
                Err(error) => tracing::warn!(%error, "the mark of a call cannot be read"),
            }
        }
        Ok(())
    }

    /// The marks of an owner are in the database, or there are none.
    pub(crate) fn forget(&self, owner: &str) {
        if let Err(error) = self.disk.unlink(&self.dir.join(owner))
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, "a file without marks could not be removed");
        }
    }

    /// A file with the marks of calls that have not ended takes the place of the one there is.
    fn rewrite(&self, lines: &mut Lines) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let file = self.disk.open_or_create(&new, 0o600)?;
        file.set_len(0)?;
        let mut moved: Vec<(InvocationId, (u64, usize))> =
            lines.live.iter().map(|(id, at)| (*id, *at)).collect();
        moved.sort_unstable_by_key(|(_, (at, _))| *at);
        let mut end = 0;
        for (_, (at, len)) in &mut moved {
            let mut line = vec![0; *len];
            lines.file.read_exact_at(&mut line, *at)?;
            file.write_all_at(&line, end)?;
            *at = end;
            end += *len as u64;
        }
        self.disk.rename(&new, &self.path, Replace::Allowed)?;
        *lines = Lines { file, end, live: moved.into_iter().collect(), live_bytes: end };
        Ok(())
    }
}

impl Lines {
    fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.end = 0;
        Ok(())
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        let lines = self.lines.get_mut().unwrap_or_else(PoisonError::into_inner);
        if lines.live.is_empty()
            && let Err(error) = self.disk.unlink(&self.path)
        {
            tracing::debug!(%error, "a file without marks could not be removed");
        }
    }
}

/// A call that is running, in any process, by the marks in this directory.
pub(crate) fn running(disk: &HostDisk, dir: &Path, owners: &Owners) -> io::Result<Option<CallMark>> {
    for (name, kind) in disk.read_dir(dir)? {
        let Ok(name) = name.into_string() else { continue };
        if kind != EntryKind::File || name.parse::<JournalId>().is_err() || owners.is_dead(&name) {
            continue;
        }
        let text = match disk.read(&dir.join(name)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if let Some((_, mark)) = live(&text).find_map(Result::ok) {
            return Ok(Some(mark));
        }
    }
    Ok(None)
}

/// An error while a call is running: a command of a call could else change what the call stands on.
pub(crate) fn refuse_in_a_call(database: &Path, doing: &'static str) -> Result<(), StoreError> {
    let dir = database.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = database.file_name().unwrap_or_default().to_string_lossy();
    let look = || {
        let disk = Arc::new(HostDisk::open(dir)?);
        running(&disk, Path::new(&format!("{name}-calls")), &Owners::seen(&disk, STORES))
    };
    match look() {
        Ok(None) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::failed(doing, error.to_string())),
        Ok(Some(CallMark { tool, time, .. })) => {
            let reason =
                format!("a call of '{tool}' is running here since {time}; try again when it is over");
            Err(StoreError { doing, reason, kind: StoreErrorKind::InUse })
        }
    }
}

/// The marks in a file that are not struck out, with the names of their sessions.
fn live(text: &[u8]) -> impl Iterator<Item = serde_json::Result<(String, CallMark)>> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.filter_map(|line| line.strip_prefix(&[LIVE])?.strip_suffix(b"\n")).map(serde_json::from_slice)
}

fn keep(conn: &WriteTx<'_>, owner: &str, session: String, mark: &CallMark) -> rusqlite::Result<()> {
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
    conn.tell(format!("call {invocation} was interrupted"), [0; 16]);
    let text =
        serde_json::to_string(mark).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    conn.prepare_cached("INSERT INTO calls (session, invocation, owner, mark) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![session, invocation, owner, text])?;
    Ok(())
}
