//! From an upper directory back to a layer.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::OverlayLayer;
use super::xattr::Mark;
use crate::filesystem::host::command::{MOST_LEVELS, attributes, root_changed, special, too_deep};
use crate::filesystem::host::disk::{Disk, Entry, Meta, look_in_tree};
use crate::filesystem::host::io_error;
use crate::filesystem::host::layer::{Dir, Expected, Layer, Link, Node, WrittenAs};
use crate::filesystem::host::name::to_shown;
use crate::filesystem::host::view::{Spot, View, is_in_state, is_state, made_version};
use crate::filesystem::{EntryKind, FsError, FsPath, FsResult};
use crate::limits::CancelToken;

/// What could not be read back.
enum Failed {
    At(PathBuf, io::Error),
    Special(PathBuf),
    /// Extended attributes of a directory.
    Attributes(PathBuf),
    /// The mode or owner of the workspace itself.
    Root,
    TooDeep,
}

impl OverlayLayer {
    pub(in super::super) fn read_back(&self) -> FsResult<Layer> {
        let writing = self.fork.base.writing()?;
        let failed = |error: io::Error| io_error(&FsPath::root(), "taken over from the command", &error);
        // Modes of the workspace itself are only lifted by a thread that has its lock.
        let is_over_closed = self.is_over_closed().map_err(failed)?;
        let _lock = if is_over_closed { Some(self.fork.locked(&CancelToken::new())?) } else { None };
        let lifting = if is_over_closed {
            writing.lifting()?
        } else {
            self.fork.base.disk.lifting_below(&self.dir).map_err(failed)?
        };
        let mut layer = self.read()?;
        writing.end_lifting(lifting, &mut layer)?;
        Ok(layer)
    }

    /// Whether the command changed something of the workspace that its mode closes to this user, or in such a directory, or removed
    /// one.
    fn is_over_closed(&self) -> io::Result<bool> {
        let disk = &self.fork.base.disk;
        let _lifting = disk.lifting_below(&self.dir)?;
        let mut left = vec![PathBuf::new()];
        while let Some(at) = left.pop() {
            for (name, kind) in disk.read_dir(&self.inside(&at))? {
                let path = at.join(&name);
                if path.components().count() > MOST_LEVELS || is_in_state(&path) {
                    continue;
                }
                let is_dir = kind == EntryKind::Directory;
                if let Some(there) = look_in_tree(&**disk, &path)? {
                    let is_over = is_dir && self.mark(&path, Mark::Opaque)?.as_deref() != Some(b"y");
                    let loses = there.kind == EntryKind::Directory && !is_over;
                    if disk.is_closed(&there) || (loses && self.has_closed(&path)?) {
                        return Ok(true);
                    }
                }
                if is_dir {
                    left.push(path);
                }
            }
        }
        Ok(false)
    }

    /// Whether something closed is somewhere below a directory of the workspace.
    fn has_closed(&self, dir: &Path) -> io::Result<bool> {
        let disk = &self.fork.base.disk;
        let mut left = vec![dir.to_owned()];
        while let Some(dir) = left.pop() {
            for (name, entry) in disk.entries(&dir)? {
                if disk.is_closed(&entry) {
                    return Ok(true);
                }
                if entry.kind == EntryKind::Directory {
                    left.push(dir.join(name));
                }
            }
        }
        Ok(false)
    }

    fn read(&self) -> FsResult<Layer> {
        let root = Arc::clone(&Layer::default().root);
        let mut reading = Reading {
            command: self,
            // What the fork had changed before is expected as it was then.
            layer: Layer { root, ..self.layer.clone() },
            gone: Vec::new(),
            conflicts: BTreeSet::new(),
        };
        let root = reading.root();
        let root =
            root.and_then(|root| reading.record_gone().map(|()| root)).map_err(|failed| match failed {
                Failed::At(path, error) => io_error(&to_shown(&path), "taken over from the command", &error),
                Failed::TooDeep => too_deep(),
                Failed::Special(path) => special(&path),
                Failed::Attributes(path) => attributes(&path),
                Failed::Root => root_changed(),
            })?;
        if !reading.conflicts.is_empty() {
            let mut paths: Vec<_> = reading.conflicts.iter().map(|path| to_shown(path)).collect();
            paths.sort_unstable();
            return Err(FsError::Conflict { paths });
        }
        Ok(Layer { root: Arc::new(root), ..reading.layer })
    }
}

struct Reading<'a> {
    command: &'a OverlayLayer,
    layer: Layer,
    /// Places where what is in the workspace was removed or replaced.
    gone: Vec<PathBuf>,
    conflicts: BTreeSet<PathBuf>,
}

