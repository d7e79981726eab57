//! Random trees, random plans, and what a tree looks like.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::filesystem::EntryKind;
use crate::filesystem::host::disk::{Disk, Meta, OwnedBy, Replace};
use crate::filesystem::host::journal::{Journal, JournalOptions};
use crate::filesystem::host::plan::{Plan, PlanStep, Source};
use crate::testing::ModelDisk;

pub use crate::filesystem::STATE;

/// Everything that can be seen of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub kind: EntryKind,
    pub content: Vec<u8>,
    pub meta: Meta,
    pub ino: u64,
}

pub type Tree = BTreeMap<PathBuf, Seen>;

/// The whole tree with its root, without the state directory.
pub fn tree(disk: &dyn Disk) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(path) = todo.pop() {
        let entry = disk.look(&path).unwrap().unwrap();
        let content = match entry.kind {
            EntryKind::File => disk.read(&path).unwrap(),
            EntryKind::Symlink => disk.read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            EntryKind::Directory => {
                let names = disk.read_dir(&path).unwrap().into_iter().map(|(name, _)| path.join(name));
                todo.extend(names.filter(|path| path != Path::new(STATE)));
                Vec::new()
            }
            EntryKind::Other => Vec::new(),
        };
        tree.insert(path, Seen { kind: entry.kind, content, meta: entry.meta, ino: entry.ino });
    }
    tree
}

/// What a plan promises to leave: inodes are its own affair, and so are times of directories.
pub fn promised(tree: &Tree) -> Tree {
    let mut tree = tree.clone();
    for seen in tree.values_mut() {
        seen.ino = 0;
        if seen.kind == EntryKind::Directory {
            seen.meta.modified = 0;
        }
    }
    tree
}

pub fn journal(disk: std::sync::Arc<dyn Disk>) -> Journal {
    Journal::new(disk, STATE, JournalOptions::default()).unwrap()
}

/// Choices, made in advance so that a failing case can be made smaller. When they run out, the first is taken.
pub struct Choices<'a> {
    left: std::slice::Iter<'a, u8>,
}

impl<'a> Choices<'a> {
    pub fn new(all: &'a [u8]) -> Self {
        Self { left: all.iter() }
    }

    fn of(&mut self, count: usize) -> usize {
        usize::from(*self.left.next().unwrap_or(&0)) % count.max(1)
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        all.get(self.of(all.len())).cloned()
    }

    fn meta(&mut self) -> Meta {
        Meta {
            mode: [0o644, 0o755, 0o600][self.of(3)],
            modified: 1_000_000_000_000 + 7 * self.of(50) as i128,
            owner: [None, Some(OwnedBy { user: 1, group: 1 }), Some(OwnedBy { user: 2, group: 1 })]
                [self.of(3)],
        }
    }
}

/// Does the same to several disks.
fn everywhere(disks: &[&dyn Disk], change: impl Fn(&dyn Disk) -> std::io::Result<()>) {
    for disk in disks {
        change(*disk).unwrap();
    }
}

fn paths(disk: &dyn Disk, kinds: &[EntryKind]) -> Vec<PathBuf> {
    let tree = tree(disk);
    let wanted = tree.iter().filter(|(path, seen)| **path != Path::new("") && kinds.contains(&seen.kind));
    wanted.map(|(path, _)| path.clone()).collect()
}

/// A place where nothing is, in a directory that is there.
fn free_path(disk: &dyn Disk, choices: &mut Choices<'_>) -> Option<PathBuf> {
    let mut dirs = paths(disk, &[EntryKind::Directory]);
    dirs.insert(0, PathBuf::new());
    let dir = choices.pick(&dirs)?;
    let name = ["a", "b", "c", "d", "e"][choices.of(5)];
    let path = dir.join(name);
    (path.components().count() < 5 && disk.look(&path).unwrap().is_none()).then_some(path)
}

