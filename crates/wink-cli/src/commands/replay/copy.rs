//! The copy that a replay works on: the files of the workspace, as they were before the run where that is known.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use wink::filesystem::STATE;
use wink::session::{InvocationId, LogEvent};
use wink_models::recording::{FilesChanged, Put, Recording, WatchedFiles, put};
use wink_store::Workspace;

use super::super::open::shown;
use super::super::run::record::watched;
use crate::frame::{CliError, Exit, note};

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

/// Takes back in the copy what the recorded run changed: as the recording has it; and as far as the workspace remembers it, what the
/// recording has not got.
pub(super) async fn take_back(
    recording: &Recording,
    past: Option<&Past>,
    copy: &Path,
) -> Result<(), CliError> {
    let mut forgotten = false;
    let mut back = |changed: &FilesChanged| {
        let failed = |error: io::Error| match error.kind() {
            // What a recording says that cannot be.
            ErrorKind::InvalidInput | ErrorKind::InvalidFilename | ErrorKind::NotADirectory => {
                CliError::new(Exit::Usage, format!("the recording's files cannot be put back: {error}"))
            }
            _ => CliError::internal(format!("the copy cannot be put back: {error}")),
        };
        let put = put(copy, &changed.taken_back()).map_err(failed)?;
        forgotten |= changed.forgotten || put == Put::Partly;
        Ok::<(), CliError>(())
    };
    let known: HashSet<InvocationId> = recording.changed().iter().map(|changed| changed.call).collect();
    // A run that was killed has written all but its last ones, and one of an earlier version none.
    for call in past.into_iter().flat_map(|past| past.calls.iter().rev()) {
        if !known.contains(call)
            && let Some(remembered) = remembered(past, *call).await?
        {
            back(&remembered)?;
        }
    }
    for changed in recording.changed().iter().rev() {
        match changed.can_be_taken_back() {
            true => back(changed)?,
            false => back(&changed.clone().or_before(remembered(past, changed.call).await?))?,
        }
    }
    if forgotten {
        note("not all that the run changed is known any more, so that files may be others than they were");
    }
    Ok(())
}

/// What the workspace remembers of a run.
pub(super) struct Past {
    files: WatchedFiles,
    /// Its calls, oldest first.
    calls: Vec<InvocationId>,
}

impl Past {
    /// Of the recorded run, after entry number `after` of the log.
    pub(super) async fn of(
        workspace: &Workspace,
        recording: &Recording,
        after: u64,
    ) -> Result<Self, CliError> {
        let log = workspace.logbook(recording.session_name()).await?;
        let of_run = |event: &LogEvent| matches!(event, LogEvent::Call(call) if call.success && call.run.run_id.as_deref() == Some(recording.run_id()));
        let calls = log.newest(after, usize::MAX, of_run).await?;
        let calls = calls.iter().map(|entry| entry.event.id()).collect();
        Ok(Self { files: watched(workspace, recording.session_name()), calls })
    }
}

async fn remembered(past: Option<&Past>, call: InvocationId) -> Result<Option<FilesChanged>, CliError> {
    match past {
        Some(past) => past.files.remembered(call).await.map_err(CliError::internal),
        None => Ok(None),
    }
}
