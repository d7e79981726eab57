//! A directory to work in: its files and its store, opened together and made whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::oneshot;
use wink::filesystem::host::disk::{Disk, Entry, Meta};
use wink::filesystem::host::journal::{Journal, JournalOptions, Recovered};
use wink::filesystem::host::{Capture, HostDisk, HostFilesystem, HostOptions};
use wink::filesystem::{EntryKind, FsError, STATE};
use wink::ledger::{EffectLedger, InDoubt};
use wink::resource::{Binding, ResourceRegistry};
use wink::session::{Logbook, Session, SessionBuilder, SessionId};
use wink::store::{StoreError, StoreErrorKind, StoreLoss};
use wink::transaction::{AccessError, UndoError, UndoRequest, Undone, undo};

use crate::maintain::JournalMarks;
use crate::{Pruned, SqliteStore, StoreOptions};

/// A directory whose files, sessions and ledger change together or not at all, whatever happens to the process.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use wink::prelude::*;
/// use wink_store::Workspace;
///
/// # let dir = tempfile::tempdir()?;
/// let workspace = Workspace::open(dir.path())?;
/// let session = workspace.session("main").open().await?;
/// let prompt = PromptTemplate::builder("examples", "notes").build()?.prompt();
/// let executor = Executor::builder(&prompt, &session).resources(workspace.resources()).open().await?;
/// # let _ = executor;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Workspace {
    files: Arc<HostFilesystem>,
    store: Arc<SqliteStore>,
}

/// How a workspace is opened.
#[derive(Debug, Default)]
#[must_use]
pub struct WorkspaceOptions {
    /// Of its files. The store says what was committed, whatever stands here.
    pub files: HostOptions,
    /// Of its store.
    pub store: StoreOptions,
}