impl Reading<'_> {
    /// Everything. The workspace itself cannot be given another mode or owner: a journal is about what is in it.
    fn root(&mut self) -> Result<Dir, Failed> {
        let root = Path::new("");
        let dir = self.dir(root, Some(root), Dir::over(Arc::from(root)))?;
        let failed = |error| Failed::At(root.to_owned(), error);
        let entry = self.upper(root).map_err(failed)?;
        let rights = |meta: Meta| (meta.mode, meta.owner);
        if self.command.root.map(rights) != Some(rights(entry.meta)) {
            return Err(Failed::Root);
        }
        self.check_attributes(root, root)?;
        Ok(dir)
    }

    /// What the upper directory has at `at`, over `source`.
    fn dir(&mut self, at: &Path, source: Option<&Path>, mut dir: Dir) -> Result<Dir, Failed> {
        if at.components().count() > MOST_LEVELS {
            return Err(Failed::TooDeep);
        }
        let disk = &self.command.fork.base.disk;
        let failed = |error| Failed::At(at.to_owned(), error);
        for (name, kind) in disk.read_dir(&self.command.inside(at)).map_err(failed)? {
            if at.as_os_str().is_empty() && is_state(&name) {
                continue;
            }
            let below = source.map(|source| source.join(&name));
            if let Some(node) = self.entry(&at.join(&name), &name, kind, below, source)? {
                dir.changed.insert(Arc::from(&*name), node);
            }
        }
        Ok(dir)
    }

    fn entry(
        &mut self,
        at: &Path,
        name: &OsStr,
        kind: EntryKind,
        below: Option<PathBuf>,
        parent: Option<&Path>,
    ) -> Result<Option<Node>, Failed> {
        let disk = Arc::clone(&self.command.fork.base.disk);
        let failed = |error| Failed::At(at.to_owned(), error);
        let there = match &below {
            Some(place) if !(parent == Some(Path::new("")) && is_state(name)) => {
                disk.look(place).map_err(failed)?
            }
            _ => None,
        };
        match kind {
            EntryKind::Other if self.is_device_whiteout(at).map_err(failed)? => {
                Ok(self.gone_at(below, there.as_ref()))
            }
            EntryKind::Other => Err(Failed::Special(at.to_owned())),
            EntryKind::Directory => self.directory(at, below, there.as_ref(), parent),
            EntryKind::Symlink => {
                let target = disk.read_link(&self.command.inside(at)).map_err(failed)?;
                let entry = self.upper(at).map_err(failed)?;
                if let (Some(place), Some(EntryKind::Symlink)) =
                    (&below, there.as_ref().map(|entry| entry.kind))
                    && disk.read_link(place).map_err(failed)? == target
                    && let Some(there) = &there
                    && self.is_like(&entry, there)
                {
                    self.is_same(place, there);
                    return Ok(None);
                }
                self.replaced(below, there.as_ref());
                let version = made_version(entry.meta.modified);
                Ok(Some(Node::Link(Arc::new(Link { target, meta: entry.meta, version, _trash: None }))))
            }
            EntryKind::File => self.file(at, below, there.as_ref()).map_err(failed),
        }
    }

    fn file(&mut self, at: &Path, below: Option<PathBuf>, there: Option<&Entry>) -> io::Result<Option<Node>> {
        let OverlayLayer { fork, made, .. } = self.command;
        let disk = &fork.base.disk;
        let entry = self.upper(at)?;
        if entry.len == 0 && self.command.mark(at, Mark::Whiteout)?.is_some() {
            return Ok(self.gone_at(below, there));
        }
        if self.command.mark(at, Mark::Metacopy)?.is_some() {
            return Err(io::Error::other("its contents were not copied; mount with metacopy=off"));
        }
        if let Some((version, node)) = made.get(at)
            && *version == entry.version()
        {
            self.replaced(below, there);
            return Ok(Some(node.clone()));
        }
        // Opening a file for writing copies it, even if nothing is written then. What is alike may have been written all the
        // same: two commands can write one content within a tick of the clock.
        if let (Some(place), Some(there)) = (&below, there)
            && there.kind == EntryKind::File
            && there.len == entry.len
            && self.is_like(&entry, there)
            && disk.is_same_content(place, &self.command.inside(at))?
            && disk.file_attributes(place)? == disk.file_attributes(&self.command.inside(at))?
        {
            self.is_same(place, there);
            return Ok(None);
        }
        self.note_vanished(at, below.as_deref(), there)?;
        self.replaced(below, there);
        let stage = &fork.base.writing.as_ref().ok_or(io::ErrorKind::ReadOnlyFilesystem)?.stage;
        Ok(Some(Node::File(stage.adopt(&self.command.inside(at))?)))
    }

    fn directory(
        &mut self,
        at: &Path,
        below: Option<PathBuf>,
        there: Option<&Entry>,
        parent: Option<&Path>,
    ) -> Result<Option<Node>, Failed> {
        let failed = |error| Failed::At(at.to_owned(), error);
        let entry = self.upper(at).map_err(failed)?;
        if let Some(target) = self.command.mark(at, Mark::Redirect).map_err(failed)? {
            let target = Path::new(OsStr::from_bytes(&target));
            // A whole path, or another name in the same directory.
            let source = match (target.strip_prefix("/"), parent) {
                (Ok(source), _) => source.to_owned(),
                (Err(_), Some(parent)) => parent.join(target),
                (Err(_), None) => return Err(failed(io::Error::other("it leads to an unknown directory"))),
            };
            let found = self.command.fork.base.disk.look(&source).map_err(failed)?;
            match found.filter(|found| found.kind == EntryKind::Directory) {
                Some(found) => {
                    // What is there now may be another one, and says so: being made or moved changes its time. It also
                    // changes when somebody adds or removes an entry; then it is rather a conflict too many.
                    if found.changed >= self.command.began {
                        self.conflicts.insert(source.clone());
                    }
                    if below.as_ref() != Some(&source) {
                        self.replaced(below, there);
                    }
                    self.layer.record(&source, Expected::movable(&found));
                    self.wrote(&source, WrittenAs::Changed);
                    let dir = self.over(at, &source, &entry, &found)?;
                    return Ok(Some(Node::Dir(Arc::new(dir))));
                }
                // Somebody else has moved or removed it.
                None => _ = self.conflicts.insert(source),
            }
        }
        let is_opaque = self.command.mark(at, Mark::Opaque).map_err(failed)?.as_deref() == Some(b"y");
        match (below, there) {
            (Some(place), Some(found)) if found.kind == EntryKind::Directory && !is_opaque => {
                let dir = self.over(at, &place, &entry, found)?;
                // Only looked into, or with nothing left of what was done there.
                let is_same = dir.changed.is_empty() && dir.meta.is_none();
                Ok((!is_same).then(|| Node::Dir(Arc::new(dir))))
            }
            (below, there) => {
                self.note_vanished(at, below.as_deref(), there).map_err(failed)?;
                let made = below.clone().filter(|_| there.is_none());
                self.replaced(below, there);
                if let Some(place) = made {
                    self.wrote(&place, WrittenAs::MadeDirectory);
                }
                let disk = &self.command.fork.base.disk;
                let attributes = disk.dir_attributes(&self.command.inside(at)).map_err(failed)?.any();
                let keeps_time = self.is_time_set(&entry);
                let dir = self.dir(at, None, Dir { keeps_time, attributes, ..Dir::new(entry.meta) })?;
                Ok(Some(Node::Dir(Arc::new(dir))))
            }
        }
    }

    /// A directory through which `source` shows.
    fn over(&mut self, at: &Path, source: &Path, entry: &Entry, found: &Entry) -> Result<Dir, Failed> {
        let mut dir = self.dir(at, Some(source), Dir::over(Arc::from(source)))?;
        self.check_attributes(at, source)?;
        self.wrote(source, WrittenAs::Inside);
        if self.has_other_rights(entry, found) {
            // The command's change, unless another process has been there.
            if self.is_theirs(found) {
                self.conflicts.insert(source.to_owned());
            }
            self.layer.record(source, Expected::exactly(Some(found)));
            self.wrote(source, WrittenAs::Changed);
            dir.meta = Some(entry.meta);
        } else if entry.meta.modified != found.meta.modified
            && !self.is_theirs(found)
            && self.command.fork.base.disk.may_set(found)
            && (dir.changed.is_empty() || self.is_time_set(entry))
        {
            // Otherwise it only says that something in it changed, which committing that says as well.
            dir.meta = Some(entry.meta);
        }
        Ok(dir)
    }

    /// The command left at `place` what is `there` now. That must have been there when it began, and stay so.
    fn is_same(&mut self, place: &Path, there: &Entry) {
        if self.is_theirs(there) {
            self.conflicts.insert(place.to_owned());
        }
        self.layer.record(place, Expected::exactly(Some(there)));
        self.wrote(place, WrittenAs::Same);
    }

    fn wrote(&mut self, place: &Path, how: WrittenAs) {
        self.layer.write(place, &self.command.since, how);
    }

    /// Whether another process has changed it while the command ran.
    fn is_theirs(&self, found: &Entry) -> bool {
        found.changed >= self.command.began
    }

    /// Whether a time was set, and did not come of a change.
    fn is_time_set(&self, entry: &Entry) -> bool {
        entry.meta.modified < self.command.began || entry.meta.modified > entry.changed
    }

    /// Whether it has another mode or owner. Who may not give files away has own ones in the place of those of others.
    fn has_other_rights(&self, entry: &Entry, found: &Entry) -> bool {
        let can_own = self.command.fork.base.disk.can_own();
        entry.meta.mode != found.meta.mode || (can_own && entry.meta.owner != found.meta.owner)
    }

    /// Whether it has the mode, time and owner of what is there.
    fn is_like(&self, entry: &Entry, there: &Entry) -> bool {
        entry.meta.modified == there.meta.modified && !self.has_other_rights(entry, there)
    }

    /// Nothing keeps the attributes that a directory of the workspace had, so a command must leave them as they are.
    fn check_attributes(&self, at: &Path, source: &Path) -> Result<(), Failed> {
        let disk = &self.command.fork.base.disk;
        let failed = |error| Failed::At(at.to_owned(), error);
        let ours = disk.dir_attributes(&self.command.inside(at)).map_err(failed)?;
        let is_same = match disk.dir_attributes(source) {
            // Another process removed it meanwhile, which is found elsewhere.
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            theirs => theirs.map_err(failed)? == ours,
        };
        if is_same { Ok(()) } else { Err(Failed::Attributes(at.to_owned())) }
    }

    /// What was copied from the workspace and is no longer there was removed by somebody else; or the command has moved it
    /// to where nothing was. Somebody else has been in the directory in the one case, and hardly ever in the other.
    fn note_vanished(&mut self, at: &Path, below: Option<&Path>, there: Option<&Entry>) -> io::Result<()> {
        let (Some(place), None) = (below, there) else { return Ok(()) };
        if self.command.mark(at, Mark::Origin)?.is_none() {
            return Ok(());
        }
        let parent = place.parent().unwrap_or(Path::new(""));
        let dir = self.command.fork.base.disk.look(parent)?;
        if dir.is_none_or(|dir| dir.changed >= self.command.began) {
            self.conflicts.insert(place.to_owned());
        }
        Ok(())
    }

    /// There is nothing where the workspace had something. If it has nothing there any more, somebody else removed or
    /// moved it as well.
    fn gone_at(&mut self, below: Option<PathBuf>, there: Option<&Entry>) -> Option<Node> {
        let place = below?;
        self.wrote(&place, WrittenAs::Changed);
        match there {
            Some(_) => self.gone.push(place),
            None => _ = self.conflicts.insert(place),
        }
        Some(Node::Gone)
    }

    /// Something is in the place of what the workspace has.
    fn replaced(&mut self, below: Option<PathBuf>, there: Option<&Entry>) {
        let Some(place) = below else { return };
        self.wrote(&place, WrittenAs::Changed);
        match there {
            Some(_) => self.gone.push(place),
            None => self.layer.record(&place, Expected::Absent),
        }
    }

    /// Records what was removed and replaced. Last, when it is known what was only moved.
    fn record_gone(&mut self) -> Result<(), Failed> {
        let gone = std::mem::take(&mut self.gone);
        let disk = Arc::clone(&self.command.fork.base.disk);
        let nothing = Layer::default();
        let view = View { disk: &disk, layer: &nothing };
        for place in gone {
            if self.layer.records.contains_key(&*place) {
                continue;
            }
            let failed = |error| Failed::At(place.clone(), error);
            if let Some(spot) = view.base(place.clone()).map_err(failed)? {
                self.record(view, &spot).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn record(&mut self, view: View<'_>, spot: &Spot) -> io::Result<()> {
        let mut left = vec![spot.clone()];
        while let Some(spot) = left.pop() {
            let Spot::Base(place, entry) = &spot else { continue };
            if !self.layer.records.contains_key(&**place) {
                if entry.changed >= self.command.began {
                    self.conflicts.insert(place.clone());
                }
                self.layer.record(place, Expected::exactly(Some(entry)));
            }
            if entry.kind == EntryKind::Directory {
                left.extend(view.spots_in(&spot)?);
            }
        }
        Ok(())
    }

    fn is_device_whiteout(&self, at: &Path) -> io::Result<bool> {
        let found = std::fs::symlink_metadata(self.command.absolute(at))?;
        let is_device = found.mode() & 0o170_000 == 0o020_000;
        Ok(is_device && found.rdev() == 0)
    }

    fn upper(&self, at: &Path) -> io::Result<Entry> {
        let found = self.command.fork.base.disk.look(&self.command.inside(at))?;
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
