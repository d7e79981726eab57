//! Promise: exactly once, when several want the same key: through several handles of a store, cancelled at any moment,
//! with a store that fails half-way, with others who settle, forget and look up meanwhile.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use wink::BoxFuture;
use wink::executor::{Executor, Outcome, ToolCall};
use wink::ledger::{
    EffectLedger, IdempotencyConfig, InDoubt, LedgerScope, Probed, Settlement, ToolEffect, WhenInDoubt,
};
use wink::limits::{CancelToken, Clock};
use wink::prelude::*;
use wink::resource::{Binding, BoxError, ResourceRegistry};
use wink::session::{Ending, InvocationId, SessionId};
use wink::store::{
    Batch, CallMark, Claimed, Durability, LedgerChange, LedgerRow, LedgerState, MemoryStore, Rows,
    SharedStore, Store, StoreError, StoredSession,
};
use wink::testing::{ByteStore, FakeClock, FaultyStore, StoreOp};

/// How the handler ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum End {
    Well,
    /// Well, once it is let.
    Later,
    Refuse,
    Panic,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Buy {
    what: String,
    end: End,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Bought {
    number: usize,
}
impl SliceType for Bought {
    const NAME: &'static str = "bought";
}

/// The outside world.
struct Market {
    runs: AtomicUsize,
    entered: Semaphore,
    go: Semaphore,
}

async fn buy(params: Buy, cx: &mut ToolContext) -> Result<ToolResult<Bought>, ToolError> {
    let market = cx.resource::<Market>().await?;
    let number = market.runs.fetch_add(1, Ordering::SeqCst) + 1;
    market.entered.add_permits(1);
    match params.end {
        End::Well => {}
        End::Later => market.go.acquire().await?.forget(),
        End::Refuse => return Ok(ToolResult::error("sold out")),
        End::Panic => panic!("oops"),
    }
    tokio::task::yield_now().await;
    Ok(ToolResult::ok(Bought { number }, "bought").exclude_value_from_context())
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Memory,
    Bytes,
}

const KINDS: [Kind; 2] = [Kind::Memory, Kind::Bytes];
const TTL: Duration = Duration::from_secs(60);

struct Shop {
    inner: SharedStore,
    bytes: Option<Arc<ByteStore>>,
    store: Arc<FaultyStore>,
    clock: FakeClock,
    market: Arc<Market>,
    prompt: Prompt,
    executor: Executor,
    /// What the probe of `buy_probe` says next.
    probed: Arc<Mutex<Option<Probed>>>,
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

impl Shop {
    async fn new(kind: Kind) -> Self {
        let bytes = (kind == Kind::Bytes).then(|| Arc::new(ByteStore::new()));
        let inner: SharedStore = match &bytes {
            Some(bytes) => Arc::clone(bytes) as SharedStore,
            None => Arc::new(MemoryStore::new()),
        };
        Self::on(inner, bytes).await
    }

    async fn on(inner: SharedStore, bytes: Option<Arc<ByteStore>>) -> Self {
        let tool = |name: &str, scope: LedgerScope, doubt: WhenInDoubt| {
            let config = IdempotencyConfig::params(["what"]).scope(scope).ttl(Some(TTL)).when_in_doubt(doubt);
            Tool::new(name, "Buy.", buy).idempotency(config).publishes()
        };
        let probed = Arc::new(Mutex::new(None));
        let next = Arc::clone(&probed);
        let probe = move |_: String, _: Value| -> BoxFuture<'static, Result<Probed, BoxError>> {
            let answer = next.lock().unwrap().take().unwrap_or(Probed::Unknown);
            Box::pin(async move { Ok(answer) })
        };
        let section = Section::tools("shop", "Shop")
            .tool(tool("buy", LedgerScope::Global, WhenInDoubt::Fail))
            .tool(tool("buy_again", LedgerScope::Global, WhenInDoubt::RunAgain))
            .tool(tool("buy_probe", LedgerScope::Session, WhenInDoubt::Probe(Arc::new(probe))));
        let prompt = PromptTemplate::builder("tests", "shop").section(section).build().unwrap().prompt();
        let store = Arc::new(FaultyStore::new(Arc::clone(&inner)));
        let market =
            Arc::new(Market { runs: AtomicUsize::new(0), entered: Semaphore::new(0), go: Semaphore::new(0) });
        let clock = FakeClock::new(start());
        let executor =
            open(&prompt, &(Arc::clone(&store) as SharedStore), Arc::new(clock.clone()), &market, "s").await;
        Self { inner, bytes, store, clock, market, prompt, executor, probed }
    }

    /// A further handle of the same store, with a session of its own.
    async fn another(&self, session: &str) -> Executor {
        let handle: SharedStore = Arc::new(FaultyStore::new(Arc::clone(&self.inner)));
        open(&self.prompt, &handle, Arc::new(self.clock.clone()), &self.market, session).await
    }

    /// The next process.
    async fn reopen(&mut self) {
        let Some(bytes) = &self.bytes else { return };
        let bytes = Arc::new(bytes.reopen().unwrap());
        self.inner = Arc::clone(&bytes) as SharedStore;
        self.bytes = Some(bytes);
        self.store = Arc::new(FaultyStore::new(Arc::clone(&self.inner)));
        let store = Arc::clone(&self.store) as SharedStore;
        self.executor = open(&self.prompt, &store, Arc::new(self.clock.clone()), &self.market, "s").await;
    }

    fn runs(&self) -> usize {
        self.market.runs.load(Ordering::SeqCst)
    }

    async fn buy(&self, tool: &str, end: End) -> Outcome {
        self.executor.call(call(tool, end)).await
    }

    fn ledger(&self) -> EffectLedger {
        EffectLedger::new(Arc::clone(&self.inner), Arc::new(self.clock.clone()))
    }

    async fn doubts(&self) -> Vec<InDoubt> {
        self.ledger().in_doubt().await.unwrap()
    }

    async fn row(&self) -> LedgerRow {
        let mut rows = self.inner.rows(Rows::All).await.unwrap();
        assert_eq!(rows.len(), 1);
        rows.remove(0)
    }

    /// Leaves the key in doubt.
    async fn doubt(&self, tool: &str) -> InDoubt {
        assert_eq!(self.buy(tool, End::Panic).await.event.ending, Ending::Panicked);
        self.doubts().await.remove(0)
    }
}

fn call(tool: &str, end: End) -> ToolCall {
    ToolCall::new("1", tool, json!({ "what": "x", "end": end }).to_string())
}

async fn open(
    prompt: &Prompt,
    store: &SharedStore,
    clock: Arc<dyn Clock>,
    market: &Arc<Market>,
    session: &str,
) -> Executor {
    let session = Session::builder().id(session).store(Arc::clone(store)).clock(clock);
    let session = session.open().await.unwrap();
    let resources = ResourceRegistry::of((Binding::instance(Arc::clone(market)),)).unwrap();
    Executor::builder(prompt, &session).resources(resources).open().await.unwrap()
}

fn happened(number: usize) -> Settlement {
    Settlement::Happened {
        message: "found".into(),
        value: Some(json!({ "number": number })),
        exclude_value_from_context: true,
    }
}

/// Lets whatever is spawned go on.
async fn settle_down() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

// case 235
#[tokio::test]
async fn a_second_handle_of_the_store_waits_for_the_call_of_the_first() {
    for kind in KINDS {
        let shop = Shop::new(kind).await;
        let other = shop.another("other").await;
        let later = async {
            shop.market.entered.acquire().await.unwrap().forget();
            let mut second = pin!(other.call(call("buy", End::Well)));
            for _ in 0..50 {
                assert!(poll_once(second.as_mut()).is_pending(), "{kind:?}: it waits");
                tokio::task::yield_now().await;
            }
            shop.market.go.add_permits(1);
            second.await
        };
        let (first, second) = tokio::join!(shop.buy("buy", End::Later), later);
        assert_eq!((first.event.replayed, second.event.replayed), (false, true), "{}", second.text());
        assert_eq!((first.value(), second.value()), (Some(Bought { number: 1 }), Some(Bought { number: 1 })));
        assert_eq!(shop.runs(), 1, "{kind:?}");
    }
}

fn poll_once<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Buys from many threads at once, each with its own handle, runtime and session.
fn from_many_threads(shop: &Shop, tool: &str) -> Vec<Outcome> {
    const THREADS: usize = 64;
    let ready = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let ready = &ready;
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    runtime.block_on(async {
                        let executor = shop.another(&format!("session-{}", number % 48)).await;
                        ready.wait();
                        executor.call(call(tool, End::Well)).await
                    })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Its answers to claims take their time on the way.
struct Late {
    inner: SharedStore,
    answered: Semaphore,
    arrives: Semaphore,
}

impl Store for Late {
    fn durability(&self) -> Durability {
        self.inner.durability()
    }
    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        self.inner.load(session)
    }
    fn begin<'a>(&'a self, session: &'a SessionId, mark: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.begin(session, mark)
    }
    fn start<'a>(&'a self, call: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.start(call)
    }
    fn commit<'a>(&'a self, session: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.commit(session, batch)
    }
    fn claim<'a>(&'a self, row: LedgerRow, now: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        Box::pin(async move {
            let answer = self.inner.claim(row, now).await;
            self.answered.add_permits(1);
            self.arrives.acquire().await.unwrap().forget();
            answer
        })
    }
    fn replace<'a>(&'a self, change: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.inner.replace(change)
    }
    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        self.inner.rows(which)
    }
    fn remove<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        self.inner.remove(which)
    }
}

