//! What a command must leave alone, where it cannot be hidden: the state directory, in which everything is saved that the
//! command may spoil.
//!
//! Other processes write there while the command runs, so most contents prove nothing; but none of them removes or replaces what is
//! there. It is held open meanwhile: so what was only moved away is found, wherever it is, and put back. What only this process writes
//! is compared ([`super::written`]).

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags};

use super::super::STATE;
use super::super::disk::{Disk, Meta};
use super::super::host_disk::HostDisk;
use super::super::name::{listed, to_shown};
use super::written::Written;
use crate::filesystem::{FsError, FsResult};

/// Which directory the state directory is, and which files and directories are in it. A directory comes before what is in it.
#[derive(Default)]
pub(super) struct Guard {
    known: Vec<Known>,
    /// The files of it that nothing else writes.
    written: Written,
}

struct Known {
    path: PathBuf,
    identity: Identity,
    mode: u32,
    /// Held, it is not given its number again, and tells where it is.
    handle: OwnedFd,
}

/// Numbers of inodes are given again at once; the time of birth tells them apart, where there is one.
#[derive(PartialEq, Eq)]
struct Identity(fs::FileType, u64, u64, Option<SystemTime>);

/// What a command did to the state directory.
#[derive(Default)]
pub(super) struct Spoilt {
    /// What it had removed or replaced, and is back.
    moved: Vec<PathBuf>,
    /// What it had written to, and is as it was again.
    restored: Vec<PathBuf>,
    /// What it removed, replaced or wrote to, and is gone.
    lost: Vec<PathBuf>,
}

fn identity(path: &Path) -> io::Result<Identity> {
    let found = fs::symlink_metadata(path)?;
    Ok(Identity(found.file_type(), found.dev(), found.ino(), found.created().ok()))
}

/// Files that a database makes and removes while it works.
fn comes_and_goes(name: &OsStr) -> bool {
    [&b"-wal"[..], b"-shm", b"-journal"].iter().any(|ending| name.as_bytes().ends_with(ending))
}

impl Guard {
    /// Looks at what is in the state directory, and at the `copies` of everything, which are deeper in it.
    pub(super) fn look(disk: &HostDisk, root: &Path, copies: &Path) -> io::Result<Self> {
        let state = PathBuf::from(STATE);
        let mut paths = vec![state.clone()];
        for entry in fs::read_dir(root.join(&state))? {
            let name = entry?.file_name();
            if !comes_and_goes(&name) {
                paths.push(state.join(name));
            }
        }
        paths.push(copies.to_owned());
        let known: io::Result<_> = paths.into_iter().map(|path| Known::look(root, path)).collect();
        Ok(Self { known: known?, written: Written::look(disk)? })
    }

    /// Puts back what is not where it was, as far as it is to be found.
    pub(super) fn put_back(&self, disk: &HostDisk, root: &Path) -> Spoilt {
        let mut spoilt = Spoilt::default();
        for known in &self.known {
            if known.is_at(&root.join(&known.path)) {
                if known.has_other_rights(disk) {
                    spoilt.restored.push(known.path.clone());
                }
                continue;
            }
            let put_back = known.put_back(root);
            match put_back {
                Ok(()) => spoilt.moved.push(known.path.clone()),
                Err(error) => {
                    tracing::error!(%error, path = %known.path.display(), "a command removed it, or replaced it");
                    spoilt.lost.push(known.path.clone());
                }
            }
        }
        let (restored, lost) = self.written.restore(disk);
        // What is gone with the directory that it was in is told as that.
        let fresh = lost.into_iter().filter(|path| !spoilt.has_lost(path)).collect::<Vec<_>>();
        spoilt.lost.retain(|path| !restored.contains(path));
        spoilt.restored.extend(restored);
        // It was not there when the command began.
        spoilt.restored.extend(disk.forged_record());
        spoilt.lost.extend(fresh);
        spoilt
    }
}

