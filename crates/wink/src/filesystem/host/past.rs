//! The way back: a layer that undoes what journals did since a mark.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, Meta};
use super::fork::journal_error;
use super::journal::{After, Before, Past, Stamp};
use super::layer::{Dir, Layer, Link, Node};
use super::name::to_shown;
use super::view::{Spot, made_version};
use super::{Base, io_error};
use crate::filesystem::{EntryKind, FsError, FsPath, FsResult};

impl Base {
    /// A layer that leads from the workspace as it is now to what it was after journal `sequence`. What somebody else
    /// changed since is a conflict.
    pub(super) fn layer_at(&self, sequence: u64) -> FsResult<Layer> {
        let pasts = self.writing()?.journal.since(sequence).map_err(|error| journal_error(&error))?;
        let pasts = pasts.ok_or_else(|| FsError::Io {
            path: FsPath::root(),
            kind: io::ErrorKind::NotFound,
            message: "the way back to this snapshot is no longer kept".to_owned(),
        })?;
        let mut layer = Layer::default();
        for past in &pasts {
            self.undo(&mut layer, past)?;
        }
        Ok(layer)
    }

    /// Undoes one journal in a layer that shows what it left.
    pub(super) fn undo(&self, layer: &mut Layer, past: &Past) -> FsResult<()> {
        self.check_left(layer, past)?;
        // Things come back under the names they had before, whatever is there now: so first all that was moved is
        // picked up, what is deepest first, ...
        let mut moved: Vec<(&Path, &Path)> = Vec::new();
        for (path, before) in &past.before {
            if let Before::Moved { to, .. } = before {
                moved.push((path, to));
            }
        }
        moved.sort_by_key(|(_, to)| std::cmp::Reverse(to.iter().count()));
        let mut placing: Vec<(&Path, Node)> = Vec::new();
        for (path, to) in moved {
            if let Some(spot) = self.seen(layer, to)? {
                let node = self.lift(layer, &to_shown(to), &spot)?;
                self.vacate(layer, to, &spot)?;
                placing.push((path, node));
            }
        }
        for (path, before) in &past.before {
            if let Before::Image { at, stamp } = before {
                placing.push((path, self.image(at, stamp, path)?));
            }
        }
        // ... then everything comes to its place, the topmost first, ...
        placing.sort_by_key(|(path, _)| path.iter().count());
        for (path, node) in placing {
            if let Some(spot) = self.seen(layer, path)? {
                self.take_away(layer, path, &spot)?;
            }
            self.place(layer, path, node)?;
        }
        // ... and what was not there goes, what is deepest first.
        let back = Back::new(past);
        let mut nothing: Vec<&Path> = Vec::new();
        for (path, before) in &past.before {
            if *before == Before::Nothing && !back.has(path) {
                nothing.push(path);
            }
        }
        nothing.sort_by_key(|path| std::cmp::Reverse(path.iter().count()));
        for path in nothing {
            if let Some(spot) = self.seen(layer, path)? {
                let is_full = spot.kind() == EntryKind::Directory
                    && !self.view(layer).children(&spot).map_err(|error| cannot(path, &error))?.is_empty();
                // Somebody put something into it, and keeps it.
                if !is_full {
                    self.take_away(layer, path, &spot)?;
                }
            }
        }
        for (path, before) in &past.before {
            if let Before::InPlace(stamp) = before
                && stamp.kind == EntryKind::Directory
                && let Some(dir) = layer.dir_mut(path)
            {
                dir.meta = Some(meta(stamp));
            }
        }
        Ok(())
    }

    /// What a journal left must still be there, or have been changed by a later one, which is undone by now.
    fn check_left(&self, layer: &Layer, past: &Past) -> FsResult<()> {
        let mut conflicts = BTreeSet::new();
        for (path, after) in &past.after {
            let is_theirs = match (after, self.seen(layer, path)?) {
                (After::Nothing, Some(Spot::Base(..))) | (After::Entry(_), None) => true,
                (After::Entry(stamp), Some(Spot::Base(_, entry))) => !stamp.is_unchanged(&entry),
                _ => false,
            };
            if is_theirs {
                conflicts.insert(to_shown(path));
            }
        }
        match conflicts.is_empty() {
            true => Ok(()),
            false => Err(FsError::Conflict { paths: conflicts.into_iter().collect() }),
        }
    }