// case 235
#[tokio::test]
async fn a_call_that_ends_while_another_hears_of_it_is_not_in_doubt() {
    for kind in KINDS {
        let shop = Shop::new(kind).await;
        let late = Arc::new(Late {
            inner: Arc::clone(&shop.inner),
            answered: Semaphore::new(0),
            arrives: Semaphore::new(0),
        });
        let clock = Arc::new(shop.clock.clone());
        let store = Arc::clone(&late) as SharedStore;
        let other = open(&shop.prompt, &store, clock, &shop.market, "other").await;
        let ends = async {
            shop.market.entered.acquire().await.unwrap().forget();
            let hears = async {
                late.answered.acquire().await.unwrap().forget();
                shop.market.go.add_permits(1);
                while !matches!(shop.row().await.state, LedgerState::Recorded { .. }) {
                    tokio::task::yield_now().await;
                }
                settle_down().await;
                late.arrives.add_permits(9);
            };
            tokio::join!(other.call(call("buy", End::Well)), hears).0
        };
        let (first, second) = tokio::join!(shop.buy("buy", End::Later), ends);
        assert!(first.is_success() && second.event.replayed, "{kind:?}: {}", second.text());
        assert_eq!(shop.runs(), 1);
    }
}

// case 235
#[test]
fn many_threads_with_many_handles_run_it_once() {
    for kind in KINDS {
        let shop = block_on(Shop::new(kind));
        let outcomes = from_many_threads(&shop, "buy");
        assert_eq!(shop.runs(), 1, "{kind:?}");
        assert!(outcomes.iter().all(|outcome| outcome.value() == Some(Bought { number: 1 })), "{kind:?}");
        assert_eq!(outcomes.iter().filter(|outcome| !outcome.event.replayed).count(), 1);
    }
}

