//! Snapshots: of a fork its layer, of the workspace the number of its last journal, and from JSON a whole tree.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::disk::{Disk, Meta};
use super::fork::journal_error;
use super::journal::Pin;
use super::layer::{Layer, Link, Node};
use super::name::{parse, shown, to_disk};
use super::view::{Spot, View, made_version};
use super::{Base, Shared, io_error};
use crate::filesystem::stored::{self, Held, StoredEntry};
use crate::filesystem::{EntryKind, FsError, FsPath, FsResult, FsSnapshot, SnapshotData};
use crate::limits::CancelToken;
use crate::support::lock::lock;

enum Mark {
    /// Of a fork.
    Fork(Arc<Base>, Layer),
    /// Of the workspace. It can be gone back to as long as this lives. Without a pin it is only looked at.
    Workspace(Arc<Base>, Option<Pin>),
    /// From JSON.
    Tree(Tree),
}

struct Tree {
    json: Value,
    entries: BTreeMap<PathBuf, TreeEntry>,
}

struct TreeEntry {
    held: Held,
    meta: Meta,
}

impl Shared {
    pub(super) fn snapshot(&self) -> FsResult<FsSnapshot> {
        let base = Arc::clone(&self.base);
        Ok(FsSnapshot::new(match (&self.fork, &self.base.writing) {
            (Some(fork), _) => Mark::Fork(base, lock(&fork.state).layer.clone()),
            (None, None) => Mark::Workspace(base, None),
            (None, Some(writing)) => {
                let pin = writing.journal.pin_now().map_err(|error| journal_error(&error))?;
                Mark::Workspace(base, Some(pin))
            }
        }))
    }

    pub(super) fn restore(&self, snapshot: &FsSnapshot) -> FsResult<()> {
        let foreign = FsError::Foreign { what: "snapshot" };
        let mark: &Mark = snapshot.downcast_ref().ok_or(foreign.clone())?;
        match mark {
            Mark::Fork(base, _) | Mark::Workspace(base, _) if !Arc::ptr_eq(base, &self.base) => {
                return Err(foreign);
            }
            // Nothing was changed by us.
            Mark::Workspace(_, None) => return Ok(()),
            _ => {}
        }
        // What is left undecided is not the way to the mark, and would be in the way of whoever merges this.
        let lock = match (&self.fork, mark) {
            (Some(_), Mark::Workspace(..) | Mark::Tree(_)) => Some(self.locked(&CancelToken::new())?),
            (Some(_), Mark::Fork(..)) | (None, _) => None,
        };
        let restore = |base: &Base, layer: &mut Layer| {
            let writing = base.writing()?;
            // Modes are only lifted under the workspace lock.
            let lifting = if lock.is_some() { Some(writing.lifting()?) } else { None };
            *layer = base.layer_of(mark)?;
            lifting.map_or(Ok(()), |lifting| writing.end_lifting(lifting, layer))
        };
        match mark {
            // What a fork had before was judged then.
            Mark::Fork(..) => self.change_under(None, restore).map(drop),
            Mark::Workspace(..) | Mark::Tree(_) => self.take_back(restore).map(drop),
        }
    }

