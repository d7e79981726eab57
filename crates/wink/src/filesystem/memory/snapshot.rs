//! Snapshots: a root, and its form as JSON.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::filesystem::{
    EntryKind, FileVersion, FsError, FsLimits, FsPath, FsResult, FsSnapshot, SnapshotData,
};

use super::tree::{self, Dir, File, Node, Place, Stamp, locate};
use super::{Instance, MemoryFilesystem};

/// The JSON form that is written and read.
const FORMAT: u32 = 1;

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

/// One file or directory.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: String,
    kind: EntryKind,
    mode: u32,
    modified: Timestamp,
    version: FileVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl Entry {
    fn new(path: &FsPath, kind: EntryKind, stamp: Stamp) -> Self {
        let Stamp { version, modified, mode } = stamp;
        Self { path: path.as_str().to_owned(), kind, mode, modified, version, text: None, hex: None }
    }

    fn of(path: &FsPath, node: &Node) -> Self {
        match node {
            Node::Dir(dir) => Self::new(path, EntryKind::Directory, dir.stamp),
            Node::File(file) => {
                let entry = Self::new(path, EntryKind::File, file.stamp);
                match std::str::from_utf8(&file.content) {
                    Ok(text) => Self { text: Some(text.to_owned()), ..entry },
                    Err(_) => Self { hex: Some(to_hex(&file.content)), ..entry },
                }
            }
        }
    }

    fn node(self) -> Result<Node, &'static str> {
        let stamp = Stamp { version: self.version, modified: self.modified, mode: self.mode };
        let content: Arc<[u8]> = match (self.kind, self.text, self.hex) {
            (EntryKind::Directory, None, None) => return Ok(Node::Dir(Arc::new(Dir::empty(stamp)))),
            (EntryKind::File, Some(text), None) => Arc::from(text.into_bytes()),
            (EntryKind::File, None, Some(hex)) => from_hex(&hex).ok_or("'hex' is not hexadecimal")?,
            _ => return Err("a file has 'text' or 'hex', a directory neither, and there is nothing else"),
        };
        Ok(Node::File(Arc::new(File { content, stamp })))
    }
}

impl SnapshotData for MemorySnapshot {
    fn is_same(&self, other: &FsSnapshot) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| Arc::ptr_eq(&self.root, &other.root))
    }

    fn to_json(&self) -> Value {
        let root = FsPath::root();
        let mut entries = vec![Entry::of(&root, &Node::Dir(self.root.clone()))];
        tree::walk(&root, &self.root, usize::MAX, &mut |path, node| entries.push(Entry::of(&path, node)));
        json!({ "format": FORMAT, "entries": entries })
    }
}

/// Reads what `to_json` wrote: the root first, every directory before what is in it.
pub(super) fn decode(json: &Value, limits: &FsLimits) -> FsResult<FsSnapshot> {
    let malformed = |reason: String| FsError::SnapshotMalformed { reason };
    match json.get("format") {
        None => return Err(malformed("an object with 'format' and 'entries' is expected".to_owned())),
        Some(format) if *format == json!(FORMAT) => {}
        Some(format) => {
            return Err(FsError::SnapshotVersion { found: format.to_string(), supported: FORMAT });
        }
    }
    let Some(Value::Array(entries)) = json.get("entries") else {
        return Err(malformed("'entries' is not a list".to_owned()));
    };
    let mut root: Option<Arc<Dir>> = None;
    for (index, value) in entries.iter().enumerate() {
        let bad = |reason: &dyn std::fmt::Display| malformed(format!("entry {index}: {reason}"));
        let entry = Entry::deserialize(value).map_err(|error| bad(&error))?;
        let path = FsPath::parse(&entry.path, limits).map_err(|error| bad(&error))?;
        let node = entry.node().map_err(|reason| bad(&reason))?;
        match (&mut root, node) {
            (None, Node::Dir(dir)) if path.is_root() => root = Some(dir),
            (None, _) => return Err(bad(&"the first entry is not the root directory")),
            (Some(root), node) => add(root, &path, node).map_err(|reason| bad(&reason))?,
        }
    }
    let root = root.ok_or_else(|| malformed("there is no root directory".to_owned()))?;
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

fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hex(text: &str) -> Option<Arc<[u8]>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
