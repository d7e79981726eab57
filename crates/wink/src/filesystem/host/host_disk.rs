//! The real disk: a directory, held open, and nothing outside it.
//!
//! Every operation starts at the open root and resolves its path without following links ([`resolve`]); the last
//! component is never followed either. What is neither file, directory nor link (a pipe, a device, a socket) can be
//! looked at, listed and moved, but is never opened.

mod attributes;
mod content;
mod lift;
mod mounts;
mod owners;
mod resolve;
mod special;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, RawMode, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, chmod,
    chownat, fchmod, fchown, fstat, fsync, futimens, linkat, mkdirat, openat, readlinkat, renameat, statat,
    symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::disk::{Disk, Entry, Meta, OwnedBy, Replace};
use crate::filesystem::EntryKind;
use owners::{may_fail, new_owner};
use resolve::{Resolve, check};
pub(super) use special::Protection;

pub(super) use attributes::Attributes;
pub(super) use content::AtMost;
pub(super) use lift::Lifting;

/// A directory of the machine, as a [`Disk`].
#[derive(Debug)]
pub struct HostDisk {
    root: OwnedFd,
    resolve: Resolve,
    /// The device of the root.
    dev: u64,
    /// The modes that are lifted.
    lifts: lift::Lifts,
}

/// Opening what turns out to be a pipe must not wait, and what turns out to be a terminal must not become ours.
const SAFELY: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// What is read whole without asking how large it is, which is what the runtime itself wrote, is never larger.
const MAX_OWN_BYTES: usize = 1 << 30;

impl HostDisk {
    /// Opens a directory. The path to it may go through links; below it none is followed.
    pub fn open(root: &Path) -> io::Result<Self> {
        let (root, dev) = Self::open_root(root)?;
        let resolve = Resolve::detect(root.as_fd());
        Ok(Self { root, resolve, dev, lifts: lift::Lifts::default() })
    }

    /// The same without help of the kernel, as on one that does not have `openat2`.
    #[doc(hidden)]
    pub fn open_walking(root: &Path) -> io::Result<Self> {
        let (root, dev) = Self::open_root(root)?;
        Ok(Self { root, resolve: Resolve::Walk, dev, lifts: lift::Lifts::default() })
    }

    /// Opens a regular file for reading. Anything else is an error, and is not waited for.
    pub fn open_file(&self, path: &Path) -> io::Result<File> {
        self.opened(&[path], || {
            let (dir, name) = self.parent(path)?;
            open_regular(dir.as_fd(), name, OFlags::RDONLY)
        })
    }

    /// Opens a regular file for reading and writing, and makes it if it is not there: for what is locked.
    pub fn open_or_create(&self, path: &Path, mode: u32) -> io::Result<File> {
        let (dir, name) = self.parent(path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | SAFELY;
        regular(openat(&dir, name, flags, Mode::from_raw_mode(mode as RawMode))?)
    }

    /// What is in a directory, each looked at: one step for each, however deep the directory is.
    pub(super) fn entries(&self, dir: &Path) -> io::Result<Vec<(OsString, Entry)>> {
        self.opened(&[dir], || self.entries_now(dir))
    }

    fn entries_now(&self, dir: &Path) -> io::Result<Vec<(OsString, Entry)>> {
        let handle = self.resolve.open_dir(self.root.as_fd(), dir)?;
        let mut listed = Vec::new();
        for item in Dir::read_from(&handle)? {
            let item = item?;
            let name = item.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = OsStr::from_bytes(name);
            match statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => listed.push((name.to_owned(), self.entry(&stat))),
                // Gone meanwhile.
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(listed)
    }

    fn read_dir_now(&self, dir: &Path) -> io::Result<Vec<(OsString, EntryKind)>> {
        let handle = self.resolve.open_dir(self.root.as_fd(), dir)?;
        let mut listed = Vec::new();
        for item in Dir::read_from(&handle)? {
            let item = item?;
            let name = item.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = OsStr::from_bytes(name);
            let kind = match item.file_type() {
                // Not every filesystem says it; and one that is gone meanwhile is not listed.
                FileType::Unknown => match statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error.into()),
                },
                known => known,
            };
            listed.push((name.to_owned(), kind_of(kind)));
        }
        Ok(listed)
    }