/// Why a workspace could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// Something else is where the runtime keeps its state.
    #[error("{path} is not a directory, and the runtime keeps its state there: move it away", path = path.display())]
    StateTaken {
        /// What is in the way.
        path: PathBuf,
    },
    /// Other users can write to the state directory, and this one may not forbid it.
    #[error(
        "other users can write to {path}, which says what the runtime restores and has done; have its owner run `chmod go-w` on it",
        path = path.display()
    )]
    StateShared {
        /// The state directory.
        path: PathBuf,
    },
    /// The directory cannot be used.
    #[error("the workspace {path} cannot be used: {source}", path = path.display())]
    Directory {
        /// The workspace.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its files could not be opened, or made whole.
    #[error(transparent)]
    Files(#[from] FsError),
    /// Its store could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Workspace {
    /// Opens a directory. What a process that died here left half-done is undone first, or finished where it was
    /// committed.
    ///
    /// # Errors
    /// When the directory is not there or cannot be written, or the store in it cannot be opened.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, WorkspaceError> {
        Self::open_with(root, WorkspaceOptions::default())
    }

    /// [`Workspace::open`] with other options.
    ///
    /// # Errors
    /// As [`Workspace::open`].
    pub fn open_with(root: impl AsRef<Path>, options: WorkspaceOptions) -> Result<Self, WorkspaceError> {
        let root = root.as_ref();
        let state = make_state(root)?;
        let store = match SqliteStore::open(&state, options.store.clone()) {
            Err(full) if full.kind == StoreErrorKind::NoSpace => {
                settle_files(root, &state, &options, &full);
                // That may have made room.
                SqliteStore::open(state, options.store)?
            }
            opened => opened?,
        };
        let store = Arc::new(store);
        let files = HostOptions { verdict: Some(store.verdict()?), ..options.files };
        let files = Arc::new(HostFilesystem::open(root, files)?);
        Ok(Self { files, store })
    }

    /// Its files.
    pub fn files(&self) -> &Arc<HostFilesystem> {
        &self.files
    }

    /// Its store.
    pub fn store(&self) -> &Arc<SqliteStore> {
        &self.store
    }

    /// The session of this name, to be opened.
    pub fn session(&self, name: impl Into<SessionId>) -> SessionBuilder {
        Session::builder().store(Arc::clone(&self.store) as _).id(name)
    }

    /// The log of the session of this name. Calls whose process died are given their event first.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let dir = tempfile::tempdir()?;
    /// let workspace = wink_store::Workspace::open(dir.path())?;
    /// let log = workspace.logbook("main").await?.entries().await?;
    /// assert!(log.is_empty(), "nothing has happened here");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// When the store cannot be read, or an event not be written.
    pub async fn logbook(&self, session: impl Into<SessionId>) -> Result<Logbook, StoreError> {
        self.store.logbook(session).await
    }

    /// Its files, as what tools work on.
    pub fn resources(&self) -> ResourceRegistry {
        ResourceRegistry::of([Binding::filesystem(Arc::clone(&self.files) as _)]).unwrap_or_default()
    }

    /// The ledger of all its sessions: what happened outside, and what may have.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use wink::ledger::Settlement;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let workspace = wink_store::Workspace::open(dir.path())?;
    /// for doubt in workspace.in_doubt().await? {
    ///     // Look into the books of the other side, then say so.
    ///     workspace.ledger().settle(&doubt.key, Settlement::DidNotHappen).await?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn ledger(&self) -> EffectLedger {
        EffectLedger::new(Arc::clone(&self.store) as _, Arc::clone(self.store.clock()))
    }

    /// The entries of the ledger of which nobody knows whether their effect happened, those of processes that died among
    /// them. They stay so until somebody [settles](EffectLedger::settle) them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn in_doubt(&self) -> Result<Vec<InDoubt>, StoreError> {
        self.ledger().in_doubt().await
    }

    /// Takes back what a past call of a session changed in files and slices, or everything to before it; see
    /// [`wink::transaction::undo`]. The session is one of this workspace.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use wink::prelude::*;
    /// use wink::suites::VfsToolsSection;
    /// use wink::transaction::{UndoForce, UndoReach, UndoRequest};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let workspace = wink_store::Workspace::open(dir.path())?;
    /// let session = workspace.session("main").open().await?;
    /// # let section = VfsToolsSection::new().over(workspace.files().clone()).section();
    /// # let prompt = PromptTemplate::builder("examples", "undo").section(section).build()?.prompt();
    /// # let executor = Executor::open(&prompt, &session).await?;
    /// let write = ToolCall::new("1", "write_file", r#"{"path": "a.txt", "content": "one"}"#);
    /// let call = executor.call(write).await.event.id;
    /// let request = UndoRequest { call, reach: UndoReach::Call, force: UndoForce::Refuse };
    /// let undone = workspace.undo(&session, request).await?;
    /// assert_eq!(undone.files[0].to_string(), "a.txt");
    /// assert!(!dir.path().join("a.txt").exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Whatever is the reason, everything is as it was before.
    pub async fn undo(&self, session: &Session, request: UndoRequest) -> Result<Undone, UndoError> {
        let resources = self.resources().open().await.map_err(AccessError::from)?;
        undo(session, &resources, request).await
    }

    /// Removes from the store what its [retention](crate::StoreRetention) does not keep. It is never done by itself.
    ///
    /// That a change was committed is forgotten only while nothing in the workspace is undecided: what somebody who died
    /// left is settled first, and nobody changes the workspace meanwhile.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let dir = tempfile::tempdir()?;
    /// let workspace = wink_store::Workspace::open(dir.path())?;
    /// let pruned = workspace.prune().await?;
    /// println!("{} effects, {} journals", pruned.effects, pruned.journals);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// When the workspace cannot be settled, or the store not be written.
    pub async fn prune(&self) -> Result<Pruned, WorkspaceError> {
        let (files, (send, settled)) = (Arc::clone(&self.files), oneshot::channel());
        // It may have to be waited for, and that is not for this thread.
        std::thread::Builder::new()
            .name("wink-prune".into())
            .spawn(move || drop(send.send(files.settle())))
            .map_err(|source| WorkspaceError::Directory { path: self.files.root().to_owned(), source })?;
        let ended = |_| StoreError::failed("prune", "the thread that waits for the workspace has ended");
        let settled = settled.await.map_err(ended)??;
        Ok(self.store.prune_with(JournalMarks::Go(settled)).await?)
    }

    /// Acknowledges that the store of the workspace at `root` has [lost](wink::store::Store::losses) commits, which the operator has
    /// looked into: from here on, tools with a key run again. A workspace whose files say that its database is an older one opens
    /// again, too: changes that the database does not know stay, and those that were undecided are taken back when it is next opened.
    /// Returns what was lost.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let dir = tempfile::tempdir()?;
    /// # drop(wink_store::Workspace::open(dir.path())?);
    /// for loss in wink_store::Workspace::acknowledge_losses(dir.path(), Default::default()).await? {
    ///     println!("{}", loss.what);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// When a call is running, in any process, or the store cannot be opened or written.
    pub async fn acknowledge_losses(
        root: impl AsRef<Path>,
        options: StoreOptions,
    ) -> Result<Vec<StoreLoss>, WorkspaceError> {
        let root = root.as_ref();
        let unusable = |source| WorkspaceError::Directory { path: root.to_owned(), source };
        let store = SqliteStore::open(root.join(STATE), options)?;
        let mut losses = store.acknowledge_losses().await?;
        let disk = Arc::new(HostDisk::open(root).map_err(unusable)?);
        let journal = Journal::new(disk, STATE, JournalOptions::default());
        let last = journal.and_then(|journal| journal.last_stored());
        let last = last.map_err(|error| StoreError::failed("acknowledge a loss", error.to_string()))?;
        if let Some(id) = last {
            losses.extend(store.take_over_journal(id).await?);
        }
        Ok(losses)
    }

    /// How what commands do is found out, if that was asked for when the workspace was opened. If not, it is by an overlay
    /// where one can be mounted and by a scan elsewhere; `wink_sandbox::tool::capture_of` tries that and says which.
    ///
    /// ```
    /// use wink::filesystem::host::{Capture, HostOptions};
    /// use wink_store::{Workspace, WorkspaceOptions};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let files = HostOptions { capture: Some(Capture::Scan), ..HostOptions::default() };
    /// let workspace = Workspace::open_with(dir.path(), WorkspaceOptions { files, ..Default::default() })?;
    /// assert_eq!(workspace.capture(), Some(Capture::Scan));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn capture(&self) -> Option<Capture> {
        self.files.capture()
    }

    /// What became of changes that a process that died had left undecided when this was opened.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let workspace = wink_store::Workspace::open(dir.path())?;
    /// assert_eq!(workspace.recovered(), Some(&Default::default()), "nobody had died here");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recovered(&self) -> Option<&Recovered> {
        self.files.recovered()
    }

    /// What happened here since, beside what was asked for, as [`HostFilesystem::take_report`] tells it. Whoever asks takes it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let workspace = wink_store::Workspace::open(dir.path())?;
    /// let report = workspace.report();
    /// println!("{} changes of others who died were taken back", report.rolled_back.len());
    /// # assert_eq!(report, Default::default());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report(&self) -> Recovered {
        self.files.take_report()
    }
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workspace").field("root", &self.files.root()).finish_non_exhaustive()
    }
}

