//! Opened resources: what is shared by the calls of one evaluation.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::binding::{AnyBinding, Erased, Source};
use super::core::Core;
use super::error::{ResourceError, ResourceErrors};
use super::merge::Restoring;
use super::registry::ResourceRegistry;
use super::resolve::{Access, View};
use super::scope::CallScope;
use super::slot::{Closing, in_order};
use super::snapshot::{ErasedSnapshot, ResourceSnapshot, typed};

use crate::limits::Clock;
/// An opened registry: it holds the singletons until it is closed. Cloning it is cheap.
#[derive(Clone)]
pub struct ResourceContext {
    core: Arc<Core>,
}

/// What [`ResourceContext::restore_all`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreReport {
    /// The names of the resources that were restored.
    pub restored: Vec<String>,
    /// The names in the snapshot that belong to no resource here; they were skipped.
    pub missing: Vec<String>,
}

impl ResourceContext {
    pub(super) async fn open(
        registry: ResourceRegistry,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ResourceError> {
        let context = Self { core: Core::new(registry, clock) };
        context.check_names()?;
        for (at, binding) in context.core.registry.bindings().iter().enumerate() {
            if binding.0.eager
                && let Err(error) = context.view().build(at, binding).await
            {
                if let Err(failures) = context.close().await {
                    tracing::warn!(%failures, "closing resources after a failed opening");
                }
                return Err(error);
            }
        }
        Ok(context)
    }

    /// The resource of type `T`, built if need be. Got here, outside any call, a snapshotable resource is the
    /// original.
    ///
    /// # Errors
    /// When it is not bound, cannot be built, lives for one call only, or the context is closed.
    pub async fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, ResourceError> {
        self.view().get().await
    }

    /// As [`ResourceContext::get`]; nothing when `T` is not bound.
    ///
    /// # Errors
    /// As [`ResourceContext::get`].
    pub async fn get_optional<T: ?Sized + Send + Sync + 'static>(
        &self,
    ) -> Result<Option<Arc<T>>, ResourceError> {
        self.view().get_optional().await
    }

    /// The resource if it can be had without waiting: made outside, or built before.
    ///
    /// # Errors
    /// As [`ResourceContext::get`].
    pub fn ready<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Option<Arc<T>>, ResourceError> {
        self.view().ready()
    }

    /// The registry that was opened.
    #[must_use]
    pub fn registry(&self) -> &ResourceRegistry {
        &self.core.registry
    }

    /// A scope for one tool call.
    pub fn tool_scope(&self) -> CallScope {
        CallScope::new(&self.core, None)
    }

    /// Whether there is anything for [`ResourceContext::drain`].
    pub(crate) fn has_orphans(&self) -> bool {
        self.core.has_orphans()
    }

    /// Closes what dropped scopes and dropped builds left behind. It costs nothing when there is nothing.
    pub async fn drain(&self) -> Vec<ResourceError> {
        match Closing::some(&self.core, in_order(self.core.take_orphans())) {
            Some(closing) => closing.run().await,
            None => Vec::new(),
        }
    }

    /// Closes the singletons in reverse order of construction. Instances made outside are left alone. Closing
    /// twice is fine.
    ///
    /// # Errors
    /// The failures of all that could not be closed; none stops the rest.
    pub async fn close(&self) -> Result<(), ResourceErrors> {
        ResourceErrors::check(Closing::new(&self.core, in_order(self.core.shut())).run().await)
    }

    /// Snapshots of all snapshotable resources that exist, by their names, in order of declaration.
    ///
    /// # Errors
    /// When one cannot be snapshotted.
    pub fn snapshot_all(&self) -> Result<Vec<(String, ResourceSnapshot)>, ResourceError> {
        self.snapshotables()
            .map(|(binding, operations, original)| {
                let name = binding.name();
                Ok((name.full().to_owned(), operations.snapshot(name, &original)?))
            })
            .collect()
    }

