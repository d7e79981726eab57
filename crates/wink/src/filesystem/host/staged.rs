//! Staged contents: what forks wrote, as files of their own, never changed once written and gone with the last fork
//! that knows them.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::STATE;
use super::clear::remove_tree;
use super::disk::{Disk, Entry, Meta, Replace};
use super::host_disk::{AtMost, HostDisk};
use super::journal::Pins;
use super::owner::Owner;
use super::scan::TrashDir;
use crate::filesystem::{EntryKind, FileVersion};
use crate::support::lock::lock;
use crate::support::steps::reach;

/// The lowest mark is noted with the owner, so that others leave the way back to it alone as long as this process lives.
impl Pins for Stage {
    fn publish(&self, lowest: Option<u64>) -> io::Result<()> {
        // Always as long, so that nobody reads half of one and half of another.
        self.owner.note(&lowest.map_or_else(String::new, |lowest| format!("{lowest:020}")))
    }

    fn of_others(&self) -> io::Result<Option<u64>> {
        Ok(self.owner.owners().notes()?.iter().filter_map(|note| note.parse().ok()).min())
    }
}

/// Where a process stages. Its directory goes with it, or, if it dies, when the workspace is next opened.
pub(super) struct Stage {
    disk: Arc<HostDisk>,
    dir: PathBuf,
    owner: Owner,
    next: AtomicU64,
}

impl Stage {
    /// Makes a place for this process, and clears those of dead ones.
    pub(super) fn open(disk: &Arc<HostDisk>) -> io::Result<Arc<Self>> {
        let stages = Path::new(STATE).join("stage");
        let layers = Path::new(STATE).join("layers");
        for dir in [&stages, &layers] {
            make_dir(disk, dir)?;
        }
        let owner = Owner::new(disk, Path::new(STATE).join("owners"))?;
        owner.owners().for_each_dead(|dead| {
            remove_tree(&**disk, &stages.join(dead))?;
            for (name, _) in disk.read_dir(&layers)? {
                let theirs = name.to_str().and_then(|name| name.rsplit_once('-'));
                if theirs.is_some_and(|(owner, _)| owner == dead) {
                    remove_tree(&**disk, &layers.join(&name))?;
                }
            }
            Ok(())
        })?;
        let dir = stages.join(owner.id());
        make_dir(disk, &dir)?;
        Ok(Arc::new(Self { disk: Arc::clone(disk), dir, owner, next: AtomicU64::new(0) }))
    }

    /// A path in it that was not used before.
    pub(super) fn fresh(&self) -> PathBuf {
        self.dir.join(self.number().to_string())
    }

    /// A directory for a command's layer, not made yet.
    #[cfg(target_os = "linux")]
    pub(super) fn fresh_layer(&self) -> PathBuf {
        Path::new(STATE).join("layers").join(format!("{}-{}", self.owner.id(), self.number()))
    }

    /// Stages contents.
    pub(super) fn write(self: &Arc<Self>, content: &[u8], mode: u32) -> io::Result<Arc<Staged>> {
        let path = self.fresh();
        self.disk.create(&path, content, mode)?;
        self.staged(path)
    }

    /// Stages contents that are to replace a file of the workspace: with its mode, group and attributes, and for its owner.
    pub(super) fn write_over(
        self: &Arc<Self>,
        content: &[u8],
        mode: u32,
        other: &Path,
    ) -> io::Result<Arc<Staged>> {
        let path = self.fresh();
        self.disk.create(&path, content, 0o600)?;
        let meant = match self.disk.take_after(other, &path, mode) {
            // It was removed meanwhile: that is found when this is merged.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.disk.set_mode_of(&path, mode),
            meant => meant,
        };
        meant.inspect_err(|_| drop(self.disk.unlink(&path)))?;
        self.staged(path)
    }

