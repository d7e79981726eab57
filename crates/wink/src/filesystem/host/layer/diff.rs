//! What differs between two layers, and how the changes of a fork are brought onto a fork that moved on.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Dir, Expected, Layer, Node};
use crate::filesystem::FileVersion;
use crate::filesystem::host::disk::look_in_tree;
use crate::filesystem::host::host_disk::HostDisk;
use crate::filesystem::host::view::{Spot, View};

/// Every path that differs between two layers. A directory stands for itself, not for what is in it.
pub(in crate::filesystem::host) fn differences(
    disk: &HostDisk,
    before: &Layer,
    after: &Layer,
) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for position in positions(before, after) {
        let (one, two) =
            (position.tree(disk, before, &position.before)?, position.tree(disk, after, &position.after)?);
        found.extend(
            one.iter().filter(|(path, what)| two.get(*path) != Some(what)).map(|(path, _)| path.clone()),
        );
        found.extend(two.into_iter().filter(|(path, _)| !one.contains_key(path)).map(|(path, _)| path));
    }
    Ok(found)
}

/// `onto` with what changed from `before` to `after`; the paths that both changed if there are some.
pub(in crate::filesystem::host) fn rebase(
    disk: &HostDisk,
    before: &Layer,
    after: &Layer,
    onto: &Layer,
) -> io::Result<Result<Layer, BTreeSet<PathBuf>>> {
    let theirs = differences(disk, before, onto)?;
    let is_dir_in = |layer, path: &Path| -> io::Result<bool> {
        Ok(matches!(View { disk, layer }.at(path)?, Some(spot) if is_dir(&spot)))
    };
    let positions = positions(before, after);
    let starts: BTreeSet<&Path> = positions.iter().map(|position| &*position.path).collect();
    let mut conflicts = BTreeSet::new();
    for path in differences(disk, before, after)? {
        let parent = path.parent().unwrap_or(Path::new(""));
        let has_parent = is_dir_in(onto, parent)? || parent.ancestors().any(|above| starts.contains(above));
        let (stays, is_theirs_dir) = (is_dir_in(after, &path)?, is_dir_in(onto, &path)?);
        let mut conflict = !has_parent || (theirs.contains(&path) && !(stays && is_theirs_dir));
        if is_theirs_dir && !stays {
            // Something new in a directory that is no more.
            for inside in theirs.range::<PathBuf, _>(&path..).take_while(|inside| inside.starts_with(&path)) {
                conflict = conflict || View { disk, layer: onto }.at(inside)?.is_some();
            }
        }
        if conflict {
            conflicts.insert(path);
        }
    }
    if !conflicts.is_empty() {
        return Ok(Err(conflicts));
    }
    let mut merged = onto.clone();
    merged.record_all(after);
    for position in &positions {
        let is_theirs = theirs
            .range::<PathBuf, _>(&position.path..)
            .next()
            .is_some_and(|path| path.starts_with(&position.path));
        match &position.after {
            _ if is_theirs => position.graft(disk, before, after, &mut merged)?,
            Some(node) => merged.put(&position.path, node.clone()),
            None => merged.forget(&position.path),
        }
    }
    Ok(Ok(merged))
}

fn is_dir(spot: &Spot) -> bool {
    spot.kind() == crate::filesystem::EntryKind::Directory
}

/// A place where two layers begin to differ.
struct Position {
    path: PathBuf,
    before: Option<Node>,
    after: Option<Node>,
    /// What shows through where a layer has no node.
    below: Option<PathBuf>,
}

/// What tells entries apart.
#[derive(PartialEq, Eq)]
enum Identity {
    Dir,
    Base(PathBuf, FileVersion),
    Made(usize),
}

fn positions(before: &Layer, after: &Layer) -> Vec<Position> {
    let mut found = Vec::new();
    between(Path::new(""), &before.root, &after.root, &mut found);
    found
}

/// Both have the same source.
fn between(path: &Path, before: &Arc<Dir>, after: &Arc<Dir>, found: &mut Vec<Position>) {
    if Arc::ptr_eq(before, after) {
        return;
    }
    let names: BTreeSet<_> = before.changed.keys().chain(after.changed.keys()).collect();
    for name in names {
        let (one, two) = (before.changed.get(name), after.changed.get(name));
        if matches!((one, two), (Some(one), Some(two)) if one.is(two)) {
            continue;
        }
        let below = after.below(name);
        let path = path.join(&**name);
        match (as_dir(one, below.as_deref()), as_dir(two, below.as_deref())) {
            // With nothing of a layer on one side there must be one on the other.
            (Some(one), Some(two)) if one.source == two.source => between(&path, &one, &two, found),
            _ => found.push(Position { path, before: one.cloned(), after: two.cloned(), below }),
        }
    }
}

