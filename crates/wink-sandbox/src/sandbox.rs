//! What every sandbox offers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use wink::BoxFuture;
use wink::limits::{CancelToken, Clock};

use crate::capabilities::Report;
use crate::error::SandboxError;
use crate::launch::{Command, Finished};
use crate::limits::Limits;
use crate::overlay::WorkspaceView;

/// Where a sandbox shows the workspace.
pub const WORKSPACE: &str = wink::filesystem::SHOWN_AT;

/// One command for a sandbox.
#[derive(Debug, Clone)]
pub struct Job {
    /// What is run.
    pub command: Command,
    /// What it works in, at `/workspace`.
    pub workspace: WorkspaceView,
    /// The directory below the workspace that it begins in.
    pub cwd: String,
    /// Its environment, beside `PATH`, `HOME`, `LANG` and `HUSKY=0`.
    pub env: BTreeMap<String, String>,
    /// What it reads on its standard input; nothing otherwise.
    pub stdin: Option<Vec<u8>>,
    /// How long it may take, if that is less than the sandbox allows.
    pub time: Option<Duration>,
    /// Whose cancellation ends it.
    pub cancel: Option<CancelToken>,
}

impl Job {
    /// A command in a workspace, without anything else.
    pub fn new(command: Command, workspace: WorkspaceView) -> Self {
        Self {
            command,
            workspace,
            cwd: String::new(),
            env: BTreeMap::new(),
            stdin: None,
            time: None,
            cancel: None,
        }
    }

    pub(crate) fn time(&self, limits: &Limits) -> Duration {
        limits.allow(self.time)
    }
}

/// Runs commands that cannot reach anything but their workspace. Implementations prove themselves with
/// [`sandbox_contract`](crate::testing::sandbox_contract).
///
/// When [`Sandbox::run`] ends, every process of the command is gone; dropping its future ends them as well.
pub trait Sandbox: Send + Sync + 'static {
    /// Its name, for people.
    fn name(&self) -> &'static str;

    /// What a command may use.
    fn limits(&self) -> &Limits;

    /// What is enforced how.
    fn report(&self) -> Report;

    /// Runs a command to its end.
    fn run<'a>(
        &'a self,
        job: Job,
        clock: &'a Arc<dyn Clock>,
    ) -> BoxFuture<'a, Result<Finished, SandboxError>>;
}
