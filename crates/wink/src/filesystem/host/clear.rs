//! Clearing away what nobody needs any more, whatever a command made of it.

use std::io;
use std::path::{Path, PathBuf};

use super::disk::{Disk, Entry, Meta, Replace};
use crate::filesystem::EntryKind;

/// Removes what is at `path`, if anything, with everything in it. However deep that is: what is further down is moved up
/// before it is looked into, so no path grows too long for the system, and no call too deep for the stack.
pub(super) fn remove_tree(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.look(path)? {
        None => return Ok(()),
        Some(entry) if entry.kind == EntryKind::Directory => open_up(disk, path, &entry)?,
        Some(_) => return forced(disk, path, || disk.unlink(path)),
    }
    let mut numbers = 0_u64..;
    let mut todo = vec![path.to_owned()];
    while let Some(dir) = todo.last().cloned() {
        let before = todo.len();
        for (name, kind) in disk.read_dir(&dir)? {
            let child = dir.join(&name);
            if kind != EntryKind::Directory {
                forced(disk, &child, || disk.unlink(&child))?;
                continue;
            }
            if let Some(entry) = disk.look(&child)? {
                open_up(disk, &child, &entry)?;
            }
            todo.push(if dir == path { child } else { move_up(disk, &child, path, &mut numbers)? });
        }
        if todo.len() == before {
            forced(disk, &dir, || disk.remove_dir(&dir))?;
            todo.pop();
        }
    }
    Ok(())
}

/// Commands and kernels leave directories that nobody may look into.
fn open_up(disk: &dyn Disk, path: &Path, entry: &Entry) -> io::Result<()> {
    if entry.meta.mode & 0o700 == 0o700 {
        return Ok(());
    }
    forced(disk, path, || disk.set_meta(path, Meta { mode: entry.meta.mode | 0o700, ..entry.meta }))
}

/// Does it, though what is at `path`, or the directory that it is in, is protected against changes.
pub(super) fn forced(disk: &dyn Disk, path: &Path, change: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let refused = match change() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
        done => return done,
    };
    // What was refused first is what is told.
    for path in [Some(path), path.parent()].into_iter().flatten() {
        if disk.unprotect(path).is_err() {
            return Err(refused);
        }
    }
    change()
}

fn move_up(
    disk: &dyn Disk,
    child: &Path,
    top: &Path,
    numbers: &mut impl Iterator<Item = u64>,
) -> io::Result<PathBuf> {
    for number in numbers {
        let place = top.join(format!(".{number}"));
        match forced(disk, child, || disk.rename(child, &place, Replace::Refused)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            moved => return moved.map(|()| place),
        }
    }
    Err(io::ErrorKind::StorageFull.into())
}
