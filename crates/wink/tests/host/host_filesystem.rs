//! A directory of the machine as a workspace.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use wink::filesystem::host::journal::Retention;
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::filesystem::{
    DeleteMode, Filesystem, FilesystemExt, FsError, FsLimits, FsPath, GrepQuery, WriteMode,
};
use wink::testing::{FilesystemSeed, filesystem_contract};

use crate::listening::on_own_steps;

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

/// Merges a fork that wrote `f`, as a process does that dies before it says what becomes of that.
async fn left_undecided(files: &HostFilesystem) {
    let fork = files.fork().unwrap();
    fork.write_text("f", "committed").await.unwrap();
    drop(files.merge(&*fork).unwrap());
}

#[tokio::test]
async fn what_a_store_committed_is_not_undone_by_opening_without_it() {
    let dir = TempDir::new().unwrap();
    let with_store = || HostOptions { verdict: Some(Arc::new(|_| Ok(true))), ..HostOptions::default() };
    left_undecided(&HostFilesystem::open(dir.path(), with_store()).unwrap()).await;

    let error = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap_err();
    assert!(error.to_string().contains("open it as a Workspace"), "{error}");
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "committed");

    let files = HostFilesystem::open(dir.path(), with_store()).unwrap();
    assert_eq!(files.recovered().unwrap().kept.len(), 1);
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "committed");
    HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
}

#[tokio::test]
async fn the_way_back_to_a_snapshot_is_kept_by_whoever_has_the_workspace_open() {
    let dir = TempDir::new().unwrap();
    // As another process would: only the directory is shared.
    let open = || {
        let options = HostOptions { retention: Retention::Last(1), ..HostOptions::default() };
        HostFilesystem::open(dir.path(), options).unwrap()
    };
    let journals = || fs::read_dir(dir.path().join(".wink/journal")).unwrap().count();
    let (one, two) = (open(), open());
    two.write_text("f", "at the mark").await.unwrap();
    let (mark, later) = (one.snapshot().unwrap(), two.snapshot().unwrap());
    for turn in 0..4 {
        two.write_text("f", &turn.to_string()).await.unwrap();
    }
    drop(later);
    two.write_text("f", "after").await.unwrap();
    assert_eq!(journals(), 5);
    one.restore(&mark).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "at the mark");

    // It is not needed any more.
    drop(mark);
    two.write_text("f", "last").await.unwrap();
    assert_eq!(journals(), 1);
    // Neither is that of somebody who is gone.
    let mark = one.snapshot().unwrap();
    std::mem::forget(mark);
    two.write_text("f", "again").await.unwrap();
    two.write_text("f", "and again").await.unwrap();
    assert_eq!(journals(), 2);
    for entry in fs::read_dir(dir.path().join(".wink/owners")).unwrap() {
        let path = entry.unwrap().path();
        if fs::metadata(&path).unwrap().len() > 0 {
            // A file without a lock is what a process that was killed leaves.
            let note = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            fs::write(&path, note).unwrap();
        }
    }
    two.write_text("f", "for ever").await.unwrap();
    assert_eq!(journals(), 1);
}

#[tokio::test]
async fn what_the_store_does_not_know_is_durable_when_it_is_kept() {
    for (known, synced) in [(true, 0), (false, 1)] {
        let dir = TempDir::new().unwrap();
        let verdict: Arc<wink::filesystem::host::HostVerdict> = Arc::new(move |_| Ok(known));
        let options = HostOptions { verdict: Some(verdict), ..HostOptions::default() };
        let files = HostFilesystem::open(dir.path(), options).unwrap();
        let fork = files.fork().unwrap();
        fork.write_text("f", "text").await.unwrap();
        let receipt = files.merge(&*fork).unwrap();
        let count = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&count);
        let listening = on_own_steps(move |step| {
            if step == "host.kept-synced" {
                *counted.lock().unwrap() += 1;
            }
        });
        files.keep(receipt);
        drop(listening);
        assert_eq!(*count.lock().unwrap(), synced, "known to the store: {known}");
    }
}

