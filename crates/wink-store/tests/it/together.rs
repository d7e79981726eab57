//! Files, session and ledger at once: several real processes order the same things in one workspace and one session, some of them
//! are killed on the way, and files, session, ledger and the world outside tell the same in the end.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is broken by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use wink::executor::{Executor, Outcome, ToolCall};
use wink::filesystem::{WriteMode, WriteOptions};
use wink::ledger::{IdempotencyConfig, LedgerScope, Settlement};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::session::{Ending, ToolInvoked};
use wink::store::{LedgerState, Rows, Store};
use wink::testing::steps;
use wink_store::Workspace;

const JOB: &str = "WINK_TEST_TOGETHER_JOB";
const COMMON: usize = 12;

/// What a child process does.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Job {
    place: PathBuf,
    number: usize,
    /// At which step of any kind it is killed.
    dies_at: Option<usize>,
}

#[data]
#[derive(SliceType)]
#[slice(name = "ordered")]
struct Ordered {
    what: String,
}

/// The world outside: a line for each order that arrived.
struct Shop(PathBuf);

impl Shop {
    fn arrived(&self) -> Vec<String> {
        std::fs::read_to_string(&self.0).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

/// Notes an order in the session and in two files, and sends it.
#[tool]
async fn order(what: String, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let _ = cx.session().dispatch(Ordered { what: what.clone() })?;
    let files = cx.filesystem().await?;
    files.write("list", format!("{what}\n").as_bytes(), WriteOptions::new(WriteMode::Append)).await?;
    let shop = cx.resource::<Shop>().await?;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&shop.0)?;
    file.write_all(format!("{what}\n").as_bytes())?;
    files.write_text(&format!("orders/{what}"), &what).await?;
    Ok(ToolResult::ok(what, "ordered"))
}

struct Process {
    workspace: Workspace,
    session: Session,
    executor: Executor,
    shop: Arc<Shop>,
}

impl Process {
    async fn open(place: &Path) -> Self {
        let workspace = Workspace::open(place.join("workspace")).unwrap();
        let session = workspace.session("one").open().await.unwrap();
        session.know::<Ordered>().unwrap();
        let shop = Arc::new(Shop(place.join("arrived")));
        let key = |arguments: &Value| Ok(arguments["what"].as_str().unwrap().to_owned());
        let once = IdempotencyConfig::custom(key).ttl(None).scope(LedgerScope::Global);
        let section = Section::tools("shop", "Shop").tool(order_tool().idempotency(once));
        let prompt = PromptTemplate::builder("tests", "together").section(section).build().unwrap().prompt();
        let resources = ResourceRegistry::of((
            Binding::filesystem(Arc::clone(workspace.files()) as _),
            Binding::instance(Arc::clone(&shop)),
        ));
        let executor =
            Executor::builder(&prompt, &session).resources(resources.unwrap()).open().await.unwrap();
        Self { workspace, session, executor, shop }
    }

    /// It is ordered, by whomever, or nobody can know: somebody died over it, or somebody died before, in the middle of changing the
    /// files, and what was read of those did not last.
    async fn order(&self, what: &str) -> Outcome {
        let outcome =
            self.executor.call(ToolCall::new(what, "order", json!({ "what": what }).to_string())).await;
        let expected = match outcome.event.ending {
            Ending::Succeeded | Ending::InDoubt => true,
            Ending::NotCommitted => outcome.text().contains("changed by somebody else meanwhile: list;"),
            _ => false,
        };
        assert!(expected, "{what}: {:?}: {}", outcome.event.ending, outcome.text());
        outcome
    }
}

/// What a process orders: the same as all the others, each beginning elsewhere, and something of its own after each.
fn orders(number: usize) -> Vec<String> {
    (0..COMMON)
        .flat_map(|at| [format!("common-{}", (at + number * 5) % COMMON), format!("own-{number}-{at}")])
        .collect()
}

/// Not a test by itself: this is what the child processes run.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let job: Job = serde_json::from_str(&job).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let process = Process::open(&job.place).await;
        if let Some(nth) = job.dies_at {
            let reached = AtomicUsize::new(0);
            steps::on_every_step(move |_| {
                if reached.fetch_add(1, Ordering::SeqCst) + 1 == nth {
                    // As the system kills: nothing is run on the way out.
                    let _ = Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status();
                    std::process::abort();
                }
            });
        }
        for what in orders(job.number) {
            let _ = process.order(&what).await;
        }
        assert_eq!(job.dies_at, None, "it should have died");
    });
}

