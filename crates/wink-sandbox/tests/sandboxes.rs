//! Every sandbox, held to its contract. Run by `./test sandbox`, which says where a root directory with busybox is.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::limits::{CancelToken, Clock, SystemClock};
use wink::prelude::*;
use wink::resource::Binding;
use wink::serde_json::{Value, json};
use wink_sandbox::testing::sandbox_contract;
use wink_sandbox::{
    Capabilities, Command, Executed, Job, Limits, NamespaceSandbox, OverlayKind, PodmanSandbox,
    PodmanSandboxSection, Sandbox, SandboxSection, WorkspaceView,
};

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

fn root() -> PathBuf {
    std::env::var_os("WINK_SANDBOX_ROOT")
        .expect("WINK_SANDBOX_ROOT is not set; scripts/sandbox-parts makes such a directory")
        .into()
}

fn is_superuser() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0")
}

#[test]
fn this_machine_can_do_what_the_others_rely_on() {
    let able = Capabilities::detect();
    println!("{}", able.report());
    let expected = if is_superuser() { OverlayKind::Trusted } else { OverlayKind::User };
    assert_eq!(able.overlay, Some(expected), "{}", able.why_no_overlay);
    assert!(able.user_namespaces && able.seccomp && able.landlock.is_some());
    assert_eq!(able.pid_namespaces, is_superuser());
}

// case 176
#[tokio::test]
async fn namespaces_with_the_programs_of_the_machine() {
    let refused = sandbox_contract(async |limits| NamespaceSandbox::new(limits), clock()).await;
    expect_refusals(refused);
}

// case 176
#[tokio::test]
async fn namespaces_with_another_root() {
    let refused = sandbox_contract(async |limits| NamespaceSandbox::with_root(root(), limits), clock()).await;
    expect_refusals(refused);
}

#[test]
fn landlock_is_there_when_it_is_required() {
    let sandbox = NamespaceSandbox::new(limits()).unwrap().require_landlock().unwrap();
    let report = sandbox.report().to_string();
    assert!(
        report.contains("writing outside the workspace: stopped by read-only mounts, and by Landlock"),
        "{report}"
    );
}

#[tokio::test]
async fn a_directory_without_an_overlay_is_shown_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".wink")).unwrap();
    std::fs::write(dir.path().join("a.txt"), "one").unwrap();
    let sandbox = NamespaceSandbox::new(Limits { memory: None, cpu: None, ..Limits::default() }).unwrap();
    let workspace = WorkspaceView::Direct {
        root: dir.path().to_owned(),
        state_name: Some(".wink".to_owned()),
        record: None,
    };
    let script = "pwd; ls -A; ls -A .wink; cat a.txt; echo two > b.txt";
    let job = Job::new(Command::Shell(script.to_owned()), workspace);
    let finished = sandbox.run(job, &clock()).await.unwrap();
    let (out, err) = (finished.stdout.text(1000).0, finished.stderr.text(1000).0);
    assert_eq!((out.as_str(), err.as_str()), ("/workspace\n.wink\na.txt\none", ""));
    assert_eq!(std::fs::read_to_string(dir.path().join("b.txt")).unwrap(), "two\n");
}

/// The superuser can have everything here; anybody else has no cgroup.
fn expect_refusals(refused: Vec<&str>) {
    let expected: &[&str] = if is_superuser() { &[] } else { &["memory", "cpu"] };
    assert_eq!(refused, expected);
}

/// What podman still knows of containers of this program. One test at a time has some.
fn left_of_podman() -> String {
    let listing =
        std::process::Command::new("podman").args(["ps", "-a", "--format", "{{.Names}}"]).output().unwrap();
    let own = format!("-{}-", std::process::id());
    let is_own = |name: &&str| name.starts_with("wink-") && name.contains(&own);
    String::from_utf8(listing.stdout).unwrap().lines().filter(is_own).collect()
}

static PODMAN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

// case 176
#[tokio::test]
async fn podman() {
    let _alone = PODMAN.lock().await;
    let make = async |limits: Limits| PodmanSandbox::from_root(root(), limits, &clock()).await;
    assert_eq!(sandbox_contract(make, clock()).await, [""; 0]);
    assert_eq!(left_of_podman(), "");
}

/// An image that is there for one test.
struct Image(String);

impl Image {
    /// Made of the root directory, without a network.
    fn import() -> Self {
        let name = format!("localhost/wink-test-{}:latest", std::process::id());
        let script = "set -e; tar -C \"$1\" -cf - . | podman import --quiet - \"$2\"";
        let made =
            std::process::Command::new("sh").args(["-c", script, "sh"]).arg(root()).arg(&name).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self(name)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::process::Command::new("podman").args(["rmi", "--force", &self.0]).output();
    }
}

// case 176
#[tokio::test]
async fn podman_with_an_image() {
    let _alone = PODMAN.lock().await;
    let image = Image::import();
    let make = async |limits: Limits| PodmanSandbox::from_image(image.0.as_str(), limits, &clock()).await;
    assert_eq!(sandbox_contract(make, clock()).await, [""; 0]);

    let sandbox = make(limits()).await.unwrap();
    check_tool(PodmanSandboxSection::new(sandbox).section()).await;
    assert_eq!(left_of_podman(), "");
}

