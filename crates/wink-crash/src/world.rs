//! The child: a workspace with its store and one session, and the tools that the parent has it call.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use wink::filesystem::host::journal::Retention;
use wink::filesystem::host::{Capture, HostOptions};
use wink::filesystem::{DeleteMode, Edit, Filesystem, FilesystemExt, MkdirOptions, UndoForce};
use wink::ledger::{EffectLedger, IdempotencyConfig, LedgerScope, Settlement};
use wink::policy::{Decision, PolicyCall, PolicyContext, ToolPolicy};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::session::{ToolInvoked, UndoReach, Undone};
use wink::store::{LedgerState, Rows, Store};
use wink::testing::{FaultyStore, StoreOp, steps};
use wink::transaction::{UndoRequest, create_snapshot, restore_snapshot, transaction, undo};
use wink_sandbox::tool::{HostLayers, WorkspaceLayers, capture_of};
use wink_sandbox::{Capabilities, Launch};
use wink_store::{Workspace, WorkspaceOptions};

use crate::calls::{Call, Turn};
use crate::effects;
use crate::model::UNDO_POINTS;
use crate::plants;
use crate::protocol::{Answer, Ask, Dump, Logged, Say, Standing};
use crate::script::Line;
use crate::{Plant, Work};

/// What calls leave in the session.
#[data]
#[derive(SliceType)]
#[slice(name = "note")]
struct Note {
    text: String,
}

/// Where effects go, and under what name.
struct Outside {
    socket: PathBuf,
    dir: PathBuf,
    /// What a command makes before it goes on without end.
    hold: Option<PathBuf>,
    /// What a command waits for then, instead.
    gate: Option<PathBuf>,
    /// This program, for commands.
    kit: String,
    plant: Option<Plant>,
}

/// Writes down which calls have begun, for the parent.
struct Begun(PathBuf);

impl ToolPolicy for Begun {
    fn kind(&self) -> &'static str {
        "begun"
    }

    fn check_now(&self, _: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Option<Result<Decision, Error>> {
        let written = add_line(&self.0, &cx.invocation().call_id);
        Some(written.map(|()| Decision::Allow).map_err(Into::into))
    }
}

fn add_line(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(format!("{text}\n").as_bytes())
}

/// Whatever goes wrong in the child.
type Error = Box<dyn std::error::Error + Send + Sync>;

#[tool]
/// Writes a file.
async fn write(path: String, content: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Note { text: format!("wrote {path}") })?;
    cx.filesystem().await?.write_text(&path, &content).await?;
    Ok(ToolResult::done("written"))
}

#[tool]
/// Replaces a text that occurs once.
async fn edit(
    path: String,
    old: String,
    new: String,
    cx: &mut ToolContext,
) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.edit(&path, &Edit::once(old, new)).await?;
    Ok(ToolResult::done("edited"))
}

#[tool]
/// Deletes a file or directory.
async fn delete(path: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.delete(&path, DeleteMode::Recursive).await?;
    Ok(ToolResult::done("deleted"))
}

#[tool]
/// Moves a file or directory.
async fn rename(from: String, to: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.rename(&from, &to).await?;
    Ok(ToolResult::done("moved"))
}

#[tool]
/// Makes a directory.
async fn mkdir(path: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let options = MkdirOptions { parents: true, exist_ok: false };
    cx.filesystem().await?.mkdir(&path, options).await?;
    Ok(ToolResult::done("made"))
}

