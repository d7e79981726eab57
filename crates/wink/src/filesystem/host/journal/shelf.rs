//! Where journals are: one directory for each, whose name says all that must be known without opening it.
//!
//! `SEQUENCE-MILLISECONDS-ID`, followed by nothing while it is not settled, by `.kept` or `.stored` when it is an undo point,
//! the latter if a store knows that it was committed, and by `.gone` when it is only still to be removed. So one listing tells
//! the last number, what is unsettled and what is old.

use std::fmt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::super::disk::Disk;
use super::error::{Doing, JournalError};
use crate::store::JournalId;

/// One journal, by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) sequence: u64,
    pub(super) time: Timestamp,
    pub(super) id: JournalId,
    pub(super) state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Unsettled,
    Kept,
    /// Kept, and known to the store.
    Stored,
    Gone,
}

impl Name {
    pub(super) fn with(&self, state: State) -> Self {
        Self { state, ..self.clone() }
    }

    pub(super) fn is_kept(&self) -> bool {
        matches!(self.state, State::Kept | State::Stored)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '-');
        let sequence = parts.next()?.parse().ok()?;
        let time = Timestamp::from_millisecond(parts.next()?.parse().ok()?).ok()?;
        let rest = parts.next()?;
        let (id, state) = match rest.split_once('.') {
            None => (rest, State::Unsettled),
            Some((id, "kept")) => (id, State::Kept),
            Some((id, "stored")) => (id, State::Stored),
            Some((id, "gone")) => (id, State::Gone),
            Some(_) => return None,
        };
        Some(Self { sequence, time, id: id.parse().ok()?, state })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A clock before 1970 has a minus sign, which would be taken for a separator.
        let milliseconds = self.time.as_millisecond().max(0);
        write!(f, "{:020}-{milliseconds}-{}", self.sequence, self.id)?;
        f.write_str(match self.state {
            State::Unsettled => "",
            State::Kept => ".kept",
            State::Stored => ".stored",
            State::Gone => ".gone",
        })
    }
}

/// The parts of one journal.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
}

impl Place {
    pub(super) fn new(shelf: &Path, name: &Name) -> Self {
        Self { dir: shelf.join(name.to_string()) }
    }

    /// What is not in the tree any more, or has a second name here.
    pub(super) fn pre(&self) -> PathBuf {
        self.dir.join("pre")
    }

    /// What a step took.
    pub(super) fn taken(&self, slot: u32) -> PathBuf {
        self.dir.join(format!("pre/t{slot}"))
    }

    /// What a step replaced.
    pub(super) fn image(&self, number: u32) -> PathBuf {
        self.dir.join(format!("pre/r{number}"))
    }

    pub(super) fn intent(&self) -> PathBuf {
        self.dir.join("intent")
    }

    pub(super) fn unfinished_intent(&self) -> PathBuf {
        self.dir.join("intent.new")
    }
}

/// All journals, by sequence. What has another name is not ours, and is left alone.
pub(super) fn list(disk: &dyn Disk, shelf: &Path) -> Result<Vec<Name>, JournalError> {
    let entries = disk.read_dir(shelf).doing("list", shelf)?;
    let mut names: Vec<Name> = entries.iter().filter_map(|(name, _)| Name::parse(name.to_str()?)).collect();
    names.sort();
    Ok(names)
}

/// Makes directories that may be there, durably, each after the one that it is in.
///
/// Whoever made one may have died before it was durable, so one that is there is synced too; unless there is the mark, which is made
/// when all of them are. That takes three waits for the disk away from everybody who opens a workspace to make one call.
pub(super) fn ensure_dirs(disk: &dyn Disk, state_dir: &Path, dirs: &[&Path]) -> Result<(), JournalError> {
    let mark = state_dir.join("made");
    let is_marked = disk.look(&mark).doing("look for", &mark)?.is_some();
    for dir in dirs {
        if make_dir(disk, dir)? == Made::Now || !is_marked {
            let parent = dir.parent().unwrap_or(Path::new(""));
            disk.sync_dir(parent).doing("sync", parent)?;
        }
    }
    if !is_marked {
        // Need not be durable itself: without it there is more to do, and nothing to lose.
        make_dir(disk, &mark)?;
    }
    Ok(())
}

#[derive(PartialEq)]
enum Made {
    Now,
    Before,
}

fn make_dir(disk: &dyn Disk, path: &Path) -> Result<Made, JournalError> {
    match disk.make_dir(path, 0o755) {
        Ok(()) => Ok(Made::Now),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(Made::Before),
        Err(error) => Err(error).doing("make", path),
    }
}