    /// Whether every resource that was there when these snapshots were taken is as it was.
    pub(crate) fn unchanged_since(
        &self,
        snapshots: &[(String, ResourceSnapshot)],
    ) -> Result<bool, ResourceError> {
        for (name, before) in snapshots {
            let Some((binding, operations, original)) = self.snapshotable(name) else { return Ok(false) };
            if !operations.snapshot(binding.name(), &original)?.same(before) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes back to what [`ResourceContext::snapshot_all`] returned, for all resources or for none.
    ///
    /// # Errors
    /// When one cannot be restored; those before it are put back first.
    pub fn restore_all(
        &self,
        snapshots: &[(String, ResourceSnapshot)],
    ) -> Result<RestoreReport, ResourceError> {
        let mut report = RestoreReport::default();
        let mut done = Vec::new();
        for (name, snapshot) in snapshots {
            let Some((binding, operations, original)) = self.snapshotable(name) else {
                report.missing.push(name.clone());
                continue;
            };
            let before = operations.snapshot(binding.name(), &original);
            let restored = before.and_then(|before| {
                done.push((binding, operations, Arc::clone(&original), before));
                operations.restore(binding.name(), &original, snapshot)
            });
            if let Err(cause) = restored {
                // The one that failed may be restored half: it is put back, too.
                let failures: Vec<_> = done
                    .into_iter()
                    .rev()
                    .filter_map(|(binding, operations, original, before)| {
                        operations.restore(binding.name(), &original, &before).err()
                    })
                    .collect();
                return Err(match ResourceErrors::check(failures) {
                    Ok(()) => cause,
                    Err(failures) => ResourceError::NotPutBack { cause: Box::new(cause), failures },
                });
            }
            report.restored.push(name.clone());
        }
        Ok(report)
    }

    /// Gets ready to go back to snapshots, and names those that belong to no resource here. Nothing is changed yet.
    pub(crate) fn restoring(
        &self,
        snapshots: &[(String, ResourceSnapshot)],
    ) -> Result<(Restoring, Vec<String>), ResourceError> {
        let (mut steps, mut missing) = (Vec::new(), Vec::new());
        for (name, snapshot) in snapshots {
            match self.snapshotable(name) {
                Some((binding, operations, original)) => {
                    steps.push(operations.restoring(binding.name(), &original, snapshot)?);
                }
                None => missing.push(name.clone()),
            }
        }
        Ok((Restoring { steps }, missing))
    }

    /// A snapshot of the named resource from its JSON form; nothing when there is no such resource.
    ///
    /// # Errors
    /// When the value is not a snapshot of that resource.
    pub fn decode_snapshot(
        &self,
        name: &str,
        json: &Value,
    ) -> Result<Option<ResourceSnapshot>, ResourceError> {
        self.snapshotable(name)
            .map(|(binding, operations, original)| operations.decode(binding.name(), &original, json))
            .transpose()
    }

    /// A resource that was made outside; nothing when it is not bound, or a provider makes it.
    pub(super) fn made_outside<T: ?Sized + Send + Sync + 'static>(
        &self,
    ) -> Result<Option<Arc<T>>, ResourceError> {
        let found = self.core.registry.find(std::any::TypeId::of::<T>());
        match found.map(|(_, binding)| (binding, &binding.0.source)) {
            Some((binding, Source::Outside(value))) => typed(binding.name(), value).map(Some),
            Some((_, Source::Provider(_))) | None => Ok(None),
        }
    }

    /// Waits until no call is between its merge and its end, whichever session it is of, and keeps others from it.
    pub(crate) async fn merging(&self) -> tokio::sync::OwnedMutexGuard<()> {
        Arc::clone(&self.core.merging).lock_owned().await
    }

    /// A resource that is there to stay, without building anything.
    pub(crate) fn there_already<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let (at, binding) = self.core.registry.find(std::any::TypeId::of::<T>())?;
        match &binding.0.source {
            Source::Outside(value) => typed(binding.name(), value).ok(),
            Source::Provider(_) => typed(binding.name(), &self.core.permanent(at)?).ok(),
        }
    }

    fn view(&self) -> View<'_> {
        View { core: &self.core, scope: None, frame: None, access: Access::Transacted }
    }

    /// Whether a call works on a copy of the resource, which is forgotten if the call fails.
    pub(crate) fn is_copied(&self, resource: std::any::TypeId) -> bool {
        self.core.registry.find(resource).is_some_and(|(_, binding)| binding.0.snapshot.is_some())
    }

    fn snapshotables(&self) -> impl Iterator<Item = (&AnyBinding, &dyn ErasedSnapshot, Erased)> {
        self.core.registry.bindings().iter().enumerate().filter_map(|(at, binding)| {
            let operations = binding.0.snapshot.as_deref()?;
            let original = match &binding.0.source {
                Source::Outside(value) => Arc::clone(value),
                Source::Provider(_) => self.core.permanent(at)?,
            };
            Some((binding, operations, original))
        })
    }

    fn snapshotable(&self, name: &str) -> Option<(&AnyBinding, &dyn ErasedSnapshot, Erased)> {
        self.snapshotables().find(|(binding, ..)| binding.name().full() == name)
    }

    /// Stored snapshots find their resources by name, so two must not share one.
    fn check_names(&self) -> Result<(), ResourceError> {
        let mut seen: Vec<&str> = Vec::new();
        for binding in self.core.registry.bindings().iter().filter(|binding| binding.0.snapshot.is_some()) {
            if seen.contains(&binding.name().full()) {
                let reason = "another snapshotable resource has the same name";
                return Err(ResourceError::InvalidBinding { name: binding.name().clone(), reason });
            }
            seen.push(binding.name().full());
        }
        Ok(())
    }
}

impl fmt::Debug for ResourceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceContext")
            .field("bindings", &self.core.registry.bindings())
            .finish_non_exhaustive()
    }
}
