//! Snapshots: a root, and its form as JSON.

use std::sync::Arc;

use serde_json::Value;

use crate::filesystem::stored::{self, Held, StoredEntry};
use crate::filesystem::{FsError, FsLimits, FsPath, FsResult, FsSnapshot, SnapshotData};

use super::tree::{self, Dir, File, Node, Place, Stamp, locate};
use super::{Instance, MemoryFilesystem};

struct MemorySnapshot {
    /// The filesystem it was taken from; none when it came from JSON.
    instance: Option<Instance>,
    root: Arc<Dir>,
}

impl MemoryFilesystem {
    pub(super) fn do_snapshot(&self) -> FsSnapshot {
        FsSnapshot::new(MemorySnapshot { instance: Some(self.instance), root: self.root() })
    }

    pub(super) fn do_restore(&self, snapshot: &FsSnapshot) -> FsResult<()> {
        let Some(snapshot) = snapshot.downcast_ref::<MemorySnapshot>() else {
            return Err(FsError::Foreign { what: "snapshot" });
        };
        let mut state = self.settled();
        if Arc::ptr_eq(&state.root, &snapshot.root) {
            return Ok(());
        }
        self.writable()?;
        // Own snapshots differ from the origin only where this fork was touched already; others may anywhere.
        if snapshot.instance != Some(self.instance) {
            self.touch(&mut state, &FsPath::root());
        }
        state.root = snapshot.root.clone();
        Ok(())
    }
}

fn stored(path: &FsPath, node: &Node) -> StoredEntry {
    let (held, Stamp { version, modified, mode }) = match node {
        Node::Dir(dir) => (Held::Directory, dir.stamp),
        Node::File(file) => (Held::File(file.content.to_vec()), file.stamp),
    };
    StoredEntry::new(path, held, mode, modified, version)
}

fn node(mut entry: StoredEntry) -> Result<Node, &'static str> {
    let stamp = Stamp { version: entry.version, modified: entry.modified, mode: entry.mode };
    match entry.held()? {
        Held::Directory => Ok(Node::Dir(Arc::new(Dir::empty(stamp)))),
        Held::File(content) => Ok(Node::File(Arc::new(File { content: Arc::from(content), stamp }))),
        Held::Link(_) => Err("there are no links in memory"),
    }
}

impl SnapshotData for MemorySnapshot {
    fn is_same(&self, other: &FsSnapshot) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| Arc::ptr_eq(&self.root, &other.root))
    }

    fn to_json(&self) -> Value {
        let root = FsPath::root();
        let mut entries = vec![stored(&root, &Node::Dir(self.root.clone()))];
        // A visit that does not fail.
        let _ = tree::walk(&root, &self.root, usize::MAX, &mut |path, node| {
            entries.push(stored(&path, node));
            Ok(())
        });
        stored::encode(&entries)
    }
}

/// Reads what `to_json` wrote: the root first, every directory before what is in it.
pub(super) fn decode(json: &Value, limits: &FsLimits) -> FsResult<FsSnapshot> {
    let mut root: Option<Arc<Dir>> = None;
    stored::decode(json, |entry| {
        let path = FsPath::parse(&entry.path, limits).map_err(|error| error.to_string())?;
        match (&mut root, node(entry)?) {
            (None, Node::Dir(dir)) if path.is_root() => root = Some(dir),
            (None, _) => return Err("the first entry is not the root directory".to_owned()),
            (Some(root), node) => add(root, &path, node)?,
        }
        Ok(())
    })?;
    let reason = "there is no root directory".to_owned();
    let root = root.ok_or(FsError::SnapshotMalformed { reason })?;
    Ok(FsSnapshot::new(MemorySnapshot { instance: None, root }))
}

/// Adds a node without changing the stamp of the directory that it is in.
fn add(root: &mut Arc<Dir>, path: &FsPath, node: Node) -> Result<(), &'static str> {
    let parent = path.parent().ok_or("the root occurs twice")?;
    let stamp = match (locate(root, &parent), locate(root, path)) {
        (Ok(Place::Dir(dir)), Ok(Place::Missing { .. })) => dir.stamp,
        (Ok(Place::Dir(_)), _) => return Err("the path occurs twice"),
        _ => return Err("the directory that it is in does not come before it"),
    };
    tree::insert(root, path, node, &stamp);
    Ok(())
}
