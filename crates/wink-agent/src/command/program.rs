//! Running the program of a command tool.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use wink::ledger::Probed;
use wink::limits::Clock;
use wink::resource::BoxError;
use wink::tool::{ToolContext, ToolError};
use wink_sandbox::tool::{HostLayers, WorkspaceLayers};
use wink_sandbox::{Command, Ended, Finished, Job, Launch, Sandbox, SandboxError, WORKSPACE, WorkspaceView};
use wink_store::Workspace;

use super::arguments::{INVOCATION, Input, KEY, TOOL};
use super::sandbox::{LazySandbox, SandboxPlan};
use super::{CommandPlan, Confined};
use crate::file::OnFailure;

/// A program with all that is known of it before a call.
pub(crate) struct Program {
    plan: CommandPlan,
    sandbox: Option<LazySandbox>,
}

impl Program {
    pub(crate) fn new(plan: &CommandPlan, sandbox: &SandboxPlan) -> Self {
        let sandbox = match plan.confined {
            Confined::Yes => Some(LazySandbox::new(sandbox.for_command(plan.timeout, plan.output))),
            Confined::No => None,
        };
        Self { plan: plan.clone(), sandbox }
    }

    /// What it is given for a call.
    pub(crate) fn input(&self, arguments: &Value, cx: &ToolContext) -> Result<Input, ToolError> {
        let mut input = Input::new(arguments, self.plan.passing)?;
        input.own(TOOL, cx.tool().name())?;
        input.own(INVOCATION, &cx.invocation().id.to_string())?;
        if let Some(key) = cx.idempotency_key() {
            input.own(KEY, key)?;
        }
        Ok(input)
    }

    /// What its failure says of its effect outside.
    pub(crate) fn on_failure(&self) -> OnFailure {
        self.plan.failure
    }

    /// Runs it to its end.
    pub(crate) async fn run(
        &self,
        workspace: WorkspaceView,
        input: Input,
        clock: &Arc<dyn Clock>,
    ) -> Result<Finished, SandboxError> {
        let CommandPlan { cwd, env, passed, output, .. } = &self.plan;
        let variables = env.iter().cloned().chain(input.variables);
        match &self.sandbox {
            Some(sandbox) => {
                // Nothing else of this process's environment gets into a sandbox.
                let passed = passed.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
                let variables = passed.chain(variables);
                let job = Job {
                    cwd: cwd.clone(),
                    env: variables.collect(),
                    stdin: Some(input.stdin),
                    ..Job::new(self.command(Path::new(WORKSPACE)), workspace)
                };
                sandbox.run(job, clock).await
            }
            None => {
                let command = self.command(workspace.root());
                let launch = Launch::new(command, workspace.root().to_owned())
                    .workspace(workspace)
                    .cwd(cwd.clone())
                    .stdin(input.stdin)
                    // As many bytes as hold that many characters.
                    .keep_output(output.saturating_mul(4));
                // `HUSKY` is set to 0 for every command, unless its tool says otherwise.
                let inherited =
                    std::env::vars_os().filter(|(name, _)| self.plan.is_given(name) && name != "HUSKY");
                let launch = inherited.fold(launch, |launch, (name, value)| launch.env(name, value));
                let launch = variables.fold(launch, |launch, (name, value)| launch.env(name, value));
                Ok(launch.run(clock).await?)
            }
        }
    }

    /// The words; a relative path is one from the root of the workspace, wherever the command begins.
    fn command(&self, root: &Path) -> Command {
        let mut words = self.plan.words.iter();
        let program = words.next().map(String::as_str).unwrap_or_default();
        let below = program.contains('/') && !program.starts_with('/') && !self.plan.cwd.is_empty();
        let program = if below { root.join(program).into() } else { program.into() };
        Command::Program { program, args: words.map(Into::into).collect() }
    }

    /// What the model is told of a command that succeeded.
    pub(crate) fn message(&self, tool: &str, finished: &Finished) -> String {
        let (said, _) = finished.stdout.text(self.plan.output);
        match said.trim_end_matches('\n') {
            "" => format!("{tool} succeeded, and printed nothing."),
            said => said.to_owned(),
        }
    }

    /// Both outputs of a command that failed.
    pub(crate) fn said(&self, finished: &Finished) -> String {
        let mut text = String::new();
        for (name, output) in [("stdout", &finished.stdout), ("stderr", &finished.stderr)] {
            let (said, _) = output.text(self.plan.output);
            let said = said.trim_end_matches('\n');
            if !said.is_empty() {
                text.push_str(&format!("\n--- {name}\n{said}"));
            }
        }
        text
    }

    /// Asks whether an effect happened. What the command does to the workspace meanwhile is forgotten: it only looks.
    pub(crate) async fn probe(
        &self,
        key: &str,
        arguments: &Value,
        workspace: &Arc<Workspace>,
    ) -> Result<Probed, BoxError> {
        let mut input = Input::new(arguments, self.plan.passing).map_err(|error| error.text())?;
        input.own(KEY, key).map_err(|error| error.text())?;
        let files = wink::filesystem::Filesystem::fork(&**workspace.files())?;
        let layer = HostLayers.layer(&files).await?;
        let finished = self.run(layer.workspace(), input, workspace.store().clock()).await?;
        layer.undo().await?;
        Ok(match finished.ended {
            Ended::Exited(0) => Probed::Happened {
                message: finished.stdout.text(self.plan.output).0.trim_end_matches('\n').to_owned(),
                value: None,
                exclude_value_from_context: false,
            },
            Ended::Exited(1) => Probed::DidNotHappen,
            Ended::Exited(_) | Ended::Signalled(_) | Ended::TimedOut | Ended::Cancelled => Probed::Unknown,
        })
    }
}

/// What makes a command that ran a failed call.
pub(crate) fn failure(tool: &str, finished: &Finished) -> Option<String> {
    let how = match finished.ended {
        Ended::Exited(0) => return None,
        Ended::Exited(code) => format!("exited with {code}"),
        Ended::Signalled(signal) if finished.memory_exhausted => {
            format!("was ended by signal {signal}, since there was no memory left for it")
        }
        Ended::Signalled(signal) => format!("was ended by signal {signal}"),
        Ended::TimedOut => "was stopped, since its time was over".to_owned(),
        Ended::Cancelled => "was cancelled".to_owned(),
    };
    Some(format!("{tool} {how}."))
}
