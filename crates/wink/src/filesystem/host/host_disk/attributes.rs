//! Extended attributes: those that belong to a file, and go with a copy of it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::HostDisk;

/// The attributes of a file or directory that are its user's: what programs keep in them, access control lists, and what a
/// program may do. Marks of an overlay are not among them, and neither is what the system gives everything.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Attributes(BTreeMap<String, Vec<u8>>);

impl Attributes {
    /// Whether there are none but those that a new directory has of the one that it is in.
    pub(in super::super) fn has_only_inherited(&self) -> bool {
        self.0.keys().all(|name| name.starts_with("system."))
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::{AsFd, BorrowedFd};

    use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
    use rustix::io::Errno;

    use super::*;

    /// The kernel has no longer ones.
    const MOST: usize = 1 << 16;

    impl HostDisk {
        /// Those of a regular file.
        pub(in super::super::super) fn file_attributes(&self, path: &Path) -> io::Result<Attributes> {
            read(self.open_file(path)?.as_fd())
        }

        /// Those of a directory. One that cannot be looked into has none that anybody could tell.
        pub(in super::super::super) fn dir_attributes(&self, path: &Path) -> io::Result<Attributes> {
            match self.opened(&[path], || self.resolve.open_dir(self.root.as_fd(), path)) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Attributes::default()),
                opened => read(opened?.as_fd()),
            }
        }

        /// Gives a directory those of another one, and no others.
        pub(in super::super::super) fn copy_dir_attributes(&self, from: &Path, to: &Path) -> io::Result<()> {
            let attributes = self.dir_attributes(from)?;
            let there = self.dir_attributes(to)?;
            if there == attributes {
                return Ok(());
            }
            self.opened(&[to], || {
                let to = self.resolve.open_dir(self.root.as_fd(), to)?;
                for name in there.0.keys().filter(|name| !attributes.0.contains_key(*name)) {
                    may_not(fremovexattr(&to, name.as_str()))?;
                }
                write(to.as_fd(), &attributes)
            })
        }
    }

    /// Gives a new file those of another one.
    pub(in super::super) fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
        write(to, &read(from)?)
    }

    fn read(file: BorrowedFd<'_>) -> io::Result<Attributes> {
        let mut names = vec![0; MOST];
        let len = match flistxattr(file, names.as_mut_slice()) {
            Ok(len) => len,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Attributes::default()),
            Err(error) => return Err(error.into()),
        };
        names.truncate(len);
        let mut found = BTreeMap::new();
        let names = names.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
        for name in names.filter(|name| is_users(name)) {
            let mut value = vec![0; MOST];
            match fgetxattr(file, name, value.as_mut_slice()) {
                Ok(len) => value.truncate(len),
                // Gone meanwhile, or nobody's business.
                Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => continue,
                Err(error) => return Err(error.into()),
            }
            found.insert(name.to_owned(), value);
        }
        Ok(Attributes(found))
    }

    fn write(file: BorrowedFd<'_>, attributes: &Attributes) -> io::Result<()> {
        for (name, value) in &attributes.0 {
            may_not(fsetxattr(file, name.as_str(), value, XattrFlags::empty()))?;
        }
        Ok(())
    }

    /// What this process may not set, it cannot keep either.
    fn may_not(set: Result<(), Errno>) -> io::Result<()> {
        match set {
            Ok(()) | Err(Errno::PERM | Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn is_users(name: &str) -> bool {
        const MORE: [&str; 3] =
            ["system.posix_acl_access", "system.posix_acl_default", "security.capability"];
        (name.starts_with("user.") && !name.starts_with("user.overlay.")) || MORE.contains(&name)
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::copy;

#[cfg(not(target_os = "linux"))]
impl HostDisk {
    pub(in super::super) fn file_attributes(&self, _: &Path) -> io::Result<Attributes> {
        Ok(Attributes::default())
    }

    pub(in super::super) fn dir_attributes(&self, _: &Path) -> io::Result<Attributes> {
        Ok(Attributes::default())
    }

    pub(in super::super) fn copy_dir_attributes(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }
}
