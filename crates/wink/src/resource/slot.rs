//! The place of one instance: empty, being built by somebody, or built; and how instances are closed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::binding::{AnyBinding, Erased, Hook};
use super::core::Core;
use super::error::{BoxError, Panicked, ResourceError};
use super::name::ResourceName;
use crate::BoxFuture;
use crate::limits::Clock;
use crate::support::future::{CatchPanic, Contained, catch, within};
use crate::support::lock::lock;

/// Numbers for builds, scopes and the order of construction.
pub(super) type Serial = u64;

/// Where one instance lives. Singletons have theirs in the context, call-scoped ones in their scope.
pub(super) enum Slot {
    Empty,
    Building(Flight),
    Ready(Ready),
}

/// A build that somebody has under way, and others can wait for.
#[derive(Clone)]
pub(super) struct Flight {
    pub(super) build: Serial,
    landing: Arc<Landing>,
}

#[derive(Default)]
struct Landing {
    end: Mutex<Option<Result<(), ResourceError>>>,
    bell: Notify,
}

impl Flight {
    pub(super) fn new(build: Serial) -> Self {
        Self { build, landing: Arc::default() }
    }

    /// Waits for the end of the build. When it went well or was given up: look again.
    pub(super) async fn wait(self) -> Result<(), ResourceError> {
        let mut rung = std::pin::pin!(self.landing.bell.notified());
        // Listening starts before looking, so an end in between is not missed.
        rung.as_mut().enable();
        if lock(&self.landing.end).is_none() {
            rung.await;
        }
        lock(&self.landing.end).clone().unwrap_or(Ok(()))
    }

    /// Tells those who wait how the build ended; only the first word counts.
    pub(super) fn land(&self, end: Result<(), ResourceError>) {
        lock(&self.landing.end).get_or_insert(end);
        self.landing.bell.notify_waiters();
    }
}

/// A built instance.
pub(super) struct Ready {
    pub(super) value: Erased,
    pub(super) made: Made,
    pub(super) tenure: Tenure,
}

/// What building an instance left to be looked after.
#[derive(Default)]
pub(super) struct Made {
    /// What must be closed with it: itself and the prototypes made for it, those that have a hook.
    pub(super) closing: Vec<Instance>,
    /// The singletons it was given, by their place; they must live as long as it does.
    pub(super) needs: Vec<usize>,
}

/// Whether a singleton is there to stay.
#[derive(PartialEq, Eq)]
pub(super) enum Tenure {
    Permanent,
    /// Built inside a call that has not committed: these calls use it.
    Provisional(Vec<Serial>),
}

/// How long a close hook may take. Calls of the session wait for it, and must not wait for ever.
const CLOSE_LIMIT: Duration = Duration::from_secs(30);

/// An instance that has to be closed.
pub(super) struct Instance {
    pub(super) binding: AnyBinding,
    pub(super) value: Erased,
    pub(super) serial: Serial,
}

impl Instance {
    /// Closes the instance.
    pub(super) async fn close(&self, clock: &Arc<dyn Clock>) -> Result<(), ResourceError> {
        let Some(hook) = &self.binding.0.on_close else { return Ok(()) };
        let name = self.binding.name();
        let closing = Box::pin(run_hook(hook.as_ref(), name, &self.value));
        let closed = within(clock, CLOSE_LIMIT, Contained::new(closing)).await;
        let closed = closed.unwrap_or_else(|| Err(format!("it took longer than {CLOSE_LIMIT:?}").into()));
        closed.map_err(|cause| ResourceError::Close { name: name.clone(), cause: cause.into() })
    }
}

/// Runs a hook, containing its panic.
pub(super) async fn run_hook(hook: &Hook, name: &ResourceName, value: &Erased) -> Result<(), BoxError> {
    let running = catch(|| hook(name, value)).map_err(Panicked)??;
    CatchPanic::new(running).await.map_err(Panicked)?
}

/// Instances in order of construction.
pub(super) fn in_order(mut instances: Vec<Instance>) -> Vec<Instance> {
    instances.sort_by_key(|instance| instance.serial);
    instances
}

/// Instances to close, the last first. One that fails does not stop the rest; when this is given up, what is left
/// goes to the context's orphans.
#[must_use]
pub(crate) struct Closing {
    core: Arc<Core>,
    instances: Vec<Instance>,
}

impl Closing {
    pub(super) fn new(core: &Arc<Core>, instances: Vec<Instance>) -> Self {
        Self { core: Arc::clone(core), instances }
    }

    /// Nothing when there is nothing to close.
    pub(super) fn some(core: &Arc<Core>, instances: Vec<Instance>) -> Option<Self> {
        (!instances.is_empty()).then(|| Self::new(core, instances))
    }

    /// Boxed, since most of the time there is nothing to close.
    pub(crate) fn run(mut self) -> BoxFuture<'static, Vec<ResourceError>> {
        Box::pin(async move {
            let mut failures = Vec::new();
            while let Some(instance) = self.instances.pop() {
                if let Err(failure) = instance.close(&self.core.clock).await {
                    failures.push(failure);
                }
            }
            failures
        })
    }

    /// Hands the instances back: they are not to be closed after all.
    pub(super) fn keep(mut self) -> Vec<Instance> {
        std::mem::take(&mut self.instances)
    }

    /// Closes what nobody will see, where the error that is reported is another one.
    pub(super) async fn run_quietly(self) {
        if self.instances.is_empty() {
            return;
        }
        for failure in self.run().await {
            tracing::warn!(%failure, "closing a resource failed");
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.core.orphan(std::mem::take(&mut self.instances));
    }
}