/// Makes the same tree on all disks.
pub fn grow(disks: &[&dyn Disk], choices: &mut Choices<'_>) {
    let model = disks[0];
    for _ in 0..choices.of(14) {
        let Some(path) = free_path(model, choices) else { continue };
        let meta = choices.meta();
        match choices.of(6) {
            0..=2 => {
                let content = vec![b'0'; choices.of(20)];
                everywhere(disks, |disk| disk.create(&path, &content, meta.mode));
            }
            3 | 4 => everywhere(disks, |disk| disk.make_dir(&path, 0o755)),
            _ => match choices.pick(&paths(model, &[EntryKind::File])) {
                Some(file) if choices.of(2) == 0 => everywhere(disks, |disk| disk.link(&file, &path)),
                _ => everywhere(disks, |disk| disk.make_link(&path, Path::new("a/target"))),
            },
        }
        everywhere(disks, |disk| disk.set_meta(&path, meta));
    }
    let dirs = paths(model, &[EntryKind::Directory]);
    for dir in dirs.iter().map(PathBuf::as_path).chain([Path::new("")]) {
        everywhere(disks, |disk| disk.set_meta(dir, Meta { mode: 0o755, modified: 77_000, owner: None }));
    }
}

/// A random plan for the tree on `scratch`, which is changed as the plan says. What it puts is staged on `disk`.
pub struct Planner<'a, 'c> {
    pub disk: &'a dyn Disk,
    pub scratch: &'a ModelDisk,
    pub choices: Choices<'c>,
    plan: Plan,
    put: BTreeSet<PathBuf>,
    /// What was put, wherever it is now: it is not changed again.
    placed: BTreeSet<u64>,
    taken: BTreeSet<PathBuf>,
    set: BTreeSet<PathBuf>,
    /// Taken and not put yet.
    held: Vec<u32>,
    slots: u32,
    staged: u32,
}

const ANY: &[EntryKind] = &[EntryKind::File, EntryKind::Symlink, EntryKind::Directory];

impl<'a, 'c> Planner<'a, 'c> {
    pub fn new(disk: &'a dyn Disk, scratch: &'a ModelDisk, choices: Choices<'c>) -> Self {
        disk.make_dir(&Path::new(STATE).join("stage"), 0o755).unwrap();
        scratch.make_dir(Path::new(STATE), 0o755).unwrap();
        let (put, placed, taken, set) = Default::default();
        Self {
            disk,
            scratch,
            choices,
            plan: Plan::default(),
            placed,
            put,
            taken,
            set,
            held: vec![],
            slots: 0,
            staged: 0,
        }
    }

    pub fn plan(mut self) -> Plan {
        for _ in 0..self.choices.of(5) {
            self.take();
        }
        for _ in 0..self.choices.of(9) {
            match self.choices.of(8) {
                0 | 1 => self.put_new(),
                2 | 3 => self.replace(),
                4 => self.put_where_something_was(),
                _ => self.put_held(),
            }
        }
        for _ in 0..self.choices.of(4) {
            self.set_meta();
        }
        self.plan
    }

    fn put_new(&mut self) {
        if let Some(path) = free_path(self.scratch, &mut self.choices)
            && self.put.insert(path.clone())
        {
            let kind = ANY[self.choices.of(3)];
            let staged = self.stage(kind, &path, Replace::Refused);
            self.push(PlanStep::Put { path, from: Source::Staged(staged), replaces: false });
        }
    }

    fn replace(&mut self) {
        let there = paths(self.scratch, &[EntryKind::File, EntryKind::Symlink]);
        if let Some(path) = self.choices.pick(&there)
            && !self.is_placed(&path)
            && self.put.insert(path.clone())
        {
            let from = match self.held.last() {
                Some(slot) if self.is_file(*slot) && self.choices.of(2) == 0 => {
                    let slot = self.held.pop().unwrap();
                    self.bring(slot, &path, Replace::Allowed);
                    Source::Taken(slot)
                }
                _ => Source::Staged(self.stage(EntryKind::File, &path, Replace::Allowed)),
            };
            self.push(PlanStep::Put { path, from, replaces: true });
        }
    }

