//! Lifting modes: what this user owns, and its own mode closes to them.
//!
//! A command may leave a directory that its owner may not write, or not even look into (`chmod 555`, `chmod 000`), and files that they
//! may not read. While a thread is *lifting* ([`HostDisk::lifting`]), an operation that the system refuses for that reason gives the
//! directories on its way, or the entry itself, the missing bits and is tried again. Everything that looks at them meanwhile sees the
//! mode that they are to have, and setting a mode sets that one. When the lifting is over they get it.
//!
//! So that a kill in between loses no mode, each is written down, durably, before it is lifted ([`RECORD`]): the thread that lifts next,
//! having the workspace lock, takes over what the dead one had lifted.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::ThreadId;

use rustix::fs::{AtFlags, Mode, OFlags, RawMode, fchmod, fstat, fsync, openat, statat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{HostDisk, SAFELY, set_mode};
use crate::filesystem::EntryKind;
use crate::filesystem::host::STATE;
use crate::filesystem::host::disk::{Disk, Entry};
use crate::filesystem::host::journal::bytes;
use crate::support::lock::lock;
use crate::support::steps::reach;

/// Where lifted modes are written down, in the state directory.
const RECORD: &str = "lifted";

/// What the owner of a directory needs to look into it and change it.
const DIR_BITS: u32 = 0o700;
/// What the owner of a file needs to read it, and to set its attributes.
const FILE_BITS: u32 = 0o600;

/// Which threads lift, and what they have lifted.
#[derive(Debug, Default)]
pub(super) struct Lifts {
    scopes: Mutex<HashMap<ThreadId, Scope>>,
    /// How many there are: mostly none.
    count: AtomicUsize,
}

/// What one thread has lifted.
#[derive(Debug)]
struct Scope {
    /// How often the thread asked for it.
    depth: usize,
    within: Within,
    /// By device and inode.
    lifted: HashMap<(u64, u64), Lift>,
    /// The record, once something is in it.
    record: Option<File>,
    /// Whether the record was forged, before it was emptied.
    is_forged: bool,
}

/// What may be lifted.
#[derive(Debug)]
enum Within {
    /// Everything, and it is written down. The thread has the workspace lock.
    Workspace,
    /// The same, and a record that is there counts for nothing.
    Command,
    /// What is below this directory of the state, which goes if the process dies.
    State(PathBuf),
}

#[derive(Debug, Clone)]
struct Lift {
    /// Where it is, or was: renames and second names add to them.
    places: Vec<PathBuf>,
    /// The mode that it has on disk.
    found: u32,
    /// The mode that it is to have.
    mode: u32,
    /// When its inode last changed before it was lifted, and by that.
    changed: (i128, i128),
    /// How many names it had. Those that are no places of it are looked for when it is in none of them.
    links: u64,
}

impl Within {
    /// The directory that everything is below.
    fn top(&self) -> PathBuf {
        match self {
            Self::Workspace | Self::Command => PathBuf::new(),
            Self::State(dir) => dir.clone(),
        }
    }
}

impl Lift {
    fn has_other_names(&self) -> bool {
        self.links > 1
    }

    fn is(&self, (dev, ino): (u64, u64), entry: &Entry) -> bool {
        (entry.dev, entry.ino, entry.meta.mode) == (dev, ino, self.found)
    }
}

/// A line of the record. Of an inode that is there more than once, the last line says the modes, and all of them where it may be.
#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(with = "bytes")]
    path: PathBuf,
    dev: u64,
    ino: u64,
    found: u32,
    mode: u32,
    #[serde(default)]
    links: u64,
}

/// As long as it lives, this thread lifts. Then what was lifted gets its mode back.
#[must_use = "modes are lifted only as long as this lives"]
pub(in super::super) struct Lifting<'a> {
    disk: &'a HostDisk,
    thread: ThreadId,
    is_over: bool,
}

