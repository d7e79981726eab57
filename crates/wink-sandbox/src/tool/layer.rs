//! What a command works in: a layer over the workspace of its call.

use std::io;
use std::sync::Arc;

use wink::BoxFuture;
use wink::filesystem::host::{CommandLayer, HostFilesystem};
use wink::filesystem::{Filesystem, FsError};

use crate::overlay::Workspace;

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
    fn workspace(&self) -> Workspace;

    /// Takes what the command did into the call's copy, after every process of it is gone.
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<(), LayerError>>;
}

/// Layers over [`HostFilesystem`]s, as overlays.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostLayers;

impl WorkspaceLayers for HostLayers {
    fn layer<'a>(
        &'a self,
        files: &'a Arc<dyn Filesystem>,
    ) -> BoxFuture<'a, Result<Box<dyn WorkspaceLayer>, LayerError>> {
        let files = Arc::clone(files);
        Box::pin(async move {
            let made = aside(move || HostFilesystem::of(&*files).map(HostFilesystem::command_layer)).await?;
            let layer = made.ok_or(LayerError::NotOnDisk)??;
            Ok(Box::new(HostLayer(layer)) as Box<dyn WorkspaceLayer>)
        })
    }
}

struct HostLayer(CommandLayer);

impl WorkspaceLayer for HostLayer {
    fn workspace(&self) -> Workspace {
        Workspace::Overlay(self.0.overlay())
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<(), LayerError>> {
        Box::pin(async move { Ok(aside(move || self.0.finish()).await??) })
    }
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
