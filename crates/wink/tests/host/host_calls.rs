//! Whole calls on a directory of the machine: all of what a tool did is there afterwards, or nothing is.

#![cfg(all(unix, feature = "macros"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use tempfile::TempDir;
use wink::executor::{Escalation, Outcome};
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::filesystem::{
    DeleteMode, Edit, Filesystem, FilesystemExt, FsErrorKind, MemoryFilesystem, MkdirOptions,
};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::serde_json::json;
use wink::session::Ending;
use wink::testing::leave_out;
use wink::transaction::{PendingToolTracker, ToolEnd};

use crate::listening::on_own_steps;

/// Changes files in every way there is, then does as it is told.
#[tool]
async fn change(end: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let files = cx.filesystem().await?;
    files.write_text("src/main.rs", "new").await?;
    files.write_text("target/debug/out", "built").await?;
    files.delete("docs", DeleteMode::Recursive).await?;
    files.rename("data", "moved").await?;
    files.edit("moved/a", &Edit::once("a", "b")).await?;
    files.mkdir("empty/new", MkdirOptions { parents: true, exist_ok: true }).await?;
    match end.as_str() {
        "succeed" => Ok(ToolResult::done("done")),
        "fail" => Ok(ToolResult::error("no")),
        "error" => Err(ToolError::new("no")),
        _ => panic!("no"),
    }
}

/// Says how a file reads.
#[tool]
async fn show(file: String, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    Ok(ToolResult::value(cx.filesystem().await?.read_text(&file).await?))
}

/// Makes a file and replaces another.
#[tool]
async fn add_and_replace(cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let files = cx.filesystem().await?;
    files.write_text("app/added", "new").await?;
    files.write_text("app/there", "new").await?;
    Ok(ToolResult::done("done"))
}

/// Everything about a tree that a call could disturb.
fn state(root: &Path) -> BTreeMap<String, (u32, i64, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(path) = todo.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let content = if about.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if about.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if name.split('/').next() != Some(".wink") {
            found.insert(name, (about.mode(), about.mtime(), about.mtime_nsec(), content));
        }
        todo.retain(|path| path.file_name().is_none_or(|name| name != ".wink"));
    }
    found
}

fn workspace() -> TempDir {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    for (path, text) in [
        ("src/main.rs", "old"),
        ("docs/a", "1"),
        ("docs/b/c", "2"),
        ("data/a", "a"),
        (".gitignore", "target\n"),
    ] {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    }
    fs::create_dir(root.join("empty")).unwrap();
    symlink("src/main.rs", root.join("link")).unwrap();
    fs::set_permissions(root.join("docs/a"), PermissionsExt::from_mode(0o751)).unwrap();
    dir
}

async fn executor(files: &Arc<HostFilesystem>) -> Executor {
    let section = Section::markdown("work", "Work")
        .body("Work.")
        .tool(change_tool())
        .tool(show_tool())
        .tool(add_and_replace_tool())
        .resource(Binding::filesystem(files.clone()));
    let prompt = PromptTemplate::builder("tests", "host").section(section).build().unwrap().prompt();
    Executor::open(&prompt, &Session::new()).await.unwrap()
}

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall::new("call", name, arguments)
}

