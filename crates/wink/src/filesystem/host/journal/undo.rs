//! Taking a plan back: by renames only, in any state that a crash may have left, as often as it takes.
//!
//! Steps are undone last first. Each looks at what is there instead of believing what was done: what the plan put is known
//! by its inode, what it took or replaced is in the journal. What is neither is somebody else's, and stays; what should be
//! in its place goes to the trash, and both are reported.
//!
//! After a crash, a change below a directory that was moved may be found where the directory was before, and the other
//! way round. So each step looks in both places, and one that finds nothing is tried again when others have made progress.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use super::super::disk::{Disk, Entry, Meta, Replace, is_behind_a_link};
use super::error::{Doing, JournalError, KeptAside};
use super::intent::{From, Intent, MetaRecord, Record, Stamp};
use super::look_in_tree;
use super::shelf::Place;
use super::touched::Touched;
use crate::filesystem::EntryKind;
use crate::support::steps::reach;

/// Puts everything back where it was. Does nothing to what is there already.
pub(super) fn undo(
    disk: &dyn Disk,
    place: &Place,
    trash: &Path,
    intent: &Intent,
) -> Result<Vec<KeptAside>, JournalError> {
    let mut homes = HashMap::new();
    let mut moves = HashMap::new();
    for step in &intent.steps {
        match step {
            Record::Take { origin, slot, before, .. } => _ = homes.insert(*slot, (origin.as_path(), before)),
            Record::Put { path, origin, from: From::Taken(slot), .. } => {
                moves.insert(*slot, (path.as_path(), origin.as_path()));
            }
            _ => {}
        }
    }
    let parents = intent.parents.iter().map(|parent| (parent.path.as_path(), &parent.before)).collect();
    let mut work = Work {
        disk,
        place,
        trash,
        taken: homes.values().map(|(home, _)| *home).collect(),
        homes,
        moves,
        parents,
        touched: Touched::default(),
        aside: Vec::new(),
    };
    let mut left: Vec<&Record> = intent.steps.iter().rev().collect();
    loop {
        let count = left.len();
        left = work.pass(left, Try::Quietly)?;
        if left.is_empty() || left.len() == count {
            break;
        }
    }
    work.pass(left, Try::Finally)?;
    work.restore_meta(intent)?;
    reach("journal.undone");
    work.sync(intent)?;
    reach("journal.undone-synced");
    Ok(work.aside)
}

/// What of a plan is in the tree, or missing there, as far as that can be seen.
pub(super) fn left(disk: &dyn Disk, place: &Place, intent: &Intent) -> Vec<PathBuf> {
    let look = |path: &Path| look_in_tree(disk, path).ok().flatten();
    let mut left: Vec<PathBuf> = Vec::new();
    for step in &intent.steps {
        let (path, is_done) = match step {
            Record::Take { origin, slot, .. } => (origin, look(&place.taken(*slot)).is_some()),
            Record::Put { path, ours, .. } => (path, look(path).is_some_and(|entry| ours.is_same(&entry))),
            Record::Meta { path, before, after, .. } => {
                let is_set =
                    |entry: Entry| before.is_same(&entry) && meta_before(&entry, before, after) != entry.meta;
                (path, look(path).is_some_and(is_set))
            }
        };
        if is_done && !left.contains(path) {
            left.push(path.clone());
        }
    }
    left
}

/// Whether what is in the way may still go away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Try {
    /// Other steps are still to be undone.
    Quietly,
    /// All others are: what is in the way is somebody's.
    Finally,
}

#[derive(PartialEq, Eq)]
enum Undone {
    Yes,
    NotYet,
}

struct Work<'a> {
    disk: &'a dyn Disk,
    place: &'a Place,
    trash: &'a Path,
    /// Where each thing was taken from, and what it was.
    homes: HashMap<u32, (&'a Path, &'a Stamp)>,
    /// Where it was put, and what that was called before.
    moves: HashMap<u32, (&'a Path, &'a Path)>,
    /// The same places.
    taken: HashSet<&'a Path>,
    /// The directories that things were in.
    parents: HashMap<&'a Path, &'a Stamp>,
    touched: Touched,
    aside: Vec<KeptAside>,
}