impl HostDisk {
    /// Lets this thread do what only the modes of entries that this user owns forbid. It must have the workspace lock. What a thread
    /// that died had lifted counts as lifted by this one.
    pub(in super::super) fn lifting(&self) -> io::Result<Lifting<'_>> {
        self.lift_within(Within::Workspace)
    }

    /// The same below a directory of the state that nothing is recovered from. This takes no lock.
    pub(in super::super) fn lifting_below(&self, dir: &Path) -> io::Result<Lifting<'_>> {
        self.lift_within(Within::State(dir.to_owned()))
    }

    /// As [`HostDisk::lifting`] after a command that worked in the workspace, during which no thread lifted anything: a record that is
    /// there is forged. It counts for nothing, and goes.
    pub(in super::super) fn lifting_anew(&self) -> io::Result<Lifting<'_>> {
        let lifting = self.lift_within(Within::Command)?;
        Ok(lifting)
    }

    /// The record, if it is one that the command wrote.
    pub(in super::super) fn forged_record(&self) -> Option<PathBuf> {
        let path = Path::new(STATE).join(RECORD);
        let is_ours = self.lifts.with(|scope| scope.record.is_some() && !scope.is_forged)?;
        let is_there = self.look(&path).is_ok_and(|found| found.is_some());
        (!is_ours && is_there).then_some(path)
    }

    fn lift_within(&self, within: Within) -> io::Result<Lifting<'_>> {
        let thread = std::thread::current().id();
        let lifting = Lifting { disk: self, thread, is_over: false };
        let is_recorded = matches!(within, Within::Workspace);
        match self.lifts.lock().entry(thread) {
            std::collections::hash_map::Entry::Occupied(mut scope) => {
                scope.get_mut().depth += 1;
                return Ok(lifting);
            }
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(Scope {
                    depth: 1,
                    within,
                    lifted: HashMap::new(),
                    record: None,
                    is_forged: false,
                });
                self.lifts.count.fetch_add(1, Ordering::Relaxed);
            }
        }
        if is_recorded {
            self.take_over()?;
        }
        Ok(lifting)
    }

    /// Whether its own mode closes it to this user, who owns it: a directory to changes, a file to readers.
    pub(in super::super) fn is_closed(&self, entry: &Entry) -> bool {
        let we = rustix::process::geteuid();
        let needed = match entry.kind {
            EntryKind::Directory => DIR_BITS,
            EntryKind::File => FILE_BITS & 0o444,
            EntryKind::Symlink | EntryKind::Other => return false,
        };
        entry.meta.mode & needed != needed
            && !we.is_root()
            && entry.meta.owner.is_some_and(|owner| owner.user == we.as_raw())
    }

    /// Does it, though modes of what this user owns are in the way, if this thread lifts. `paths` are what it is done to.
    pub(in super::super) fn opened<T>(
        &self,
        paths: &[&Path],
        act: impl Fn() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match act() {
                Err(error)
                    if Errno::from_io_error(&error) == Some(Errno::ACCESS) && self.open_up(paths)? => {}
                done => return done,
            }
        }
    }

    /// What an entry looks like with the mode that it is to have.
    pub(super) fn as_if_not_lifted(&self, entry: Entry) -> Entry {
        let found = self.lifts.with(|scope| scope.lifted.get(&(entry.dev, entry.ino)).cloned());
        let Some(lift) = found.flatten().filter(|lift| lift.found == entry.meta.mode) else { return entry };
        let (was, is) = lift.changed;
        let changed = if entry.changed == is { was } else { entry.changed };
        let meta = crate::filesystem::host::disk::Meta { mode: lift.mode, ..entry.meta };
        Entry { meta, changed, ..entry }
    }

    /// Says that something lifted is to have another mode. Whether it is lifted.
    pub(super) fn set_lifted_mode(&self, entry: &Entry, mode: u32) -> io::Result<bool> {
        let key = (entry.dev, entry.ino);
        let found = self.lifts.with(|scope| scope.lifted.get(&key).cloned()).flatten();
        let Some(lift) = found.filter(|lift| lift.found == entry.meta.mode) else { return Ok(false) };
        if lift.mode != mode {
            let lift = Lift { mode, ..lift };
            if let Some(place) = lift.places.last() {
                self.write_down(key, place, &lift)?;
            }
            self.lifts.with(|scope| scope.lifted.insert(key, lift));
        }
        Ok(true)
    }

    /// Something is about to be renamed, or to get a second name: what of it is lifted may be in its new place from now on.
    pub(super) fn about_to_be(&self, from: &Path, to: &Path) -> io::Result<()> {
        let moved = |scope: &mut Scope| {
            let mut moved = Vec::new();
            for (key, lift) in &mut scope.lifted {
                let below =
                    lift.places.iter().filter_map(|place| Some(join(to, place.strip_prefix(from).ok()?)));
                let new: Vec<PathBuf> = below.filter(|place| !lift.places.contains(place)).collect();
                moved.extend(new.iter().map(|place| (*key, place.clone(), lift.clone())));
                lift.places.extend(new);
            }
            moved
        };
        for (key, place, lift) in self.lifts.with(moved).unwrap_or_default() {
            self.write_down(key, &place, &lift)?;
        }
        Ok(())
    }

    /// Does what removes the name of something. When that was its last, it is lifted no longer: what the system makes next may get its
    /// inode.
    pub(super) fn removing(&self, path: &Path, remove: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let is_any_lifted = self.lifts.with(|scope| !scope.lifted.is_empty()).unwrap_or(false);
        let found = is_any_lifted.then(|| self.stat(path).ok()).flatten();
        let last = found.filter(|entry| entry.kind == EntryKind::Directory || entry.links <= 1);
        remove()?;
        let Some(key) = last.map(|entry| (entry.dev, entry.ino)) else { return Ok(()) };
        match self.lifts.with(|scope| scope.lifted.remove(&key)).flatten() {
            // As it is, it is to stay.
            Some(lift) => self.write_down(key, path, &Lift { mode: lift.found, ..lift }),
            None => Ok(()),
        }
    }

    /// Lifts what closes these paths: the directories that they are in, or, if those are open, what they name. Whether there was
    /// anything.
    fn open_up(&self, paths: &[&Path]) -> io::Result<bool> {
        if self.lifts.with(|_| ()).is_none() {
            return Ok(false);
        }
        let mut has_lifted = false;
        for path in paths {
            let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
            above.reverse();
            for dir in above {
                has_lifted |= self.lift(dir)?;
            }
        }
        if !has_lifted {
            for path in paths {
                has_lifted |= self.lift(path)?;
            }
        }
        Ok(has_lifted)
    }

    /// Whether it was closed, and is open now.
    fn lift(&self, path: &Path) -> io::Result<bool> {
        let is_within = |scope: &mut Scope| match &scope.within {
            Within::Workspace | Within::Command => true,
            Within::State(dir) => path.starts_with(dir),
        };
        if self.lifts.with(is_within) != Some(true) {
            return Ok(false);
        }
        // What cannot be looked at is not lifted: what the system refused is what is told.
        let Ok(entry) = self.stat(path) else { return Ok(false) };
        let bits = match entry.kind {
            EntryKind::Directory => DIR_BITS,
            EntryKind::File => FILE_BITS,
            EntryKind::Symlink | EntryKind::Other => return Ok(false),
        };
        let found = entry.meta.mode | bits;
        if found == entry.meta.mode || self.is_anothers(path)? || loses_setgid(&entry) {
            return Ok(false);
        }
        let key = (entry.dev, entry.ino);
        let mut lift = Lift {
            places: vec![path.to_owned()],
            found,
            mode: entry.meta.mode,
            changed: (entry.changed, 0),
            // Those of a directory are no names of it.
            links: if entry.kind == EntryKind::Directory { 1 } else { entry.links },
        };
        // The record is in the root, and in the state directory: those are opened first, and so is itself.
        let is_above_record = Path::new(STATE).join(RECORD).starts_with(path);
        if !is_above_record {
            self.write_down(key, path, &lift)?;
            reach("disk.lift-written");
        }
        self.set_real_mode(path, found)?;
        lift.changed.1 = self.stat(path)?.changed;
        if is_above_record {
            self.write_down(key, path, &lift)?;
        }
        self.lifts.with(|scope| scope.lifted.insert(key, lift));
        reach("disk.lifted");
        Ok(true)
    }

    /// Writes a lifted mode down, and where it is, if that is to outlive this process.
    fn write_down(&self, (dev, ino): (u64, u64), place: &Path, lift: &Lift) -> io::Result<()> {
        let is_recorded = |scope: &mut Scope| match scope.within {
            Within::Workspace => Some((scope.record.as_ref().map(File::try_clone), false)),
            Within::Command => Some((scope.record.as_ref().map(File::try_clone), true)),
            Within::State(_) => None,
        };
        let Some((record, is_anew)) = self.lifts.with(is_recorded).flatten() else { return Ok(()) };
        let written = || {
            let (mut record, is_new) = match record {
                Some(record) => (record?, false),
                None if is_anew => (self.open_anew()?, true),
                None => (self.open_record(OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?, true),
            };
            let &Lift { found, mode, links, .. } = lift;
            let line = Line { path: place.to_owned(), dev, ino, found, mode, links };
            let mut text = serde_json::to_vec(&line)?;
            text.push(b'\n');
            record.write_all(&text)?;
            fsync(&record)?;
            if is_new {
                self.sync_dir(Path::new(STATE))?;
                self.lifts.with(|scope| scope.record = Some(record));
            }
            io::Result::Ok(())
        };
        match written() {
            // Without space for it the mode is lost if this process is killed just now; without lifting it, nothing is undone.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                tracing::warn!(%error, path = %place.display(), "its mode is lifted without a record of it");
                Ok(())
            }
            written => written,
        }
    }

    /// The record, empty whatever a command wrote there.
    fn open_anew(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        match self.open_record(flags | OFlags::EXCL) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.lifts.with(|scope| scope.is_forged = true);
                self.remove_record()?;
                self.open_record(flags | OFlags::EXCL)
            }
            record => record,
        }
    }

    fn open_record(&self, flags: OFlags) -> io::Result<File> {
        let path = Path::new(STATE).join(RECORD);
        let (dir, name) = self.parent(&path)?;
        super::regular(openat(&dir, name, flags | SAFELY, Mode::RUSR | Mode::WUSR)?)
    }

    /// Takes over what a thread that died had lifted.
    fn take_over(&self) -> io::Result<()> {
        // The record may itself be closed.
        let path = Path::new(STATE).join(RECORD);
        let mut record = match self.opened(&[&path], || self.open_record(OFlags::RDONLY)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            record => record?,
        };
        let mut text = Vec::new();
        record.read_to_end(&mut text)?;
        // A line that was not finished is one of something that was not lifted.
        let lines = text.split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice::<Line>(line).ok());
        let mut lifted: HashMap<(u64, u64), Lift> = HashMap::new();
        for Line { path, dev, ino, found, mode, links } in lines {
            let new = Lift { places: Vec::new(), found, mode, changed: (0, 0), links };
            let lift = lifted.entry((dev, ino)).or_insert(new);
            (lift.found, lift.mode) = (found, mode);
            lift.places.push(path);
        }
        lifted.retain(|key, lift| lift.has_other_names() || !self.places_of(*key, lift).is_empty());
        self.lifts.with(|scope| scope.lifted = lifted);
        let record = self.open_record(OFlags::WRONLY | OFlags::APPEND)?;
        self.lifts.with(|scope| scope.record = Some(record));
        Ok(())
    }

    /// Finds out where files are that are in none of their places, and had other names when they were lifted.
    fn find_other_names(&self) {
        let (top, mut lost) = match self.lifts.with(|scope| (scope.within.top(), scope.lifted.clone())) {
            Some((top, lifted)) => (top, lifted),
            None => return,
        };
        lost.retain(|key, lift| lift.has_other_names() && self.places_of(*key, lift).is_empty());
        let mut left = vec![top];
        while let Some(dir) = left.pop().filter(|_| !lost.is_empty()) {
            // What this user cannot look into has no names that they could have lifted something by.
            for (name, entry) in self.entries(&dir).unwrap_or_default() {
                let path = dir.join(name);
                if entry.kind == EntryKind::Directory && entry.dev == 0 {
                    left.push(path);
                } else if lost.remove(&(entry.dev, entry.ino)).is_some() {
                    let found = |scope: &mut Scope| {
                        let lift = scope.lifted.get_mut(&(entry.dev, entry.ino));
                        lift.map(|lift| lift.places.push(path))
                    };
                    self.lifts.with(found);
                }
            }
        }
    }

    /// Gives everything that this thread lifted the mode that it is to have. Says what it is then.
    fn put_back(&self, scope: Scope) -> io::Result<Vec<Entry>> {
        let there = scope.lifted.iter().map(|(key, lift)| (self.places_of(*key, lift), *key, lift));
        let mut lifted: Vec<(Vec<&PathBuf>, (u64, u64), &Lift)> = there.collect();
        // What is deeper is out of reach when what it is in is closed.
        let depth = |place: &&PathBuf| std::cmp::Reverse(place.iter().count());
        lifted.iter_mut().for_each(|(places, ..)| places.sort_by_key(depth));
        lifted.sort_by_key(|(places, ..)| places.first().map(depth));
        let mut closed = Vec::with_capacity(lifted.len());
        for (places, key, lift) in lifted {
            // If it is nowhere it was removed, replaced, or given another mode by another process.
            let Some(place) = places.first() else { continue };
            if let Some(entry) = self.close(place, key, lift)? {
                reach("disk.mode-put-back");
                closed.push(entry);
            }
        }
        if scope.record.is_some() || matches!(scope.within, Within::Command) {
            match self.remove_record() {
                // The command left none, or no state directory.
                Err(error) if scope.record.is_none() && error.kind() != io::ErrorKind::PermissionDenied => {
                    return Ok(closed);
                }
                removed => removed?,
            }
            // Else it might be found again when the user has set the mode that something was lifted to.
            fsync(self.resolve.open_dir(self.root.as_fd(), Path::new(STATE))?)?;
            reach("disk.lifting-over");
        }
        Ok(closed)
    }

    fn remove_record(&self) -> io::Result<()> {
        let path = Path::new(STATE).join(RECORD);
        let (dir, name) = self.parent(&path)?;
        Ok(unlinkat(&dir, name, AtFlags::empty())?)
    }

    /// In which of its places a lifted entry is, as it was lifted.
    fn places_of<'l>(&self, key: (u64, u64), lift: &'l Lift) -> Vec<&'l PathBuf> {
        let is_there = |place: &&PathBuf| self.stat(place).is_ok_and(|entry| lift.is(key, &entry));
        lift.places.iter().filter(is_there).collect()
    }

    fn close(&self, place: &Path, key: (u64, u64), lift: &Lift) -> io::Result<Option<Entry>> {
        let handle = if place == Path::new("") {
            openat(&self.root, ".", OFlags::RDONLY | SAFELY, Mode::empty())?
        } else {
            let (dir, name) = self.parent(place)?;
            openat(&dir, name, OFlags::RDONLY | SAFELY, Mode::empty())?
        };
        if !lift.is(key, &self.real_entry(&fstat(&handle)?)) {
            return Ok(None);
        }
        if lift.found != lift.mode {
            fchmod(&handle, Mode::from_raw_mode(lift.mode as RawMode))?;
        }
        fsync(&handle)?;
        Ok(Some(self.real_entry(&fstat(&handle)?)))
    }

    /// What is there, with the mode that it has on disk.
    fn stat(&self, path: &Path) -> io::Result<Entry> {
        if path == Path::new("") {
            return Ok(self.real_entry(&fstat(&self.root)?));
        }
        let (dir, name) = self.parent(path)?;
        Ok(self.real_entry(&statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn set_real_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        if path == Path::new("") {
            return Ok(fchmod(&self.root, Mode::from_raw_mode(mode as RawMode))?);
        }
        let (dir, name): (_, &OsStr) = self.parent(path)?;
        set_mode(dir.as_fd(), name, mode)
    }
}

impl Lifts {
    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, Scope>> {
        lock(&self.scopes)
    }

    /// Does something with what this thread has lifted, if it lifts.
    fn with<T>(&self, act: impl FnOnce(&mut Scope) -> T) -> Option<T> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.lock().get_mut(&std::thread::current().id()).map(act)
    }
}