#[tool]
/// Runs a script over the workspace.
async fn command(
    first: Option<String>,
    lines: Vec<Line>,
    fail: bool,
    cx: &mut ToolContext,
) -> Result<ToolResult<()>, ToolError> {
    if let Some(path) = first {
        cx.filesystem().await?.write_text(&path, "first").await?;
    }
    let files = cx.resource::<dyn Filesystem>().await?;
    let layer = HostLayers.layer(&files).await?;
    let outside = cx.resource::<Outside>().await?;
    let mut script: Vec<String> = lines.iter().map(|line| line.shell(&outside.kit)).collect();
    if let (Some(hold), Some(gate)) = (&outside.hold, &outside.gate) {
        let (hold, gate) = (hold.display(), gate.display());
        script.push(format!("touch '{hold}'\nwhile [ ! -e '{gate}' ]; do sleep 0.01; done"));
    } else if let Some(hold) = &outside.hold {
        // Several processes, some of which nobody waits for.
        let endless = "n=0; while :; do n=$((n+1)); printf x > during-$$-$n; rm -f during-$$-$((n-9)); done";
        script.extend((0..3).map(|_| format!("(setsid sh -c '{endless}' &)")));
        script.push(format!("touch '{}'\n{endless}", hold.display()));
    }
    let workspace = layer.workspace();
    let root = workspace.root().to_owned();
    Launch::shell(script.join("\n"), root).workspace(workspace).run(cx.clock()).await?;
    if fail {
        return Ok(ToolResult::error("as asked"));
    }
    plants::finished(layer.finish().await, outside.plant)?;
    Ok(ToolResult::done("ran"))
}

#[tool]
/// Has an effect outside, and keeps the receipt.
async fn charge(key: String, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let outside = cx.resource::<Outside>().await?;
    add_line(&crate::judge::entered_file(&outside.dir), &key)?;
    let _ = cx.session().dispatch(Note { text: format!("charged {key}") })?;
    effects::happen(&outside.socket, &crate::judge::effect_key(&outside.dir, &key))?;
    cx.filesystem().await?.write_text(&format!("receipts/{key}"), &key).await?;
    Ok(ToolResult::ok(key, "charged"))
}

#[tool]
/// Writes two files and a note, then fails.
async fn fail(path: String, other: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Note { text: "never".to_owned() })?;
    let files = cx.filesystem().await?;
    // Whether this works or not, nothing of it may stay.
    let _ = files.write_text(&path, "never").await;
    let _ = files.delete(&other, DeleteMode::Recursive).await;
    Ok(ToolResult::error("as asked"))
}

#[tool]
/// Writes and deletes, and has the store refuse the commit.
async fn refused(path: String, other: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Note { text: "never".to_owned() })?;
    let files = cx.filesystem().await?;
    let _ = files.delete(&other, DeleteMode::Recursive).await;
    let _ = files.write_text(&path, "never").await;
    cx.resource::<FaultyStore>().await?.fail(StoreOp::Commit, 1);
    Ok(ToolResult::done("written"))
}

#[tool]
/// Notes something.
async fn note(text: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Note { text })?;
    Ok(ToolResult::done("noted"))
}

/// Works until there is nothing more to do, or until it is time to die.
pub(crate) fn work(work: &Work) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(serve(work))
}

