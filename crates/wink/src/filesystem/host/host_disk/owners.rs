//! Who owns what: only the superuser may give files away.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{
    Access, AtFlags, Gid, Mode, OFlags, RawMode, Uid, accessat, chownat, fchmod, fchown, fstat, mkdirat,
    openat, statat,
};
use rustix::io::Errno;

use super::HostDisk;
use crate::filesystem::EntryKind;
use crate::filesystem::host::disk::{Disk, Entry, OwnedBy};

/// What is made in a directory with it gets the group of that.
pub(super) const SETGID: u32 = 0o2000;

impl HostDisk {
    /// Makes a new file like the one that it is about to replace: its owner, where this process may give files away, its group and its
    /// attributes, and last its mode, with which some of that could not be set.
    ///
    /// # Errors
    /// When the file is this user's own and has a group or an attribute that this user may not set.
    pub(in super::super) fn take_after(&self, other: &Path, ours: &Path, mode: u32) -> io::Result<()> {
        let file = {
            let (dir, name) = self.parent(ours)?;
            super::open_regular(dir.as_fd(), name, OFlags::RDWR)?
        };
        let theirs = {
            let (dir, name) = self.parent(other)?;
            statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?
        };
        let mine = fstat(&file)?;
        let (user, group) = (Some(Uid::from_raw(theirs.st_uid)), Some(Gid::from_raw(theirs.st_gid)));
        if (theirs.st_uid, theirs.st_gid) != (mine.st_uid, mine.st_gid)
            && !may_fail(fchown(&file, user, group))?
            && !may_fail(fchown(&file, None, group))?
            && theirs.st_uid == mine.st_uid
        {
            return Err(cannot_keep(&format!("group {}", theirs.st_gid), "this user is not in it"));
        }
        #[cfg(target_os = "linux")]
        super::attributes::keep(&self.attributes_to_keep(other)?, file.as_fd())?;
        Ok(fchmod(&file, Mode::from_raw_mode(mode as RawMode))?)
    }

    /// Whether what is made in a directory gets more from it than from its maker: a group, or an access control list.
    pub(in super::super) fn gives(&self, dir: &Path) -> io::Result<bool> {
        let Some(entry) = self.look(dir)?.filter(|entry| entry.kind == EntryKind::Directory) else {
            return Ok(false);
        };
        Ok(entry.meta.mode & SETGID != 0 || self.dir_attributes(dir)?.default_list().is_some())
    }

    /// Makes an empty directory in which new entries get what they would get in another one.
    pub(in super::super) fn make_giving_like(&self, other: &Path, dir: &Path) -> io::Result<()> {
        self.make_dir(dir, 0o700)?;
        let Some(entry) = self.look(other)? else { return Ok(()) };
        self.opened(&[dir], || {
            let handle = self.resolve.open_dir(self.root.as_fd(), dir)?;
            if let Some(owner) = entry.meta.owner.filter(|_| entry.meta.mode & SETGID != 0) {
                if !may_fail(fchown(&handle, None, Some(Gid::from_raw(owner.group))))? {
                    let what = format!("group {} of its directory", owner.group);
                    return Err(cannot_keep(&what, "this user is not in it"));
                }
                fchmod(&handle, Mode::from_raw_mode((0o700 | SETGID) as RawMode))?;
            }
            #[cfg(target_os = "linux")]
            if let Some(list) = self.dir_attributes(other)?.default_list() {
                super::attributes::keep(&list, handle.as_fd())?;
            }
            Ok(())
        })
    }

    /// Makes a file that was not there, with the mode that its directory and this process give it.
    pub(in super::super) fn create_as_given(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | super::SAFELY;
        let mut file = File::from(openat(&dir, name, flags, Mode::from_raw_mode(0o666))?);
        file.write_all(content).inspect_err(|_| {
            // What failed first is what is told.
            let _ = self.unlink(path);
        })
    }

    /// Makes a directory that was not there, with the mode that its own directory and this process give it.
    pub(in super::super) fn make_dir_as_given(&self, path: &Path) -> io::Result<()> {
        self.opened(&[path], || {
            let (dir, name) = self.parent(path)?;
            Ok(mkdirat(&dir, name, Mode::from_raw_mode(0o777))?)
        })
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
            // The change itself reports what else is wrong; and an old kernel does not know the question.
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

/// What a change would lose: then it is not made.
pub(super) fn cannot_keep(what: &str, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("its {what} cannot be kept, since {why}"))
}
