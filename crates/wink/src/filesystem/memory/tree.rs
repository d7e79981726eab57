//! The persistent tree: directories are persistent maps behind `Arc`, so a copy costs nothing, a change
//! copies the directories on its path, and moving a directory moves one pointer.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use jiff::Timestamp;

use crate::filesystem::path::segments;
use crate::filesystem::{FileVersion, FsError, FsPath, FsResult};

/// What is known about a node beside its contents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stamp {
    pub(super) version: FileVersion,
    pub(super) modified: Timestamp,
    pub(super) mode: u32,
}

#[derive(Debug, PartialEq)]
pub(super) struct File {
    pub(super) stamp: Stamp,
    pub(super) content: Arc<[u8]>,
}

pub(super) type Entries = OrdMap<Arc<str>, Node>;

#[derive(Debug, Clone)]
pub(super) struct Dir {
    pub(super) entries: Entries,
    pub(super) stamp: Stamp,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    File(Arc<File>),
    Dir(Arc<Dir>),
}

/// Whether nothing happened between the two: every write makes a new version. Contents are compared only for
/// what came back from JSON, where a version is what somebody says it is.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(two)) => Arc::ptr_eq(one, two) || one == two,
            (Self::Dir(one), Self::Dir(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }
}

impl Dir {
    pub(super) const MODE: u32 = 0o755;

    pub(super) fn empty(stamp: Stamp) -> Self {
        Self { entries: OrdMap::new(), stamp }
    }

    /// Notes that an entry came or went.
    fn touch(&mut self, stamp: &Stamp) {
        self.stamp = Stamp { mode: self.stamp.mode, ..*stamp };
    }
}

/// What a path leads to.
pub(super) enum Place<'a> {
    File(&'a Arc<File>),
    Dir(&'a Arc<Dir>),
    /// Nothing; the first `present` segments are directories.
    Missing {
        present: usize,
    },
}

/// Follows `path`. A file where a directory is needed is an error that names the file.
pub(super) fn locate<'a>(root: &'a Arc<Dir>, path: &FsPath) -> FsResult<Place<'a>> {
    let mut place = Place::Dir(root);
    for (depth, segment) in path.segments().enumerate() {
        let Place::Dir(dir) = place else { return Err(FsError::NotDirectory { path: path.prefix(depth) }) };
        place = match dir.entries.get(segment) {
            Some(Node::Dir(child)) => Place::Dir(child),
            Some(Node::File(file)) => Place::File(file),
            None => return Ok(Place::Missing { present: depth }),
        };
    }
    Ok(place)
}

/// The node at `path`, if there is one.
pub(super) fn node_at(root: &Arc<Dir>, path: &FsPath) -> Option<Node> {
    match locate(root, path).ok()? {
        Place::File(file) => Some(Node::File(file.clone())),
        Place::Dir(dir) => Some(Node::Dir(dir.clone())),
        Place::Missing { .. } => None,
    }
}

/// The directory that `path` is in, to be changed, and the name in it. All above it exist.
fn parent_mut<'a, 'b>(root: &'a mut Arc<Dir>, path: &'b FsPath) -> Option<(&'a mut Dir, &'b str)> {
    let (parents, name) = path.split_last()?;
    let mut dir = Arc::make_mut(root);
    for segment in segments(parents) {
        let Node::Dir(child) = dir.entries.get_mut(segment)? else { return None };
        dir = Arc::make_mut(child);
    }
    Some((dir, name))
}

/// Puts `file` in the place of the one at `path`, which the caller knows to be there.
pub(super) fn replace(root: &mut Arc<Dir>, path: &FsPath, file: Node) {
    if let Some((dir, name)) = parent_mut(root, path)
        && let Some(slot) = dir.entries.get_mut(name)
    {
        *slot = file;
    }
}

