//! Promise: exactly once, when the process really dies: a child process is killed at every write to its journal, before,
//! within and after it, and inside its handler, and the next process finds out what may be done.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde_json::json;
use wink::BoxFuture;
use wink::executor::{Executor, Outcome, ToolCall};
use wink::ledger::{EffectLedger, IdempotencyConfig, Settlement};
use wink::limits::SystemClock;
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::session::{Ending, InvocationId, SessionId, ToolInvoked};
use wink::store::{
    Batch, CallMark, Claimed, Durability, LedgerChange, LedgerRow, Rows, Store, StoreError, StoredSession,
};
use wink::testing::ByteStore;

/// Where the child dies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Death {
    /// Before this write, counted from 1.
    Before(usize),
    /// When half of it is written.
    Within(usize),
    /// After it.
    After(usize),
    /// In the handler, before its effect.
    BeforeTheEffect,
    /// In the handler, after its effect.
    AfterTheEffect,
}

const DIRECTORY: &str = "WINK_TEST_CRASH_DIRECTORY";
const DEATH: &str = "WINK_TEST_CRASH_AT";

/// A journal on disk: every entry is there before the operation is done.
struct DiskStore {
    bytes: ByteStore,
    file: PathBuf,
    written: Mutex<usize>,
    writes: AtomicUsize,
    death: Option<Death>,
}

impl DiskStore {
    fn open(directory: &Path, death: Option<Death>) -> Self {
        let file = directory.join("journal");
        let journal = std::fs::read(&file).unwrap_or_default();
        let bytes = ByteStore::from_bytes(&journal).unwrap();
        // A torn entry was never there.
        let whole = bytes.bytes();
        std::fs::write(&file, &whole).unwrap();
        Self { bytes, file, written: Mutex::new(whole.len()), writes: AtomicUsize::new(0), death }
    }

    fn flush(&self) {
        let mut written = self.written.lock().unwrap();
        let journal = self.bytes.bytes();
        let new = &journal[*written..];
        if new.is_empty() {
            return;
        }
        let write = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        let mut file = std::fs::OpenOptions::new().append(true).open(&self.file).unwrap();
        if self.death == Some(Death::Before(write)) {
            std::process::abort();
        }
        if self.death == Some(Death::Within(write)) {
            file.write_all(&new[..new.len() / 2]).unwrap();
            std::process::abort();
        }
        file.write_all(new).unwrap();
        if self.death == Some(Death::After(write)) {
            std::process::abort();
        }
        *written = journal.len();
    }
}

macro_rules! kept {
    ($self:ident, $operation:expr) => {
        Box::pin(async move {
            let done = $operation.await;
            $self.flush();
            done
        })
    };
}

impl Store for DiskStore {
    fn durability(&self) -> Durability {
        self.bytes.durability()
    }
    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        self.bytes.load(session)
    }
    fn begin<'a>(&'a self, session: &'a SessionId, mark: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        kept!(self, self.bytes.begin(session, mark))
    }
    fn start<'a>(&'a self, call: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
        kept!(self, self.bytes.start(call))
    }
    fn commit<'a>(&'a self, session: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        kept!(self, self.bytes.commit(session, batch))
    }
    fn claim<'a>(&'a self, row: LedgerRow, now: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        kept!(self, self.bytes.claim(row, now))
    }
    fn replace<'a>(&'a self, change: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>> {
        kept!(self, self.bytes.replace(change))
    }
    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        self.bytes.rows(which)
    }
    fn remove<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        kept!(self, self.bytes.remove(which))
    }
}

/// The world outside: a file with a line for every payment.
struct Bank {
    file: PathBuf,
    death: Option<Death>,
}

impl Bank {
    fn in_directory(directory: &Path, death: Option<Death>) -> Self {
        Self { file: directory.join("payments"), death }
    }

    fn payments(&self) -> usize {
        std::fs::read_to_string(&self.file).unwrap_or_default().lines().count()
    }

    fn pay(&self, cents: u32) -> usize {
        if self.death == Some(Death::BeforeTheEffect) {
            std::process::abort();
        }
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.file).unwrap();
        writeln!(file, "{cents}").unwrap();
        if self.death == Some(Death::AfterTheEffect) {
            std::process::abort();
        }
        self.payments()
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Pay {
    cents: u32,
}

async fn pay(params: Pay, cx: &mut ToolContext) -> Result<ToolResult<usize>, ToolError> {
    let number = cx.resource::<Bank>().await?.pay(params.cents);
    Ok(ToolResult::ok(number, "paid"))
}

/// One process: what it finds, and a call.
struct Process {
    store: Arc<DiskStore>,
    bank: Arc<Bank>,
    session: Session,
    executor: Executor,
}

impl Process {
    async fn start(directory: &Path, death: Option<Death>) -> Self {
        let store = Arc::new(DiskStore::open(directory, death));
        let bank = Arc::new(Bank::in_directory(directory, death));
        let tool = Tool::new("pay", "Pay.", pay).idempotency(IdempotencyConfig::auto());
        let section = Section::tools("bank", "Bank").tool(tool);
        let prompt = PromptTemplate::builder("tests", "crash").section(section).build().unwrap().prompt();
        let session = Session::builder().id("s").store(Arc::clone(&store) as _).open().await.unwrap();
        let resources = ResourceRegistry::of((Binding::instance(Arc::clone(&bank)),)).unwrap();
        let executor = Executor::builder(&prompt, &session).resources(resources).open().await.unwrap();
        Self { store, bank, session, executor }
    }

