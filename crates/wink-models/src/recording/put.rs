//! Puts changes of files in place, in a directory that nobody else works in.

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use wink::filesystem::host::HostFilesystem;
use wink::filesystem::{EntryKind, FsPath, STATE};

use super::images::{Content, FileChange, FileImage};

/// Whether everything was known that had to be put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It was.
    Whole,
    /// Something is missing: it is not in the recording, or somebody else has taken its place.
    Partly,
}

/// Makes these changes below a directory, all at once. What is in the way of them by somebody else's doing is left alone, and nothing
/// is written through a link that leads elsewhere.
///
/// # Errors
/// When something cannot be written.
pub fn put(root: &Path, changes: &[FileChange]) -> io::Result<Put> {
    let mut by_path: Vec<&FileChange> = changes.iter().collect();
    by_path.sort_by(|one, other| one.path.cmp(&other.path));
    let mut putting = Putting { root, aside: HashMap::new(), put: Put::Whole };
    putting.take_aside(changes)?;
    for change in by_path.iter().rev() {
        putting.remove(change)?;
    }
    for change in &by_path {
        putting.make(change)?;
    }
    // What is in a directory comes before its mode, which may forbid it.
    for change in by_path.iter().rev() {
        putting.set_mode(change)?;
    }
    for (_, left) in putting.aside.drain() {
        remove(&left)?;
    }
    Ok(putting.put)
}

struct Putting<'a> {
    root: &'a Path,
    /// Where that is which is moved, by where it is to be.
    aside: HashMap<FsPath, PathBuf>,
    put: Put,
}

impl Putting<'_> {
    /// Where a path is below the root; nothing if that is not in it.
    fn place(&self, path: &FsPath) -> io::Result<Option<PathBuf>> {
        let name = HostFilesystem::name_on_disk(path).map_err(io::Error::other)?;
        if path.is_root() || name.starts_with(STATE) {
            return Ok(None);
        }
        let mut above = self.root.to_owned();
        for part in name.parent().into_iter().flat_map(Path::components) {
            above.push(part);
            match above.symlink_metadata() {
                Ok(about) if about.is_dir() => {}
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(self.root.join(name)))
    }

    /// Takes what is moved out of its place, the innermost first.
    fn take_aside(&mut self, changes: &[FileChange]) -> io::Result<()> {
        let moved = |change: &FileChange| Some((change.from.clone()?, change.path.clone()));
        let mut moved: Vec<(FsPath, FsPath)> = changes.iter().filter_map(moved).collect();
        moved.sort();
        let mut names = (0_u64..).map(|number| self.root.join(format!("{STATE}-moved-{number}")));
        let mut free = || names.find(|name| name.symlink_metadata().is_err());
        for (from, to) in moved.into_iter().rev() {
            let Some(place) = self.place(&from)? else { continue };
            let Some(aside) = free() else { continue };
            match fs::rename(place, &aside) {
                Ok(()) => _ = self.aside.insert(to, aside),
                // Somebody else has removed it.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes what is not to be there any more, or is replaced.
    fn remove(&self, change: &FileChange) -> io::Result<()> {
        let (Some(before), None) = (&change.before, &change.from) else { return Ok(()) };
        if change.after.as_ref().is_some_and(|after| after.is_same_inside(before)) {
            return Ok(());
        }
        match self.place(&change.path)? {
            Some(place) => remove(&place),
            None => Ok(()),
        }
    }

    fn make(&mut self, change: &FileChange) -> io::Result<()> {
        let Some(after) = &change.after else { return Ok(()) };
        let aside = self.aside.remove(&change.path);
        let Some(place) = self.place(&change.path)? else {
            self.put = Put::Partly;
            return aside.map_or(Ok(()), |aside| remove(&aside));
        };
        let stays = change.before.as_ref().is_some_and(|before| before.is_same_inside(after));
        match (aside, stays) {
            (Some(aside), true) => return fs::rename(aside, place),
            (Some(aside), false) => remove(&aside)?,
            (None, true) if change.from.is_none() => return Ok(()),
            (None, _) => {}
        }
        let made = match (after.kind, &after.content) {
            (EntryKind::Directory, _) => match fs::create_dir(&place) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && place.is_dir() => Ok(()),
                made => made,
            },
            (EntryKind::Symlink, Some(Content::Bytes(target))) => {
                remove(&place)?;
                symlink(std::ffi::OsStr::from_bytes(target), &place)
            }
            (EntryKind::File, Some(Content::Bytes(bytes))) => {
                remove(&place)?;
                let mut options = fs::OpenOptions::new();
                let file = options.write(true).create_new(true).mode(0o600).open(&place);
                file.and_then(|mut file| file.write_all(bytes))
            }
            // An earlier change knows what was there.
            (EntryKind::File | EntryKind::Symlink, None) => Ok(()),
            (EntryKind::File | EntryKind::Symlink, Some(Content::NotKept)) | (EntryKind::Other, _) => {
                self.put = Put::Partly;
                Ok(())
            }
        };
        match made {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.put = Put::Partly;
                Ok(())
            }
            made => made,
        }
    }

    fn set_mode(&self, change: &FileChange) -> io::Result<()> {
        let Some(FileImage { kind: EntryKind::File | EntryKind::Directory, mode, .. }) = change.after else {
            return Ok(());
        };
        let Some(place) = self.place(&change.path)? else { return Ok(()) };
        match place.symlink_metadata() {
            Ok(about) if !about.is_symlink() => {
                fs::set_permissions(place, fs::Permissions::from_mode(mode & 0o7777))
            }
            _ => Ok(()),
        }
    }
}

/// Removes a file, a link or an empty directory, if there is one. What others put into a directory stays there.
fn remove(place: &Path) -> io::Result<()> {
    let removed = match place.symlink_metadata() {
        Ok(about) if about.is_dir() => fs::remove_dir(place),
        Ok(_) => fs::remove_file(place),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests;