/// Files are made whole without any space, but what the store writes when it is opened needs some. So what a dead process left in
/// them is settled by what can be read of the store, which is all of it.
fn settle_files(root: &Path, state: &Path, options: &WorkspaceOptions, full: &StoreError) {
    let WorkspaceOptions { files, store } = options;
    let settle = || -> Result<Recovered, WorkspaceError> {
        let verdict = Some(SqliteStore::verdict_in(state, store)?);
        let (lock_timeout, clock) = (files.lock_timeout, Arc::clone(&files.clock));
        let options = HostOptions { verdict, lock_timeout, clock, ..HostOptions::default() };
        Ok(HostFilesystem::open(root, options)?.recovered().cloned().unwrap_or_default())
    };
    match settle() {
        Ok(Recovered { kept, rolled_back, .. }) => {
            let (kept, rolled_back) = (kept.len(), rolled_back.len());
            tracing::warn!(%full, kept, rolled_back, "there is no space for the store; the files are whole");
        }
        Err(error) => {
            tracing::error!(%full, %error, "there is no space for the store, and the files are not made whole");
        }
    }
}

/// The state directory, made if it is not there. A link would lead the store out of the workspace.
fn make_state(root: &Path) -> Result<PathBuf, WorkspaceError> {
    let unusable = |source| WorkspaceError::Directory { path: root.to_owned(), source };
    let disk = HostDisk::open(root).map_err(unusable)?;
    let state = Path::new(STATE);
    match disk.make_dir(state, 0o700) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        made => made.map_err(unusable)?,
    }
    match disk.look(state).map_err(unusable)? {
        Some(entry) if entry.kind == EntryKind::Directory => {
            tighten(&disk, root, &entry)?;
            Ok(root.join(STATE))
        }
        Some(_) | None => Err(WorkspaceError::StateTaken { path: root.join(STATE) }),
    }
}

/// Keeps other users out of a state directory that they could write: what is in it may be open to them too.
fn tighten(disk: &HostDisk, root: &Path, state: &Entry) -> Result<(), WorkspaceError> {
    /// Group and others may write.
    const SHARED: u32 = 0o022;
    /// All rights of group and others.
    const OTHERS: u32 = 0o077;
    if state.meta.mode & SHARED == 0 {
        return Ok(());
    }
    let path = root.join(STATE);
    let is_own = state.meta.owner.is_some_and(|owner| owner.user == rustix::process::geteuid().as_raw());
    let private = Meta { mode: state.meta.mode & !OTHERS, ..state.meta };
    if !is_own || disk.set_meta(Path::new(STATE), private).is_err() {
        return Err(WorkspaceError::StateShared { path });
    }
    tracing::warn!(path = %path.display(), "other users could write to the state directory; they no longer can");
    Ok(())
}