    fn set_meta_now(&self, path: &Path, meta: Meta) -> io::Result<()> {
        let times = times(meta.modified);
        if path == Path::new("") {
            let found = self.real_entry(&fstat(&self.root)?);
            if let Some((user, group)) = new_owner(meta.owner, found.meta.owner) {
                may_fail(fchown(&self.root, user, group))?;
            }
            if !self.set_lifted_mode(&found, meta.mode)? {
                fchmod(&self.root, Mode::from_raw_mode(meta.mode as RawMode))?;
            }
            return Ok(futimens(&self.root, &times)?);
        }
        let (dir, name) = self.parent(path)?;
        let found = self.real_entry(&statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?);
        let mut is_given = false;
        if let Some((user, group)) = new_owner(meta.owner, found.meta.owner) {
            is_given = may_fail(chownat(&dir, name, user, group, AtFlags::SYMLINK_NOFOLLOW))?;
        }
        // Some bits of the mode go with a change of owner.
        if found.kind != EntryKind::Symlink
            && !self.set_lifted_mode(&found, meta.mode)?
            && (is_given || found.meta.mode != meta.mode)
        {
            set_mode(dir.as_fd(), name, meta.mode)?;
        }
        Ok(utimensat(&dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Makes everything on this filesystem durable: for when there is too much to do it one by one.
    pub(super) fn sync_all(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        rustix::fs::syncfs(&self.root)?;
        #[cfg(not(target_os = "linux"))]
        rustix::fs::sync();
        Ok(())
    }

    /// A copy, unless it is to be stopped: that is [`io::ErrorKind::Interrupted`].
    pub(super) fn copy_until(&self, from: &Path, to: &Path, stop: &dyn Fn() -> bool) -> io::Result<()> {
        self.opened(&[from, to], || self.copy_now(from, to, stop))
    }

    fn copy_now(&self, from: &Path, to: &Path, stop: &dyn Fn() -> bool) -> io::Result<()> {
        let (from_dir, from_name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        let stat = statat(&from_dir, from_name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            let target = readlinkat(&from_dir, from_name, Vec::new())?;
            symlinkat(target, &to_dir, to_name)?;
            return Ok(utimensat(&to_dir, to_name, &modified_at(&stat), AtFlags::SYMLINK_NOFOLLOW)?);
        }
        let mut source = open_regular(from_dir.as_fd(), from_name, OFlags::RDONLY)?;
        let stat = fstat(&source)?;
        create_with(to_dir.as_fd(), to_name, |file| {
            content::copy(&mut source, file, u64::try_from(stat.st_size).unwrap_or(0), stop)?;
            // Only root may give files away; who may not, owns the copy.
            let owner = (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
            may_fail(fchown(&*file, owner.0, owner.1))?;
            // Before the mode, which may forbid it.
            #[cfg(target_os = "linux")]
            attributes::copy(source.as_fd(), file.as_fd())?;
            fchmod(&*file, Mode::from_raw_mode(self.entry(&stat).meta.mode as RawMode))?;
            Ok(futimens(&*file, &modified_at(&stat))?)
        })
    }

    /// Gives a file a mode.
    pub(super) fn set_mode_of(&self, path: &Path, mode: u32) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        set_mode(dir.as_fd(), name, mode)
    }

    /// The open root itself, for whoever has to name it to the kernel.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    fn open_root(root: &Path) -> io::Result<(OwnedFd, u64)> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        let dev = entry(&fstat(&root)?).dev;
        Ok((root, dev))
    }

    /// What was found. The number of a device may be another one after the machine, or a container, was started again: so that of
    /// the workspace itself is no part of what entries are known by.
    fn entry(&self, stat: &Stat) -> Entry {
        self.as_if_not_lifted(self.real_entry(stat))
    }

    fn real_entry(&self, stat: &Stat) -> Entry {
        let entry = entry(stat);
        Entry { dev: if entry.dev == self.dev { 0 } else { entry.dev }, ..entry }
    }

    fn parent<'a, 'p>(&'a self, path: &'p Path) -> io::Result<(resolve::Parent<'a>, &'p OsStr)> {
        self.resolve.parent(self.root.as_fd(), path)
    }

    /// Syncs by way of a handle, or, where what is there cannot be opened by us, everything.
    fn sync(&self, opened: io::Result<OwnedFd>) -> io::Result<()> {
        match opened {
            Ok(handle) => Ok(fsync(handle)?),
            #[cfg(target_os = "linux")]
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Ok(rustix::fs::syncfs(&self.root)?)
            }
            Err(error) => Err(error),
        }
    }
}

impl Disk for HostDisk {
    fn look(&self, path: &Path) -> io::Result<Option<Entry>> {
        if path == Path::new("") {
            return Ok(Some(self.entry(&fstat(&self.root)?)));
        }
        let look =
            || self.parent(path).and_then(|(dir, name)| Ok(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?));
        match self.opened(&[path], look) {
            Ok(stat) => Ok(Some(self.entry(&stat))),
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NOTDIR)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn read_dir(&self, dir: &Path) -> io::Result<Vec<(OsString, EntryKind)>> {
        self.opened(&[dir], || self.read_dir_now(dir))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read_at_most(path, MAX_OWN_BYTES)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.opened(&[path], || {
            let (dir, name) = self.parent(path)?;
            let target = readlinkat(dir, name, Vec::new())?;
            Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
        })
    }

    fn create(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        self.opened(&[path], || {
            let (dir, name) = self.parent(path)?;
            create_with(dir.as_fd(), name, |file| {
                file.write_all(content)?;
                Ok(fchmod(&*file, Mode::from_raw_mode(mode as RawMode))?)
            })
        })
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.copy_until(from, to, &|| false)
    }

    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.opened(&[path], || {
            let (dir, name) = self.parent(path)?;
            mkdirat(&dir, name, Mode::RWXU)?;
            set_mode(dir.as_fd(), name, mode)
        })
    }

    fn make_link(&self, path: &Path, target: &Path) -> io::Result<()> {
        self.opened(&[path], || {
            let (dir, name) = self.parent(path)?;
            Ok(symlinkat(target, dir, name)?)
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.opened(&[from, to], || {
            self.about_to_be(from, to)?;
            let (from_dir, from_name) = self.parent(from)?;
            let (to_dir, to_name) = self.parent(to)?;
            Ok(linkat(from_dir, from_name, to_dir, to_name, AtFlags::empty())?)
        })
    }

    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
        let rename = || {
            self.about_to_be(from, to)?;
            let (from_dir, from_name) = self.parent(from)?;
            let (to_dir, to_name) = self.parent(to)?;
            match replace {
                Replace::Allowed => Ok(renameat(from_dir, from_name, to_dir, to_name)?),
                Replace::Refused => rename_refusing(from_dir.as_fd(), from_name, to_dir.as_fd(), to_name),
            }
        };
        self.opened(&[from, to], || self.removing(to, rename))
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let unlink = || {
            let (dir, name) = self.parent(path)?;
            Ok(unlinkat(dir, name, AtFlags::empty())?)
        };
        self.opened(&[path], || self.removing(path, unlink))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let remove = || {
            let (dir, name) = self.parent(path)?;
            Ok(unlinkat(dir, name, AtFlags::REMOVEDIR)?)
        };
        self.opened(&[path], || self.removing(path, remove))
    }

    fn set_meta(&self, path: &Path, meta: Meta) -> io::Result<()> {
        self.opened(&[path], || self.set_meta_now(path, meta))
    }

    fn unprotect(&self, path: &Path) -> io::Result<()> {
        self.lift_protection(path).map(drop)
    }

    fn is_anothers(&self, path: &Path) -> io::Result<bool> {
        let stat = if path == Path::new("") {
            fstat(&self.root)?
        } else {
            self.opened(&[path], || {
                let (dir, name) = self.parent(path)?;
                Ok(statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?)
            })?
        };
        Ok(stat.st_uid != rustix::process::geteuid().as_raw())
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        self.sync(open_regular(dir.as_fd(), name, OFlags::RDONLY).map(OwnedFd::from))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        check(dir)?;
        self.sync(self.resolve.open_dir(self.root.as_fd(), dir))
    }
}

/// Looks first, so that a device is not even opened; and again afterwards, since it may have been swapped.
fn open_regular(dir: BorrowedFd<'_>, name: &OsStr, access: OFlags) -> io::Result<File> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    refuse_others(&stat)?;
    regular(openat(dir, name, access | SAFELY, Mode::empty())?)
}

fn regular(handle: OwnedFd) -> io::Result<File> {
    refuse_others(&fstat(&handle)?)?;
    Ok(File::from(handle))
}

fn refuse_others(stat: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Symlink => Err(Errno::LOOP.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Makes a file and fills it; one that cannot be filled goes again.
fn create_with(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | SAFELY;
    let mut file = File::from(openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?);
    fill(&mut file).inspect_err(|_| {
        // What failed first is what is told.
        let _ = unlinkat(dir, name, AtFlags::empty());
    })
}

/// The mode of what is there and is no link. By way of a handle, since `fchmodat` would follow a link that was swapped
/// in; and by its number, since a file need not be readable to have its mode set.
fn set_mode(dir: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode as RawMode);
    #[cfg(target_os = "linux")]
    {
        let handle = openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&handle)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP.into());
        }
        match chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), mode) {
            // Without /proc, as on other systems.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            done => return Ok(done?),
        }
    }
    let handle = openat(dir, name, OFlags::RDONLY | SAFELY, Mode::empty())?;
    Ok(fchmod(handle, mode)?)
}

