//! What every [`Filesystem`] must do, as one function to run on any implementation.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a contract suite says what is broken by panicking"
)]

mod changes;
mod files;
mod search;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use crate::filesystem::{
    EntryKind, Filesystem, FilesystemExt, FsErrorKind, FsLimits, FsPath, FsResult, WriteOptions,
};

/// What a filesystem under test starts with.
#[derive(Debug, Clone, Copy)]
pub struct FilesystemSeed<'a> {
    /// Its files; directories come from their paths.
    pub files: &'a [(&'a str, &'a [u8])],
    /// Its limits.
    pub limits: FsLimits,
    /// Whether it refuses changes.
    pub read_only: bool,
}

type Make<'a> = &'a dyn Fn(FilesystemSeed<'_>) -> Arc<dyn Filesystem>;

/// Runs the whole contract on filesystems that `make` makes, each new and with nothing but its seed in it.
/// Needs a Tokio runtime.
///
/// # Panics
///
/// When the implementation breaks the contract; the text says where.
pub async fn filesystem_contract(make: impl Fn(FilesystemSeed<'_>) -> Arc<dyn Filesystem>) {
    files::check(&make).await;
    search::check(&make).await;
    changes::check(&make).await;
}

/// Everything in a filesystem: directories as none, files with their contents.
///
/// # Panics
///
/// When something cannot be read.
pub async fn filesystem_tree(fs: &dyn Filesystem) -> BTreeMap<FsPath, Option<Vec<u8>>> {
    let mut tree = BTreeMap::new();
    let mut dirs = vec![FsPath::root()];
    while let Some(dir) = dirs.pop() {
        for entry in fs.list(&dir).await.expect("every directory can be listed") {
            let content = match entry.kind {
                EntryKind::File => Some(fs.read_bytes(&entry.path).await.expect("every file can be read")),
                _ => None,
            };
            if entry.kind == EntryKind::Directory {
                dirs.push(entry.path.clone());
            }
            tree.insert(entry.path, content.map(|read| read.bytes.to_vec()));
        }
    }
    tree
}

fn empty(make: Make<'_>) -> Arc<dyn Filesystem> {
    seeded(make, &[])
}

fn seeded(make: Make<'_>, files: &[(&str, &str)]) -> Arc<dyn Filesystem> {
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    make(FilesystemSeed { files: &files, limits: FsLimits::DEFAULT, read_only: false })
}

fn limited(make: Make<'_>, limits: FsLimits) -> Arc<dyn Filesystem> {
    make(FilesystemSeed { files: &[], limits, read_only: false })
}

async fn write_bytes(fs: &dyn Filesystem, path: &str, content: &[u8]) {
    fs.write(&at(fs, path), content, WriteOptions::default()).await.expect("a plain write goes through");
}

fn at(fs: &dyn Filesystem, path: &str) -> FsPath {
    fs.path(path).expect("a plain path is accepted")
}

#[track_caller]
fn refused<T: Debug>(result: FsResult<T>, kind: FsErrorKind) {
    let error = result.expect_err("this must be refused");
    assert_eq!(error.kind(), kind, "refused for another reason: {error}");
}
