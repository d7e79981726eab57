//! The tool `shell_execute`, and the sections that bring it.

mod layer;
mod params;
mod run;

use std::sync::Arc;
use std::time::Duration;

use wink::prompt::Section;
use wink::tool::{Annotations, Handler, IntoToolResult, Isolation, Tool, ToolContext, ToolError, ToolResult};

use crate::launch::{Command, Ended, Finished};
use crate::namespace::NamespaceSandbox;
use crate::podman::PodmanSandbox;
use crate::sandbox::{Job, Sandbox};

pub use layer::{HostLayers, LayerError, WorkspaceLayer, WorkspaceLayers, capture_of};
pub use params::{Executed, ShellExecute};
pub use run::{Ran, run_in_layer};

/// `shell_execute` in the sandbox of namespaces.
#[derive(Clone)]
#[must_use = "a suite does nothing until its section is in a prompt"]
pub struct SandboxSection(Suite);

/// `shell_execute` in the sandbox of podman.
#[derive(Clone)]
#[must_use = "a suite does nothing until its section is in a prompt"]
pub struct PodmanSandboxSection(Suite);

impl SandboxSection {
    /// The suite in this sandbox.
    pub fn new(sandbox: NamespaceSandbox) -> Self {
        Self(Suite::new(Arc::new(sandbox)))
    }

    /// Where commands get their view of the workspace from.
    pub fn layers(mut self, layers: Arc<dyn WorkspaceLayers>) -> Self {
        self.0.layers = layers;
        self
    }

    /// What commands are kept apart from, where several sessions or processes write one workspace.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.0.isolation = isolation;
        self
    }

    /// The section, under key `shell`.
    pub fn section(self) -> Section {
        self.0.section()
    }
}

impl PodmanSandboxSection {
    /// The suite in this sandbox.
    pub fn new(sandbox: PodmanSandbox) -> Self {
        Self(Suite::new(Arc::new(sandbox)))
    }

    /// Where commands get their view of the workspace from.
    pub fn layers(mut self, layers: Arc<dyn WorkspaceLayers>) -> Self {
        self.0.layers = layers;
        self
    }

    /// What commands are kept apart from, where several sessions or processes write one workspace.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.0.isolation = isolation;
        self
    }

    /// The section, under key `shell`.
    pub fn section(self) -> Section {
        self.0.section()
    }
}

impl From<SandboxSection> for Section {
    fn from(suite: SandboxSection) -> Self {
        suite.section()
    }
}

impl From<PodmanSandboxSection> for Section {
    fn from(suite: PodmanSandboxSection) -> Self {
        suite.section()
    }
}

#[derive(Clone)]
struct Suite {
    sandbox: Arc<dyn Sandbox>,
    layers: Arc<dyn WorkspaceLayers>,
    isolation: Isolation,
}

impl Suite {
    fn new(sandbox: Arc<dyn Sandbox>) -> Self {
        Self { sandbox, layers: Arc::new(HostLayers), isolation: Isolation::default() }
    }

    fn section(self) -> Section {
        section_with(shell_execute(self.sandbox, self.layers).isolation(self.isolation))
    }
}

/// The section with `shell_execute`, in any sandbox; under key `shell`.
pub fn shell_section(sandbox: Arc<dyn Sandbox>, layers: Arc<dyn WorkspaceLayers>) -> Section {
    section_with(shell_execute(sandbox, layers))
}

fn section_with(tool: Tool<ShellExecute, Executed>) -> Section {
    Section::markdown("shell", "Shell").body(BODY).tool(tool)
}

/// The tool alone, in any sandbox.
pub fn shell_execute(
    sandbox: Arc<dyn Sandbox>,
    layers: Arc<dyn WorkspaceLayers>,
) -> Tool<ShellExecute, Executed> {
    // The command has its own limit; this one is for everything around it.
    let timeout = sandbox.limits().time.saturating_add(Duration::from_secs(60));
    Tool::new(
        "shell_execute",
        "Run a program in the workspace, without network.",
        Executor { sandbox, layers },
    )
    .annotations(Annotations { read_only: false, destructive: true, idempotent: false, open_world: false })
    .timeout(timeout)
    .rendered()
}

struct Executor {
    sandbox: Arc<dyn Sandbox>,
    layers: Arc<dyn WorkspaceLayers>,
}

impl Handler<ToolContext, ShellExecute, Executed> for Executor {
    fn call<'a>(
        &'a self,
        params: ShellExecute,
        cx: &'a mut ToolContext,
    ) -> impl Future<Output: IntoToolResult<Value = Executed>> + Send + 'a {
        self.execute(params, cx)
    }
}

impl Executor {
    async fn execute(
        &self,
        params: ShellExecute,
        cx: &ToolContext,
    ) -> Result<ToolResult<Executed>, ToolError> {
        let limits = self.sandbox.limits();
        params.check(limits)?;
        let (time, cwd) = (params.time(), params.plain_cwd());
        let undo_on_failure = params.undo_on_failure;
        let mut words = params.command.into_iter();
        let program = words.next().unwrap_or_default().into();
        let command = Command::Program { program, args: words.map(Into::into).collect() };
        let (env, stdin) = (params.env, params.stdin.map(String::into_bytes));
        let job = |workspace| Job { command, workspace, cwd, env, stdin, time, cancel: None };
        let allowed = limits.allow(time);
        let run = |workspace| self.sandbox.run(job(workspace), cx.clock());
        let ran =
            run_in_layer(&*self.layers, cx, run, |finished| failure(finished, allowed, undo_on_failure))
                .await?;
        let executed = Executed::of(&ran.finished, limits);
        Ok(match ran.failure {
            Some(failure) => ToolResult::failed(executed, failure),
            None => ToolResult::value(executed),
        })
    }
}

/// What makes a command that ran a failed call.
fn failure(finished: &Finished, allowed: Duration, undo_on_failure: bool) -> Option<String> {
    match finished.ended {
        Ended::TimedOut => Some(format!(
            "The command was stopped after {} seconds, with everything that it had started.",
            allowed.as_secs_f64()
        )),
        Ended::Cancelled => Some("The command was cancelled.".to_owned()),
        Ended::Exited(0) => None,
        Ended::Exited(_) | Ended::Signalled(_) => {
            undo_on_failure.then(|| format!("The command exited with {}.", finished.ended.code()))
        }
    }
}

const BODY: &str = "\
`shell_execute` runs a program in a sandbox. The workspace is its working directory; nothing else of the machine can be \
changed, and there is no network.

- `command` is the program and its arguments, without a shell: `[\"ls\", \"-l\"]`. For pipes and the like run a shell: \
`[\"sh\", \"-c\", \"ls | wc -l\"]`.
- Any exit code is an answer; look at it. What the command changed in the workspace stays, unless you set \
`undo_on_failure` and it exits with anything but 0.
- A command that takes too long is stopped, with everything that it started, and what it changed is undone. Nothing goes \
on running in the background.";
