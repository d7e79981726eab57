//! Policies that go by paths, on a directory of the machine: where a path leads counts as well as how it is called.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests panic when they fail")]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use tempfile::TempDir;
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::filesystem::{Filesystem, FilesystemExt, FsError, FsErrorKind, FsResult};
use wink::policy::PathPolicy;
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::serde_json::json;
use wink::suites::{VfsConfig, VfsToolsSection};

fn tree() -> TempDir {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("secrets/deep")).unwrap();
    fs::create_dir(root.join("src")).unwrap();
    fs::write(root.join("secrets/token"), "hunter2\n").unwrap();
    fs::write(root.join("src/a"), "a\n").unwrap();
    symlink("secrets/token", root.join("link")).unwrap();
    symlink("link", root.join("twice")).unwrap();
    symlink("secrets", root.join("way")).unwrap();
    symlink("../secrets/new", root.join("src/dangling")).unwrap();
    symlink("../src/a", root.join("secrets/out")).unwrap();
    symlink("src/a", root.join("fine")).unwrap();
    symlink("round", root.join("round")).unwrap();
    dir
}

async fn executor(dir: &TempDir, policy: PathPolicy) -> Executor {
    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    let config = VfsConfig { read_before_write: false, ..VfsConfig::default() };
    let template = PromptTemplate::builder("t", "t")
        .section(VfsToolsSection::new().config(config).section())
        .policy(policy)
        .build()
        .unwrap();
    let resources = ResourceRegistry::of([Binding::filesystem(Arc::new(files))]).unwrap();
    let session = Session::builder().open().await.unwrap();
    Executor::builder(&template.prompt(), &session).resources(resources).open().await.unwrap()
}

async fn call(executor: &Executor, tool: &str, arguments: wink::serde_json::Value) -> (bool, String) {
    let outcome = executor.call(ToolCall::new("1", tool, arguments.to_string())).await;
    (outcome.event.success, outcome.answer.text.to_string())
}

#[tokio::test]
async fn a_link_is_where_it_leads_to_too() {
    let dir = tree();
    let denied = PathPolicy::builder().deny("secrets/**").build().unwrap();
    let allowed = PathPolicy::builder().allow("*").allow("src/**").build().unwrap();
    for policy in [denied, allowed] {
        let executor = executor(&dir, policy).await;
        for path in ["link", "twice", "way/token", "way/out", "src/dangling", "way/new/file"] {
            for (tool, arguments) in [
                ("read_file", json!({ "path": path })),
                ("write_file", json!({ "path": path, "content": "x" })),
                ("edit_file", json!({ "path": path, "old_string": "hunter2", "new_string": "x" })),
                ("delete_file", json!({ "path": path })),
                ("list_directory", json!({ "path": path })),
                ("grep", json!({ "path": path, "pattern": "hunter" })),
            ] {
                let (success, text) = call(&executor, tool, arguments).await;
                assert!(!success && text.contains("Cannot use "), "{tool} {path}: {text}");
            }
        }
        assert!(call(&executor, "read_file", json!({ "path": "fine" })).await.0);
        let (success, text) = call(&executor, "read_file", json!({ "path": "round" })).await;
        assert!(!success && text.contains("too many symbolic links"), "{text}");
        assert_eq!(fs::read_to_string(dir.path().join("secrets/token")).unwrap(), "hunter2\n");
        assert!(!dir.path().join("secrets/new").exists());
    }
}

#[tokio::test]
async fn places_are_the_path_and_where_links_lead() {
    let dir = tree();
    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    let fork = files.fork().unwrap();
    for (path, places) in [
        ("src/a", vec!["src/a"]),
        ("not/there", vec!["not/there"]),
        ("twice", vec!["twice", "secrets/token"]),
        ("way/out", vec!["way/out", "secrets/out", "src/a"]),
        ("src/dangling", vec!["src/dangling", "secrets/new"]),
    ] {
        let path = files.path(path).unwrap();
        let found = fork.places(&path).await.unwrap();
        assert_eq!(found.iter().map(|place| place.as_str()).collect::<Vec<_>>(), places);
        assert_eq!(files.places(&path).await.unwrap(), found);
    }
}

#[tokio::test]
async fn what_is_guarded_is_changed_by_no_fork() {
    let dir = tree();
    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    let guarded = files.guarding(["secrets/token", "secrets/new"]).unwrap();
    let fork = guarded.fork().unwrap();
    let nested = fork.fork().unwrap();
    for files in [&nested, &fork] {
        let refused = |error: FsError| {
            assert!(
                matches!(&error, FsError::Guarded { path, .. } if path.as_str().starts_with("secrets/")),
                "{error}"
            );
        };
        refused(files.write_text("secrets/token", "x").await.unwrap_err());
        refused(files.write_text("twice", "x").await.unwrap_err());
        refused(files.write_text("src/dangling", "x").await.unwrap_err());
        refused(files.edit_text("way/token", "hunter2", "x").await.unwrap_err());
        refused(files.delete_all("secrets").await.unwrap_err());
        refused(files.rename_to("secrets", "other").await.unwrap_err());
        refused(files.rename_to("src", "secrets/new").await.unwrap_err());
        refused(files.mkdir_all("secrets/new/deep").await.unwrap_err());
        files.write_text("secrets/token", "hunter2\n").await.unwrap();
        files.write_text("secrets/other", "x").await.unwrap();
        files.delete_all("link").await.unwrap();
        files.delete_all("secrets/other").await.unwrap();
    }
    fork.write_text("way/other", "y").await.unwrap();
    let receipt = files.merge(&*fork).unwrap();
    files.keep(receipt);
    assert_eq!(fs::read_to_string(dir.path().join("secrets/other")).unwrap(), "y");
    let refused = guarded.write_text("secrets/token", "x").await;
    assert_eq!(refused.map_err(|error| error.kind()), Err(FsErrorKind::Guarded), "nor by itself");
    let of_fork = HostFilesystem::of(&*fork).unwrap().guarding(["a"]).map(drop);
    assert_eq!(of_fork.map_err(|error| error.kind()), Err(FsErrorKind::Unsupported));
    files.write_text("secrets/token", "the user's").await.unwrap();
}

#[tokio::test]
async fn nor_is_anything_in_a_guarded_directory() {
    let dir = tree();
    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    let guarded = files.guarding_below(["secrets", "later"]).unwrap();
    let fork = guarded.fork().unwrap();
    let refused = |done: FsResult<()>| {
        assert_eq!(done.map_err(|error| error.kind()), Err(FsErrorKind::Guarded));
    };
    for path in ["secrets/token", "secrets/deep/new", "twice", "way/new", "later/new", "later"] {
        refused(fork.write_text(path, "x").await.map(drop));
    }
    refused(fork.delete_all("secrets/deep").await.map(drop));
    refused(fork.delete_all("secrets").await.map(drop));
    refused(fork.rename_to("secrets", "other").await.map(drop));
    refused(fork.rename_to("src", "later").await.map(drop));
    refused(fork.mkdir_all("later").await.map(drop));
    fork.write_text("src/a", "x").await.unwrap();
    files.keep(files.merge(&*fork).unwrap());
    assert_eq!(fs::read_to_string(dir.path().join("src/a")).unwrap(), "x");
    assert_eq!(fs::read_to_string(dir.path().join("secrets/token")).unwrap(), "hunter2\n");
}
