//! Making the workspace what the baseline says: by renames, in any state, as often as it takes.
//!
//! What differs goes to the trash, and what the baseline has comes to its place: out of the baseline, which has it no
//! longer then. So what is missing there was brought back before, and is left alone.
//!
//! What somebody with other rights made meanwhile, a directory of the superuser's or a mount, may be there to stay: nobody else
//! can move it, and nothing in it is touched. It is left and told, and so is what it takes the place of, which goes to the
//! trash: the workspace is not as it was then, and whoever asked for that gets an error, but nobody is locked out.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::outside::Outside;
use super::trash::TrashDir;
use super::walk::{Before, Left, Protected, Tree, walk_after};
use super::{Places, failed};
use crate::filesystem::host::clear::{forced, remove_tree};
use crate::filesystem::host::disk::{Disk, Entry, Replace};
use crate::filesystem::host::host_disk::HostDisk;
use crate::filesystem::host::journal::KeptAside;
use crate::filesystem::{EntryKind, FsResult};
use crate::support::steps::reach;

/// What was found when the workspace was restored.
pub(super) struct Restored {
    /// Everything that was there.
    pub(super) found: Tree,
    /// What of it was as before, and stayed.
    pub(super) stayed: HashSet<PathBuf>,
    /// What was there before and cannot be brought back: sockets, devices for want of privileges, and what the command removed
    /// the copies of.
    pub(super) lost: Vec<PathBuf>,
    /// What somebody else has put there, and nobody but they can take away.
    pub(super) left: Vec<KeptAside>,
    /// What the baseline has no copy of any more, though the workspace may have it one day as it was.
    pub(super) forgotten: Vec<PathBuf>,
    /// Directories whose extended attributes were others, and are as before again.
    pub(super) attributes: Vec<PathBuf>,
    /// Whether everything else is in the trash now; if not, there was no space.
    pub(super) is_kept: bool,
    /// Whether something of it was deeper than a workspace may be.
    pub(super) is_too_deep: bool,
}

/// How many directories are synced one by one.
const FEW: usize = 32;

pub(super) fn restore(
    disk: &HostDisk,
    places: &Places,
    before: &Before,
    trash: &TrashDir,
) -> FsResult<Restored> {
    let Before { tree: before, protected } = before;
    // Of an attempt before this one.
    remove_tree(disk, &places.outside).map_err(failed(Path::new(""), "restored after a command"))?;
    let Left { tree: found, mounts, is_too_deep } = walk_after(disk, before)?;
    unprotect(disk, before, &found)?;
    let Stays { stayed, broken } = what_stays(disk, places, before, &found)?;
    let outside = Outside::new(places, before, &found, &broken);
    reach("scan.compared");
    let is_kept = outside.restore(disk, places, before, trash);
    let is_kept = is_kept.map_err(failed(Path::new(""), "restored: a file with names outside of it"))?;
    let mut work = Work {
        disk,
        places,
        trash,
        outside: &outside,
        touched: HashSet::new(),
        lost: Vec::new(),
        left: mounts.iter().map(|path| KeptAside { path: path.clone(), aside: None }).collect(),
        mounts,
        given_back: HashSet::new(),
        is_kept,
        attributes: Vec::new(),
    };
    work.take(&found, before, &stayed)?;
    reach("scan.taken-out");
    work.bring_back(before, &stayed)?;
    work.set_meta(before)?;
    protect(disk, protected)?;
    reach("scan.brought-back");
    let (is_kept, lost, left) =
        (work.is_kept, std::mem::take(&mut work.lost), std::mem::take(&mut work.left));
    let attributes = std::mem::take(&mut work.attributes);
    work.sync().map_err(failed(Path::new(""), "synced"))?;
    reach("scan.restored");
    let forgotten = forgotten(before, &lost);
    Ok(Restored { found, stayed, lost, left, forgotten, attributes, is_kept, is_too_deep })
}

/// What is lost, with all that was in it.
fn forgotten(before: &Tree, lost: &[PathBuf]) -> Vec<PathBuf> {
    if lost.is_empty() {
        return Vec::new();
    }
    let is_lost = |path: &&PathBuf| lost.iter().any(|lost| path.starts_with(lost));
    before.keys().filter(is_lost).cloned().collect()
}

