//! Opening what a command works on: the workspace, only if the command needs it; the agent; a session.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wink::filesystem::host::journal::Recovered;
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::filesystem::{FsError, STATE, quoted};
use wink::session::{Logbook, Session, SessionId};
use wink::store::{SharedStore, StoreErrorKind, StoreLoss};
use wink_agent::{Agent, LoadError, OpenError, Problem};
use wink_store::{StoreView, Workspace, WorkspaceError, WorkspaceOptions};

use super::above;
use super::progress::Waiting;
use crate::args::{Common, Format};
use crate::frame::{CliError, Exit, Located, note};

/// The workspace. Its state directory is made if it is not there.
pub(super) fn workspace(common: &Common) -> Result<Arc<Workspace>, CliError> {
    workspace_with(common, WorkspaceOptions::default())
}

/// The same, opened as these options say.
pub(super) fn workspace_with(common: &Common, options: WorkspaceOptions) -> Result<Arc<Workspace>, CliError> {
    must_be_there(common)?;
    whole(common, options).map_err(|error| not_opened(common.root(), &error))
}

/// The workspace, made whole.
fn whole(common: &Common, options: WorkspaceOptions) -> Result<Arc<Workspace>, WorkspaceError> {
    let _waiting = Waiting::begin("opening the workspace");
    let opened = Workspace::open_with(common.root(), options)?;
    if let Some(recovered) = opened.recovered() {
        tell_recovered(recovered);
    }
    for warning in opened.store().warnings() {
        note(warning);
    }
    for StoreLoss { what, .. } in opened.store().lost() {
        note(&format!(
            "the store has lost commits: {what}. Tools with a key are refused until you have found out what happened outside and \
             typed `wink ledger acknowledge-loss`; `wink doctor --deep` says what is damaged"
        ));
    }
    Ok(Arc::new(opened))
}

/// The workspace, if anything ever happened in it; otherwise nothing is made.
pub(super) fn workspace_with_past(common: &Common) -> Result<Option<Arc<Workspace>>, CliError> {
    has_past(common)?.then(|| workspace(common)).transpose()
}

/// What a workspace has, to be looked at.
pub(super) enum Past {
    /// Calls whose process died have their event.
    Open(Arc<Workspace>),
    /// As it was left.
    View { store: Arc<StoreView>, files: Arc<HostFilesystem> },
}

impl Past {
    /// The store.
    pub(super) fn store(&self) -> SharedStore {
        match self {
            Self::Open(workspace) => Arc::clone(workspace.store()) as _,
            Self::View { store, .. } => Arc::clone(store) as _,
        }
    }

    /// The sessions that there are, by name.
    pub(super) async fn sessions(&self) -> Result<Vec<SessionId>, CliError> {
        Ok(match self {
            Self::Open(workspace) => workspace.store().sessions().await?,
            Self::View { store, .. } => store.sessions()?,
        })
    }

    /// The log of the session.
    pub(super) async fn log(&self, common: &Common) -> Result<Logbook, CliError> {
        let session = common.session.as_str();
        Ok(match self {
            Self::Open(workspace) => workspace.logbook(session).await?,
            Self::View { store, .. } => Logbook::of(Arc::clone(store) as _, session),
        })
    }

    /// The files, which take no changes where none can be made.
    pub(super) fn files(&self) -> &HostFilesystem {
        match self {
            Self::Open(workspace) => workspace.files(),
            Self::View { files, .. } => files,
        }
    }
}

/// How long a command that only looks waits for a process that has the workspace: a commit takes less, a command of a call may take long.
const PATIENCE: Duration = Duration::from_millis(200);

/// What the workspace has, if anything ever happened in it. Where it cannot be opened, that is told, and what is there is read
/// nevertheless.
pub(super) fn past(common: &Common) -> Result<Option<Past>, CliError> {
    if !has_past(common)? {
        return Ok(None);
    }
    let files = HostOptions { lock_timeout: PATIENCE, ..HostOptions::default() };
    let error = match whole(common, WorkspaceOptions { files, ..WorkspaceOptions::default() }) {
        Ok(workspace) => return Ok(Some(Past::Open(workspace))),
        Err(error) => error,
    };
    let Ok(view) = StoreView::open(common.root().join(STATE)) else {
        return Err(not_opened(common.root(), &error));
    };
    note(&match &error {
        WorkspaceError::Files(FsError::Io { kind: ErrorKind::TimedOut, .. }) => {
            "another process is changing the workspace; what is shown is as it was last committed".to_owned()
        }
        error => format!("nothing is changed here, and what is shown is as it was left: {error}"),
    });
    let options = HostOptions { read_only: true, ..HostOptions::default() };
    let files = HostFilesystem::open(common.root(), options).map_err(CliError::internal)?;
    Ok(Some(Past::View { store: Arc::new(view), files: Arc::new(files) }))
}

