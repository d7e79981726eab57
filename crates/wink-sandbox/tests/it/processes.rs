//! Several processes in one workspace: commands on overlays, commands in the workspace itself, and writes through the
//! runtime, all at the same time. Nothing is lost, and nothing happens twice.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is broken by panicking"
)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use wink::filesystem::host::{Capture, HostFilesystem, HostOptions};
use wink::filesystem::{
    Edit, Filesystem, FilesystemExt, FsError, FsErrorKind, FsResult, WriteMode, WriteOptions,
};
use wink::limits::SystemClock;
use wink::testing::leave_out;
use wink_sandbox::tool::{HostLayers, LayerError, WorkspaceLayers};
use wink_sandbox::{Capabilities, Ended, Launch};

const JOB: &str = "WINK_TEST_PROCESSES_JOB";
const ROUNDS: usize = 10;

/// Whether somebody else was at it. Whoever looks at the workspace while a command works in it sees what that does, files
/// that are half written or being brought back among it; what was done on account of that is never merged.
fn is_somebody_elses(error: &FsError) -> bool {
    matches!(error.kind(), FsErrorKind::Conflict | FsErrorKind::NotFound | FsErrorKind::NoMatch)
}

/// One change of the fork: it counts, and leaves a file of its own and a line in a log that everybody writes. Whether nobody
/// else was at it.
async fn change(root: &Path, fork: &Arc<dyn Filesystem>, name: &str, by_command: bool) -> bool {
    let done = if by_command { run(root, fork, name).await } else { write(fork, name).await };
    match done {
        Ok(done) => done,
        Err(error) if is_somebody_elses(&error) => false,
        Err(error) => panic!("{name}: {error}"),
    }
}

async fn run(root: &Path, fork: &Arc<dyn Filesystem>, name: &str) -> FsResult<bool> {
    let layer = HostLayers.layer(fork).await.map_err(of_files)?;
    let script = format!(
        "set -e; . ./count; echo n=$((n + 1)) > count; echo {name} >> log; echo {name} > made/{name}"
    );
    let launch = Launch::shell(script, root).workspace(layer.workspace());
    let finished = launch.run(&(Arc::new(SystemClock) as _)).await.unwrap();
    if finished.ended != Ended::Exited(0) {
        return Ok(false);
    }
    layer.finish().await.map_err(of_files)?;
    Ok(true)
}

fn of_files(error: LayerError) -> FsError {
    match error {
        LayerError::Fs(error) => error,
        error => panic!("{error}"),
    }
}

async fn write(fork: &Arc<dyn Filesystem>, name: &str) -> FsResult<bool> {
    let text = fork.read_text("count").await?;
    let count = text.strip_prefix("n=").and_then(|count| count.trim().parse::<usize>().ok());
    let Some(count) = count else { return Ok(false) };
    // Neither is a write of what was read before, which somebody else may have changed since.
    let edit = Edit::once(format!("n={count}\n"), format!("n={}\n", count + 1));
    fork.edit(&fork.path("count")?, &edit).await?;
    let append = WriteOptions { mode: WriteMode::Append, create_parents: false };
    fork.write(&fork.path("log")?, format!("{name}\n").as_bytes(), append).await?;
    fork.write_text(&format!("made/{name}"), &format!("{name}\n")).await?;
    Ok(true)
}

async fn work(root: &Path, number: usize, capture: Capture) {
    let files = HostFilesystem::open(root, HostOptions { capture: Some(capture), ..HostOptions::default() });
    let files = files.unwrap();
    for round in 0..ROUNDS {
        let name = format!("p{number}-{round}");
        // Some are given up: nothing of those may be seen.
        let fork = files.fork().unwrap();
        change(root, &fork, &format!("never-{name}"), round % 2 == 0).await;
        drop(fork);
        // Somebody else may always have been quicker; then it is done again from the beginning.
        let mut tries = 0;
        loop {
            let fork = files.fork().unwrap();
            if change(root, &fork, &name, round % 3 != 0).await {
                match files.merge(&*fork) {
                    Ok(receipt) => {
                        files.keep(receipt);
                        break;
                    }
                    Err(error) => assert!(is_somebody_elses(&error), "{error}"),
                }
            }
            tries += 1;
            assert!(tries < 10_000, "{name} is never merged");
        }
    }
}

/// Not a test by itself: this is what the processes do.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let mut words = job.splitn(3, ' ');
    let (number, capture) = (words.next().unwrap().parse().unwrap(), words.next().unwrap());
    let capture = if capture == "scan" { Capture::Scan } else { Capture::Overlay };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work(Path::new(words.next().unwrap()), number, capture));
}

fn together(captures: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("count"), "n=0\n").unwrap();
    fs::write(dir.path().join("log"), "").unwrap();
    fs::create_dir(dir.path().join("made")).unwrap();
    let start = |(number, capture): (usize, &&str)| {
        Command::new(std::env::current_exe().unwrap())
            .args(["processes::child", "--exact", "--nocapture"])
            .env(JOB, format!("{number} {capture} {}", dir.path().display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<Child> = captures.iter().enumerate().map(start).collect();
    for child in children {
        let ended = child.wait_with_output().unwrap();
        let said = [ended.stdout, ended.stderr].concat();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&said));
    }
    let mut expected: Vec<String> = (0..captures.len())
        .flat_map(|number| (0..ROUNDS).map(move |round| format!("p{number}-{round}")))
        .collect();
    expected.sort();
    let read = |path: &str| fs::read_to_string(dir.path().join(path)).unwrap();
    assert_eq!(read("count"), format!("n={}\n", expected.len()));
    let mut log: Vec<String> = read("log").lines().map(str::to_owned).collect();
    log.sort();
    assert_eq!(log, expected, "each once");
    let made = fs::read_dir(dir.path().join("made")).unwrap();
    let mut made: Vec<String> = made.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    made.sort();
    assert_eq!(made, expected);
    for name in made {
        assert_eq!(read(&format!("made/{name}")), format!("{name}\n"));
    }
    let mut there: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(there, [".wink", "count", "log", "made"]);
    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    assert_eq!(files.recovered().unwrap().trash.len(), 0, "nobody died");
}

#[test]
fn commands_without_an_overlay_and_writes_of_several_processes() {
    together(&["scan", "scan", "scan"]);
}

#[test]
fn commands_with_and_without_an_overlay_and_writes_of_several_processes() {
    let able = Capabilities::detect();
    match able.overlay {
        Some(_) => together(&["scan", "overlay", "overlay", "scan"]),
        None => leave_out("commands on an overlay of several processes", &able.why_no_overlay),
    }
}
