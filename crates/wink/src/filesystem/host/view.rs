//! What a fork sees: its layer over the live workspace. Without a layer, the workspace itself.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::STATE;
use super::disk::{Disk, Entry, Meta};
use super::host_disk::HostDisk;
use super::layer::{Dir, Layer, Link, Node};
use super::staged::Staged;
use crate::filesystem::{EntryKind, FileVersion};

/// A state to look at.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) disk: &'a HostDisk,
    pub(super) layer: &'a Layer,
}

/// What is at a place.
#[derive(Clone)]
pub(super) enum Spot {
    /// What the workspace has, here or where it was moved from, unchanged.
    Base(PathBuf, Entry),
    /// A directory of the layer.
    Dir(Arc<Dir>),
    File(Arc<Staged>),
    Link(Arc<Link>),
}

/// What is known of an entry of a directory without looking at it.
pub(super) enum Child {
    Base(PathBuf, EntryKind),
    Node(Node),
}

impl Spot {
    pub(super) fn kind(&self) -> EntryKind {
        match self {
            Self::Base(_, entry) => entry.kind,
            Self::Dir(_) => EntryKind::Directory,
            Self::File(staged) => staged.entry().kind,
            Self::Link(_) => EntryKind::Symlink,
        }
    }

    /// Bytes of a file.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Base(_, entry) if entry.kind == EntryKind::File => entry.len,
            Self::File(staged) => staged.entry().len,
            _ => 0,
        }
    }
}

/// Whether an entry of the root is the state directory, however a filesystem may spell it.
pub(super) fn is_state(name: &OsStr) -> bool {
    name.as_bytes().eq_ignore_ascii_case(STATE.as_bytes())
}

/// Whether a path is the state directory or in it.
pub(super) fn is_in_state(path: &Path) -> bool {
    path.iter().next().is_some_and(is_state)
}

impl<'a> View<'a> {
    pub(super) fn root(&self) -> Spot {
        Spot::Dir(Arc::clone(&self.layer.root))
    }

    /// What is at a place of the workspace; the state directory is not there.
    pub(super) fn base(&self, place: PathBuf) -> io::Result<Option<Spot>> {
        if is_in_state(&place) {
            return Ok(None);
        }
        Ok(self.disk.look(&place)?.map(|entry| Spot::Base(place, entry)))
    }

    /// The entry `name` of a directory.
    pub(super) fn child(&self, dir: &Spot, name: &OsStr) -> io::Result<Option<Spot>> {
        match dir {
            // What is behind a link is not in the tree.
            Spot::Base(_, entry) if entry.kind == EntryKind::Symlink => Ok(None),
            Spot::Base(place, _) => self.base(place.join(name)),
            Spot::Dir(dir) => match dir.changed.get(name) {
                Some(node) => self.spot(node),
                None => dir.below(name).map_or(Ok(None), |place| self.base(place)),
            },
            Spot::File(_) | Spot::Link(_) => Ok(None),
        }
    }

    /// The place of the workspace that is the entry `name` of a directory, unless the fork has changed that entry.
    pub(super) fn shows_through(&self, dir: &Spot, name: &OsStr) -> Option<PathBuf> {
        match dir {
            Spot::Base(place, _) => Some(place.join(name)),
            Spot::Dir(dir) if !dir.changed.contains_key(name) => dir.below(name),
            Spot::Dir(_) | Spot::File(_) | Spot::Link(_) => None,
        }
    }

    /// What is at a path, following no link.
    pub(super) fn at(&self, path: &Path) -> io::Result<Option<Spot>> {
        let mut spot = self.root();
        for name in path {
            match self.child(&spot, name)? {
                Some(child) => spot = child,
                None => return Ok(None),
            }
        }
        Ok(Some(spot))
    }

    /// What a node stands for.
    pub(super) fn spot(&self, node: &Node) -> io::Result<Option<Spot>> {
        Ok(Some(match node {
            Node::Moved(place) => return self.base(place.to_path_buf()),
            Node::Dir(dir) => Spot::Dir(Arc::clone(dir)),
            Node::File(staged) => Spot::File(Arc::clone(staged)),
            Node::Link(link) => Spot::Link(Arc::clone(link)),
            Node::Gone => return Ok(None),
        }))
    }