async fn serve(work: &Work) -> Result<(), Error> {
    let Work { dir, socket, die_at, nth, plant, scan, opening, hold, gate, session } = work;
    let inside = Arc::new(AtomicBool::new(*opening));
    if let Some(step) = die_at {
        die_when(step.clone(), *nth, Arc::clone(&inside));
    }
    // The modes that the model knows.
    let _ = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let capture = scan.then_some(Capture::Scan);
    let (retention, trash) = (Retention::Last(UNDO_POINTS), Retention::Last(3));
    let files = HostOptions { capture, retention, trash, ..HostOptions::default() };
    if plants::refuses(dir, *plant) {
        return Err("the workspace cannot be opened, as planted".into());
    }
    plants::retrace(dir, *plant)?;
    plants::unlock(dir, *plant)?;
    plants::forget_modes(dir, *plant)?;
    let workspace = Workspace::open_with(dir, WorkspaceOptions { files, ..WorkspaceOptions::default() })?;
    let (capture, _) = capture_of(workspace.files())?;
    let (store, files) = plants::planted(&workspace, *plant);
    let store = Arc::new(FaultyStore::new(store));
    let session = Session::builder().store(Arc::clone(&store) as _).id(session.as_str()).open().await?;
    let by_hand = Arc::clone(&files);
    let kit = std::env::current_exe()?.to_string_lossy().into_owned();
    let (socket, dir_of_effects) = (socket.to_owned(), dir.to_owned());
    let outside =
        Outside { socket, dir: dir_of_effects, hold: hold.clone(), gate: gate.clone(), kit, plant: *plant };
    let resources = ResourceRegistry::of((
        Binding::filesystem(files),
        Binding::instance(Arc::new(outside)),
        Binding::instance(Arc::clone(&store)),
    ))?;
    let key = |arguments: &serde_json::Value| {
        arguments
            .get("key")
            .and_then(serde_json::Value::as_str)
            .map(str::to_owned)
            .ok_or_else(|| "no key".to_owned())
    };
    let once = IdempotencyConfig::custom(key).ttl(None).scope(LedgerScope::Global);
    let section = Section::markdown("crash", "Crash")
        .policy(Begun(crate::judge::begun_file(dir)))
        .tool(write_tool())
        .tool(edit_tool())
        .tool(delete_tool())
        .tool(rename_tool())
        .tool(mkdir_tool())
        .tool(command_tool())
        .tool(charge_tool().idempotency(once))
        .tool(fail_tool())
        .tool(refused_tool())
        .tool(note_tool());
    let prompt = PromptTemplate::builder("crash", "kit").section(section).build()?.prompt();
    let executor = Executor::builder(&prompt, &session).resources(resources).open().await?;
    let ledger = EffectLedger::new(Arc::clone(&store) as _, Arc::clone(session.clock()));

    inside.store(false, Ordering::SeqCst);
    say(&Say::Ready)?;
    for line in std::io::stdin().lock().lines() {
        match serde_json::from_str(&line?)? {
            Ask::Do(turn) => {
                inside.store(true, Ordering::SeqCst);
                if plants::hangs(&turn, *plant) {
                    std::future::pending::<()>().await;
                }
                let answers = run(&executor, &*by_hand, turn).await?;
                inside.store(false, Ordering::SeqCst);
                say(&Say::Did(answers))?;
            }
            Ask::Dump => say(&Say::There(Box::new(dump(&session, &*store, capture).await?)))?,
            Ask::Settle { key, happened } => {
                settle(&ledger, &*store, &key, happened).await?;
                say(&Say::Settled)?;
            }
        }
    }
    Ok(())
}

/// Kills this process when a step is reached for the n-th time inside a turn.
fn die_when(step: String, nth: usize, inside: Arc<AtomicBool>) {
    let seen = AtomicUsize::new(0);
    steps::on_every_step(move |reached| {
        if reached == step && inside.load(Ordering::SeqCst) && seen.fetch_add(1, Ordering::SeqCst) + 1 == nth
        {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            // The signal is on its way; nothing more is done on this thread.
            loop {
                std::thread::park();
            }
        }
    });
}

fn say(what: &Say) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(what)?)?;
    out.flush()
}

async fn run(executor: &Executor, by_hand: &dyn Filesystem, turn: Turn) -> Result<Vec<Answer>, Error> {
    let answer = |outcome: wink::executor::Outcome| Answer {
        id: outcome.answer.call_id.to_string(),
        success: outcome.answer.success,
        text: outcome.answer.text.to_string(),
    };
    let mut calls = turn.calls;
    if let [(id, Call::Nested { path, kept, dropped })] = calls.as_slice() {
        let success = nested(executor, path, kept, dropped).await;
        return Ok(vec![Answer { id: id.clone(), success: success.is_ok(), text: format!("{success:?}") }]);
    }
    if let [(id, Call::ByHand { path, content })] = calls.as_slice() {
        let success = by_hand.write_text(path, content).await;
        return Ok(vec![Answer { id: id.clone(), success: success.is_ok(), text: format!("{success:?}") }]);
    }
    if let [(id, Call::Undo { call })] = calls.as_slice() {
        let success = undo_call(executor, call).await;
        return Ok(vec![Answer { id: id.clone(), success: success.is_ok(), text: format!("{success:?}") }]);
    }
    if let [(_, Call::Mark), ..] = calls.as_slice() {
        return marked(executor, calls, answer).await;
    }
    let mut asked = Vec::new();
    for (id, call) in calls.drain(..) {
        asked.push(tool_call(id, &call)?);
    }
    match asked.len() {
        1 => {
            let mut answers = Vec::new();
            for call in asked {
                answers.push(answer(executor.call(call).await));
            }
            Ok(answers)
        }
        _ => Ok(executor.batch(asked).await.into_iter().map(answer).collect()),
    }
}

