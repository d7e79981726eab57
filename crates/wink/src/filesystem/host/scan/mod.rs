//! Commands where there is no overlay: they work in the workspace itself, and what they did is found by looking.
//!
//! Before one begins, everything in the workspace is saved in a *baseline*, of which all that has not changed since the
//! last time is there already, and a *record* that says so is made durable. When the command is over, everything that
//! differs goes to the trash, by renames, and comes back from the baseline, by renames as well: the workspace is as it
//! was. What the command did is then in the trash, and becomes part of its fork from there, to be merged, or not, like
//! everything else in it. So a command is undone by forgetting it, as ever; and one that the process did not survive is
//! undone by whoever finds its record.
//!
//! The workspace lock is held all the while. Those who know nothing of locks can be told from the command by nobody: what
//! they change meanwhile is taken for the command's. If the call fails it is in the trash.

mod baseline;
mod capture;
mod guard;
mod index;
mod outside;
mod process;
mod restore;
mod trash;
mod walk;
mod written;

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use self::guard::{Guard, Spoilt};
use self::index::Index;
use self::restore::{Restored, restore};
use self::trash::Trash;
use self::walk::{Before, Tree, differing, walk};
use super::clear::remove_tree;
use super::command::too_deep;
use super::disk::{Disk, Replace};
use super::host_disk::{HostDisk, Lifting};
use super::journal::{Recovered, Retention, told};
use super::layer::{Expected, Layer, Planned, plan};
use super::lock::LockedWork;
use super::name::{listed, to_shown};
use super::plan::{PlanStep, Source};
use super::report::Report;
use super::staged::{Stage, make_dir};
use super::turn::TurnLock;
use super::{STATE, Shared, Writing, io_error};
use crate::filesystem::{EntryKind, FsError, FsPath, FsResult};
use crate::limits::CancelToken;
use crate::support::lock::lock;
use crate::support::steps::reach;

pub use process::{CommandMark, CommandProcesses, CommandRecord, ProcessTree};
pub(super) use trash::TrashDir;

/// What became of a command that was undone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undone {
    /// Where that is kept for a while which it had changed, or somebody else meanwhile; below the root.
    pub trash: Option<PathBuf>,
    /// What it removed that could not be brought back: sockets, and devices for want of privileges.
    pub lost: Vec<FsPath>,
}

/// What it takes to scan a workspace.
pub(super) struct Scanner {
    disk: Arc<HostDisk>,
    places: Places,
    trash: Trash,
    /// As it was last read or written.
    index: Mutex<Option<Index>>,
}

/// Where things are.
struct Places {
    dir: PathBuf,
    /// A copy of everything.
    copies: PathBuf,
    index: PathBuf,
    /// Is there while a command may be changing the workspace.
    record: PathBuf,
    /// What had to leave its place to show a command its fork.
    moved: PathBuf,
    /// Files with names outside the workspace, while it is restored.
    outside: PathBuf,
}

/// A command that works in the workspace. Dropping it undoes what the command did.
pub(super) struct Scan {
    fork: Arc<Shared>,
    /// What the fork was when this began, and what of its records was true.
    layer: Layer,
    held: Vec<Arc<Path>>,
    /// What the workspace was.
    before: Before,
    /// What the command was given.
    given: Option<Tree>,
    /// When it could begin, as the disk counts.
    began: i128,
    trash: Arc<TrashDir>,
    /// What the command must have left alone.
    guard: Guard,
    /// Whether the command is over.
    is_command_over: bool,
    is_over: bool,
    lock: TurnLock,
}

impl Scanner {
    pub(super) fn open(
        disk: &Arc<HostDisk>,
        stage: &Stage,
        retention: Retention,
        report: &Arc<Report>,
    ) -> io::Result<Self> {
        let dir = Path::new(STATE).join("baseline");
        let places = Places {
            copies: dir.join("tree"),
            index: dir.join("index"),
            record: dir.join("begun"),
            moved: dir.join("moved"),
            outside: dir.join("outside"),
            dir,
        };
        let trash = Trash::new(disk, stage.owner(), retention, report)?;
        Ok(Self { disk: Arc::clone(disk), places, trash, index: Mutex::new(None) })
    }

