//! Extended attributes: those that belong to a file, and go with a copy of it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::HostDisk;

/// The attributes of a file or directory that are its user's: what programs keep in them, access control lists, and what a
/// program may do. Marks of an overlay are not among them, and neither is what the system gives everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Attributes(BTreeMap<String, Vec<u8>>);

impl Attributes {
    /// The access control list that a directory gives to what is made in it.
    pub(in super::super) fn default_list(&self) -> Option<Self> {
        let (name, list) = self.0.get_key_value("system.posix_acl_default")?;
        Some(Self(BTreeMap::from([(name.clone(), list.clone())])))
    }

    /// Themselves, if there are any.
    pub(in super::super) fn any(self) -> Option<Arc<Self>> {
        (!self.0.is_empty()).then(|| Arc::new(self))
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

    use rustix::fs::{
        Mode, OFlags, XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, listxattr, openat,
    };
    use rustix::io::Errno;

    use super::super::owners::cannot_keep;
    use super::*;

    /// The kernel has no longer ones.
    const MOST: usize = 1 << 16;

    impl HostDisk {
        /// Those of a regular file.
        pub(in super::super::super) fn file_attributes(&self, path: &Path) -> io::Result<Attributes> {
            read(self.open_file(path)?.as_fd())
        }

        /// Those that the file keeps when its contents are replaced. What a program may do is not among them: writing to it takes that away.
        pub(in super::super) fn attributes_to_keep(&self, path: &Path) -> io::Result<Attributes> {
            let mut attributes = match self.file_attributes(path) {
                // Its names can be had all the same.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    let (dir, name) = self.parent(path)?;
                    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let handle = openat(&dir, name, flags, Mode::empty())?;
                    let mut names = vec![0; MOST];
                    let len =
                        listxattr(format!("/proc/self/fd/{}", handle.as_raw_fd()), names.as_mut_slice());
                    names.truncate(len.unwrap_or(0));
                    let mut names =
                        names.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
                    match names.find(|name| is_users(name)) {
                        Some(name) => {
                            return Err(cannot_keep(
                                &format!("attribute '{name}'"),
                                "this user may not read it",
                            ));
                        }
                        None => Attributes::default(),
                    }
                }
                attributes => attributes?,
            };
            attributes.0.remove("security.capability");
            Ok(attributes)
        }

        /// Gives a directory these.
        pub(in super::super::super) fn set_dir_attributes(
            &self,
            path: &Path,
            attributes: &Attributes,
        ) -> io::Result<()> {
            self.opened(&[path], || {
                write(self.resolve.open_dir(self.root.as_fd(), path)?.as_fd(), attributes)
            })
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

    /// Gives a file these, or says which it cannot have.
    pub(in super::super) fn keep(attributes: &Attributes, to: BorrowedFd<'_>) -> io::Result<()> {
        for (name, value) in &attributes.0 {
            match fsetxattr(to, name.as_str(), value, XattrFlags::empty()) {
                Ok(()) => {}
                Err(
                    error @ (Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::NOSPC | Errno::TOOBIG),
                ) => {
                    return Err(cannot_keep(
                        &format!("attribute '{name}'"),
                        &io::Error::from(error).to_string(),
                    ));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
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
pub(super) use linux::{copy, keep};

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

    pub(in super::super) fn set_dir_attributes(&self, _: &Path, _: &Attributes) -> io::Result<()> {
        Ok(())
    }
}