/// Whether anything ever happened in the workspace.
pub(super) fn has_past(common: &Common) -> Result<bool, CliError> {
    must_be_there(common)?;
    let state = common.root().join(STATE).symlink_metadata();
    Ok(!state.is_err_and(|error| error.kind() == ErrorKind::NotFound))
}

/// The log of the session.
pub(super) async fn log(workspace: &Workspace, common: &Common) -> Result<Logbook, CliError> {
    Ok(workspace.logbook(common.session.as_str()).await?)
}

/// The agent that was asked for, or found, or built in.
pub(super) fn agent(common: &Common) -> Result<Agent, CliError> {
    must_be_there(common)?;
    Agent::find_tagged(common.root(), common.agent.as_deref(), common.tag.as_deref())
        .map_err(|error| bad_agent(&error))
}

/// The same in this form: for people and with all that is known, it has what its own model would be given; as the APIs of others take
/// it, it has no tools that only the program `claude` can run.
pub(super) fn agent_in(format: Format, common: &Common) -> Result<Agent, CliError> {
    let agent = agent(common)?;
    Ok(match format {
        Format::Text | Format::Json => agent.with_native_tools(),
        Format::Openai | Format::Anthropic | Format::Mcp => agent,
    })
}

/// The same without overrides in place.
pub(super) fn agent_as_written(common: &Common) -> Result<Agent, CliError> {
    must_be_there(common)?;
    Agent::find_as_written(common.root(), common.agent.as_deref()).map_err(|error| bad_agent(&error))
}

/// An agent that was read before its workspace was opened, as it is now that this is at rest.
pub(super) fn settled(agent: &Agent, workspace: &Workspace, common: &Common) -> Result<Agent, CliError> {
    let _waiting = Waiting::begin("waiting for the workspace");
    agent.settled_in(workspace, common.agent.as_deref()).map_err(|error| bad_agent(&error))
}

/// An agent that cannot be used, with every place and hint.
pub(super) fn bad_agent(error: &LoadError) -> CliError {
    let said = CliError::new(Exit::Usage, error.to_string());
    match error {
        LoadError::Unreadable { .. } => said.hint("`wink init` writes an agent file to start from"),
        LoadError::NoOverrides { tag, .. } => {
            said.hint(format!("`wink override seed --tag {tag}` writes them, to be edited"))
        }
        LoadError::Invalid { file, problems } => {
            said.problems(problems.iter().map(|problem| located(file, problem)).collect())
        }
        _ => said,
    }
}

fn located(file: &str, Problem { line, column, message, hint }: &Problem) -> Located {
    let (message, hint) = (message.clone(), hint.clone());
    Located { file: file.to_owned(), line: *line, column: *column, message, hint }
}

/// A session of an agent that could not be opened.
pub(super) fn not_open(error: &OpenError) -> CliError {
    match error {
        OpenError::Store(_) => CliError::internal(error),
        _ => CliError::new(Exit::Usage, error.to_string()),
    }
}

/// The session for looking only: as the store has it, or a fresh one where nothing ever happened.
pub(super) async fn session_to_look_at(common: &Common) -> Result<Session, CliError> {
    match workspace_with_past(common)? {
        Some(workspace) => Ok(workspace.session(common.session.as_str()).open().await?),
        None => Ok(Session::builder().id(common.session.as_str()).build()),
    }
}

/// The directory has to be one, and nobody may take it for another: below a workspace, no other is begun unasked.
pub(super) fn must_be_there(common: &Common) -> Result<(), CliError> {
    use rustix::fs::{Access, access};
    let root = common.root();
    let entered = |about: Metadata| match about.is_dir() {
        // Whoever may not enter it would be told of the first thing that is looked for in it.
        true => access(root, Access::EXEC_OK).map(|()| about).map_err(io::Error::from),
        false => Ok(about),
    };
    match root.metadata().and_then(entered) {
        Ok(about) if about.is_dir() => match above::surrounding(common) {
            None => Ok(()),
            Some(above) => {
                let shown = above.display();
                let message = format!("this directory is not a workspace, but inside of one: {shown}");
                Err(CliError::new(Exit::Usage, message).hint(format!(
                    "`--workspace {shown}` works there; `--workspace .` makes this directory one of its own"
                )))
            }
        },
        Ok(_) => {
            Err(CliError::new(Exit::Usage, format!("the workspace {} is not a directory", root.display()))
                .hint("--workspace names the directory to work in"))
        }
        Err(error) => {
            let message = format!("the workspace {} cannot be used: {error}", root.display());
            let hint =
                Refused::of(error.kind()).map_or("--workspace names the directory to work in", Refused::hint);
            Err(CliError::new(Exit::Usage, message).hint(hint))
        }
    }
}

