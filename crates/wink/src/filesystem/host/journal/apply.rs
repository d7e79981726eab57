//! Carrying out an intent: first all that can be needed to take it back is made durable, then the tree is changed.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use super::super::disk::{Disk, Entry, Meta, Replace};
use super::error::{Doing, JournalError};
use super::intent::{From, Intent, MAX_BYTES, Record, Stamp};
use super::prepare::{Prepared, conflict};
use super::shelf::Place;
use super::touched::{Touched, rebased};
use crate::filesystem::{EntryKind, FileVersion};
use crate::support::steps::reach;

/// What a plan put, and how its version changed by that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Where it is now.
    pub path: PathBuf,
    /// Its version before.
    pub was: FileVersion,
    /// Its version now.
    pub version: FileVersion,
}

/// Makes durable what rolling back needs. When this fails, nothing in the tree was changed.
pub(super) fn write_ahead(
    disk: &dyn Disk,
    shelf: &Path,
    place: &Place,
    intent: &Intent,
) -> Result<(), JournalError> {
    disk.make_dir(&place.dir, 0o700).doing("make", &place.dir)?;
    let pre = place.pre();
    disk.make_dir(&pre, 0o700).doing("make", &pre)?;
    save_images(disk, place, intent)?;
    reach("journal.pre-images-saved");
    for record in &intent.steps {
        if let Record::Put { from: From::Staged(staged), ours: Stamp { kind: EntryKind::File, .. }, .. } =
            record
        {
            disk.sync_file(staged).doing("sync", staged)?;
        }
    }
    disk.sync_dir(&pre).doing("sync", &pre)?;
    reach("journal.pre-images-synced");

    let (unfinished, finished) = (place.unfinished_intent(), place.intent());
    let text = intent.encode().map_err(io::Error::from).doing("encode", &finished)?;
    if text.len() > MAX_BYTES {
        let reason = format!("it has {} steps, too many for one journal", intent.steps.len());
        return Err(JournalError::Plan { reason });
    }
    disk.create(&unfinished, &text, 0o600).doing("write", &unfinished)?;
    disk.sync_file(&unfinished).doing("sync", &unfinished)?;
    reach("journal.intent-written");
    disk.rename(&unfinished, &finished, Replace::Refused).doing("finish", &finished)?;
    disk.sync_dir(&place.dir).doing("sync", &place.dir)?;
    disk.sync_dir(shelf).doing("sync", shelf)?;
    reach("journal.intent-synced");
    Ok(())
}

/// What will be replaced gets a second name, which keeps the inode; where there are no second names, a copy.
fn save_images(disk: &dyn Disk, place: &Place, intent: &Intent) -> Result<(), JournalError> {
    for record in &intent.steps {
        let Record::Put { origin, replaced: Some((before, number)), .. } = record else { continue };
        let image = place.image(*number);
        if disk.link(origin, &image).is_err() {
            // Why it cannot be linked does not matter: if the reason is not that links are missing, copying fails too.
            disk.copy(origin, &image).doing("save", origin)?;
            if before.kind == EntryKind::File {
                disk.sync_file(&image).doing("sync", &image)?;
            }
        }
    }
    Ok(())
}

/// Changes the tree, and makes that durable.
pub(super) fn carry_out(
    disk: &dyn Disk,
    place: &Place,
    prepared: &Prepared,
) -> Result<Vec<Placed>, JournalError> {
    let mut work = Work { disk, place, touched: Touched::default(), placed: Vec::new() };
    for (number, record) in prepared.intent.steps.iter().enumerate() {
        work.step(record)?;
        if let (Record::Put { path, .. }, Some(version)) = (record, prepared.versions.get(&number)) {
            work.placed.push((path.clone(), *version));
        }
        reach("journal.step-done");
    }
    work.check_images(&prepared.intent)?;
    work.touched.sync(disk)?;
    reach("journal.tree-synced");
    work.placed()
}

struct Work<'a> {
    disk: &'a dyn Disk,
    place: &'a Place,
    touched: Touched,
    placed: Vec<(PathBuf, FileVersion)>,
}

