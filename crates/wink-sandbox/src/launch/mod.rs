//! Launching: the one way in which a process is started.
//!
//! A [`Launch`] says everything beforehand; [`Launch::run`] ends when no process of it is left: the command's own,
//! what it left running, and what tried to get away. Dropping the future ends them as well, before the drop returns.

mod output;
mod run;
mod supervise;

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wink::limits::{CancelToken, Clock};

pub use output::Output;
pub(crate) use run::{Until, run};
pub(crate) use supervise::{Control, Stop, Streams, Watched, aside, supervise};

use crate::capabilities::Capabilities;
use crate::cgroup::Cgroup;
use crate::child::{IdMaps, Namespaces, Rights, Step};
use crate::error::LaunchError;
use wink::filesystem::host::{CommandRecord, OverlayDirs};

use crate::overlay::{OverlayKind, WorkspaceView, c_path, c_text};

/// Keeps `npm install` from setting `core.hooksPath`, which is guarded, in projects that use husky.
pub(crate) const NO_HUSKY: (&str, &str) = ("HUSKY", "0");

/// Where programs are looked for unless an environment says otherwise.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// Its time was up.
    TimedOut,
    /// It was cancelled.
    Cancelled,
}

impl Ended {
    /// The exit code as shells have it: 128 and the signal, 124 for a timeout, 130 for a cancellation.
    pub fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signalled(signal) => 128 + signal,
            Self::TimedOut => 124,
            Self::Cancelled => 130,
        }
    }
}

/// A command is over, and so is every process that it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How.
    pub ended: Ended,
    /// What it wrote to its standard output.
    pub stdout: Output,
    /// What it wrote to its standard error.
    pub stderr: Output,
    /// How long it took.
    pub duration: Duration,
    /// Whether something of it was killed for want of memory.
    pub memory_exhausted: bool,
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A program and its arguments, as they are.
    Program {
        /// A name that is looked for on the `PATH`, or a path.
        program: OsString,
        /// The arguments after it.
        args: Vec<OsString>,
    },
    /// A text for `/bin/sh -c`.
    Shell(String),
}

impl Command {
    fn program(&self) -> &OsStr {
        match self {
            Self::Program { program, .. } => program,
            Self::Shell(_) => OsStr::new("/bin/sh"),
        }
    }

    pub(crate) fn words(&self) -> Vec<OsString> {
        match self {
            Self::Program { program, args } => std::iter::once(program).chain(args).cloned().collect(),
            Self::Shell(text) => ["/bin/sh", "-c", text].into_iter().map(OsString::from).collect(),
        }
    }
}

/// How the processes of a command are kept together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tree {
    /// A process namespace where there can be one.
    Best,
    /// No process namespace: the command has to know processes by the numbers that others know.
    Reaper,
}

/// Whether a command can change what is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounts {
    /// Not where something is mounted for it: an overlay, or what hides the state directory of the workspace. The superuser's
    /// command lacks `CAP_SYS_ADMIN` then.
    Fixed,
    /// As this program can. The superuser's command can then take away what hides the state directory, and the overlay too.
    Free,
}

/// A command, with everything that is said about it before it runs. It has the rights of this program, but for [`Mounts`]; of its
/// environment it has what it is given.
///
/// Without a process namespace ([`Tree`]) it also has a variable [`WINK_COMMAND`](wink::filesystem::host::CommandMark::VARIABLE): should
/// something, such as the command, kill the process that keeps it together, what is left of it is found by that and by its session,
/// and ended. A process is not found then that has cleared its environment, left its session, and lost its parent, all of it; that
/// takes intent, and a plain launch is no wall against it: a sandbox is.
#[derive(Debug, Clone)]
#[must_use = "nothing runs until it is run"]
pub struct Launch {
    command: Command,
    workspace: WorkspaceView,
    cwd: String,
    environment: BTreeMap<OsString, OsString>,
    stdin: Option<Vec<u8>>,
    time: Option<Duration>,
    keep: usize,
    cancel: Option<CancelToken>,
    tree: Tree,
    /// Where its processes are written down, beside what the workspace says.
    record: Option<CommandRecord>,
    mounts: Mounts,
}

