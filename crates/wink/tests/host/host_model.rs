//! Random operations, forks, merges, rollbacks and snapshots on a host directory, against the filesystem in memory.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use tempfile::TempDir;
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::filesystem::{
    DeleteMode, Edit, Filesystem, FsErrorKind, FsLimits, FsPath, FsResult, FsSnapshot, MemoryFilesystem,
    MkdirOptions, WriteMode, WriteOptions,
};
use wink::testing::filesystem_tree;

/// Deep enough for directories in directories, shallow enough to be hit.
const LIMITS: FsLimits = FsLimits { max_segments: 4, ..FsLimits::DEFAULT };

#[derive(Debug, Clone)]
enum Op {
    Write { path: FsPath, content: String, mode: WriteMode, create_parents: bool },
    Edit { path: FsPath, old: String, new: String },
    Delete { path: FsPath, mode: DeleteMode },
    Mkdir { path: FsPath, options: MkdirOptions },
    Rename { from: FsPath, to: FsPath },
}

#[derive(Debug, Clone)]
enum Step {
    /// On the innermost fork, or `up` levels further out. The workspace itself shows through its forks, and so is
    /// changed only when there are none.
    Do {
        op: Op,
        up: usize,
    },
    Fork,
    Merge,
    MergeTwice,
    Rollback,
    Snapshot,
    Restore(prop::sample::Index),
    RestoreFromJson,
}

/// Neither waits for anything here: without a runtime work is done at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("work is done at the first poll"),
    }
}

fn apply(fs: &dyn Filesystem, op: &Op) -> FsResult<()> {
    match op {
        Op::Write { path, content, mode, create_parents } => {
            let options = WriteOptions { mode: *mode, create_parents: *create_parents };
            now(fs.write(path, content.as_bytes(), options)).map(drop)
        }
        Op::Edit { path, old, new } => now(fs.edit(path, &Edit::all(old, new))).map(drop),
        Op::Delete { path, mode } => now(fs.delete(path, *mode)),
        Op::Mkdir { path, options } => now(fs.mkdir(path, *options)),
        Op::Rename { from, to } => now(fs.rename(from, to)),
    }
}

fn tree(fs: &dyn Filesystem) -> BTreeMap<FsPath, Option<Vec<u8>>> {
    now(filesystem_tree(fs))
}

fn kind<T>(result: &FsResult<T>) -> Option<FsErrorKind> {
    result.as_ref().err().map(|error| error.kind())
}

/// Both, one fork in the other. The one in memory says what is right.
struct Both {
    host: Vec<Arc<dyn Filesystem>>,
    memory: Vec<Arc<dyn Filesystem>>,
    /// With the level they were taken at.
    marks: Vec<(usize, FsSnapshot, FsSnapshot)>,
}

impl Both {
    fn check(&self, what: &dyn std::fmt::Debug) {
        for (host, memory) in self.host.iter().zip(&self.memory) {
            assert_eq!(tree(&**host), tree(&**memory), "after {what:?}");
            assert_eq!(host.changes(), memory.changes(), "after {what:?}");
        }
    }

    fn top(&self) -> (&dyn Filesystem, &dyn Filesystem) {
        (&**self.host.last().unwrap(), &**self.memory.last().unwrap())
    }

    fn merge(&mut self, is_taken_back_first: bool) {
        if self.host.len() == 1 {
            return;
        }
        let (host, memory) = (self.host.pop().unwrap(), self.memory.pop().unwrap());
        self.marks.retain(|(level, ..)| *level < self.host.len());
        let before = tree(self.top().0);
        if is_taken_back_first && let Ok(receipt) = self.top().0.merge(&*host) {
            self.top().0.unmerge(receipt).unwrap();
            assert_eq!(tree(self.top().0), before, "as if it had not been");
        }
        let (one, two) = (self.top().0.merge(&*host), self.top().1.merge(&*memory));
        assert_eq!(kind(&one), kind(&two), "{one:?}");
        if let (Ok(one), Ok(two)) = (one, two) {
            self.top().0.keep(one);
            self.top().1.keep(two);
        } else {
            assert_eq!(tree(self.top().0), before, "a conflict applies nothing");
        }
    }

