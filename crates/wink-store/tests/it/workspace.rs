//! A directory with its store: several processes on it at once, some of them killed, and a disk that fills up.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is broken by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;
use wink::executor::{Executor, Outcome, ToolCall};
use wink::filesystem::{WriteMode, WriteOptions};
use wink::prelude::*;
use wink::session::{Ending, ToolInvoked};
use wink::store::JournalId;
use wink::testing::steps;
use wink_store::{Workspace, WorkspaceError};

const JOB: &str = "WINK_TEST_WORKSPACE_JOB";

/// What a child process does.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Job {
    root: PathBuf,
    session: String,
    /// Its calls are named by this.
    number: u32,
    kind: JobKind,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum JobKind {
    /// This many entries.
    Enter(u32),
    /// Entries until it dies at the n-th step of any kind.
    EnterAndDie(usize),
    /// Fills the disk.
    Fill,
}

/// What the session knows of an entry.
#[data]
#[derive(SliceType)]
#[slice(name = "entry")]
struct Entry {
    line: String,
}

/// Adds a line to the common list, makes a file for it, and notes it in the session.
#[tool]
async fn enter(line: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let files = cx.filesystem().await?;
    let _ = cx.session().dispatch(Entry { line: line.clone() })?;
    files.write("list", format!("{line}\n").as_bytes(), WriteOptions::new(WriteMode::Append)).await?;
    files.write_text(&format!("lines/{line}"), &line).await?;
    Ok(ToolResult::done("entered"))
}

/// What a file is filled with, which no other one is.
fn filling(path: &str, bytes: u32) -> String {
    path.chars().chain(" ".chars()).cycle().take(bytes as usize).collect()
}

/// Writes this many files of this size.
#[tool]
async fn fill(
    prefix: String,
    files: u32,
    bytes: u32,
    cx: &mut ToolContext,
) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Entry { line: prefix.clone() })?;
    let workspace = cx.filesystem().await?;
    for file in 0..files {
        let path = format!("{prefix}/{file}");
        workspace.write_text(&path, &filling(&path, bytes)).await?;
    }
    // What was there is replaced as well, which needs room for both.
    workspace.write_text("common", &prefix).await?;
    Ok(ToolResult::done("filled"))
}

struct Process {
    session: Session,
    executor: Executor,
}

impl Process {
    async fn open(root: &Path, session: &str) -> Self {
        let workspace = Workspace::open(root).unwrap();
        let session = workspace.session(session).open().await.unwrap();
        session.know::<Entry>().unwrap();
        let section = Section::tools("list", "List").tool(enter_tool()).tool(fill_tool());
        let prompt = PromptTemplate::builder("tests", "workspace").section(section).build().unwrap().prompt();
        let executor =
            Executor::builder(&prompt, &session).resources(workspace.resources()).open().await.unwrap();
        Self { session, executor }
    }

    async fn enter(&self, line: &str) -> Outcome {
        self.executor.call(ToolCall::new(line, "enter", json!({ "line": line }).to_string())).await
    }

    /// Enters a line; where somebody else changed the list meanwhile, again.
    async fn enter_at_last(&self, line: &str) {
        for _ in 0..1000 {
            let entered = self.enter(line).await;
            if entered.is_success() {
                return;
            }
            assert!(entered.text().contains("list"), "for no other reason: {}", entered.text());
        }
        panic!("{line} could not be entered a thousand times");
    }

    fn entries(&self) -> BTreeSet<String> {
        self.session.slice::<Entry>().iter().map(|entry| entry.line.clone()).collect()
    }
}

async fn work(job: Job) {
    match job.kind {
        JobKind::Enter(count) => {
            let process = Process::open(&job.root, &job.session).await;
            for at in 0..count {
                process.enter_at_last(&format!("{}-{at}", job.number)).await;
            }
        }
        JobKind::EnterAndDie(nth) => {
            let process = Process::open(&job.root, &job.session).await;
            let reached = std::sync::atomic::AtomicUsize::new(0);
            steps::on_every_step(move |_| {
                if reached.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == nth {
                    let me = std::process::id().to_string();
                    // As the system kills: nothing is run on the way out.
                    let _ = Command::new("kill").args(["-KILL", &me]).status();
                    std::process::abort();
                }
            });
            for at in 0.. {
                process.enter_at_last(&format!("{}-{at}", job.number)).await;
            }
        }
        JobKind::Fill => fill_up(&job.root).await,
    }
}

/// Not a test by itself: this is what the child processes of the others run.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(serde_json::from_str(&job).unwrap()));
}

fn as_child(mut command: Command, job: &Job) -> Child {
    command.env(JOB, serde_json::to_string(job).unwrap()).stdout(Stdio::null()).spawn().unwrap()
}

fn start(root: &Path, session: &str, number: u32, kind: JobKind) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["workspace::child", "--exact", "--nocapture"]);
    let job = Job { root: root.to_owned(), session: session.to_owned(), number, kind };
    as_child(command, &job)
}

