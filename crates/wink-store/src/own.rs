//! What a store has beside its database is its own: what somebody else may have put there in its place, a link above all,
//! leads nowhere.

use std::io;
use std::path::Path;

use wink::filesystem::EntryKind;
use wink::filesystem::host::disk::Disk;
use wink::store::{StoreError, StoreErrorKind};

/// A directory of the store's, made if it is not there.
pub(crate) fn dir(disk: &dyn Disk, name: &str) -> Result<(), StoreError> {
    let path = Path::new(name);
    match disk.make_dir(path, 0o755) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(|error| StoreError::failed("open", format!("{name}: {error}")))?,
    }
    expect(disk, name, EntryKind::Directory)
}

/// The database and what belongs to it, as far as it is there.
pub(crate) fn files(disk: &dyn Disk, database: &str) -> Result<(), StoreError> {
    ["", "-wal", "-shm", "-journal", "-id", "-id-new", "-mark", "-mark-new"]
        .iter()
        .try_for_each(|ending| expect(disk, &format!("{database}{ending}"), EntryKind::File))
}

fn expect(disk: &dyn Disk, name: &str, kind: EntryKind) -> Result<(), StoreError> {
    let found = disk.look(Path::new(name));
    match found.map_err(|error| StoreError::failed("open", format!("{name}: {error}")))? {
        Some(entry) if entry.kind != kind => {
            let reason = format!(
                "'{name}' beside the database is a {:?}, not a {kind:?} of the store's: somebody else put it there. Remove it",
                entry.kind
            );
            Err(StoreError { doing: "open", reason, kind: StoreErrorKind::Incompatible })
        }
        Some(_) | None => Ok(()),
    }
}