    fn step(&mut self, step: &Step) {
        let last = self.host.len() - 1;
        match step {
            Step::Do { op, up } => {
                let level = if last == 0 { 0 } else { last.saturating_sub(*up).max(1) };
                let (one, two) = (apply(&*self.host[level], op), apply(&*self.memory[level], op));
                assert_eq!(kind(&one), kind(&two), "{op:?}: {one:?}");
            }
            Step::Fork if last < 3 => {
                let (one, two) = (self.top().0.fork().unwrap(), self.top().1.fork().unwrap());
                self.host.push(one);
                self.memory.push(two);
            }
            Step::Fork => {}
            Step::Merge => self.merge(false),
            Step::MergeTwice => self.merge(true),
            Step::Rollback if last > 0 => {
                self.host.pop();
                self.memory.pop();
                self.marks.retain(|(level, ..)| *level < last);
            }
            Step::Rollback => {}
            Step::Snapshot => {
                let (one, two) = self.top();
                self.marks.push((last, one.snapshot().unwrap(), two.snapshot().unwrap()));
            }
            Step::Restore(index) => {
                let known: Vec<_> = self.marks.iter().filter(|(level, ..)| *level == last).collect();
                if !known.is_empty() {
                    let (_, one, two) = index.get(&known);
                    self.top().0.restore(one).unwrap();
                    self.top().1.restore(two).unwrap();
                }
            }
            // In a fork everything that comes from JSON counts as changed.
            Step::RestoreFromJson if last > 0 => {}
            Step::RestoreFromJson => {
                if let Some((_, one, two)) = self.marks.iter().rfind(|(level, ..)| *level == last) {
                    let (host, memory) = self.top();
                    host.restore(&host.decode_snapshot(&one.to_json()).unwrap()).unwrap();
                    memory.restore(two).unwrap();
                }
            }
        }
        self.check(step);
    }
}

fn paths() -> impl Strategy<Value = FsPath> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 0..4)
        .prop_map(|names| FsPath::parse(&names.join("/"), &LIMITS).unwrap())
}

fn ops() -> impl Strategy<Value = Op> {
    let modes = prop::sample::select(vec![WriteMode::Create, WriteMode::Overwrite, WriteMode::Append]);
    prop_oneof![
        4 => (paths(), "[xy]{0,3}", modes, prop::bool::weighted(0.8)).prop_map(
            |(path, content, mode, create_parents)| Op::Write { path, content, mode, create_parents }
        ),
        1 => (paths(), "[xy]{1,2}", "[xyz]{0,2}").prop_map(|(path, old, new)| Op::Edit { path, old, new }),
        3 => (paths(), prop::bool::ANY).prop_map(|(path, all)| {
            Op::Delete { path, mode: if all { DeleteMode::Recursive } else { DeleteMode::Single } }
        }),
        2 => (paths(), prop::bool::ANY, prop::bool::ANY)
            .prop_map(|(path, parents, exist_ok)| Op::Mkdir { path, options: MkdirOptions { parents, exist_ok } }),
        5 => (paths(), paths()).prop_map(|(from, to)| Op::Rename { from, to }),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        14 => (ops(), prop_oneof![4 => Just(0usize), 1 => 0..3usize]).prop_map(|(op, up)| Step::Do { op, up }),
        3 => Just(Step::Fork),
        2 => Just(Step::Merge),
        1 => Just(Step::MergeTwice),
        1 => Just(Step::Rollback),
        1 => Just(Step::Snapshot),
        1 => any::<prop::sample::Index>().prop_map(Step::Restore),
        1 => Just(Step::RestoreFromJson),
    ]
}

