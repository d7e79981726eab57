//! The baseline: a copy of everything in the workspace, kept and brought up to date before each command.
//!
//! It is a tree of its own, with the same names and the same hard links. What has not changed since it was last saved is
//! only looked at. Copies share their blocks with the originals where the filesystem can do that.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use super::index::Index;
use super::walk::{Protected, Tree, walk};
use super::{Places, failed};
use crate::filesystem::host::clear::remove_tree;
use crate::filesystem::host::disk::{Disk, Entry};
use crate::filesystem::host::host_disk::HostDisk;
use crate::filesystem::host::name::to_shown;
use crate::filesystem::host::search::is_link;
use crate::filesystem::host::staged::make_dir;
use crate::filesystem::{EntryKind, FsError, FsPath, FsResult};
use crate::limits::CancelToken;

/// How often a file is copied that somebody keeps changing.
const TRIES: usize = 5;
/// So many are synced one by one.
const FEW: usize = 32;

/// Makes the baseline what the workspace is now, durably. Says what it is. One that is cancelled is made anew the next time,
/// as far as it came.
pub(super) fn refresh(
    disk: &HostDisk,
    places: &Places,
    index: &mut Index,
    cancel: &CancelToken,
) -> FsResult<()> {
    check(cancel)?;
    let mut tree = walk(disk)?;
    for dir in [&places.dir, &places.copies] {
        make_dir(disk, dir).map_err(failed(Path::new(""), "saved"))?;
    }
    remove_unknown(disk, places, index).map_err(failed(Path::new(""), "saved"))?;
    let changing = changing(&index.tree, &tree);
    index.forget(disk, &places.index, &changing).map_err(failed(Path::new(""), "saved"))?;
    remove_gone(disk, places, &changing, &tree).map_err(failed(Path::new(""), "saved"))?;
    let mut copying =
        Copying { disk, places, cancel, names: HashMap::new(), dirs: Vec::new(), copied: Vec::new() };
    // First those that are saved: a name that came with a directory that was renamed belongs to their copy.
    for (path, entry) in tree.iter().filter(|(path, entry)| index.tree.get(*path) == Some(entry)) {
        copying.has(path, entry);
    }
    let (mut vanished, mut protected) = (Vec::new(), Protected::new());
    for (path, entry) in &mut tree {
        check(cancel)?;
        let is_known = index.tree.get(path) == Some(entry);
        let protection = match is_known {
            true => index.protected.get(path).copied().unwrap_or_default(),
            // Gone meanwhile, it is not protected any more.
            false => disk.protection(path).unwrap_or_default(),
        };
        if !protection.is_none() {
            protected.insert(path.clone(), protection);
        }
        if path.as_os_str().is_empty() {
            continue;
        }
        match copying.save(path, entry, is_known)? {
            Some(found) => *entry = found,
            None => vanished.push(path.clone()),
        }
    }
    tree.retain(|path, _| !vanished.iter().any(|gone| path.starts_with(gone)));
    copying.sync().map_err(failed(Path::new(""), "saved"))?;
    index.save(disk, &places.index, tree, protected).map_err(failed(Path::new(""), "saved"))
}

/// What an attempt before this one, which did not come to its end, may have left.
fn remove_unknown(disk: &HostDisk, places: &Places, index: &mut Index) -> io::Result<()> {
    for path in index.take_unsure() {
        if !index.tree.contains_key(&path) {
            remove_copy(disk, places, &path)?;
        }
    }
    make_dir(disk, &places.copies)
}

/// Everything whose copy will be made, replaced or removed. A directory with another mode or time keeps what is in it.
fn changing(known: &Tree, now: &Tree) -> Vec<PathBuf> {
    let is_changing = |path: &PathBuf| match (known.get(path), now.get(path)) {
        (Some(known), Some(now)) if known.kind == EntryKind::Directory => now.kind != known.kind,
        (known, now) => known != now,
    };
    let fresh = now.keys().filter(|path| !known.contains_key(*path));
    known.keys().chain(fresh).filter(|path| is_changing(path)).cloned().collect()
}

/// Whether anybody still waits for it.
fn check(cancel: &CancelToken) -> FsResult<()> {
    if !cancel.is_cancelled() {
        return Ok(());
    }
    Err(FsError::Io {
        path: FsPath::root(),
        kind: io::ErrorKind::Interrupted,
        message: "the command was cancelled before it began; nothing was changed".to_owned(),
    })
}

/// Removes the copies of what the workspace has not any more.
fn remove_gone(disk: &HostDisk, places: &Places, changing: &[PathBuf], now: &Tree) -> io::Result<()> {
    let mut below: Option<&Path> = None;
    for path in changing.iter().filter(|path| !now.contains_key(*path)) {
        if !below.is_some_and(|dir| path.starts_with(dir)) {
            remove_copy(disk, places, path)?;
            below = Some(path);
        }
    }
    Ok(())
}

