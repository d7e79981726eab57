//! The write turn of a workspace: calls that hold it meet no conflict, and give it back however they end.

#![cfg(all(unix, feature = "macros"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic when they fail")]

use std::future::pending;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::Notify;
use wink::executor::Outcome;
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::filesystem::{Filesystem, FilesystemExt};
use wink::ledger::{EffectLedger, IdempotencyConfig, LedgerScope};
use wink::limits::CancelToken;
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::serde_json::json;
use wink::session::Ending;
use wink::store::{MemoryStore, Store};
use wink::tool::Isolation;

/// Far more than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// What handlers and tests tell each other.
#[derive(Default)]
struct Signals {
    /// Calls that are in the handler of a serial tool.
    inside: AtomicUsize,
    most_inside: AtomicUsize,
    began: Notify,
    other_began: Notify,
    other_ended: Notify,
    effects: AtomicUsize,
    /// What an abandoned handler waits for.
    stuck: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
}

/// Counts on in a file.
#[tool]
async fn count(cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let signals = cx.resource::<Signals>().await?;
    let now = signals.inside.fetch_add(1, SeqCst) + 1;
    signals.most_inside.fetch_max(now, SeqCst);
    let files = cx.filesystem().await?;
    let read = files.read_text("counter").await?;
    signals.began.notify_one();
    tokio::task::yield_now().await;
    let next = read.trim().parse::<u64>().unwrap() + 1;
    files.write_text("counter", &format!("{next}\n")).await?;
    signals.inside.fetch_sub(1, SeqCst);
    Ok(ToolResult::done("counted"))
}

/// The same, without the turn; it tells when it has read.
#[tool]
async fn count_beside(cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let signals = cx.resource::<Signals>().await?;
    let files = cx.filesystem().await?;
    let read = files.read_text("counter").await?;
    let next = read.trim().parse::<u64>().unwrap() + 1;
    files.write_text("counter", &format!("{next}\n")).await?;
    signals.other_began.notify_one();
    Ok(ToolResult::done("counted"))
}

/// Has an effect outside, and writes a file that another session writes meanwhile, if it can.
#[tool]
async fn charge(key: String, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let signals = cx.resource::<Signals>().await?;
    signals.effects.fetch_add(1, SeqCst);
    let files = cx.filesystem().await?;
    let read = files.read_text("counter").await?;
    signals.began.notify_one();
    if key == "met" {
        signals.other_began.notified().await;
        // Without the turn the other call would commit within this time; with it, it cannot.
        #[expect(clippy::disallowed_methods, reason = "the test passes however long this takes")]
        let _ = tokio::time::timeout(Duration::from_millis(300), signals.other_ended.notified()).await;
    }
    files.write_text("counter", &format!("{read}{key}\n")).await?;
    Ok(ToolResult::ok(key, "charged"))
}

/// Ends as it is told.
#[tool]
async fn ends(how: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let signals = cx.resource::<Signals>().await?;
    cx.filesystem().await?.write_text("ends", &how).await?;
    signals.began.notify_one();
    match how.as_str() {
        "fail" => Ok(ToolResult::error("no")),
        "error" => Err(ToolError::new("no")),
        "panic" => panic!("no"),
        "hang" => pending().await,
        _ => Ok(ToolResult::done("done")),
    }
}

/// Keeps its thread.
#[tool]
fn sticks(cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let runtime = tokio::runtime::Handle::current();
    let signals = runtime.block_on(cx.resource::<Signals>())?;
    let stuck = signals.stuck.lock().unwrap().take();
    signals.began.notify_one();
    if let Some(stuck) = stuck {
        let _ = stuck.recv();
    }
    Ok(ToolResult::done("done"))
}

struct Place {
    dir: TempDir,
    signals: Arc<Signals>,
    store: Arc<dyn Store>,
}