#[test]
fn of_many_that_find_it_in_doubt_one_takes_over() {
    for kind in KINDS {
        for before_restart in [false, true] {
            let mut shop = block_on(Shop::new(kind));
            block_on(shop.doubt("buy_again"));
            if before_restart {
                block_on(shop.reopen());
            }
            let outcomes = from_many_threads(&shop, "buy_again");
            assert_eq!(shop.runs(), 2, "{kind:?}: the one that panicked, and one more");
            assert!(outcomes.iter().all(|outcome| outcome.value() == Some(Bought { number: 2 })), "{kind:?}");
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Leave {
    Drop,
    Cancel,
}

/// Starts a call, and leaves it when the store's operation is at its gate. Then the operation goes through.
async fn left_at(shop: &Shop, tool: &str, op: StoreOp, leave: Leave) {
    let gate = shop.store.hold(op, 1);
    let cancel = CancelToken::new();
    {
        let mut calling = pin!(shop.executor.call_cancellable(call(tool, End::Well), cancel.clone()));
        tokio::select! {
            outcome = &mut calling => panic!("it is held: {}", outcome.text()),
            () = gate.reached() => {}
        }
        if leave == Leave::Cancel {
            cancel.cancel();
            assert_eq!(calling.await.event.ending, Ending::Cancelled);
        }
    }
    gate.release();
    settle_down().await;
}

// case 227
#[tokio::test]
async fn a_call_that_is_left_while_it_claims_leaves_nothing() {
    for kind in KINDS {
        for leave in [Leave::Drop, Leave::Cancel] {
            let shop = Shop::new(kind).await;
            left_at(&shop, "buy", StoreOp::Claim, leave).await;
            assert_eq!((shop.doubts().await, shop.runs()), (Vec::new(), 0), "{kind:?} {leave:?}");
            assert_eq!(shop.inner.rows(Rows::All).await.unwrap(), [], "{kind:?} {leave:?}");
            assert!(shop.buy("buy", End::Well).await.is_success());
            assert_eq!(shop.runs(), 1);
        }
    }
}

#[tokio::test]
async fn a_call_that_is_left_while_it_takes_over_leaves_the_doubt() {
    for kind in KINDS {
        for leave in [Leave::Drop, Leave::Cancel] {
            let shop = Shop::new(kind).await;
            let doubt = shop.doubt("buy_again").await;
            left_at(&shop, "buy_again", StoreOp::Replace, leave).await;
            assert_eq!((shop.doubts().await, shop.runs()), (vec![doubt], 1), "{kind:?} {leave:?}");
            assert!(shop.buy("buy_again", End::Well).await.is_success());
            assert_eq!(shop.runs(), 2);
        }
    }
}

#[tokio::test]
async fn a_claim_of_another_process_that_lives_is_left_alone_and_waited_for() {
    for kind in KINDS {
        for tool in ["buy", "buy_again"] {
            let shop = Shop::new(kind).await;
            assert!(shop.buy(tool, End::Well).await.is_success());
            let row = shop.row().await;
            let state = LedgerState::Claimed {
                owner: "another process".into(),
                since: start(),
                orphan: Default::default(),
            };
            let claim = LedgerRow { state, ..row.clone() };
            let taken = LedgerChange { from: row.clone(), to: Some(claim.clone()) };
            assert!(shop.inner.replace(taken).await.unwrap());
            let meanwhile = async {
                for _ in 0..20 {
                    shop.clock.until_sleeping(1).await;
                    shop.clock.advance(Duration::from_secs(1));
                }
                shop.clock.until_sleeping(1).await;
                assert_eq!(shop.doubts().await, [], "it is not in doubt");
                let settled = shop.ledger().settle(&claim.key, happened(1)).await.unwrap();
                assert_eq!((settled, shop.ledger().clear().await.unwrap()), (false, 0));
                assert_eq!((shop.row().await, shop.runs()), (claim.clone(), 1));
                // The other process is done.
                let done = LedgerChange { from: claim.clone(), to: Some(row.clone()) };
                assert!(shop.inner.replace(done).await.unwrap());
                shop.clock.advance(Duration::from_secs(1));
            };
            let (outcome, ()) = tokio::join!(shop.buy(tool, End::Well), meanwhile);
            assert!(outcome.event.replayed, "{}", outcome.text());
            assert_eq!(shop.runs(), 1);
        }
    }
}

#[tokio::test]
async fn nobody_touches_the_claim_of_a_call_that_runs() {
    for kind in KINDS {
        let shop = Shop::new(kind).await;
        let meanwhile = async {
            shop.market.entered.acquire().await.unwrap().forget();
            let (ledger, row) = (shop.ledger(), shop.row().await);
            assert_eq!(ledger.lookup(&row.key).await.unwrap(), None);
            assert!(!ledger.invalidate(&row.key).await.unwrap());
            assert_eq!(ledger.invalidate_by_tool("buy").await.unwrap(), 0);
            assert_eq!(ledger.clear().await.unwrap(), 0);
            assert_eq!(ledger.prune_expired().await.unwrap(), 0);
            assert_eq!(ledger.in_doubt().await.unwrap(), []);
            assert!(!ledger.settle(&row.key, Settlement::DidNotHappen).await.unwrap());
            let error = ledger.record(by_hand(&row)).await.unwrap_err();
            assert_eq!((error.doing, error.reason.contains("is running")), ("record an effect", true));
            assert_eq!(shop.row().await, row);
            shop.market.go.add_permits(1);
        };
        let (outcome, ()) = tokio::join!(shop.buy("buy", End::Later), meanwhile);
        assert!(outcome.is_success() && shop.buy("buy", End::Well).await.event.replayed);
        assert_eq!(shop.runs(), 1);
    }
}

fn by_hand(row: &LedgerRow) -> ToolEffect {
    ToolEffect {
        idempotency_key: row.key.clone(),
        tool_name: row.tool.clone(),
        params_hash: row.params_hash.clone(),
        message: "by hand".into(),
        value: Some(json!({ "number": 7 })),
        success: true,
        exclude_value_from_context: false,
        created_at: start(),
        expires_at: None,
        session: None,
        effect_id: "by-hand".into(),
    }
}

#[tokio::test]
async fn settling_does_not_overwrite_what_came_since() {
    for kind in KINDS {
        for settlement in [happened(9), Settlement::DidNotHappen] {
            let shop = Shop::new(kind).await;
            let doubt = shop.doubt("buy_again").await;
            let ledger =
                EffectLedger::new(Arc::clone(&shop.store) as SharedStore, Arc::new(shop.clock.clone()));
            let gate = shop.store.hold(StoreOp::Replace, 1);
            let settling = ledger.settle(&doubt.key, settlement);
            let meanwhile = async {
                gate.reached().await;
                // Another one takes over, and is done before the settlement arrives.
                let other = shop.another("other").await.call(call("buy_again", End::Well)).await;
                assert!(other.is_success() && !other.event.replayed);
                gate.release();
            };
            let (settled, ()) = tokio::join!(settling, meanwhile);
            assert!(!settled.unwrap(), "{kind:?}: it was no longer in doubt");
            let again = shop.buy("buy_again", End::Well).await;
            assert_eq!((again.value(), shop.runs()), (Some(Bought { number: 2 }), 2), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn looking_up_what_has_expired_does_not_remove_what_came_since() {
    for kind in KINDS {
        let shop = Shop::new(kind).await;
        assert!(shop.buy("buy", End::Well).await.is_success());
        let key = shop.row().await.key;
        shop.clock.advance(TTL);
        let ledger = EffectLedger::new(Arc::clone(&shop.store) as SharedStore, Arc::new(shop.clock.clone()));
        let gate = shop.store.hold(StoreOp::Replace, 1);
        let meanwhile = async {
            gate.reached().await;
            assert!(!shop.another("other").await.call(call("buy", End::Well)).await.event.replayed);
            gate.release();
        };
        let (found, ()) = tokio::join!(ledger.lookup(&key), meanwhile);
        assert_eq!(found.unwrap(), None, "what it looked at had expired");
        assert!(shop.buy("buy", End::Well).await.event.replayed);
        assert_eq!(shop.runs(), 2, "{kind:?}");
    }
}

#[tokio::test]
async fn a_success_whose_claim_was_taken_is_not_committed() {
    for kind in KINDS {
        let shop = Shop::new(kind).await;
        let meanwhile = async {
            shop.market.entered.acquire().await.unwrap().forget();
            // As a process would that takes this one for dead.
            let row = shop.row().await;
            let state = LedgerState::Claimed {
                owner: "another process".into(),
                since: start(),
                orphan: Default::default(),
            };
            let theirs = LedgerRow { state, ..row.clone() };
            let change = LedgerChange { from: row, to: Some(theirs.clone()) };
            assert!(shop.inner.replace(change).await.unwrap());
            shop.market.go.add_permits(1);
            theirs
        };
        let (outcome, theirs) = tokio::join!(shop.buy("buy", End::Later), meanwhile);
        assert_eq!(outcome.event.ending, Ending::NotCommitted, "{}", outcome.text());
        assert!(outcome.text().contains("is no longer this call's"), "{}", outcome.text());
        assert_eq!(shop.row().await, theirs, "{kind:?}");
        assert_eq!(shop.executor.session().slice::<Bought>().len(), 0);
    }
}

#[tokio::test]
async fn an_end_that_could_not_be_written_is_in_doubt_and_can_be_settled() {
    for kind in KINDS {
        for (panics, end) in
            [(false, End::Refuse), (true, End::Refuse), (false, End::Panic), (true, End::Panic)]
        {
            let shop = Shop::new(kind).await;
            match panics {
                false => shop.store.fail(StoreOp::Replace, 1),
                true => shop.store.panic(StoreOp::Replace, 1),
            }
            let outcome = shop.buy("buy", end).await;
            assert!(outcome.escalation.is_some(), "the store failed");
            let doubts = shop.doubts().await;
            let reasons: Vec<&str> = doubts.iter().map(|doubt| doubt.reason.as_str()).collect();
            assert_eq!(reasons, ["its end could not be recorded"]);
            assert_eq!(shop.buy("buy", End::Well).await.event.ending, Ending::InDoubt);
            assert!(shop.ledger().settle(&doubts[0].key, Settlement::DidNotHappen).await.unwrap());
            assert_eq!(shop.doubts().await, []);
            assert!(shop.buy("buy", End::Well).await.is_success());
            assert_eq!(shop.runs(), 2, "{kind:?}");
        }
        let shop = Shop::new(kind).await;
        shop.store.fail(StoreOp::Replace, 1);
        let _ = shop.buy("buy", End::Refuse).await;
        assert_eq!(shop.ledger().clear().await.unwrap(), 1, "{kind:?}: it can be forgotten too");
        assert_eq!(shop.doubts().await, []);
    }
}

#[tokio::test]
async fn what_was_settled_keeps_the_terms_of_the_call() {
    for kind in KINDS {
        for restart in [false, true] {
            let mut shop = Shop::new(kind).await;
            assert!(shop.buy("buy", End::Well).await.is_success());
            let usual = shop.ledger().lookup(&shop.row().await.key).await.unwrap().unwrap();
            assert_eq!(shop.ledger().clear().await.unwrap(), 1);

            let doubt = shop.doubt("buy").await;
            let params_hash = shop.row().await.params_hash;
            assert_eq!(params_hash.len(), usual.params_hash.len());
            shop.clock.advance(Duration::from_secs(5));
            if restart {
                shop.reopen().await;
            }
            assert!(shop.ledger().settle(&doubt.key, happened(9)).await.unwrap());
            let settled = shop.ledger().lookup(&doubt.key).await.unwrap().unwrap();
            let now = start() + Duration::from_secs(5);
            let expected = ToolEffect {
                params_hash,
                message: "found".into(),
                value: Some(json!({ "number": 9 })),
                created_at: now,
                expires_at: Some(now + TTL),
                session: None,
                effect_id: settled.effect_id.clone(),
                ..usual
            };
            assert_eq!(settled, expected, "{kind:?}");
            let outcome = shop.buy("buy", End::Well).await;
            assert_eq!((outcome.text(), outcome.event.value_hidden), ("found", true));
            shop.clock.advance(TTL);
            assert!(!shop.buy("buy", End::Well).await.event.replayed, "its time has come");
        }
    }
}

#[tokio::test]
async fn a_settled_value_reaches_each_session_once() {
    for kind in KINDS {
        for tool in ["buy", "buy_probe"] {
            let mut shop = Shop::new(kind).await;
            let doubt = shop.doubt(tool).await;
            if tool == "buy" {
                assert!(shop.ledger().settle(&doubt.key, happened(9)).await.unwrap());
            } else {
                let found = Probed::Happened {
                    message: "found".into(),
                    value: Some(json!({ "number": 9 })),
                    exclude_value_from_context: true,
                };
                *shop.probed.lock().unwrap() = Some(found);
            }
            for _ in 0..3 {
                // A replay that is not committed brings nothing, and the next one does.
                shop.store.fail(StoreOp::Commit, 1);
                assert_eq!(shop.buy(tool, End::Well).await.event.ending, Ending::NotCommitted);
                let outcome = shop.buy(tool, End::Well).await;
                assert!(outcome.is_success() && outcome.event.replayed, "{}", outcome.text());
                assert!(outcome.event.value_hidden);
                let bought = shop.executor.session().slice::<Bought>().all();
                assert_eq!(bought, [Arc::new(Bought { number: 9 })], "{kind:?} {tool}");
                shop.reopen().await;
            }
            if tool == "buy" {
                let other = shop.another("other").await;
                for _ in 0..3 {
                    assert!(other.call(call("buy", End::Well)).await.event.replayed);
                    assert_eq!(other.session().slice::<Bought>().len(), 1, "{kind:?}");
                }
            }
            assert_eq!(shop.runs(), 1);
        }
    }
}

#[tokio::test]
async fn a_value_that_cannot_be_given_again_is_not_committed() {
    async fn map(_: (), cx: &mut ToolContext) -> Result<ToolResult<BTreeMap<(u8, u8), u8>>, ToolError> {
        cx.resource::<AtomicUsize>().await?.fetch_add(1, Ordering::SeqCst);
        Ok(ToolResult::value(BTreeMap::from([((1, 2), 3)])))
    }
    async fn nan(_: (), cx: &mut ToolContext) -> Result<ToolResult<f64>, ToolError> {
        cx.resource::<AtomicUsize>().await?.fetch_add(1, Ordering::SeqCst);
        Ok(ToolResult::value(f64::NAN))
    }
    for store in [Arc::new(MemoryStore::new()) as SharedStore, Arc::new(ByteStore::new())] {
        let runs = Arc::new(AtomicUsize::new(0));
        let section = Section::tools("odd", "Odd")
            .tool(Tool::new("map", "Map.", map).idempotency(IdempotencyConfig::auto()))
            .tool(Tool::new("nan", "NaN.", nan).idempotency(IdempotencyConfig::auto()));
        let prompt = PromptTemplate::builder("tests", "odd").section(section).build().unwrap().prompt();
        let session = Session::builder().store(Arc::clone(&store)).open().await.unwrap();
        let resources = ResourceRegistry::of((Binding::instance(Arc::clone(&runs)),)).unwrap();
        let executor = Executor::builder(&prompt, &session).resources(resources).open().await.unwrap();
        for tool in ["map", "nan"] {
            let outcome = executor.call(ToolCall::new("1", tool, "{}")).await;
            assert_eq!(outcome.event.ending, Ending::NotCommitted, "{}", outcome.text());
            let start = format!("{tool} was not committed: its value cannot be written as JSON (");
            assert!(outcome.text().starts_with(&start), "{}", outcome.text());
            assert!(outcome.text().ends_with("whether its effect outside happened is not known"));
            let again = executor.call(ToolCall::new("2", tool, "{}")).await;
            assert_eq!(again.event.ending, Ending::InDoubt, "{}", again.text());
        }
        assert_eq!(
            (runs.load(Ordering::SeqCst), session.calls("map"), session.calls("nan")),
            (2, None, None)
        );
    }
}

/// A clock that shows this.
struct Shows(Timestamp, FakeClock);

impl Clock for Shows {
    fn now(&self) -> Timestamp {
        self.0
    }
    fn monotonic(&self) -> Duration {
        self.1.monotonic()
    }
    fn sleep_until(&self, instant: Duration) -> BoxFuture<'static, ()> {
        self.1.sleep_until(instant)
    }
}

// case 231
#[tokio::test]
async fn odd_times_to_live_and_clocks_that_go_back() {
    for kind in KINDS {
        let shop = Shop::new(kind).await;
        assert!(shop.buy("buy", End::Well).await.is_success());
        let at = async |now: Timestamp| {
            let clock = Arc::new(Shows(now, shop.clock.clone()));
            let executor = open(&shop.prompt, &shop.inner, clock, &shop.market, "other").await;
            executor.call(call("buy", End::Well)).await.event.replayed
        };
        assert!(at(start() - Duration::from_secs(1_000_000)).await, "the past is not after its time");
        assert!(at(start() + TTL - Duration::from_nanos(1)).await);
        assert!(!at(start() + TTL).await);
        assert!(at(start()).await, "recorded anew");
        assert_eq!(shop.runs(), 2);
        // A doubt has no time at which it stops being one.
        let shop = Shop::new(kind).await;
        let doubt = shop.doubt("buy").await;
        shop.clock.advance(TTL * 1000);
        assert_eq!(shop.ledger().prune_expired().await.unwrap(), 0);
        assert_eq!(shop.buy("buy", End::Well).await.event.ending, Ending::InDoubt);
        assert_eq!(shop.doubts().await, [doubt]);
    }
    for (ttl, replayed) in [(Some(Duration::ZERO), false), (Some(Duration::MAX), true), (None, true)] {
        let store: SharedStore = Arc::new(MemoryStore::new());
        let config = IdempotencyConfig::auto().ttl(ttl);
        let section = Section::tools("shop", "Shop").tool(Tool::new("buy", "Buy.", buy).idempotency(config));
        let prompt = PromptTemplate::builder("tests", "ttl").section(section).build().unwrap().prompt();
        let market =
            Arc::new(Market { runs: AtomicUsize::new(0), entered: Semaphore::new(0), go: Semaphore::new(0) });
        let executor = open(&prompt, &store, Arc::new(FakeClock::new(start())), &market, "s").await;
        assert!(executor.call(call("buy", End::Well)).await.is_success());
        let again = executor.call(call("buy", End::Well)).await;
        assert_eq!((again.is_success(), again.event.replayed), (true, replayed), "{ttl:?}");
    }
}

/// Every operation has to be polled twice, once before it does something and once after.
struct Slow(SharedStore);

macro_rules! slowly {
    ($operation:expr) => {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let done = $operation.await;
            tokio::task::yield_now().await;
            done
        })
    };
}

impl Store for Slow {
    fn durability(&self) -> Durability {
        self.0.durability()
    }
    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        slowly!(self.0.load(session))
    }
    fn begin<'a>(&'a self, session: &'a SessionId, mark: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        slowly!(self.0.begin(session, mark))
    }
    fn start<'a>(&'a self, call: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
        slowly!(self.0.start(call))
    }
    fn commit<'a>(&'a self, session: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        slowly!(self.0.commit(session, batch))
    }
    fn claim<'a>(&'a self, row: LedgerRow, now: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        slowly!(self.0.claim(row, now))
    }
    fn replace<'a>(&'a self, change: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>> {
        slowly!(self.0.replace(change))
    }
    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        slowly!(self.0.rows(which))
    }
    fn remove<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        slowly!(self.0.remove(which))
    }
}

