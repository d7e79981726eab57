//! The marks that overlay mounts keep in attributes of files.

use std::io;
use std::path::Path;

use rustix::fs::{XattrFlags, lgetxattr, lremovexattr, lsetxattr};
use rustix::io::Errno;

/// Where the marks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Xattrs {
    /// Where only root may write.
    Trusted,
    User,
}

/// A mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// A directory: nothing shows through.
    Opaque,
    /// A directory: what shows through is elsewhere.
    Redirect,
    /// An empty file: it stands for nothing.
    Whiteout,
    /// A file: the contents are elsewhere.
    Metacopy,
    /// It was copied from what was below.
    Origin,
}

impl Xattrs {
    /// What this process may set on `dir`.
    pub(super) fn detect(dir: &Path) -> io::Result<Self> {
        match lsetxattr(dir, "trusted.wink", b"", XattrFlags::empty()) {
            Ok(()) => {
                lremovexattr(dir, "trusted.wink")?;
                Ok(Self::Trusted)
            }
            Err(Errno::PERM) => Ok(Self::User),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn set(self, path: &Path, mark: Mark, value: &[u8]) -> io::Result<()> {
        Ok(lsetxattr(path, self.name(mark), value, XattrFlags::empty())?)
    }

    pub(super) fn get(self, path: &Path, mark: Mark) -> io::Result<Option<Vec<u8>>> {
        // A redirect is a path.
        let mut value = vec![0; 8192];
        match lgetxattr(path, self.name(mark), value.as_mut_slice()) {
            Ok(len) => {
                value.truncate(len);
                Ok(Some(value))
            }
            // Links and devices cannot have any.
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn name(self, mark: Mark) -> &'static str {
        match (self, mark) {
            (Self::Trusted, Mark::Opaque) => "trusted.overlay.opaque",
            (Self::Trusted, Mark::Redirect) => "trusted.overlay.redirect",
            (Self::Trusted, Mark::Whiteout) => "trusted.overlay.whiteout",
            (Self::Trusted, Mark::Metacopy) => "trusted.overlay.metacopy",
            (Self::Trusted, Mark::Origin) => "trusted.overlay.origin",
            (Self::User, Mark::Opaque) => "user.overlay.opaque",
            (Self::User, Mark::Redirect) => "user.overlay.redirect",
            (Self::User, Mark::Whiteout) => "user.overlay.whiteout",
            (Self::User, Mark::Metacopy) => "user.overlay.metacopy",
            (Self::User, Mark::Origin) => "user.overlay.origin",
        }
    }
}
