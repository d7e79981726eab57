//! Bugs that are built in on purpose: a kit that does not find them finds nothing.

use std::any::Any;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use wink::BoxFuture;
use wink::filesystem::{
    BytesRead, DeleteMode, DirEntry, Edit, EditReceipt, Filesystem, FsLimits, FsPath, FsResult, FsSnapshot,
    GrepOutcome, GrepQuery, MergeReceipt, Metadata, MkdirOptions, ReadWindow, TextRead, WriteOptions,
    WriteReceipt,
};
use wink::session::{InvocationId, SessionId};
use wink::store::{
    Batch, CallMark, Claimed, Durability, History, HistoryQuery, JournalId, LedgerChange, LedgerRow,
    LedgerState, MemoryStore, OrphanRule, Record, Rows, Store, StoreError, StoreTurn, StoredSession,
};
use wink_store::Workspace;

use crate::Plant;
use crate::calls::{Call, LEFT_ALONE, Turn};

/// The store and the files of a workspace, with the bug in them.
pub(crate) fn planted(workspace: &Workspace, plant: Option<Plant>) -> (Arc<dyn Store>, Arc<dyn Filesystem>) {
    let (store, files) = (Arc::clone(workspace.store()), Arc::clone(workspace.files()));
    match plant {
        Some(
            Plant::MissingSync
            | Plant::Unopenable
            | Plant::Deadlock
            | Plant::LostTraces
            | Plant::LostUpdate
            | Plant::LostLocks
            | Plant::LostModes,
        )
        | None => (store, files),
        Some(Plant::EarlyCommit) => (store, Arc::new(EarlyCommit { files, forks: Mutex::default() })),
        Some(Plant::LostClaim) => (Arc::new(Losing { store, what: Lost::Claims(MemoryStore::new()) }), files),
        Some(Plant::LostMark) => (Arc::new(Losing { store, what: Lost::Marks }), files),
        Some(Plant::LostStart) => (Arc::new(Losing { store, what: Lost::Starts }), files),
        Some(Plant::EarlyStart) => (Arc::new(Losing { store, what: Lost::Claiming }), files),
    }
}

/// Whether a workspace is not to be opened.
pub(crate) fn refuses(dir: &Path, plant: Option<Plant>) -> bool {
    plant == Some(Plant::Unopenable) && dir.join(".wink").exists()
}

/// Makes something else of a file with several names, as it is opened: the same in all that the model knows.
pub(crate) fn retrace(dir: &Path, plant: Option<Plant>) -> std::io::Result<()> {
    let top = dir.join(LEFT_ALONE);
    let (file, copy) = (top.join("two.h"), top.join("copy"));
    if plant == Some(Plant::LostTraces) && dir.join(".wink").exists() {
        std::fs::copy(&file, &copy)?;
        std::fs::rename(copy, file)?;
    }
    Ok(())
}

/// Gives a directory another mode when its workspace is opened again, as if it had been lifted and not put back.
pub(crate) fn unlock(dir: &Path, plant: Option<Plant>) -> std::io::Result<()> {
    let locked = dir.join(LEFT_ALONE).join("locked.d");
    if plant == Some(Plant::LostLocks) && dir.join(".wink").exists() {
        std::fs::set_permissions(locked, Permissions::from_mode(0o711))?;
    }
    Ok(())
}

/// Loses which modes a dead process had lifted, before the workspace is opened again.
pub(crate) fn forget_modes(dir: &Path, plant: Option<Plant>) -> std::io::Result<()> {
    let record = dir.join(".wink/lifted");
    if plant == Some(Plant::LostModes) && record.exists() {
        std::fs::write(record, "")?;
    }
    Ok(())
}

/// What comes of a command whose changes were read back.
pub(crate) fn finished<E>(read_back: Result<(), E>, plant: Option<Plant>) -> Result<(), E> {
    match plant {
        Some(Plant::LostUpdate) => Ok(()),
        _ => read_back,
    }
}

/// Whether a turn is never to end.
pub(crate) fn hangs(turn: &Turn, plant: Option<Plant>) -> bool {
    plant == Some(Plant::Deadlock) && turn.calls.iter().any(|(_, call)| matches!(call, Call::Note { .. }))
}