impl<'a> Work<'a> {
    fn pass(&mut self, steps: Vec<&'a Record>, how: Try) -> Result<Vec<&'a Record>, JournalError> {
        let mut left = Vec::new();
        for step in steps {
            match self.step(step, how)? {
                Undone::Yes => reach("journal.step-undone"),
                Undone::NotYet => left.push(step),
            }
        }
        Ok(left)
    }

    fn step(&mut self, step: &Record, how: Try) -> Result<Undone, JournalError> {
        match step {
            Record::Take { origin, slot, before, .. } => self.untake(origin, *slot, before, how),
            Record::Put { path, origin, from: From::Staged(staged), ours, replaced } => {
                let image = replaced.as_ref().map(|(before, number)| (before, self.place.image(*number)));
                self.unput(path, origin, staged, ours, image, how)
            }
            Record::Put { path, origin, from: From::Taken(slot), ours, replaced } => {
                let image = replaced.as_ref().map(|(before, number)| (before, self.place.image(*number)));
                self.unmove(path, origin, *slot, ours, image, how)
            }
            // When everything is in its place again.
            Record::Meta { .. } => Ok(Undone::Yes),
        }
    }

    fn untake(&mut self, origin: &Path, slot: u32, before: &Stamp, how: Try) -> Result<Undone, JournalError> {
        let held = self.place.taken(slot);
        let there = self.look(origin)?;
        match self.look(&held)? {
            None if there.is_some_and(|entry| before.is_same(&entry)) => Ok(Undone::Yes),
            None if how == Try::Quietly => Ok(Undone::NotYet),
            // It was moved, and somebody removed it or replaced it there.
            None => Ok(self.report(origin, None)),
            Some(_) => self.bring_back(&held, origin, before, how),
        }
    }

    /// What was put from the stage goes back there; what it replaced comes back in the same step.
    fn unput(
        &mut self,
        path: &Path,
        origin: &Path,
        staged: &Path,
        ours: &Stamp,
        image: Option<(&Stamp, PathBuf)>,
        how: Try,
    ) -> Result<Undone, JournalError> {
        if let Some(at) = self.find(path, origin, |entry| ours.is_unchanged(entry))? {
            return match image {
                Some((_, image)) if self.look(&image)?.is_some() => {
                    // Without links, or when nobody waits for it any more, it is only replaced.
                    let _ = self.disk.link(at, staged);
                    self.disk.rename(&image, at, Replace::Allowed).doing("restore", at)?;
                    Ok(Undone::Yes)
                }
                // Never removed while nothing can take its place.
                Some(_) => Ok(self.report(origin, None)),
                None => self.unplace(at, origin, staged, ours, how),
            };
        }
        match image {
            Some((before, image)) if self.look(&image)?.is_some() => {
                self.bring_back(&image, origin, before, how)
            }
            _ if how == Try::Quietly && path != origin => Ok(Undone::NotYet),
            Some(_) => Ok(Undone::Yes),
            // It may be in a directory that is not back yet.
            None if how == Try::Quietly && !self.is_in_its_directory(origin)? => Ok(Undone::NotYet),
            None => {
                // What is there instead was there before and taken, or is still to be moved; or it is somebody's.
                let was_taken = origin.ancestors().any(|path| self.taken.contains(path));
                let theirs = !was_taken && self.look(origin)?.is_some();
                Ok(match how {
                    _ if !theirs => Undone::Yes,
                    Try::Quietly => Undone::NotYet,
                    Try::Finally => self.report(origin, None),
                })
            }
        }
    }

    /// What was put from elsewhere in the tree goes back to where it was taken to.
    fn unmove(
        &mut self,
        path: &Path,
        origin: &Path,
        slot: u32,
        ours: &Stamp,
        image: Option<(&Stamp, PathBuf)>,
        how: Try,
    ) -> Result<Undone, JournalError> {
        let held = self.place.taken(slot);
        if let Some((before, image)) = &image
            && (before.dev, before.ino) == (ours.dev, ours.ino)
        {
            // Both names of one file: the one that stays is in place; the other one comes from the image.
            if self.look(&held)?.is_none() && self.look(image)?.is_some() {
                self.disk.rename(image, &held, Replace::Refused).doing("restore", image)?;
            }
            return Ok(Undone::Yes);
        }
        let found = match self.find(path, origin, |entry| ours.is_same(entry))? {
            // Back where it, or another name of it, was taken from: who died while undoing this had come so far.
            Some(at) if self.is_home(at, slot, ours)? => None,
            found => found,
        };
        if let Some(at) = found {
            if self.look(&held)?.is_some() {
                // A crash left both names.
                self.disk.unlink(at).doing("remove", at)?;
            } else {
                if self.touched.is_within(at) {
                    // Else what has left it might be found in it again, where nobody looks.
                    self.touched.sync_rest(self.disk)?;
                }
                self.disk.rename(at, &held, Replace::Refused).doing("move back", at)?;
                self.moved(at, &held);
            }
        }
        match image {
            Some((before, image)) if self.look(&image)?.is_some() => {
                self.bring_back(&image, found.unwrap_or(origin), before, how)
            }
            _ if found.is_none() && how == Try::Quietly && path != origin => Ok(Undone::NotYet),
            _ => Ok(Undone::Yes),
        }
    }

    /// Whether what was taken is back at `at`: that from this slot, or another name of the same file.
    fn is_home(&self, at: &Path, slot: u32, ours: &Stamp) -> Result<bool, JournalError> {
        for (other, (home, before)) in &self.homes {
            if *home != at || (before.dev, before.ino) != (ours.dev, ours.ino) {
                continue;
            }
            // A name that is elsewhere is not here.
            let is_elsewhere = *other != slot
                && (self.look(&self.place.taken(*other))?.is_some()
                    || match self.moves.get(other) {
                        Some((path, origin)) => {
                            self.find(path, origin, |entry| ours.is_same(entry))?.is_some()
                        }
                        None => false,
                    });
            if !is_elsewhere && self.is_in_its_directory(at)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// From the journal to its place, if that is free.
    fn bring_back(
        &mut self,
        held: &Path,
        to: &Path,
        before: &Stamp,
        how: Try,
    ) -> Result<Undone, JournalError> {
        let Some(entry) = self.look(held)? else { return Ok(Undone::Yes) };
        if how == Try::Quietly && !self.is_in_its_directory(to)? {
            return Ok(Undone::NotYet);
        }
        match self.look(to)? {
            Some(there) if (there.dev, there.ino) == (entry.dev, entry.ino) => {
                // It never left, or is back already: this is only its second name.
                self.disk.unlink(held).doing("remove", held)?;
                return Ok(Undone::Yes);
            }
            // It never left, and what we have is a copy.
            Some(there) if before.is_same(&there) && !before.is_same(&entry) => return Ok(Undone::Yes),
            Some(_) => {}
            None => {
                if self.touched.is_in_new_place(to) {
                    // Else it might be durable that it is back in a directory, but not that that has left it.
                    self.touched.sync_rest(self.disk)?;
                }
                match self.disk.rename(held, to, Replace::Refused) {
                    Err(error) if is_in_the_way(&error) => {}
                    Err(error) => return Err(error).doing("restore", to),
                    Ok(()) => {
                        self.moved(held, to);
                        if entry.kind == EntryKind::Directory {
                            self.touched.came_to(to);
                        }
                        return Ok(Undone::Yes);
                    }
                }
            }
        }
        if how == Try::Quietly {
            return Ok(Undone::NotYet);
        }
        self.set_aside(held, to)
    }

    /// Another directory may still be where the one was that this belongs into, or none.
    fn is_in_its_directory(&self, path: &Path) -> Result<bool, JournalError> {
        // Those that the plan made are not among the parents: they are where the one is that they were made in.
        let known = path.ancestors().skip(1).find_map(|dir| Some((dir, self.parents.get(dir)?)));
        match known {
            Some((dir, before)) => Ok(self.look(dir)?.is_some_and(|entry| before.is_same(&entry))),
            None => Ok(true),
        }
    }

    /// What is in the journal and cannot go to its place is kept in the trash.
    fn set_aside(&mut self, held: &Path, to: &Path) -> Result<Undone, JournalError> {
        let (Some(name), Some(journal)) = (held.file_name(), self.place.dir.file_name()) else {
            return Ok(Undone::Yes);
        };
        let mut aside = journal.to_owned();
        aside.push("-");
        aside.push(name);
        let aside = self.trash.join(aside);
        self.disk.rename(held, &aside, Replace::Refused).doing("set aside", held)?;
        self.disk.sync_dir(self.trash).doing("sync", self.trash)?;
        Ok(self.report(to, Some(aside)))
    }

    fn unplace(
        &mut self,
        at: &Path,
        origin: &Path,
        staged: &Path,
        ours: &Stamp,
        how: Try,
    ) -> Result<Undone, JournalError> {
        if ours.kind != EntryKind::Directory {
            if self.disk.rename(at, staged, Replace::Refused).is_err() {
                // Nobody waits for it any more.
                self.disk.unlink(at).doing("remove", at)?;
            }
            return Ok(Undone::Yes);
        }
        // Removed and not moved: so nothing that somebody put into it can go with it.
        match self.disk.remove_dir(at) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(match how {
                Try::Quietly => Undone::NotYet,
                Try::Finally => self.report(origin, None),
            }),
            removed => {
                removed.doing("remove", at)?;
                let set = || self.disk.set_meta(staged, ours.meta());
                let _ = self.disk.make_dir(staged, ours.mode).and_then(|()| set());
                Ok(Undone::Yes)
            }
        }
    }

    /// Modes and times of directories that entries left and came into, and of what was given others.
    fn restore_meta(&mut self, intent: &Intent) -> Result<(), JournalError> {
        for parent in &intent.parents {
            if let Some(entry) = self.look(&parent.path)?.filter(|entry| parent.before.is_same(entry)) {
                self.set(&parent.path, &entry, Meta { modified: parent.before.modified, ..entry.meta })?;
            }
        }
        for step in &intent.steps {
            let Record::Meta { origin, before, after, .. } = step else { continue };
            if let Some(entry) = self.look(origin)?.filter(|entry| before.is_same(entry)) {
                self.set(origin, &entry, meta_before(&entry, before, after))?;
            }
        }
        Ok(())
    }

    fn set(&mut self, path: &Path, entry: &Entry, meta: Meta) -> Result<(), JournalError> {
        if entry.meta == meta {
            return Ok(());
        }
        match self.disk.set_meta(path, meta) {
            // Whoever may write into a directory of somebody else may take that back, but not set its time.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && self.disk.is_anothers(path).doing("look at", path)? =>
            {
                self.report(path, None);
                Ok(())
            }
            set => set.doing("restore mode and time of", path),
        }
    }

    /// Everything, even what was found in place: whoever brought it there may have died before syncing it.
    fn sync(&self, intent: &Intent) -> Result<(), JournalError> {
        let parents = intent.parents.iter().map(|parent| parent.path.as_path());
        let set = intent.steps.iter().filter(|step| matches!(step, Record::Meta { .. })).map(Record::origin);
        let mut synced = HashSet::new();
        for path in parents.chain(set).filter(|path| synced.insert(*path)) {
            match self.look(path)?.map(|entry| entry.kind) {
                Some(EntryKind::Directory) => self.disk.sync_dir(path).doing("sync", path)?,
                Some(EntryKind::File) => self.disk.sync_file(path).doing("sync", path)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn moved(&mut self, from: &Path, to: &Path) {
        self.touched.moved(from, to);
        self.touched.parent_of(from);
        self.touched.parent_of(to);
    }

    fn find<'p>(
        &self,
        path: &'p Path,
        origin: &'p Path,
        is_it: impl Fn(&Entry) -> bool,
    ) -> Result<Option<&'p Path>, JournalError> {
        if self.look(path)?.is_some_and(|entry| is_it(&entry)) {
            return Ok(Some(path));
        }
        let is_moved = path != origin && self.look(origin)?.is_some_and(|entry| is_it(&entry));
        Ok(is_moved.then_some(origin))
    }

    fn report(&mut self, path: &Path, aside: Option<PathBuf>) -> Undone {
        self.aside.push(KeptAside { path: path.to_owned(), aside });
        Undone::Yes
    }

    fn look(&self, path: &Path) -> Result<Option<Entry>, JournalError> {
        look_in_tree(self.disk, path)
    }
}

/// A mode, time or owner that is neither what the plan set nor what was there before is somebody's, and stays. The time of a
/// directory only says that something in it changed, which is being taken back.
fn meta_before(now: &Entry, before: &Stamp, after: &MetaRecord) -> Meta {
    let mode = if now.meta.mode == after.mode { before.mode } else { now.meta.mode };
    let is_ours = now.kind == EntryKind::Directory || now.meta.modified == after.modified;
    let owner = match (now.meta.owner, before.owner) {
        (now, Some(before)) if after.owner.is_some() && now == after.owner => Some(before),
        (now, _) => now,
    };
    Meta { mode, modified: if is_ours { before.modified } else { now.meta.modified }, owner }
}

/// A place that cannot be had: taken, without a directory to be in, or behind a link.
fn is_in_the_way(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ) || is_behind_a_link(error)
}
