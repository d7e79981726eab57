//! Marks of calls in flight: a file for each process that has the store open, which only that process writes.
//!
//! A mark has to survive its process and not the machine, so no call waits for the disk, and no transaction is needed: a
//! line is written when the call begins, and struck out when its end is committed. What is not struck out when the process
//! is dead becomes a row of the database, unless the database knows of the call's end.
//!
//! The first byte of a line is its state, and is the only one that is ever changed: a call that has a key is marked as
//! started before its handler is first polled. So a file that was cut short or damaged never says of a call that its handler
//! did not start. Neither does a copy of the file: each line has a checksum of its text and of the file's identity.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
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
/// The handler of the call may have run.
const STARTED: u8 = b'!';
const STRUCK: u8 = b'-';
/// Between the text of a line and its checksum.
const CHECKED: u8 = b'#';
/// Characters of a checksum.
const CHECK_LEN: usize = 16;
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
    identity: FileIdentity,
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
        let identity = FileIdentity::of(&file)?;
        let lines = Lines { file, identity, end: 0, live: HashMap::new(), live_bytes: 0 };
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
        let text = serde_json::to_vec(&(session.as_str(), mark))
            .map_err(|error| StoreError::failed("begin", error.to_string()))?;
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = Line { state: LIVE, text: &text, check: None }.written(lines.identity);
        let at = lines.end;
        // A part of a line, without its end, is no mark; the next one is written over it.
        lines.file.write_all_at(&line, at).map_err(failed)?;
        lines.end += line.len() as u64;
        lines.live_bytes += line.len() as u64;
        lines.live.insert(mark.invocation, (at, line.len()));
        Ok(())
    }

    /// The handler of a call starts.
    pub(crate) fn start(&self, call: InvocationId) -> Result<(), StoreError> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, _)) = lines.live.get(&call) else {
            return Err(StoreError::failed("start", format!("call {call} has not begun here")));
        };
        let failed = |error: io::Error| StoreError::failed("start", error.to_string());
        lines.file.write_all_at(&[STARTED], *at).map_err(failed)
    }

    /// Whether it is known of a call of a dead owner that its handler never started: the owner's file is there, is the one
    /// that the owner wrote, is undamaged, and has the call as begun.
    pub(crate) fn never_started(&self, owner: &str, call: InvocationId) -> bool {
        match self.read_never_started(owner, call) {
            Ok(never) => never,
            Err(error) => {
                tracing::warn!(%error, owner, "the marks of calls cannot be read; what was claimed is in doubt");
                false
            }
        }
    }

    fn read_never_started(&self, owner: &str, call: InvocationId) -> io::Result<bool> {
        // No other name is that of a file of marks.
        if owner.parse::<JournalId>().is_err() {
            return Ok(false);
        }
        let mut file = match self.disk.open_file(&self.dir.join(owner)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let (identity, mut text) = (FileIdentity::of(&file)?, Vec::new());
        file.read_to_end(&mut text)?;
        let mut begun = false;
        for line in Line::whole_in(&text) {
            let Some(mark) = line.and_then(|line| Some((line.state, line.checked(identity)?))) else {
                return Ok(false);
            };
            match mark {
                (LIVE, (_, mark)) if mark.invocation == call => begun = true,
                (_, (_, mark)) if mark.invocation == call => return Ok(false),
                _ => {}
            }
        }
        Ok(begun)
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
        let identity = FileIdentity::of(&file)?;
        let mut moved: Vec<(InvocationId, (u64, usize))> =
            lines.live.iter().map(|(id, at)| (*id, *at)).collect();
        moved.sort_unstable_by_key(|(_, (at, _))| *at);
        let mut end = 0;
        for (_, (at, len)) in &mut moved {
            let mut line = vec![0; *len];
            lines.file.read_exact_at(&mut line, *at)?;
            let old =
                Line::whole_in(&line).next().flatten().filter(|line| line.checked(lines.identity).is_some());
            let damaged = || io::Error::new(ErrorKind::InvalidData, "the mark of a call is damaged");
            let line = old.ok_or_else(damaged)?.written(identity);
            file.write_all_at(&line, end)?;
            *at = end;
            end += line.len() as u64;
        }
        self.disk.rename(&new, &self.path, Replace::Allowed)?;
        *lines = Lines { file, identity, end, live: moved.into_iter().collect(), live_bytes: end };
        Ok(())
    }
}

/// Which file it is: a copy of it is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileIdentity {
    dev: u64,
    ino: u64,
}

impl FileIdentity {
    fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self { dev: found.dev(), ino: found.ino() })
    }
}

/// A line of the file, without its end.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    state: u8,
    text: &'a [u8],
    /// Nothing in files that were written before lines had one.
    check: Option<&'a [u8]>,
}

impl<'a> Line<'a> {
    /// The lines that have an end; nothing in the place of one that was never written so. What follows the last end was cut
    /// off with its process, and is of a call that never began.
    fn whole_in(text: &'a [u8]) -> impl Iterator<Item = Option<Self>> {
        text.split_inclusive(|byte| *byte == b'\n')
            .filter_map(|line| line.strip_suffix(b"\n"))
            .map(Self::read)
    }

    fn read(line: &'a [u8]) -> Option<Self> {
        let (state, rest) = line.split_first()?;
        let (text, check) =
            match rest.len().checked_sub(CHECK_LEN + 1).and_then(|at| rest.split_at_checked(at)) {
                Some((text, [CHECKED, check @ ..])) => (text, Some(check)),
                Some(_) | None => (rest, None),
            };
        matches!(*state, LIVE | STARTED | STRUCK).then_some(Self { state: *state, text, check })
    }

    /// The session and the call.
    fn decode(&self) -> serde_json::Result<(String, CallMark)> {
        serde_json::from_slice(self.text)
    }

    /// The same, if the line is as it was written to this file.
    fn checked(&self, file: FileIdentity) -> Option<(String, CallMark)> {
        let intact = self.check == Some(self.checksum(file).as_bytes());
        intact.then(|| self.decode().ok()).flatten()
    }

    /// The line as this file has it.
    fn written(&self, file: FileIdentity) -> Vec<u8> {
        [&[self.state], self.text, &[CHECKED], self.checksum(file).as_bytes(), b"\n"].concat()
    }

    fn checksum(&self, FileIdentity { dev, ino }: FileIdentity) -> String {
        let mut hash = blake3::Hasher::new();
        hash.update(&dev.to_le_bytes()).update(&ino.to_le_bytes()).update(self.text);
        hash.finalize().to_hex().chars().take(CHECK_LEN).collect()
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
    Line::whole_in(text).flatten().filter(|line| line.state != STRUCK).map(|line| line.decode())
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