/// Takes protections away that a command may have set; those from before come back in the end. Only what was touched since
/// is looked at.
fn unprotect(disk: &HostDisk, before: &Tree, found: &Tree) -> FsResult<()> {
    if !disk.can_protect() {
        return Ok(());
    }
    for (path, _) in found.iter().filter(|(path, entry)| before.get(*path) != Some(entry)) {
        match disk.lift_protection(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            lifted => _ = lifted.map_err(failed(path, "made changeable after a command"))?,
        }
    }
    Ok(())
}

/// Protects again what was protected.
fn protect(disk: &HostDisk, protected: &Protected) -> FsResult<()> {
    for (path, protection) in protected.iter().filter(|_| disk.can_protect()) {
        let set = match disk.protection(path) {
            Ok(found) if found == *protection => Ok(()),
            // It could not be brought back, which is told elsewhere.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            _ => disk.set_protection(path, *protection),
        };
        set.map_err(failed(path, "protected again as it was before a command"))?;
    }
    Ok(())
}

struct Stays {
    stayed: HashSet<PathBuf>,
    /// Files with several names of which not all are as before.
    broken: HashSet<(u64, u64)>,
}

/// What is as before, or back already. Of a file with several names all have to be.
fn what_stays(disk: &HostDisk, places: &Places, before: &Tree, found: &Tree) -> FsResult<Stays> {
    let mut stayed = HashSet::new();
    let mut broken = HashSet::new();
    let mut back = HashSet::new();
    for (path, known) in before {
        let looked = match found.get(path) {
            Some(entry) => is_as_before(disk, places, path, known, entry)
                .map_err(failed(path, "compared with what it was before the command"))?,
            None => Looked::Differs,
        };
        match looked {
            Looked::Same => _ = stayed.insert(path.clone()),
            Looked::Back => _ = back.insert(path.clone()),
            Looked::Differs if known.kind != EntryKind::Directory && known.links > 1 => {
                broken.insert((known.dev, known.ino));
            }
            Looked::Differs => {}
        }
    }
    if !broken.is_empty() {
        stayed.retain(|path| {
            before.get(path).is_none_or(|known| {
                known.kind == EntryKind::Directory || !broken.contains(&(known.dev, known.ino))
            })
        });
    }
    stayed.extend(back);
    Ok(Stays { stayed, broken })
}

enum Looked {
    Same,
    /// It was brought back before.
    Back,
    Differs,
}

fn is_as_before(
    disk: &HostDisk,
    places: &Places,
    path: &Path,
    known: &Entry,
    entry: &Entry,
) -> io::Result<Looked> {
    if known.kind != entry.kind {
        return Ok(Looked::Differs);
    }
    if known == entry || known.kind == EntryKind::Directory {
        return Ok(Looked::Same);
    }
    let copy = places.copies.join(path);
    if disk.look(&copy)?.is_none() {
        // It looks like the copy that was brought back; or it is a file with names outside, which took the place of its
        // copy before that.
        let of = |entry: &Entry| (entry.len, entry.meta.mode, entry.meta.modified);
        // Who may not give files away owns the copies.
        let is_back = of(known) == of(entry) || (known.links > 1 && entry.ino == known.ino);
        return Ok(if is_back { Looked::Back } else { Looked::Differs });
    }
    let of = |entry: &Entry| (entry.dev, entry.ino, entry.len, entry.links, entry.meta);
    if of(known) != of(entry) {
        return Ok(Looked::Differs);
    }
    let is_same = match known.kind {
        EntryKind::Symlink => disk.read_link(path)? == disk.read_link(&copy)?,
        EntryKind::Other => disk.special(path)? == disk.special(&copy)?,
        _ => match disk.is_same_content(path, &copy) {
            // Somebody else has it by now.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => false,
            compared => compared? && disk.file_attributes(path)? == disk.file_attributes(&copy)?,
        },
    };
    Ok(if is_same { Looked::Same } else { Looked::Differs })
}

