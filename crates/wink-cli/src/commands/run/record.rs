//! Recording a run. A file in the workspace is put there when the run is over: while it goes on, tools would see it grow.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::TempPath;
use wink::BoxFuture;
use wink::filesystem::STATE;
use wink::limits::Budget;
use wink::session::{Logbook, Session};
use wink::tool::ToolContext;
use wink_agent::{Agent, AroundCommands, CommandOutcome};
use wink_models::recording::{About, Handlers, Recorder, WatchedFiles};
use wink_models::{Settings, Terms};
use wink_store::Workspace;

use super::model::{Chosen, Who};
use super::versions;
use crate::args::Common;
use crate::frame::{CliError, Exit};

/// What was asked for, which is to be the same again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct Asked {
    pub(in crate::commands) task: Option<String>,
    pub(in crate::commands) terms: Terms,
    pub(in crate::commands) settings: Settings,
    pub(in crate::commands) began: jiff::Timestamp,
    pub(in crate::commands) deadline: Option<jiff::Timestamp>,
    pub(in crate::commands) budget: Option<Budget>,
    #[serde(default)]
    pub(in crate::commands) commands: Commands,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) goes_on: Option<GoesOn>,
    /// Of the overrides, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) tag: Option<String>,
}

/// What a recording has of the commands that tools ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::commands) enum Commands {
    /// Nothing: those of earlier versions.
    #[default]
    Unknown,
    /// What came of each.
    Recorded,
}

/// Stands around the commands of an agent's tools.
pub(in crate::commands) struct Around(pub(in crate::commands) Handlers);

impl AroundCommands for Around {
    fn call<'a>(
        &'a self,
        cx: &'a ToolContext,
        run: BoxFuture<'a, CommandOutcome>,
    ) -> BoxFuture<'a, CommandOutcome> {
        Box::pin(self.0.handled(cx, run))
    }
}

/// A run that was stopped, and goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct GoesOn {
    pub(in crate::commands) run: String,
    /// How many calls and undos were in the session's log before.
    pub(in crate::commands) after: u64,
    pub(in crate::commands) max_turns: Option<u32>,
}

/// A run that is recorded.
pub(super) struct Recorded {
    recorder: Recorder,
    path: PathBuf,
    /// Where it is until the run is over, if that is elsewhere.
    staged: Option<Staged>,
}

/// A recording in the state directory. Its lock dies with its process.
struct Staged {
    path: TempPath,
    _lock: File,
}

/// How they are called there.
const STAGED: (&str, &str) = ("recording-", ".jsonl");

/// Recordings in the state directory whose process was killed.
pub(in crate::commands) fn left(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut left = Vec::new();
    for entry in std::fs::read_dir(root.join(STATE))? {
        let entry = entry?;
        let name = entry.file_name();
        let is_one = name.to_str().is_some_and(|name| name.starts_with(STAGED.0) && name.ends_with(STAGED.1));
        if is_one && entry.file_type()?.is_file() {
            // Whoever has it may just have put it where it belongs.
            let Ok(file) = File::open(entry.path()) else { continue };
            if file.try_lock().is_ok() {
                left.push(entry.path());
            }
        }
    }
    left.sort();
    Ok(left)
}

/// Locks a recording that was just made.
fn lock(path: &Path) -> std::io::Result<File> {
    let file = File::open(path)?;
    file.try_lock()?;
    match file.metadata()?.nlink() {
        0 => Err(std::io::Error::other("somebody tidied up just now; try again")),
        _ => Ok(file),
    }
}

/// Nothing is overwritten, and that is found out first.
pub(super) fn must_be_new(path: &Path) -> Result<(), CliError> {
    match path.symlink_metadata() {
        Ok(_) => Err(there_already(path)),
        Err(_) => Ok(()),
    }
}

fn there_already(path: &Path) -> CliError {
    CliError::new(Exit::Usage, format!("{} is there already", path.display()))
        .hint("--record makes a new file, and overwrites none")
}