/// Puts `node` at `path`, where nothing is, making missing parents, which get `stamp`. The caller has made
/// sure that no parent is a file; if one is, nothing happens.
pub(super) fn insert(root: &mut Arc<Dir>, path: &FsPath, node: Node, stamp: &Stamp) {
    let Some((parents, name)) = path.split_last() else { return };
    let mut dir = Arc::make_mut(root);
    for segment in segments(parents) {
        if !dir.entries.contains_key(segment) {
            let made = Dir::empty(Stamp { mode: Dir::MODE, ..*stamp });
            dir.entries.insert(Arc::from(segment), Node::Dir(Arc::new(made)));
            dir.touch(stamp);
        }
        let Some(Node::Dir(child)) = dir.entries.get_mut(segment) else { return };
        dir = Arc::make_mut(child);
    }
    dir.entries.insert(Arc::from(name), node);
    dir.touch(stamp);
}

/// Takes out what is at `path`, which the caller knows to be there.
pub(super) fn remove(root: &mut Arc<Dir>, path: &FsPath, stamp: &Stamp) -> Option<Node> {
    let (dir, name) = parent_mut(root, path)?;
    let removed = dir.entries.remove(name)?;
    dir.touch(stamp);
    Some(removed)
}

/// Segments below the deepest directory or file of `node`: 0 for a file or an empty directory.
pub(super) fn height(node: &Node) -> usize {
    match node {
        Node::File(_) => 0,
        Node::Dir(dir) => dir.entries.values().map(|child| 1 + height(child)).max().unwrap_or(0),
    }
}

/// Calls `visit` for everything below `dir`, at most `depth` segments down.
pub(super) fn walk(
    path: &FsPath,
    dir: &Dir,
    depth: usize,
    visit: &mut impl FnMut(FsPath, &Node) -> FsResult<()>,
) -> FsResult<()> {
    let Some(below) = depth.checked_sub(1) else { return Ok(()) };
    for (name, node) in &dir.entries {
        let child = path.child(name);
        visit(child.clone(), node)?;
        if let Node::Dir(dir) = node {
            walk(&child, dir, below, visit)?;
        }
    }
    Ok(())
}

/// Whether there are at most so many entries and bytes below a directory. Counts no further.
pub(super) fn is_within(dir: &Dir, mut entries: usize, mut bytes: usize) -> bool {
    let mut dirs = vec![dir];
    while let Some(dir) = dirs.pop() {
        for node in dir.entries.values() {
            let length = match node {
                Node::File(file) => file.content.len(),
                Node::Dir(dir) => {
                    dirs.push(dir);
                    0
                }
            };
            match (entries.checked_sub(1), bytes.checked_sub(length)) {
                (Some(fewer), Some(less)) => (entries, bytes) = (fewer, less),
                _ => return false,
            }
        }
    }
    true
}

/// A path that differs between two trees. A directory stands for itself, not for what is in it.
pub(super) struct Change {
    pub(super) before: Option<Node>,
    pub(super) after: Option<Node>,
}

/// Adds every path at or below `path` that differs. Costs as much as there are differences, since equal
/// parts are shared.
pub(super) fn diff(
    path: &FsPath,
    before: Option<&Node>,
    after: Option<&Node>,
    changes: &mut BTreeMap<FsPath, Change>,
) {
    if before == after {
        return;
    }
    let (old, new) = (entries(before), entries(after));
    if old.is_none() || new.is_none() {
        changes.insert(path.clone(), Change { before: before.cloned(), after: after.cloned() });
    }
    if old.is_none() && new.is_none() {
        return;
    }
    let none = Entries::new();
    for item in old.unwrap_or(&none).diff(new.unwrap_or(&none)) {
        match item {
            DiffItem::Add(name, new) => diff(&path.child(name), None, Some(new), changes),
            DiffItem::Update { old: (name, old), new: (_, new) } => {
                diff(&path.child(name), Some(old), Some(new), changes);
            }
            DiffItem::Remove(name, old) => diff(&path.child(name), Some(old), None, changes),
        }
    }
}

fn entries(node: Option<&Node>) -> Option<&Entries> {
    match node? {
        Node::Dir(dir) => Some(&dir.entries),
        Node::File(_) => None,
    }
}
