//! A process that works: one session of a workspace, and random calls until its time is over.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wink::filesystem::Filesystem;
use wink::filesystem::host::{Capture, HostOptions};
use wink::ledger::{IdempotencyConfig, LedgerScope};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::testing::Dice;
use wink::tool::Isolation;
use wink_sandbox::Launch;
use wink_sandbox::WorkspaceView;
use wink_sandbox::tool::{HostLayers, WorkspaceLayers};
use wink_store::{Workspace, WorkspaceOptions};

use crate::history::{COUNTERS, Kind, LISTS, Seen, Version};
use crate::{Plant, Work};

/// Whatever goes wrong here.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// An entry of a session's slice.
#[data]
#[derive(SliceType)]
#[slice(name = "entry")]
pub(crate) struct Entry {
    pub(crate) id: String,
}

/// What handlers have to know.
struct Around {
    dir: PathBuf,
    plant: Option<Plant>,
}

/// Where effects are written down.
pub(crate) fn effects_file(dir: &Path) -> PathBuf {
    dir.with_extension("effects")
}

fn answered(seen: &Seen) -> Result<ToolResult<()>, ToolError> {
    Ok(ToolResult::done(serde_json::to_string(seen)?))
}

fn version(path: &str, text: &str) -> Result<Version, ToolError> {
    Version::of(path, text)
        .ok_or_else(|| ToolError::new(format!("{path} is not what it should be: {text:?}")))
}

/// The text after one more call has changed it.
fn next(path: &str, text: &str, read: &Version, id: &str) -> String {
    match COUNTERS.contains(&path) {
        true => format!("{}\n", read.length + 1),
        false => format!("{text}{id}\n"),
    }
}

#[tool]
/// Reads a file.
async fn peek(path: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let text = cx.filesystem().await?.read_text(&path).await?;
    let reads = BTreeMap::from([(path.clone(), version(&path, &text)?)]);
    answered(&Seen { reads, ..Seen::default() })
}

/// Reads a file and changes it.
async fn change(path: String, id: &str, cx: &mut ToolContext) -> Result<Seen, ToolError> {
    let files = cx.filesystem().await?;
    let text = files.read_text(&path).await?;
    let read = version(&path, &text)?;
    files.write_text(&path, &next(&path, &text, &read, id)).await?;
    Ok(Seen { reads: BTreeMap::from([(path.clone(), read)]), writes: vec![path], notes: None })
}

#[tool]
/// Appends to a list.
async fn append(path: String, id: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    answered(&change(path, &id, cx).await?)
}

#[tool]
/// Counts a counter on.
async fn bump(path: String, id: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    answered(&change(path, &id, cx).await?)
}

#[tool]
/// Has an effect outside, and appends to a list.
async fn charge(
    key: String,
    path: String,
    id: String,
    cx: &mut ToolContext,
) -> Result<ToolResult<()>, ToolError> {
    let around = cx.resource::<Around>().await?;
    let seen = change(path, &id, cx).await?;
    let mut effects =
        std::fs::OpenOptions::new().create(true).append(true).open(effects_file(&around.dir))?;
    effects.write_all(format!("{key}\n").as_bytes())?;
    answered(&seen)
}

#[tool]
/// Reads and changes the session's slice.
async fn note(id: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let notes = cx.session().slice::<Entry>()?.len();
    let _ = cx.session().dispatch(Entry { id })?;
    answered(&Seen { notes: Some(notes), ..Seen::default() })
}

/// The script of a command: says what it reads, and changes what it writes.
fn script(reads: &[String], writes: &[String], id: &str) -> String {
    let mut lines = vec!["set -e".to_owned()];
    for path in reads.iter().filter(|path| !writes.contains(path)) {
        lines.push(format!("x=$(cat {path}); echo '== {path}'; printf '%s\\n' \"$x\""));
    }
    for path in writes {
        lines.push(format!("x=$(cat {path}); echo '== {path}'; printf '%s\\n' \"$x\""));
        lines.push(match COUNTERS.contains(&path.as_str()) {
            // The same number at the same time, whichever command writes it.
            true => format!("echo $((x + 1)) > {path}; touch -d @$((1000000000 + x)) {path}"),
            // Half of the time as editors do it.
            false if id.len().is_multiple_of(2) => {
                format!("{{ [ -z \"$x\" ] || printf '%s\\n' \"$x\"; echo {id}; }} > {path}")
            }
            false => format!(
                "{{ [ -z \"$x\" ] || printf '%s\\n' \"$x\"; echo {id}; }} > {path}.{id}; mv {path}.{id} {path}"
            ),
        });
    }
    lines.join("\n")
}

