//! The workspace on disk: a directory, forks that never touch it before they are merged, and the journal that makes
//! a merge all or nothing.
//!
//! A fork is a *layer* over the live directory: what it wrote is staged in files of its own, and everything else shows
//! through as it is now. So what others do to files that the fork has not changed is seen, and what they do to those
//! that it has is a conflict when it is merged. The runtime's own state is in `.wink` at the root, which nobody sees.
//!
//! No operation ever follows a link out of the root, and none opens what is neither file nor directory.

mod change;
mod clear;
mod command;
pub mod disk;
mod fork;
mod guard;
mod host_disk;
pub mod journal;
mod layer;
mod lock;
mod look;
mod name;
mod operations;
mod owner;
mod past;
mod past_changes;
pub mod plan;
mod report;
mod resolve;
mod scan;
mod search;
mod settled;
mod snapshot;
mod staged;
mod turn;
mod view;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::disk::Disk;
use self::guard::Guarded;
use self::journal::{Journal, JournalOptions, Recovered, Retention, SettledBy};
use self::layer::Layer;
use self::report::Report;
use self::scan::Scanner;
use self::staged::Stage;
use self::turn::TurnSlot;
use super::{Filesystem, FsError, FsLimits, FsPath, FsResult, Resolutions, STATE};
use crate::limits::{Clock, SystemClock};
use crate::store::{JournalId, StoreError};
use crate::support::lock::lock;

pub use command::{Capture, CommandLayer, OverlayDirs};
pub use guard::{GuardRule, PathGuard};
pub use host_disk::HostDisk;
pub use lock::{LockHolder, LockedWork, WorkspaceLock};
pub(crate) use name::named_path;
pub use name::quoted_path;
pub use owner::{Owner, Owners};
pub use past_changes::{ChangeKind, PastChange, PastChanges, PastContent, PastEntry};
pub use scan::{CommandMark, CommandProcesses, CommandRecord, ProcessTree, Undone};
pub use settled::AllSettled;

/// A directory of the machine as a workspace, or a fork of one.
///
/// ```
/// use wink::filesystem::FilesystemExt;
/// use wink::filesystem::host::{HostFilesystem, HostOptions};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # let dir = tempfile::tempdir()?;
/// let files = HostFilesystem::open(dir.path(), HostOptions::default())?;
/// # runtime.block_on(async {
/// files.write_text("notes/a.txt", "one\n").await?;
/// assert_eq!(std::fs::read_to_string(dir.path().join("notes/a.txt"))?, "one\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HostFilesystem {
    shared: Arc<Shared>,
}

/// How a workspace is opened.
pub struct HostOptions {
    /// The limits that paths, writes and searches are held to.
    pub limits: FsLimits,
    /// Refuses every change. Then no state directory is made either.
    pub read_only: bool,
    /// How long what was changed can be brought back.
    pub retention: Retention,
    /// Knows whether a journal was committed, where a store decides about that: asked when a process died between the
    /// one and the other. Without it, what was not marked as kept is rolled back; where a store decides, opening fails.
    pub verdict: Option<Arc<HostVerdict>>,
    /// How what commands do is found out; nothing means by an overlay where there can be one, and by a scan elsewhere.
    pub capture: Option<Capture>,
    /// How long that is kept which a scan takes out of the workspace when a command is undone.
    pub trash: Retention,
    /// Which paths are refused to file tools and commands.
    pub guard: PathGuard,
    /// How long whoever opens or changes the workspace waits for others who change it, commands among them that run
    /// without an overlay. Then the error says who has it, and a call is rolled back.
    pub lock_timeout: Duration,
    /// Gives new directories and journals their times.
    pub clock: Arc<dyn Clock>,
    /// Does without `openat2`, as on a kernel that does not have it.
    #[doc(hidden)]
    pub walk: bool,
}

/// Whether a journal was committed.
pub type HostVerdict = dyn Fn(&JournalId) -> Result<bool, StoreError> + Send + Sync;

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            limits: FsLimits::DEFAULT,
            read_only: false,
            retention: JournalOptions::default().retention,
            verdict: None,
            capture: None,
            trash: Retention::Last(20),
            guard: PathGuard::default(),
            lock_timeout: Duration::from_secs(60),
            clock: Arc::new(SystemClock),
            walk: false,
        }
    }
}

impl fmt::Debug for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostOptions")
            .field("limits", &self.limits)
            .field("read_only", &self.read_only)
            .field("retention", &self.retention)
            .field("capture", &self.capture)
            .field("trash", &self.trash)
            .field("guard", &self.guard)
            .field("lock_timeout", &self.lock_timeout)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for HostFilesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFilesystem").field("root", &self.shared.base.root).finish_non_exhaustive()
    }
}