fn start(place: &Path, number: usize, dies_at: Option<usize>) -> Child {
    let job = Job { place: place.to_owned(), number, dies_at };
    Command::new(std::env::current_exe().unwrap())
        .args(["together::child", "--exact", "--nocapture"])
        .env(JOB, serde_json::to_string(&job).unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Everything, each of it once.
fn once(all: impl IntoIterator<Item = String>, what: &str) -> BTreeSet<String> {
    let mut once = BTreeSet::new();
    for one in all {
        assert!(once.insert(one.clone()), "{what}: {one} is there twice");
    }
    once
}

/// What is ordered according to the files, the session and its log, which must be the same.
fn told(process: &Process, root: &Path) -> BTreeSet<String> {
    let list = std::fs::read_to_string(root.join("list")).unwrap();
    let list = once(list.lines().map(str::to_owned), "list");
    let entries = std::fs::read_dir(root.join("orders")).unwrap().map(Result::unwrap);
    let files: BTreeMap<String, String> = entries
        .map(|file| (file.file_name().into_string().unwrap(), std::fs::read_to_string(file.path()).unwrap()))
        .collect();
    assert_eq!(files, list.iter().map(|what| (what.clone(), what.clone())).collect(), "list and files");
    let session = process.session.slice::<Ordered>();
    assert_eq!(once(session.iter().map(|ordered| ordered.what.clone()), "session"), list);
    let log = process.session.slice::<ToolInvoked>();
    let ran = log.iter().filter(|event| event.ending == Ending::Succeeded && !event.replayed);
    assert_eq!(once(ran.map(|event| event.call_id.to_string()), "log"), list);
    list
}

// cases 226, 235, 238
#[tokio::test(flavor = "multi_thread")]
async fn processes_that_are_killed_lose_nothing_and_do_nothing_twice() {
    const SURVIVORS: usize = 3;
    let place = TempDir::new().unwrap();
    let root = place.path().join("workspace");
    std::fs::create_dir(&root).unwrap();
    let survivors: Vec<Child> = (0..SURVIVORS).map(|number| start(place.path(), number, None)).collect();
    let dying: Vec<usize> = (3..100).step_by(7).collect();
    // Two at a time, so that the dying meet as well.
    for (pair, deaths) in dying.chunks(2).enumerate() {
        let children = deaths
            .iter()
            .enumerate()
            .map(|(at, nth)| start(place.path(), SURVIVORS + pair * 2 + at, Some(*nth)));
        for mut child in children.collect::<Vec<_>>() {
            assert_eq!(
                child.wait().unwrap().signal(),
                Some(9),
                "it is killed, and nothing else happens to it"
            );
        }
    }
    for mut child in survivors {
        assert!(child.wait().unwrap().success());
    }

    let process = Process::open(place.path()).await;
    let ordered = told(&process, &root);
    let arrived = once(process.shop.arrived(), "the world outside");
    let recorded: BTreeSet<String> = {
        let rows = process.workspace.store().rows(Rows::All).await.unwrap();
        let recorded = rows.iter().filter(|row| matches!(row.state, LedgerState::Recorded { .. }));
        recorded.map(|row| row.key.rsplit(':').next().unwrap().to_owned()).collect()
    };
    assert_eq!(recorded, ordered, "the ledger");
    let doubts: BTreeMap<String, String> = {
        let doubts = process.workspace.in_doubt().await.unwrap();
        doubts
            .into_iter()
            .map(|doubt| (doubt.key.rsplit(':').next().unwrap().to_owned(), doubt.key))
            .collect()
    };
    assert!(!doubts.is_empty(), "some died inside a call");
    let log = process.session.slice::<ToolInvoked>();
    let ended = |ending| log.iter().filter(|event| event.ending == ending).count();
    let (interrupted, conflicts) = (ended(Ending::Interrupted), ended(Ending::NotCommitted));
    assert!((1..=dying.len()).contains(&interrupted), "{interrupted} died inside a call");
    assert!(doubts.len() <= interrupted + conflicts, "{interrupted} and {conflicts} cannot leave {doubts:?}");
    let lost: Vec<&String> =
        arrived.iter().filter(|what| !ordered.contains(*what) && !doubts.contains_key(*what)).collect();
    assert_eq!(lost, [""; 0], "what had its effect is recorded or in doubt");
    let wanted: BTreeSet<String> = (0..SURVIVORS).flat_map(orders).collect();
    let missing: Vec<&String> =
        wanted.iter().filter(|what| !ordered.contains(*what) && !doubts.contains_key(*what)).collect();
    assert_eq!(missing, [""; 0], "what the survivors asked for is ordered or in doubt");

    // Whoever looks into the books of the shop can settle all of it.
    for (what, key) in &doubts {
        assert_eq!(process.order(what).await.event.ending, Ending::InDoubt, "{what}");
        let settlement = match arrived.contains(what) {
            true => Settlement::Happened {
                message: "ordered".into(),
                value: Some(json!(what)),
                exclude_value_from_context: false,
            },
            false => Settlement::DidNotHappen,
        };
        assert!(process.workspace.ledger().settle(key, settlement).await.unwrap(), "{what}");
    }
    for what in wanted.iter().chain(doubts.keys()) {
        let outcome = process.order(what).await;
        let again = doubts.contains_key(what) && !arrived.contains(what);
        assert_eq!(outcome.value().as_ref(), Some(what));
        assert!(outcome.event.replayed || again, "{what} was sent again");
    }
    let after = once(process.shop.arrived(), "the world outside, in the end");
    assert_eq!(after, arrived.union(&wanted).chain(doubts.keys()).cloned().collect());
    let again = doubts.keys().filter(|what| !arrived.contains(*what));
    assert_eq!(told(&process, &root), ordered.iter().chain(again).cloned().collect());
    assert!(process.workspace.in_doubt().await.unwrap().is_empty());
    assert!(process.workspace.store().check().await.unwrap().is_sound());
}
