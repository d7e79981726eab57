//! What differs between two layers, and how the changes of a fork are brought onto a fork that moved on.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Dir, Layer, Node};
use crate::filesystem::FileVersion;
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
    let mut conflicts = BTreeSet::new();
    for path in differences(disk, before, after)? {
        let is_dir = |layer| {
            Ok::<_, io::Error>(matches!(View { disk, layer }.at(&path)?, Some(spot) if is_dir(&spot)))
        };
        let parent = path.parent().unwrap_or(Path::new(""));
        let has_parent = matches!(View { disk, layer: onto }.at(parent)?, Some(spot) if self::is_dir(&spot))
            || differs_at_or_above(before, after, parent);
        if !has_parent || (theirs.contains(&path) && !(is_dir(after)? && is_dir(onto)?)) {
            conflicts.insert(path);
        }
    }
    if !conflicts.is_empty() {
        return Ok(Err(conflicts));
    }
    let mut merged = onto.clone();
    for position in positions(before, after) {
        graft(&mut merged, &position.path, position.after.as_ref());
    }
    for (place, expected) in &after.records {
        merged.record(place, *expected);
    }
    Ok(Ok(merged))
}

/// Puts a node into a layer; where both have a directory, what is in it.
fn graft(layer: &mut Layer, path: &Path, node: Option<&Node>) {
    match (node, layer.node(path)) {
        (None, _) => layer.forget(path),
        (Some(Node::Dir(new)), Some(Node::Dir(old))) if new.source == old.source => {
            let new = Arc::clone(new);
            for (name, node) in &new.changed {
                graft(layer, &path.join(&**name), Some(node));
            }
        }
        (Some(node), _) => layer.put(path, node.clone()),
    }
}

fn is_dir(spot: &Spot) -> bool {
    spot.kind() == crate::filesystem::EntryKind::Directory
}

fn differs_at_or_above(before: &Layer, after: &Layer, path: &Path) -> bool {
    positions(before, after).iter().any(|position| path.starts_with(&position.path))
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
            collect(view, self.path.clone(), &spot, &mut tree)?;
        }
        Ok(tree)
    }
}

fn collect(
    view: View<'_>,
    path: PathBuf,
    spot: &Spot,
    tree: &mut BTreeMap<PathBuf, Identity>,
) -> io::Result<()> {
    if is_dir(spot) {
        for (name, child) in view.children(spot)? {
            if let Some(child) = view.child_spot(child)? {
                collect(view, path.join(name), &child, tree)?;
            }
        }
    }
    let identity = match spot {
        Spot::Base(_, entry) if entry.kind == crate::filesystem::EntryKind::Directory => Identity::Dir,
        Spot::Dir(_) => Identity::Dir,
        Spot::Base(place, entry) => Identity::Base(place.clone(), entry.version()),
        Spot::File(staged) => Identity::Made(Arc::as_ptr(staged).addr()),
        Spot::Link(link) => Identity::Made(Arc::as_ptr(link).addr()),
    };
    tree.insert(path, identity);
    Ok(())
}