pub(super) fn not_opened(root: &Path, error: &WorkspaceError) -> CliError {
    let usage = |message: String| CliError::new(Exit::Usage, message);
    match error {
        WorkspaceError::Directory { source, .. } => match Refused::of(source.kind()) {
            Some(refused) => usage(error.to_string()).hint(refused.hint()),
            None => usage(error.to_string()),
        },
        WorkspaceError::StateTaken { .. } | WorkspaceError::StateShared { .. } => usage(error.to_string()),
        WorkspaceError::Files(FsError::NotUndone { .. }) => {
            CliError::internal(format!("the workspace {} cannot be used: {error}", root.display()))
                .hint("`wink log` still tells what happened here")
        }
        WorkspaceError::Files(FsError::Io { kind, .. }) if let Some(refused) = Refused::of(*kind) => {
            usage(format!("the workspace {} cannot be used: {error}", root.display())).hint(refused.hint())
        }
        WorkspaceError::Store(store) if store.kind == StoreErrorKind::Incompatible => {
            let place = root.join(STATE).join("wink.db");
            usage(format!("{}: {error}", place.display()))
                .hint("nothing was changed; `wink --version` tells which version this is")
        }
        WorkspaceError::Store(store) if store.kind == StoreErrorKind::InUse => {
            CliError::new(Exit::Failure, error.to_string())
        }
        WorkspaceError::Store(_) if let Err(refused) = may_write(&root.join(STATE)) => {
            usage(format!("the workspace {} cannot be used: {error}", root.display())).hint(refused.hint())
        }
        _ => CliError::internal(format!("the workspace {} cannot be opened: {error}", root.display())).hint(
            "keep a copy of .wink before anything is done about it; `wink doctor` says what else it finds",
        ),
    }
}

/// Why nothing can be written to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// This user has no right to.
    Rights,
    /// Nobody can.
    ReadOnly,
}

impl Refused {
    pub(super) fn of(kind: ErrorKind) -> Option<Self> {
        match kind {
            ErrorKind::PermissionDenied => Some(Self::Rights),
            ErrorKind::ReadOnlyFilesystem => Some(Self::ReadOnly),
            _ => None,
        }
    }

    /// What to do about it.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::Rights => {
                "this user may not write there: give it the right to, or choose another directory with --workspace"
            }
            Self::ReadOnly => {
                "its file system is read-only: mount it for writing, or choose another directory with --workspace"
            }
        }
    }
}

/// Whether what is in a directory can be changed by this user.
pub(super) fn may_write(dir: &Path) -> Result<(), Refused> {
    use rustix::fs::{Access, access};
    access(dir, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| Refused::of(error.kind()).unwrap_or(Refused::Rights))
}

/// What was made whole when the workspace was opened, for whoever wonders.
fn tell_recovered(recovered: &Recovered) {
    let Recovered { kept, rolled_back, trash, .. } = recovered;
    if !rolled_back.is_empty() {
        note(&format!("a process died here: {} taken back", of_it(rolled_back.len())));
    }
    if !kept.is_empty() {
        note(&format!("a process died here: {} finished", of_it(kept.len())));
    }
    for place in trash {
        note(&format!("what a command of a dead process left is in {}", shown(place)));
    }
    tell_left(recovered);
}

/// What calls left for the operator to look at.
pub(super) fn tell_left(report: &Recovered) {
    for left in &report.aside {
        note(&format!("{} was left as another process has changed it", shown(&left.path)));
    }
    for path in &report.noticed {
        note(&format!(
            "{} was changed, and other programs may run it: look at it before they do",
            shown(path)
        ));
    }
}

/// A path of the machine, on one line.
pub(super) fn shown(path: &Path) -> String {
    quoted(path.as_os_str().as_encoded_bytes()).into_owned()
}

/// The changes of something that was not finished, and what became of them.
fn of_it(count: usize) -> String {
    match count {
        1 => "1 change of it was".to_owned(),
        _ => format!("{count} changes of it were"),
    }
}