impl Place {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("counter"), "0\n").unwrap();
        Self { dir, signals: Arc::default(), store: Arc::new(MemoryStore::new()) }
    }

    /// The workspace, as another process opens it.
    fn open(&self) -> Arc<HostFilesystem> {
        Arc::new(HostFilesystem::open(self.dir.path(), HostOptions::default()).unwrap())
    }

    fn resources(&self) -> ResourceRegistry {
        let files: Arc<dyn Filesystem> = self.open();
        ResourceRegistry::of((Binding::filesystem(files), Binding::instance(Arc::clone(&self.signals))))
            .unwrap()
    }

    fn prompt(timeout: Duration) -> Prompt {
        let once = IdempotencyConfig::auto().scope(LedgerScope::Global);
        let section = Section::markdown("work", "Work")
            .body("Work.")
            .tool(count_tool().isolation(Isolation::Serial).timeout(timeout))
            .tool(count_beside_tool())
            .tool(charge_tool().idempotency(once).timeout(timeout))
            .tool(ends_tool().isolation(Isolation::Serial).timeout(timeout))
            .tool(sticks_tool().isolation(Isolation::Serial).timeout(timeout));
        PromptTemplate::builder("tests", "turns").section(section).build().unwrap().prompt()
    }

    /// A session of its own, in a process of its own as far as files go.
    async fn session(&self, id: &str, timeout: Duration) -> Executor {
        let session = Session::builder().store(Arc::clone(&self.store)).id(id).open().await.unwrap();
        let prompt = Self::prompt(timeout);
        Executor::builder(&prompt, &session).resources(self.resources()).open().await.unwrap()
    }

    fn counter(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("counter")).unwrap()
    }

    /// Whether the turn can be had at once, as far as that goes.
    async fn is_free(&self) -> bool {
        let fork = self.open().fork().unwrap();
        fork.write_turn(Some(LONG)).await.unwrap().is_some()
    }
}

fn call(tool: &str, arguments: &wink::serde_json::Value) -> ToolCall {
    ToolCall::new("1", tool, arguments.to_string())
}

