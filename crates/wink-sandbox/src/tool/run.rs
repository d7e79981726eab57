//! One command of a call: in a layer over its workspace, whose changes are taken over or undone.

use std::future::Future;
use std::io;

use rustix::io::Errno;
use wink::filesystem::host::Undone;
use wink::filesystem::{Filesystem, FsError};
use wink::tool::{ToolContext, ToolError};
use wink::transaction::RestoreFailedError;

use super::layer::{LayerError, WorkspaceLayer, WorkspaceLayers};
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
/// that it makes the call a failed one, and why, in a sentence. When this ends, or is dropped, no process of it is left, provided that `run` is a [`Launch`](crate::Launch) or a
/// [`Sandbox`](crate::Sandbox). As long as it takes, the call [tells](wink::tool::ReadContext::telling) that it goes on.
///
/// # Errors
/// When the command could not be run, or what it did could not be taken over. The call has to fail then. What could not be undone is a
/// [`RestoreFailedError`].
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
    let finished = match run(layer.workspace()).await {
        Ok(finished) => finished,
        Err(error) => return Err(not_finished(layer, error.into()).await),
    };
    let Some(failure) = fails(&finished) else {
        // It has had its effect outside, whatever becomes of what it did here.
        layer.finish().await.map_err(|error| not_taken_over(error).in_doubt())?;
        return Ok(Ran { finished, failure: None });
    };
    // The call is rolled back.
    match layer.undo().await {
        Ok(undone) => {
            Ok(Ran { finished, failure: Some(format!("{failure} {UNDONE}{}", aftermath(&undone))) })
        }
        Err(error) => Err(not_undone(&failure, &error).in_doubt()),
    }
}

const UNDONE: &str = "What it changed in the workspace is undone.";

/// A command that succeeded, and still has no success.
fn not_taken_over(error: LayerError) -> ToolError {
    match error {
        LayerError::Fs(error @ FsError::NotUndone { .. }) => {
            let reason = error.to_string();
            ToolError::from(RestoreFailedError { reason: reason.clone() }).tell(reason)
        }
        error => ToolError::from(error),
    }
}

/// A command that failed, and did something that could not be undone.
fn not_undone(failure: &str, error: &LayerError) -> ToolError {
    let text = format!("{failure} The workspace could not be restored: {error}");
    ToolError::from(RestoreFailedError { reason: error.to_string() }).tell(text)
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

/// A command that did not run, or of which nobody saw how it ended.
async fn not_finished(layer: Box<dyn WorkspaceLayer>, error: SandboxError) -> ToolError {
    let failure = match &error {
        SandboxError::Launch(LaunchError::Lost(_)) => {
            "The command was lost: what kept it together was killed, or failed, and nobody saw how it ended."
        }
        SandboxError::Failed(_) => "The sandbox failed, and whether the command ran in it is not known.",
        _ => return not_run(error),
    };
    tracing::warn!(%error, "nobody saw how a command ended");
    match layer.undo().await {
        Ok(undone) => {
            let text = format!("{failure} {UNDONE}{}", aftermath(&undone));
            ToolError::from(error).tell(text).in_doubt()
        }
        Err(not_restored) => not_undone(failure, &not_restored).in_doubt(),
    }
}

/// What the model is told of a command that did not run: what it can mend itself, and no more than that of the rest.
fn not_run(error: SandboxError) -> ToolError {
    let text = match &error {
        SandboxError::Launch(
            LaunchError::Program { .. }
            | LaunchError::TooLarge { .. }
            | LaunchError::Cwd { .. }
            | LaunchError::Zero { .. }
            | LaunchError::ForeignProc(_),
        )
        | SandboxError::Missing { .. }
        | SandboxError::Unenforceable { .. }
        | SandboxError::Invalid { .. } => return ToolError::from(error),
        SandboxError::Launch(LaunchError::Surroundings { source, .. }) if is_out_of_files(source) => {
            "the command could not be run: this process has as many files open as it may have. Its limit of open files has to be \
             raised (ulimit -n); another command will not help"
        }
        _ => "the command could not be run on this machine; trying again may help, another command will not",
    };
    ToolError::from(error).tell(text)
}

fn is_out_of_files(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MFILE)
}
