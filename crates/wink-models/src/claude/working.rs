//! What one of the program's tools does to the workspace: found by looking, and kept or undone as a whole.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use wink::filesystem::host::{CommandLayer, CommandRecord, HostFilesystem};
use wink::filesystem::{Filesystem, STATE};
use wink::limits::CancelToken;
use wink::tool::{ToolContext, ToolError};

use super::native::{Native, Reach};
use super::process::Leash;
use super::wire::written;

/// The workspace while the program changes it. Dropping this ends the program and undoes what it did.
///
/// That the program is at work is written down in the workspace, so that whoever opens it after we died ends the program first, and
/// then undoes what it did.
pub(super) struct Working {
    layer: Option<CommandLayer>,
    record: Option<CommandRecord>,
    leash: Arc<Leash>,
}

/// Stops the making of a layer that nobody waits for any more.
struct Waiting(CancelToken);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Working {
    /// Saves the workspace of a call.
    pub(super) async fn begin(cx: &ToolContext, leash: &Arc<Leash>) -> Result<Self, ToolError> {
        let files = cx.resource::<dyn Filesystem>().await?;
        let waiting = Waiting(CancelToken::new());
        let cancel = waiting.0.clone();
        let layer = aside(move || HostFilesystem::of(&*files).map(|files| files.scan_layer(&cancel)))
            .await?
            .ok_or_else(|| {
                ToolError::new(
                    "the workspace is not a directory on disk, so that Claude Code cannot change it",
                )
            })??;
        drop(waiting);
        let record = layer.record();
        let working = Self { layer: Some(layer), record, leash: Arc::clone(leash) };
        if let Some(record) = &working.record {
            leash.note(record)?;
        }
        Ok(working)
    }

    /// Makes what the program did the call's. The program goes on.
    pub(super) async fn keep(mut self) -> Result<(), ToolError> {
        let Some(layer) = self.release()? else { return Ok(()) };
        Ok(aside(move || layer.finish()).await??)
    }

    /// Undoes what the program did. The program goes on.
    pub(super) async fn undo(mut self) -> Result<(), ToolError> {
        let Some(layer) = self.release()? else { return Ok(()) };
        undo(layer).await
    }

    /// Ends the program, and undoes what it did.
    pub(super) async fn undo_all(mut self) -> Result<(), ToolError> {
        self.leash.kill();
        let Some(layer) = self.layer.take() else { return Ok(()) };
        undo(layer).await
    }

    /// The layer, from which the program is let go. If it cannot be, it is ended when this is dropped.
    fn release(&mut self) -> Result<Option<CommandLayer>, ToolError> {
        if let Some(record) = &self.record {
            record.withdraw()?;
        }
        Ok(self.layer.take())
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(layer) = self.layer.take() {
            self.leash.kill();
            drop(layer);
        }
    }
}

async fn undo(layer: CommandLayer) -> Result<(), ToolError> {
    let undone = aside(move || layer.undo()).await?;
    let undone = undone.map_err(|error| {
        let text = format!("the workspace could not be restored: {error}");
        ToolError::from(error).tell(text)
    })?;
    if let Some(trash) = undone.trash {
        tracing::info!(trash = %trash.display(), "what a tool of Claude Code left is kept for a while");
    }
    Ok(())
}

/// Work with files, of which there may be many, beside everything else.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    Ok(tokio::task::spawn_blocking(work).await?)
}

/// The arguments of a tool as policies and the log have them: what the program calls `file_path` is `path`, from the root of the workspace.
/// A path outside stays as it is. With them, why the call must not be made.
pub(super) fn arguments(native: Native, input: &Value, root: Option<&Path>) -> (String, Option<String>) {
    let Value::Object(input) = input else { return (written(input), None) };
    let named = ["file_path", "notebook_path", "path"].into_iter().find(|name| input.contains_key(*name));
    let text = named.and_then(|name| input.get(name)).and_then(Value::as_str);
    let inside = match (root, text) {
        (Some(root), Some(text)) => inside(root, text),
        // Searches begin at the root if nothing else is said.
        (Some(_), None) if matches!(native, Native::Glob | Native::Grep) => Some(".".to_owned()),
        (Some(_) | None, _) => None,
    };
    let mut arguments = Map::new();
    for (name, value) in input.iter().filter(|(name, _)| Some(name.as_str()) != named) {
        arguments.insert(name.clone(), value.clone());
    }
    let pattern = input.get("pattern").and_then(Value::as_str).filter(|_| native == Native::Glob);
    let leads_away = |pattern: &&str| {
        Path::new(pattern).components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
    };
    let refusal = match (&inside, text) {
        (None, Some(text)) if native.reach() == Reach::Writes => {
            Some(format!("{text} is not in the workspace, so that it could not be undone; use a path in it"))
        }
        (None, None) if native.reach() == Reach::Writes && native.has_path() => {
            Some("it names no file; give its path".to_owned())
        }
        (None, Some(text)) if root.is_some_and(|root| is_ours(root, text)) => {
            Some(format!("{text} belongs to the runtime; use another path"))
        }
        _ => pattern.filter(leads_away).map(|pattern| {
            format!("the pattern {pattern} leads away from its path; give the directory as the path, and a pattern below it")
        }),
    };
    match (inside, text) {
        (Some(inside), _) => arguments.insert("path".to_owned(), inside.into()),
        (None, Some(text)) => arguments.insert("file_path".to_owned(), text.into()),
        (None, None) => None,
    };
    (written(&Value::Object(arguments)), refusal)
}

/// The path from the root, links in it followed; nothing if that is outside, or belongs to the runtime.
fn inside(root: &Path, text: &str) -> Option<String> {
    let inside = below(root, text).filter(|inside| !inside.starts_with(STATE))?;
    match inside.to_str()? {
        "" => Some(".".to_owned()),
        inside => Some(inside.to_owned()),
    }
}

/// Whether a path is one of the runtime's own.
fn is_ours(root: &Path, text: &str) -> bool {
    below(root, text).is_some_and(|inside| inside.starts_with(STATE))
}

/// The path from the root, links in it followed; nothing if that is outside.
fn below(root: &Path, text: &str) -> Option<PathBuf> {
    let root = root.canonicalize().ok()?;
    let mut path = PathBuf::new();
    for component in root.join(text).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
        // Each link is followed before the next part, which may be `..`.
        match path.canonicalize() {
            Ok(real) => path = real,
            // It leads to what is not there yet.
            Err(_) if path.is_symlink() => return None,
            Err(_) => {}
        }
    }
    path.strip_prefix(&root).ok().map(Path::to_owned)
}

#[cfg(test)]
mod tests;
