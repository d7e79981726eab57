//! The way back: a layer that undoes what journals did, all since a mark or single ones.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, Meta};
use super::fork::journal_error;
use super::journal::{After, Before, Past, Stamp};
use super::layer::{Dir, Expected, Layer, Link, Node};
use super::name::{quoted_path, to_shown};
use super::staged::Staged;
use super::view::{Spot, View, made_version};
use super::{Base, Shared, io_error};
use crate::filesystem::{
    EntryKind, FsError, FsPath, FsResult, LeftAlone, MergedBy, Revert, Reverted, UndoForce, named,
};
use crate::limits::CancelToken;

/// Copies of files that have several names, by the inode of what they are copies of.
type Names = HashMap<(u64, u64), Arc<Staged>>;

/// What was found on the way back.
#[derive(Default)]
struct Found {
    /// What is not as a journal left it.
    changed: BTreeSet<FsPath>,
    /// What others put into directories that a journal made, by directory.
    inside: BTreeMap<FsPath, Vec<FsPath>>,
    /// What cannot be brought back, and why.
    lost: BTreeMap<FsPath, String>,
}

impl Shared {
    /// Takes back what journals did, in this fork.
    pub(super) fn revert(&self, journals: &[Revert], force: UndoForce) -> FsResult<Reverted> {
        if self.fork.is_none() {
            return Err(FsError::Unsupported { operation: "undoing a past call anywhere but in a fork" });
        }
        // A journal that was committed by a process that died is kept, and none is pruned meanwhile.
        let _lock = self.locked(&CancelToken::new())?;
        let writing = self.base.writing()?;
        let revert = |base: &Base, layer: &mut Layer| {
            let lifting = writing.lifting()?;
            let reverted = base.revert(layer, journals, force)?;
            writing.end_lifting(lifting, layer)?;
            Ok(reverted)
        };
        Ok(self.take_back(revert)?.done)
    }
}

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
        let (mut layer, mut found) = (Layer::default(), Found::default());
        for past in &pasts {
            self.check_left(&mut layer, past, &|_| false, &mut found)?;
            if !found.changed.is_empty() {
                return Err(FsError::Conflict { paths: found.changed.into_iter().collect() });
            }
            self.undo(&mut layer, past, &mut found)?;
        }
        for (path, why) in &found.lost {
            tracing::warn!(%path, why, "going back to a snapshot cannot bring it back");
        }
        Ok(layer)
    }

    /// Takes back what these journals did, in a layer that has changed nothing yet. It is left so if that is refused.
    fn revert(&self, layer: &mut Layer, journals: &[Revert], force: UndoForce) -> FsResult<Reverted> {
        let (mut pasts, mut forgotten) = (Vec::new(), Vec::new());
        for Revert { journal, by } in journals {
            match self.writing()?.journal.past(*journal).map_err(|error| journal_error(&error))? {
                Some(past) => pasts.push((past, *by)),
                None => forgotten.push(*journal),
            }
        }
        if !forgotten.is_empty() {
            return Ok(Reverted { forgotten, ..Reverted::default() });
        }
        pasts.sort_by_key(|(past, _)| std::cmp::Reverse(past.sequence));
        let start = layer.clone();
        let mut found = Found::default();
        // By whom each path was changed next, as far as that is undone by now.
        let mut next: HashMap<&Path, MergedBy> = HashMap::new();
        for (past, by) in &pasts {
            let given_up = |path: &Path| next.get(path) == Some(&MergedBy::Undo);
            let undone = self.check_left(layer, past, &given_up, &mut found);
            match undone.and_then(|()| self.undo(layer, past, &mut found)) {
                // On something that is not as it was left, anything may go wrong.
                Err(_) if force == UndoForce::Refuse && !found.changed.is_empty() => break,
                undone => undone?,
            }
            next.extend(past.paths().map(|path| (path, *by)));
        }
        let paths: BTreeSet<&Path> = pasts.iter().flat_map(|(past, _)| past.paths()).collect();
        let mut files: BTreeSet<FsPath> = BTreeSet::new();
        for path in paths {
            let shown = to_shown(path);
            // What one journal did another may have taken back.
            if found.changed.contains(&shown) || self.differs(&start, layer, path)? {
                files.insert(shown);
            }
        }
        let is_done = !files.is_empty();
        let mut reverted = found.into_reverted(files, force);
        if reverted.is_refused(force) {
            *layer = start;
            reverted = Reverted { changed: reverted.changed, ..Reverted::default() };
        } else if !is_done {
            *layer = start;
        }
        Ok(reverted)
    }

    /// Undoes one journal in a layer that shows what it left, or what became of that.
    fn undo(&self, layer: &mut Layer, past: &Past, found: &mut Found) -> FsResult<()> {
        // Things come back under the names they had before, whatever is there now: so first all that was moved is
        // picked up, what is deepest first, ...
        let mut moved: Vec<(&Path, &Path, EntryKind)> = Vec::new();
        for (path, before) in &past.before {
            if let Before::Moved { to, stamp } = before {
                moved.push((path, to, stamp.kind));
            }
        }
        moved.sort_by_key(|(_, to, _)| std::cmp::Reverse(to.iter().count()));
        let mut placing: Vec<(&Path, Node)> = Vec::new();
        for (path, to, kind) in moved {
            match self.seen(layer, to)?.filter(|spot| spot.kind() == kind) {
                Some(spot) => {
                    let node = self.lift(layer, &to_shown(to), &spot)?;
                    self.vacate(layer, to, &spot)?;
                    placing.push((path, node));
                }
                None => {
                    let why = format!("it was moved to '{}', and is not there any more", to_shown(to));
                    found.lost.insert(to_shown(path), why);
                }
            }
        }
        let mut names = Names::new();
        for (path, before) in &past.before {
            if let Before::Image { at, stamp } = before
                && let Some(node) = self.image(at, stamp, path, &mut names, found)?
            {
                placing.push((path, node));
            }
        }
        past.lost.iter().for_each(|path| found.lose(path));
        // ... then everything comes to its place, the topmost first, ...
        placing.sort_by_key(|(path, _)| path.iter().count());
        for (path, node) in placing {
            if !self.make_parents(layer, path)? {
                let why = "something that is no directory is where its directory was".to_owned();
                found.lost.insert(to_shown(path), why);
                continue;
            }
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
            let Some(spot) = self.seen(layer, path)? else { continue };
            let inside = match spot.kind() {
                EntryKind::Directory => {
                    self.view(layer).children(&spot).map_err(|error| cannot(path, &error))?
                }
                _ => Vec::new(),
            };
            match inside.is_empty() {
                true => self.take_away(layer, path, &spot)?,
                // Somebody put something into it, and keeps it.
                false => {
                    let inside = inside.iter().map(|(name, _)| to_shown(&path.join(name))).collect();
                    found.inside.insert(to_shown(path), inside);
                }
            }
        }
        for (path, before) in &past.before {
            if let Before::InPlace(stamp) = before
                && stamp.kind == EntryKind::Directory
                && self.seen(layer, path)?.is_some_and(|spot| spot.kind() == EntryKind::Directory)
                && let Some(dir) = layer.dir_mut(path)
            {
                dir.meta = Some(stamp.meta());
            }
        }
        Ok(())
    }

    /// What a journal left must still be there, or have been changed by a later one, which is undone by now; or have been given up.
    fn check_left(
        &self,
        layer: &mut Layer,
        past: &Past,
        given_up: &dyn Fn(&Path) -> bool,
        found: &mut Found,
    ) -> FsResult<()> {
        let is_set = |after: &&(PathBuf, After)| matches!(after.1, After::Meta(_));
        let set: HashSet<&Path> = past.after.iter().filter(is_set).map(|(path, _)| path.as_path()).collect();
        for (path, after) in &past.after {
            let spot = self.seen(layer, path)?;
            let is_left = self.is_left(layer, after, spot.as_ref(), set.contains(path.as_path()));
            if !is_left.map_err(|error| cannot(path, &error))? && !given_up(path) {
                found.changed.insert(to_shown(path));
            }
            // What was decided by looking at this must not happen to anything else.
            match spot {
                Some(Spot::Base(place, entry)) if entry.kind != EntryKind::Directory => {
                    layer.record(&place, Expected::exactly(Some(&entry)));
                }
                Some(_) => {}
                None => {
                    if let Some(place) = self.view(layer).place_below(path) {
                        layer.record(&place, Expected::Absent);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether this is what a journal left. A copy with the same time is: going back and forth makes copies. What is in
    /// a directory is not part of it, and `is_set` says that its mode is told apart.
    fn is_left(&self, layer: &Layer, after: &After, spot: Option<&Spot>, is_set: bool) -> io::Result<bool> {
        let Some(spot) = spot else { return Ok(*after == After::Nothing) };
        let now = self.view(layer).about(spot)?.0;
        Ok(match after {
            After::Nothing => false,
            After::Meta(meta) => now.mode == meta.mode,
            After::Entry(stamp) if stamp.kind != spot.kind() => false,
            After::Entry(stamp) => match stamp.kind {
                EntryKind::Directory => is_set || now.mode == stamp.mode,
                EntryKind::Symlink => now.modified == stamp.modified,
                EntryKind::File | EntryKind::Other => {
                    (spot.len(), now.modified, now.mode) == (stamp.len, stamp.modified, stamp.mode)
                }
            },
        })
    }

    /// Whether two layers show different things at a path, or below it. A copy is the same.
    fn differs(&self, before: &Layer, after: &Layer, path: &Path) -> FsResult<bool> {
        let differs = || -> io::Result<bool> {
            let (old, new) = (self.view(before), self.view(after));
            let mut left = vec![(old.at(path)?, new.at(path)?)];
            while let Some(pair) = left.pop() {
                let (one, two) = match pair {
                    (Some(one), Some(two)) if one.kind() == two.kind() => (one, two),
                    (None, None) => continue,
                    _ => return Ok(true),
                };
                let is_place = matches!((&one, &two), (Spot::Base(one, _), Spot::Base(two, _)) if one == two);
                if is_place {
                    continue;
                }
                if one.len() != two.len()
                    || old.about(&one)?.0 != new.about(&two)?.0
                    || !self.is_same_inside(&one, &two)?
                {
                    return Ok(true);
                }
                if one.kind() == EntryKind::Directory {
                    let mut names: BTreeSet<_> =
                        old.children(&one)?.into_iter().map(|(name, _)| name).collect();
                    names.extend(new.children(&two)?.into_iter().map(|(name, _)| name));
                    for name in names {
                        left.push((old.child(&one, &name)?, new.child(&two, &name)?));
                    }
                }
            }
            Ok(false)
        };
        differs().map_err(|error| cannot(path, &error))
    }

    /// Whether two entries of one kind, which are no directories, hold the same. Those that look alike need not.
    fn is_same_inside(&self, one: &Spot, two: &Spot) -> io::Result<bool> {
        let place = |spot: &Spot| match spot {
            Spot::Base(place, _) => Some(place.clone()),
            Spot::File(staged) => Some(staged.path().to_owned()),
            Spot::Dir(_) | Spot::Link(_) => None,
        };
        let disk = &self.disk;
        Ok(match (one.kind(), place(one), place(two)) {
            (EntryKind::Symlink, ..) => {
                let view = View { disk, layer: &Layer::default() };
                view.target(one)? == view.target(two)?
            }
            (EntryKind::File, Some(one), Some(two)) => {
                disk.is_same_content(&one, &two)?
                    && disk.file_attributes(&one)? == disk.file_attributes(&two)?
            }
            (EntryKind::Other, Some(one), Some(two)) => disk.special(&one)? == disk.special(&two)?,
            _ => true,
        })
    }

    /// Makes the directories that `path` is to be in. False if something else is there.
    fn make_parents(&self, layer: &mut Layer, path: &Path) -> FsResult<bool> {
        let mut dir = PathBuf::new();
        for name in path.parent().into_iter().flatten() {
            dir.push(name);
            match self.seen(layer, &dir)?.map(|spot| spot.kind()) {
                Some(EntryKind::Directory) => {}
                Some(_) => return Ok(false),
                None => {
                    let meta = Meta { mode: 0o755 & !self.umask, modified: self.now(), owner: None };
                    self.place(layer, &dir, Node::Dir(Arc::new(Dir::new(meta))))?;
                }
            }
        }
        Ok(true)
    }

    fn seen(&self, layer: &Layer, path: &Path) -> FsResult<Option<Spot>> {
        self.view(layer).at(path).map_err(|error| cannot(path, &error))
    }

    /// What a journal has kept, to be put at `path`; nothing if it cannot be made again.
    fn image(
        &self,
        at: &Path,
        stamp: &Stamp,
        path: &Path,
        names: &mut Names,
        found: &mut Found,
    ) -> FsResult<Option<Node>> {
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
        let node = self.copied(at, path, names, found).map_err(|error| cannot(path, &error))?;
        Ok(node.map(|node| match node {
            // It got another time when what was in it left it first.
            Node::Dir(dir) => {
                let meta = dir.meta.map(|meta| Meta { modified: stamp.modified, ..meta });
                Node::Dir(Arc::new(Dir { meta, ..Dir::clone(&dir) }))
            }
            node => node,
        }))
    }

    /// A copy of what is at a place of the state directory, and was at `path`: another name of it would change with the file that it is put
    /// back as. What were names of one file are names of one copy.
    fn copied(
        &self,
        at: &Path,
        path: &Path,
        names: &mut Names,
        found: &mut Found,
    ) -> io::Result<Option<Node>> {
        let entry = self.disk.look(at)?.ok_or(io::ErrorKind::NotFound)?;
        let stage = &self.writing.as_ref().ok_or(io::ErrorKind::ReadOnlyFilesystem)?.stage;
        Ok(Some(match entry.kind {
            EntryKind::File if entry.links > 1 => Node::File(match names.entry((entry.dev, entry.ino)) {
                MapEntry::Occupied(known) => stage.another_name(known.get())?,
                MapEntry::Vacant(fresh) => Arc::clone(fresh.insert(stage.copy(at)?)),
            }),
            EntryKind::File => Node::File(stage.copy(at)?),
            EntryKind::Symlink => {
                let target: PathBuf = self.disk.read_link(at)?;
                let version = made_version(entry.meta.modified);
                Node::Link(Arc::new(Link { target, meta: entry.meta, version, _trash: None }))
            }
            EntryKind::Directory => {
                let attributes = self.disk.dir_attributes(at)?.any();
                let mut dir = Dir { attributes, ..Dir::of_time(entry.meta) };
                for (name, _) in self.disk.read_dir(at)? {
                    if let Some(node) = self.copied(&at.join(&name), &path.join(&name), names, found)? {
                        dir.changed.insert(Arc::from(&*name), node);
                    }
                }
                Node::Dir(Arc::new(dir))
            }
            EntryKind::Other => match stage.copy_special(at)? {
                Some(staged) => Node::File(staged),
                None => {
                    found.lose(path);
                    return Ok(None);
                }
            },
        }))
    }
}

impl Found {
    /// Something of a kind that cannot be made again.
    fn lose(&mut self, path: &Path) {
        let why = "it was a socket or a device, which cannot be made again: whatever made it has to";
        self.lost.insert(to_shown(path), why.to_owned());
    }

    fn into_reverted(self, files: BTreeSet<FsPath>, force: UndoForce) -> Reverted {
        let Self { mut changed, inside, lost } = self;
        let mut left = Vec::new();
        for (path, why) in &lost {
            left.push(LeftAlone { what: quoted_path(path), why: why.clone() });
        }
        for (dir, theirs) in &inside {
            // Of directories in each other, what is in the innermost is somebody's.
            let theirs: Vec<&FsPath> = theirs.iter().filter(|path| !inside.contains_key(path)).collect();
            if force == UndoForce::Refuse {
                changed.extend(theirs.iter().copied().cloned());
            }
            let names: Vec<String> = theirs.iter().map(named).collect();
            let why = match names.is_empty() {
                true => "what others put into it is kept".to_owned(),
                false => format!("others put {} into it, which is kept", names.join(", ")),
            };
            left.push(LeftAlone { what: quoted_path(dir), why });
        }
        left.sort();
        let files = files.into_iter().filter(|path| !lost.contains_key(path) && !inside.contains_key(path));
        Reverted {
            files: files.collect(),
            changed: changed.into_iter().collect(),
            left,
            forgotten: Vec::new(),
        }
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

fn cannot(path: &Path, error: &io::Error) -> FsError {
    io_error(&to_shown(path), "brought back", error)
}