    /// What a child stands for; nothing if it is gone meanwhile.
    pub(super) fn child_spot(&self, child: Child) -> io::Result<Option<Spot>> {
        match child {
            Child::Base(place, _) => self.base(place),
            Child::Node(node) => self.spot(&node),
        }
    }

    /// The entries of a directory, in no order.
    pub(super) fn children(&self, dir: &Spot) -> io::Result<Vec<(OsString, Child)>> {
        match dir {
            Spot::Base(place, _) => self.below(place, |_| true),
            Spot::Dir(dir) => {
                let mut children = match &dir.source {
                    Some(source) => match self.below(source, |name| !dir.changed.contains_key(name)) {
                        // Somebody removed it; what the fork has there is still there.
                        Err(error)
                            if error.kind() == io::ErrorKind::NotFound && !source.as_os_str().is_empty() =>
                        {
                            Vec::new()
                        }
                        children => children?,
                    },
                    None => Vec::new(),
                };
                for (name, node) in &dir.changed {
                    if !matches!(node, Node::Gone) {
                        children.push(((**name).to_owned(), Child::Node(node.clone())));
                    }
                }
                Ok(children)
            }
            Spot::File(_) | Spot::Link(_) => Ok(Vec::new()),
        }
    }

    /// What the entries of a directory stand for, but for those that are gone meanwhile.
    pub(super) fn spots_in(&self, dir: &Spot) -> io::Result<Vec<Spot>> {
        let children = self.children(dir)?.into_iter();
        children.filter_map(|(_, child)| self.child_spot(child).transpose()).collect()
    }

    fn below(&self, place: &Path, wanted: impl Fn(&OsStr) -> bool) -> io::Result<Vec<(OsString, Child)>> {
        let is_root = place.as_os_str().is_empty();
        let mut children = Vec::new();
        for (name, kind) in self.disk.read_dir(place)? {
            if wanted(&name) && !(is_root && is_state(&name)) {
                let child = Child::Base(place.join(&name), kind);
                children.push((name, child));
            }
        }
        Ok(children)
    }

    /// Where a link points.
    pub(super) fn target(&self, link: &Spot) -> io::Result<PathBuf> {
        match link {
            Spot::Link(link) => Ok(link.target.clone()),
            Spot::Base(place, _) => self.disk.read_link(place),
            Spot::Dir(_) | Spot::File(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Mode, time and version.
    pub(super) fn about(&self, spot: &Spot) -> io::Result<(Meta, FileVersion)> {
        Ok(match spot {
            Spot::Base(_, entry) => (entry.meta, entry.version()),
            Spot::File(staged) => (staged.entry().meta, staged.version()),
            Spot::Link(link) => (link.meta, link.version),
            Spot::Dir(dir) => {
                let entry = match &dir.source {
                    Some(source) => self.disk.look(source)?,
                    None => None,
                };
                let meta = dir.meta.or(entry.as_ref().map(|entry| entry.meta));
                let meta = meta.unwrap_or(Meta { mode: 0o755, modified: 0, owner: None });
                let version = entry.as_ref().map_or_else(|| made_version(meta.modified), Entry::version);
                (meta, version)
            }
        })
    }

    /// The place in the workspace that would show through at a path if the fork had nothing of its own there.
    pub(super) fn place_below(&self, path: &Path) -> Option<PathBuf> {
        let mut dir = &self.layer.root;
        let mut names = path.iter();
        while let Some(name) = names.next() {
            let rest = names.as_path();
            if rest.as_os_str().is_empty() {
                return dir.below(name);
            }
            match dir.changed.get(name) {
                Some(Node::Dir(child)) => dir = child,
                Some(Node::Moved(source)) => return Some(source.join(rest)),
                Some(_) => return None,
                None => return dir.below(name).map(|place| place.join(rest)),
            }
        }
        None
    }
}

/// The version of what has no inode yet.
pub(super) fn made_version(modified: i128) -> FileVersion {
    FileVersion::new([u64::MAX, 0, 0, modified as u64, 0])
}
