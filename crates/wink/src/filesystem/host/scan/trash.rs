//! The trash: what a scan took out of the workspace, which may be a command's or somebody else's. Nobody can tell, so it
//! is kept for a while.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::walk::is_too_deep;
use crate::filesystem::EntryKind;
use crate::filesystem::host::STATE;
use crate::filesystem::host::clear::{forced, remove_tree};
use crate::filesystem::host::disk::{Disk, Replace};
use crate::filesystem::host::host_disk::HostDisk;
use crate::filesystem::host::journal::{Recovered, Retention};
use crate::filesystem::host::report::Report;
use crate::filesystem::host::staged::make_dir;
use crate::support::lock::lock;
use crate::support::steps::reach;

/// The trash of a workspace.
pub(super) struct Trash {
    disk: Arc<HostDisk>,
    dir: PathBuf,
    /// Us.
    owner: OsString,
    retention: Retention,
    /// Directories of this process that something may still be taken from.
    used: Arc<Mutex<HashSet<OsString>>>,
    report: Arc<Report>,
}

/// What one command left in the workspace, under the same names. Goes when nothing is in it any more.
pub(in crate::filesystem::host) struct TrashDir {
    disk: Arc<HostDisk>,
    name: OsString,
    used: Arc<Mutex<HashSet<OsString>>>,
    /// Who is told that there is something in it in the end.
    report: Option<Arc<Report>>,
}

impl Trash {
    pub(super) fn new(
        disk: &Arc<HostDisk>,
        owner: &OsStr,
        retention: Retention,
        report: &Arc<Report>,
    ) -> io::Result<Self> {
        let dir = trash();
        make_dir(disk, &dir)?;
        let (disk, owner, report) = (Arc::clone(disk), owner.to_owned(), Arc::clone(report));
        Ok(Self { disk, dir, owner, retention, used: Arc::default(), report })
    }