/// Asks twice for everything, as a store does that has lost an answer on its way.
struct Twice(SharedStore);

macro_rules! twice {
    ($operation:expr) => {
        Box::pin(async move {
            let _ = $operation.await;
            $operation.await
        })
    };
}

impl Store for Twice {
    fn durability(&self) -> Durability {
        self.0.durability()
    }
    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        self.0.load(session)
    }
    fn begin<'a>(&'a self, session: &'a SessionId, mark: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.begin(session, mark)
    }
    fn start<'a>(&'a self, call: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.start(call)
    }
    fn commit<'a>(&'a self, session: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.commit(session, batch)
    }
    fn claim<'a>(&'a self, row: LedgerRow, now: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        twice!(self.0.claim(row.clone(), now))
    }
    fn replace<'a>(&'a self, change: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>> {
        twice!(self.0.replace(change.clone()))
    }
    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        self.0.rows(which)
    }
    fn remove<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        self.0.remove(which)
    }
}

#[tokio::test]
async fn a_store_that_asks_twice_waits_for_nobody_and_runs_it_once() {
    let shop = Shop::on(Arc::new(Twice(Arc::new(MemoryStore::new()))), None).await;
    assert!(!shop.buy("buy", End::Refuse).await.is_success());
    assert!(shop.buy("buy", End::Well).await.is_success());
    assert!(shop.buy("buy", End::Well).await.event.replayed);
    assert_eq!(shop.runs(), 2, "the one that was refused, and one");
}