    /// Undoes a command whose process died, and says what was found. Whoever holds the lock may do so.
    pub(super) fn recover(&self) -> FsResult<Recovered> {
        let failed = failed(Path::new(""), "restored after a command whose process died");
        let Some(_) = self.disk.look(&self.places.record).map_err(&failed)? else {
            return Ok(Recovered::default());
        };
        let text = self.disk.read(&self.places.record).map_err(&failed)?;
        let line = text.iter().position(|byte| *byte == b'\n').and_then(|end| text.split_at_checked(end));
        let Some((name, processes)) = line.filter(|(name, _)| !name.is_empty()) else {
            // It was not finished, so nothing had begun.
            self.forget_record().map_err(&failed)?;
            return Ok(Recovered::default());
        };
        process::end_all(processes).map_err(&failed)?;
        let trash = self.trash.named(OsString::from_vec(name.to_vec()));
        make_dir(&self.disk, &trash.path()).map_err(&failed)?;
        let before = self.index()?.before();
        let restored = restore(&self.disk, &self.places, &before, &trash)?;
        self.end(&restored).map_err(&failed)?;
        Ok(Recovered { trash: vec![trash.path()], aside: restored.left, ..Recovered::default() })
    }

    /// Saves everything, and says durably that a command may begin.
    fn begin(&self, now: i64, cancel: &CancelToken) -> FsResult<(Before, Arc<TrashDir>)> {
        let failed = failed(Path::new(""), "prepared for a command");
        let mut index = self.index()?;
        // What fails half-way is looked for on disk the next time.
        let refreshed = baseline::refresh(&self.disk, &self.places, &mut index, cancel);
        refreshed?;
        let before = index.before();
        *lock(&self.index) = Some(index);
        reach("scan.baseline-ready");
        let trash = self.trash.fresh(now).map_err(&failed)?;
        let mut text = trash.name().as_bytes().to_vec();
        text.push(b'\n');
        self.disk.create(&self.places.record, &text, 0o600).map_err(&failed)?;
        let synced =
            self.disk.sync_file(&self.places.record).and_then(|()| self.disk.sync_dir(&self.places.dir));
        synced.map_err(&failed)?;
        Ok((before, trash))
    }

    /// The index: what is known of it, if nobody else wrote it meanwhile.
    fn index(&self) -> FsResult<Index> {
        self.known_index().map_err(failed(Path::new(""), "restored: what was saved of it"))
    }

    fn known_index(&self) -> io::Result<Index> {
        let known = lock(&self.index).take();
        match known {
            Some(index) if index.is_current(&self.disk, &self.places.index)? => Ok(index),
            _ => Index::load(&self.disk, &self.places.index),
        }
    }

    /// Ends what is left of the command.
    fn end_processes(&self) -> io::Result<()> {
        if self.disk.look(&self.places.record)?.is_none() {
            return Ok(());
        }
        let text = self.disk.read(&self.places.record)?;
        let name = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
        process::end_all(text.get(name..).unwrap_or_default())
    }

    /// The workspace is as it was.
    fn end(&self, restored: &Restored) -> io::Result<()> {
        if !restored.forgotten.is_empty() {
            let mut index = self.known_index()?;
            index.forget(&self.disk, &self.places.index, &restored.forgotten)?;
            *lock(&self.index) = Some(index);
        }
        self.forget_record()?;
        for left in [&self.places.moved, &self.places.outside] {
            // Nobody needs it, and whoever is next tries again.
            if let Err(error) = remove_tree(&*self.disk, left) {
                tracing::warn!(%error, left = %left.display(), "what a command was shown could not be removed");
            }
        }
        reach("scan.over");
        Ok(())
    }

    fn forget_record(&self) -> io::Result<()> {
        self.disk.unlink(&self.places.record)?;
        self.disk.sync_dir(&self.places.dir)
    }