/// The common list, and what the files beside it say, which must be the same.
fn listed(root: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root.join("list")).unwrap_or_default();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let once: BTreeSet<String> = lines.iter().cloned().collect();
    assert_eq!(lines.len(), once.len(), "no line is there twice");
    let files: BTreeSet<String> = match std::fs::read_dir(root.join("lines")) {
        Ok(entries) => entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect(),
        Err(_) => BTreeSet::new(),
    };
    assert_eq!(once, files, "a line and its file come together");
    once
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_on_one_workspace_and_one_session_lose_nothing() {
    let dir = TempDir::new().unwrap();
    let children: Vec<Child> = (0..4).map(|n| start(dir.path(), "one", n, JobKind::Enter(8))).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let expected: BTreeSet<String> = (0..4).flat_map(|n| (0..8).map(move |at| format!("{n}-{at}"))).collect();
    assert_eq!(listed(dir.path()), expected);
    let process = Process::open(dir.path(), "one").await;
    assert_eq!(process.entries(), expected);
    // Calls of one session take turns, so none had to be tried again.
    assert_eq!(process.session.slice::<ToolInvoked>().len(), expected.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_on_one_workspace_lose_nothing() {
    let dir = TempDir::new().unwrap();
    let children: Vec<Child> =
        (0..4).map(|n| start(dir.path(), &format!("s{n}"), n, JobKind::Enter(6))).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let expected: BTreeSet<String> = (0..4).flat_map(|n| (0..6).map(move |at| format!("{n}-{at}"))).collect();
    assert_eq!(listed(dir.path()), expected);
    for n in 0..4 {
        let process = Process::open(dir.path(), &format!("s{n}")).await;
        let own: BTreeSet<String> = (0..6).map(|at| format!("{n}-{at}")).collect();
        assert_eq!(process.entries(), own);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_killed_leaves_whole_calls() {
    let dir = TempDir::new().unwrap();
    // One that lives through it all, among those that die at one step or another.
    let survivor = start(dir.path(), "one", 1000, JobKind::Enter(12));
    for (number, nth) in (0..).zip((1..60).step_by(4)) {
        let mut child = start(dir.path(), "one", number, JobKind::EnterAndDie(nth));
        assert!(!child.wait().unwrap().success(), "it dies");
    }
    let mut survivor = survivor;
    assert!(survivor.wait().unwrap().success());
    let process = Process::open(dir.path(), "one").await;
    let listed = listed(dir.path());
    assert_eq!(process.entries(), listed, "files and session tell the same");
    assert_eq!((0..12).filter(|at| listed.contains(&format!("1000-{at}"))).count(), 12);
    let mut succeeded: BTreeMap<String, u32> = BTreeMap::new();
    let mut interrupted = 0;
    for event in process.session.slice::<ToolInvoked>().iter() {
        match event.ending {
            Ending::Succeeded => *succeeded.entry(event.call_id.to_string()).or_default() += 1,
            Ending::Interrupted => interrupted += 1,
            _ => {}
        }
    }
    assert_eq!(succeeded.keys().cloned().collect::<BTreeSet<_>>(), listed, "and so does the log");
    assert!(succeeded.values().all(|count| *count == 1));
    assert!(interrupted > 0, "some died inside a call");
}

/// Runs on a small disk of its own.
async fn fill_up(root: &Path) {
    let process = Process::open(root, "full").await;
    let mut failures = 0;
    let mut model: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..60_u32 {
        let (prefix, files, bytes) = (format!("r{round}"), 1 + round % 5, 20_000 + 7_000 * (round % 4));
        let call = json!({ "prefix": prefix, "files": files, "bytes": bytes });
        let outcome = process.executor.call(ToolCall::new(&*prefix, "fill", call.to_string())).await;
        if outcome.is_success() {
            for file in 0..files {
                let path = format!("{prefix}/{file}");
                model.insert(path.clone(), filling(&path, bytes));
            }
            model.insert("common".to_owned(), prefix.clone());
        } else {
            failures += 1;
        }
        let found = contents(root);
        // Not by `assert_eq`, which would print all of both.
        assert!(found == model, "round {round}: {}: {:?}", outcome.text(), differing(&found, &model));
        let entered = process.entries().contains(&prefix);
        assert_eq!(entered, outcome.is_success(), "round {round}: {}", outcome.text());
        // Make room again, now and then.
        if failures % 4 == 3 {
            let gone: Vec<String> = model.keys().filter(|path| path.contains('/')).take(6).cloned().collect();
            for path in gone {
                std::fs::remove_file(root.join(&path)).unwrap();
                model.remove(&path);
            }
            // What can be undone needs room as well; the person who made room does not wait for that.
            let journals = std::fs::read_dir(root.join(".wink/journal")).unwrap().count();
            assert!(journals > 0);
            failures += 1;
        }
    }
    assert!(failures > 3, "the disk was full: {failures}");
    assert!(!model.is_empty(), "and not from the beginning");
}

/// The files that are only in one of them, or not the same.
fn differing<'a>(
    found: &'a BTreeMap<String, String>,
    model: &'a BTreeMap<String, String>,
) -> BTreeSet<&'a String> {
    found.keys().chain(model.keys()).filter(|path| found.get(*path) != model.get(*path)).collect()
}

/// The files below the root, but for the runtime's own, with what is in them.
fn contents(root: &Path) -> BTreeMap<String, String> {
    let mut contents = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if relative == ".wink" {
                continue;
            }
            match path.is_dir() {
                true => dirs.push(path),
                false => _ = contents.insert(relative, std::fs::read_to_string(&path).unwrap()),
            }
        }
    }
    contents
}

