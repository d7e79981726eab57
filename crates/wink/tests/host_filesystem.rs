//! A directory of the machine as a workspace.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::fs;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use wink::filesystem::Filesystem;
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::testing::{FilesystemSeed, filesystem_contract};

/// Filesystems for the contract, each in a directory of its own.
fn make(dirs: &Mutex<Vec<TempDir>>, seed: FilesystemSeed<'_>, walk: bool) -> Arc<dyn Filesystem> {
    let dir = TempDir::new().unwrap();
    for (path, content) in seed.files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let FilesystemSeed { limits, read_only, .. } = seed;
    let options = HostOptions { limits, read_only, walk, ..HostOptions::default() };
    let files = HostFilesystem::open(dir.path(), options).unwrap();
    dirs.lock().unwrap().push(dir);
    Arc::new(files)
}

// cases 139, 140, 141, 142, 143, 144, 145, 146, 147, 148, 149, 150, 151, 152, 155, 156, 157
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_keeps_the_contract() {
    let dirs = Mutex::default();
    filesystem_contract(|seed| make(&dirs, seed, false)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_keeps_the_contract_without_help_of_the_kernel() {
    let dirs = Mutex::default();
    filesystem_contract(|seed| make(&dirs, seed, true)).await;
}