/// Removes a copy. Below a copy that is a link there is none: a command has put the link in the place of a directory.
fn remove_copy(disk: &HostDisk, places: &Places, path: &Path) -> io::Result<()> {
    match remove_tree(disk, &places.copies.join(path)) {
        Err(error) if is_link(&error) => Ok(()),
        removed => removed,
    }
}

struct Copying<'a> {
    disk: &'a HostDisk,
    places: &'a Places,
    cancel: &'a CancelToken,
    /// Files with several names, and one of those that is saved.
    names: HashMap<(u64, u64), (PathBuf, Entry)>,
    dirs: Vec<PathBuf>,
    copied: Vec<PathBuf>,
}

impl Copying<'_> {
    /// Saves one entry, if it is not. What it is like by now; nothing if it is gone.
    fn save(&mut self, path: &Path, entry: &Entry, is_known: bool) -> FsResult<Option<Entry>> {
        let failed = failed(path, "saved before a command");
        if entry.kind == EntryKind::Directory {
            if !is_known {
                let copy = self.places.copies.join(path);
                // Where it was something else, or is new, nothing that is in its place belongs to it.
                if self.disk.look(&copy).map_err(&failed)?.is_some_and(|there| there.kind != entry.kind) {
                    remove_tree(self.disk, &copy).map_err(&failed)?;
                }
                make_dir(self.disk, &copy)
                    .and_then(|()| self.disk.own_like(path, &copy))
                    .and_then(|()| self.disk.copy_dir_attributes(path, &copy))
                    .map_err(&failed)?;
                self.dirs.push(copy);
            }
            return Ok(Some(entry.clone()));
        }
        if entry.kind == EntryKind::Other {
            if !is_known {
                let copy = self.places.copies.join(path);
                remove_tree(self.disk, &copy).map_err(&failed)?;
                // A socket, and mostly a device, cannot be made anew: when it is gone, that is told.
                if self.disk.copy_special(path, &copy).map_err(&failed)? {
                    self.dirs.extend(copy.parent().map(Path::to_owned));
                }
            }
            return Ok(Some(entry.clone()));
        }
        if is_known {
            return Ok(Some(entry.clone()));
        }
        let saved = self.copy(path, entry)?;
        if let Some(saved) = &saved {
            self.has(path, saved);
        }
        Ok(saved)
    }

    /// Remembers what is saved of a file with several names.
    fn has(&mut self, path: &Path, saved: &Entry) {
        if matches!(saved.kind, EntryKind::File | EntryKind::Symlink) && saved.links > 1 {
            self.names.insert((saved.dev, saved.ino), (self.places.copies.join(path), saved.clone()));
        }
    }

    fn copy(&mut self, path: &Path, entry: &Entry) -> FsResult<Option<Entry>> {
        let failed = failed(path, "saved before a command");
        let copy = self.places.copies.join(path);
        let mut entry = entry.clone();
        for _ in 0..TRIES {
            remove_tree(self.disk, &copy).map_err(&failed)?;
            let done = match self.names.get(&(entry.dev, entry.ino)) {
                Some((other, saved)) if saved.version() == entry.version() => self.disk.link(other, &copy),
                _ if entry.kind == EntryKind::Symlink => {
                    self.disk.copy(path, &copy).and_then(|()| self.disk.own_like(path, &copy))
                }
                _ => self.disk.copy_until(path, &copy, &|| self.cancel.is_cancelled()),
            };
            // Of the original, of the copy that was to get another name, or of the directory that copies are in.
            let is_missing = matches!(&done, Err(error) if error.kind() == io::ErrorKind::NotFound);
            match done {
                Err(_) if is_missing => {
                    self.names.remove(&(entry.dev, entry.ino));
                    let parents = path.ancestors().skip(1).collect::<Vec<_>>();
                    let mut parents = parents.iter().rev().map(|dir| self.places.copies.join(dir));
                    parents.try_for_each(|dir| make_dir(self.disk, &dir)).map_err(&failed)?;
                }
                Err(_) if self.cancel.is_cancelled() => check(self.cancel)?,
                done => done.map_err(&failed)?,
            }
            match self.disk.look(path).map_err(&failed)? {
                Some(now) if now == entry && !is_missing => {
                    self.dirs.extend(copy.parent().map(Path::to_owned));
                    self.copied.push(copy);
                    return Ok(Some(entry));
                }
                Some(now) if now.kind == entry.kind => entry = now,
                _ => {
                    remove_tree(self.disk, &copy).map_err(&failed)?;
                    return Ok(None);
                }
            }
        }
        Err(FsError::Conflict { paths: vec![to_shown(path)] })
    }

    fn sync(mut self) -> io::Result<()> {
        self.dirs.sort_unstable();
        self.dirs.dedup();
        if self.copied.len() + self.dirs.len() > FEW {
            return self.disk.sync_all();
        }
        for copy in &self.copied {
            if self.disk.look(copy)?.is_some_and(|entry| entry.kind == EntryKind::File) {
                self.disk.sync_file(copy)?;
            }
        }
        self.dirs.iter().try_for_each(|dir| self.disk.sync_dir(dir))?;
        self.disk.sync_dir(&self.places.copies)
    }
}