#[tokio::test]
async fn a_file_of_a_terabyte_is_not_read() {
    let dir = TempDir::new().unwrap();
    let file = fs::File::create(dir.path().join("huge")).unwrap();
    file.set_len(1 << 40).unwrap();
    fs::write(dir.path().join("small"), "a line\n").unwrap();
    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    let huge = files.path("huge").unwrap();
    let max = FsLimits::DEFAULT.max_read_bytes;
    let refused = FsError::TooLargeToRead { path: huge.clone(), bytes: 1 << 40, max };
    assert_eq!(files.read_text("huge").await.unwrap_err(), refused);
    assert_eq!(files.read_bytes(&huge).await.unwrap_err(), refused);
    assert_eq!(files.edit_text("huge", "a", "b").await.unwrap_err(), refused);
    assert_eq!(files.write_as("huge", "x", WriteMode::Append).await.unwrap_err(), refused);
    let found = files.grep(&FsPath::root(), &GrepQuery::new("line")).await.unwrap();
    assert_eq!((found.matches.len(), found.too_large), (1, vec![huge.clone()]));
    // It can be moved and removed like any other.
    files.rename_to("huge", "moved").await.unwrap();
    files.delete(&files.path("moved").unwrap(), DeleteMode::Single).await.unwrap();
}

#[test]
fn whoever_waits_for_a_workspace_in_vain_is_told_who_has_it() {
    let dir = TempDir::new().unwrap();
    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    let fork = files.fork().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(fork.write_text("f", "first")).unwrap();
    // Held until it is decided what becomes of it.
    let receipt = files.merge(&*fork).unwrap();
    let options = || HostOptions { lock_timeout: Duration::from_millis(20), ..HostOptions::default() };
    let error = HostFilesystem::open(dir.path(), options()).unwrap_err();
    let FsError::Io { kind, message, .. } = &error else { panic!("{error}") };
    assert_eq!(*kind, std::io::ErrorKind::TimedOut);
    let held = format!("the workspace is held by process {} since ", std::process::id());
    assert!(message.starts_with(&held), "{message}");
    files.keep(receipt);
    let other = HostFilesystem::open(dir.path(), options()).unwrap();

    // A fork is not merged, and nothing of it is seen.
    let second = other.fork().unwrap();
    runtime.block_on(second.write_text("f", "second")).unwrap();
    let third = files.fork().unwrap();
    runtime.block_on(third.write_text("g", "third")).unwrap();
    let receipt = files.merge(&*third).unwrap();
    assert!(other.merge(&*second).unwrap_err().to_string().contains("is held by process"));
    files.keep(receipt);
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "first");
    other.keep(other.merge(&*second).unwrap());
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "second");
}

/// Whoever reads, thinks, and writes has not seen what somebody else wrote in between.
#[tokio::test]
async fn what_was_read_before_somebody_else_wrote_is_a_conflict() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("count"), "1").unwrap();
    let one = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    let other = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    for reader in ["fork", "inner", "inner that only reads"] {
        let fork = one.fork().unwrap();
        let inner = fork.fork().unwrap();
        let (reads, writes) = match reader {
            "fork" => (&fork, &fork),
            "inner" => (&inner, &inner),
            _ => (&inner, &fork),
        };
        let read = reads.read_text("count").await.unwrap();
        other.write_text("count", "2").await.unwrap();
        if reader == "inner that only reads" {
            drop(fork.merge(&*inner).unwrap());
        }
        writes.write_text("count", &format!("{read}+1")).await.unwrap();
        if reader == "inner" {
            drop(fork.merge(&*inner).unwrap());
        }
        let error = one.merge(&*fork).unwrap_err();
        assert!(matches!(error, FsError::Conflict { .. }), "{reader}: {error}");
        assert_eq!(std::fs::read(dir.path().join("count")).unwrap(), b"2");
    }
    // What was only read is nobody's concern.
    let fork = one.fork().unwrap();
    fork.read_text("count").await.unwrap();
    other.write_text("count", "3").await.unwrap();
    fork.write_text("new", "new").await.unwrap();
    one.keep(one.merge(&*fork).unwrap());
    assert_eq!(std::fs::read(dir.path().join("count")).unwrap(), b"3");
}