/// Merges only when it is told that the merge stands: the store has long committed by then.
struct EarlyCommit {
    files: Arc<dyn Filesystem>,
    forks: Mutex<Vec<Arc<dyn Filesystem>>>,
}

/// A store that loses something when its process dies.
struct Losing {
    store: Arc<dyn Store>,
    what: Lost,
}

enum Lost {
    /// They are in memory until they are recorded.
    Claims(MemoryStore),
    /// That a call is on its way is not written down.
    Marks,
    /// That a handler starts is not.
    Starts,
    /// That a handler did not start yet when its call claims a key.
    Claiming,
}

impl Filesystem for EarlyCommit {
    fn limits(&self) -> &FsLimits {
        self.files.limits()
    }

    fn is_read_only(&self) -> bool {
        self.files.is_read_only()
    }

    fn is_shown(&self) -> bool {
        self.files.is_shown()
    }

    fn read<'a>(&'a self, path: &'a FsPath, window: ReadWindow) -> BoxFuture<'a, FsResult<TextRead>> {
        self.files.read(path, window)
    }

    fn read_bytes<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<BytesRead>> {
        self.files.read_bytes(path)
    }

    fn write<'a>(
        &'a self,
        path: &'a FsPath,
        content: &'a [u8],
        options: WriteOptions,
    ) -> BoxFuture<'a, FsResult<WriteReceipt>> {
        self.files.write(path, content, options)
    }

    fn edit<'a>(&'a self, path: &'a FsPath, edit: &'a Edit) -> BoxFuture<'a, FsResult<EditReceipt>> {
        self.files.edit(path, edit)
    }

    fn delete<'a>(&'a self, path: &'a FsPath, mode: DeleteMode) -> BoxFuture<'a, FsResult<()>> {
        self.files.delete(path, mode)
    }

    fn mkdir<'a>(&'a self, path: &'a FsPath, options: MkdirOptions) -> BoxFuture<'a, FsResult<()>> {
        self.files.mkdir(path, options)
    }

    fn rename<'a>(&'a self, from: &'a FsPath, to: &'a FsPath) -> BoxFuture<'a, FsResult<()>> {
        self.files.rename(from, to)
    }

    fn stat<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<Metadata>> {
        self.files.stat(path)
    }

    fn list<'a>(&'a self, dir: &'a FsPath) -> BoxFuture<'a, FsResult<Vec<DirEntry>>> {
        self.files.list(dir)
    }

    fn glob<'a>(&'a self, base: &'a FsPath, pattern: &'a str) -> BoxFuture<'a, FsResult<Vec<DirEntry>>> {
        self.files.glob(base, pattern)
    }

    fn grep<'a>(&'a self, base: &'a FsPath, query: &'a GrepQuery) -> BoxFuture<'a, FsResult<GrepOutcome>> {
        self.files.grep(base, query)
    }

    fn fork(&self) -> FsResult<Arc<dyn Filesystem>> {
        let fork = self.files.fork()?;
        self.forks.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&fork));
        Ok(fork)
    }

    fn merge(&self, fork: &dyn Filesystem) -> FsResult<MergeReceipt> {
        let mut forks = self.forks.lock().unwrap_or_else(PoisonError::into_inner);
        let place = |files: &dyn Filesystem| std::ptr::from_ref(files).cast::<()>();
        let at = forks.iter().position(|known| place(&**known) == place(fork));
        let fork = at.map(|at| forks.swap_remove(at));
        forks.clear();
        Ok(MergeReceipt::new(fork).on_disk(JournalId::fresh(), Vec::new()))
    }

    fn unmerge(&self, _: MergeReceipt) -> FsResult<()> {
        Ok(())
    }

    fn keep(&self, receipt: MergeReceipt) {
        let fork: Option<Arc<dyn Filesystem>> = receipt.downcast().flatten();
        if let Some(fork) = fork
            && fork.blocks()
            && let Ok(receipt) = self.files.merge(&*fork)
        {
            self.files.keep(receipt);
        }
    }

    fn blocks(&self) -> bool {
        true
    }

    fn changes(&self) -> Vec<FsPath> {
        self.files.changes()
    }

    fn snapshot(&self) -> FsResult<FsSnapshot> {
        self.files.snapshot()
    }

    fn restore(&self, snapshot: &FsSnapshot) -> FsResult<()> {
        self.files.restore(snapshot)
    }

    fn decode_snapshot(&self, json: &serde_json::Value) -> FsResult<FsSnapshot> {
        self.files.decode_snapshot(json)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Store for Losing {
    fn durability(&self) -> Durability {
        self.store.durability()
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        self.store.load(session)
    }

    fn load_since<'a>(
        &'a self,
        session: &'a SessionId,
        since: u64,
    ) -> BoxFuture<'a, Result<StoredSession, StoreError>> {
        self.store.load_since(session, since)
    }

    fn turn<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<StoreTurn, StoreError>> {
        self.store.turn(session)
    }

    fn hold<'a>(
        &'a self,
        session: &'a SessionId,
        what: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoreTurn>, StoreError>> {
        self.store.hold(session, what)
    }

    fn history<'a>(
        &'a self,
        session: &'a SessionId,
        query: HistoryQuery,
    ) -> BoxFuture<'a, Result<History, StoreError>> {
        self.store.history(session, query)
    }

    fn compact<'a>(
        &'a self,
        session: &'a SessionId,
        upto: u64,
        whole: Vec<Record>,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.store.compact(session, upto, whole)
    }

    fn begin<'a>(&'a self, session: &'a SessionId, mark: CallMark) -> BoxFuture<'a, Result<(), StoreError>> {
        match &self.what {
            Lost::Claims(_) | Lost::Starts | Lost::Claiming => self.store.begin(session, mark),
            Lost::Marks => Box::pin(std::future::ready(Ok(()))),
        }
    }

    fn start<'a>(&'a self, call: InvocationId) -> BoxFuture<'a, Result<(), StoreError>> {
        match &self.what {
            // Without marks no call has begun that could start.
            Lost::Marks | Lost::Starts => Box::pin(std::future::ready(Ok(()))),
            Lost::Claims(_) | Lost::Claiming => self.store.start(call),
        }
    }

    fn commit<'a>(
        &'a self,
        session: &'a SessionId,
        mut batch: Batch,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        if !matches!(self.what, Lost::Claims(_)) {
            return self.store.commit(session, batch);
        }
        Box::pin(async move {
            let change = batch.ledger.take();
            self.store.commit(session, batch).await?;
            if let Some(row) = change.and_then(|change| change.to) {
                self.store.claim(row, Timestamp::UNIX_EPOCH).await?;
            }
            Ok(())
        })
    }

    fn claim<'a>(&'a self, row: LedgerRow, now: Timestamp) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        let claims = match &self.what {
            Lost::Claims(claims) => claims,
            Lost::Marks | Lost::Starts => return self.store.claim(row, now),
            Lost::Claiming => {
                return Box::pin(async move {
                    if let LedgerState::Claimed {
                        orphan: OrphanRule::ReleaseUnlessStarted { call, .. },
                        ..
                    } = &row.state
                    {
                        self.store.start(*call).await?;
                    }
                    self.store.claim(row, now).await
                });
            }
        };
        Box::pin(async move {
            match self.store.rows(Rows::Key(row.key.clone())).await?.pop() {
                Some(there) => Ok(Claimed::No(there)),
                None => claims.claim(row, now).await,
            }
        })
    }

    fn replace<'a>(&'a self, change: LedgerChange) -> BoxFuture<'a, Result<bool, StoreError>> {
        match &self.what {
            Lost::Claims(claims) if change.from.is_claimed() => claims.replace(change),
            Lost::Claims(_) | Lost::Marks | Lost::Starts | Lost::Claiming => self.store.replace(change),
        }
    }

    fn rows<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        self.store.rows(which)
    }

    fn remove<'a>(&'a self, which: Rows) -> BoxFuture<'a, Result<Vec<LedgerRow>, StoreError>> {
        self.store.remove(which)
    }
}
