//! A disk in memory that forgets what was not synced.
//!
//! It has two sides: what programs see, and what would be there after the power fails ([`ModelDisk::crash`]). Contents and
//! mode of a file become durable when it is synced, entries of a directory when that is. What is not synced may be
//! durable all the same or not, each entry and each file for itself, in any order. Some things a disk does not do: a
//! rename never loses a file (its new name is durable before the loss of the old one is), a directory never has two names,
//! and it is not removed before what was moved out of it is durably elsewhere.

mod entries;
mod inodes;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::io::Errno;

use crate::filesystem::host::disk::{Disk, Entry, Meta, Replace};
use crate::filesystem::{EntryKind, STATE};
use crate::support::lock::lock;
use crate::testing::Dice;
use entries::Entries;
use inodes::{Content, Inodes};

/// A [`Disk`] in memory. See the module.
#[derive(Debug)]
pub struct ModelDisk {
    state: Mutex<State>,
}

#[derive(Debug, Clone)]
struct State {
    inodes: Inodes,
    entries: Entries,
    /// The time, which moves with every change.
    now: i128,
    syncs: Syncs,
}

/// Whether a disk syncs what it is told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syncs {
    /// It does.
    Work,
    /// It says that it does, and never does.
    DoNothing,
    /// It says that it does, and leaves out one kind.
    LeaveOut(SyncOf),
}

/// What is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncOf {
    /// Data and mode of a file of the workspace, or of one that is staged.
    Files,
    /// Data of the journal's own files.
    JournalFiles,
    /// Entries of a directory of the workspace.
    Dirs,
    /// Entries of the journal's own directories.
    JournalDirs,
}

impl SyncOf {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Files, Self::JournalFiles, Self::Dirs, Self::JournalDirs];

    fn at(path: &Path, kind: EntryKind) -> Self {
        match (kind == EntryKind::Directory, path.starts_with(Path::new(STATE).join("journal"))) {
            (false, false) => Self::Files,
            (false, true) => Self::JournalFiles,
            (true, false) => Self::Dirs,
            (true, true) => Self::JournalDirs,
        }
    }
}

impl Syncs {
    fn work_for(self, what: SyncOf) -> bool {
        match self {
            Self::Work => true,
            Self::DoNothing => false,
            Self::LeaveOut(left_out) => what != left_out,
        }
    }
}

const ROOT: u64 = 1;

impl Default for ModelDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for ModelDisk {
    /// Another disk in the same state, with what is durable of it and what is not.
    fn clone(&self) -> Self {
        Self { state: Mutex::new(lock(&self.state).clone()) }
    }
}

impl ModelDisk {
    /// An empty one.
    pub fn new() -> Self {
        let mut inodes = Inodes::default();
        inodes.add(Content::Directory, Meta { mode: 0o755, modified: 0, owner: None }, 0);
        inodes.sync(ROOT);
        let state = State { inodes, entries: Entries::default(), now: 0, syncs: Syncs::Work };
        Self { state: Mutex::new(state) }
    }

    /// The disk as it may be after the power failed now: every seed is another way in which that may go. Programs that
    /// still use this one notice nothing.
    pub fn crash(&self, seed: u64) -> Self {
        let mut state = lock(&self.state).clone();
        let mut chance = Dice::new(seed);
        state.entries.crash(&mut chance);
        state.inodes.crash(&mut chance);
        Self { state: Mutex::new(state) }
    }

    /// Makes everything durable.
    pub fn sync_all(&self) {
        let mut state = lock(&self.state);
        state.entries.sync_all();
        state.inodes.sync_all();
    }

    /// A disk that may be broken: syncing succeeds and does nothing, or not for everything. A test of what is said to be
    /// durable must fail on it.
    #[doc(hidden)]
    pub fn with_syncs(self, syncs: Syncs) -> Self {
        lock(&self.state).syncs = syncs;
        self
    }
}

impl State {
    /// The inode of a directory.
    fn dir(&self, path: &Path) -> io::Result<u64> {
        let mut dir = ROOT;
        for part in path.components() {
            let inode = self.entries.get(dir, part.as_os_str()).ok_or(Errno::NOENT)?;
            dir = match self.inodes.get(inode)?.kind() {
                EntryKind::Directory => inode,
                EntryKind::Symlink => return Err(Errno::LOOP.into()),
                _ => return Err(Errno::NOTDIR.into()),
            };
        }
        Ok(dir)
    }

