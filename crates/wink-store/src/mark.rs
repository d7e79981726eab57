//! The high-water mark: a small file beside the database that says how many commits the store has made.
//!
//! SQLite takes a damaged log for one that ends where the damage is, and silently drops the commits behind it. The mark is
//! written after each commit, without waiting for the disk; a database that is behind it has lost something. It may lag: a process can
//! die between a commit and its mark, and after a loss of power the mark may be older than the database. So a database that is ahead
//! of it is fine.
//!
//! The file is a ring of slots, one for each of the last commits, each with a checksum of its own. The highest is the mark, and the
//! others tell what the commits were that are missing.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use wink::store::StoreError;

use crate::tail::{DIGEST, Sum, Tail, sum_of};

/// How many commits are remembered.
const SLOTS: u64 = 64;
const SLOT: usize = 256;
const MAGIC: &[u8; 8] = b"winkmark";
/// Where the parts of a slot are.
const COMMITS: std::ops::Range<usize> = 8..16;
const ID: std::ops::Range<usize> = 16..48;
const HASH: std::ops::Range<usize> = 48..80;
const LEN: usize = 80;
const TEXT: std::ops::Range<usize> = 81..240;
const CHECK: std::ops::Range<usize> = 240..256;
/// How often it is looked whether another process is done with the file.
const TRIES: usize = 200;

/// What the mark said when the store was opened.
#[derive(Debug)]
pub(crate) enum Found {
    /// There is no such file.
    Missing,
    /// None of its slots can be read, or none is of this store.
    Unreadable,
    /// The last commits, oldest first; one at least.
    Commits(Vec<Marked>),
}

/// A commit as the mark has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) tail: Tail,
    /// What was committed, in words.
    pub(crate) what: String,
}

/// The file of a database's mark.
pub(crate) fn file_of(database: &Path) -> PathBuf {
    let mut name = OsString::from(database);
    name.push("-mark");
    name.into()
}

/// Reads the mark of the store of this id. It has to be read before the database is: commits are marked after they are made.
pub(crate) fn read(database: &Path, id: &str) -> Result<Found, StoreError> {
    let path = file_of(database);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(found_in(&bytes, id)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Missing),
        Err(error) => Err(StoreError::failed("open", format!("{}: {error}", path.display()))),
    }
}

fn found_in(bytes: &[u8], id: &str) -> Found {
    let mut commits: Vec<Marked> = bytes.chunks_exact(SLOT).filter_map(|slot| decode(slot, id)).collect();
    commits.sort_by_key(|marked| marked.tail.commits);
    if commits.is_empty() { Found::Unreadable } else { Found::Commits(commits) }
}

/// Writes the mark.
pub(crate) struct Mark {
    file: File,
    id: String,
}

impl Mark {
    /// Opens the file. One that is new is on disk, with all its slots, when this returns: later none takes any space. It takes its
    /// name last, so that a process that is killed here leaves no mark without a slot.
    pub(crate) fn open(database: &Path, id: String, tail: &Tail) -> io::Result<Self> {
        let path = file_of(database);
        let mut options = File::options();
        options.read(true).write(true);
        match options.open(&path) {
            Ok(file) if file.metadata()?.len() >= SLOTS * SLOT as u64 => return Ok(Self { file, id }),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            // One that is too short was noticed before.
            Ok(_) | Err(_) => {}
        }
        let mut new = path.clone().into_os_string();
        new.push("-new");
        let mark = Self { file: options.create(true).truncate(true).mode(0o600).open(&new)?, id };
        mark.file.write_all_at(&vec![0; SLOT * SLOTS as usize], 0)?;
        mark.put(tail, "the first mark")?;
        mark.file.sync_all()?;
        std::fs::rename(&new, &path)?;
        File::open(path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))?
            .sync_all()?;
        Ok(mark)
    }

    /// Marks a commit, after it was made. That it cannot be marked is no failure of the commit: the mark lags.
    pub(crate) fn write(&self, tail: &Tail, what: &str) {
        let turn = self.turn();
        let written = self.put(tail, what);
        if let Err(error) = written {
            tracing::warn!(%error, commit = tail.commits, "a commit could not be marked");
        }
        if turn {
            drop(self.file.unlock());
        }
    }

    /// A slot never goes back: another process may have been through the whole ring.
    fn put(&self, tail: &Tail, what: &str) -> io::Result<()> {
        let at = (tail.commits % SLOTS) * SLOT as u64;
        let mut there = [0; SLOT];
        match self.file.read_exact_at(&mut there, at) {
            Ok(()) if decode(&there, &self.id).is_some_and(|there| there.tail.commits > tail.commits) => {
                Ok(())
            }
            Ok(()) => self.file.write_all_at(&encode(&self.id, tail, what), at),
            Err(error) => Err(error),
        }
    }

    /// Takes the turn on the file among processes. It is held for two system calls; a process that was stopped in between does not
    /// keep others from their commits: without the turn the mark may lag by one.
    fn turn(&self) -> bool {
        for _ in 0..TRIES {
            match self.file.try_lock() {
                Ok(()) => return true,
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
                Err(TryLockError::Error(_)) => return false,
            }
        }
        false
    }
}

