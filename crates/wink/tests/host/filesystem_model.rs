//! Random operations, forks, merges, rollbacks and snapshots on the in-memory filesystem, against a plain map.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use wink::filesystem::{
    DeleteMode, Edit, Filesystem, FsError, FsErrorKind, FsLimits, FsPath, FsSnapshot, MemoryFilesystem,
    MkdirOptions, WriteMode, WriteOptions,
};
use wink::testing::filesystem_tree;

/// Deep enough for directories in directories, shallow enough to be hit.
const LIMITS: FsLimits = FsLimits { max_segments: 3, ..FsLimits::DEFAULT };

#[derive(Debug, Clone)]
enum Op {
    Write { path: String, content: String, mode: WriteMode, create_parents: bool },
    Edit { path: String, old: String, new: String, replace_all: bool },
    Delete { path: String, mode: DeleteMode },
    Mkdir { path: String, parents: bool, exist_ok: bool },
    Rename { from: String, to: String },
}

#[derive(Debug, Clone)]
enum Step {
    /// On the innermost fork, or `up` levels further out.
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
    RestoreFromJson(prop::sample::Index),
}

/// A directory, or a file with a number that no other write has.
#[derive(Debug, Clone, PartialEq)]
enum Entry {
    Dir,
    File { write: u64, content: String },
}

type Model = BTreeMap<String, Entry>;

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn is_dir(model: &Model, path: &str) -> bool {
    path.is_empty() || model.get(path) == Some(&Entry::Dir)
}

fn below<'a>(model: &'a Model, path: &str) -> impl Iterator<Item = &'a String> {
    let prefix = format!("{path}/");
    model.keys().filter(move |key| key.starts_with(&prefix))
}

/// Every directory above `path`, outermost first.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(move |(at, _)| &path[..at])
}

/// No file may be above `path`.
fn reachable(model: &Model, path: &str) -> Result<(), FsErrorKind> {
    match above(path).find_map(|dir| model.get(dir).filter(|entry| **entry != Entry::Dir)) {
        Some(_) => Err(FsErrorKind::NotDirectory),
        None => Ok(()),
    }
}

fn make_parents(model: &mut Model, path: &str, allowed: bool) -> Result<(), FsErrorKind> {
    if !allowed && !is_dir(model, parent(path)) {
        return Err(FsErrorKind::NotFound);
    }
    for dir in above(path) {
        model.entry(dir.to_owned()).or_insert(Entry::Dir);
    }
    Ok(())
}

fn apply(model: &mut Model, op: &Op, write: u64) -> Result<(), FsErrorKind> {
    match op {
        Op::Write { path, content, mode, create_parents } => {
            reachable(model, path)?;
            let content = match model.get(path) {
                _ if is_dir(model, path) => return Err(FsErrorKind::IsDirectory),
                Some(Entry::File { content: old, .. }) => match mode {
                    WriteMode::Create => return Err(FsErrorKind::Exists),
                    WriteMode::Overwrite => content.clone(),
                    WriteMode::Append => format!("{old}{content}"),
                },
                _ => content.clone(),
            };
            make_parents(model, path, *create_parents)?;
            model.insert(path.clone(), Entry::File { write, content });
        }
        Op::Edit { path, old, new, replace_all } => {
            reachable(model, path)?;
            let Some(Entry::File { content, .. }) = model.get(path) else {
                let kind = if is_dir(model, path) { FsErrorKind::IsDirectory } else { FsErrorKind::NotFound };
                return Err(kind);
            };
            let places = (0..content.len()).filter(|at| content[*at..].starts_with(old.as_str())).count();
            let content = match (old.as_str(), places) {
                ("", _) => return Err(FsErrorKind::EmptyOld),
                (_, 0) => return Err(FsErrorKind::NoMatch),
                (_, 2..) if !replace_all => return Err(FsErrorKind::AmbiguousMatch),
                _ => content.replace(old, new),
            };
            model.insert(path.clone(), Entry::File { write, content });
        }
        Op::Delete { path, .. } if path.is_empty() => return Err(FsErrorKind::RootProtected),
        Op::Delete { path, mode } => {
            reachable(model, path)?;
            let inside: Vec<String> = below(model, path).cloned().collect();
            if !model.contains_key(path) {
                return Err(FsErrorKind::NotFound);
            }
            if *mode == DeleteMode::Single && !inside.is_empty() {
                return Err(FsErrorKind::NotEmpty);
            }
            model.retain(|key, _| key != path && !inside.contains(key));
        }
        Op::Mkdir { path, parents, exist_ok } => {
            reachable(model, path)?;
            if is_dir(model, path) {
                return if *exist_ok { Ok(()) } else { Err(FsErrorKind::Exists) };
            }
            if model.contains_key(path) {
                return Err(FsErrorKind::NotDirectory);
            }
            make_parents(model, path, *parents)?;
            model.insert(path.clone(), Entry::Dir);
        }
        Op::Rename { from, to } => {
            if from.is_empty() || to.is_empty() {
                return Err(FsErrorKind::RootProtected);
            }
            reachable(model, from)?;
            if !model.contains_key(from) {
                return Err(FsErrorKind::NotFound);
            }
            if from == to {
                return Ok(());
            }
            if to.starts_with(&format!("{from}/")) {
                return Err(FsErrorKind::IntoItself);
            }
            reachable(model, to)?;
            if model.contains_key(to) {
                return Err(FsErrorKind::Exists);
            }
            if !is_dir(model, parent(to)) {
                return Err(FsErrorKind::NotFound);
            }
            let moved = |key: &str| format!("{to}{}", &key[from.len()..]);
            let taken: Vec<String> = below(model, from).cloned().chain([from.clone()]).collect();
            if taken.iter().any(|key| moved(key).split('/').count() > LIMITS.max_segments) {
                return Err(FsErrorKind::TooDeep);
            }
            for key in taken {
                if let Some(entry) = model.remove(&key) {
                    model.insert(moved(&key), entry);
                }
            }
        }
    }
    Ok(())
}

