//! A run in a process that is killed, at every step of the way to the disk and anywhere, and taken up by another process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;
use wink::filesystem::{WriteMode, WriteOptions};
use wink::ledger::{IdempotencyConfig, Probed, WhenInDoubt};
use wink::prelude::*;
use wink::prompt::Output;
use wink::resource::{Binding, MergeMode, ResourceRegistry};
use wink::session::{Ending, PromptExecuted, RunContext, ToolInvoked};
use wink::testing::steps;
use wink::tool::Annotations;
use wink_models::conversation::Tally;
use wink_models::{Adapter, Evaluation, ModelAdapter, PromptResponse, Random, ScriptedModel};
use wink_store::Workspace;

const ROOT: &str = "WINK_TEST_RUN_ROOT";
const TURNS: &str = "WINK_TEST_RUN_TURNS";
const DIE_AT: &str = "WINK_TEST_RUN_DIE_AT";

/// Where what reaches outside is written down.
struct Outside(PathBuf);

impl Outside {
    fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.0).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn add(&self, what: &str) -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.0)?;
        file.write_all(format!("{what}\n").as_bytes())
    }
}

#[data]
struct Text {
    text: String,
}

#[data]
#[derive(Debug, Clone, PartialEq)]
struct Note {
    text: String,
}
impl SliceType for Note {
    const NAME: &'static str = "note";
}

#[data]
#[derive(Debug, Clone, PartialEq)]
struct Verdict {
    turns: usize,
}
impl SliceType for Verdict {
    const NAME: &'static str = "verdict";
}

async fn add(params: Text, cx: &mut ToolContext) -> Result<ToolResult<Note>, ToolError> {
    let line = format!("{}\n", params.text);
    cx.filesystem().await?.write("list", line.as_bytes(), WriteOptions::new(WriteMode::Append)).await?;
    Ok(ToolResult::value(Note { text: params.text }))
}

async fn fail(params: Text, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.write("list", b"never", WriteOptions::new(WriteMode::Append)).await?;
    cx.resource::<Outside>().await?.add(&params.text)?;
    Ok(ToolResult::error(params.text))
}

async fn act(params: Text, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    cx.resource::<Outside>().await?.add(&params.text)?;
    Ok(ToolResult::value(format!("did {}", params.text)))
}

/// A tool inside that can be run again, one outside that can be asked about, and two outside of which nobody knows.
fn prompt(outside: &Arc<Outside>) -> Prompt {
    let asked = Arc::clone(outside);
    let probe = move |_: String, params: serde_json::Value| -> wink::BoxFuture<'static, _> {
        let text = params["text"].as_str().unwrap_or_default().to_owned();
        let happened = asked.lines().contains(&text);
        Box::pin(std::future::ready(Ok(match happened {
            true => Probed::Happened {
                message: String::new(),
                value: Some(format!("did {text}").into()),
                exclude_value_from_context: false,
            },
            false => Probed::DidNotHappen,
        })))
    };
    let once = IdempotencyConfig::auto().when_in_doubt(WhenInDoubt::Probe(Arc::new(probe)));
    let inside = Annotations { open_world: false, ..Annotations::default() };
    let tools = Section::tools("tools", "Tools")
        .tool(Tool::new("add", "Adds a line.", add).publishes().annotations(inside))
        .tool(Tool::new("fail", "Fails, and leaves something outside all the same.", fail))
        .tool(Tool::new("pay", "Pays.", act).idempotency(once));
    let more = Section::markdown("more", "More")
        .body("Shout.")
        .summary("How to shout.")
        .visibility(Visibility::Summary)
        .tool(Tool::new("shout", "Shouts.", act));
    let template = PromptTemplate::builder("tests", "killed")
        .section(tools)
        .section(more)
        .output(Output::object::<Verdict>().publishes());
    template.build().unwrap().prompt()
}

