//! What a command works in: a layer over the workspace of its call.

use std::sync::Arc;

use wink::BoxFuture;
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

/// Knows no workspace that is on disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLayers;

impl WorkspaceLayers for NoLayers {
    fn layer<'a>(
        &'a self,
        _files: &'a Arc<dyn Filesystem>,
    ) -> BoxFuture<'a, Result<Box<dyn WorkspaceLayer>, LayerError>> {
        Box::pin(std::future::ready(Err(LayerError::NotOnDisk)))
    }
}