    fn seen(&self, layer: &Layer, path: &Path) -> FsResult<Option<Spot>> {
        self.view(layer).at(path).map_err(|error| cannot(path, &error))
    }

    /// What a journal has kept, to be put at `path`.
    fn image(&self, at: &Path, stamp: &Stamp, path: &Path) -> FsResult<Node> {
        let entry = self.disk.look(at).map_err(|error| cannot(path, &error))?;
        let is_whole = entry.as_ref().is_some_and(|entry| {
            entry.kind == stamp.kind
                && (entry.kind != EntryKind::File
                    || (entry.len, entry.meta.modified) == (stamp.len, stamp.modified))
        });
        if !is_whole {
            return Err(FsError::Io {
                path: to_shown(path),
                kind: io::ErrorKind::NotFound,
                message: "what was there is no longer kept as it was".to_owned(),
            });
        }
        self.copied(at).map_err(|error| cannot(path, &error))
    }

    /// A copy of what is at a place of the state directory. A second name would change with the file that it is put
    /// back as.
    fn copied(&self, at: &Path) -> io::Result<Node> {
        let entry = self.disk.look(at)?.ok_or(io::ErrorKind::NotFound)?;
        let stage = &self.writing.as_ref().ok_or(io::ErrorKind::ReadOnlyFilesystem)?.stage;
        Ok(match entry.kind {
            EntryKind::File => Node::File(stage.copy(at)?),
            EntryKind::Symlink => {
                let target: PathBuf = self.disk.read_link(at)?;
                let version = made_version(entry.meta.modified);
                Node::Link(Arc::new(Link { target, meta: entry.meta, version, _trash: None }))
            }
            EntryKind::Directory => {
                let mut dir = Dir::new(entry.meta);
                for (name, kind) in self.disk.read_dir(at)? {
                    if kind != EntryKind::Other {
                        dir.changed.insert(Arc::from(&*name), self.copied(&at.join(&name))?);
                    }
                }
                Node::Dir(Arc::new(dir))
            }
            EntryKind::Other => return Err(io::ErrorKind::InvalidInput.into()),
        })
    }
}

/// What left its place and comes back there, and what the journal left.
struct Back<'a> {
    /// None for what was kept in the journal, else where it was moved to.
    held: HashMap<&'a Path, Option<&'a Path>>,
    left: HashSet<&'a Path>,
}

impl<'a> Back<'a> {
    fn new(past: &'a Past) -> Self {
        let mut held = HashMap::new();
        for (path, before) in &past.before {
            match before {
                Before::Image { .. } => _ = held.insert(path.as_path(), None),
                Before::Moved { to, .. } => _ = held.insert(path.as_path(), Some(to.as_path())),
                Before::Nothing | Before::InPlace(_) => {}
            }
        }
        Self { held, left: past.after.iter().map(|(path, _)| path.as_path()).collect() }
    }

    /// Whether a path where something was put is in a directory that had left its place: then what was put is gone with
    /// the directory that was made instead, and what is at the path now came back. Unless it was put where that went.
    fn has(&self, path: &Path) -> bool {
        let Some((above, to)) = path.ancestors().skip(1).find_map(|above| self.held.get_key_value(above))
        else {
            return false;
        };
        match (to, path.strip_prefix(above)) {
            (Some(to), Ok(rest)) => !self.left.contains(&*to.join(rest)),
            _ => true,
        }
    }
}

fn meta(stamp: &Stamp) -> Meta {
    Meta { mode: stamp.mode, modified: stamp.modified }
}

fn cannot(path: &Path, error: &io::Error) -> FsError {
    io_error(&to_shown(path), "brought back", error)
}
