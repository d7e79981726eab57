//! Any disk, with operations that fail: one of them, or all from one on, as when the process dies there.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;

use crate::filesystem::EntryKind;
use crate::filesystem::host::disk::{Disk, Entry, Meta, Replace};

/// A [`Disk`] over another. Only what changes something or makes it durable is counted; once it has stopped, looking
/// fails as well.
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    fault: DiskFault,
    syncs: Syncs,
    done: AtomicUsize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syncs {
    PassedOn,
    Skipped,
}

/// What goes wrong, and after how many changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskFault {
    Never,
    /// The next one fails for want of space; those after it work.
    Once(usize),
    /// Nothing works any more.
    Stop(usize),
}

impl FaultyDisk {
    /// Counts and does nothing else.
    pub fn counting(inner: Arc<dyn Disk>) -> Self {
        Self::new(inner, DiskFault::Never)
    }

    /// After `changes` changes one fails for want of space.
    pub fn full_after(inner: Arc<dyn Disk>, changes: usize) -> Self {
        Self::new(inner, DiskFault::Once(changes))
    }

    /// After `changes` changes nothing works any more.
    pub fn stopping_after(inner: Arc<dyn Disk>, changes: usize) -> Self {
        Self::new(inner, DiskFault::Stop(changes))
    }

    /// Does not pass syncs on: for a real disk, that is slow at it, in a test where the power does not fail.
    pub fn without_syncs(self) -> Self {
        Self { syncs: Syncs::Skipped, ..self }
    }

    /// How many changes were asked for.
    pub fn changes(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    fn new(inner: Arc<dyn Disk>, fault: DiskFault) -> Self {
        Self { inner, fault, syncs: Syncs::PassedOn, done: AtomicUsize::new(0) }
    }

    fn sync(&self, sync: impl FnOnce(&dyn Disk) -> io::Result<()>) -> io::Result<()> {
        let disk = self.change()?;
        match self.syncs {
            Syncs::PassedOn => sync(disk),
            Syncs::Skipped => Ok(()),
        }
    }

    fn change(&self) -> io::Result<&dyn Disk> {
        let done = self.done.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            DiskFault::Once(after) if done == after => Err(Errno::NOSPC.into()),
            DiskFault::Stop(after) if done >= after => Err(Errno::IO.into()),
            _ => Ok(&*self.inner),
        }
    }

    fn glance(&self) -> io::Result<&dyn Disk> {
        match self.fault {
            DiskFault::Stop(after) if self.changes() > after => Err(Errno::IO.into()),
            _ => Ok(&*self.inner),
        }
    }
}

impl Disk for FaultyDisk {
    fn look(&self, path: &Path) -> io::Result<Option<Entry>> {
        self.glance()?.look(path)
    }

    fn read_dir(&self, dir: &Path) -> io::Result<Vec<(OsString, EntryKind)>> {
        self.glance()?.read_dir(dir)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.glance()?.read(path)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.glance()?.read_link(path)
    }

    fn create(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        self.change()?.create(path, content, mode)
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change()?.copy(from, to)
    }

    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.change()?.make_dir(path, mode)
    }

    fn make_link(&self, path: &Path, target: &Path) -> io::Result<()> {
        self.change()?.make_link(path, target)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change()?.link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
        self.change()?.rename(from, to, replace)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.change()?.unlink(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.change()?.remove_dir(path)
    }

    fn set_meta(&self, path: &Path, meta: Meta) -> io::Result<()> {
        self.change()?.set_meta(path, meta)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.sync(|disk| disk.sync_file(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.sync(|disk| disk.sync_dir(dir))
    }
}