fn changed(origin: &Model, fork: &Model) -> BTreeSet<String> {
    let keys = origin.keys().chain(fork.keys());
    keys.filter(|key| origin.get(*key) != fork.get(*key)).cloned().collect()
}

/// The three-way merge of plain maps, or the paths in conflict.
fn merged(origin: &Model, base: &Model, fork: &Model) -> Result<Model, BTreeSet<String>> {
    let changed = changed(origin, fork);
    if origin == base {
        return Ok(fork.clone());
    }
    let mut conflicts = BTreeSet::new();
    let mut result = base.clone();
    for key in &changed {
        let (before, now, after) = (origin.get(key), base.get(key), fork.get(key));
        if now != before && (now.is_none() || now != after) {
            conflicts.insert(key.clone());
        }
        if before.is_some() {
            result.remove(key);
        }
    }
    for key in changed.iter().filter(|key| origin.get(*key) == Some(&Entry::Dir)) {
        if below(&result, key).next().is_some() {
            conflicts.insert(key.clone());
        }
    }
    for key in &changed {
        if let Some(entry) = fork.get(key) {
            if is_dir(&result, parent(key)) {
                result.insert(key.clone(), entry.clone());
            } else {
                conflicts.insert(key.clone());
            }
        }
    }
    if conflicts.is_empty() { Ok(result) } else { Err(conflicts) }
}

struct Level {
    fs: Arc<dyn Filesystem>,
    model: Model,
    /// The state of the level below when this one was forked from it.
    origin: Model,
}

fn now<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("an in-memory operation did not complete at once"),
    }
}

fn at(path: &str) -> FsPath {
    FsPath::parse(path, &FsLimits::DEFAULT).unwrap()
}

fn perform(fs: &dyn Filesystem, op: &Op) -> Result<(), FsErrorKind> {
    let done = match op.clone() {
        Op::Write { path, content, mode, create_parents } => {
            let options = WriteOptions { mode, create_parents };
            now(fs.write(&at(&path), content.as_bytes(), options)).map(drop)
        }
        Op::Edit { path, old, new, replace_all } => {
            now(fs.edit(&at(&path), &Edit { old, new, replace_all })).map(drop)
        }
        Op::Delete { path, mode } => now(fs.delete(&at(&path), mode)),
        Op::Mkdir { path, parents, exist_ok } => {
            now(fs.mkdir(&at(&path), MkdirOptions { parents, exist_ok }))
        }
        Op::Rename { from, to } => now(fs.rename(&at(&from), &at(&to))),
    };
    done.map_err(|error| error.kind())
}

fn same(level: &Level) {
    let tree: BTreeMap<String, Option<String>> = now(filesystem_tree(&*level.fs))
        .into_iter()
        .map(|(path, bytes)| (path.to_string(), bytes.map(|bytes| String::from_utf8(bytes).unwrap())))
        .collect();
    let expected: BTreeMap<String, Option<String>> = level
        .model
        .iter()
        .map(|(path, entry)| match entry {
            Entry::Dir => (path.clone(), None),
            Entry::File { content, .. } => (path.clone(), Some(content.clone())),
        })
        .collect();
    assert_eq!(tree, expected);
}