#[test]
fn a_disk_that_fills_up_leaves_whole_calls() {
    let dir = TempDir::new().unwrap();
    let script = r#"mount -t tmpfs -o size=3m tmpfs "$1" && exec "$0" workspace::child --exact --nocapture"#;
    let mut command = Command::new("unshare");
    // Whoever is not the superuser mounts in a namespace of their own.
    let rights = if rustix::process::geteuid().is_root() { "-m" } else { "-Urm" };
    command.args([rights, "sh", "-c", script]).arg(std::env::current_exe().unwrap()).arg(dir.path());
    let job = Job { root: dir.path().to_owned(), session: "full".to_owned(), number: 0, kind: JobKind::Fill };
    assert!(as_child(command, &job).wait().unwrap().success());
}

#[test]
fn a_state_directory_that_is_a_link_is_refused() {
    let dir = TempDir::new().unwrap();
    let elsewhere = TempDir::new().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), dir.path().join(".wink")).unwrap();
    let refused = Workspace::open(dir.path()).unwrap_err();
    assert!(matches!(refused, WorkspaceError::StateTaken { .. }), "{refused}");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0, "nothing was written there");
}

/// A repository may come with a state directory of somebody's making.
#[test]
fn links_in_the_state_directory_lead_nowhere() {
    for name in [
        "wink.db",
        "wink.db-wal",
        "wink.db-shm",
        "wink.db-id",
        "wink.db-id-new",
        "wink.db-mark",
        "wink.db-calls",
        "stores",
        "sessions",
        "stores/new-opening",
    ] {
        let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let theirs = elsewhere.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("file"), "theirs").unwrap();
        let target =
            if name.contains("db") || name.contains('/') { theirs.join("file") } else { theirs.clone() };
        let link = dir.path().join(".wink").join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(if name.ends_with("calls") { &theirs } else { &target }, &link).unwrap();
        let refused = Workspace::open(dir.path()).unwrap_err();
        assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 1, "{name}: {refused}");
        assert_eq!(std::fs::read_to_string(theirs.join("file")).unwrap(), "theirs", "{name}: {refused}");
    }
    // What is in a place of ours and is not ours is left alone.
    let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let calls = dir.path().join(".wink/wink.db-calls");
    std::fs::create_dir_all(&calls).unwrap();
    std::fs::write(elsewhere.path().join("file"), "theirs").unwrap();
    let id = JournalId::fresh().to_string();
    std::os::unix::fs::symlink(elsewhere.path().join("file"), calls.join(id)).unwrap();
    std::os::unix::fs::symlink("/dev/zero", calls.join("zero")).unwrap();
    std::fs::create_dir(calls.join("dir")).unwrap();
    Workspace::open(dir.path()).unwrap();
    assert_eq!(std::fs::read_to_string(elsewhere.path().join("file")).unwrap(), "theirs");
    assert_eq!(std::fs::read_dir(&calls).unwrap().count(), 3);
}

#[test]
fn a_state_directory_that_others_can_write_is_tightened_or_refused() {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};
    let dir = tempfile::tempdir().unwrap();
    drop(Workspace::open(dir.path()).unwrap());
    let state = dir.path().join(".wink");
    let mode = || fs::metadata(&state).unwrap().permissions().mode() & 0o777;
    for (shared, private) in [(0o777, 0o700), (0o770, 0o700), (0o702, 0o700), (0o755, 0o755)] {
        fs::set_permissions(&state, PermissionsExt::from_mode(shared)).unwrap();
        drop(Workspace::open(dir.path()).unwrap());
        assert_eq!(mode(), private, "{shared:o}");
    }
    // Whatever the umask allows, other users cannot write what says which database this is.
    for name in ["wink.db-id", "wink.db-mark"] {
        let mode = fs::metadata(state.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    if !rustix::process::geteuid().is_root() {
        wink::testing::leave_out(
            "a state directory of another owner",
            "it takes the superuser to give one away",
        );
        return;
    }
    fs::set_permissions(&state, PermissionsExt::from_mode(0o777)).unwrap();
    chown(&state, Some(61234), Some(61234)).unwrap();
    let error = Workspace::open(dir.path()).map(drop).unwrap_err();
    assert!(matches!(error, WorkspaceError::StateShared { .. }), "{error}");
    assert!(error.to_string().contains("chmod go-w"), "{error}");
    assert_eq!(mode(), 0o777, "it is the owner's to change");
}