    fn take(&mut self) {
        let there = paths(self.scratch, ANY);
        if let Some(path) = self.choices.pick(&there)
            && !self.put.contains(&path)
            && !self.is_placed(&path)
            && self.taken.insert(path.clone())
        {
            let slot = self.slots;
            self.slots += 1;
            self.scratch.rename(&path, &held(slot), Replace::Refused).unwrap();
            self.held.push(slot);
            self.push(PlanStep::Take { path, slot });
        }
    }

    fn put_where_something_was(&mut self) {
        let free: Vec<PathBuf> = self.taken.iter().filter(|path| self.is_free(path)).cloned().collect();
        if let Some(path) = self.choices.pick(&free)
            && self.put.insert(path.clone())
        {
            let kind = ANY[self.choices.of(3)];
            let staged = self.stage(kind, &path, Replace::Refused);
            self.push(PlanStep::Put { path, from: Source::Staged(staged), replaces: false });
        }
    }

    /// Whether nothing is there, in a directory that is.
    fn is_free(&self, path: &Path) -> bool {
        let parent = self.scratch.look(path.parent().unwrap());
        parent.is_ok_and(|parent| parent.is_some_and(|parent| parent.kind == EntryKind::Directory))
            && self.scratch.look(path).unwrap().is_none()
    }

    fn put_held(&mut self) {
        if let Some(path) = free_path(self.scratch, &mut self.choices)
            && !self.held.is_empty()
            && self.put.insert(path.clone())
        {
            let slot = self.held.remove(self.choices.of(self.held.len()));
            self.bring(slot, &path, Replace::Refused);
            self.push(PlanStep::Put { path, from: Source::Taken(slot), replaces: false });
        }
    }

    fn set_meta(&mut self) {
        let there = paths(self.scratch, &[EntryKind::File, EntryKind::Directory]);
        if let Some(path) = self.choices.pick(&there)
            // What is put is staged with its mode, unless it is a directory.
            && (self.is_dir(&path) || !self.put.contains(&path) && !self.is_placed(&path))
            && self.set.insert(path.clone())
        {
            let meta = self.choices.meta();
            self.scratch.set_meta(&path, meta).unwrap();
            self.push(PlanStep::Meta { path, meta });
        }
    }

    fn is_file(&self, slot: u32) -> bool {
        self.scratch.look(&held(slot)).unwrap().unwrap().kind != EntryKind::Directory
    }

    fn bring(&self, slot: u32, path: &Path, replace: Replace) {
        self.scratch.rename(&held(slot), path, replace).unwrap();
        if self.scratch.look(&held(slot)).unwrap().is_some() {
            self.scratch.unlink(&held(slot)).unwrap();
        }
    }

    /// Prepares something on the disk, and has it in place on the scratch already.
    fn stage(&mut self, kind: EntryKind, path: &Path, replace: Replace) -> PathBuf {
        let staged = Path::new(STATE).join(format!("stage/{}", self.staged));
        let ready = Path::new(STATE).join("ready");
        self.staged += 1;
        let meta = self.choices.meta();
        let content = format!("new {} {}", self.staged, self.choices.of(9));
        for (disk, at) in [(self.disk, &staged), (self.scratch as &dyn Disk, &ready)] {
            match kind {
                EntryKind::Directory => disk.make_dir(at, 0o755).unwrap(),
                EntryKind::Symlink => disk.make_link(at, Path::new(&content)).unwrap(),
                _ => disk.create(at, content.as_bytes(), meta.mode).unwrap(),
            }
            disk.set_meta(at, meta).unwrap();
        }
        self.scratch.rename(&ready, path, replace).unwrap();
        staged
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.scratch.look(path).unwrap().unwrap().kind == EntryKind::Directory
    }

    fn is_placed(&self, path: &Path) -> bool {
        self.placed.contains(&self.scratch.look(path).unwrap().unwrap().ino)
    }

    fn push(&mut self, step: PlanStep) {
        if let PlanStep::Put { path, .. } = &step {
            self.placed.insert(self.scratch.look(path).unwrap().unwrap().ino);
        }
        self.plan.steps.push(step);
    }
}

fn held(slot: u32) -> PathBuf {
    Path::new(STATE).join(format!("held{slot}"))
}
