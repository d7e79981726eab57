//! The copy that a replay works on: the files of the workspace, as they were before the run where that is known.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use wink::filesystem::host::{HostFilesystem, PastChange, PastContent, PastEntry};
use wink::filesystem::{EntryKind, FsPath, STATE};
use wink::session::LogEvent;
use wink_models::recording::Recording;
use wink_store::Workspace;

use super::super::open::shown;
use crate::frame::{CliError, Exit, note};

/// Larger files are not put back.
const MOST_BYTES: u64 = 1 << 30;

/// Where the copy is.
pub(super) enum Place {
    /// Until the program ends.
    Passing(TempDir),
    /// For good.
    Kept(PathBuf),
}

/// Who may look into a copy: nobody else, whoever may look at the workspace.
fn private() -> fs::Permissions {
    fs::Permissions::from_mode(0o700)
}

impl Place {
    pub(super) fn make(into: Option<&Path>, workspace: &Path) -> Result<Self, CliError> {
        let usage = |message: String| CliError::new(Exit::Usage, message);
        let Some(into) = into else {
            let dir = tempfile::Builder::new().prefix("wink-replay-").permissions(private()).tempdir();
            return dir.map(Self::Passing).map_err(|error| {
                CliError::internal(format!("there is no place for a copy of the workspace: {error}"))
            });
        };
        fs::DirBuilder::new().mode(private().mode()).create(into).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                usage(format!("{} is there already", into.display())).hint("--into makes a new directory")
            }
            _ => usage(format!("{} cannot be made: {error}", into.display())),
        })?;
        match (into.canonicalize(), workspace.canonicalize()) {
            (Ok(inside), Ok(workspace)) if inside.starts_with(&workspace) => {
                let _ = fs::remove_dir(into);
                Err(usage(format!("{} is in the workspace that is to be copied there", into.display())))
            }
            _ => Ok(Self::Kept(into.to_owned())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Passing(dir) => dir.path(),
            Self::Kept(path) => path,
        }
    }
}

/// Copies a workspace without its state, and without the recording, which was not there either.
pub(super) fn files(from: &Path, to: &Path, recording: &Path) -> Result<(), CliError> {
    let recording = recording.canonicalize().ok();
    let left_out = |path: &Path| {
        path == from.join(STATE) || (recording.is_some() && path.canonicalize().ok() == recording)
    };
    copy_below(from, to, &left_out).map_err(|(path, error)| {
        CliError::new(Exit::Usage, format!("{} cannot be copied: {error}", shown(&path)))
    })
}

fn copy_below(from: &Path, to: &Path, left_out: &dyn Fn(&Path) -> bool) -> Result<(), (PathBuf, io::Error)> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    for entry in fs::read_dir(from).map_err(failed(from))? {
        let entry = entry.map_err(failed(from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if left_out(&path) {
            continue;
        }
        let kind = entry.file_type().map_err(failed(&path))?;
        if kind.is_dir() {
            fs::create_dir(&target).map_err(failed(&target))?;
            copy_below(&path, &target, left_out)?;
            let mode = entry.metadata().map_err(failed(&path))?.permissions();
            fs::set_permissions(&target, mode).map_err(failed(&target))?;
        } else if kind.is_symlink() {
            let points_to = fs::read_link(&path).map_err(failed(&path))?;
            symlink(points_to, &target).map_err(failed(&target))?;
        } else if kind.is_file() {
            fs::copy(&path, &target).map_err(failed(&path))?;
        }
        // Pipes, sockets and devices are nothing that tools work on.
    }
    Ok(())
}

/// Takes back in the copy what the recorded run changed after entry number `after` of the log, as far as the workspace knows it.
pub(super) async fn take_back(
    workspace: &Workspace,
    recording: &Recording,
    after: u64,
    copy: &Path,
) -> Result<(), CliError> {
    let log = workspace.logbook(recording.session_name()).await?;
    let of_run = |event: &LogEvent| matches!(event, LogEvent::Call(call) if call.success && call.run.run_id.as_deref() == Some(recording.run_id()));
    let calls = log.newest(after, usize::MAX, of_run).await?;
    let mut forgotten = false;
    for entry in calls.iter().rev() {
        let changed = log.changes(entry.event.id()).await?;
        let past = workspace.files().past_changes(&changed.journals).map_err(CliError::internal)?;
        forgotten |= changed.forgotten || !past.forgotten.is_empty();
        let failed = |error: io::Error| CliError::internal(format!("the copy cannot be put back: {error}"));
        // What is below a directory goes before it, and comes after it.
        for change in past.changes.iter().rev() {
            remove(change, copy).map_err(failed)?;
        }
        for change in &past.changes {
            forgotten |= !restore(workspace.files(), change, copy)?;
        }
    }
    if forgotten {
        note("not all that the run changed is known any more, so that files may be others than they were");
    }
    Ok(())
}

/// Where a path of the workspace is in the copy.
fn in_copy(path: &FsPath, copy: &Path) -> io::Result<PathBuf> {
    HostFilesystem::name_on_disk(path).map(|name| copy.join(name)).map_err(io::Error::other)
}

fn remove(change: &PastChange, copy: &Path) -> io::Result<()> {
    let Some(after) = &change.after else { return Ok(()) };
    let path = in_copy(&change.path, copy)?;
    let removed = match after.kind {
        EntryKind::Directory if change.before.is_some() => Ok(()),
        EntryKind::Directory => fs::remove_dir(path),
        _ => fs::remove_file(path),
    };
    match removed {
        // Somebody else has removed it, or put something there; that is found out by the replay.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => Ok(()),
        removed => removed,
    }
}

/// Puts back what was there. False if it is not kept.
fn restore(files: &HostFilesystem, change: &PastChange, copy: &Path) -> Result<bool, CliError> {
    let Some(before) = &change.before else { return Ok(true) };
    let failed = |error: io::Error| CliError::internal(format!("the copy cannot be put back: {error}"));
    let path = in_copy(change.moved_from.as_ref().unwrap_or(&change.path), copy).map_err(failed)?;
    match (before.kind, files.past_content(before, MOST_BYTES).map_err(CliError::internal)?) {
        (_, PastContent::Lost | PastContent::TooLarge) => Ok(false),
        (EntryKind::Directory, PastContent::Bytes(_)) => {
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made.map_err(failed)?,
            }
            put_mode(before, &path).map_err(failed).map(|()| true)
        }
        (EntryKind::Symlink, PastContent::Bytes(target)) => {
            use std::os::unix::ffi::OsStrExt;
            symlink(std::ffi::OsStr::from_bytes(&target), &path).map_err(failed).map(|()| true)
        }
        (EntryKind::File, PastContent::Bytes(bytes)) => {
            fs::write(&path, bytes).and_then(|()| put_mode(before, &path)).map_err(failed).map(|()| true)
        }
        (EntryKind::Other, PastContent::Bytes(_)) => Ok(false),
    }
}

fn put_mode(before: &PastEntry, path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(before.mode))
}