struct Work<'a> {
    disk: &'a HostDisk,
    places: &'a Places,
    trash: &'a TrashDir,
    outside: &'a Outside,
    touched: HashSet<PathBuf>,
    lost: Vec<PathBuf>,
    left: Vec<KeptAside>,
    /// What is mounted in the workspace.
    mounts: Vec<PathBuf>,
    /// Files that have their contents back, where they are.
    given_back: HashSet<PathBuf>,
    is_kept: bool,
    /// Directories whose attributes were others.
    attributes: Vec<PathBuf>,
}

impl Work<'_> {
    /// Takes everything out that does not stay, with all that is in it.
    fn take(&mut self, found: &Tree, before: &Tree, stayed: &HashSet<PathBuf>) -> FsResult<()> {
        let mut taken: Option<&Path> = None;
        for (path, entry) in found.iter().filter(|(path, _)| !stayed.contains(*path)) {
            if taken.is_some_and(|dir| path.starts_with(dir)) || self.outside.keeps(path) {
                continue;
            }
            if self.mounts.iter().any(|mount| mount.starts_with(path)) {
                // What is mounted would be moved with it. What else is in it is taken out one by one.
                continue;
            }
            match self.trash.take(path) {
                Ok(is_kept) => self.is_kept &= is_kept,
                // Somebody removed it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if is_anothers(&error) => {
                    let given = self.give_back(path, entry, before.get(path));
                    if !given.map_err(failed(path, "given its contents back"))? {
                        self.left.push(KeptAside { path: path.clone(), aside: None });
                    }
                }
                Err(error) => return Err(failed(path, "moved to the trash")(error)),
            }
            self.touch(path);
            taken = Some(path);
            reach("scan.entry-taken-out");
        }
        Ok(())
    }

    /// A file that cannot be moved, since its directory is somebody else's, may still be written. Whether that was done.
    fn give_back(&mut self, path: &Path, entry: &Entry, known: Option<&Entry>) -> io::Result<bool> {
        let is_file = |known: &&Entry| {
            known.kind == EntryKind::File
                && (known.kind, known.dev, known.ino) == (entry.kind, entry.dev, entry.ino)
        };
        let Some(known) = known.filter(is_file) else { return Ok(false) };
        self.is_kept &= self.trash.keep_copy(path)?;
        match self.disk.overwrite(&self.places.copies.join(path), path) {
            Err(error) if is_anothers(&error) => return Ok(false),
            overwritten => overwritten?,
        }
        match self.disk.set_meta(path, known.meta) {
            // Its time, which only its owner can set.
            Err(error) if is_anothers(&error) => {}
            set => set?,
        }
        self.disk.sync_file(path)?;
        self.given_back.insert(path.to_owned());
        Ok(true)
    }

    fn bring_back(&mut self, before: &Tree, stayed: &HashSet<PathBuf>) -> FsResult<()> {
        let mut brought: Option<&Path> = None;
        for (path, known) in before.iter().filter(|(path, _)| !stayed.contains(*path)) {
            if brought.is_some_and(|dir| path.starts_with(dir)) {
                // What there is no copy of did not come with its directory.
                if self.disk.look(path).map_err(failed(path, "looked at"))?.is_none() {
                    self.lost.push(path.clone());
                }
                continue;
            }
            if self.outside.keeps(path) || self.given_back.contains(path) {
                continue;
            }
            let copy = self.places.copies.join(path);
            let rename = || self.disk.rename(&copy, path, Replace::Refused);
            let brought_back = match self.is_mounted(path) {
                true => Err(io::ErrorKind::CrossesDevices.into()),
                false => forced(self.disk, path, rename),
            };
            match brought_back {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.lost.push(path.clone());
                    tracing::error!(
                        path = %path.display(),
                        "it was removed while a command ran, and cannot be brought back: there is no copy of it"
                    );
                }
                Err(error) if is_anothers(&error) || self.is_left(path) => {
                    self.set_aside(&copy, path).map_err(failed(path, "restored after a command"))?;
                }
                moved => moved.map_err(failed(path, "restored after a command"))?,
            }
            if known.kind == EntryKind::Directory {
                brought = Some(path);
            }
            self.touch(path);
            reach("scan.entry-brought-back");
        }
        Ok(())
    }

    /// Whether a path is on a mount.
    fn is_mounted(&self, path: &Path) -> bool {
        self.mounts.iter().any(|mount| path.starts_with(mount))
    }

    /// Whether somebody else has that place, or one above it.
    fn is_left(&self, path: &Path) -> bool {
        self.left.iter().any(|left| path.starts_with(&left.path))
    }

    /// What was at `path` cannot come back: somebody else has its place. It is kept in the trash.
    fn set_aside(&mut self, copy: &Path, path: &Path) -> io::Result<()> {
        self.lost.push(path.to_owned());
        let aside = match self.trash.set_aside(copy, path) {
            // An attempt before this one did it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            aside => Some(aside?),
        };
        match self.left.iter_mut().find(|left| left.path == path) {
            Some(left) => left.aside = aside,
            None => self.left.push(KeptAside { path: path.to_owned(), aside }),
        }
        Ok(())
    }

    /// Modes, times and owners of directories, the deepest first.
    fn set_meta(&mut self, before: &Tree) -> FsResult<()> {
        for (path, known) in before.iter().rev().filter(|(_, known)| known.kind == EntryKind::Directory) {
            if self.is_mounted(path) {
                continue;
            }
            let failed = failed(path, "given its mode and time back");
            let Some(entry) = self.disk.look(path).map_err(&failed)? else { continue };
            if entry.kind != EntryKind::Directory || entry == *known {
                continue;
            }
            let copy = self.places.copies.join(path);
            // One that was brought back is its copy, and has its owner.
            let is_root = path.as_os_str().is_empty();
            if !is_root && self.disk.can_own() && self.disk.look(&copy).map_err(&failed)?.is_some() {
                self.disk.own_like(&copy, path).map_err(&failed)?;
            }
            if !is_root
                && self
                    .disk
                    .look(&copy)
                    .map_err(&failed)?
                    .is_some_and(|copy| copy.kind == EntryKind::Directory)
                && self.disk.dir_attributes(&copy).map_err(&failed)?
                    != self.disk.dir_attributes(path).map_err(&failed)?
            {
                self.disk.copy_dir_attributes(&copy, path).map_err(&failed)?;
                self.attributes.push(path.clone());
            }
            if entry.meta == known.meta {
                continue;
            }
            match forced(self.disk, path, || self.disk.set_meta(path, known.meta)) {
                // The time of a directory that is somebody else's, and that everybody may write.
                Err(error) if is_anothers(&error) && entry.meta.mode == known.meta.mode => {}
                Err(error) if is_anothers(&error) => {
                    self.left.push(KeptAside { path: path.clone(), aside: None });
                }
                set => set.map_err(&failed)?,
            }
            self.touched.insert(path.clone());
        }
        Ok(())
    }

    fn touch(&mut self, path: &Path) {
        self.touched.insert(path.parent().unwrap_or(Path::new("")).to_owned());
    }

    fn sync(self) -> io::Result<()> {
        if self.touched.is_empty() {
            return Ok(());
        }
        if self.touched.len() > FEW {
            return self.disk.sync_all();
        }
        for dir in &self.touched {
            match self.disk.sync_dir(dir) {
                // Nothing of ours was changed in it.
                Err(error) if is_anothers(&error) => {}
                synced => synced?,
            }
            for dir in [self.trash.at(dir), self.places.copies.join(dir)] {
                // In the trash and the baseline something else may have that name, or nothing.
                if self
                    .disk
                    .look(&dir)
                    .is_ok_and(|entry| entry.is_some_and(|entry| entry.kind == EntryKind::Directory))
                {
                    self.disk.sync_dir(&dir)?;
                }
            }
        }
        Ok(())
    }
}

/// Whether something cannot be changed since it belongs to somebody with other rights, or is a mount of theirs.
fn is_anothers(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ResourceBusy | io::ErrorKind::CrossesDevices
    )
}