    /// The directory that an entry is in, and its name there.
    fn place(&self, path: &Path) -> io::Result<(u64, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.dir(path.parent().unwrap_or(Path::new("")))?, name.to_owned()))
    }

    fn free_place(&self, path: &Path) -> io::Result<(u64, OsString)> {
        let (dir, name) = self.place(path)?;
        match self.entries.get(dir, &name) {
            Some(_) => Err(Errno::EXIST.into()),
            None => Ok((dir, name)),
        }
    }

    fn inode(&self, path: &Path) -> io::Result<u64> {
        if path == Path::new("") {
            return Ok(ROOT);
        }
        let (dir, name) = self.place(path)?;
        Ok(self.entries.get(dir, &name).ok_or(Errno::NOENT)?)
    }

    fn look(&self, inode: u64) -> io::Result<Entry> {
        let found = self.inodes.get(inode)?;
        Ok(Entry {
            kind: found.kind(),
            dev: 1,
            ino: inode,
            links: self.entries.names_of(inode),
            len: found.len(),
            meta: found.meta(),
            changed: found.changed,
        })
    }

    fn tick(&mut self) -> i128 {
        self.now += 1_000;
        self.now
    }

    /// Entries of a directory have changed.
    fn touch(&mut self, dir: u64) -> io::Result<()> {
        let now = self.tick();
        let mode = self.inodes.get(dir)?.meta().mode;
        self.inodes.set_meta(dir, Meta { mode, modified: now, owner: None }, now)
    }

    fn add(&mut self, path: &Path, content: Content, meta: Option<Meta>, mode: u32) -> io::Result<()> {
        let (dir, name) = self.free_place(path)?;
        let now = self.tick();
        let inode = self.inodes.add(content, meta.unwrap_or(Meta { mode, modified: now, owner: None }), now);
        self.entries.set(dir, &name, Some(inode));
        self.touch(dir)
    }

    fn rename(&mut self, from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
        let (from_dir, from_name) = self.place(from)?;
        let moved = self.entries.get(from_dir, &from_name).ok_or(Errno::NOENT)?;
        let (to_dir, to_name) = self.place(to)?;
        let is_dir = self.inodes.get(moved)?.kind() == EntryKind::Directory;
        if is_dir && to.starts_with(from) && to != from {
            return Err(Errno::INVAL.into());
        }
        if let Some(there) = self.entries.get(to_dir, &to_name) {
            let there_is_dir = self.inodes.get(there)?.kind() == EntryKind::Directory;
            match replace {
                Replace::Refused => return Err(Errno::EXIST.into()),
                Replace::Allowed if there == moved => return Ok(()),
                Replace::Allowed if there_is_dir && !is_dir => return Err(Errno::ISDIR.into()),
                Replace::Allowed if is_dir && !there_is_dir => return Err(Errno::NOTDIR.into()),
                Replace::Allowed if there_is_dir && !self.entries.is_empty(there) => {
                    return Err(Errno::NOTEMPTY.into());
                }
                Replace::Allowed => {}
            }
        }
        self.entries.rename((from_dir, &from_name), (to_dir, &to_name), moved, is_dir);
        self.touch(from_dir)?;
        self.touch(to_dir)?;
        let now = self.tick();
        self.inodes.change(moved, now)
    }

    fn remove(&mut self, path: &Path, directory: bool) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        let inode = self.entries.get(dir, &name).ok_or(Errno::NOENT)?;
        match (self.inodes.get(inode)?.kind() == EntryKind::Directory, directory) {
            (true, false) => return Err(Errno::ISDIR.into()),
            (false, true) => return Err(Errno::NOTDIR.into()),
            (true, true) if !self.entries.is_empty(inode) => return Err(Errno::NOTEMPTY.into()),
            _ => {}
        }
        if directory {
            self.entries.remove_dir(dir, &name, inode);
        } else {
            self.entries.set(dir, &name, None);
        }
        self.touch(dir)
    }
}

impl Disk for ModelDisk {
    fn look(&self, path: &Path) -> io::Result<Option<Entry>> {
        let state = lock(&self.state);
        match state.inode(path) {
            Ok(inode) => state.look(inode).map(Some),
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NOTDIR)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn read_dir(&self, dir: &Path) -> io::Result<Vec<(OsString, EntryKind)>> {
        let state = lock(&self.state);
        let dir = state.dir(dir)?;
        let entries = state.entries.of(dir);
        entries.into_iter().map(|(name, inode)| Ok((name, state.inodes.get(inode)?.kind()))).collect()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = lock(&self.state);
        state.inodes.get(state.inode(path)?)?.read()
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let state = lock(&self.state);
        match state.inodes.get(state.inode(path)?)?.content() {
            Content::Link(target) => Ok(target.clone()),
            _ => Err(Errno::INVAL.into()),
        }
    }

    fn create(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        lock(&self.state).add(path, Content::File(content.to_vec()), None, mode)
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let source = state.inodes.get(state.inode(from)?)?;
        let (content, meta) = (source.content().clone(), source.meta());
        match content {
            Content::Directory => Err(Errno::ISDIR.into()),
            content => state.add(to, content, Some(meta), meta.mode),
        }
    }

    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        lock(&self.state).add(path, Content::Directory, None, mode)
    }

    fn make_link(&self, path: &Path, target: &Path) -> io::Result<()> {
        lock(&self.state).add(path, Content::Link(target.to_owned()), None, 0o777)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let inode = state.inode(from)?;
        if state.inodes.get(inode)?.kind() == EntryKind::Directory {
            return Err(Errno::PERM.into());
        }
        let (dir, name) = state.free_place(to)?;
        state.entries.set(dir, &name, Some(inode));
        let now = state.tick();
        state.inodes.change(inode, now)?;
        state.touch(dir)
    }

    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
        lock(&self.state).rename(from, to, replace)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        lock(&self.state).remove(path, false)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        lock(&self.state).remove(path, true)
    }

    fn set_meta(&self, path: &Path, meta: Meta) -> io::Result<()> {
        let mut state = lock(&self.state);
        let inode = state.inode(path)?;
        let now = state.tick();
        state.inodes.set_meta(inode, meta, now)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let inode = state.inode(path)?;
        if state.inodes.get(inode)?.kind() != EntryKind::File {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if state.syncs.work_for(SyncOf::at(path, EntryKind::File)) {
            state.inodes.sync(inode);
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let inode = state.dir(dir)?;
        if state.syncs.work_for(SyncOf::at(dir, EntryKind::Directory)) {
            state.entries.sync(inode);
            state.inodes.sync(inode);
        }
        Ok(())
    }
}