#[tokio::test]
async fn a_probe_whose_value_cannot_be_read_settles_nothing() {
    for kind in KINDS {
        let shop = Shop::new(kind).await;
        let doubt = shop.doubt("buy_probe").await;
        let unreadable = Probed::Happened {
            message: "found".into(),
            value: Some(json!({ "count": 9 })),
            exclude_value_from_context: false,
        };
        *shop.probed.lock().unwrap() = Some(unreadable);
        let outcome = shop.buy("buy_probe", End::Well).await;
        assert_eq!(outcome.event.ending, Ending::InDoubt, "{}", outcome.text());
        assert!(outcome.text().contains("gave a value that cannot be read: missing field `number`"));
        assert_eq!((shop.doubts().await, shop.runs()), (vec![doubt], 1), "{kind:?}");
    }
}

// case 227
#[tokio::test]
async fn left_at_every_await_it_is_in_doubt_only_if_the_handler_was_entered() {
    for kind in KINDS {
        for (tool, runs_before) in [("buy", 0), ("buy_again", 1)] {
            for leave in [Leave::Drop, Leave::Cancel] {
                let mut seen = Vec::new();
                for polls in 0.. {
                    let place: SharedStore = match kind {
                        Kind::Memory => Arc::new(MemoryStore::new()),
                        Kind::Bytes => Arc::new(ByteStore::new()),
                    };
                    let shop = Shop::on(Arc::new(Slow(Arc::clone(&place))), None).await;
                    if runs_before > 0 {
                        shop.doubt(tool).await;
                    }
                    let cancel = CancelToken::new();
                    let ended = {
                        let mut calling =
                            pin!(shop.executor.call_cancellable(call(tool, End::Well), cancel.clone()));
                        let mut ended = None;
                        for _ in 0..polls {
                            if let Poll::Ready(outcome) = poll_once(calling.as_mut()) {
                                ended = Some(outcome);
                                break;
                            }
                            tokio::task::yield_now().await;
                        }
                        if ended.is_none() && leave == Leave::Cancel {
                            cancel.cancel();
                            drop(calling.await);
                        }
                        ended
                    };
                    let what = format!("{kind:?} {tool} {leave:?} after {polls} polls");
                    settle_down().await;
                    let ran = shop.runs() - runs_before;
                    let standing = match shop.inner.rows(Rows::All).await.unwrap().pop().map(|row| row.state)
                    {
                        None => "free",
                        Some(LedgerState::InDoubt { .. }) => "doubt",
                        Some(LedgerState::Recorded { .. }) => "done",
                        Some(LedgerState::Claimed { .. }) => "claimed",
                    };
                    match standing {
                        // What was in doubt before stays so.
                        "free" => assert_eq!((ran, runs_before), (0, 0), "{what}"),
                        "doubt" => assert!(ran == 1 || runs_before == 1, "{what}"),
                        "done" => assert_eq!(ran, 1, "{what}"),
                        _ => panic!("{what}: still claimed"),
                    }
                    let again = shop.buy(tool, End::Well).await;
                    match (tool, standing) {
                        ("buy", "doubt") => assert_eq!(again.event.ending, Ending::InDoubt, "{what}"),
                        _ => assert!(again.is_success(), "{what}: {}", again.text()),
                    }
                    let most = if tool == "buy" { 1 } else { 3 };
                    assert!(shop.runs() <= most, "{what}");
                    assert_eq!(shop.executor.session().slice::<wink::session::ToolInvoked>().len(), {
                        // Each of the calls has its event; one that was never polled was never made.
                        runs_before + 1 + usize::from(polls > 0 || leave == Leave::Cancel)
                    });
                    if !seen.contains(&standing) {
                        seen.push(standing);
                    }
                    if ended.is_some() {
                        break;
                    }
                }
                let all =
                    if runs_before == 0 { vec!["free", "doubt", "done"] } else { vec!["doubt", "done"] };
                assert_eq!(seen, all, "{kind:?} {tool} {leave:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_store_that_panics_or_fails_anywhere_never_lets_it_run_twice() {
    let ops = [StoreOp::Begin, StoreOp::Commit, StoreOp::Claim, StoreOp::Replace, StoreOp::Rows];
    for kind in KINDS {
        for op in ops {
            for panics in [false, true] {
                for end in [End::Well, End::Refuse, End::Panic] {
                    for nth in 1..3 {
                        let mut shop = Shop::new(kind).await;
                        match panics {
                            false => shop.store.fail(op, nth),
                            true => shop.store.panic(op, nth),
                        }
                        let what = format!("{kind:?} {op:?} {panics} {end:?} {nth}");
                        let first = shop.buy("buy", end).await;
                        let ran = shop.runs();
                        let done = ran == 1 && end == End::Well;
                        for _ in 0..2 {
                            let again = shop.buy("buy", End::Well).await;
                            if ran == 0 {
                                assert!(
                                    again.is_success() || again.escalation.is_some(),
                                    "{what}: {}",
                                    again.text()
                                );
                            }
                            shop.reopen().await;
                        }
                        match end {
                            End::Well if done => assert_eq!(shop.runs(), 1, "{what}"),
                            End::Panic => assert!(shop.runs() <= 1 || ran == 0, "{what}"),
                            _ => assert!(shop.runs() <= 2, "{what}"),
                        }
                        assert!(!first.is_success() || end == End::Well, "{what}");
                    }
                }
            }
        }
    }
}