    /// A place of its own, made durable; what is too old goes.
    pub(super) fn fresh(&self, now: i64) -> io::Result<Arc<TrashDir>> {
        if let Err(error) = self.prune(now) {
            tracing::warn!(%error, "old trash could not be removed");
        }
        let now = now.max(0);
        for number in 0_u64.. {
            let mut name = OsString::from(format!("scan-{now:015}-{number}-"));
            name.push(&self.owner);
            match self.disk.make_dir(&self.dir.join(&name), 0o700) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    made?;
                    self.disk.sync_dir(&self.dir)?;
                    return Ok(self.place(name, Some(Arc::clone(&self.report))));
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The place with this name, that a dead process had made. Whoever asks for it tells of it.
    pub(super) fn named(&self, name: OsString) -> Arc<TrashDir> {
        self.place(name, None)
    }

    fn place(&self, name: OsString, report: Option<Arc<Report>>) -> Arc<TrashDir> {
        lock(&self.used).insert(name.clone());
        Arc::new(TrashDir { disk: Arc::clone(&self.disk), name, used: Arc::clone(&self.used), report })
    }

    /// Removes what is old, unless a process that is alive may still take something from it.
    fn prune(&self, now: i64) -> io::Result<()> {
        let mut old: Vec<(i64, OsString)> = Vec::new();
        for (name, _) in self.disk.read_dir(&self.dir)? {
            let parts = name.to_str().map(|text| text.splitn(4, '-').collect::<Vec<_>>());
            let (time, owner) = match parts.as_deref() {
                Some(["scan", time, _, owner]) => (time.parse().ok(), Some(*owner)),
                // What the journal could not put back: number and time of the journal.
                Some([_, time, ..]) => (time.parse().ok(), None),
                _ => (None, None),
            };
            let is_used = lock(&self.used).contains(&name)
                || owner.is_some_and(|owner| self.owner != owner && self.is_alive(OsStr::new(owner)));
            if let (Some(time), false) = (time, is_used) {
                old.push((time, name));
            }
        }
        old.sort_unstable_by(|one, two| two.cmp(one));
        for (newer, (time, name)) in old.iter().enumerate() {
            let is_wanted = match self.retention {
                Retention::Last(count) => newer < count,
                Retention::For(age) => Duration::from_millis(now.saturating_sub(*time).max(0) as u64) <= age,
            };
            if !is_wanted {
                remove_tree(&*self.disk, &self.dir.join(name))?;
                reach("scan.trash-pruned");
            }
        }
        Ok(())
    }
}

impl Trash {
    fn is_alive(&self, owner: &OsStr) -> bool {
        let file = self.disk.open_file(&Path::new(STATE).join("owners").join(owner));
        file.is_ok_and(|file| file.try_lock().is_err())
    }
}

impl TrashDir {
    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    pub(super) fn path(&self) -> PathBuf {
        trash().join(&self.name)
    }

    /// Where that is which was at `path`.
    pub(super) fn at(&self, path: &Path) -> PathBuf {
        self.path().join(path)
    }

    /// Moves what is at `path` here, to the same name if that can be: then this is true. Where there is no space for the
    /// directories on the way, or the path would be too long, it is here under another name; and where there is no space for
    /// that either it is removed, since what was there before has to come back.
    pub(super) fn take(&self, path: &Path) -> io::Result<bool> {
        let place = self.at(path);
        let mut target = place.clone();
        for number in 1.. {
            let moved = self.make_parents(&target).and_then(|()| self.move_to(path, &target));
            match moved {
                Ok(()) => return Ok(true),
                // From an attempt before this one.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory
                    ) =>
                {
                    target = place.clone();
                    target.as_mut_os_string().push(format!("~{number}"));
                    if number > 1000 {
                        return Err(error);
                    }
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::StorageFull
                            | io::ErrorKind::QuotaExceeded
                            | io::ErrorKind::InvalidFilename
                    ) =>
                {
                    return self.take_anyhow(path).map(|()| false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Here, without a directory of its own: that mostly takes no space.
    fn take_anyhow(&self, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default();
        for number in 0_u32.. {
            let mut short = OsString::from(format!("~{number}~"));
            short.push(name);
            let short = if short.len() > 255 { OsString::from(format!("~{number}")) } else { short };
            match self.move_to(path, &self.path().join(short)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
                {
                    return remove_tree(&*self.disk, path);
                }
                moved => return moved,
            }
        }
        Ok(())
    }

    /// Keeps what the baseline has of `path`, which cannot come back. Says where.
    pub(super) fn set_aside(&self, copy: &Path, path: &Path) -> io::Result<PathBuf> {
        let mut place = self.at(path);
        for number in 1.. {
            match self.make_parents(&place).and_then(|()| self.move_to(copy, &place)) {
                Ok(()) => break,
                Err(error)
                    if number <= 1000
                        && matches!(
                            error.kind(),
                            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory
                        ) =>
                {
                    place = self.path().join(format!("before-{number}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(place)
    }

    fn move_to(&self, path: &Path, target: &Path) -> io::Result<()> {
        forced(&*self.disk, path, || self.disk.rename(path, target, Replace::Refused))
    }

    /// Keeps another name of `copy` as what was at `path`, unless an attempt before this one did.
    pub(super) fn keep(&self, copy: &Path, path: &Path) -> io::Result<()> {
        let place = self.at(path);
        self.make_parents(&place)?;
        match self.disk.link(copy, &place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    }

    /// Keeps a copy of what is at `path`. Not where there is no space for it.
    pub(super) fn keep_copy(&self, path: &Path) -> io::Result<bool> {
        let place = self.at(path);
        self.make_parents(&place)?;
        match self.disk.copy(path, &place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(true),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                Ok(false)
            }
            copied => copied.map(|()| true),
        }
    }

    fn make_parents(&self, target: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        for parent in target.ancestors().skip(1) {
            if self.disk.look(parent)?.is_some() {
                break;
            }
            missing.push(parent);
        }
        missing.into_iter().rev().try_for_each(|dir| make_dir(&self.disk, dir))
    }

    /// Removes what is not needed any more: directories with nothing in them, and links that are in the workspace by now.
    /// How many others there are; what is too deep to be looked into is one.
    pub(super) fn clear(&self) -> io::Result<usize> {
        let _lifting = self.disk.lifting_below(&self.path())?;
        let (mut left, mut dirs, mut next) = (0, vec![PathBuf::new()], 0);
        while let Some(below) = dirs.get(next).cloned() {
            next += 1;
            let dir = self.at(&below);
            for (name, kind) in self.disk.read_dir(&dir)? {
                let (path, at) = (below.join(&name), dir.join(&name));
                match kind {
                    EntryKind::Directory if !is_too_deep(&path) => dirs.push(path),
                    EntryKind::Symlink if self.is_there(&path, &at) => self.disk.unlink(&at)?,
                    _ => left += 1,
                }
            }
        }
        for dir in dirs.iter().rev() {
            match self.disk.remove_dir(&self.at(dir)) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                removed => removed?,
            }
        }
        Ok(left)
    }

    fn is_there(&self, path: &Path, at: &Path) -> bool {
        let target = self.disk.read_link(path);
        target.is_ok_and(|target| self.disk.read_link(at).is_ok_and(|ours| ours == target))
    }
}

impl Drop for TrashDir {
    fn drop(&mut self) {
        lock(&self.used).remove(&self.name);
        match self.clear() {
            Ok(0) => {}
            // What the command, or anybody else meanwhile, had changed: nobody can tell.
            Ok(_) => self.report.iter().for_each(|report| {
                report.add(Recovered { trash: vec![self.path()], ..Recovered::default() })
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, "the trash could not be tidied up"),
        }
    }
}

fn trash() -> PathBuf {
    Path::new(STATE).join("trash")
}