fn tool_call(id: String, call: &Call) -> Result<ToolCall, Error> {
    let mut call = serde_json::to_value(call)?;
    let tool = call.get("tool").and_then(|tool| tool.as_str()).unwrap_or_default().to_owned();
    let arguments = call.get_mut("arguments").map(serde_json::Value::take).unwrap_or_default();
    Ok(ToolCall::new(id, tool, arguments.to_string()))
}

/// Takes a snapshot, calls tools one by one, and goes back to it.
async fn marked(
    executor: &Executor,
    calls: Vec<(String, Call)>,
    answer: impl Fn(wink::executor::Outcome) -> Answer,
) -> Result<Vec<Answer>, Error> {
    let (session, resources) = (executor.session(), executor.resources());
    let mark = create_snapshot(session, resources, "mark").await?;
    let mut answers = Vec::new();
    for (id, call) in calls {
        answers.push(match call {
            Call::Mark => Answer { id, success: true, text: "marked".to_owned() },
            Call::GoBack => {
                let back = restore_snapshot(session, resources, &mark).await;
                Answer { id, success: back.is_ok(), text: format!("{back:?}") }
            }
            call => answer(executor.call(tool_call(id, &call)?).await),
        });
    }
    Ok(answers)
}

/// Undoes a call and all that came after it.
async fn undo_call(executor: &Executor, call: &str) -> Result<(), Error> {
    let session = executor.session();
    let event = session.slice::<ToolInvoked>().iter().find(|event| *event.call_id == *call);
    let call = event.ok_or("there is no such call")?.id;
    let request = UndoRequest { call, reach: UndoReach::ToBefore, force: UndoForce::Refuse };
    undo(session, executor.resources(), request).await?;
    Ok(())
}

/// Two transactions inside one: the first is kept, the second rolled back.
async fn nested(executor: &Executor, path: &str, kept: &str, dropped: &str) -> Result<(), Error> {
    transaction(executor.session(), executor.resources(), "nested", async |tx| {
        let inner = tx.nested("kept");
        let _ = inner.session().dispatch(Note { text: "nested".to_owned() })?;
        inner.filesystem().await?.write_text(path, kept).await?;
        inner.commit().await?;
        let inner = tx.nested("dropped");
        let _ = inner.session().dispatch(Note { text: "dropped".to_owned() })?;
        inner.filesystem().await?.write_text(path, dropped).await?;
        inner.rollback().await;
        Ok::<(), Error>(())
    })
    .await
}

async fn dump(session: &Session, store: &dyn Store, capture: Capture) -> Result<Dump, Error> {
    let notes = session.slice::<Note>().iter().map(|note| note.text.clone()).collect();
    let log = session
        .slice::<ToolInvoked>()
        .iter()
        .map(|event| Logged {
            call_id: event.call_id.to_string(),
            success: event.success,
            ending: format!("{:?}", event.ending),
            replayed: event.replayed,
        })
        .collect();
    let mut ledger = BTreeMap::new();
    for row in store.rows(Rows::All).await? {
        let standing = match row.state {
            LedgerState::Recorded { .. } => Standing::Recorded,
            LedgerState::InDoubt { .. } => Standing::InDoubt,
            LedgerState::Claimed { .. } => Standing::Claimed,
        };
        ledger.insert(charge_key(&row.key), standing);
    }
    let undone = session.slice::<Undone>().iter().count();
    let has_overlays = Capabilities::detect().overlay.is_some();
    Ok(Dump { notes, log, ledger, undone, capture: capture.to_string(), has_overlays })
}

/// The charge's own key: what follows scope and tool.
fn charge_key(key: &str) -> String {
    key.rsplit(':').next().unwrap_or(key).to_owned()
}

async fn settle(ledger: &EffectLedger, store: &dyn Store, key: &str, happened: bool) -> Result<(), Error> {
    let rows = store.rows(Rows::All).await?;
    let row = rows.iter().find(|row| charge_key(&row.key) == key).ok_or("there is no such entry")?;
    let settlement = match happened {
        true => Settlement::Happened {
            message: "charged".to_owned(),
            value: Some(key.into()),
            exclude_value_from_context: false,
        },
        false => Settlement::DidNotHappen,
    };
    match ledger.settle(&row.key, settlement).await? {
        true => Ok(()),
        false => Err(format!("{key} could not be settled").into()),
    }
}