    /// Stages contents of a file that is new in a directory of the workspace, which gives it a group or an access control list.
    pub(super) fn write_given(self: &Arc<Self>, content: &[u8], dir: &Path) -> io::Result<Arc<Staged>> {
        let (like, path) = (self.fresh(), self.fresh());
        let inside = like.join("new");
        let made = self
            .disk
            .make_giving_like(dir, &like)
            .and_then(|()| self.disk.create_as_given(&inside, content))
            .and_then(|()| self.disk.rename(&inside, &path, Replace::Refused));
        remove_tree(&*self.disk, &like)?;
        made?;
        self.staged(path)
    }

    /// Makes a directory that is to come into another one, with what that gives it.
    pub(super) fn make_dir_given(&self, path: &Path, dir: &Path) -> io::Result<()> {
        let like = self.fresh();
        let inside = like.join("new");
        let made = self
            .disk
            .make_giving_like(dir, &like)
            .and_then(|()| self.disk.make_dir_as_given(&inside))
            .and_then(|()| self.disk.rename(&inside, path, Replace::Refused));
        remove_tree(&*self.disk, &like)?;
        made
    }

    /// Stages contents with a time of their own.
    pub(super) fn write_with(self: &Arc<Self>, content: &[u8], meta: Meta) -> io::Result<Arc<Staged>> {
        let path = self.fresh();
        self.disk.create(&path, content, meta.mode)?;
        self.disk.set_meta(&path, meta)?;
        self.staged(path)
    }

    /// Stages a copy of a file, with its mode and time.
    pub(super) fn copy(self: &Arc<Self>, from: &Path) -> io::Result<Arc<Staged>> {
        let path = self.fresh();
        self.disk.copy(from, &path)?;
        self.staged(path)
    }

    /// Stages another pipe or device like one that is there, unless that cannot be made.
    pub(super) fn copy_special(self: &Arc<Self>, from: &Path) -> io::Result<Option<Arc<Staged>>> {
        let path = self.fresh();
        match self.disk.copy_special(from, &path)? {
            true => self.staged(path).map(Some),
            false => Ok(None),
        }
    }

    /// Stages another name of a staged file.
    pub(super) fn another_name(self: &Arc<Self>, of: &Staged) -> io::Result<Arc<Staged>> {
        let path = self.fresh();
        of.with_place(|disk, file| disk.link(file, &path))?;
        self.staged(path)
    }

    /// Takes a file over that is somewhere else in the state directory.
    #[cfg(target_os = "linux")]
    pub(super) fn adopt(self: &Arc<Self>, from: &Path) -> io::Result<Arc<Staged>> {
        let path = self.fresh();
        self.disk.rename(from, &path, Replace::Refused)?;
        self.staged(path)
    }

    /// Takes a file for staged that is in the trash, where it stays unless it is merged.
    pub(super) fn from_trash(
        self: &Arc<Self>,
        path: PathBuf,
        trash: &Arc<TrashDir>,
    ) -> io::Result<Arc<Staged>> {
        self.known(path, Some(Arc::clone(trash)))
    }

    /// Who stages.
    pub(super) fn owner(&self) -> &OsStr {
        OsStr::new(self.owner.id())
    }

    fn staged(self: &Arc<Self>, path: PathBuf) -> io::Result<Arc<Staged>> {
        self.known(path, None)
    }

    fn known(self: &Arc<Self>, path: PathBuf, trash: Option<Arc<TrashDir>>) -> io::Result<Arc<Staged>> {
        reach("host.staged");
        let entry = self.disk.look(&path)?.ok_or(io::ErrorKind::NotFound)?;
        let version = entry.version();
        let place = Mutex::new(Place::Stage);
        Ok(Arc::new(Staged { stage: Arc::clone(self), path, place, entry, version, trash }))
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&*self.disk, &self.dir) {
            tracing::warn!(%error, "staged files could not be removed; the next to open the workspace will");
        }
    }
}

