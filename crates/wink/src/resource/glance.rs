//! Looking at resources before a call has begun, or after it has ended: what is built on the way is provisional, and
//! goes unless what the look was for succeeds.

use std::sync::{Arc, OnceLock};

use super::context::ResourceContext;
use super::error::ResourceError;
use super::merge::CallEnd;
use super::scope::CallScope;
use crate::filesystem::{Filesystem, Resolutions};

/// A look at committed resources. It opens a scope only when something has to be found or built by a provider.
#[derive(Debug, Default)]
pub(crate) struct Glance {
    scope: OnceLock<CallScope>,
    /// What the paths that were looked at led to.
    seen: OnceLock<Arc<Resolutions>>,
}

impl Glance {
    /// The resource itself, not a copy; nothing when `T` is not bound.
    pub(crate) async fn get_optional<T: ?Sized + Send + Sync + 'static>(
        &self,
        resources: &ResourceContext,
    ) -> Result<Option<Arc<T>>, ResourceError> {
        match resources.made_outside::<T>()? {
            Some(resource) => Ok(Some(resource)),
            None if !resources.registry().contains::<T>() => Ok(None),
            None => self.scope.get_or_init(|| resources.tool_scope()).original().await.map(Some),
        }
    }

    /// The workspace, for policies: what its paths lead to is what they lead to in the call that [`Glance::begin`]s.
    pub(crate) async fn files(
        &self,
        resources: &ResourceContext,
    ) -> Result<Option<Arc<dyn Filesystem>>, ResourceError> {
        let files = self.get_optional::<dyn Filesystem>(resources).await?;
        let held = |files: &Arc<dyn Filesystem>| files.held_to(self.seen.get_or_init(Arc::default));
        Ok(files.map(|files| held(&files).unwrap_or(files)))
    }

    /// Forgets what paths led to: everything is looked at again.
    pub(crate) fn look_again(&mut self) {
        self.seen = OnceLock::new();
    }

    /// The scope of the call that the look was for, held to what was seen.
    pub(crate) fn begin(&mut self, resources: &ResourceContext) -> CallScope {
        let scope = self.take().unwrap_or_else(|| resources.tool_scope());
        if let Some(seen) = self.seen.take() {
            seen.seal();
            scope.hold_to(seen);
        }
        scope
    }

    /// The scope of what was built on the way, if there is one: for the call that the look was for.
    pub(crate) fn take(&mut self) -> Option<CallScope> {
        self.scope.take()
    }

    /// Ends the look: what was built stays if it was for a success.
    pub(crate) async fn end(mut self, success: bool) {
        let Some(scope) = self.take() else { return };
        let end = match scope.merge() {
            Ok(merged) if success => CallEnd::Committed(merged),
            Ok(_) | Err(_) => CallEnd::RolledBack,
        };
        for error in scope.finish(end).await {
            tracing::warn!(%error, "a resource that was only looked at could not be closed");
        }
    }
}