fn script(turns: usize) -> String {
    let call = |(id, (name, text)): (usize, (&str, String))| {
        let arguments = match name {
            "open_sections" => json!({ "reason": "to shout", "section_keys": [text] }),
            _ => json!({ "text": text }),
        };
        json!({ "id": id.to_string(), "name": name, "arguments": arguments })
    };
    let turn = |turn: usize| {
        let told = |what: &str| format!("{what}{turn}");
        let calls = match turn % 4 {
            0 => vec![("add", told("a")), ("pay", told("p"))],
            1 if turn == 1 => vec![("add", told("a")), ("open_sections", "more".to_owned())],
            1 => vec![("fail", told("f")), ("add", told("a"))],
            2 => vec![("shout", told("s")), ("add", told("a"))],
            _ => vec![("pay", told("p")), ("fail", told("f")), ("add", told("a")), ("shout", told("s"))],
        };
        json!({ "tool_calls": calls.into_iter().enumerate().map(call).collect::<Vec<_>>() }).to_string()
    };
    let last = json!({ "text": json!({ "turns": turns }).to_string(), "usage": { "input_tokens": 7 } });
    (0..turns).map(turn).chain([last.to_string()]).map(|line| line + "\n").collect()
}

fn outside(root: &Path) -> Arc<Outside> {
    Arc::new(Outside(root.join("outside")))
}

async fn run(root: &Path, turns: usize) -> (PromptResponse, Session) {
    let workspace = Arc::new(Workspace::open(root.join("work")).unwrap());
    let session = workspace.session("s").open().await.unwrap();
    let outside = outside(root);
    let own = ResourceRegistry::of((Binding::instance(Arc::clone(&outside)),)).unwrap();
    let evaluation = Evaluation::new()
        .task("Live.")
        .run(RunContext { run_id: Some("r".into()), ..RunContext::default() })
        .resources(workspace.resources().merge(&own, MergeMode::Strict).unwrap());
    let model = Arc::new(ScriptedModel::parse(&script(turns)).unwrap());
    let response = ModelAdapter::new(model).evaluate(&prompt(&outside), &session, evaluation).await.unwrap();
    (response, session)
}

/// What the other process does; nothing, unless it was started for it.
#[tokio::test]
async fn in_another_process() {
    let Ok(root) = std::env::var(ROOT) else { return };
    if let Ok(at) = std::env::var(DIE_AT) {
        let left = AtomicUsize::new(at.parse().unwrap());
        steps::on_every_step(move |_| {
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                kill_process(getpid(), Signal::KILL).unwrap();
            }
        });
    }
    let turns = std::env::var(TURNS).unwrap().parse().unwrap();
    run(Path::new(&root), turns).await;
}

/// When the other process is killed.
#[derive(Debug, Clone, Copy)]
enum Kill {
    AtStep(usize),
    After(Duration),
}

