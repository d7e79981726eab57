//! Commands as tools: a program that gets the arguments of a call, and whose exit code is the outcome.
//!
//! A command works on the workspace of its call, in a layer that is taken over when it exits with 0 and forgotten
//! otherwise, as `shell_execute` does; there is no other way in which anything is started here. It has the rights and the
//! environment of this program, unless it is confined to a sandbox. Its time is the tool's: when that is over, or the call
//! is cancelled, the call is dropped, and with it every process of the command.

mod arguments;
mod around;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod sandbox;

#[cfg(target_os = "linux")]
use std::ffi::OsStr;
use std::ffi::OsString;
#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use serde_json::Value;
use wink::ledger::{IdempotencyConfig, WhenInDoubt};
use wink::tool::{Handler, IntoToolResult, ToolContext, ToolError, ToolResult};

#[cfg(target_os = "linux")]
use crate::model::USUAL_KEY_ENVS;
#[cfg(target_os = "linux")]
pub(crate) use arguments::{Passing, is_ours, variable};
pub use around::{AroundCommands, CommandOutcome};

use crate::file::OnFailure;
#[cfg(target_os = "linux")]
pub(crate) use program::Program;
#[cfg(target_os = "linux")]
pub(crate) use sandbox::{Engine, LazySandbox, Lifted, SandboxPlan};

/// Variables of this process's environment that commands are not given, beside [`USUAL_KEY_ENVS`] and what `[model]` names.
static WITHHELD: RwLock<Vec<OsString>> = RwLock::new(Vec::new());

/// From here on no command of any agent is given this variable of the process's environment, unless its tool names it in `env`: it
/// has something, such as the key that a command line names, that is nothing for tools. The usual variables of providers
/// ([`USUAL_KEY_ENVS`]) and the `key_env` of the agent's `[model]` are withheld without this.
pub fn withhold_variable(name: impl Into<OsString>) {
    let (name, mut withheld) = (name.into(), WITHHELD.write().unwrap_or_else(PoisonError::into_inner));
    if !withheld.contains(&name) {
        withheld.push(name);
    }
}

/// Whether commands get this variable only if their tool names it: it has the key of a model.
#[cfg(target_os = "linux")]
fn is_withheld(name: &OsStr) -> bool {
    USUAL_KEY_ENVS.iter().any(|usual| name == *usual)
        || WITHHELD.read().unwrap_or_else(PoisonError::into_inner).iter().any(|one| one == name)
}

/// What a command tool is made of, checked.
#[derive(Debug, Clone)]
pub(crate) struct CommandPlan {
    /// The program and its fixed arguments.
    pub(crate) words: Vec<String>,
    /// The directory below the workspace, plain.
    pub(crate) cwd: String,
    /// Variables beside the caller's.
    pub(crate) env: Vec<(String, String)>,
    /// Names of the caller's variables that it gets in any case.
    pub(crate) passed: Vec<String>,
    /// The variable that has the key of the agent's model.
    pub(crate) key_env: Option<String>,
    pub(crate) passing: Passing,
    /// Characters of each output that are kept.
    pub(crate) output: usize,
    pub(crate) confined: Confined,
    pub(crate) timeout: Duration,
    /// What its failure says of its effect outside.
    pub(crate) failure: OnFailure,
}

/// Whether a command is confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confined {
    Yes,
    No,
}

/// Handles the calls of a command tool.
#[cfg(target_os = "linux")]
pub(crate) struct CommandTool {
    program: Program,
}

#[cfg(target_os = "linux")]
impl CommandPlan {
    /// Whether a variable of this process is one for the command: not what an outer call set, nor the key of a model.
    fn is_given(&self, name: &OsStr) -> bool {
        if is_ours(name.as_encoded_bytes()) {
            return false;
        }
        let is_key = is_withheld(name) || self.key_env.as_ref().is_some_and(|key| name == key.as_str());
        !is_key || self.passed.iter().any(|passed| name == passed.as_str())
    }
}

#[cfg(target_os = "linux")]
impl CommandTool {
    pub(crate) fn new(plan: &CommandPlan, sandbox: &SandboxPlan) -> Self {
        Self { program: Program::new(plan, sandbox) }
    }

    async fn run(&self, arguments: Value, cx: &ToolContext) -> CommandOutcome {
        use wink_sandbox::Ended;
        use wink_sandbox::tool::{HostLayers, run_in_layer};

        let name = Arc::clone(cx.tool().name());
        let input = self.program.input(&arguments, cx)?;
        let run = |workspace| self.program.run(workspace, input, cx.clock());
        let ran = run_in_layer(&HostLayers, cx, run, |finished| program::failure(&name, finished)).await?;
        match ran.failure {
            None => Ok(ToolResult::done(self.program.message(&name, &ran.finished))),
            Some(failure) => {
                let failure = failure + &self.program.said(&ran.finished);
                match (ran.finished.ended, self.program.on_failure()) {
                    (Ended::Exited(_), OnFailure::NoEffect) => Ok(ToolResult::error(failure)),
                    // A command that did not end by itself has not said that it had no effect, and neither has one that may
                    // have failed after it.
                    (Ended::Exited(_), OnFailure::InDoubt)
                    | (Ended::Signalled(_) | Ended::TimedOut | Ended::Cancelled, _) => {
                        Err(ToolError::new(failure).in_doubt())
                    }
                }
            }
        }
    }
}

/// Handles the calls of a command tool, where none can be run.
#[cfg(not(target_os = "linux"))]
pub(crate) struct CommandTool;

#[cfg(not(target_os = "linux"))]
impl CommandTool {
    async fn run(&self, _: Value, _: &ToolContext) -> CommandOutcome {
        Err(ToolError::new("commands can be run on Linux only, so that this tool cannot be used here"))
    }
}

impl Handler<ToolContext, Value, Value> for CommandTool {
    fn call<'a>(
        &'a self,
        arguments: Value,
        cx: &'a mut ToolContext,
    ) -> impl Future<Output: IntoToolResult<Value = Value>> + Send + 'a {
        self.handle(arguments, cx)
    }
}

impl CommandTool {
    async fn handle(&self, arguments: Value, cx: &ToolContext) -> CommandOutcome {
        let run = self.run(arguments, cx);
        match cx.resource_optional::<dyn AroundCommands>().await? {
            Some(around) => around.call(cx, Box::pin(run)).await,
            None => run.await,
        }
    }
}

/// The config with a command that finds out whether an effect happened.
#[cfg(target_os = "linux")]
pub(crate) fn probed_by(
    config: IdempotencyConfig,
    probe: &CommandPlan,
    sandbox: &SandboxPlan,
    workspace: Option<&Arc<wink_store::Workspace>>,
) -> IdempotencyConfig {
    let program = Arc::new(Program::new(probe, sandbox));
    let workspace = workspace.cloned();
    config.when_in_doubt(WhenInDoubt::Probe(Arc::new(move |key, arguments| {
        let (program, workspace) = (Arc::clone(&program), workspace.clone());
        Box::pin(async move {
            let workspace = workspace.ok_or("the agent is not open in a workspace")?;
            program.probe(&key, &arguments, &workspace).await
        })
    })))
}

#[cfg(test)]
mod tests;
