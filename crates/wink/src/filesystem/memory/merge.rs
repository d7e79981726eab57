//! Forks and how they come back: by replacing the root when the base stood still, else path by path.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::filesystem::{Filesystem, FsError, FsPath, FsResult, MergeReceipt};
use crate::support::lock::lock;

use super::tree::{self, Change, Dir, Node, Place, Stamp, locate, node_at};
use super::{Instance, MemoryFilesystem, Origin, State};

/// The roots around a merge.
struct Merged {
    instance: Instance,
    before: Arc<Dir>,
    after: Arc<Dir>,
}

impl MemoryFilesystem {
    pub(super) fn do_fork(&self) -> Self {
        let root = self.root();
        Self {
            limits: self.limits,
            clock: self.clock.clone(),
            access: self.access,
            numbers: self.numbers.clone(),
            instance: self.numbers.instance(),
            origin: Some(Origin { instance: self.instance, root: root.clone() }),
            state: Mutex::new(State { root, touched: BTreeSet::new() }),
        }
    }

    pub(super) fn do_merge(&self, fork: &dyn Filesystem) -> FsResult<MergeReceipt> {
        let foreign = FsError::Foreign { what: "fork" };
        let Some(fork) = fork.as_any().downcast_ref::<Self>() else { return Err(foreign) };
        let Some(origin) = &fork.origin else { return Err(foreign) };
        if origin.instance != self.instance {
            return Err(foreign);
        }
        let root = fork.root();
        let stamp = self.stamp(Dir::MODE);
        let mut state = lock(&self.state);
        let before = state.root.clone();
        if !Arc::ptr_eq(&root, &origin.root) {
            self.writable()?;
            // Read after the root, so they cover at least what that root contains.
            let touched = || lock(&fork.state).touched.clone();
            if self.origin.is_some() {
                state.touched.extend(touched());
            }
            state.root = if Arc::ptr_eq(&before, &origin.root) {
                root
            } else {
                rebase(&before, differences(&origin.root, &root, &touched()), &stamp)?
            };
        }
        Ok(MergeReceipt::new(Merged { instance: self.instance, before, after: state.root.clone() }))
    }

    pub(super) fn do_unmerge(&self, receipt: MergeReceipt) -> FsResult<()> {
        let merged: Merged = receipt.downcast().ok_or(FsError::Foreign { what: "merge receipt" })?;
        if merged.instance != self.instance {
            return Err(FsError::Foreign { what: "merge receipt" });
        }
        if Arc::ptr_eq(&merged.before, &merged.after) {
            return Ok(());
        }
        let mut state = lock(&self.state);
        if !Arc::ptr_eq(&state.root, &merged.after) {
            return Err(FsError::Moved);
        }
        state.root = merged.before;
        Ok(())
    }

    pub(super) fn do_changes(&self) -> Vec<FsPath> {
        let Some(origin) = &self.origin else { return Vec::new() };
        let state = lock(&self.state);
        differences(&origin.root, &state.root, &state.touched).into_keys().collect()
    }
}

/// What differs between two roots, at or below the given paths.
fn differences(before: &Arc<Dir>, after: &Arc<Dir>, touched: &BTreeSet<FsPath>) -> BTreeMap<FsPath, Change> {
    let mut changes = BTreeMap::new();
    for path in touched {
        tree::diff(path, node_at(before, path).as_ref(), node_at(after, path).as_ref(), &mut changes);
    }
    changes
}

/// `base` with the changes applied, unless it differs from what one of them started from.
fn rebase(base: &Arc<Dir>, changes: BTreeMap<FsPath, Change>, stamp: &Stamp) -> FsResult<Arc<Dir>> {
    let mut root = base.clone();
    let mut conflicts = BTreeSet::new();
    for (path, change) in &changes {
        if !applies(node_at(base, path).as_ref(), change) {
            conflicts.insert(path.clone());
        }
    }
    // Children come after their parents in path order: removed first, made last.
    for (path, change) in changes.iter().rev().filter(|(_, change)| change.before.is_some()) {
        let replaced = matches!((&change.before, &change.after), (Some(Node::File(_)), Some(Node::File(_))));
        match locate(&root, path) {
            // Somebody put something into a directory that is gone in the fork.
            Ok(Place::Dir(dir)) if !dir.entries.is_empty() => _ = conflicts.insert(path.clone()),
            Ok(Place::File(_)) if replaced => {}
            Ok(Place::Dir(_) | Place::File(_)) => _ = tree::remove(&mut root, path, stamp),
            _ => {}
        }
    }
    for (path, change) in changes {
        let Some(node) = change.after else { continue };
        let has_parent = path.parent().is_some_and(|dir| matches!(locate(&root, &dir), Ok(Place::Dir(_))));
        match (node, locate(&root, &path)) {
            _ if !has_parent => _ = conflicts.insert(path),
            (Node::Dir(_), Ok(Place::Dir(_))) => {}
            // What is in it are changes of their own.
            (Node::Dir(dir), _) => {
                tree::insert(&mut root, &path, Node::Dir(Arc::new(Dir::empty(dir.stamp))), stamp);
            }
            (file, Ok(Place::File(_))) => tree::replace(&mut root, &path, file),
            (file, _) => tree::insert(&mut root, &path, file, stamp),
        }
    }
    if conflicts.is_empty() {
        Ok(root)
    } else {
        Err(FsError::Conflict { paths: conflicts.into_iter().collect() })
    }
}

/// Whether the base still has what the change started from, or has the very result already.
fn applies(base: Option<&Node>, change: &Change) -> bool {
    match (base, &change.before, &change.after) {
        (None, before, _) => before.is_none(),
        (Some(node), _, Some(after)) if node == after => true,
        (Some(Node::Dir(_)), None, Some(Node::Dir(_))) => true,
        (Some(Node::Dir(_)), Some(Node::Dir(_)), _) => true,
        (Some(node), Some(before), _) => node == before,
        (Some(_), None, _) => false,
    }
}
