//! From a layer to a plan: what has to leave its place, and what has to come there.
//!
//! First everything that is removed, moved or replaced by another kind leaves its place, the deepest first, while all
//! paths are still those of the workspace; then everything comes to its place, the topmost first. So no order of moves
//! (not even two that change places) needs more thought.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Dir, Expected, Layer, Link, Node, WrittenAs};
use crate::filesystem::host::disk::{Disk, Entry, Meta, look_in_tree};
use crate::filesystem::host::host_disk::{Attributes, HostDisk};
use crate::filesystem::host::journal::{self, ExpectedState};
use crate::filesystem::host::name::to_shown;
use crate::filesystem::host::plan::{Plan, PlanStep, Source};
use crate::filesystem::host::staged::{Stage, Staged};
use crate::filesystem::{EntryKind, FileVersion, FsError, FsResult};

/// A plan, and what to know about it afterwards.
pub(in crate::filesystem::host) struct Planned {
    pub(in crate::filesystem::host) plan: Plan,
    /// What the workspace must have for it.
    pub(in crate::filesystem::host) expected: Vec<journal::Expected>,
    /// The staged files, and where the plan puts them.
    pub(in crate::filesystem::host) staged: Vec<(Arc<Staged>, PathBuf)>,
    /// The versions that files have in the fork, and where they will be.
    pub(in crate::filesystem::host) versions: Vec<(FileVersion, PathBuf)>,
    /// What was made for the plan.
    pub(in crate::filesystem::host) prepared: Prepared,
}

/// Directories and links made for a plan; those that were not used go with it.
pub(in crate::filesystem::host) struct Prepared {
    disk: Arc<HostDisk>,
    made: Vec<PathBuf>,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        for path in &self.made {
            let _ = match self.disk.look(path) {
                Ok(Some(Entry { kind: EntryKind::Directory, .. })) => self.disk.remove_dir(path),
                Ok(Some(_)) => self.disk.unlink(path),
                _ => Ok(()),
            };
        }
    }
}

/// Checks that the workspace still has what the layer changed, and says how to bring it in. Nobody else may change the
/// workspace through a journal meanwhile.
pub(in crate::filesystem::host) fn plan(
    disk: &Arc<HostDisk>,
    stage: &Arc<Stage>,
    layer: &Layer,
) -> FsResult<Planned> {
    let mut work = Work {
        disk,
        layer,
        taken: BTreeMap::new(),
        puts: Vec::new(),
        metas: Vec::new(),
        conflicts: BTreeSet::new(),
        versions: Vec::new(),
        checked: Vec::new(),
    };
    work.children(Path::new(""), &layer.root, Some(Path::new("")), true)
        .and_then(|()| work.same())
        .and_then(|()| {
            if work.conflicts.is_empty() { work.finish(stage).map(Ok) } else { Ok(Err(work.conflicts)) }
        })
        .map_err(|error| super::super::io_error(&crate::filesystem::FsPath::root(), "merged", &error))?
        .map_err(|conflicts| {
            let mut paths: Vec<_> = conflicts.iter().map(|path| to_shown(path)).collect();
            paths.sort_unstable();
            FsError::Conflict { paths }
        })
}

impl Expected {
    /// The same, as the journal says it.
    fn state(&self) -> ExpectedState {
        match *self {
            Self::Absent => ExpectedState::Nothing,
            Self::Exactly(kind, version) => ExpectedState::Version(kind, version),
            Self::Directory { .. } => ExpectedState::Directory,
        }
    }
}

struct Work<'a> {
    disk: &'a Arc<HostDisk>,
    layer: &'a Layer,
    /// What leaves its place.
    taken: BTreeMap<PathBuf, u32>,
    puts: Vec<Put>,
    metas: Vec<(PathBuf, Meta)>,
    conflicts: BTreeSet<PathBuf>,
    versions: Vec<(FileVersion, PathBuf)>,
    checked: Vec<journal::Expected>,
}

struct Put {
    path: PathBuf,
    what: What,
    replaces: bool,
}

enum What {
    Staged(Arc<Staged>),
    Link(Arc<Link>),
    NewDir(Meta, Option<Arc<Attributes>>),
    Taken(PathBuf),
}