async fn run(
    reads: Vec<String>,
    writes: Vec<String>,
    id: &str,
    cx: &mut ToolContext,
) -> Result<ToolResult<()>, ToolError> {
    let around = cx.resource::<Around>().await?;
    let files = cx.resource::<dyn Filesystem>().await?;
    let layer = HostLayers.layer(&files).await?;
    let workspace = layer.workspace();
    let root = workspace.root().to_owned();
    let launch = Launch::shell(script(&reads, &writes, id), root).workspace(workspace.clone());
    let finished = launch.run(cx.clock()).await?;
    if finished.ended.code() != 0 {
        let (text, _) = finished.stderr.text(400);
        return Err(ToolError::new(format!("the command failed: {text}")));
    }
    let (text, _) = finished.stdout.text(usize::MAX);
    let mut seen = Seen { writes, ..Seen::default() };
    for part in text.split("== ").skip(1) {
        let (path, rest) = part.split_once('\n').unwrap_or((part, ""));
        // An empty list prints one empty line.
        let rest = if rest == "\n" { "" } else { rest };
        seen.reads.insert(path.to_owned(), version(path, rest)?);
    }
    if around.plant == Some(Plant::SameContent)
        && let WorkspaceView::Overlay(dirs) = &workspace
    {
        drop_same(&dirs.lower, &dirs.upper)?;
    }
    layer.finish().await?;
    answered(&seen)
}

/// What a command wrote is dropped where the workspace has the same by now, as if it had not been written.
fn drop_same(lower: &Path, upper: &Path) -> std::io::Result<()> {
    for counter in COUNTERS {
        let (there, ours) = (lower.join(counter), upper.join(counter));
        if ours.exists() && std::fs::read(&there)? == std::fs::read(&ours)? {
            std::fs::remove_file(ours)?;
        }
    }
    Ok(())
}

#[tool]
/// A command.
async fn command(
    reads: Vec<String>,
    writes: Vec<String>,
    id: String,
    cx: &mut ToolContext,
) -> Result<ToolResult<()>, ToolError> {
    run(reads, writes, &id, cx).await
}

#[tool]
/// A command that holds the write turn.
async fn serial(
    reads: Vec<String>,
    writes: Vec<String>,
    id: String,
    cx: &mut ToolContext,
) -> Result<ToolResult<()>, ToolError> {
    run(reads, writes, &id, cx).await
}

/// Calls tools until the time is over.
pub(crate) fn work(work: &Work) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(call_until(work))
}

async fn call_until(Work { dir, session, name, seed, time, scan, plant }: &Work) -> Result<(), Error> {
    let until = Instant::now() + Duration::from_millis(*time);
    let files = HostOptions { capture: scan.then_some(Capture::Scan), ..HostOptions::default() };
    let workspace = Workspace::open_with(dir, WorkspaceOptions { files, ..WorkspaceOptions::default() })?;
    let session = workspace.session(session.as_str()).open().await?;
    let files: Arc<dyn Filesystem> = Arc::clone(workspace.files()) as _;
    let around = Around { dir: dir.clone(), plant: *plant };
    let resources = ResourceRegistry::of((Binding::filesystem(files), Binding::instance(Arc::new(around))))?;
    let key = |arguments: &Value| {
        let key = arguments.get("key").and_then(Value::as_str);
        key.map(str::to_owned).ok_or_else(|| "no key".to_owned())
    };
    let once = IdempotencyConfig::custom(key).ttl(None).scope(LedgerScope::Global);
    let isolation = match plant {
        Some(Plant::NoTurn) => Isolation::FirstCommitter,
        _ => Isolation::Serial,
    };
    let section = Section::markdown("histories", "Histories")
        .tool(peek_tool())
        .tool(append_tool())
        .tool(bump_tool())
        .tool(command_tool())
        .tool(serial_tool().isolation(isolation))
        .tool(charge_tool().idempotency(once))
        .tool(note_tool());
    let prompt = PromptTemplate::builder("crash", "histories").section(section).build()?.prompt();
    let executor = Executor::builder(&prompt, &session).resources(resources).open().await?;
    let mut dice = Dice::new(*seed);
    let mut number = 0u64;
    while Instant::now() < until {
        number += 1;
        let id = format!("{name}-{number}");
        let (kind, arguments) = draw(&mut dice, &id);
        let _ = executor.call(ToolCall::new(id, kind.tool(), arguments.to_string())).await;
    }
    Ok(executor.close().await?)
}

/// A call, by chance.
fn draw(dice: &mut Dice, id: &str) -> (Kind, Value) {
    let list = LISTS.get(dice.below(LISTS.len())).copied().unwrap_or_default();
    let counter = COUNTERS.get(dice.below(COUNTERS.len())).copied().unwrap_or_default();
    let either = if dice.below(2) == 0 { list } else { counter };
    // One file, two, or one read for another.
    let (reads, writes) = match dice.below(4) {
        0 => (vec![list], vec![counter]),
        1 => (Vec::new(), vec![list, counter]),
        _ => (Vec::new(), vec![either]),
    };
    match dice.below(14) {
        0 => (Kind::Peek, json!({ "path": either })),
        1 | 2 => (Kind::Append, json!({ "path": list, "id": id })),
        3 | 4 => (Kind::Bump, json!({ "path": counter, "id": id })),
        5..=8 => (Kind::Command, json!({ "reads": reads, "writes": writes, "id": id })),
        9 | 10 => (Kind::Serial, json!({ "reads": reads, "writes": writes, "id": id })),
        11 | 12 => {
            let key = format!("k{}", dice.below(40));
            (Kind::Charge, json!({ "key": key, "path": list, "id": id }))
        }
        _ => (Kind::Note, json!({ "id": id })),
    }
}