    /// There are no copies any more: nothing is to be restored from them, nor taken for saved.
    fn forget_all(&self) {
        *lock(&self.index) = None;
        for path in [&self.places.record, &self.places.index] {
            match self.disk.unlink(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::error!(%error, path = %path.display(), "what is known of a command could not be forgotten")
                }
                Ok(()) => {}
            }
        }
    }

    /// Waits until the disk's clock, which goes in steps, shows a later time than now: so what changes from here on has
    /// another time than what was looked at. Says which.
    fn let_time_pass(&self) -> io::Result<i128> {
        const ENOUGH: usize = 50_000;
        let look = || io::Result::Ok(self.disk.look(&self.places.record)?.ok_or(io::ErrorKind::NotFound)?);
        let first = look()?;
        for _ in 0..ENOUGH {
            self.disk.set_meta(&self.places.record, first.meta)?;
            let now = look()?.changed;
            if now > first.changed {
                return Ok(now);
            }
            std::thread::yield_now();
        }
        Ok(first.changed)
    }
}

impl Scan {
    /// Where the command's processes are written down.
    pub(super) fn record(&self) -> FsResult<CommandRecord> {
        let base = &self.fork.base;
        Ok(CommandRecord::new(&base.disk, base.writing()?.scanner.places.record.clone()))
    }

    /// Shows the workspace as the fork has it to a command, unless that is cancelled before everything is saved.
    pub(super) fn begin(fork: &Arc<Shared>, layer: Layer, cancel: &CancelToken) -> FsResult<Self> {
        let base = &fork.base;
        let mut lock = fork.locked(cancel)?;
        let writing = base.writing()?;
        let lifting = writing.lifting()?;
        let planned = plan(&base.disk, &writing.stage, &layer)?;
        let mut held = Vec::new();
        for (place, expected) in &layer.records {
            let found = base.disk.look(place).map_err(failed(place, "looked at"))?;
            if expected.holds(found.as_ref()) {
                held.push(Arc::clone(place));
            }
        }
        let scanner = &writing.scanner;
        lock.note(Some(LockedWork::Command));
        let (before, trash) = scanner.begin(base.clock.now().as_millisecond(), cancel)?;
        let mut scan = Self {
            fork: Arc::clone(fork),
            layer,
            held,
            before,
            given: None,
            began: 0,
            trash,
            guard: Guard::default(),
            is_command_over: false,
            is_over: false,
            lock,
        };
        reach("scan.begun");
        let given = scan.give(&scanner.places, &planned);
        let prepared = failed(Path::new(""), "prepared for a command");
        // The command sees the modes that entries are to have. They are put back before the scan, and with it the lock, can go.
        lifting.end().map_err(&prepared)?;
        scan.given = given?;
        scan.began = scanner.let_time_pass().map_err(&prepared)?;
        scan.guard = Guard::look(&base.disk, &base.root, &scanner.places.copies).map_err(prepared)?;
        Ok(scan)
    }

    /// Makes the workspace what the fork is. Says what is there then, unless that is what was there before.
    fn give(&self, places: &Places, planned: &Planned) -> FsResult<Option<Tree>> {
        if planned.plan.steps.is_empty() {
            return Ok(None);
        }
        self.show(places, planned)?;
        let given = walk(&self.fork.base.disk)?;
        reach("scan.fork-shown");
        Ok(Some(given))
    }

    fn show(&self, places: &Places, planned: &Planned) -> FsResult<()> {
        let disk = &self.fork.base.disk;
        remove_tree(&**disk, &places.moved)
            .and_then(|()| disk.make_dir(&places.moved, 0o700))
            .map_err(failed(Path::new(""), "prepared for a command"))?;
        for step in &planned.plan.steps {
            let shown = match step {
                PlanStep::Take { path, slot } => {
                    disk.rename(path, &places.moved.join(slot.to_string()), Replace::Refused)
                }
                PlanStep::Put { path, from: Source::Taken(slot), .. } => {
                    disk.rename(&places.moved.join(slot.to_string()), path, Replace::Allowed)
                }
                PlanStep::Put { path, from: Source::Staged(staged), .. } => self.put(places, path, staged),
                PlanStep::Meta { path, meta } => disk.set_meta(path, *meta),
            };
            let path = match step {
                PlanStep::Take { path, .. } | PlanStep::Put { path, .. } | PlanStep::Meta { path, .. } => {
                    path
                }
            };
            shown.map_err(failed(path, "prepared for a command"))?;
        }
        Ok(())
    }

