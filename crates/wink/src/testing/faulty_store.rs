//! A store that fails, or stops, when told to.

use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::BoxFuture;
use crate::session::{InvocationId, SessionId};
use crate::store::{
    Batch, CallMark, Claimed, Durability, History, HistoryQuery, LedgerChange, LedgerRow, NumberedRecord,
    Opening, PageQuery, Record, Rows, SharedStore, Store, StoreError, StoreLoss, StoreTurn, StoredSession,
    Summary,
};
use crate::support::lock::lock;

/// What a store can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreOp {
    /// [`Store::load`], [`Store::opening`] and [`Store::load_since`].
    Load,
    /// [`Store::page`] and [`Store::count`]. They cannot wait: one that is held is let through.
    Page,
    /// [`Store::summarise`].
    Summarise,
    /// [`Store::turn`].
    Turn,
    /// [`Store::history`].
    History,
    /// [`Store::compact`].
    Compact,
    /// [`Store::begin`].
    Begin,
    /// [`Store::start`].
    Start,
    /// [`Store::commit`].
    Commit,
    /// [`Store::claim`].
    Claim,
    /// [`Store::replace`].
    Replace,
    /// [`Store::rows`].
    Rows,
    /// [`Store::remove`].
    Remove,
}

/// A [`Store`] around another: operations go through, except those that were told to fail or to wait.
pub struct FaultyStore {
    inner: SharedStore,
    plans: Mutex<Vec<Plan>>,
}

struct Plan {
    op: StoreOp,
    /// How many operations of this kind still come before.
    before: usize,
    fault: Fault,
}

enum Fault {
    Fail,
    Panic,
    Wait(Gate),
}

/// Where an operation waits until it is let through.
#[derive(Clone)]
pub struct Gate {
    stage: Arc<watch::Sender<Stage>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Coming,
    Waiting,
    Released,
    Refused,
}

impl FaultyStore {
    /// A store that does what `inner` does.
    pub fn new(inner: SharedStore) -> Self {
        Self { inner, plans: Mutex::default() }
    }

    /// The `nth` operation of this kind from now, counted from 1, fails. The store underneath never sees it.
    pub fn fail(&self, op: StoreOp, nth: usize) {
        self.plan(op, nth, Fault::Fail);
    }

    /// The `nth` operation of this kind from now, counted from 1, panics.
    pub fn panic(&self, op: StoreOp, nth: usize) {
        self.plan(op, nth, Fault::Panic);
    }

    /// The `nth` operation of this kind from now, counted from 1, waits at the gate before the store underneath
    /// sees it.
    pub fn hold(&self, op: StoreOp, nth: usize) -> Gate {
        let gate = Gate { stage: Arc::new(watch::Sender::new(Stage::Coming)) };
        self.plan(op, nth, Fault::Wait(gate.clone()));
        gate
    }

    fn plan(&self, op: StoreOp, nth: usize, fault: Fault) {
        lock(&self.plans).push(Plan { op, before: nth.saturating_sub(1), fault });
    }

    fn due(&self, op: StoreOp) -> Option<Fault> {
        let mut plans = lock(&self.plans);
        let due = plans.iter().position(|plan| plan.op == op && plan.before == 0);
        plans
            .iter_mut()
            .filter(|plan| plan.op == op)
            .for_each(|plan| plan.before = plan.before.saturating_sub(1));
        due.map(|at| plans.remove(at).fault)
    }

    async fn pass(&self, op: StoreOp) -> Result<(), StoreError> {
        match self.due(op) {
            Some(Fault::Wait(gate)) => gate.wait(op).await,
            fault => pass_now(op, fault.as_ref()),
        }
    }
}

/// What becomes of an operation that does not wait.
#[expect(clippy::panic, reason = "asked for by the test")]
fn pass_now(op: StoreOp, fault: Option<&Fault>) -> Result<(), StoreError> {
    match fault {
        None | Some(Fault::Wait(_)) => Ok(()),
        Some(Fault::Fail) => Err(refused(op)),
        Some(Fault::Panic) => panic!("this store was told to panic"),
    }
}

impl Gate {
    /// Waits until the operation has come to the gate.
    pub async fn reached(&self) {
        self.until(|stage| stage != Stage::Coming).await;
    }

    /// Lets the operation through.
    pub fn release(&self) {
        self.stage.send_replace(Stage::Released);
    }

    /// Lets the operation fail.
    pub fn refuse(&self) {
        self.stage.send_replace(Stage::Refused);
    }

