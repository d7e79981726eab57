//! Places on disk for what is measured there, and a runtime to wait for it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::env;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::Size;

const FILES_IN_A_DIRECTORY: usize = 100;
/// How many files a call changes, each in a directory of its own.
const CHANGED: usize = 5;
/// What a file has before it is changed: 24 lines, about as many as a small one has.
const LINES: usize = 24;

/// A directory that goes with it. Beside this program, not among temporary files: those may be in memory.
pub(super) fn scratch() -> TempDir {
    let program = env::current_exe().unwrap_or_else(|error| unreachable!("{error}"));
    let beside = program.parent().unwrap_or(Path::new("."));
    tempfile::Builder::new()
        .prefix("wink-bench-")
        .tempdir_in(beside)
        .unwrap_or_else(|error| unreachable!("{}: {error}", beside.display()))
}

/// Two threads, as small machines have cores.
pub(super) fn runtime() -> Runtime {
    let built = Builder::new_multi_thread().worker_threads(2).enable_time().build();
    built.unwrap_or_else(|error| unreachable!("{error}"))
}

/// A workspace full of files.
pub(super) struct Tree {
    dir: TempDir,
    size: Size,
}

impl Tree {
    /// The one of this size: all who are measured at a time share it.
    pub(super) fn of(size: Size) -> Rc<Self> {
        thread_local! {
            static TREES: RefCell<HashMap<Size, Weak<Tree>>> = RefCell::default();
        }
        TREES.with_borrow_mut(|trees| {
            trees.get(&size).and_then(Weak::upgrade).unwrap_or_else(|| {
                let tree = Rc::new(Self::new(size));
                trees.insert(size, Rc::downgrade(&tree));
                tree
            })
        })
    }

    fn new(size: Size) -> Self {
        let tree = Self { dir: scratch(), size };
        for number in 0..size.files() {
            let path = tree.root().join(file(number));
            if number % FILES_IN_A_DIRECTORY == 0
                && let Some(dir) = path.parent()
            {
                fs::create_dir_all(dir).unwrap_or_else(|error| unreachable!("{error}"));
            }
            let text = format!("pub fn number_{number}() -> usize {{\n    {number}\n}}\n").repeat(LINES / 3);
            fs::write(&path, text).unwrap_or_else(|error| unreachable!("{}: {error}", path.display()));
        }
        tree
    }

    pub(super) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// The files that call `number` changes.
    pub(super) fn changed(&self, number: usize) -> Vec<String> {
        let directories = self.size.files() / FILES_IN_A_DIRECTORY;
        (0..CHANGED)
            .map(|which| {
                let directory = (number + which * directories / CHANGED) % directories;
                file(directory * FILES_IN_A_DIRECTORY + number % FILES_IN_A_DIRECTORY)
            })
            .collect()
    }
}

fn file(number: usize) -> String {
    let directory = number / FILES_IN_A_DIRECTORY;
    format!("part_{}/module_{}/file_{}.rs", directory / 20, directory % 20, number % FILES_IN_A_DIRECTORY)
}

/// What a changed file has: no two calls write the same, whoever makes them.
pub(super) fn content(who: &str, number: usize) -> String {
    format!("pub fn changed_by_{who}() -> usize {{\n    {number}\n}}\n").repeat(LINES / 3)
}

/// Waits for what must not fail.
pub(super) fn wait<T, E: std::fmt::Display>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T, E>>,
) -> T {
    runtime.block_on(work).unwrap_or_else(|error| unreachable!("{error}"))
}

/// Where the files of a tree are, for whoever runs a program there.
pub(super) fn absolute(tree: &Tree) -> PathBuf {
    std::path::absolute(tree.root()).unwrap_or_else(|error| unreachable!("{error}"))
}