impl Recorded {
    pub(super) fn begin(
        path: &Path,
        common: &Common,
        workspace: &Workspace,
        agent: &Agent,
        chosen: &Chosen,
        asked: &Asked,
    ) -> Result<Self, CliError> {
        let model = match &chosen.who {
            Who::Model(model) => Arc::clone(model),
            #[cfg(all(feature = "claude", unix))]
            Who::Claude(adapter) => adapter.stand_in(),
        };
        let failed = |error: std::io::Error| {
            CliError::new(Exit::Usage, format!("{} cannot be written: {error}", path.display()))
        };
        let staged = match is_inside(path, workspace.files().root()) {
            true => {
                let state = workspace.files().root().join(STATE);
                // Only the name is wanted: the recorder makes the file.
                let name = tempfile::Builder::new().prefix(STAGED.0).suffix(STAGED.1).tempfile_in(state);
                let name = name.map_err(failed)?.into_temp_path();
                std::fs::remove_file(&name).map_err(failed)?;
                Some(name)
            }
            false => None,
        };
        let about = About {
            session: Some(common.session.clone()),
            run: asked.goes_on.as_ref().map(|it| it.run.clone()),
            note: Some(serde_json::to_value(asked).map_err(CliError::internal)?),
        };
        let to: &Path = staged.as_deref().unwrap_or(path);
        let clock = Arc::clone(workspace.store().clock());
        let scrubber = chosen.scrubber.clone().masking(agent.prompt());
        let recorder = Recorder::create_about(to, model, clock, scrubber, about);
        let recorder = recorder.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => there_already(path),
            _ => failed(error),
        })?;
        recorder.watch(watched(workspace, &common.session));
        let staged = match staged {
            Some(staged) => Some(Staged { _lock: lock(&staged).map_err(failed)?, path: staged }),
            None => None,
        };
        Ok(Self { recorder, path: path.to_owned(), staged })
    }

    /// The run begins in this session, with what is in it.
    pub(super) async fn begins_in(
        &self,
        session: &Session,
        workspace: &Workspace,
        goes_on: Option<&GoesOn>,
    ) -> Result<(), CliError> {
        let state = session.snapshot().to_json().map_err(CliError::internal)?;
        self.recorder.begins_with(versions::named(state, &**workspace.files()).await);
        if goes_on.is_some() {
            self.recorder.goes_on_in(session);
        }
        Ok(())
    }

    /// The run is over, and left this.
    pub(super) async fn ends_in(&self, session: &Session, workspace: &Workspace) -> Result<(), CliError> {
        self.recorder.ends_with(&ended(session, workspace).await?).await;
        Ok(())
    }

    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Puts it where it belongs.
    pub(super) fn finish(self) -> Result<(), CliError> {
        let path = self.path;
        let failed =
            |error: std::io::Error| CliError::internal(format!("the recording {}: {error}", path.display()));
        self.recorder.finish().map_err(failed)?;
        let Some(staged) = self.staged else { return Ok(()) };
        match staged.path.persist_noclobber(&path) {
            Ok(()) => Ok(()),
            Err(error) => {
                let place = error.path.keep().map_err(|error| failed(error.error))?;
                Err(failed(error.error).hint(format!("it is in {}", place.display())))
            }
        }
    }
}

/// The files of a workspace, with the log of a session.
pub(in crate::commands) fn watched(workspace: &Workspace, session: &str) -> WatchedFiles {
    let log = Logbook::of(Arc::clone(workspace.store()) as _, session);
    WatchedFiles::new(Arc::clone(workspace.files()), log)
}

/// The STATE that a run left in a session, as it can be compared with that of a copy.
pub(in crate::commands) async fn ended(session: &Session, workspace: &Workspace) -> Result<Value, CliError> {
    let state = session.snapshot().to_json().map_err(CliError::internal)?;
    Ok(versions::comparable(state, &**workspace.files()).await)
}

/// Whether a path that is not there yet would be below a directory.
fn is_inside(path: &Path, root: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (parent.canonicalize(), root.canonicalize()) {
        (Ok(parent), Ok(root)) => parent.starts_with(root),
        _ => false,
    }
}
