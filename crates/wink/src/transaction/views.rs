//! What a transaction is worked with: session, workspace and resources as it sees them.

use std::sync::Arc;

use super::work::{AccessError, Work};
use crate::filesystem::Filesystem;
use crate::resource::CallResources;
use crate::tool::context::CallSession;
use crate::tool::files::FilesView;

/// Session, workspace and resources as a transaction sees them. Everything fails once the transaction has ended.
pub struct Views {
    work: Arc<Work>,
    /// The resources of a nested transaction, in place of the outer ones.
    inner: Option<CallResources>,
}

impl Views {
    pub(super) fn new(work: Arc<Work>) -> Self {
        Self { work, inner: None }
    }

    pub(super) fn inside(work: Arc<Work>, resources: Option<CallResources>) -> Self {
        Self { work, inner: resources }
    }

    pub(super) fn work(&self) -> &Arc<Work> {
        &self.work
    }

    /// The session.
    pub fn session(&self) -> CallSession<'_> {
        CallSession::new(&self.work)
    }

    /// The workspace.
    ///
    /// # Errors
    /// When there is none, it cannot be copied, or the transaction has ended.
    pub async fn filesystem(&self) -> Result<FilesView<'_>, AccessError> {
        self.work.is_open()?;
        // Which files is checked path by path.
        let files = self.resources().get::<dyn Filesystem>().await?;
        Ok(FilesView::new(&self.work, files))
    }

    /// A resource, by type or trait. A snapshotable one is the transaction's own copy; what is done to any other
    /// is not undone.
    ///
    /// # Errors
    /// When it is not bound, cannot be built or copied, or the transaction has ended.
    pub async fn resource<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, AccessError> {
        self.work.resource_in(self.resources()).await
    }

    /// A resource that need not be there.
    ///
    /// # Errors
    /// As [`Views::resource`], but for one that is not bound.
    pub async fn resource_optional<T: ?Sized + Send + Sync + 'static>(
        &self,
    ) -> Result<Option<Arc<T>>, AccessError> {
        self.work.resource_optional_in(self.resources()).await
    }

    fn resources(&self) -> &CallResources {
        self.inner.as_ref().unwrap_or(&self.work.resources)
    }
}
