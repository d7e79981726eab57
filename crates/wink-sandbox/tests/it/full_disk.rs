//! Commands on a disk that fills up: whatever there is no space for, a call leaves all that its command did or nothing of it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use wink::filesystem::Filesystem;
use wink::filesystem::host::journal::Retention;
use wink::filesystem::host::{Capture, HostFilesystem, HostOptions};
use wink::prelude::*;
use wink::resource::Binding;
use wink::serde_json::json;
use wink::testing::leave_out;
use wink_sandbox::tool::{HostLayers, WorkspaceLayers};
use wink_sandbox::{Capabilities, Ended, Launch};

const PLACE: &str = "WINK_TEST_FULL_DISK";

/// Everything below a directory but the runtime's own: kind, mode, name, target, and what is in files.
const LOOK: &str = "find . -path ./.wink -prune -o -printf '%y %m %p %l\\n' | sort; \
    find . -path ./.wink -prune -o -type f -print0 | sort -z | xargs -0 -r sha256sum";

/// What the last command saw when it was over.
#[derive(Default)]
struct Seen(Mutex<Option<String>>);

#[data]
#[derive(SliceType)]
#[slice(name = "done")]
struct Done {
    round: u32,
}

/// Runs a script over the workspace.
#[tool]
async fn run(round: u32, script: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Done { round })?;
    let files = cx.resource::<dyn Filesystem>().await?;
    let layer = HostLayers.layer(&files).await?;
    let workspace = layer.workspace();
    let launch = Launch::shell(format!("{script}\n{LOOK}"), workspace.root().to_owned()).workspace(workspace);
    let finished = launch.keep_output(1_000_000).run(cx.clock()).await?;
    if finished.ended != Ended::Exited(0) {
        return Ok(ToolResult::error(finished.stderr.text(1000).0));
    }
    *cx.resource::<Seen>().await?.0.lock().unwrap() = Some(finished.stdout.text(1_000_000).0);
    layer.finish().await?;
    Ok(ToolResult::done("ran"))
}

fn look(root: &Path) -> String {
    let output = Command::new("sh").args(["-c", LOOK]).current_dir(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn script(round: u32) -> String {
    let bytes = 20_000 + 9_000 * (round % 7);
    // What is not written is a failure of the command, or nothing to it.
    let left = round / 6 % 10;
    let (stop, brim) = match round % 6 {
        0 | 3 => ("set -e", String::new()),
        1 | 4 => (":", String::new()),
        // Up to a few blocks, or a few names: the layer fits, and for what comes then there is nothing left, at one point or another.
        2 => (":", format!("head -c 10000000 /dev/zero > brim; truncate -s -{} brim; ", left * 4096)),
        _ => (
            ":",
            format!(
                "mkdir full; i=0; while test $i -lt 150 && touch full/$i; do i=$((i+1)); done; \
                 for n in 0 1 2 3 4 5 6 7 8 9; do test $n -lt {left} && rm full/$n; done; "
            ),
        ),
    };
    format!(
        "exec 2>/dev/null; {stop}; mkdir -p r{round}/d; \
         for i in 1 2 3; do yes r{round}-$i | head -c {bytes} > r{round}/d/$i; done; \
         echo {round} > common; echo {round} >> log; ln -sfn r{round} last; \
         if test -d moved; then rm -r moved; fi; for d in r*; do mv $d moved; break; done; {brim}:"
    )
}

async fn fill_up(root: &Path) {
    // What can be undone is kept as well; a little of it, so that there is room again.
    let retention = Retention::Last(1);
    let options = HostOptions { capture: Some(Capture::Overlay), retention, ..HostOptions::default() };
    let files = Arc::new(HostFilesystem::open(root, options).unwrap());
    let seen = Arc::new(Seen::default());
    let section = Section::markdown("work", "Work")
        .tool(run_tool())
        .resource(Binding::filesystem(files))
        .resource(Binding::instance(Arc::clone(&seen)));
    let prompt = PromptTemplate::builder("tests", "full-disk").section(section).build().unwrap().prompt();
    let session = Session::new();
    let executor = Executor::open(&prompt, &session).await.unwrap();
    let (mut succeeded, mut failed, mut late, mut in_a_row) = (0, 0, 0, 0);
    for round in 0..60 {
        let before = look(root);
        *seen.0.lock().unwrap() = None;
        let arguments = json!({ "round": round, "script": script(round) });
        let outcome = executor.call(ToolCall::new("call", "run", arguments.to_string())).await;
        let after = seen.0.lock().unwrap().take();
        let found = look(root);
        if outcome.is_success() {
            assert_eq!(found, after.expect("it ran"), "round {round}");
            (succeeded, in_a_row) = (succeeded + 1, 0);
        } else {
            assert_eq!(found, before, "round {round}: {}", outcome.text());
            late += usize::from(after.is_some());
            (failed, in_a_row) = (failed + 1, in_a_row + 1);
        }
        let noted = session.slice::<Done>().iter().any(|done| done.round == round);
        assert_eq!(noted, outcome.is_success(), "round {round}");
        if in_a_row == 3 {
            // Somebody makes room.
            let script = "rm -rf brim full; for d in r*; do rm -rf $d; break; done";
            assert!(Command::new("sh").args(["-c", script]).current_dir(root).status().unwrap().success());
            in_a_row = 0;
        }
    }
    println!("{succeeded} succeeded, {failed} failed, {late} of them after their command");
    assert!(succeeded > 3 && late > 3, "{succeeded} succeeded, {late} of {failed} failed late");
}

/// Not a test by itself: this is what the other runs on a small disk of its own.
#[test]
fn child() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(fill_up(&PathBuf::from(place)));
}

#[test]
fn a_command_on_a_disk_that_fills_up_is_kept_whole_or_not_at_all() {
    let able = Capabilities::detect();
    if able.overlay.is_none() {
        return leave_out("commands on an overlay on a full disk", &able.why_no_overlay);
    }
    if !able.pid_namespaces {
        return leave_out("commands on an overlay on a full disk", "it takes the superuser to mount one");
    }
    let dir = tempfile::tempdir().unwrap();
    for option in ["size=1m", "size=1m,nr_inodes=120"] {
        let script = r#"mount -t tmpfs -o "$2" tmpfs "$1" && exec "$0" full_disk::child --exact --nocapture"#;
        let ran = Command::new("unshare")
            .args(["-m", "sh", "-c", script])
            .arg(std::env::current_exe().unwrap())
            .arg(dir.path())
            .arg(option)
            .env(PLACE, dir.path())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ran.stdout);
        println!("{option}: {told}");
        assert!(ran.status.success(), "{option}: {told}{}", String::from_utf8_lossy(&ran.stderr));
    }
}