impl Known {
    fn look(root: &Path, path: PathBuf) -> io::Result<Self> {
        let place = root.join(&path);
        let flags = Self::HOLDING | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&place, flags, Mode::empty())?;
        let mode = fs::symlink_metadata(&place)?.mode() & 0o7777;
        Ok(Self { path, identity: identity(&place)?, mode, handle })
    }

    /// It need not be readable to be held.
    #[cfg(target_os = "linux")]
    const HOLDING: OFlags = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    const HOLDING: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

    fn is_at(&self, place: &Path) -> bool {
        identity(place).is_ok_and(|found| found == self.identity)
    }

    /// Whether its mode is another one, which is put back. Another process may take rights of other users away from it.
    fn has_other_rights(&self, disk: &HostDisk) -> bool {
        let Ok(Some(found)) = disk.look(&self.path) else { return false };
        let mode = found.meta.mode;
        let is_other = mode & !self.mode != 0 || self.mode & 0o700 & !mode != 0;
        if is_other && let Err(error) = disk.set_meta(&self.path, Meta { mode: self.mode, ..found.meta }) {
            tracing::error!(%error, path = %self.path.display(), "a command changed its mode");
        }
        is_other
    }

    /// Where it is now. Where the system does not tell, nowhere.
    fn place(&self) -> io::Result<PathBuf> {
        let place = fs::read_link(format!("/proc/self/fd/{}", self.handle.as_raw_fd()))?;
        self.is_at(&place).then_some(place).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn put_back(&self, root: &Path) -> io::Result<()> {
        let target = root.join(&self.path);
        self.place()?;
        if fs::symlink_metadata(&target).is_ok() {
            // It becomes something that the command made, and is dealt with as such.
            fs::rename(&target, free_name(root)?)?;
        }
        // That may have been above it.
        fs::rename(self.place()?, target)
    }
}

/// A name in the workspace that nothing has.
fn free_name(root: &Path) -> io::Result<PathBuf> {
    const MOST: u32 = 10_000;
    let names = (0..MOST).map(|number| root.join(format!("{STATE}-replaced-{number}")));
    let mut free = names.filter(|name| fs::symlink_metadata(name).is_err());
    free.next().ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

impl Spoilt {
    /// Whether something at this path is gone.
    pub(super) fn has_lost(&self, path: &Path) -> bool {
        self.lost.iter().any(|lost| path.starts_with(lost))
    }

    /// What it did to the workspace is undone, and that counts for nothing if sessions are gone.
    pub(super) fn check_lost(&self) -> FsResult<()> {
        let Some(first) = self.lost.first() else { return Ok(()) };
        Err(self.not_undone(first, &[], "what it did to the workspace is undone"))
    }

    /// A command that reached for this is no success, also if nothing is lost.
    pub(super) fn check(&self) -> FsResult<()> {
        self.check_lost()?;
        let (first, message) = match (self.moved.first(), self.restored.first()) {
            (Some(first), _) => {
                (first, format!("{SPOILT}; it is back where it was, and what the command did is undone"))
            }
            (None, Some(first)) => {
                (first, format!("{WRITTEN}; it is as it was, and what the command did is undone"))
            }
            (None, None) => return Ok(()),
        };
        Err(FsError::Io { path: to_shown(first), kind: io::ErrorKind::InvalidData, message })
    }

    /// The workspace cannot be restored: what was saved of it is gone. What is not as it was is `left`.
    pub(super) fn unsaved(&self, left: &[PathBuf]) -> FsError {
        let first = self.lost.first().map_or(Path::new(STATE), PathBuf::as_path);
        let became = match left.is_empty() {
            true => "it did nothing else to the workspace".to_owned(),
            false => format!(
                "what was saved of the workspace is gone with it, so what the command did cannot be undone. Gone or not as \
                 before: {}; restore that from a copy of your own",
                listed(left)
            ),
        };
        self.not_undone(first, left, &became)
    }

    fn not_undone(&self, first: &Path, left: &[PathBuf], became: &str) -> FsError {
        let shown = to_shown(first);
        FsError::NotUndone {
            left: self.lost.iter().chain(left).map(|path| to_shown(path)).collect(),
            reason: format!(
                "'{shown}': {SPOILT}; {became}. Sessions and the undo of calls may be damaged: restore the directory from a \
                 copy, or open the workspace anew"
            ),
        }
    }
}

const WRITTEN: &str =
    "the command changed this, which only the runtime writes and is not part of the workspace";

const SPOILT: &str =
    "the command removed or replaced this, which is the runtime's own state and not part of the workspace";
