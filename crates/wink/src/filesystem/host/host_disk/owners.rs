//! Who owns what: only the superuser may give files away.

use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, Gid, Mode, RawMode, Uid, accessat, chownat, fchmod, fchown, statat};
use rustix::io::Errno;

use super::HostDisk;
use crate::filesystem::host::disk::{Entry, OwnedBy};

impl HostDisk {
    /// Gives a file of ours to whoever owns another one, which is about to be replaced by it. Only root can; for others
    /// the file stays their own. The mode is set anew, since some of its bits go with a change of owner.
    pub fn give_to_owner_of(&self, other: &Path, ours: &Path, mode: u32) -> io::Result<()> {
        let look = |path| {
            let (dir, name) = self.parent(path)?;
            io::Result::Ok(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?)
        };
        let (theirs, mine) = (look(other)?, look(ours)?);
        if (theirs.st_uid, theirs.st_gid) == (mine.st_uid, mine.st_gid) {
            return Ok(());
        }
        // What its own owner may not open, they may not give away either.
        let Ok(file) = self.open_file(ours) else { return Ok(()) };
        match fchown(&file, Some(Uid::from_raw(theirs.st_uid)), Some(Gid::from_raw(theirs.st_gid))) {
            Ok(()) => Ok(fchmod(&file, Mode::from_raw_mode(mode as RawMode))?),
            Err(Errno::PERM) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives an entry of ours, of any kind, to whoever owns another one. Only root can; for others it stays their own.
    pub(in super::super) fn own_like(&self, other: &Path, ours: &Path) -> io::Result<()> {
        self.opened(&[other, ours], || self.own_like_now(other, ours))
    }

    fn own_like_now(&self, other: &Path, ours: &Path) -> io::Result<()> {
        let (dir, name) = self.parent(other)?;
        let theirs = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let (dir, name) = self.parent(ours)?;
        let mine = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (theirs.st_uid, theirs.st_gid) == (mine.st_uid, mine.st_gid) {
            return Ok(());
        }
        let owner = (Some(Uid::from_raw(theirs.st_uid)), Some(Gid::from_raw(theirs.st_gid)));
        may_fail(chownat(dir, name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)).map(drop)
    }

    /// Whether this process may set the mode and time of something: its owner may, and the superuser.
    pub(in super::super) fn may_set(&self, entry: &Entry) -> bool {
        let we = rustix::process::geteuid();
        we.is_root() || entry.meta.owner.is_some_and(|owner| owner.user == we.as_raw())
    }

    /// Whether this process may make and remove entries of a directory, as its mode says.
    pub(in super::super) fn may_change(&self, dir: &Path) -> io::Result<bool> {
        let access = Access::WRITE_OK | Access::EXEC_OK;
        let may = if dir == Path::new("") {
            accessat(self.root(), ".", access, AtFlags::EACCESS)
        } else {
            let (above, name) = self.parent(dir)?;
            accessat(above, name, access, AtFlags::EACCESS)
        };
        match may {
            Err(Errno::ACCESS | Errno::PERM) => Ok(false),
            // What else is wrong is told by whoever does it; and an old kernel does not know the question.
            _ => Ok(true),
        }
    }

    /// Whether this process may give files away.
    pub(in super::super) fn can_own(&self) -> bool {
        rustix::process::geteuid().is_root()
    }
}

/// Whom something is to be given to, if it is another's.
pub(super) fn new_owner(
    wanted: Option<OwnedBy>,
    found: Option<OwnedBy>,
) -> Option<(Option<Uid>, Option<Gid>)> {
    let owner = wanted.filter(|_| wanted != found)?;
    Some((Some(Uid::from_raw(owner.user)), Some(Gid::from_raw(owner.group))))
}

/// Whether something was given away: only root may.
pub(super) fn may_fail(given: Result<(), Errno>) -> io::Result<bool> {
    match given {
        Ok(()) => Ok(true),
        Err(Errno::PERM) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
