//! Forks and how they come back: by replacing the root when the base stood still, else path by path.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex};

use jiff::Timestamp;

use crate::filesystem::{FileVersion, Filesystem, FsError, FsPath, FsResult, MergeReceipt};
use crate::support::lock::lock;

use super::tree::{self, Change, Dir, File, Node, Place, Stamp, locate, node_at};
use super::{Instance, MemoryFilesystem, Overwrite, State};

/// What a fork has while it has let go of everything.
static NOTHING: LazyLock<Arc<Dir>> = LazyLock::new(|| {
    let version = FileVersion::new([0; 5]);
    Arc::new(Dir::empty(Stamp { version, modified: Timestamp::UNIX_EPOCH, mode: Dir::MODE }))
});

/// What a merge did.
struct Merged {
    instance: Instance,
    before: Before,
    after: Arc<Dir>,
}

/// What there was before it.
enum Before {
    Root(Arc<Dir>),
    File(FsPath, Arc<File>),
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
            origin: Some(self.instance),
            state: Mutex::new(State { start: Some(root.clone()), ..State::of(root) }),
        }
    }

    pub(super) fn do_merge(&self, fork: &dyn Filesystem) -> FsResult<MergeReceipt> {
        let foreign = FsError::Foreign { what: "fork" };
        let Some(fork) = fork.as_any().downcast_ref::<Self>() else { return Err(foreign) };
        if fork.origin != Some(self.instance) {
            return Err(foreign);
        }
        let overwritten = lock(&fork.state).first.is_some();
        if overwritten {
            self.writable()?;
            if let Some(receipt) = self.merge_overwrite(fork) {
                return Ok(receipt);
            }
        }
        let (start, root, touched) = {
            let fork = fork.settled();
            (fork.start.clone(), fork.root.clone(), fork.touched.clone())
        };
        let Some(start) = start else { return Err(foreign) };
        let stamp = self.stamp(Dir::MODE);
        let mut state = self.settled();
        let before = state.root.clone();
        if !Arc::ptr_eq(&root, &start) {
            self.writable()?;
            if self.origin.is_some() {
                state.touched.extend(touched.iter().cloned());
            }
            state.root = if Arc::ptr_eq(&before, &start) {
                root
            } else {
                rebase(&before, differences(&start, &root, &touched), &stamp)?
            };
        }
        let (instance, after) = (self.instance, state.root.clone());
        Ok(MergeReceipt::new(Merged { instance, before: Before::Root(before), after }))
    }

    /// Merges a fork that did nothing but overwrite a file, if the base stood still. The fork lets go of the roots it
    /// shares with the base first, so that unless somebody else looks at them nothing has to be copied.
    fn merge_overwrite(&self, fork: &Self) -> Option<MergeReceipt> {
        // Nobody locks a fork while holding its base.
        let mut theirs = lock(&fork.state);
        let mut state = lock(&self.state);
        let still = theirs.start.as_ref().is_some_and(|start| Arc::ptr_eq(start, &state.root));
        if !still || self.origin.is_some() || state.first.is_some() {
            return None;
        }
        let Overwrite { path, old, new } = theirs.first.take()?;
        theirs.start = None;
        theirs.root = Arc::clone(&NOTHING);
        tree::replace(&mut state.root, &path, Node::File(new));
        theirs.root = state.root.clone();
        theirs.start = Some(state.root.clone());
        theirs.merged = Some((path.clone(), Arc::clone(&old)));
        let (instance, after) = (self.instance, state.root.clone());
        Some(MergeReceipt::new(Merged { instance, before: Before::File(path, old), after }))
    }

    pub(super) fn do_unmerge(&self, receipt: MergeReceipt) -> FsResult<()> {
        let merged: Merged = receipt.downcast().ok_or(FsError::Foreign { what: "merge receipt" })?;
        if merged.instance != self.instance {
            return Err(FsError::Foreign { what: "merge receipt" });
        }
        if matches!(&merged.before, Before::Root(before) if Arc::ptr_eq(before, &merged.after)) {
            return Ok(());
        }
        let mut state = self.settled();
        if !Arc::ptr_eq(&state.root, &merged.after) {
            return Err(FsError::Moved);
        }
        match merged.before {
            Before::Root(before) => state.root = before,
            Before::File(path, old) => tree::replace(&mut state.root, &path, Node::File(old)),
        }
        Ok(())
    }

    pub(super) fn do_changes(&self) -> Vec<FsPath> {
        let state = self.settled();
        let Some(start) = &state.start else { return Vec::new() };
        differences(start, &state.root, &state.touched).into_keys().collect()
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