impl Launch {
    /// A command that runs in a directory.
    pub fn new(command: Command, workspace: impl Into<PathBuf>) -> Self {
        let environment =
            [("PATH", PATH), ("LANG", "C.UTF-8"), NO_HUSKY].map(|(name, value)| (name.into(), value.into()));
        Self {
            command,
            workspace: WorkspaceView::Direct { root: workspace.into(), state_name: None, record: None },
            cwd: String::new(),
            environment: environment.into(),
            stdin: None,
            time: None,
            keep: 1024 * 1024,
            cancel: None,
            tree: Tree::Best,
            record: None,
            mounts: Mounts::Fixed,
        }
    }

    /// A program with its arguments.
    pub fn program<A: Into<OsString>>(
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = A>,
        workspace: impl Into<PathBuf>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::new(Command::Program { program: program.into(), args }, workspace)
    }

    /// A text for the shell.
    pub fn shell(text: impl Into<String>, workspace: impl Into<PathBuf>) -> Self {
        Self::new(Command::Shell(text.into()), workspace)
    }

    /// Runs it on an overlay, mounted where the workspace is for its eyes only.
    pub fn overlay(mut self, dirs: OverlayDirs) -> Self {
        self.workspace = WorkspaceView::Overlay(dirs);
        self
    }

    /// Runs it on a workspace as a layer has it.
    pub fn workspace(mut self, workspace: WorkspaceView) -> Self {
        self.workspace = workspace;
        self
    }

    /// The directory below the workspace that it begins in.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// A variable of its environment. Without more, that is a plain `PATH` and `LANG`, and `HUSKY=0`, which keeps an install from
    /// setting `core.hooksPath` of the user's repository.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Gives it a variable of this program, if there is one.
    pub fn inherit(mut self, name: &str) -> Self {
        if let Some(value) = std::env::var_os(name) {
            self.environment.insert(name.into(), value);
        }
        self
    }

    /// Gives it the whole environment of this program, secrets included.
    pub fn inherit_all(mut self) -> Self {
        self.environment.extend(std::env::vars_os());
        self
    }

    /// What it reads on its standard input; nothing otherwise.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// How long it may take.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time = Some(limit);
        self
    }

    /// How many bytes of each stream are kept; the rest is read and counted.
    pub fn keep_output(mut self, bytes: usize) -> Self {
        self.keep = bytes;
        self
    }

    /// Whose cancellation ends it.
    pub fn cancelled_by(mut self, token: CancelToken) -> Self {
        self.cancel = Some(token);
        self
    }

    /// How its processes are kept together.
    pub fn tree(mut self, tree: Tree) -> Self {
        self.tree = tree;
        self
    }

    /// Where its processes are written down, for a command that works in a workspace in another way than as its own.
    pub(crate) fn recorded_in(mut self, record: Option<CommandRecord>) -> Self {
        self.record = record;
        self
    }

    /// Whether it can change what is mounted.
    pub fn mounts(mut self, mounts: Mounts) -> Self {
        self.mounts = mounts;
        self
    }

    /// Runs it to its end.
    pub async fn run(self, clock: &Arc<dyn Clock>) -> Result<Finished, LaunchError> {
        let limits = Until { time: self.time, cancel: self.cancel.clone() };
        let streams = Streams { stdin: self.stdin.clone(), keep: self.keep };
        run(self.prepare()?, streams, limits, clock).await
    }

    /// Runs it to its end on this thread, without a limit on its time. Whether it exited with 0.
    pub(crate) fn run_here(self) -> Result<bool, LaunchError> {
        let streams = Streams { stdin: self.stdin.clone(), keep: self.keep };
        let control =
            Control::new().map_err(|source| LaunchError::Surroundings { what: "making an event", source })?;
        supervise(self.prepare()?, streams, &control).map(|watched| watched.status == Some(0))
    }

    fn prepare(self) -> Result<Prepared, LaunchError> {
        let able = Capabilities::detect();
        let kind = match &self.workspace {
            WorkspaceView::Direct { .. } => None,
            WorkspaceView::Overlay(dirs) => Some(able.can_mount(dirs)?),
        };
        // Where mounts can be made for its eyes only, it does not see the state directory.
        let hidden = match &self.workspace {
            WorkspaceView::Direct { state_name, .. } => state_name.is_some(),
            WorkspaceView::Overlay(_) => false,
        };
        let masks = hidden && able.hides_state();
        let user = kind == Some(OverlayKind::User) || (masks && !able.pid_namespaces);
        // Without an overlay a plain user's command keeps all its rights, those of setuid programs too: no user namespace.
        let pid = self.tree == Tree::Best && if user { able.user_namespaces } else { able.pid_namespaces };
        let namespaces = Namespaces { user, mount: pid || masks || kind.is_some(), pid, rest: false };
        let rights = match self.mounts {
            Mounts::Fixed if masks || kind.is_some() => Rights::FixedMounts,
            Mounts::Fixed | Mounts::Free => Rights::All,
        };
        let root = self.workspace.root().to_owned();
        let mut steps = Vec::new();
        if namespaces.mount {
            steps.push(Step::Private);
        }
        if kind.is_some() {
            steps.extend(self.workspace.open()?);
            steps.extend(self.workspace.mount(&text(&root)?)?);
        }
        if masks {
            steps.extend(self.workspace.mask(&text(&root)?)?);
        }
        if pid {
            steps.push(proc_at("/proc")?);
        }
        Prepared::new(&self.command, &self.environment, &self.cwd, &root).map(|prepared| Prepared {
            namespaces,
            ids: user.then(own_ids),
            steps,
            record: self.record.or_else(|| self.workspace.record().cloned()),
            rights,
            ..prepared
        })
    }
}