    pub(super) fn decode_snapshot(&self, json: &Value) -> FsResult<FsSnapshot> {
        let mut entries: BTreeMap<PathBuf, TreeEntry> = BTreeMap::new();
        stored::decode(json, |mut entry| {
            // Held to no limits: what was on disk before may be again.
            let path: FsPath = serde_json::from_value(Value::String(entry.path.clone()))
                .map_err(|error: serde_json::Error| error.to_string())?;
            let path = to_disk(&path).map_err(|error| error.to_string())?;
            let held = entry.held()?;
            let is_dir = |held: &Held| matches!(held, Held::Directory);
            match path.parent() {
                None if !is_dir(&held) || !entries.is_empty() => {
                    return Err("the first entry, and no other, is the root directory".to_owned());
                }
                Some(parent) if !entries.get(parent).is_some_and(|entry| is_dir(&entry.held)) => {
                    return Err("the directory that it is in does not come before it".to_owned());
                }
                _ => {}
            }
            if super::view::is_in_state(&path) {
                return Err("it is where the runtime keeps its own state".to_owned());
            }
            let meta =
                Meta { mode: entry.mode & 0o7777, modified: entry.modified.as_nanosecond(), owner: None };
            match entries.insert(path, TreeEntry { held, meta }) {
                None => Ok(()),
                Some(_) => Err("the path occurs twice".to_owned()),
            }
        })?;
        if entries.is_empty() {
            return Err(FsError::SnapshotMalformed { reason: "there is no root directory".to_owned() });
        }
        Ok(FsSnapshot::new(Mark::Tree(Tree { json: json.clone(), entries })))
    }
}

impl Base {
    /// A layer that leads from the workspace as it is now to what was marked.
    fn layer_of(&self, mark: &Mark) -> FsResult<Layer> {
        match mark {
            Mark::Fork(_, layer) => Ok(layer.clone()),
            Mark::Workspace(_, None) => Ok(Layer::default()),
            Mark::Workspace(_, Some(pin)) => self.layer_at(pin.sequence()),
            Mark::Tree(tree) => self.layer_to(tree),
        }
    }

    /// A layer that leads from the workspace as it is now to `tree`.
    fn layer_to(&self, tree: &Tree) -> FsResult<Layer> {
        let mut layer = Layer::default();
        self.clear(&mut layer, tree, Path::new(""))?;
        for (path, wanted) in &tree.entries {
            let failed = |error: io::Error| io_error(&super::name::to_shown(path), "restored", &error);
            let there = match path.as_os_str().is_empty() {
                true => continue,
                false => self.view(&layer).at(path).map_err(failed)?,
            };
            match &wanted.held {
                Held::Directory if there.is_some() => self.set_dir_meta(&mut layer, path, wanted.meta),
                Held::Directory => {
                    let dir = super::layer::Dir::new(wanted.meta);
                    self.place(&mut layer, path, Node::Dir(Arc::new(dir)))?;
                }
                Held::File(content) => {
                    if !self.has(there.as_ref(), content, wanted.meta).map_err(failed)? {
                        let staged =
                            self.writing()?.stage.write_with(content, wanted.meta).map_err(failed)?;
                        self.place(&mut layer, path, Node::File(staged))?;
                    }
                }
                Held::Link(target) => {
                    let target = PathBuf::from(parse(target).map(OsString::from).unwrap_or_default());
                    let is_same = match &there {
                        Some(spot) => self.view(&layer).target(spot).is_ok_and(|is| is == target),
                        None => false,
                    };
                    if !is_same {
                        let version = made_version(wanted.meta.modified);
                        let link = Link { target, meta: wanted.meta, version, _trash: None };
                        self.place(&mut layer, path, Node::Link(Arc::new(link)))?;
                    }
                }
            }
        }
        Ok(layer)
    }

    /// Removes what `tree` does not have, or has as another kind. What can be in no snapshot is left alone.
    fn clear(&self, layer: &mut Layer, tree: &Tree, dir: &Path) -> FsResult<()> {
        let failed = |error: io::Error| io_error(&super::name::to_shown(dir), "restored", &error);
        let children = {
            let view = self.view(layer);
            let spot = view.at(dir).map_err(failed)?;
            spot.map_or(Ok(Vec::new()), |spot| view.children(&spot)).map_err(failed)?
        };
        for (name, child) in children {
            let path = dir.join(name);
            let Some(spot) = self.view(layer).child_spot(child).map_err(failed)? else { continue };
            let is_wanted = match (spot.kind(), tree.entries.get(&path).map(|entry| &entry.held)) {
                (EntryKind::Other, _) => true,
                (EntryKind::Directory, Some(Held::Directory)) => {
                    self.clear(layer, tree, &path)?;
                    true
                }
                (EntryKind::File, Some(Held::File(_))) | (EntryKind::Symlink, Some(Held::Link(_))) => true,
                _ => false,
            };
            if !is_wanted {
                self.take_away(layer, &path, &spot)?;
            }
        }
        Ok(())
    }

