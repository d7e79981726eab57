//! What a command must leave alone, where it cannot be hidden: the state directory.
//!
//! Others write there while the command runs, so contents prove nothing; but nobody removes or replaces what is there.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::STATE;
use super::super::name::to_shown;
use crate::filesystem::{FsError, FsResult};

/// Which directory the state directory is, and which files and directories are in it.
#[derive(Default)]
pub(super) struct Guard(Vec<(PathBuf, Identity)>);

/// Numbers of inodes are given again at once; the time of birth tells them apart, where there is one.
#[derive(PartialEq, Eq)]
struct Identity(fs::FileType, u64, u64, Option<SystemTime>);

fn identity(root: &Path, path: &Path) -> io::Result<Identity> {
    let found = fs::symlink_metadata(root.join(path))?;
    Ok(Identity(found.file_type(), found.dev(), found.ino(), found.created().ok()))
}

/// Files that a database makes and removes while it works.
fn comes_and_goes(name: &OsStr) -> bool {
    [&b"-wal"[..], b"-shm", b"-journal"].iter().any(|ending| name.as_bytes().ends_with(ending))
}

impl Guard {
    pub(super) fn look(root: &Path) -> io::Result<Self> {
        let state = PathBuf::from(STATE);
        let mut known = Vec::new();
        for entry in fs::read_dir(root.join(&state))? {
            let name = entry?.file_name();
            if !comes_and_goes(&name) {
                let path = state.join(name);
                known.push((path.clone(), identity(root, &path)?));
            }
        }
        known.push((state.clone(), identity(root, &state)?));
        // The directory itself first.
        known.reverse();
        Ok(Self(known))
    }

    /// Whether everything is still there.
    pub(super) fn check(&self, root: &Path) -> FsResult<()> {
        let is_other =
            |(path, known): &&(PathBuf, Identity)| identity(root, path).ok().as_ref() != Some(known);
        match self.0.iter().find(is_other) {
            None => Ok(()),
            Some((path, _)) => Err(FsError::Io {
                path: to_shown(path),
                kind: io::ErrorKind::InvalidData,
                message: "the command removed or replaced this, which is the runtime's own state and not part of the workspace; \
                          what it did is undone. Sessions and the undo of calls may be damaged: restore the directory from a copy, or open the workspace anew"
                    .to_owned(),
            }),
        }
    }
}