/// A fresh `/proc`, of the process namespace. Init is not in it: its arguments are those of this program.
pub(crate) fn proc_at(at: &str) -> Result<Step, LaunchError> {
    use rustix::mount::MountFlags;
    Ok(Step::Mount {
        kind: c"proc".to_owned(),
        at: c_text("a path", at)?,
        flags: MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        data: c"hidepid=4".to_owned(),
    })
}

/// In a user namespace everybody is who they were.
pub(crate) fn own_ids() -> IdMaps {
    let map = |id: u32| CString::new(format!("{id} {id} 1")).unwrap_or_default();
    IdMaps { uid: map(rustix::process::geteuid().as_raw()), gid: map(rustix::process::getegid().as_raw()) }
}

pub(crate) fn text(path: &Path) -> Result<String, LaunchError> {
    path.to_str().map(str::to_owned).ok_or_else(|| LaunchError::NoOverlay {
        workspace: path.to_owned(),
        reason: "its path is not UTF-8".to_owned(),
    })
}

/// A command with everything but its streams.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) namespaces: Namespaces,
    pub(crate) ids: Option<IdMaps>,
    pub(crate) steps: Vec<Step>,
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) workspace: CString,
    pub(crate) cwd: CString,
    pub(crate) programs: Vec<CString>,
    pub(crate) arguments: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) rights: Rights,
    pub(crate) record: Option<CommandRecord>,
    pub(crate) shown_program: String,
    pub(crate) shown_cwd: String,
}

impl Prepared {
    /// The command as this program could run it itself; `workspace` is where the command sees it.
    pub(crate) fn new(
        command: &Command,
        environment: &BTreeMap<OsString, OsString>,
        cwd: &str,
        workspace: &Path,
    ) -> Result<Self, LaunchError> {
        let words = command.words();
        let arguments = words.iter().map(|word| c_os("an argument", word)).collect::<Result<_, _>>()?;
        let pair = |(name, value): (&OsString, &OsString)| {
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            c_os("the environment", &pair)
        };
        let path = environment.get(OsStr::new("PATH")).cloned().unwrap_or_else(|| PATH.into());
        Ok(Self {
            namespaces: Namespaces::default(),
            ids: None,
            steps: Vec::new(),
            cgroup: None,
            workspace: c_path(workspace)?,
            cwd: c_text("the working directory", cwd)?,
            programs: candidates(command.program(), &path)?,
            arguments,
            environment: environment.iter().map(pair).collect::<Result<_, _>>()?,
            rights: Rights::All,
            record: None,
            shown_program: command.program().to_string_lossy().into_owned(),
            shown_cwd: cwd.to_owned(),
        })
    }
}

fn c_os(what: &'static str, text: &OsStr) -> Result<CString, LaunchError> {
    CString::new(text.as_bytes()).map_err(|_| LaunchError::Zero { what })
}

/// Where a program may be: a name on the path, anything with a slash in it where it says.
fn candidates(program: &OsStr, path: &OsStr) -> Result<Vec<CString>, LaunchError> {
    if program.is_empty() || program.as_bytes().contains(&b'/') {
        return Ok(vec![c_os("the program", program)?]);
    }
    // An empty part would be the working directory, which is the model's.
    let parts = path.as_bytes().split(|byte| *byte == b':').filter(|part| part.starts_with(b"/"));
    parts
        .map(|part| c_os("the program", Path::new(OsStr::from_bytes(part)).join(program).as_os_str()))
        .collect()
}
