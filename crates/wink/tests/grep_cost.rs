//! A search on disk reads files piece by piece: memory does not grow with what is searched.
//!
//! The bytes of the whole process are counted, so this file has one test and nothing runs beside it.

#![cfg(unix)]

use std::alloc::System;
use std::fs;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tempfile::TempDir;
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::filesystem::{Filesystem, FilesystemExt, FsPath, GrepMatch, GrepQuery};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[tokio::test]
async fn a_search_does_not_hold_whole_files() {
    let dir = TempDir::new().unwrap();
    let mut content = "a line among many\n".repeat(1_000_000);
    content.push_str("the needle\n");
    fs::write(dir.path().join("long"), content).unwrap();
    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    let fork = files.fork().unwrap();
    for base in ["", "long"] {
        let base = if base.is_empty() { FsPath::root() } else { files.path(base).unwrap() };
        let before = COUNTING.stats().bytes_allocated;
        let found = fork.grep(&base, &GrepQuery::new("needle$")).await.unwrap();
        let bytes = COUNTING.stats().bytes_allocated - before;
        let matching =
            GrepMatch { path: files.path("long").unwrap(), line: 1_000_001, text: "the needle".to_owned() };
        assert_eq!(found.matches, [matching]);
        assert!(bytes < 2 * 1024 * 1024, "{bytes} bytes for a file of 18 megabytes");
    }
}
