//! What most files do not have: protection against changes, and being no file at all.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::fs::{
    AtFlags, FileType, IFlags, Mode, OFlags, RawMode, StatxAttributes, StatxFlags, ioctl_getflags,
    ioctl_setflags, mknodat, openat, statat, statx,
};
#[cfg(target_os = "linux")]
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::HostDisk;
#[cfg(target_os = "linux")]
use super::{SAFELY, set_mode};
#[cfg(target_os = "linux")]
use crate::filesystem::host::disk::Disk;

/// What keeps even their owner from changing a file or directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Protection {
    /// Nothing about it can be changed.
    pub(in super::super) immutable: bool,
    /// It can only grow.
    pub(in super::super) append_only: bool,
}

impl Protection {
    pub(in super::super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Which pipe, socket or device something is: its type and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Special {
    kind: u32,
    device: u64,
}

#[cfg(target_os = "linux")]
impl HostDisk {
    /// Whether this process might change protections, which only the superuser may.
    pub(in super::super) fn can_protect(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    /// How something is protected. Where the filesystem knows nothing of that, not at all.
    pub(in super::super) fn protection(&self, path: &Path) -> io::Result<Protection> {
        let found = if path == Path::new("") {
            statx(&self.root, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)
        } else {
            self.opened(&[path], || {
                let (dir, name) = self.parent(path)?;
                Ok(statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE))
            })?
        };
        let attributes = match found {
            Ok(found) => found.stx_attributes,
            // An old kernel, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => return Ok(Protection::default()),
            Err(error) => return Err(error.into()),
        };
        Ok(Protection {
            immutable: attributes.contains(StatxAttributes::IMMUTABLE),
            append_only: attributes.contains(StatxAttributes::APPEND),
        })
    }

    /// Protects a file or directory so, and not otherwise.
    pub(in super::super) fn set_protection(&self, path: &Path, protection: Protection) -> io::Result<()> {
        let opened = if path == Path::new("") {
            openat(&self.root, ".", OFlags::RDONLY | SAFELY, Mode::empty())
        } else {
            let (dir, name) = self.parent(path)?;
            // Nothing else can be protected, and opening a device may do anything.
            match FileType::from_raw_mode(statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode) {
                FileType::RegularFile | FileType::Directory => {}
                _ => return Ok(()),
            }
            openat(&dir, name, OFlags::RDONLY | SAFELY, Mode::empty())
        };
        let opened = opened?;
        let mut flags = ioctl_getflags(&opened)?;
        flags.set(IFlags::IMMUTABLE, protection.immutable);
        flags.set(IFlags::APPEND, protection.append_only);
        Ok(ioctl_setflags(&opened, flags)?)
    }

    /// Which special thing is there.
    pub(in super::super) fn special(&self, path: &Path) -> io::Result<Special> {
        let stat = self.opened(&[path], || {
            let (dir, name) = self.parent(path)?;
            Ok(statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?)
        })?;
        Ok(Special { kind: stat.st_mode & 0o170_000, device: stat.st_rdev })
    }

    /// Makes another pipe or device of the same kind, with its mode, owner and time. Whether that was possible: a socket is
    /// whoever listens, and devices take privileges.
    pub(in super::super) fn copy_special(&self, from: &Path, to: &Path) -> io::Result<bool> {
        // Both can be reached by now.
        self.look(from)?;
        self.look(to)?;
        let (dir, name) = self.parent(from)?;
        let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if !matches!(kind, FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice) {
            return Ok(false);
        }
        let (to_dir, to_name) = self.parent(to)?;
        match mknodat(&to_dir, to_name, kind, Mode::RUSR | Mode::WUSR, stat.st_rdev) {
            Ok(()) => {}
            Err(Errno::PERM | Errno::ACCESS) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.own_like(from, to)?;
        set_mode(to_dir.as_fd(), to_name, stat.st_mode as RawMode & 0o7777)?;
        self.set_meta(to, super::entry(&stat).meta)?;
        Ok(true)
    }
}

#[cfg(not(target_os = "linux"))]
impl HostDisk {
    pub(in super::super) fn can_protect(&self) -> bool {
        false
    }

    pub(in super::super) fn protection(&self, _: &Path) -> io::Result<Protection> {
        Ok(Protection::default())
    }

    pub(in super::super) fn set_protection(&self, _: &Path, _: Protection) -> io::Result<()> {
        Ok(())
    }

    pub(in super::super) fn special(&self, _: &Path) -> io::Result<Special> {
        Ok(Special { kind: 0, device: 0 })
    }

    pub(in super::super) fn copy_special(&self, _: &Path, _: &Path) -> io::Result<bool> {
        Ok(false)
    }
}

impl HostDisk {
    /// Lets something be changed. How it was protected.
    pub(in super::super) fn lift_protection(&self, path: &Path) -> io::Result<Protection> {
        let found = self.protection(path)?;
        if !found.is_none() {
            self.set_protection(path, Protection::default())?;
        }
        Ok(found)
    }
}