/// What all forks of a workspace share.
struct Base {
    root: PathBuf,
    disk: Arc<HostDisk>,
    limits: FsLimits,
    capture: Option<Capture>,
    clock: Arc<dyn Clock>,
    umask: u32,
    /// None when the workspace is only looked at.
    writing: Option<Writing>,
}

/// What it takes to change a workspace.
struct Writing {
    disk: Arc<HostDisk>,
    stage: Arc<Stage>,
    journal: Arc<Journal>,
    scanner: Scanner,
    verdict: Option<Arc<HostVerdict>>,
    lock_timeout: Duration,
    /// What whoever has the lock writes down.
    noted: File,
    clock: Arc<dyn Clock>,
    /// What was found when the workspace was opened.
    recovered: Recovered,
    /// What was found since.
    report: Arc<Report>,
    /// Held while the workspace itself, not a fork, is changed: so such changes never meet.
    turn: Mutex<()>,
}

/// A workspace or a fork.
struct Shared {
    base: Arc<Base>,
    instance: u64,
    fork: Option<Arc<Fork>>,
    /// What its forks, and it, do not change.
    guarded: Guarded,
    /// What the policies of the call met that this is for.
    held: Option<Arc<Resolutions>>,
    shown: Shown,
}

/// Where commands see the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Where it is.
    InPlace,
    /// At [`SHOWN_AT`](super::SHOWN_AT), in a sandbox.
    AtWorkspace,
}

struct Fork {
    /// The workspace or fork that this was made from.
    origin: u64,
    nested: bool,
    /// Whether the operator took changes back in it: those are not the guard's to judge when it is merged.
    by_operator: AtomicBool,
    state: Mutex<ForkState>,
    /// Where the write turn is, if the call of this fork has it.
    turn: Mutex<Arc<TurnSlot>>,
}

struct ForkState {
    layer: Layer,
    /// What it was made from.
    start: Layer,
}

impl HostFilesystem {
    /// Opens a directory as a workspace. What a process that died here left undecided is settled first.
    pub fn open(root: impl AsRef<Path>, options: HostOptions) -> FsResult<Self> {
        let root = root.as_ref();
        let failed = |error: io::Error| io_error(&FsPath::root(), "opened", &error);
        let disk = if options.walk { HostDisk::open_walking(root) } else { HostDisk::open(root) };
        let disk = Arc::new(disk.map_err(failed)?);
        let writing = match options.read_only {
            true => None,
            false => Some(Writing::open(&disk, &options)?),
        };
        let base = Base {
            root: std::path::absolute(root).map_err(failed)?,
            disk,
            limits: options.limits,
            capture: options.capture,
            clock: options.clock,
            umask: umask(),
            writing,
        };
        let (base, guarded) = (Arc::new(base), Guarded::new(options.guard));
        let shared =
            Shared { base, instance: instance(), fork: None, guarded, held: None, shown: Shown::InPlace };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The host filesystem that `files` is, if it is one.
    pub fn of(files: &dyn Filesystem) -> Option<&Self> {
        files.as_any().downcast_ref()
    }

    /// What became of changes that a process that died had left undecided when this was opened.
    pub fn recovered(&self) -> Option<&Recovered> {
        self.shared.base.writing.as_ref().map(|writing| &writing.recovered)
    }

    /// What happened here since this was opened, or since somebody last asked, beside what was asked for: what became of
    /// changes that another process had left undecided when it died; what was left as somebody else had changed it when a
    /// change was taken back, and where that is which had been there; and where that is which was found after a command of
    /// a dead process. Whoever asks takes it; of what nobody asks for, the last thousand of each kind are kept.
    ///
    /// A call of which something was left so says so itself, too ([`FsError::LeftAlone`]).
    ///
    /// ```
    /// # use wink::filesystem::host::{HostFilesystem, HostOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let files = HostFilesystem::open(dir.path(), HostOptions::default())?;
    /// for left in files.take_report().aside {
    ///     println!("{} was left as somebody changed it; before: {:?}", left.path.display(), left.aside);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_report(&self) -> Recovered {
        self.shared.base.writing.as_ref().map_or_else(Recovered::default, |writing| writing.report.take())
    }

    /// Does something while nothing is half-done in the workspace: what a dead process left is settled, and no command works
    /// in it and nobody commits meanwhile.
    ///
    /// # Errors
    /// When the workspace cannot be changed, or others did not let go of it in time ([`HostOptions::lock_timeout`]).
    pub fn at_rest<T>(&self, act: impl FnOnce() -> T) -> FsResult<T> {
        let base = &self.shared.base;
        let _lock = base.writing()?.settled(&base.disk)?;
        Ok(act())
    }