    fn set_dir_meta(&self, layer: &mut Layer, path: &Path, meta: Meta) {
        let found = self.disk.look(path).ok().flatten();
        if found.is_some_and(|entry| entry.meta.mode != meta.mode)
            && let Some(dir) = layer.dir_mut(path)
        {
            dir.meta = Some(meta);
        }
    }

    /// Whether a file is as it is wanted.
    fn has(&self, there: Option<&Spot>, content: &[u8], meta: Meta) -> io::Result<bool> {
        let Some(Spot::Base(place, entry)) = there else { return Ok(false) };
        Ok(entry.kind == EntryKind::File
            && entry.len == content.len() as u64
            && entry.meta == meta
            && self.disk.read_at_most(place, content.len())? == content)
    }

    fn stored(&self, mark: &Mark) -> FsResult<Vec<StoredEntry>> {
        let layer = self.layer_of(mark)?;
        let mut entries = Vec::new();
        let view = self.view(&layer);
        self.store(view, &FsPath::root(), &view.root(), &mut entries)?;
        Ok(entries)
    }

    fn store(
        &self,
        view: View<'_>,
        path: &FsPath,
        spot: &Spot,
        entries: &mut Vec<StoredEntry>,
    ) -> FsResult<()> {
        let failed = |error: io::Error| io_error(path, "read", &error);
        let held = match spot.kind() {
            EntryKind::Directory => Held::Directory,
            EntryKind::Symlink => {
                Held::Link(shown(view.target(spot).map_err(failed)?.as_os_str()).into_owned())
            }
            EntryKind::Other => return Ok(()),
            // One that changes meanwhile is read again.
            EntryKind::File => match self.try_content(path, spot)? {
                Some((content, _)) => Held::File(content),
                None => Held::File(self.content(view.layer, path)?.bytes),
            },
        };
        let (meta, version) = view.about(spot).map_err(failed)?;
        let modified = Timestamp::from_nanosecond(meta.modified).unwrap_or(Timestamp::UNIX_EPOCH);
        let is_dir = matches!(held, Held::Directory);
        entries.push(StoredEntry::new(path, held, meta.mode, modified, version));
        if is_dir {
            let mut children = view.children(spot).map_err(failed)?;
            children.sort_by(|one, two| one.0.cmp(&two.0));
            for (name, child) in children {
                if let Some(spot) = view.child_spot(child).map_err(failed)? {
                    self.store(view, &path.child(&shown(&name)), &spot, entries)?;
                }
            }
        }
        Ok(())
    }
}

impl SnapshotData for Mark {
    /// A state that cannot be read is written as what says why, and is refused when it is to be read back.
    fn to_json(&self) -> Value {
        match self {
            Self::Tree(tree) => tree.json.clone(),
            Self::Fork(base, _) | Self::Workspace(base, _) => match base.stored(self) {
                Ok(entries) => stored::encode(&entries),
                Err(error) => {
                    tracing::error!(%error, "a snapshot could not be written out");
                    serde_json::json!({ "error": error.to_string() })
                }
            },
        }
    }

    fn is_same(&self, other: &FsSnapshot) -> bool {
        match (self, other.downcast_ref::<Self>()) {
            (Self::Fork(_, one), Some(Self::Fork(_, two))) => Arc::ptr_eq(&one.root, &two.root),
            (Self::Workspace(_, one), Some(Self::Workspace(_, two))) => {
                one.as_ref().map(Pin::sequence) == two.as_ref().map(Pin::sequence)
            }
            (Self::Tree(one), Some(Self::Tree(two))) => one.json == two.json,
            _ => false,
        }
    }
}