#[tokio::test]
async fn podman_without_its_image_says_so_and_fetches_none() {
    let _alone = PODMAN.lock().await;
    let refused = PodmanSandbox::from_image("localhost/wink-no-such-image", limits(), &clock()).await;
    let text = refused.unwrap_err().to_string();
    let told =
        ["there is no way to run a container: ", "wink-no-such-image: image not known", "`podman images`"];
    assert!(told.iter().all(|part| text.contains(part)), "{text}");
    assert_eq!(left_of_podman(), "");
}

fn limits() -> Limits {
    // What anybody can have.
    let none = Limits { memory: None, cpu: None, processes: None, ..Limits::default() };
    if is_superuser() { Limits::default() } else { none }
}

// cases 176, 177, 178
#[tokio::test]
async fn the_tool_in_namespaces() {
    check_tool(SandboxSection::new(NamespaceSandbox::new(limits()).unwrap()).section()).await;
}

// cases 176, 177, 178
#[tokio::test]
async fn the_tool_in_podman() {
    let _alone = PODMAN.lock().await;
    let sandbox = PodmanSandbox::from_root(root(), limits(), &clock()).await.unwrap();
    check_tool(PodmanSandboxSection::new(sandbox).section()).await;
    assert_eq!(left_of_podman(), "");
}

/// Whether a process has this text among its arguments.
fn is_running(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(mark))
}

/// What is left of overlays below a directory.
fn layers(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let (dirs, _): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let left = |path: &&PathBuf| path.ends_with("upper") || path.ends_with("work");
    match dirs.iter().find(left) {
        Some(_) => vec![dir.to_owned()],
        None => dirs.iter().flat_map(|path| layers(path)).collect(),
    }
}

async fn check_tool(section: Section) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "old").unwrap();
    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    let section = section.resource(Binding::filesystem(Arc::new(files)));
    let prompt = PromptTemplate::builder("tests", "shell").section(section).build().unwrap().prompt();
    let executor = Executor::open(&prompt, &Session::new()).await.unwrap();
    let call = async |arguments: Value| {
        let outcome = executor.call(ToolCall::new("call", "shell_execute", arguments.to_string())).await;
        let executed: Executed = outcome.value().unwrap_or_else(|| panic!("{}", outcome.text()));
        (outcome.is_success(), executed)
    };
    let sh = |text: &str| json!(["sh", "-c", text]);

    // Any exit code is an answer, and what was done stays.
    let (success, executed) = call(
        json!({ "command": sh("echo new > file; echo $A; cat; exit 3"), "env": { "A": "a" }, "stdin": "in" }),
    )
    .await;
    assert!(success);
    assert_eq!((executed.exit_code, executed.stdout.as_str(), executed.timed_out), (3, "a\nin", false));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "new\n");

    // Unless it is to be undone.
    let undone = json!({ "command": sh("echo newer > file; exit 4"), "undo_on_failure": true });
    let (success, executed) = call(undone).await;
    assert_eq!((success, executed.exit_code), (false, 4));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "new\n");
    let kept = json!({ "command": sh("echo newer > file"), "undo_on_failure": true });
    assert!(call(kept).await.0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "newer\n");

    // A timeout is a failure, undone, and nothing goes on.
    let mark = format!("shell-execute-{}", dir.path().file_name().unwrap().to_str().unwrap());
    let text = format!("echo newest > file; (setsid sh -c 'sleep 1000; : {mark}' &); sleep 1000");
    let (success, executed) = call(json!({ "command": sh(&text), "timeout": 1 })).await;
    assert_eq!((success, executed.exit_code, executed.timed_out), (false, 124, true));
    assert!(executed.duration_ms >= 1000);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "newer\n");
    assert!(!is_running(&mark));

    // A call that is cancelled is answered, undone, and nothing goes on.
    let mark = format!("{mark}-cancelled");
    let text = format!("echo newest > file; (setsid sh -c 'sleep 1000; : {mark}' &); sleep 1000");
    let token = CancelToken::new();
    let arguments = json!({ "command": sh(&text) }).to_string();
    let cancelled =
        executor.call_cancellable(ToolCall::new("call", "shell_execute", arguments), token.clone());
    let (outcome, ()) = tokio::join!(cancelled, async {
        while !is_running(&mark) {
            tokio::task::yield_now().await;
        }
        token.cancel();
    });
    assert!(!outcome.is_success() && outcome.escalation.is_some(), "{}", outcome.text());
    assert!(!is_running(&mark));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "newer\n");

    // The runtime's own state was not seen, and nothing is left of the layers.
    let (_, executed) = call(json!({ "command": sh("ls -A .wink; mkdir d; mv d e; rm file; ls -A") })).await;
    assert_eq!(executed.stdout, ".wink\ne\n");
    assert!(dir.path().join("e").is_dir() && !file.exists());

    let closed = json!({ "command": sh("mkdir -p f/g; chmod 0 f/g f; exit 1"), "undo_on_failure": true });
    assert_eq!(call(closed).await.1.exit_code, 1);
    assert_eq!(layers(&dir.path().join(".wink")), Vec::<PathBuf>::new());

    // Output is cut by characters.
    let (success, executed) = call(json!({ "command": sh("head -c 32768 /dev/zero | tr '\\0' o") })).await;
    assert_eq!((success, executed.stdout.chars().count(), executed.truncated), (true, 32_768, false));
    let (success, executed) = call(json!({ "command": sh("head -c 32769 /dev/zero | tr '\\0' o") })).await;
    let marked = executed.stdout.ends_with("\n[cut: this is the beginning of 32769 bytes]");
    assert_eq!((success, executed.truncated, marked), (true, true, true));
}