    /// The same workspace for tools whose commands see it at [`SHOWN_AT`](super::SHOWN_AT), as sandboxes show it: there
    /// `/workspace/a` is the file `a`, for the tools themselves, for policies and for guarded paths.
    ///
    /// ```
    /// use wink::filesystem::host::{HostFilesystem, HostOptions};
    /// use wink::filesystem::FilesystemExt;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let files = HostFilesystem::open(dir.path(), HostOptions::default())?;
    /// assert_eq!(files.path("/workspace/a")?.as_str(), "workspace/a");
    /// assert_eq!(files.shown_at_workspace()?.path("/workspace/a")?.as_str(), "a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When this is a fork.
    pub fn shown_at_workspace(&self) -> FsResult<Self> {
        let Shared { base, instance, fork, guarded, held, .. } = &*self.shared;
        if fork.is_some() {
            return Err(FsError::Unsupported { operation: "showing a fork elsewhere" });
        }
        let (base, guarded, held) = (Arc::clone(base), guarded.clone(), held.clone());
        let shown = Shown::AtWorkspace;
        let shared = Shared { base, instance: *instance, fork: None, guarded, held, shown };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The directory that is the workspace.
    pub fn root(&self) -> &Path {
        &self.shared.base.root
    }
}

impl Writing {
    fn open(disk: &Arc<HostDisk>, options: &HostOptions) -> FsResult<Self> {
        let state = Path::new(STATE);
        let failed = |error: io::Error| io_error(&FsPath::root(), "opened", &error);
        staged::make_dir(disk, state).map_err(failed)?;
        match disk.create(&state.join(".gitignore"), b"*\n", 0o644) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => result.map_err(failed)?,
        }
        let stage = Stage::open(disk).map_err(failed)?;
        let journal = JournalOptions {
            retention: options.retention,
            settled_by: if options.verdict.is_some() { SettledBy::Store } else { SettledBy::Journal },
            clock: Arc::clone(&options.clock),
            pins: Some(Arc::clone(&stage) as _),
        };
        let shared: Arc<dyn Disk> = Arc::clone(disk) as _;
        let journal = Journal::new(shared, state, journal).map_err(|error| fork::journal_error(&error))?;
        let report = Arc::new(Report::default());
        let scanner = Scanner::open(disk, &stage, options.trash, &report).map_err(failed)?;
        let mut writing = Self {
            disk: Arc::clone(disk),
            stage,
            journal: Arc::new(journal),
            scanner,
            verdict: options.verdict.clone(),
            lock_timeout: options.lock_timeout,
            noted: disk.open_or_create(&fork::lock_path(), 0o644).map_err(failed)?,
            clock: Arc::clone(&options.clock),
            recovered: Recovered::default(),
            report,
            turn: Mutex::new(()),
        };
        // The holder of a write turn has recovered the workspace, and checked its store.
        let Some(mut lock) = writing.lock_unless_whole(disk)? else { return Ok(writing) };
        if let Some(verdict) = &options.verdict {
            writing.journal.check_store(&**verdict).map_err(|error| fork::journal_error(&error))?;
        }
        writing.recover(&mut lock)?;
        writing.recovered = writing.report.take();
        Ok(writing)
    }
}

impl Base {
    fn writing(&self) -> FsResult<&Writing> {
        self.writing.as_ref().ok_or(FsError::ReadOnly)
    }

    fn now(&self) -> i128 {
        self.clock.now().as_nanosecond()
    }
}

impl Shared {
    /// What it has changed.
    fn layer(&self) -> Layer {
        let layer = self.fork.as_ref().map_or_else(Layer::default, |fork| lock(&fork.state).layer.clone());
        layer.held_to(self.held.as_ref())
    }

    /// The same, for a call whose policies meet what is noted here.
    fn held_to(&self, seen: &Arc<Resolutions>) -> Self {
        Self {
            base: Arc::clone(&self.base),
            instance: self.instance,
            fork: self.fork.clone(),
            guarded: self.guarded.clone(),
            held: Some(Arc::clone(seen)),
            shown: self.shown,
        }
    }
}

/// A number that tells workspaces and forks of this process apart.
fn instance() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What the system refused, in words for whoever asked.
fn io_error(path: &FsPath, what: &str, error: &io::Error) -> FsError {
    if search::is_link(error) {
        // The disk is asked for places without links only: one has come into this since it was resolved.
        return FsError::Conflict { paths: vec![path.clone()] };
    }
    let message = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("it cannot be {what}: permission denied; this process has no right to it")
        }
        _ => format!("it cannot be {what}: {error}"),
    };
    FsError::Io { path: path.clone(), kind: error.kind(), message }
}

/// The bits that new files do not get. Asking the kernel for it would set it, so this reads what it says.
fn umask() -> u32 {
    const USUAL: u32 = 0o022;
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return USUAL };
    let found = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    found.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(USUAL)
}
