//! One command of a call: in a layer over its workspace, whose changes are taken over or undone.

use std::future::Future;

use wink::filesystem::Filesystem;
use wink::filesystem::host::Undone;
use wink::tool::{ToolContext, ToolError};

use super::layer::WorkspaceLayers;
use crate::error::{LaunchError, SandboxError};
use crate::launch::Finished;
use crate::overlay::WorkspaceView;

/// A command that ran.
#[derive(Debug)]
pub struct Ran {
    /// How it ended, and what it said.
    pub finished: Finished,
    /// Why it is a failed call, if it is one, and what became of what it did. That is undone then.
    pub failure: Option<String>,
}

/// Runs a command over the workspace of a call. What it did is taken into the call's own copy; or undone, if `fails` says
/// that it makes the call a failed one. When this ends, or is dropped, no process of it is left, provided that `run` is a [`Launch`](crate::Launch) or a
/// [`Sandbox`](crate::Sandbox). As long as it takes, the call [tells](wink::tool::ReadContext::telling) that it goes on.
///
/// # Errors
/// When the command could not be run, or what it did could not be taken over or undone. The call has to fail then.
pub async fn run_in_layer<F, E>(
    layers: &dyn WorkspaceLayers,
    cx: &ToolContext,
    run: impl FnOnce(WorkspaceView) -> F,
    fails: impl FnOnce(&Finished) -> Option<String>,
) -> Result<Ran, ToolError>
where
    F: Future<Output = Result<Finished, E>>,
    E: Into<SandboxError>,
{
    cx.telling(in_layer(layers, cx, run, fails)).await
}

async fn in_layer<F, E>(
    layers: &dyn WorkspaceLayers,
    cx: &ToolContext,
    run: impl FnOnce(WorkspaceView) -> F,
    fails: impl FnOnce(&Finished) -> Option<String>,
) -> Result<Ran, ToolError>
where
    F: Future<Output = Result<Finished, E>>,
    E: Into<SandboxError>,
{
    let files = cx.resource::<dyn Filesystem>().await?;
    let layer = layers.layer(&files).await?;
    let finished = run(layer.workspace()).await.map_err(|error| told(error.into()))?;
    let Some(failure) = fails(&finished) else {
        // It has had its effect outside, whatever becomes of what it did here.
        layer.finish().await.map_err(|error| ToolError::from(error).in_doubt())?;
        return Ok(Ran { finished, failure: None });
    };
    // The call is rolled back.
    let undone = layer.undo().await.map_err(|error| {
        let text = format!("{failure} But the workspace could not be restored: {error}");
        ToolError::from(error).tell(text)
    })?;
    Ok(Ran { finished, failure: Some(failure + &aftermath(&undone)) })
}

/// What is to be known about a command that is undone.
fn aftermath(undone: &Undone) -> String {
    let mut text = String::new();
    if let Some(trash) = &undone.trash {
        let trash = trash.display();
        text.push_str(&format!(
            " What it, or anybody else meanwhile, had changed is kept for a while in {trash} of the workspace."
        ));
    }
    if !undone.lost.is_empty() {
        let lost: Vec<_> = undone.lost.iter().take(10).map(ToString::to_string).collect();
        let more = if undone.lost.len() > lost.len() { " and others" } else { "" };
        text.push_str(&format!(
            " Sockets or devices that it removed cannot be brought back: {}{more}.",
            lost.join(", ")
        ));
    }
    text
}

/// What the model is told: what it can mend itself, and no more than that of the rest.
fn told(error: SandboxError) -> ToolError {
    let text = match &error {
        SandboxError::Launch(
            LaunchError::Program { .. }
            | LaunchError::TooLarge { .. }
            | LaunchError::Cwd { .. }
            | LaunchError::Zero { .. },
        )
        | SandboxError::Missing { .. }
        | SandboxError::Unenforceable { .. }
        | SandboxError::Invalid { .. } => return ToolError::from(error),
        _ => "the command could not be run on this machine; trying again may help, another command will not",
    };
    let began = matches!(&error, SandboxError::Launch(LaunchError::Lost(_)) | SandboxError::Failed(_));
    let told = ToolError::from(error).tell(text);
    // Nobody saw how it ended.
    if began { told.in_doubt() } else { told }
}