fn run(steps: &[Step]) {
    let fs = Arc::new(MemoryFilesystem::new().with_limits(LIMITS));
    let mut levels = vec![Level { fs, model: Model::new(), origin: Model::new() }];
    let mut marks: Vec<(FsSnapshot, Model)> = Vec::new();
    for (turn, step) in steps.iter().enumerate() {
        let depth = levels.len();
        let top = levels.last_mut().unwrap();
        match step {
            Step::Do { op, up } => {
                let level = &mut levels[depth - 1 - up % depth];
                let mut next = level.model.clone();
                let expected = apply(&mut next, op, turn as u64);
                assert_eq!(perform(&*level.fs, op), expected, "{op:?}");
                if expected.is_ok() {
                    level.model = next;
                }
            }
            Step::Fork => {
                let level =
                    Level { fs: top.fs.fork().unwrap(), model: top.model.clone(), origin: top.model.clone() };
                levels.push(level);
            }
            Step::Merge | Step::MergeTwice if depth > 1 => {
                let fork = levels.pop().unwrap();
                let base = levels.last_mut().unwrap();
                match merged(&fork.origin, &base.model, &fork.model) {
                    Ok(model) => {
                        let mut receipt = base.fs.merge(&*fork.fs).unwrap();
                        if matches!(step, Step::MergeTwice) {
                            base.fs.unmerge(receipt).unwrap();
                            same(base);
                            receipt = base.fs.merge(&*fork.fs).unwrap();
                        }
                        drop(receipt);
                        base.model = model;
                    }
                    Err(conflicts) => {
                        let paths = conflicts.iter().map(|path| at(path)).collect();
                        assert_eq!(base.fs.merge(&*fork.fs).unwrap_err(), FsError::Conflict { paths });
                    }
                }
            }
            Step::Rollback if depth > 1 => drop(levels.pop()),
            Step::Merge | Step::MergeTwice | Step::Rollback => {}
            Step::Snapshot => marks.push((top.fs.snapshot().unwrap(), top.model.clone())),
            Step::Restore(index) | Step::RestoreFromJson(index) if !marks.is_empty() => {
                let (mark, model) = index.get(&marks);
                match step {
                    Step::Restore(_) => top.fs.restore(mark).unwrap(),
                    _ => top.fs.restore(&top.fs.decode_snapshot(&mark.to_json()).unwrap()).unwrap(),
                }
                top.model = model.clone();
            }
            Step::Restore(_) | Step::RestoreFromJson(_) => {}
        }
        levels.iter().for_each(same);
        for level in &levels[1..] {
            let changes: BTreeSet<String> = level.fs.changes().iter().map(FsPath::to_string).collect();
            assert_eq!(changes, changed(&level.origin, &level.model), "what the fork says it changed");
        }
    }
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![1 => Just(String::new()), 40 => prop::collection::vec("[abc]", 1..=3).prop_map(|segments| segments.join("/"))]
}

fn op() -> impl Strategy<Value = Op> {
    let mode = prop_oneof![Just(WriteMode::Create), Just(WriteMode::Overwrite), Just(WriteMode::Append)];
    let delete = prop_oneof![Just(DeleteMode::Single), Just(DeleteMode::Recursive)];
    let mostly = || prop::bool::weighted(0.8);
    prop_oneof![
        6 => (path(), "[xy\n]{0,3}", mode, mostly())
            .prop_map(|(path, content, mode, create_parents)| Op::Write { path, content, mode, create_parents }),
        2 => (path(), "[xy]{0,2}", "[xyz]{0,2}", any::<bool>())
            .prop_map(|(path, old, new, replace_all)| Op::Edit { path, old, new, replace_all }),
        2 => (path(), delete).prop_map(|(path, mode)| Op::Delete { path, mode }),
        2 => (path(), mostly(), any::<bool>())
            .prop_map(|(path, parents, exist_ok)| Op::Mkdir { path, parents, exist_ok }),
        3 => (path(), path()).prop_map(|(from, to)| Op::Rename { from, to }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (op(), prop_oneof![3 => Just(0usize), 1 => Just(1usize)]).prop_map(|(op, up)| Step::Do { op, up }),
        2 => Just(Step::Fork),
        1 => Just(Step::Merge),
        1 => Just(Step::MergeTwice),
        1 => Just(Step::Rollback),
        1 => Just(Step::Snapshot),
        1 => any::<prop::sample::Index>().prop_map(Step::Restore),
        1 => any::<prop::sample::Index>().prop_map(Step::RestoreFromJson),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn memory_behaves_like_a_map(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps);
    }
}