impl Work<'_> {
    fn step(&mut self, record: &Record) -> Result<(), JournalError> {
        match record {
            Record::Take { path, slot, before, .. } => self.take(path, *slot, before),
            Record::Put { path, from, ours, replaced, .. } => {
                self.put(path, from, ours, replaced.as_ref().map(|(before, _)| before))
            }
            Record::Meta { path, before, after, .. } => {
                let entry = self.look(path)?.filter(|entry| before.is_same(entry));
                let entry = entry.ok_or_else(|| conflict(path))?;
                self.disk.set_meta(path, Meta::from(*after)).doing("set mode and time of", path)?;
                self.touched.itself(path, entry.kind);
                Ok(())
            }
        }
    }

    fn take(&mut self, path: &Path, slot: u32, before: &Stamp) -> Result<(), JournalError> {
        let taken = self.place.taken(slot);
        match self.disk.rename(path, &taken, Replace::Refused) {
            Err(error) if is_gone(&error) => return Err(conflict(path)),
            moved => moved.doing("take away", path)?,
        }
        self.moved(path, &taken, before.kind);
        // Only now nobody else can change it: what was looked at before may have been replaced until just now.
        let entry = self.look(&taken)?;
        if !entry.is_some_and(|entry| before.is_unchanged(&entry)) {
            return Err(conflict(path));
        }
        Ok(())
    }

    fn put(
        &mut self,
        path: &Path,
        from: &From,
        ours: &Stamp,
        replaced: Option<&Stamp>,
    ) -> Result<(), JournalError> {
        let source = match from {
            From::Staged(staged) => staged.clone(),
            From::Taken(slot) => self.place.taken(*slot),
        };
        let replace = match replaced {
            None => Replace::Refused,
            Some(before) => {
                if !self.look(path)?.is_some_and(|entry| before.is_unchanged(&entry)) {
                    return Err(conflict(path));
                }
                Replace::Allowed
            }
        };
        if matches!(from, From::Taken(_)) && self.touched.is_in_new_place(path) {
            // Else it might be durable that it was moved into a directory, but not where that is; which may even be in what
            // was moved.
            self.touched.sync(self.disk)?;
        }
        match self.disk.rename(&source, path, replace) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(conflict(path)),
            Err(error) if is_gone(&error) => return Err(conflict(path)),
            moved => moved.doing("put in place", path)?,
        }
        if replaced.is_some_and(|before| (before.dev, before.ino) == (ours.dev, ours.ino)) {
            // Two names of one file: the rename did nothing.
            self.disk.unlink(&source).doing("remove", &source)?;
        }
        // What was replaced need not be synced: it is not in the tree any more.
        self.touched.is_replaced(path);
        self.moved(&source, path, ours.kind);
        if ours.kind == EntryKind::Directory {
            if matches!(from, From::Staged(_)) {
                self.touched.itself(path, EntryKind::Directory);
            }
            self.touched.came_to(path);
        }
        Ok(())
    }

    fn moved(&mut self, from: &Path, to: &Path, kind: EntryKind) {
        self.touched.moved(from, to);
        if kind == EntryKind::Directory {
            for (path, _) in &mut self.placed {
                if let Some(now) = rebased(path, from, to) {
                    *path = now;
                }
            }
        }
        // The stage may forget what it had.
        for path in [from, to] {
            if !is_stage(path, self.place) {
                self.touched.parent_of(path);
            }
        }
    }

    /// A program that writes in place has changed the pre-image too: that is somebody's change, and found here.
    fn check_images(&self, intent: &Intent) -> Result<(), JournalError> {
        // By another of its names, the plan itself may have given it another time.
        let set: HashMap<(u64, u64), i128> = intent
            .steps
            .iter()
            .filter_map(|record| match record {
                Record::Meta { before, after, .. } => Some(((before.dev, before.ino), after.modified)),
                _ => None,
            })
            .collect();
        for record in &intent.steps {
            let Record::Put { path, replaced: Some((before, number)), .. } = record else { continue };
            let modified = set.get(&(before.dev, before.ino)).copied().unwrap_or(before.modified);
            let expected = Stamp { modified, ..before.clone() };
            let image = self.look(&self.place.image(*number))?;
            // A copy is another file, which nobody writes to.
            if !image.is_some_and(|image| expected.is_unchanged(&image) || !expected.is_same(&image)) {
                return Err(conflict(path));
            }
        }
        Ok(())
    }

    fn placed(&self) -> Result<Vec<Placed>, JournalError> {
        let mut placed = Vec::with_capacity(self.placed.len());
        for (path, was) in &self.placed {
            // Gone again: below a directory that was taken.
            if let Some(entry) = self.look(path)? {
                placed.push(Placed { path: path.clone(), was: *was, version: entry.version() });
            }
        }
        Ok(placed)
    }

    fn look(&self, path: &Path) -> Result<Option<Entry>, JournalError> {
        self.disk.look(path).doing("look at", path)
    }
}

fn is_stage(path: &Path, place: &Place) -> bool {
    // Everything of ours is in one state directory, two levels above a journal's own.
    let state_dir = place.dir.parent().and_then(Path::parent).unwrap_or(&place.dir);
    path.starts_with(state_dir) && !path.starts_with(&place.dir)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