    /// A copy: what is staged belongs to every fork that knows it.
    fn put(&self, places: &Places, path: &Path, staged: &Path) -> io::Result<()> {
        let disk = &self.fork.base.disk;
        match disk.look(staged)?.map(|entry| (entry.kind, entry.meta)) {
            Some((EntryKind::Directory, meta)) => {
                disk.make_dir(path, meta.mode)?;
                disk.set_meta(path, meta)
            }
            _ => {
                let copy = places.moved.join("copy");
                disk.copy(staged, &copy)?;
                disk.rename(&copy, path, Replace::Allowed)
            }
        }
    }

    /// Restores the workspace. What the command did is the fork's then, as the layer that this gives back.
    pub(super) fn finish(mut self) -> FsResult<Layer> {
        reach("scan.command-over");
        let base = Arc::clone(&self.fork.base);
        let writing = base.writing()?;
        let lifting = self.lifting(writing)?;
        let mut layer = self.taken_over()?;
        writing.end_lifting(lifting, &mut layer)?;
        Ok(layer)
    }

    fn taken_over(&mut self) -> FsResult<Layer> {
        let (restored, spoilt) = self.restore()?;
        spoilt.check()?;
        self.check_whole(&restored)?;
        let base = &self.fork.base;
        let before = self.given.as_ref().unwrap_or(&self.before.tree);
        let differences = capture::differences(before, &restored, self.began);
        capture::tidy(base, before, &restored.found, differences.as_ref().ok(), &self.trash);
        let refused = |error| and_where(error, &self.trash);
        let differences = differences.map_err(refused)?;
        if restored.is_too_deep {
            return Err(refused(too_deep()));
        }
        if !restored.is_kept {
            return Err(refused(FsError::Io {
                path: FsPath::root(),
                kind: io::ErrorKind::StorageFull,
                message: "there was no space left to take over what the command did, so it is undone"
                    .to_owned(),
            }));
        }
        let mut layer = self.layer.clone();
        for place in &self.held {
            let found = base.disk.look(place).map_err(failed(place, "looked at"))?;
            let expected = match (layer.records.get(place), &found) {
                (Some(Expected::Directory { .. }), Some(entry)) => Expected::movable(entry),
                _ => Expected::exactly(found.as_ref()),
            };
            layer.records.insert(Arc::clone(place), expected);
        }
        capture::capture(base, &mut layer, &differences, &restored.lost, &self.trash).map_err(refused)?;
        Ok(layer)
    }

    /// Restores the workspace, and forgets what the command did.
    pub(super) fn undo(mut self) -> FsResult<Undone> {
        let (restored, spoilt) = self.restore()?;
        let before = self.given.as_ref().unwrap_or(&self.before.tree);
        capture::tidy(&self.fork.base, before, &restored.found, None, &self.trash);
        spoilt.check_lost()?;
        self.check_whole(&restored)?;
        let left = self.trash.clear().map_err(failed(Path::new(""), "restored: the trash of it"))?;
        Ok(Undone {
            trash: (left > 0).then(|| self.trash.path()),
            lost: restored.lost.iter().map(|path| to_shown(path)).collect(),
        })
    }