impl Lifting<'_> {
    /// Puts the modes back, unless this thread goes on lifting. Says what had been lifted, and what it is now.
    pub(in super::super) fn end(mut self) -> io::Result<Vec<Entry>> {
        self.put_back()
    }

    fn put_back(&mut self) -> io::Result<Vec<Entry>> {
        self.is_over = true;
        if self.disk.lifts.with(|scope| scope.depth) == Some(1) {
            self.disk.find_other_names();
        }
        let mut scopes = self.disk.lifts.lock();
        let Some(scope) = scopes.get_mut(&self.thread) else { return Ok(Vec::new()) };
        scope.depth -= 1;
        if scope.depth > 0 {
            return Ok(Vec::new());
        }
        let scope = scopes.remove(&self.thread);
        drop(scopes);
        self.disk.lifts.count.fetch_sub(1, Ordering::Relaxed);
        scope.map_or_else(|| Ok(Vec::new()), |scope| self.disk.put_back(scope))
    }
}

impl Drop for Lifting<'_> {
    fn drop(&mut self) {
        if !self.is_over
            && let Err(error) = self.put_back()
        {
            tracing::error!(%error, "a mode could not be put back; it is when the workspace is next opened or changed");
        }
    }
}

/// Whether the system takes the setgid bit away when this user sets the mode, since they are not in the group. It could not be put back.
fn loses_setgid(entry: &Entry) -> bool {
    let is_in = |group: u32| {
        let gid = rustix::fs::Gid::from_raw(group);
        rustix::process::getegid() == gid || rustix::process::getgroups().is_ok_and(|all| all.contains(&gid))
    };
    entry.meta.mode & super::owners::SETGID != 0
        && !rustix::process::geteuid().is_root()
        && entry.meta.owner.is_some_and(|owner| !is_in(owner.group))
}

fn join(dir: &Path, rest: &Path) -> PathBuf {
    if rest == Path::new("") { dir.to_owned() } else { dir.join(rest) }
}

#[cfg(test)]
mod tests;