/// The node as a directory of a layer. What shows through may be anything, and is taken for one: if the other side has
/// a directory over the same place, it is.
fn as_dir(node: Option<&Node>, below: Option<&Path>) -> Option<Arc<Dir>> {
    match node {
        Some(Node::Dir(dir)) => Some(Arc::clone(dir)),
        Some(Node::Moved(source)) => Some(Arc::new(Dir::over(Arc::clone(source)))),
        Some(_) => None,
        None => below.map(|place| Arc::new(Dir::over(Arc::from(place)))),
    }
}

impl Position {
    /// Brings the changes at and below it into a layer that has changes there as well, path by path.
    fn graft(&self, disk: &HostDisk, before: &Layer, after: &Layer, layer: &mut Layer) -> io::Result<()> {
        let (one, two) = (self.tree(disk, before, &self.before)?, self.tree(disk, after, &self.after)?);
        // What is in a directory comes after it: it goes first.
        for path in one.keys().rev().filter(|path| !two.contains_key(*path)) {
            let place = View { disk, layer }.place_below(path);
            let is_below = place.map_or(Ok(None), |place| look_in_tree(disk, &place))?.is_some();
            layer.remove(path, is_below);
        }
        for (path, _) in two.iter().filter(|(path, what)| one.get(*path) != Some(what)) {
            let Some(spot) = (View { disk, layer: after }).at(path)? else { continue };
            let below = View { disk, layer }.place_below(path);
            let node = match &spot {
                Spot::File(staged) => Node::File(Arc::clone(staged)),
                Spot::Link(link) => Node::Link(Arc::clone(link)),
                Spot::Base(place, entry) if !is_dir(&spot) => {
                    layer.record(place, Expected::exactly(Some(entry)));
                    Node::Moved(Arc::from(&**place))
                }
                Spot::Base(..) | Spot::Dir(_) => {
                    if matches!(View { disk, layer }.at(path)?, Some(there) if is_dir(&there)) {
                        continue;
                    }
                    Node::Dir(Arc::new(Dir::new(View { disk, layer: after }.about(&spot)?.0)))
                }
            };
            match &node {
                Node::Moved(place) if below.as_deref() == Some(place) => layer.forget(path),
                _ => layer.put(path, node),
            }
        }
        Ok(())
    }

    /// Everything at and below it on one side.
    fn tree(
        &self,
        disk: &HostDisk,
        layer: &Layer,
        node: &Option<Node>,
    ) -> io::Result<BTreeMap<PathBuf, Identity>> {
        let view = View { disk, layer };
        let spot = match (node, &self.below) {
            (Some(node), _) => view.spot(node)?,
            (None, Some(place)) => view.base(place.clone())?,
            (None, None) => None,
        };
        let mut tree = BTreeMap::new();
        if let Some(spot) = spot {
            collect(view, self.path.clone(), spot, &mut tree)?;
        }
        Ok(tree)
    }
}

/// However deep it is: not by calling itself.
fn collect(
    view: View<'_>,
    path: PathBuf,
    spot: Spot,
    tree: &mut BTreeMap<PathBuf, Identity>,
) -> io::Result<()> {
    let mut left = vec![(path, spot)];
    while let Some((path, spot)) = left.pop() {
        if is_dir(&spot) {
            for (name, child) in view.children(&spot)? {
                if let Some(child) = view.child_spot(child)? {
                    left.push((path.join(name), child));
                }
            }
        }
        let identity = match &spot {
            Spot::Base(_, entry) if entry.kind == crate::filesystem::EntryKind::Directory => Identity::Dir,
            Spot::Dir(_) => Identity::Dir,
            Spot::Base(place, entry) => Identity::Base(place.clone(), entry.version()),
            Spot::File(staged) => Identity::Made(Arc::as_ptr(staged).addr()),
            Spot::Link(link) => Identity::Made(Arc::as_ptr(link).addr()),
        };
        tree.insert(path, identity);
    }
    Ok(())
}