fn rename_refusing(
    from_dir: BorrowedFd<'_>,
    from_name: &OsStr,
    to_dir: BorrowedFd<'_>,
    to_name: &OsStr,
) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{RenameFlags, renameat_with};

        match renameat_with(from_dir, from_name, to_dir, to_name, RenameFlags::NOREPLACE) {
            // An old kernel, or a filesystem that does not know the flag.
            Err(Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP) => {}
            done => return Ok(done?),
        }
    }
    rename_looking(from_dir, from_name, to_dir, to_name)
}

/// Where the kernel cannot refuse by itself: a second name is refused by every kernel, so a file is linked and then
/// loses its first name. A directory has no second name: it is looked for, and rename still refuses a full one.
fn rename_looking(
    from_dir: BorrowedFd<'_>,
    from_name: &OsStr,
    to_dir: BorrowedFd<'_>,
    to_name: &OsStr,
) -> io::Result<()> {
    let stat = statat(from_dir, from_name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        match linkat(from_dir, from_name, to_dir, to_name, AtFlags::empty()) {
            Ok(()) => return Ok(unlinkat(from_dir, from_name, AtFlags::empty())?),
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match statat(to_dir, to_name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(renameat(from_dir, from_name, to_dir, to_name)?),
        Err(error) => Err(error.into()),
        Ok(_) => Err(Errno::EXIST.into()),
    }
}

#[expect(clippy::allow_attributes, reason = "whether a conversion does anything depends on the machine")]
#[allow(clippy::useless_conversion, reason = "the fields have other types on other machines")]
fn entry(stat: &Stat) -> Entry {
    let nanos = |seconds: i128, nanos: i128| seconds * 1_000_000_000 + nanos;
    Entry {
        kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
        dev: u64::from(stat.st_dev),
        ino: u64::from(stat.st_ino),
        links: u64::from(stat.st_nlink),
        len: u64::try_from(stat.st_size).unwrap_or(0),
        meta: Meta {
            mode: u32::from(stat.st_mode & 0o7777),
            modified: nanos(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
            owner: Some(OwnedBy { user: stat.st_uid, group: stat.st_gid }),
        },
        changed: nanos(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
    }
}

fn modified_at(stat: &Stat) -> Timestamps {
    times(entry(stat).meta.modified)
}

/// A time that does not fit is far beyond any that a disk can tell; the nearest is taken.
fn times(modified: i128) -> Timestamps {
    let seconds = modified.div_euclid(1_000_000_000);
    let seconds = i64::try_from(seconds).unwrap_or(if seconds < 0 { i64::MIN } else { i64::MAX });
    let nanos = i64::try_from(modified.rem_euclid(1_000_000_000)).unwrap_or(0);
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanos },
    }
}

fn kind_of(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}

#[cfg(test)]
mod tests;
