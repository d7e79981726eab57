//! From a path to an open directory, without ever following a link.
//!
//! The kernel does it in one call where it can (`openat2`); elsewhere each component is opened by itself. Both refuse
//! the same things with the same errors.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

/// Who walks along a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolve {
    /// The kernel, all of it at once.
    #[cfg(target_os = "linux")]
    Kernel,
    /// We do, one component after the other.
    Walk,
}

/// The directory that an entry is in: the root itself, or one below it.
pub(super) enum Parent<'a> {
    Root(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => *root,
            Self::Below(dir) => dir.as_fd(),
        }
    }
}

/// A handle that only serves to reach what is below.
#[cfg(target_os = "linux")]
const ON_THE_WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const ON_THE_WAY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A handle to list or sync a directory with.
const READING: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Resolve {
    /// What works here: asked once, when the root is opened.
    pub(super) fn detect(root: BorrowedFd<'_>) -> Self {
        #[cfg(target_os = "linux")]
        if beneath(root, Path::new("."), ON_THE_WAY).is_ok() {
            // ENOSYS: an old kernel. EPERM: a sandbox that does not know the call.
            return Self::Kernel;
        }
        let _ = root;
        Self::Walk
    }

    /// The directory that holds `path`, and the name that it has there. The root itself is held by nothing.
    pub(super) fn parent<'a, 'p>(
        self,
        root: BorrowedFd<'a>,
        path: &'p Path,
    ) -> io::Result<(Parent<'a>, &'p OsStr)> {
        check(path)?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = match path.parent() {
            Some(dir) if dir != Path::new("") => Parent::Below(self.dir(root, dir, ON_THE_WAY)?),
            _ => Parent::Root(root),
        };
        Ok((parent, name))
    }

    /// A directory, to be listed or synced. The empty path is the root.
    pub(super) fn open_dir(self, root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
        check(path)?;
        if path == Path::new("") {
            return Ok(openat(root, ".", READING, Mode::empty())?);
        }
        self.dir(root, path, READING)
    }

    fn dir(self, root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Kernel => Ok(beneath(root, path, flags)?),
            Self::Walk => walk(root, path, flags),
        }
    }
}

/// Only a relative path of plain names can stay below the root by itself.
pub(super) fn check(path: &Path) -> io::Result<()> {
    if path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(());
    }
    let text = format!("'{}' is not a plain path relative to the root", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

#[cfg(target_os = "linux")]
fn beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // The kernel gives up with EAGAIN when directories are moved about meanwhile; it asks to be called again.
    let mut tries = 0;
    loop {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries < 128 => tries += 1,
            other => return other,
        }
    }
}

fn walk(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut held: Option<OwnedFd> = None;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let here = held.as_ref().map_or(root, AsFd::as_fd);
        let last = parts.peek().is_none();
        let flags = if last { flags } else { ON_THE_WAY };
        let next = openat(here, part.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty());
        held = Some(next.map_err(|error| match error {
            // Of a link this is said as well, for it is no directory either. The kernel's own walk says ELOOP.
            Errno::NOTDIR if is_link(here, part.as_os_str()) => Errno::LOOP,
            other => other,
        })?);
    }
    held.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn is_link(dir: BorrowedFd<'_>, name: &OsStr) -> bool {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}