    async fn pay(&self) -> Outcome {
        self.executor.call(ToolCall::new("1", "pay", json!({ "cents": 100 }).to_string())).await
    }

    fn endings(&self) -> Vec<Ending> {
        self.session.slice::<ToolInvoked>().iter().map(|event| event.ending).collect()
    }

    fn ledger(&self) -> EffectLedger {
        EffectLedger::new(Arc::clone(&self.store) as _, Arc::new(SystemClock))
    }
}

/// Not a test by itself: this is what the child processes of the others run.
#[test]
fn child() {
    let (Ok(directory), Ok(death)) = (std::env::var(DIRECTORY), std::env::var(DEATH)) else { return };
    let death = serde_json::from_str(&death).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let process = Process::start(Path::new(&directory), Some(death)).await;
        assert!(process.pay().await.is_success());
    });
}

/// Runs a process that dies there; false when it came to its end before.
fn dies(directory: &Path, death: Death) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["exactly_once_crash::child", "--exact"])
        .env(DIRECTORY, directory)
        .env(DEATH, serde_json::to_string(&death).unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    !status.success()
}

fn empty_directory(death: Death) -> PathBuf {
    let name = format!("wink-crash-{}-{death:?}", std::process::id());
    let directory = std::env::temp_dir().join(name.replace(['(', ')'], "-"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

// case 238
#[tokio::test]
async fn a_process_that_dies_in_its_handler_leaves_the_key_in_doubt() {
    for (death, paid) in [(Death::BeforeTheEffect, 0), (Death::AfterTheEffect, 1)] {
        let directory = empty_directory(death);
        assert!(dies(&directory, death));
        for restart in 1..3 {
            let process = Process::start(&directory, None).await;
            let before: Vec<Ending> = std::iter::once(Ending::Interrupted)
                .chain(std::iter::repeat_n(Ending::InDoubt, restart - 1))
                .collect();
            assert_eq!(process.endings(), before, "the call that died has its event");
            let outcome = process.pay().await;
            assert_eq!(outcome.event.ending, Ending::InDoubt, "{}", outcome.text());
            assert!(outcome.text().contains("interrupted"), "{}", outcome.text());
            assert_eq!(process.bank.payments(), paid);
        }
        // Somebody looks into the books.
        let process = Process::start(&directory, None).await;
        let doubts = process.ledger().in_doubt().await.unwrap();
        assert_eq!(doubts.len(), 1);
        let found = match paid {
            0 => Settlement::DidNotHappen,
            _ => Settlement::Happened {
                message: "paid".into(),
                value: Some(json!(1)),
                exclude_value_from_context: false,
            },
        };
        assert!(process.ledger().settle(&doubts[0].key, found).await.unwrap());
        let outcome = Process::start(&directory, None).await.pay().await;
        assert_eq!((outcome.value(), process.bank.payments()), (Some(1usize), 1), "{}", outcome.text());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

// cases 238, 259
#[tokio::test]
async fn whenever_a_process_dies_nothing_is_paid_twice() {
    let (mut deaths, mut doubts) = (0, Vec::new());
    let mut seen = Vec::new();
    for write in 1.. {
        let mut died = false;
        for death in [Death::Before(write), Death::Within(write), Death::After(write)] {
            let directory = empty_directory(death);
            let died_here = dies(&directory, death);
            died |= died_here;
            deaths += usize::from(died_here);
            let process = Process::start(&directory, None).await;
            let paid = process.bank.payments();
            let outcome = process.pay().await;
            let standing = match outcome.event.ending {
                Ending::InDoubt => "in doubt",
                Ending::Succeeded if outcome.event.replayed => "replayed",
                Ending::Succeeded => "run",
                other => panic!("{death:?}: {other:?} {}", outcome.text()),
            };
            match standing {
                "run" => assert_eq!(paid, 0, "{death:?}"),
                "replayed" => assert_eq!(paid, 1, "{death:?}"),
                _ => assert!(paid <= 1, "{death:?}"),
            }
            assert!(process.bank.payments() <= 1, "{death:?}");
            let again = Process::start(&directory, None).await.pay().await;
            assert_eq!(again.is_success(), standing != "in doubt", "{death:?}");
            assert_eq!(
                (process.bank.payments(), again.event.replayed),
                match standing {
                    "in doubt" => (paid, false),
                    _ => (1, true),
                }
            );
            if !seen.contains(&standing) {
                seen.push(standing);
            }
            if standing == "in doubt" {
                doubts.push(death);
            }
            std::fs::remove_dir_all(&directory).unwrap();
        }
        if !died {
            break;
        }
    }
    assert_eq!(deaths, 12, "begin, claim, start and commit are written, each in three ways");
    assert_eq!(seen, ["run", "in doubt", "replayed"]);
    assert_eq!(doubts, [Death::After(3), Death::Before(4), Death::Within(4)], "from the start to the commit");
}
