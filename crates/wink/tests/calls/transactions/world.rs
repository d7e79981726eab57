//! What the tests work with: a session, a workspace in memory, a counter, and stores that fail or wait when told to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use wink::BoxFuture;
use wink::filesystem::{Filesystem, MemoryFilesystem};
use wink::resource::{
    Binding, BoxError, ResourceContext, ResourceRegistry, ResourceSnapshot, Shared, Snapshotable,
};
use wink::session::{InvocationId, Session, SessionId, SliceKind, SliceType};
use wink::store::{
    Batch, CallMark, Claimed, Durability, LedgerChange, LedgerRow, MemoryStore, Rows, Store, StoreError,
    StoredSession,
};
use wink::testing::filesystem_tree;
use wink::transaction::Views;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note(pub(crate) String);

impl SliceType for Note {
    const NAME: &'static str = "note";
}

pub(crate) fn note(text: &str) -> Note {
    Note(text.to_owned())
}

/// Goes to the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Said(pub(crate) String);

impl SliceType for Said {
    const NAME: &'static str = "said";
    const KIND: SliceKind = SliceKind::Log;
}

/// Not snapshotable.
#[derive(Default)]
pub(crate) struct Outside(pub(crate) AtomicUsize);

pub(crate) type Counter = Shared<i64>;

pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) resources: ResourceContext,
}

/// Everything that can be seen from outside.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) notes: Vec<String>,
    pub(crate) said: Vec<String>,
    /// Files with their text, and directories.
    pub(crate) files: BTreeMap<String, Option<String>>,
    pub(crate) counter: i64,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::on(Arc::new(MemoryStore::new())).await
    }

    pub(crate) async fn on(store: Arc<dyn Store>) -> Self {
        let files: Arc<dyn Filesystem> =
            Arc::new(MemoryFilesystem::from_files([("there.txt", "there")]).unwrap());
        let registry = ResourceRegistry::of((
            Binding::filesystem(files),
            Binding::instance(Arc::new(Counter::new(0))).named("counter").snapshotable(),
            Binding::instance(Arc::new(Outside::default())),
        ))
        .unwrap();
        let resources = registry.open().await.unwrap();
        let session = Session::builder().store(store).build();
        let _ = session.dispatch(note("there"));
        Self { session, resources }
    }

    pub(crate) async fn seen(&self) -> Seen {
        let files = self.resources.get::<dyn Filesystem>().await.unwrap();
        Seen {
            notes: self.session.slice::<Note>().iter().map(|note| note.0.clone()).collect(),
            said: self.session.slice::<Said>().iter().map(|said| said.0.clone()).collect(),
            files: tree(&*files).await,
            counter: *self.resources.get::<Counter>().await.unwrap().read(),
        }
    }
}

async fn tree(files: &dyn Filesystem) -> BTreeMap<String, Option<String>> {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    filesystem_tree(files)
        .await
        .into_iter()
        .map(|(path, bytes)| (path.to_string(), bytes.map(text)))
        .collect()
}

/// Changes everything there is.
pub(crate) async fn change_all(views: &Views, text: &str) {
    let _ = views.session().dispatch(note(text)).unwrap();
    let _ = views.session().dispatch(Said(text.to_owned())).unwrap();
    let files = views.filesystem().await.unwrap();
    files.write_text(&format!("made/{text}.txt"), text).await.unwrap();
    files.write_text("there.txt", text).await.unwrap();
    views.resource::<Counter>().await.unwrap().update(|n| *n += 1);
}

/// A durable store that fails, or waits, when it is told to.
pub(crate) struct Stubborn {
    inner: MemoryStore,
    fails: AtomicBool,
    open: watch::Sender<bool>,
    pub(crate) commits: AtomicUsize,
    pub(crate) waiting: watch::Sender<usize>,
}

impl Stubborn {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(),
            fails: AtomicBool::new(false),
            open: watch::Sender::new(true),
            commits: AtomicUsize::new(0),
            waiting: watch::Sender::new(0),
        })
    }

    pub(crate) fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// Commits wait from now on.
    pub(crate) fn shut(&self) {
        self.open.send_replace(false);
    }

    /// Lets waiting commits through.
    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    /// Ends when a commit waits.
    pub(crate) async fn until_waiting(&self) {
        self.waiting.subscribe().wait_for(|waiting| *waiting > 0).await.unwrap();
    }
}

impl Store for Stubborn {
    fn durability(&self) -> Durability {
        Durability::Restart
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
        Box::pin(async move {
            self.waiting.send_modify(|waiting| *waiting += 1);
            let mut open = self.open.subscribe();
            open.wait_for(|open| *open).await.unwrap();
            self.waiting.send_modify(|waiting| *waiting -= 1);
            if self.fails.load(Ordering::SeqCst) {
                return Err(StoreError::failed("commit", "the disk is full"));
            }
            self.commits.fetch_add(1, Ordering::SeqCst);
            self.inner.commit(session, batch).await
        })
    }

    fn claim<'a>(
        &'a self,
        row: LedgerRow,
        now: jiff::Timestamp,
    ) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        self.inner.claim(row, now)
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

/// A snapshotable number whose restoring fails when told to.
#[derive(Default)]
pub(crate) struct Fragile {
    pub(crate) value: AtomicUsize,
    pub(crate) breaks: AtomicBool,
}

impl Fragile {
    pub(crate) fn value(&self) -> usize {
        self.value.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, value: usize) {
        self.value.store(value, Ordering::SeqCst);
    }

    pub(crate) fn breaks(&self, breaks: bool) {
        self.breaks.store(breaks, Ordering::SeqCst);
    }
}

impl Snapshotable for Fragile {
    fn snapshot(&self) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(self.value()))
    }

    fn restore(&self, snapshot: &ResourceSnapshot) -> Result<(), BoxError> {
        if self.breaks.load(Ordering::SeqCst) {
            return Err("it broke".into());
        }
        self.set(*snapshot.state::<usize>().ok_or("no number")?);
        Ok(())
    }

    fn fork(&self) -> Result<Self, BoxError> {
        Ok(Self { value: self.value().into(), breaks: AtomicBool::new(false) })
    }

    fn merge(&self, fork: &Self, _: &ResourceSnapshot) -> Result<(), BoxError> {
        self.set(fork.value());
        Ok(())
    }

    fn decode(&self, json: &serde_json::Value) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(usize::deserialize(json)?))
    }
}
