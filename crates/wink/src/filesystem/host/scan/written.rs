//! Files of the state directory that only a process with the workspace lock writes, or that are written once: intents of journals, and
//! which database belongs here. A command that works in the workspace itself can write to them, and they decide what is undone: so
//! they are compared when it is over. Journals that came meanwhile are the command's, and are removed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::super::STATE;
use super::super::clear::remove_tree;
use super::super::disk::{Disk, Entry, Replace};
use super::super::host_disk::HostDisk;
use crate::filesystem::EntryKind;

/// Larger ones are compared, and not restored.
const MOST_BYTES: u64 = 1 << 20;
/// All that is kept of them, together.
const MOST_OF_ALL: u64 = 1 << 26;

/// What they were before a command.
#[derive(Default)]
pub(super) struct Written {
    files: Vec<WrittenFile>,
    /// The names of journals, by device and inode: the name says whether a journal is to be rolled back.
    journals: HashMap<(u64, u64), OsString>,
}

struct WrittenFile {
    path: PathBuf,
    /// Nothing sets the time at which an inode changed: what is the same as this was not written to.
    entry: Entry,
    /// Nothing, if it is too large to be kept.
    content: Option<Vec<u8>>,
}

/// What became of one of them.
enum Became {
    Unchanged,
    Restored,
    Lost(io::Error),
}

impl Written {
    /// Reads them.
    pub(super) fn look(disk: &HostDisk) -> io::Result<Self> {
        let (mut files, mut held) = (Vec::new(), 0);
        for path in paths(disk)? {
            let Some(entry) = disk.look(&path)?.filter(|entry| entry.kind == EntryKind::File) else {
                continue;
            };
            let is_kept = entry.len <= MOST_BYTES && held + entry.len <= MOST_OF_ALL;
            let content = if is_kept { Some(disk.read(&path)?) } else { None };
            held += if is_kept { entry.len } else { 0 };
            files.push(WrittenFile { path, entry, content });
        }
        Ok(Self { files, journals: journals(disk)? })
    }

    /// Restores those that are not as they were. Says which are again, and which are not.
    pub(super) fn restore(&self, disk: &HostDisk) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut restored, mut lost) = (Vec::new(), Vec::new());
        match self.restore_journals(disk) {
            Ok(changed) => restored.extend(changed),
            Err(error) => {
                tracing::error!(%error, "journals that a command made or renamed are left");
                lost.push(shelf());
            }
        }
        for file in &self.files {
            match file.restore(disk) {
                Became::Unchanged => {}
                Became::Restored => restored.push(file.path.clone()),
                Became::Lost(error) => {
                    tracing::error!(%error, path = %file.path.display(), "a command changed it");
                    lost.push(file.path.clone());
                }
            }
        }
        (restored, lost)
    }

    /// Gives journals their names back, and removes those that the command made. Says which had another name.
    fn restore_journals(&self, disk: &HostDisk) -> io::Result<Vec<PathBuf>> {
        let mut changed = Vec::new();
        for (key, name) in journals(disk)? {
            let path = shelf().join(&name);
            match self.journals.get(&key) {
                Some(known) if *known == name => continue,
                Some(known) => disk.rename(&path, &shelf().join(known), Replace::Refused)?,
                None => remove_tree(disk, &path)?,
            }
            changed.push(path);
        }
        if !changed.is_empty() {
            disk.sync_dir(&shelf())?;
        }
        Ok(changed)
    }
}

impl WrittenFile {
    fn restore(&self, disk: &HostDisk) -> Became {
        let found = disk.look(&self.path).ok().flatten();
        if found.as_ref() == Some(&self.entry) {
            return Became::Unchanged;
        }
        let Some(content) = &self.content else {
            return Became::Lost(io::Error::other("it is too large for a copy of it to be kept"));
        };
        let has_mode = found.is_some_and(|found| {
            found.kind == EntryKind::File
                && found.len == self.entry.len
                && found.meta.mode == self.entry.meta.mode
        });
        if has_mode && disk.read(&self.path).is_ok_and(|now| now == *content) {
            // Touched, or given another name.
            return Became::Unchanged;
        }
        match self.put_back(disk, content) {
            Ok(()) => Became::Restored,
            Err(error) => Became::Lost(error),
        }
    }

    fn put_back(&self, disk: &HostDisk, content: &[u8]) -> io::Result<()> {
        let fresh = self.path.with_extension("restored");
        if disk.look(&fresh)?.is_some() {
            disk.unlink(&fresh)?;
        }
        disk.create(&fresh, content, self.entry.meta.mode)?;
        disk.sync_file(&fresh)?;
        disk.rename(&fresh, &self.path, Replace::Allowed)?;
        disk.sync_dir(self.path.parent().unwrap_or(Path::new("")))
    }
}

/// Where they may be.
fn paths(disk: &HostDisk) -> io::Result<Vec<PathBuf>> {
    let state = Path::new(STATE);
    let mut paths = Vec::new();
    for (name, _) in disk.read_dir(state)? {
        if name == ".gitignore" || name.to_str().is_some_and(|name| name.ends_with("-id")) {
            paths.push(state.join(name));
        }
    }
    paths.extend(journals(disk)?.into_values().map(|name| shelf().join(name).join("intent")));
    Ok(paths)
}

/// Where journals are.
fn shelf() -> PathBuf {
    Path::new(STATE).join("journal")
}

/// What is there, by device and inode.
fn journals(disk: &HostDisk) -> io::Result<HashMap<(u64, u64), OsString>> {
    let mut journals = HashMap::new();
    for (name, _) in disk.read_dir(&shelf())? {
        if let Some(entry) = disk.look(&shelf().join(&name))? {
            journals.insert((entry.dev, entry.ino), name);
        }
    }
    Ok(journals)
}
