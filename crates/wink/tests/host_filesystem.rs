//! A directory of the machine as a workspace.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::fs;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::filesystem::{Filesystem, FilesystemExt, WriteMode};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_who_have_it_open_lose_nothing() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("f"), "END").unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            // As another process would: only the directory is shared.
            let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
            tokio::spawn(async move {
                for turn in 0..8 {
                    files.edit_text("f", "END", &format!("{task}.{turn}\nEND")).await.unwrap();
                    files.write_as("log", "x", WriteMode::Append).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(fs::read_to_string(dir.path().join("log")).unwrap(), "x".repeat(32));
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap().lines().count(), 33);
}