impl Work<'_> {
    /// The changed entries of a directory. `below` is the place whose entries show through there in the workspace.
    fn children(&mut self, path: &Path, dir: &Dir, below: Option<&Path>, is_there: bool) -> io::Result<()> {
        for (name, node) in &dir.changed {
            let below = below.map(|place| place.join(&**name));
            if !is_there && !matches!(node, Node::Gone) {
                // The directory was removed by somebody else.
                self.conflicts.insert(below.unwrap_or_else(|| path.join(&**name)));
                continue;
            }
            self.node(&path.join(&**name), node, below.as_deref())?;
        }
        Ok(())
    }

    /// What a command wrote as it was is not put there again, and is checked all the same.
    fn same(&mut self) -> io::Result<()> {
        let layer = self.layer;
        let mut same = layer.written.iter().filter(|(_, written)| written.how == WrittenAs::Same);
        same.try_for_each(|(place, _)| self.check(place).map(drop))
    }

    fn node(&mut self, path: &Path, node: &Node, below: Option<&Path>) -> io::Result<()> {
        match node {
            Node::Gone => {
                if let Some(place) = below
                    && self.check(place)?.is_some()
                {
                    self.remove(place)?;
                }
            }
            Node::File(staged) => {
                let replaces = self.replace(path, below, staged.entry().kind)?;
                self.versions.push((staged.version(), path.to_owned()));
                self.put(path, What::Staged(Arc::clone(staged)), replaces);
            }
            Node::Link(link) => {
                let replaces = self.replace(path, below, EntryKind::Symlink)?;
                self.put(path, What::Link(Arc::clone(link)), replaces);
            }
            Node::Moved(source) => self.moved(path, source, below)?,
            Node::Dir(dir) => match &dir.source {
                Some(source) => {
                    self.moved(path, source, below)?;
                    let is_there =
                        matches!(self.disk.look(source)?, Some(found) if found.kind == EntryKind::Directory);
                    self.children(path, dir, Some(source), is_there)?;
                    if let (Some(meta), true) = (dir.meta, is_there) {
                        if self.layer.records.contains_key(source) {
                            self.check(source)?;
                        }
                        self.metas.push((path.to_owned(), meta));
                    }
                }
                None => self.new_dir(path, dir, below)?,
            },
        }
        Ok(())
    }

    /// Something of the workspace comes to another place, unless it is where it belongs.
    fn moved(&mut self, path: &Path, source: &Arc<Path>, below: Option<&Path>) -> io::Result<()> {
        if below == Some(source) {
            return Ok(());
        }
        if let Some(place) = below
            && self.check(place)?.is_some()
        {
            self.remove(place)?;
        }
        self.check(source)?;
        if let Some(found) = self.disk.look(source)?
            && found.kind == EntryKind::File
        {
            self.versions.push((found.version(), path.to_owned()));
        }
        self.take(source);
        self.put(path, What::Taken(source.to_path_buf()), false);
        Ok(())
    }

    fn new_dir(&mut self, path: &Path, dir: &Dir, below: Option<&Path>) -> io::Result<()> {
        let meta = dir.meta.unwrap_or(Meta { mode: 0o755, modified: 0, owner: None });
        let Some(place) = below else {
            return self.put_dir(path, dir, meta, None);
        };
        if self.expected(place) == Expected::Absent {
            match self.disk.look(place)?.map(|found| found.kind) {
                None => return self.put_dir(path, dir, meta, below),
                // Both made it.
                Some(EntryKind::Directory) => {}
                Some(_) => _ = self.conflicts.insert(place.to_owned()),
            }
            return self.children(path, dir, below, true);
        }
        if self.check(place)?.is_some() {
            self.remove(place)?;
        }
        self.put_dir(path, dir, meta, None)
    }

    /// A directory that is not there comes to its place, with all that is in it.
    fn put_dir(&mut self, path: &Path, dir: &Dir, meta: Meta, below: Option<&Path>) -> io::Result<()> {
        self.put(path, What::NewDir(meta, dir.attributes.clone()), false);
        self.children(path, dir, below, true)?;
        if dir.keeps_time {
            self.metas.push((path.to_owned(), meta));
        }
        Ok(())
    }

    /// Makes room for a file or link. Whether it can simply be put in the place of what is there.
    fn replace(&mut self, path: &Path, below: Option<&Path>, kind: EntryKind) -> io::Result<bool> {
        let Some(place) = below else { return Ok(false) };
        match self.check(place)? {
            None => Ok(false),
            Some(there) if there == kind && place == path => Ok(true),
            Some(_) => {
                self.remove(place)?;
                Ok(false)
            }
        }
    }

    fn expected(&self, place: &Path) -> Expected {
        self.layer.records.get(place).copied().unwrap_or(Expected::Absent)
    }

    /// Whether a place is as it was, and what was there.
    fn check(&mut self, place: &Path) -> io::Result<Option<EntryKind>> {
        let expected = self.expected(place);
        if !expected.holds(look_in_tree(&**self.disk, place)?.as_ref()) {
            self.conflicts.insert(place.to_owned());
        }
        self.checked.push(journal::Expected { path: place.to_owned(), state: expected.state() });
        Ok(expected.kind())
    }

    /// Something leaves, and so does everything in it that was not moved elsewhere.
    fn remove(&mut self, place: &Path) -> io::Result<()> {
        let records = &self.layer.records;
        let inside: Vec<_> =
            records.range(Arc::from(place)..).take_while(|(path, _)| path.starts_with(place)).collect();
        for (path, expected) in inside {
            if !expected.holds(look_in_tree(&**self.disk, path)?.as_ref()) {
                self.conflicts.insert(path.to_path_buf());
            }
        }
        self.take(place);
        Ok(())
    }

    fn take(&mut self, place: &Path) {
        self.taken.insert(place.to_owned(), 0);
    }

    fn put(&mut self, path: &Path, what: What, replaces: bool) {
        self.puts.push(Put { path: path.to_owned(), what, replaces });
    }

    fn finish(&mut self, stage: &Arc<Stage>) -> io::Result<Planned> {
        let mut steps = Vec::with_capacity(self.taken.len() + self.puts.len() + self.metas.len());
        let mut places: Vec<PathBuf> = self.taken.keys().cloned().collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.iter().count()));
        for (slot, path) in (0..).zip(places) {
            self.taken.insert(path.clone(), slot);
            steps.push(PlanStep::Take { path, slot });
        }
        let mut prepared = Prepared { disk: Arc::clone(self.disk), made: Vec::new() };
        let mut staged = Vec::new();
        // The new directories, where they are staged.
        let mut dirs: HashMap<PathBuf, PathBuf> = HashMap::new();
        for Put { path, what, replaces } in std::mem::take(&mut self.puts) {
            let from = match what {
                What::Taken(place) => Source::Taken(self.taken.get(&place).copied().unwrap_or_default()),
                What::Staged(file) => {
                    let file = file.ready()?;
                    let from = file.path().to_owned();
                    staged.push((file, path.clone()));
                    Source::Staged(from)
                }
                What::NewDir(meta, attributes) => {
                    let made = stage.fresh();
                    let above = path.parent().unwrap_or(Path::new(""));
                    let above = dirs.get(above).map_or(above, PathBuf::as_path);
                    match &attributes {
                        None if self.disk.gives(above)? => stage.make_dir_given(&made, above)?,
                        _ => self.disk.make_dir(&made, meta.mode)?,
                    }
                    prepared.made.push(made.clone());
                    if let Some(attributes) = &attributes {
                        self.disk.set_dir_attributes(&made, attributes)?;
                    }
                    if meta.owner.is_some() {
                        self.disk.set_meta(&made, meta)?;
                    }
                    dirs.insert(path.clone(), made.clone());
                    Source::Staged(made)
                }
                What::Link(link) => {
                    let made = stage.fresh();
                    self.disk.make_link(&made, &link.target)?;
                    prepared.made.push(made.clone());
                    self.disk.set_meta(&made, link.meta)?;
                    Source::Staged(made)
                }
            };
            // What was there may have been moved elsewhere.
            let replaces = replaces && !self.taken.contains_key(&path);
            steps.push(PlanStep::Put { path, from, replaces });
        }
        // What is set last is not changed by what comes into a directory afterwards.
        for (path, meta) in std::mem::take(&mut self.metas).into_iter().rev() {
            steps.push(PlanStep::Meta { path, meta });
        }
        let versions = std::mem::take(&mut self.versions);
        let expected = std::mem::take(&mut self.checked);
        let lost = self.layer.lost.iter().map(|path| path.to_path_buf()).collect();
        let plan = Plan { steps, lost };
        Ok(Planned { plan, expected, staged, versions, prepared })
    }
}
