//! What a command works in: a layer over the workspace of its call.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use wink::BoxFuture;
use wink::filesystem::host::{Capture, CommandLayer, HostFilesystem, OverlayDirs, Undone};
use wink::filesystem::{Filesystem, FsError};
use wink::limits::CancelToken;

use crate::capabilities::{Capabilities, Finding, probe_overlay};
use crate::overlay::WorkspaceView;

/// There is no layer to be had, or what it holds could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// The workspace is not a directory on disk.
    #[error(
        "the workspace is not a directory on disk, so that no program can work in it; \
         bind a HostFilesystem as the workspace to use shell_execute"
    )]
    NotOnDisk,
    /// There is no thread to work on it.
    #[error("the layer of a command could not be worked on: {0}")]
    Thread(#[from] io::Error),
    /// The filesystem says why.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// Makes layers over the workspaces of calls.
pub trait WorkspaceLayers: Send + Sync + 'static {
    /// A layer over `files`, which is the call's own copy.
    fn layer<'a>(
        &'a self,
        files: &'a Arc<dyn Filesystem>,
    ) -> BoxFuture<'a, Result<Box<dyn WorkspaceLayer>, LayerError>>;
}

/// A layer over the workspace of a call. Dropping it forgets what the command did.
pub trait WorkspaceLayer: Send + Sync {
    /// What is mounted for the command.
    fn workspace(&self) -> WorkspaceView;

    /// Takes what the command did into the call's copy, after every process of it is gone.
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<(), LayerError>>;

    /// Forgets what the command did, after every process of it is gone, and says what became of it.
    fn undo(self: Box<Self>) -> BoxFuture<'static, Result<Undone, LayerError>> {
        drop(self);
        Box::pin(std::future::ready(Ok(Undone::default())))
    }
}

/// Layers over [`HostFilesystem`]s: overlays where they can be mounted, and scans of the workspace elsewhere, unless the
/// filesystem was opened for one of them ([`capture_of`]).
#[derive(Debug, Clone, Copy, Default)]
pub struct HostLayers;

impl WorkspaceLayers for HostLayers {
    fn layer<'a>(
        &'a self,
        files: &'a Arc<dyn Filesystem>,
    ) -> BoxFuture<'a, Result<Box<dyn WorkspaceLayer>, LayerError>> {
        let files = Arc::clone(files);
        Box::pin(async move {
            let waiting = Waiting(CancelToken::new());
            let cancel = waiting.0.clone();
            let made = aside(move || {
                HostFilesystem::of(&*files).map(|files| files.command_layer(&cancel, can_mount))
            })
            .await?;
            drop(waiting);
            let layer = made.ok_or(LayerError::NotOnDisk)??;
            tracing::debug!(capture = %layer.capture(), "a command gets its view of the workspace");
            Ok(Box::new(HostLayer(layer)) as Box<dyn WorkspaceLayer>)
        })
    }
}

/// Whoever waits for a layer. When they do so no longer, it is not made.
struct Waiting(CancelToken);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

struct HostLayer(CommandLayer);

impl WorkspaceLayer for HostLayer {
    fn workspace(&self) -> WorkspaceView {
        match self.0.overlay() {
            Some(dirs) => WorkspaceView::Overlay(dirs),
            None => WorkspaceView::Direct {
                root: self.0.root().to_owned(),
                state_name: Some(self.0.state_name().to_owned()),
                record: self.0.record(),
            },
        }
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<(), LayerError>> {
        Box::pin(async move { Ok(aside(move || self.0.finish()).await??) })
    }

    fn undo(self: Box<Self>) -> BoxFuture<'static, Result<Undone, LayerError>> {
        Box::pin(async move { Ok(aside(move || self.0.undo()).await??) })
    }
}

/// How what commands do in this workspace is found out, and how that is known.
pub fn capture_of(files: &HostFilesystem) -> Result<(Capture, Finding), LayerError> {
    let what = "what commands do in the workspace".to_owned();
    if let Some(capture) = files.capture() {
        let how = "the workspace was opened so".to_owned();
        return Ok((capture, Finding { what, found: format!("by {capture}"), how }));
    }
    let fork = files.fork()?;
    let fork = HostFilesystem::of(&*fork).ok_or(LayerError::NotOnDisk)?;
    let why_not = match fork.command_layer_by(Capture::Overlay) {
        Ok(layer) => layer.overlay().map_or(Ok(()), |dirs| can_mount(&dirs)).err(),
        Err(error) => Some(error.to_string()),
    };
    Ok(match why_not {
        None => {
            let how = "mounted one over it".to_owned();
            (Capture::Overlay, Finding { what, found: "by overlay".to_owned(), how })
        }
        Some(reason) => {
            let how = "tried to mount an overlay over it".to_owned();
            (Capture::Scan, Finding { what, found: format!("by scan: {reason}"), how })
        }
    })
}

/// Whether an overlay of these can be mounted: by doing it, for each workspace until it has worked once. What stopped it may have been
/// a full disk or table, so that a failure is no answer for ever.
fn can_mount(dirs: &OverlayDirs) -> Result<(), String> {
    type Known = HashMap<(PathBuf, bool), Result<(), String>>;
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    Capabilities::detect().can_mount(dirs).map_err(|error| error.to_string())?;
    let key = (dirs.lower.clone(), dirs.user_xattr);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Ok(())) = known().as_ref().and_then(|known| known.get(&key)) {
        return Ok(());
    }
    let probed = probe_overlay(dirs).map(drop).map_err(|error| error.to_string());
    let before = known().get_or_insert_default().insert(key, probed.clone());
    if let Err(reason) = &probed
        && before.as_ref() != Some(&probed)
    {
        let workspace = dirs.lower.display();
        tracing::warn!(%workspace, reason, "no overlay can be mounted; commands are found out by a scan");
    }
    probed
}

/// Work with files, on a thread of its own: as much as was changed, which may be a lot.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, LayerError> {
    let (done, wait) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("wink-layer".to_owned()).spawn(move || {
        // Whoever does not wait any more has no use for it.
        let _ = done.send(work());
    })?;
    wait.await.map_err(|_| LayerError::Thread(io::Error::other("the thread that worked on it is gone")))
}

#[cfg(test)]
mod tests;