fn encode(id: &str, tail: &Tail, what: &str) -> Vec<u8> {
    let what = what.get(..what.floor_char_boundary(TEXT.len())).unwrap_or_default();
    let mut slot = Vec::with_capacity(SLOT);
    slot.extend(MAGIC);
    slot.extend(tail.commits.to_le_bytes());
    slot.extend(id.as_bytes());
    slot.resize(ID.end, 0);
    slot.extend(tail.digest);
    slot.push(u8::try_from(what.len()).unwrap_or_default());
    slot.extend(what.as_bytes());
    slot.resize(CHECK.start, 0);
    slot.extend(checksum(&slot));
    slot
}

fn decode(slot: &[u8], id: &str) -> Option<Marked> {
    let is_whole = slot.get(..MAGIC.len())? == MAGIC && slot.get(CHECK)? == checksum(slot).as_slice();
    if !is_whole || slot.get(ID)? != id.as_bytes() {
        return None;
    }
    let commits = u64::from_le_bytes(slot.get(COMMITS)?.try_into().ok()?);
    let digest: [u8; DIGEST] = slot.get(HASH)?.try_into().ok()?;
    let text = slot.get(TEXT)?.get(..usize::from(*slot.get(LEN)?))?;
    Some(Marked { tail: Tail { commits, digest }, what: String::from_utf8_lossy(text).into_owned() })
}

fn checksum(slot: &[u8]) -> Sum {
    sum_of(&[slot.get(..CHECK.start).unwrap_or_default()])
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        reason = "a test says what is broken by panicking"
    )]

    use super::*;

    const ID_OF_ONE: &str = "0123456789abcdef0123456789abcdef";

    fn tail(commits: u64) -> Tail {
        Tail { commits, digest: [commits as u8; DIGEST] }
    }

    fn highest(database: &Path) -> (u64, String) {
        match read(database, ID_OF_ONE).unwrap() {
            Found::Commits(commits) => {
                let last = commits.last().unwrap();
                (last.tail.commits, last.what.clone())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_highest_counts_in_whatever_order_commits_are_marked() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("wink.db");
        let open = || Mark::open(&database, ID_OF_ONE.to_owned(), &tail(0)).unwrap();
        let (one, other) = (open(), open());
        other.write(&tail(2), "two");
        one.write(&tail(1), "one");
        assert_eq!(highest(&database), (2, "two".to_owned()));
        // Through the whole ring, and then one that was slow.
        other.write(&tail(1 + SLOTS), "far");
        one.write(&tail(1), "late");
        assert_eq!(highest(&database), (1 + SLOTS, "far".to_owned()));
        one.write(&tail(2 + SLOTS), &"é".repeat(200));
        assert_eq!(highest(&database).1, "é".repeat(TEXT.len() / 2));
        assert!(matches!(read(&database, "another").unwrap(), Found::Unreadable));
    }

    #[test]
    fn a_damaged_slot_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("wink.db");
        let mark = Mark::open(&database, ID_OF_ONE.to_owned(), &tail(0)).unwrap();
        mark.write(&tail(1), "one");
        mark.write(&tail(2), "two");
        let whole = std::fs::read(file_of(&database)).unwrap();
        for at in 2 * SLOT..3 * SLOT {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let Found::Commits(commits) = found_in(&bytes, ID_OF_ONE) else { panic!("nothing is left") };
                assert_eq!(commits.last().unwrap().tail.commits, 1, "byte {at}");
            }
        }
        assert!(matches!(found_in(&[], ID_OF_ONE), Found::Unreadable));
    }
}