/// A file that a fork wrote; or a pipe or device that it brings back.
pub(super) struct Staged {
    stage: Arc<Stage>,
    path: PathBuf,
    place: Mutex<Place>,
    entry: Entry,
    version: FileVersion,
    /// Where it stays if it is not merged: it may be somebody else's.
    trash: Option<Arc<TrashDir>>,
}

/// Where a staged file is.
enum Place {
    /// Where it was staged.
    Stage,
    /// In the workspace: it was merged. Whoever still knows it finds it there as long as nobody changes it.
    Merged(PathBuf, FileVersion),
}

impl Staged {
    /// What was staged.
    pub(super) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The version that forks show.
    pub(super) fn version(&self) -> FileVersion {
        self.version
    }

    /// Where it was staged.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads its contents, unless they are too large.
    pub(super) fn read<T>(&self, max: usize, read: impl FnOnce(AtMost) -> io::Result<T>) -> io::Result<T> {
        self.with_place(|disk, path| read(disk.open_at_most(path, max)?))
    }

    /// Copies it to where nothing is, with its mode and time.
    pub(super) fn copy_to(&self, to: &Path) -> io::Result<()> {
        let copied = self.with_place(|disk, path| match self.entry.kind {
            EntryKind::Other => match disk.copy_special(path, to)? {
                true => Ok(()),
                false => Err(io::ErrorKind::Unsupported.into()),
            },
            _ => disk.copy(path, to),
        });
        copied.and_then(|()| self.stage.disk.set_meta(to, self.entry.meta))
    }

    /// Does something with where it is now. What was merged may be changed there, and is then no longer this.
    fn with_place<T>(&self, act: impl FnOnce(&HostDisk, &Path) -> io::Result<T>) -> io::Result<T> {
        let merged = match &*lock(&self.place) {
            Place::Stage => None,
            Place::Merged(path, version) => Some((path.clone(), *version)),
        };
        let disk = &self.stage.disk;
        let Some((path, version)) = merged else { return act(disk, &self.path) };
        let is_same =
            || disk.look(&path).is_ok_and(|entry| entry.is_some_and(|entry| entry.version() == version));
        if is_same() {
            let done = act(disk, &path)?;
            if is_same() {
                return Ok(done);
            }
        }
        Err(io::Error::other("it was merged into the workspace and changed there since"))
    }

    /// One that can be moved into the workspace: itself, or a copy if that has happened before.
    pub(super) fn ready(self: &Arc<Self>) -> io::Result<Arc<Self>> {
        if matches!(*lock(&self.place), Place::Stage) {
            return Ok(Arc::clone(self));
        }
        let path = self.stage.fresh();
        self.copy_to(&path)?;
        self.stage.staged(path)
    }

    /// Says that it was moved into the workspace.
    pub(super) fn merged(&self, path: &Path, version: FileVersion) {
        *lock(&self.place) = Place::Merged(path.to_owned(), version);
    }

    /// The merge is about to be taken back, which removes the file from the workspace: it gets its staged name again.
    pub(super) fn unmerge(&self) {
        let mut place = lock(&self.place);
        let Place::Merged(path, version) = &*place else { return };
        let disk = &self.stage.disk;
        // All but when the inode changed: another name of it may have come back just now.
        let contents = |version: &FileVersion| version.parts().split_last().map(|(_, rest)| rest.to_vec());
        let is_same = disk
            .look(path)
            .is_ok_and(|found| found.is_some_and(|entry| contents(&entry.version()) == contents(version)));
        if is_same && disk.link(path, &self.path).is_ok() {
            *place = Place::Stage;
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.trash.is_none()
            && matches!(*lock(&self.place), Place::Stage)
            && let Err(error) = self.stage.disk.unlink(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "a staged file could not be removed");
        }
    }
}

/// Makes a directory of the state, unless it is there.
pub(super) fn make_dir(disk: &HostDisk, path: &Path) -> io::Result<()> {
    match disk.make_dir(path, 0o755) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}
