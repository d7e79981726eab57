//! Files that have names outside the workspace too. Whoever writes to them writes to those as well, so they are not
//! replaced by their copies but given their contents back, and so are all their names.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use super::Places;
use super::trash::TrashDir;
use super::walk::Tree;
use crate::filesystem::EntryKind;
use crate::filesystem::host::disk::{Disk, Entry, Replace};
use crate::filesystem::host::host_disk::HostDisk;
use crate::filesystem::host::staged::make_dir;

type Inode = (u64, u64);

/// Those that a command changed, and that can still be reached.
#[derive(Default)]
pub(super) struct Outside {
    files: HashMap<Inode, Names>,
    /// Names that stay: what has them is given its contents back.
    kept: HashSet<PathBuf>,
}

/// The names that a file has in the workspace.
#[derive(Default)]
struct Names {
    kept: Vec<PathBuf>,
    /// Those that the command gave it.
    fresh: Vec<PathBuf>,
    /// Where it can be reached while the workspace is restored.
    anchor: PathBuf,
}

impl Outside {
    /// `changed` are files that differ from what they were, or lost a name.
    pub(super) fn new(places: &Places, before: &Tree, found: &Tree, changed: &HashSet<Inode>) -> Self {
        let mut outside = Self::default();
        if changed.is_empty() {
            return outside;
        }
        let mut names: HashMap<Inode, (u64, u64)> = HashMap::new();
        for entry in before.values().filter(|entry| changed.contains(&inode(entry))) {
            let (count, links) = names.entry(inode(entry)).or_default();
            (*count, *links) = (*count + 1, entry.links);
        }
        names.retain(|_, (count, links)| count < links);
        for (path, entry) in found {
            if entry.kind != EntryKind::File || !names.contains_key(&inode(entry)) {
                continue;
            }
            let number = outside.files.len();
            let file = outside.files.entry(inode(entry)).or_default();
            if file.anchor.as_os_str().is_empty() {
                file.anchor = places.outside.join(number.to_string());
            }
            if before.get(path).is_some_and(|known| inode(known) == inode(entry)) {
                file.kept.push(path.clone());
                outside.kept.insert(path.clone());
            } else {
                file.fresh.push(path.clone());
            }
        }
        outside
    }

    /// Whether nothing has to come to or go from this name.
    pub(super) fn keeps(&self, path: &Path) -> bool {
        self.kept.contains(path)
    }

    /// Gives them their contents back. What the command made of them is in the trash then, or has its new names; and the
    /// baseline has the file itself in the place of its copies, under the names that it lost. Whether all of it is kept:
    /// there may be no space.
    pub(super) fn restore(
        &self,
        disk: &HostDisk,
        places: &Places,
        before: &Tree,
        trash: &TrashDir,
    ) -> io::Result<bool> {
        let mut is_kept = true;
        if !self.files.is_empty() {
            make_dir(disk, &places.outside)?;
        }
        for (inode_of, names) in &self.files {
            let Some(reached) = names.kept.first().or(names.fresh.first()) else { continue };
            disk.link(reached, &names.anchor)?;
            is_kept &= names.keep(disk, trash)?;
            let known = before.iter().filter(|(_, entry)| inode(entry) == *inode_of);
            for (name, entry) in known.clone() {
                let copy = places.copies.join(name);
                // An attempt before this one may have put the file itself there, when it had its contents back.
                if disk.look(&copy)?.is_some_and(|found| inode(&found) != *inode_of) {
                    disk.overwrite(&copy, &names.anchor)?;
                    disk.own_like(&copy, &names.anchor)?;
                    disk.set_meta(&names.anchor, entry.meta)?;
                    disk.sync_file(&names.anchor)?;
                    break;
                }
            }
            for (name, _) in known.filter(|(name, _)| !self.kept.contains(*name)) {
                names.name(disk, &names.anchor, &places.copies.join(name))?;
            }
        }
        Ok(is_kept)
    }
}

impl Names {
    /// Keeps what the command made of it: a copy comes to the trash, and to the names that the command gave it.
    fn keep(&self, disk: &HostDisk, trash: &TrashDir) -> io::Result<bool> {
        let copy = self.anchor.with_extension("copy");
        match disk.copy(&self.anchor, &copy) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                self.fresh.iter().try_for_each(|name| disk.unlink(name))?;
                return Ok(false);
            }
            copied => copied?,
        }
        for name in &self.kept {
            trash.keep(&copy, name)?;
        }
        for name in &self.fresh {
            self.name(disk, &copy, name)?;
        }
        Ok(true)
    }

    /// Gives `file` another name, in the place of what has it.
    fn name(&self, disk: &HostDisk, file: &Path, name: &Path) -> io::Result<()> {
        let second = self.anchor.with_extension("second");
        disk.link(file, &second)?;
        disk.rename(&second, name, Replace::Allowed)?;
        // Where both are one file already, that does nothing.
        if disk.look(&second)?.is_some() { disk.unlink(&second) } else { Ok(()) }
    }
}

fn inode(entry: &Entry) -> Inode {
    (entry.dev, entry.ino)
}