    async fn wait(&self, op: StoreOp) -> Result<(), StoreError> {
        self.stage.send_if_modified(|stage| {
            let first = *stage == Stage::Coming;
            if first {
                *stage = Stage::Waiting;
            }
            first
        });
        match self.until(|stage| matches!(stage, Stage::Released | Stage::Refused)).await {
            Stage::Refused => Err(refused(op)),
            Stage::Coming | Stage::Waiting | Stage::Released => Ok(()),
        }
    }

    async fn until(&self, reached: impl Fn(Stage) -> bool) -> Stage {
        // The sender is ours, so it cannot be gone.
        match self.stage.subscribe().wait_for(|stage| reached(*stage)).await {
            Ok(stage) => *stage,
            Err(_) => Stage::Refused,
        }
    }
}

impl Store for FaultyStore {
    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Load).await?;
            self.inner.load(session).await
        })
    }

    fn load_since<'a>(
        &'a self,
        session: &'a SessionId,
        since: u64,
    ) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Load).await?;
            self.inner.load_since(session, since).await
        })
    }

    fn has_pages(&self) -> bool {
        self.inner.has_pages()
    }

    fn opening<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Opening, StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Load).await?;
            self.inner.opening(session).await
        })
    }

    fn page(&self, session: &SessionId, query: &PageQuery) -> Result<Vec<NumberedRecord>, StoreError> {
        pass_now(StoreOp::Page, self.due(StoreOp::Page).as_ref())?;
        self.inner.page(session, query)
    }

    fn count(&self, session: &SessionId, query: &PageQuery) -> Result<u64, StoreError> {
        pass_now(StoreOp::Page, self.due(StoreOp::Page).as_ref())?;
        self.inner.count(session, query)
    }

    fn summarise<'a>(
        &'a self,
        session: &'a SessionId,
        summary: Summary,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Summarise).await?;
            self.inner.summarise(session, summary).await
        })
    }

    fn turn<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoreTurn, StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Turn).await?;
            self.inner.turn(session).await
        })
    }

    fn hold<'a>(
        &'a self,
        session: &'a SessionId,
        what: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoreTurn>, StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Turn).await?;
            self.inner.hold(session, what).await
        })
    }

    fn history<'a>(
        &'a self,
        session: &'a SessionId,
        query: HistoryQuery,
    ) -> BoxFuture<'a, Result<History, StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::History).await?;
            self.inner.history(session, query).await
        })
    }

    fn compact<'a>(
        &'a self,
        session: &'a SessionId,
        upto: u64,
        whole: Vec<Record>,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Compact).await?;
            self.inner.compact(session, upto, whole).await
        })
    }

    fn begin<'a>(&'a self, session: &'a SessionId, mark: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Begin).await?;
            self.inner.begin(session, mark).await
        })
    }

    fn start<'a>(&'a self, call: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Start).await?;
            self.inner.start(call).await
        })
    }

    fn commit<'a>(&'a self, session: &'a SessionId, batch: Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Commit).await?;
            self.inner.commit(session, batch).await
        })
    }

    fn losses(&self) -> BoxFuture<'_, Result<Vec<StoreLoss>, StoreError>> {
        self.inner.losses()
    }

    fn claim<'a>(&'a self, row: LedgerRow, now: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Claim).await?;
            self.inner.claim(row, now).await
        })
    }

    fn replace<'a>(&'a self, change: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Replace).await?;
            self.inner.replace(change).await
        })
    }

    fn settling(&self, key: &str) -> Option<String> {
        self.inner.settling(key)
    }

    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Rows).await?;
            self.inner.rows(which).await
        })
    }

    fn remove<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        Box::pin(async move {
            self.pass(StoreOp::Remove).await?;
            self.inner.remove(which).await
        })
    }
}

impl std::fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultyStore").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Gate").field(&*self.stage.borrow()).finish()
    }
}

fn refused(op: StoreOp) -> StoreError {
    let doing = match op {
        StoreOp::Load => "load",
        StoreOp::Page => "read a page",
        StoreOp::Summarise => "keep a summary",
        StoreOp::Turn => "take a turn",
        StoreOp::History => "look into the history",
        StoreOp::Compact => "compact a session",
        StoreOp::Begin => "begin",
        StoreOp::Start => "start",
        StoreOp::Commit => "commit",
        StoreOp::Claim => "claim",
        StoreOp::Replace => "replace a row",
        StoreOp::Rows => "list rows",
        StoreOp::Remove => "remove rows",
    };
    StoreError::failed(doing, "told to fail")
}
