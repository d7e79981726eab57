//! One session, one ledger, several real processes: nothing is lost, nothing happens twice, and whoever is killed leaves
//! what can be told from what cannot.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is broken by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use wink::executor::{Executor, Outcome, ToolCall};
use wink::ledger::{EffectLedger, IdempotencyConfig, LedgerScope, Settlement};
use wink::limits::{CancelToken, Clock, SystemClock};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::session::{Ending, ToolInvoked};
use wink::store::{LedgerState, Rows, Store};
use wink::testing::steps;
use wink_store::{SqliteStore, StoreOptions};

const JOB: &str = "WINK_TEST_STORE_JOB";

/// What a child process does.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Job {
    place: PathBuf,
    number: u32,
    kind: JobKind,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum JobKind {
    /// This many calls of each kind, and as many dispatches from outside.
    Hammer(u32),
    /// A payment whose handler never ends.
    Hang,
    /// A payment during which the process dies when a step is reached for the nth time.
    DieAt(String, usize),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Counter(u32);
impl SliceType for Counter {
    const NAME: &'static str = "counter";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note(String);
impl SliceType for Note {
    const NAME: &'static str = "note";
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Count {}

/// Reads and writes: two at a time would lose one.
async fn count(_: Count, cx: &mut ToolContext) -> Result<ToolResult<u32>, ToolError> {
    let now = cx.session().slice::<Counter>()?.latest().map_or(0, |counter| counter.0);
    cx.session().seed([Counter(now + 1)])?;
    Ok(ToolResult::ok(now + 1, "counted"))
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Pay {
    what: u32,
}

/// The outside world: a line for each payment.
struct Bank {
    file: PathBuf,
    hangs: bool,
}

impl Bank {
    fn payments(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

async fn pay(params: Pay, cx: &mut ToolContext) -> Result<ToolResult<u32>, ToolError> {
    let bank = cx.resource::<Bank>().await?;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&bank.file)?;
    file.write_all(format!("{}\n", params.what).as_bytes())?;
    if bank.hangs {
        println!("hanging");
        std::future::pending::<()>().await;
    }
    Ok(ToolResult::ok(params.what, "paid"))
}

fn pay_call(what: u32) -> ToolCall {
    ToolCall::new("p", "pay", json!({ "what": what }).to_string())
}

struct Process {
    store: Arc<SqliteStore>,
    bank: Arc<Bank>,
    session: Session,
    executor: Executor,
}

impl Process {
    async fn start(place: &Path, session: &str, hangs: bool) -> Self {
        let store = Arc::new(SqliteStore::open(place, StoreOptions::default()).unwrap());
        let bank = Arc::new(Bank { file: place.join("payments"), hangs });
        let config = IdempotencyConfig::auto().scope(LedgerScope::Global);
        let section = Section::tools("bank", "Bank")
            .tool(Tool::new("pay", "Pay.", pay).idempotency(config))
            .tool(Tool::new("count", "Count.", count));
        let prompt = PromptTemplate::builder("tests", "store").section(section).build().unwrap().prompt();
        let session = Session::builder().id(session).store(Arc::clone(&store) as _).open().await.unwrap();
        session.know::<Counter>().unwrap();
        session.know::<Note>().unwrap();
        let resources = ResourceRegistry::of((Binding::instance(Arc::clone(&bank)),)).unwrap();
        let executor = Executor::builder(&prompt, &session).resources(resources).open().await.unwrap();
        Self { store, bank, session, executor }
    }

    async fn pay(&self, what: u32) -> Outcome {
        self.executor.call(pay_call(what)).await
    }

    async fn count(&self) -> Outcome {
        self.executor.call(ToolCall::new("c", "count", "{}".to_owned())).await
    }

    fn ledger(&self) -> EffectLedger {
        EffectLedger::new(Arc::clone(&self.store) as _, Arc::new(SystemClock))
    }

    fn endings(&self, tool: &str) -> Vec<Ending> {
        let calls = self.session.slice::<ToolInvoked>();
        calls.iter().filter(|event| &*event.tool == tool).map(|event| event.ending).collect()
    }
}

async fn work(job: Job) {
    match job.kind {
        JobKind::Hammer(calls) => {
            let process = Process::start(&job.place, "s", false).await;
            for call in 0..calls {
                let counted = process.count().await;
                assert!(counted.is_success(), "{}", counted.text());
                assert!(process.session.dispatch(Note(format!("{} {call}", job.number))).is_ok());
                let paid = process.pay(call).await;
                assert!(paid.is_success(), "{}", paid.text());
                if call % 3 == 0 {
                    process.session.flush().await.unwrap();
                }
            }
            process.session.flush().await.unwrap();
        }
        JobKind::Hang => {
            let process = Process::start(&job.place, "s", true).await;
            let _ = process.pay(1000).await;
        }
        JobKind::DieAt(step, nth) => {
            let process = Process::start(&job.place, "s", false).await;
            let reached = AtomicUsize::new(0);
            steps::on_every_step(move |now| {
                if now == step && reached.fetch_add(1, Ordering::SeqCst) + 1 == nth {
                    std::process::abort();
                }
            });
            assert!(process.pay(1).await.is_success());
        }
    }
}

/// Not a test by itself: this is what the child processes of the others run.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(serde_json::from_str(&job).unwrap()));
}

fn start(place: &Path, number: u32, kind: JobKind) -> Child {
    start_by(Command::new(std::env::current_exe().unwrap()), place, number, kind)
}

fn start_by(mut command: Command, place: &Path, number: u32, kind: JobKind) -> Child {
    let job = Job { place: place.to_owned(), number, kind };
    command
        .args(["processes::child", "--exact", "--nocapture"])
        .env(JOB, serde_json::to_string(&job).unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until the child has said that it hangs.
fn until_it_hangs(child: &mut Child) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("hanging")), "the child ended before");
}

// cases 226, 235
#[tokio::test]
async fn nothing_is_lost_and_nothing_happens_twice() {
    const PROCESSES: u32 = 4;
    const CALLS: u32 = 12;
    let place = tempfile::tempdir().unwrap();
    let children: Vec<Child> =
        (0..PROCESSES).map(|number| start(place.path(), number, JobKind::Hammer(CALLS))).collect();
    for child in children {
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }
    let process = Process::start(place.path(), "s", false).await;
    let all = (PROCESSES * CALLS) as usize;
    assert_eq!(process.session.slice::<Counter>().all(), [Arc::new(Counter(PROCESSES * CALLS))]);
    assert_eq!(process.endings("count"), vec![Ending::Succeeded; all]);
    assert_eq!(process.endings("pay"), vec![Ending::Succeeded; all]);
    let events = process.session.slice::<ToolInvoked>();
    let ids: BTreeSet<_> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids.len(), all * 2, "one event for each call");
    let replayed = events.iter().filter(|event| event.replayed).count();
    assert_eq!(replayed, all - CALLS as usize, "the others were told what came of it");
    assert_eq!(process.session.total_calls(), all as u64 * 2);

    let mut paid = process.bank.payments();
    paid.sort_unstable();
    assert_eq!(paid, (0..CALLS).collect::<Vec<_>>(), "each payment once");
    let rows = process.store.rows(Rows::All).await.unwrap();
    assert!(rows.iter().all(|row| matches!(row.state, LedgerState::Recorded { .. })));
    assert_eq!(rows.len(), CALLS as usize);

    let mut notes: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for note in process.session.slice::<Note>().iter() {
        let (number, call) = note.0.split_once(' ').unwrap();
        notes.entry(number.to_owned()).or_default().push(call.parse().unwrap());
    }
    let each: Vec<u32> = (0..CALLS).collect();
    let expected = (0..PROCESSES).map(|number| (number.to_string(), each.clone())).collect();
    assert_eq!(notes, expected, "each from outside once, and in the order of its process");
    assert!(process.store.check().await.unwrap().is_sound());
}

/// It is still waiting after a while.
async fn waits<T>(work: impl Future<Output = T>) {
    let until = SystemClock.monotonic() + std::time::Duration::from_millis(50);
    tokio::select! {
        biased;
        _ = work => panic!("it did not wait"),
        () = SystemClock.sleep_until(until) => {}
    }
}

// cases 227, 238
#[tokio::test]
async fn whoever_is_killed_leaves_a_doubt_and_others_go_on() {
    let place = tempfile::tempdir().unwrap();
    let mut child = start(place.path(), 0, JobKind::Hang);
    until_it_hangs(&mut child);
    let (other, same) =
        (Process::start(place.path(), "other", false).await, Process::start(place.path(), "s", false).await);
    assert_eq!(same.endings("pay"), [], "a call that runs in another process is not unfinished");
    assert_eq!(same.ledger().in_doubt().await.unwrap(), [], "nor is its effect in doubt");
    let mut paying = Box::pin(other.pay(1000));
    let mut counting = Box::pin(same.count());
    waits(&mut paying).await;
    waits(&mut counting).await;
    // Nobody has to wait for longer than he wants to.
    let cancel = CancelToken::new();
    let third = Process::start(place.path(), "third", false).await;
    let mut third = Box::pin(third.executor.call_cancellable(pay_call(1000), cancel.clone()));
    waits(&mut third).await;
    cancel.cancel();
    assert_eq!(third.await.event.ending, Ending::Cancelled);

    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    let paid = paying.await;
    assert_eq!(paid.event.ending, Ending::InDoubt, "{}", paid.text());
    assert!(paid.text().contains("interrupted"), "{}", paid.text());
    assert!(counting.await.is_success());
    assert_eq!(same.endings("pay"), [Ending::Interrupted], "its call has its event");
    assert_eq!(Process::start(place.path(), "s", false).await.endings("pay"), [Ending::Interrupted], "once");
    let doubts = same.ledger().in_doubt().await.unwrap();
    assert_eq!(doubts.len(), 1);
    let settled = Settlement::Happened {
        message: "paid".into(),
        value: Some(json!(1000)),
        exclude_value_from_context: false,
    };
    assert!(same.ledger().settle(&doubts[0].key, settled).await.unwrap());
    let again = other.pay(1000).await;
    assert_eq!((again.value(), again.event.replayed), (Some(1000u32), true));
    assert_eq!(other.bank.payments(), [1000]);
}

// cases 238, 259
#[tokio::test]
async fn wherever_a_process_dies_nothing_is_paid_twice() {
    let mut seen = BTreeMap::new();
    for step in steps::ALL.iter().filter(|step| step.starts_with("store.")) {
        for nth in 1.. {
            let place = tempfile::tempdir().unwrap();
            let died =
                start(place.path(), 0, JobKind::DieAt((*step).to_owned(), nth)).wait_with_output().unwrap();
            if died.status.success() {
                assert!(nth > 1, "{step} is never reached");
                break;
            }
            let process = Process::start(place.path(), "s", false).await;
            let before = process.endings("pay");
            let paid = process.bank.payments().len();
            let outcome = process.pay(1).await;
            let standing = match outcome.event.ending {
                Ending::InDoubt => "in doubt",
                Ending::Succeeded if outcome.event.replayed => "replayed",
                Ending::Succeeded => "run",
                other => panic!("{step}: {other:?} {}", outcome.text()),
            };
            match standing {
                "run" => assert_eq!((before, paid), (vec![Ending::Interrupted], 0), "{step}"),
                "replayed" => assert_eq!((before, paid), (vec![Ending::Succeeded], 1), "{step}"),
                _ => assert_eq!(before, [Ending::Interrupted], "{step}"),
            }
            assert!(process.bank.payments().len() <= 1, "{step}");
            let again = Process::start(place.path(), "s", false).await;
            assert_eq!(again.endings("pay").len(), 2, "{step}: one event for each call");
            seen.insert(*step, standing);
        }
    }
    let expected = [
        ("store.before-commit", "in doubt"),
        ("store.begin-written", "run"),
        ("store.claim-written", "run"),
        ("store.committed", "replayed"),
        ("store.start-written", "in doubt"),
    ];
    assert_eq!(seen, BTreeMap::from(expected));
}

/// A mark of a start that is missing says nothing about another boot, nor about one whose id cannot be read: the process that
/// claims sees another id than this one does.
// case 259
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_claim_of_another_boot_is_in_doubt() {
    let other = "11111111-2222-4333-8444-555555555555\n";
    for (boot, standing) in [(None, "run"), (Some(other), "in doubt"), (Some(""), "in doubt")] {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("boot");
        let kind = JobKind::DieAt("store.claim-written".to_owned(), 1);
        let died = match boot {
            None => start(place.path(), 0, kind),
            Some(boot) => {
                std::fs::write(&file, boot).unwrap();
                let mut command = Command::new("unshare");
                if !rustix::process::geteuid().is_root() {
                    command.args(["--user", "--map-root-user"]);
                }
                let script = r#"mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@""#;
                command
                    .args(["--mount", "sh", "-c", script])
                    .arg(&file)
                    .arg(std::env::current_exe().unwrap());
                start_by(command, place.path(), 0, kind)
            }
        };
        let died = died.wait_with_output().unwrap();
        if std::os::unix::process::ExitStatusExt::signal(&died.status).is_none() {
            return wink::testing::leave_out(
                "the claim of another boot",
                "no mount namespace can be made here",
            );
        }
        let process = Process::start(place.path(), "s", false).await;
        let outcome = process.pay(1).await;
        let came = if outcome.event.ending == Ending::InDoubt { "in doubt" } else { "run" };
        assert_eq!((came, process.bank.payments().len()), (standing, usize::from(standing == "run")));
    }
}