fn spawn(
    executor: &Arc<Executor>,
    tool: &'static str,
    arguments: wink::serde_json::Value,
) -> tokio::task::JoinHandle<Outcome> {
    let executor = Arc::clone(executor);
    tokio::spawn(async move { executor.call(call(tool, &arguments)).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn serial_calls_of_many_sessions_never_meet_a_conflict() {
    let place = Place::new();
    let mut running = Vec::new();
    for session in 0..4 {
        let executor = place.session(&format!("s{session}"), LONG).await;
        running.push(tokio::spawn(async move {
            for _ in 0..5 {
                let outcome = executor.call(call("count", &json!({}))).await;
                assert!(outcome.answer.success, "{}", outcome.answer.text);
            }
        }));
    }
    for session in running {
        session.await.unwrap();
    }
    assert_eq!(place.counter(), "20\n");
    assert_eq!(place.signals.most_inside.load(SeqCst), 1, "two serial calls were running at a time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_with_a_key_has_its_effect_and_no_conflict() {
    let place = Place::new();
    let (ours, theirs) =
        (Arc::new(place.session("ours", LONG).await), Arc::new(place.session("theirs", LONG).await));
    let charging = spawn(&ours, "charge", json!({ "key": "met" }));
    place.signals.began.notified().await;
    let signals = Arc::clone(&place.signals);
    let beside = tokio::spawn(async move {
        let outcome = theirs.call(call("count_beside", &json!({}))).await;
        signals.other_ended.notify_one();
        outcome
    });
    let charged = charging.await.unwrap();
    assert!(charged.answer.success, "{}", charged.answer.text);
    assert!(!beside.await.unwrap().answer.success, "it had read what the other one changed");
    assert_eq!(place.counter(), "0\nmet\n");
    let ledger = EffectLedger::new(Arc::clone(&place.store), Arc::clone(ours.session().clock()));
    assert_eq!(ledger.in_doubt().await.unwrap(), []);
}

#[tokio::test]
async fn a_replay_takes_no_turn() {
    let place = Place::new();
    let executor = place.session("ours", Duration::from_secs(1)).await;
    let charge = call("charge", &json!({ "key": "a" }));
    assert!(executor.call(charge.clone()).await.answer.success);
    let fork = place.open().fork().unwrap();
    let _turn = fork.write_turn(None).await.unwrap().unwrap();
    let again = executor.call(charge).await;
    assert!(again.answer.success && again.event.replayed, "{}", again.answer.text);
    assert_eq!(place.signals.effects.load(SeqCst), 1);
    // One that is not replayed waits for it, as long as its tool may take, and was never run.
    let refused = executor.call(call("charge", &json!({ "key": "b" }))).await;
    assert_eq!(refused.event.ending, Ending::TimedOut, "{}", refused.answer.text);
    assert!(refused.answer.text.contains("write turn"), "{}", refused.answer.text);
    assert!(
        refused.answer.text.contains(&format!("process {}", std::process::id())),
        "{}",
        refused.answer.text
    );
    assert_eq!(place.signals.effects.load(SeqCst), 1);
    let ledger = EffectLedger::new(Arc::clone(&place.store), Arc::clone(executor.session().clock()));
    assert_eq!(ledger.in_doubt().await.unwrap(), []);
}

#[tokio::test]
async fn the_wait_for_the_turn_can_be_cancelled() {
    let place = Place::new();
    let executor = place.session("ours", LONG).await;
    let fork = place.open().fork().unwrap();
    let turn = fork.write_turn(None).await.unwrap().unwrap();
    let cancel = CancelToken::new();
    let waiting = executor.call_cancellable(call("count", &json!({})), cancel.clone());
    let (outcome, ()) = tokio::join!(waiting, async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_eq!(outcome.event.ending, Ending::Cancelled, "{}", outcome.answer.text);
    drop(turn);
    assert!(executor.call(call("count", &json!({}))).await.answer.success);
    assert_eq!(place.counter(), "1\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_turn_is_given_back_however_the_call_ends() {
    for how in ["succeed", "fail", "error", "panic", "hang"] {
        let place = Place::new();
        let executor = place.session("ours", Duration::from_millis(200)).await;
        let outcome = executor.call(call("ends", &json!({ "how": how }))).await;
        assert_eq!(outcome.answer.success, how == "succeed", "{how}: {}", outcome.answer.text);
        assert!(place.is_free().await, "{how}");
    }
    // Cancelled, and dropped.
    let place = Place::new();
    let executor = Arc::new(place.session("ours", LONG).await);
    let cancel = CancelToken::new();
    let (outcome, ()) = tokio::join!(
        executor.call_cancellable(call("ends", &json!({ "how": "hang" })), cancel.clone()),
        async {
            place.signals.began.notified().await;
            cancel.cancel();
        }
    );
    assert_eq!(outcome.event.ending, Ending::Cancelled);
    assert!(place.is_free().await, "cancelled");
    let hanging = spawn(&executor, "ends", json!({ "how": "hang" }));
    place.signals.began.notified().await;
    hanging.abort();
    assert!(place.is_free().await, "dropped");
    // A handler that does not stop has its thread, and no turn.
    let place = Place::new();
    let executor = place.session("ours", Duration::from_millis(200)).await;
    let (_hold, stuck) = std::sync::mpsc::channel();
    *place.signals.stuck.lock().unwrap() = Some(stuck);
    let outcome = executor.call(call("sticks", &json!({}))).await;
    assert_eq!(outcome.event.ending, Ending::TimedOut, "{}", outcome.answer.text);
    assert!(place.is_free().await, "abandoned");
}

/// The tree is whole while a call has the turn, so that other processes need not wait to open the workspace.
#[tokio::test]
async fn a_workspace_is_opened_and_read_while_a_call_has_the_turn() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("f"), "before").unwrap();
    let options = || HostOptions { lock_timeout: Duration::from_millis(50), ..HostOptions::default() };
    let holder = HostFilesystem::open(dir.path(), options()).unwrap();
    let fork = holder.fork().unwrap();
    let turn = fork.write_turn(None).await.unwrap().expect("the turn is free");
    fork.enter_turn(&turn);

    let other = HostFilesystem::open(dir.path(), options()).unwrap();
    assert_eq!(other.recovered(), Some(&Default::default()));
    assert_eq!(other.read_text("f").await.unwrap(), "before");
    // To change it, the other process needs the lock.
    let error = other.write_text("f", "other").await.unwrap_err();
    assert!(error.to_string().contains("(a call that runs alone); gave up"), "{error}");

    // From the merge to its end the tree is half-done, and opening waits.
    fork.write_text("f", "after").await.unwrap();
    let receipt = holder.merge(&*fork).unwrap();
    let error = HostFilesystem::open(dir.path(), options()).unwrap_err();
    assert!(error.to_string().contains("is held by process"), "{error}");
    holder.keep(receipt);
    drop(turn);
    other.write_text("f", "other").await.unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("f")).unwrap(), "other");
}

/// Sessions that share their resources, as those of one server do, with calls of every kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_of_one_process_do_not_wait_for_each_other_without_end() {
    let place = Place::new();
    let prompt = Place::prompt(LONG);
    let resources = place.resources().open().await.unwrap();
    let mut running = Vec::new();
    for number in 0..4 {
        let session =
            Session::builder().store(Arc::clone(&place.store)).id(format!("s{number}")).open().await.unwrap();
        let executor = Executor::builder(&prompt, &session).opened(resources.clone()).open().await.unwrap();
        running.push(tokio::spawn(async move {
            for round in 0..6 {
                let (tool, arguments) = match (number + round) % 3 {
                    0 => ("count", json!({})),
                    1 => ("ends", json!({ "how": "succeed" })),
                    // The same key in every session.
                    _ => ("count_beside", json!({})),
                };
                let _ = executor.call(call(tool, &arguments)).await;
                let key = format!("k{round}");
                let charged = executor.call(call("charge", &json!({ "key": key }))).await;
                assert!(charged.answer.success, "{}", charged.answer.text);
            }
        }));
    }
    for session in running {
        session.await.unwrap();
    }
    assert_eq!(place.signals.effects.load(SeqCst), 6, "one effect for each key");
}
