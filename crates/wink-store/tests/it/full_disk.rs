//! A disk that is full when a workspace is opened in which somebody died: its files are made whole, though there is no space for
//! the store.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is broken by panicking")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use wink::prelude::*;
use wink::serde_json::json;
use wink::session::{Ending, LogEvent};
use wink::store::StoreErrorKind;
use wink::suites::VfsToolsSection;
use wink::testing::{leave_out, steps};
use wink_store::{SqliteStore, StoreOptions, Workspace, WorkspaceError};

const PLACE: &str = "WINK_TEST_FULL_STORE";
const FILL: &str = "fill";

/// Writes as much as there is room for.
fn fill(place: &Path) {
    let mut file = File::create(place.join(FILL)).unwrap();
    for size in [65_536, 512, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

/// A call in a workspace, to which one of the steps may put an end.
async fn write(root: &Path, path: &str, content: &str) {
    let workspace = Workspace::open(root).unwrap();
    let session = workspace.session("main").open().await.unwrap();
    let section = VfsToolsSection::new().over(workspace.files().clone()).section();
    let prompt = PromptTemplate::builder("tests", "full").section(section).build().unwrap().prompt();
    let executor = Executor::open(&prompt, &session).await.unwrap();
    let arguments = json!({ "path": path, "content": content }).to_string();
    assert!(executor.call(ToolCall::new("call", "write_file", arguments)).await.is_success());
}

/// Not tests by themselves: these are what the other runs on a small disk of its own. The first dies when its change is in the
/// tree, and not yet in the store.
#[tokio::test]
async fn dying() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let root = place.join("work");
    fs::create_dir(&root).unwrap();
    write(&root, "a", "before").await;
    steps::on_every_step(move |step| {
        if step == "host.merged" {
            fill(&place);
            std::process::abort();
        }
    });
    write(&root, "a", "after").await;
}

#[tokio::test]
async fn opening() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let root = place.join("work");
    let read = || fs::read_to_string(root.join("a")).unwrap();
    assert_eq!(read(), "after", "the trial is none");
    let full = SqliteStore::open(root.join(".wink"), StoreOptions::default()).unwrap_err();
    assert_eq!(full.kind, StoreErrorKind::NoSpace, "{full}");
    // What was staged is gone by then, which may be room enough.
    match Workspace::open(&root) {
        Ok(_) => {}
        Err(WorkspaceError::Store(full)) => assert_eq!(full.kind, StoreErrorKind::NoSpace, "{full}"),
        Err(error) => panic!("{error}"),
    }
    assert_eq!(read(), "before");

    fs::remove_file(place.join(FILL)).unwrap();
    let workspace = Workspace::open(&root).unwrap();
    assert_eq!(read(), "before");
    let log = workspace.logbook("main").await.unwrap().entries().await.unwrap();
    let endings: Vec<Ending> = log
        .iter()
        .filter_map(|entry| match &entry.event {
            LogEvent::Call(call) => Some(call.ending),
            LogEvent::Undone(_) => None,
        })
        .collect();
    assert_eq!(endings, [Ending::Succeeded, Ending::Interrupted]);
}

#[test]
fn files_are_made_whole_on_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=4m tmpfs "$1" || exit 77
        "$0" full_disk::dying --exact --nocapture; exec "$0" full_disk::opening --exact --nocapture"#;
    let ran = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(dir.path())
        .env(PLACE, dir.path())
        .output();
    let told = match &ran {
        Ok(ran) => String::from_utf8_lossy(&[&*ran.stdout, &*ran.stderr].concat()).into_owned(),
        Err(error) => error.to_string(),
    };
    match ran.ok().and_then(|ran| ran.status.code()) {
        Some(0) => {}
        // That is what `unshare` says, and this script.
        Some(1 | 77) | None if !rustix::process::geteuid().is_root() => {
            leave_out("a store on a full disk", "it takes the superuser to mount one");
        }
        _ => panic!("{told}"),
    }
}