/// Whether the other process got to the end; it did, or it was killed.
fn start(root: &Path, turns: usize, kill: Kill) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "killed::in_another_process", "--nocapture"]);
    command.env(ROOT, root).env(TURNS, turns.to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Kill::AtStep(at) = kill {
        command.env(DIE_AT, at.to_string());
    }
    let mut child = command.spawn().unwrap();
    if let Kill::After(time) = kill {
        #[expect(clippy::disallowed_methods, reason = "a real process dies at a real time")]
        std::thread::sleep(time);
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    match output.status.signal() {
        Some(signal) if signal == Signal::KILL.as_raw() => false,
        _ if output.status.success() => true,
        _ => panic!("{kill:?}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// Takes the run up to its end, and looks whether it came to what one does that nobody killed.
async fn judge(root: &Path, turns: usize) {
    let (response, session) = run(root, turns).await;
    let seen = format!("{}", root.display());
    let verdict = Verdict { turns };
    assert_eq!(response.output::<Verdict>(), Some(verdict.clone()), "{seen}");
    let calls = |name: &str| -> Vec<String> {
        let script = script(turns);
        let lines = script.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let calls = lines.flat_map(|line| line["tool_calls"].as_array().cloned().unwrap_or_default());
        let of_name = calls.filter(|call| call["name"] == name);
        of_name.map(|call| call["arguments"]["text"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let stats = response.stats;
    assert_eq!((stats.turns as usize, stats.usage.total()), (turns + 1, 7), "{seen}");
    // Inside, all of it, and in order.
    let list = std::fs::read_to_string(root.join("work/list")).unwrap();
    assert_eq!(list.lines().collect::<Vec<_>>(), calls("add"), "{seen}");
    let notes: Vec<_> = session.slice::<Note>().iter().map(|note| note.text.clone()).collect();
    assert_eq!(notes, calls("add"), "{seen}");
    // Outside, once: what can be asked about, and what cannot be, if at all.
    let lines = outside(root).lines();
    let (paid, other): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.starts_with('p'));
    assert_eq!(paid, calls("pay"), "{seen}");
    let once: BTreeSet<_> = other.iter().collect();
    assert_eq!(once.len(), other.len(), "{seen}: {other:?}");
    let (shouted, failed): (Vec<_>, Vec<_>) = other.into_iter().partition(|line| line.starts_with('s'));
    // Its end is in the log once, and so is every success.
    assert_eq!(session.slice::<PromptExecuted>().len(), 1, "{seen}");
    assert_eq!(session.slice::<Verdict>().all(), [Arc::new(verdict)], "{seen}");
    let events = session.slice::<ToolInvoked>().all();
    let ids: BTreeSet<_> = events.iter().map(|event| event.id.to_string()).collect();
    assert_eq!(ids.len(), events.len(), "{seen}");
    let done = events.iter().filter(|event| event.success && !event.replayed && &*event.tool == "add");
    assert_eq!(done.count(), calls("add").len(), "{seen}");
    let not_known = events.iter().filter(|event| event.ending == Ending::InDoubt);
    let of_tool = |name: &str| not_known.clone().filter(|event| &*event.tool == name).count();
    assert_eq!(of_tool("shout") + of_tool("fail"), not_known.clone().count(), "{seen}");
    assert!(shouted.len() + of_tool("shout") >= calls("shout").len(), "{seen}");
    assert!(failed.len() + of_tool("fail") >= calls("fail").len(), "{seen}");
    // The report has what the log has: every call, with those that the deaths of processes stopped.
    let logged = Tally::of(events.iter().map(|event| event.ending));
    assert_eq!(
        (stats.calls, stats.rolled_back, stats.denied),
        (logged.calls, logged.rolled_back, logged.denied),
        "{seen}"
    );
    let all = ["add", "fail", "pay", "shout", "open_sections"].map(|name| calls(name).len());
    let keys: BTreeSet<_> = events.iter().map(|event| event.request.clone()).collect();
    assert_eq!(keys.len(), all.iter().sum::<usize>(), "{seen}: every call of the script is among them");
}

/// In memory where there is such a place: it is processes that are killed here, not disks.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn new_root(dir: &Path, name: usize) -> PathBuf {
    let root = dir.join(name.to_string());
    std::fs::create_dir_all(root.join("work")).unwrap();
    root
}

#[tokio::test]
async fn a_run_killed_at_any_step_is_taken_up_by_the_next_process() {
    let dir = place();
    for at in 1.. {
        let root = new_root(dir.path(), at);
        let ended = start(&root, 4, Kill::AtStep(at));
        judge(&root, 4).await;
        if ended {
            assert!(at > 40, "the run had {at} steps only");
            return;
        }
    }
}

/// Every process that takes a run up is killed, at some step or at some moment, until one gets to the end.
#[tokio::test]
#[ignore = "takes minutes; `./test crash` runs it"]
async fn a_thousand_kills() {
    let dir = place();
    let chance = Random::seeded(1);
    let (mut kills, mut runs) = (0, 0);
    while kills < 1_000 {
        let (root, turns) = (new_root(dir.path(), runs), 24);
        loop {
            let some = |most: u64| chance.any() % most;
            let kill = match some(4) {
                0 => Kill::After(Duration::from_micros(some(80_000))),
                _ => Kill::AtStep(1 + some(30) as usize),
            };
            if start(&root, turns, kill) {
                break;
            }
            kills += 1;
        }
        judge(&root, turns).await;
        runs += 1;
    }
    println!("{kills} kills in {runs} runs, and nothing lost or done twice");
}