/// In memory where there is such a directory: nothing here depends on the disk.
fn scratch() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// What the directory really has, seen without the runtime.
fn on_disk(dir: &Path) -> BTreeMap<FsPath, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in std::fs::read_dir(&next).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let relative = path.strip_prefix(dir).unwrap();
            if relative == Path::new(".wink") {
                continue;
            }
            let name = FsPath::parse(relative.to_str().unwrap(), &LIMITS).unwrap();
            let is_dir = path.is_dir();
            found.insert(name, (!is_dir).then(|| std::fs::read(&path).unwrap()));
            if is_dir {
                dirs.push(path);
            }
        }
    }
    found
}

/// A directory with what the operations leave.
fn seeded(before: &[Op]) -> (TempDir, MemoryFilesystem) {
    let dir = scratch();
    let seed = MemoryFilesystem::new().with_limits(LIMITS);
    for op in before {
        let _ = apply(&seed, op);
    }
    for (path, content) in tree(&seed) {
        let path = dir.path().join(path.as_str());
        match content {
            None => std::fs::create_dir_all(path).unwrap(),
            Some(content) => {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, content).unwrap();
            }
        }
    }
    (dir, seed)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_directory_does_what_memory_does(before in prop::collection::vec(ops(), 0..8), then in prop::collection::vec(steps(), 1..25)) {
        let (dir, seed) = seeded(&before);
        let options = HostOptions { limits: LIMITS, ..HostOptions::default() };
        let host = HostFilesystem::open(dir.path(), options).unwrap();
        let mut both = Both { host: vec![Arc::new(host)], memory: vec![Arc::new(seed)], marks: Vec::new() };
        for step in &then {
            both.step(step);
            prop_assert_eq!(on_disk(dir.path()), tree(&*both.memory[0]), "after {:?}", step);
        }
        while both.host.len() > 1 {
            both.merge(false);
        }
        prop_assert_eq!(on_disk(dir.path()), tree(&*both.memory[0]));
        drop(both);
        let stage = std::fs::read_dir(dir.path().join(".wink/stage")).unwrap().count();
        prop_assert_eq!(stage, 0, "nothing is left in the stage");
    }

    #[test]
    fn what_somebody_writes_between_fork_and_merge_is_never_lost(
        before in prop::collection::vec(ops(), 0..8),
        first in prop::collection::vec(ops(), 0..6),
        theirs in paths(),
        then in prop::collection::vec(ops(), 0..4),
    ) {
        const THEIRS: &[u8] = b"theirs, and nobody else's";
        let (dir, _) = seeded(&before);
        let options = HostOptions { limits: LIMITS, ..HostOptions::default() };
        let files = HostFilesystem::open(dir.path(), options).unwrap();
        let fork = files.fork().unwrap();
        for op in &first {
            let _ = apply(&*fork, op);
        }
        let path = dir.path().join(theirs.as_str());
        if let Some(parent) = path.parent() {
            let _ = std::fs::create_dir_all(parent);
        }
        let is_written = std::fs::write(&path, THEIRS).is_ok();
        // What the fork does to what it sees by then, it does on purpose.
        let seen = tree(&*fork).values().any(|content| content.as_deref() == Some(THEIRS));
        for op in then.iter().filter(|_| !seen) {
            let _ = apply(&*fork, op);
        }
        let was = on_disk(dir.path());
        match files.merge(&*fork) {
            Ok(receipt) => {
                files.keep(receipt);
                let is_there = on_disk(dir.path()).values().any(|content| content.as_deref() == Some(THEIRS));
                prop_assert!(!is_written || is_there, "{:?}", on_disk(dir.path()));
                prop_assert_eq!(on_disk(dir.path()), tree(&files));
            }
            Err(error) => {
                prop_assert_eq!(error.kind(), FsErrorKind::Conflict);
                prop_assert_eq!(on_disk(dir.path()), was);
            }
        }
    }
}
