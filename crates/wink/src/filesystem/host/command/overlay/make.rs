//! From a fork's layer to an upper directory.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::io::Errno;

use super::OverlayLayer;
use super::xattr::{Mark, Xattrs};
use crate::filesystem::EntryKind;
use crate::filesystem::host::disk::{Disk, Meta};
use crate::filesystem::host::host_disk::HostDisk;
use crate::filesystem::host::layer::{Dir, Layer, Node};
use crate::filesystem::host::view::{Child, Spot, View};

/// What it takes to fill a directory. It gets its own mode when everything is in it.
const OPEN: u32 = 0o700;

/// In a user namespace of one user only their own group has a number: what they own of another group could not be copied there. All of
/// a workspace is not looked at for that: the root and what is right in it show whether it is one that a group shares.
fn check_groups(disk: &HostDisk) -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let root = disk.look(Path::new(""))?.map(|entry| (".".into(), entry));
    for (name, entry) in disk.entries(Path::new(""))?.into_iter().chain(root) {
        if let Some(owner) = entry.meta.owner.filter(|owner| owner.user == user && owner.group != group) {
            let name: std::ffi::OsString = name;
            let why = format!("the group {} of '{}' cannot be mapped there", owner.group, name.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
    }
    Ok(())
}

impl OverlayLayer {
    pub(super) fn make(&mut self) -> io::Result<()> {
        let disk = std::sync::Arc::clone(&self.fork.base.disk);
        disk.make_dir(&self.dir, 0o755)?;
        disk.make_dir(&self.dir.join("work"), 0o755)?;
        // First: what another process changes while this is made must not look like the command's change.
        self.began = self.mark_time()?;
        let layer = self.layer.clone();
        self.make_like(Path::new(""), Path::new(""))?;
        self.xattrs = Xattrs::detect(&self.absolute(Path::new("")))?;
        if self.xattrs == Xattrs::User {
            check_groups(&disk)?;
        }
        self.fill(&layer, Path::new(""), &layer.root)?;
        self.make_old(Path::new(""), Path::new(""), None)?;
        self.root = disk.look(&self.inside(Path::new("")))?.map(|entry| entry.meta);
        Ok(())
    }

    /// A time of the disk that no change before this has, and every later one has or exceeds. Its clock goes in steps,
    /// so this waits for the next one: a few milliseconds, or no time at all where it is finer when it is watched.
    fn mark_time(&self) -> io::Result<i128> {
        const ENOUGH: usize = 50_000;
        let (disk, mark) = (&self.fork.base.disk, self.dir.join("began"));
        let look = || io::Result::Ok(disk.look(&mark)?.ok_or(io::ErrorKind::NotFound)?);
        disk.create(&mark, b"", 0o600)?;
        let first = look()?;
        for _ in 0..ENOUGH {
            disk.set_meta(&mark, first.meta)?;
            let now = look()?.changed;
            if now > first.changed {
                return Ok(now);
            }
            std::thread::yield_now();
        }
        // On a disk that counts in seconds: rather a conflict too many.
        Ok(first.changed)
    }

    /// Where something of the upper directory is, from the root of the workspace.
    pub(super) fn inside(&self, at: &Path) -> PathBuf {
        let upper = self.upper();
        if at.as_os_str().is_empty() { upper } else { upper.join(at) }
    }

    pub(super) fn absolute(&self, at: &Path) -> PathBuf {
        self.fork.base.root.join(self.inside(at))
    }

    /// The changed entries of a directory.
    fn fill(&mut self, layer: &Layer, at: &Path, dir: &Dir) -> io::Result<()> {
        for (name, node) in &dir.changed {
            let below = dir.below(name);
            self.node(layer, &at.join(&**name), node, below.as_deref())?;
        }
        Ok(())
    }

    fn node(&mut self, layer: &Layer, at: &Path, node: &Node, below: Option<&Path>) -> io::Result<()> {
        let base = std::sync::Arc::clone(&self.fork.base);
        let is_below = match below {
            Some(place) => base.disk.look(place)?.is_some(),
            None => false,
        };
        match node {
            Node::Gone if is_below => self.whiteout(at),
            Node::Gone => Ok(()),
            Node::Dir(dir) => match &dir.source {
                Some(source) => {
                    let is_moved = below != Some(source);
                    if is_moved && self.xattrs == Xattrs::User {
                        let view = View { disk: &base.disk, layer };
                        return self.copy(view, at, &Spot::Dir(std::sync::Arc::clone(dir)));
                    }
                    self.make_like(at, source)?;
                    if is_moved {
                        self.redirect(at, source)?;
                    }
                    self.fill(layer, at, dir)?;
                    self.make_old(at, source, dir.meta)
                }
                None => {
                    let meta = dir.meta.unwrap_or(Meta { mode: 0o755, modified: 0, owner: None });
                    base.disk.make_dir(&self.inside(at), meta.mode | OPEN)?;
                    if is_below {
                        self.xattrs.set(&self.absolute(at), Mark::Opaque, b"y")?;
                    }
                    self.fill(layer, at, dir)?;
                    base.disk.set_meta(&self.inside(at), meta)
                }
            },
            Node::Moved(source) => {
                let kind = base.disk.look(source)?.map(|entry| entry.kind);
                match kind {
                    Some(EntryKind::Directory) if self.xattrs == Xattrs::Trusted => {
                        self.make_like(at, source)?;
                        self.redirect(at, source)?;
                        self.make_old(at, source, None)
                    }
                    Some(_) => self.entry(layer, at, node),
                    // Somebody removed it.
                    None => Ok(()),
                }
            }
            Node::File(_) | Node::Link(_) => self.entry(layer, at, node),
        }
    }

    /// A file or link, or a directory that has to be copied whole.
    fn entry(&mut self, layer: &Layer, at: &Path, node: &Node) -> io::Result<()> {
        let base = std::sync::Arc::clone(&self.fork.base);
        let view = View { disk: &base.disk, layer };
        let Some(spot) = view.spot(node)? else { return Ok(()) };
        self.copy(view, at, &spot)?;
        if let Some(entry) = base.disk.look(&self.inside(at))?
            && entry.kind == EntryKind::File
        {
            self.made.insert(at.to_owned(), (entry.version(), node.clone()));
        }
        Ok(())
    }

    fn copy(&self, view: View<'_>, at: &Path, spot: &Spot) -> io::Result<()> {
        let (disk, to) = (view.disk, self.inside(at));
        match spot {
            Spot::Base(place, entry) if entry.kind != EntryKind::Directory => return disk.copy(place, &to),
            Spot::File(staged) => {
                return staged.copy_to(&to);
            }
            Spot::Link(link) => {
                disk.make_link(&to, &link.target)?;
                return disk.set_meta(&to, link.meta);
            }
            Spot::Base(..) | Spot::Dir(_) => {}
        }
        let (meta, _) = view.about(spot)?;
        disk.make_dir(&to, meta.mode | OPEN)?;
        self.xattrs.set(&self.absolute(at), Mark::Opaque, b"y")?;
        for (name, child) in view.children(spot)? {
            if !matches!(child, Child::Base(_, EntryKind::Other))
                && let Some(child) = view.child_spot(child)?
            {
                self.copy(view, &at.join(name), &child)?;
            }
        }
        disk.set_meta(&to, meta)
    }

    /// A directory like one of the workspace: what is shown of it is what the upper one has.
    fn make_like(&self, at: &Path, source: &Path) -> io::Result<()> {
        let base = &self.fork.base;
        let mode = base.disk.look(source)?.map_or(0o755, |entry| entry.meta.mode);
        base.disk.make_dir(&self.inside(at), mode | OPEN)?;
        let theirs = std::fs::symlink_metadata(base.root.join(source))?;
        let made = std::fs::symlink_metadata(self.absolute(at))?;
        if (theirs.uid(), theirs.gid()) != (made.uid(), made.gid()) {
            match lchown(self.absolute(at), Some(theirs.uid()), Some(theirs.gid())) {
                // Only root may give away what it has.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                done => done?,
            }
        }
        base.disk.copy_dir_attributes(source, &self.inside(at))
    }

    /// Gives a directory the time of the one that it is like, when everything is in it.
    fn make_old(&self, at: &Path, source: &Path, meta: Option<Meta>) -> io::Result<()> {
        let disk = &self.fork.base.disk;
        match (meta, disk.look(source)?) {
            (Some(meta), _) => disk.set_meta(&self.inside(at), meta),
            (None, Some(entry)) => disk.set_meta(&self.inside(at), entry.meta),
            (None, None) => Ok(()),
        }
    }

    fn redirect(&self, at: &Path, source: &Path) -> io::Result<()> {
        let mut target = b"/".to_vec();
        target.extend_from_slice(source.as_os_str().as_bytes());
        self.xattrs.set(&self.absolute(at), Mark::Redirect, &target)
    }

    /// A mark that there is nothing, whatever is below.
    fn whiteout(&self, at: &Path) -> io::Result<()> {
        let path = self.absolute(at);
        match mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), makedev(0, 0)) {
            Ok(()) => Ok(()),
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL) => {
                self.fork.base.disk.create(&self.inside(at), b"", 0o600)?;
                self.xattrs.set(&path, Mark::Whiteout, b"y")?;
                let dir = path.parent().unwrap_or(&path);
                match self.xattrs.get(dir, Mark::Opaque)?.as_deref() {
                    Some(b"y") => Ok(()),
                    _ => self.xattrs.set(dir, Mark::Opaque, b"x"),
                }
            }
            Err(error) => Err(error.into()),
        }
    }
}