    /// Lifts modes. The first time, a record of lifted modes that is there is the command's, and not one of a dead process.
    fn lifting<'w>(&mut self, writing: &'w Writing) -> FsResult<Lifting<'w>> {
        if self.is_command_over {
            return writing.lifting();
        }
        let lifting = writing.disk.lifting_anew();
        let lifting = lifting.map_err(failed(Path::new(""), "restored after a command"))?;
        self.is_command_over = true;
        Ok(lifting)
    }

    /// Makes the workspace what it was before the command. Says what the command did to the runtime's own state.
    fn restore(&mut self) -> FsResult<(Restored, Spoilt)> {
        let base = Arc::clone(&self.fork.base);
        let writing = base.writing()?;
        let scanner = &writing.scanner;
        let _lifting = self.lifting(writing)?;
        // A command may have closed the root, or the state directory: this opens them.
        let _ = base.disk.look(&scanner.places.record);
        // The record of its processes is there, too.
        let spoilt = self.guard.put_back(&base.disk, &base.root);
        if spoilt.has_lost(&scanner.places.copies) {
            // What there is no copy of is left as it is: nothing better comes in its place.
            scanner.forget_all();
            self.is_over = true;
            self.lock.note(None);
            return Err(spoilt.unsaved(&differing(&base.disk, &self.before.tree)));
        }
        let restored = scanner
            .end_processes()
            .map_err(failed(Path::new(""), "restored after a command"))
            .and_then(|()| restore(&base.disk, &scanner.places, &self.before, &self.trash))
            .and_then(|restored| {
                let ended = scanner.end(&restored);
                ended.map_err(failed(Path::new(""), "restored after a command")).map(|()| restored)
            })
            .map_err(not_yet)?;
        self.is_over = true;
        self.lock.note(None);
        base.writing()?.report.aside(restored.left.clone());
        Ok((restored, spoilt))
    }

    /// A workspace in which something is somebody else's by now is not as it was, and nobody can tell what of it a command did;
    /// nor is one of which the command spoilt what was saved.
    fn check_whole(&self, restored: &Restored) -> FsResult<()> {
        let left: Vec<FsPath> = restored.left.iter().map(|left| to_shown(&left.path)).collect();
        if let Some(first) = left.first() {
            let reason = format!(
                "'{first}': while the command ran somebody with other rights put something here, or mounted it, and only they \
                 can take it away. Everything else is as it was before{}",
                told(&restored.left)
            );
            return Err(FsError::NotUndone { left, reason });
        }
        // Of the others there is no copy.
        let is_saved =
            |path: &&PathBuf| self.before.tree.get(*path).is_some_and(|known| known.kind != EntryKind::Other);
        let lost: Vec<PathBuf> = restored.lost.iter().filter(is_saved).cloned().collect();
        if lost.is_empty() {
            return Ok(());
        }
        let reason = format!(
            "the command removed what was saved of {} before it began, so that cannot be brought back; restore it from a copy \
             of your own. What the command left is kept for a while in {}",
            listed(&lost),
            self.trash.path().display()
        );
        Err(FsError::NotUndone { left: lost.iter().map(|path| to_shown(path)).collect(), reason })
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        match self.restore() {
            Ok((restored, _)) => {
                let before = self.given.as_ref().unwrap_or(&self.before.tree);
                capture::tidy(&self.fork.base, before, &restored.found, None, &self.trash);
            }
            Err(error) => {
                tracing::error!(%error, "a command could not be undone; the next to change the workspace will try again");
            }
        }
    }
}

/// A restore that failed, and is tried again.
fn not_yet(error: FsError) -> FsError {
    let reason = format!(
        "{error}. What the command did is not undone, or not all of it; that is tried again when the workspace is next opened or \
         changed"
    );
    FsError::NotUndone { left: Vec::new(), reason }
}

/// Says where what a command left is, if it is not taken over.
fn and_where(error: FsError, trash: &TrashDir) -> FsError {
    match error {
        FsError::Io { path, kind, message } => {
            let trash = trash.path();
            let message = format!("{message}. What it left is kept for a while in {}", trash.display());
            FsError::Io { path, kind, message }
        }
        other => other,
    }
}

/// What the system refused, about a path.
fn failed(path: &Path, what: &'static str) -> impl Fn(io::Error) -> FsError {
    let path = to_shown(path);
    move |error| io_error(&path, what, &error)
}