// case 92
#[tokio::test]
async fn a_call_that_fails_leaves_the_directory_as_it_was() {
    let dir = workspace();
    let files = Arc::new(HostFilesystem::open(dir.path(), HostOptions::default()).unwrap());
    let executor = executor(&files).await;
    let before = state(dir.path());
    for end in ["fail", "error", "panic"] {
        let outcome = executor.call(call("change", &format!(r#"{{"end": "{end}"}}"#))).await;
        assert!(!outcome.event.success, "{end}");
        assert_eq!(state(dir.path()), before, "{end}");
    }
    assert_eq!(fs::read_dir(dir.path().join(".wink/journal")).unwrap().count(), 0, "it was never touched");
}

#[tokio::test]
async fn a_call_that_succeeds_is_there_whole() {
    let dir = workspace();
    let files = Arc::new(HostFilesystem::open(dir.path(), HostOptions::default()).unwrap());
    let executor = executor(&files).await;
    let mark = files.snapshot().unwrap();
    let before = state(dir.path());
    let outcome = executor.call(call("change", r#"{"end": "succeed"}"#)).await;
    assert_eq!(outcome.text(), "done");
    let names: Vec<String> = state(dir.path()).into_keys().collect();
    assert_eq!(
        names,
        [
            "",
            ".gitignore",
            "empty",
            "empty/new",
            "link",
            "moved",
            "moved/a",
            "src",
            "src/main.rs",
            "target",
            "target/debug",
            "target/debug/out"
        ]
    );
    assert_eq!(fs::read_to_string(dir.path().join("link")).unwrap(), "new");
    let outcome = executor.call(call("show", r#"{"file": "moved/a"}"#)).await;
    assert_eq!(outcome.text(), "b");
    // The way back: contents, modes and kinds. The times of directories are those of coming back.
    files.restore(&mark).unwrap();
    let what = |state: BTreeMap<String, (u32, i64, i64, Vec<u8>)>| -> Vec<(String, u32, Vec<u8>)> {
        state.into_iter().map(|(path, (mode, _, _, content))| (path, mode, content)).collect()
    };
    assert_eq!(what(state(dir.path())), what(before));
}

#[tokio::test]
async fn what_somebody_else_does_meanwhile_fails_the_call_and_is_kept() {
    let dir = workspace();
    let files = Arc::new(HostFilesystem::open(dir.path(), HostOptions::default()).unwrap());
    let root = dir.path().to_owned();
    let listening = on_own_steps(move |step| {
        if step == "host.content-read" {
            fs::write(root.join("src/main.rs"), "theirs").unwrap();
        }
    });
    let executor = executor(&files).await;
    let outcome = executor.call(call("change", r#"{"end": "succeed"}"#)).await;
    drop(listening);
    assert!(!outcome.event.success);
    assert!(outcome.text().contains("src/main.rs"), "{}", outcome.text());
    assert_eq!(fs::read_to_string(dir.path().join("src/main.rs")).unwrap(), "theirs");
    assert!(dir.path().join("docs/b/c").exists() && !dir.path().join("target").exists());
}

/// Tracked calls overlap on disk too: each has its own layer, commits take turns, and what both changed is a conflict.
#[tokio::test]
async fn tracked_calls_undo_only_their_own_files() {
    let dir = workspace();
    let files = Arc::new(HostFilesystem::open(dir.path(), HostOptions::default()).unwrap());
    let resources =
        ResourceRegistry::of((Binding::filesystem(files.clone()),)).unwrap().open().await.unwrap();
    let tracker = PendingToolTracker::new(Session::new(), resources);
    for id in ["kept", "aborted", "late"] {
        tracker.begin(id, "tool").await.unwrap();
        let pending = tracker.call(id).unwrap();
        let own = pending.filesystem().await.unwrap();
        own.write_text(&format!("own/{id}"), id).await.unwrap();
        if id != "aborted" {
            own.edit("data/a", &Edit::once("a", id)).await.unwrap();
        }
    }
    assert!(!dir.path().join("own").exists());
    assert!(tracker.abort("aborted").await.unwrap());
    assert!(tracker.end("kept", ToolEnd::Succeeded).await.unwrap());
    let error = tracker.end("late", ToolEnd::Succeeded).await.unwrap_err();
    assert!(error.to_string().contains("data/a"), "{error}");
    let names: Vec<_> =
        fs::read_dir(dir.path().join("own")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["kept"]);
    assert_eq!(fs::read_to_string(dir.path().join("data/a")).unwrap(), "kept");
}

/// Writes one file, and meanwhile counts who else is at it.
#[tool]
async fn put(name: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let at_work = cx.resource::<AtWork>().await?;
    at_work.most.fetch_max(at_work.now.fetch_add(1, SeqCst) + 1, SeqCst);
    cx.filesystem().await?.write_text(&format!("{name}/file"), &name).await?;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    at_work.now.fetch_sub(1, SeqCst);
    Ok(ToolResult::done("put"))
}

#[derive(Default)]
struct AtWork {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Calls of one turn that write files of one directory on disk are run one at a time; in memory they overlap.
#[tokio::test]
async fn calls_that_write_to_disk_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let on_disk = Arc::new(HostFilesystem::open(dir.path(), HostOptions::default()).unwrap());
    for (files, most) in
        [(on_disk as Arc<dyn Filesystem>, 1), (Arc::new(MemoryFilesystem::new()) as Arc<dyn Filesystem>, 3)]
    {
        for name in ["one", "two", "three"] {
            files.write_text(&format!("{name}/there"), "").await.unwrap();
        }
        let at_work = Arc::new(AtWork::default());
        let tool = put_tool().footprint(|put: &PutParams| {
            Footprint::nothing().write_path(&put.name).share_resource::<AtWork>()
        });
        let section = Section::tools("work", "Work")
            .tool(tool)
            .resource(Binding::filesystem(Arc::clone(&files)))
            .resource(Binding::instance(Arc::clone(&at_work)));
        let prompt = PromptTemplate::builder("tests", "turns").section(section).build().unwrap().prompt();
        let executor = Executor::open(&prompt, &Session::new()).await.unwrap();
        let calls = ["one", "two", "three"]
            .map(|name| ToolCall::new(name, "put", json!({ "name": name }).to_string()));
        let outcomes = executor.batch(calls.into()).await;
        assert!(outcomes.iter().all(Outcome::is_success), "{}", outcomes[0].text());
        assert_eq!(at_work.most.load(SeqCst), most);
        for name in ["one", "two", "three"] {
            assert_eq!(files.read_text(&format!("{name}/file")).await.unwrap(), name);
        }
    }
}

/// Whether a directory can be made one in which nothing is ever replaced. Where it cannot, that is a failure, or said aloud.
fn only_grows(dir: &Path, sign: &str) -> bool {
    let done = Command::new("chattr").arg(format!("{sign}a")).arg(dir).status();
    let can = done.is_ok_and(|done| done.success());
    if !can {
        leave_out(
            "a merge that cannot be taken back",
            "it takes the superuser, and a filesystem with attributes",
        );
    }
    can
}

#[tokio::test]
async fn what_cannot_be_taken_back_is_told_and_taken_back_when_it_can_be() {
    let dir = workspace();
    let app = dir.path().join("app");
    fs::create_dir(&app).unwrap();
    fs::write(app.join("there"), "old").unwrap();
    let files = Arc::new(HostFilesystem::open(dir.path(), HostOptions::default()).unwrap());
    let executor = executor(&files).await;
    let before = state(dir.path());
    if !only_grows(&app, "+") {
        return;
    }
    let outcome = executor.call(call("add_and_replace", "{}")).await;
    let (added, text) = (app.join("added").exists(), outcome.text().to_owned());
    let opened = HostFilesystem::open(dir.path(), HostOptions::default());
    let again = executor.call(call("add_and_replace", "{}")).await;
    assert!(only_grows(&app, "-"));

    assert!(added, "the trial is none: nothing was left behind");
    assert!(matches!(outcome.escalation, Some(Escalation::Restore(_))), "{outcome:?}");
    assert_eq!(outcome.event.ending, Ending::NotRestored);
    assert!(text.contains("Not as it was before: 'app/added'"), "{text}");
    assert!(text.contains("is taken back when the workspace is next opened or changed"), "{text}");
    for false_word in ["nothing was changed", "everything is as it was"] {
        assert!(!text.contains(false_word), "{text}");
    }
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), FsErrorKind::NotUndone);
    assert!(error.to_string().contains("what was left half-done cannot be taken back: cannot"), "{error}");
    assert!(matches!(again.escalation, Some(Escalation::Restore(_))), "{again:?}");

    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    assert_eq!(files.recovered().unwrap().rolled_back.len(), 1);
    assert_eq!(state(dir.path()), before);
}
