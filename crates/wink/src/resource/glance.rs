//! Looking at resources before a call has begun, or after it has ended: what is built on the way is provisional, and
//! goes unless what the look was for succeeds.

use std::sync::{Arc, OnceLock};

use super::context::ResourceContext;
use super::error::ResourceError;
use super::merge::CallEnd;
use super::scope::CallScope;

/// A look at committed resources. It opens a scope only when something has to be found or built by a provider.
#[derive(Debug, Default)]
pub(crate) struct Glance {
    scope: OnceLock<CallScope>,
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
