//! Finding and building instances: each is built once however many ask at the same time, cycles are found
//! within a task and across tasks, and nothing short-lived gets into something that outlives it.

use std::any::TypeId;
use std::sync::{Arc, Mutex};

use super::binding::{AnyBinding, Erased, Scope, Source};
use super::core::{Build, Core, Found, Waiting};
use super::error::{BoxError, Panicked, ResourceError};
use super::name::ResourceName;
use super::scope_inner::ScopeInner;
use super::slot::{Closing, Flight, Instance, Made, Ready, Tenure, in_order, run_hook};
use super::snapshot::typed;
use crate::BoxFuture;
use crate::support::future::{CatchPanic, catch};
use crate::support::lock::lock;

/// What a provider gets its dependencies from. It serves only while that provider runs.
#[derive(Clone)]
pub struct Resolver {
    core: Arc<Core>,
    scope: Option<Arc<ScopeInner>>,
    frame: Arc<Frame>,
}

impl Resolver {
    /// The resource of type `T`, built if need be.
    ///
    /// # Errors
    /// When it is not bound, cannot be built, needs what is being built here, or must not be held by it.
    pub async fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, ResourceError> {
        self.view(Access::Transacted).get().await
    }

    /// As [`Resolver::get`]; nothing when `T` is not bound.
    ///
    /// # Errors
    /// As [`Resolver::get`].
    pub async fn get_optional<T: ?Sized + Send + Sync + 'static>(
        &self,
    ) -> Result<Option<Arc<T>>, ResourceError> {
        self.view(Access::Transacted).get_optional().await
    }

    /// The resource if it can be had without waiting: made outside, or built before.
    ///
    /// # Errors
    /// As [`Resolver::get`].
    pub fn ready<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Option<Arc<T>>, ResourceError> {
        self.view(Access::Transacted).ready()
    }

    /// A snapshotable resource itself instead of the call's copy of it. A singleton may hold it, but what is
    /// done through it belongs to no transaction and is never rolled back: use it to read.
    ///
    /// # Errors
    /// As [`Resolver::get`].
    pub async fn get_original<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, ResourceError> {
        self.view(Access::Original).get().await
    }

    fn view(&self, access: Access) -> View<'_> {
        View { core: &self.core, scope: self.scope.as_ref(), frame: Some(&self.frame), access }
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver(..)")
    }
}

/// Which side of a snapshotable resource is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The call's copy, where there is a call.
    Transacted,
    /// The resource itself.
    Original,
}

/// Who asks: a context, a call, or a provider on behalf of either.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) scope: Option<&'a Arc<ScopeInner>>,
    pub(super) frame: Option<&'a Arc<Frame>>,
    pub(super) access: Access,
}

/// One build under way, as seen by what is built for it.
pub(super) struct Frame {
    core: Arc<Core>,
    build: Build,
    /// The nearest singleton that will hold what is got here.
    holder: Option<usize>,
    parent: Option<Arc<Frame>>,
    /// None when the build is over.
    made: Mutex<Option<Made>>,
}

impl Frame {
    /// Looks after what was made for this build; hands it back when the build is over.
    fn keep(&self, more: Made) -> Result<(), Made> {
        match lock(&self.made).as_mut() {
            Some(made) => {
                made.closing.extend(more.closing);
                made.needs.extend(more.needs);
                Ok(())
            }
            None => Err(more),
        }
    }

    fn end(&self) -> Made {
        lock(&self.made).take().unwrap_or_default()
    }
}

impl Drop for Frame {
    /// A build that was given up half way leaves what was already made for it.
    fn drop(&mut self) {
        let made = self.end();
        self.core.orphan(made.closing);
    }
}

impl<'a> View<'a> {
    pub(super) async fn get<T: ?Sized + Send + Sync + 'static>(self) -> Result<Arc<T>, ResourceError> {
        let (at, binding) = self.find(TypeId::of::<T>(), ResourceName::of::<T>)?;
        if let (Source::Outside(value), None) = (&binding.0.source, &binding.0.snapshot) {
            return typed(binding.name(), value);
        }
        let value = match self.try_ready(at, binding)? {
            Some(value) => value,
            None => self.resolve(at, binding).await?,
        };
        typed(binding.name(), &value)
    }

    pub(super) async fn get_optional<T: ?Sized + Send + Sync + 'static>(
        self,
    ) -> Result<Option<Arc<T>>, ResourceError> {
        if self.core.registry.contains::<T>() { self.get().await.map(Some) } else { Ok(None) }
    }

    pub(super) fn ready<T: ?Sized + Send + Sync + 'static>(self) -> Result<Option<Arc<T>>, ResourceError> {
        let (at, binding) = self.find(TypeId::of::<T>(), ResourceName::of::<T>)?;
        let value = self.try_ready(at, binding)?;
        value.map(|value| typed(binding.name(), &value)).transpose()
    }

    /// Builds a resource, whatever its type; for those that are built at opening.
    pub(super) async fn build(self, at: usize, binding: &'a AnyBinding) -> Result<(), ResourceError> {
        if self.try_ready(at, binding)?.is_none() {
            self.resolve(at, binding).await?;
        }
        Ok(())
    }

    /// The binding of a type, if the one who asks may still ask, and may hold it.
    fn find(self, key: TypeId, name: fn() -> ResourceName) -> Result<(usize, &'a AnyBinding), ResourceError> {
        let Some((at, binding)) = self.core.registry.find(key) else {
            return Err(ResourceError::Unbound { name: name() });
        };
        if let Some(scope) = self.scope
            && scope.is_over()
        {
            return Err(ResourceError::CallOver { name: binding.name().clone() });
        }
        if let Some(frame) = self.frame {
            if lock(&frame.made).is_none() {
                return Err(ResourceError::BuildOver { name: binding.name().clone() });
            }
            if let Some(holder) = frame.holder.and_then(|at| self.core.binding(at)) {
                self.may_hold(holder, binding)?;
            }
            if let Some(scope) = self.scope
                && binding.0.snapshot.is_some()
                && self.access == Access::Transacted
                && !scope.names(key)
            {
                return Err(ResourceError::OutsideFootprint { name: binding.name().clone() });
            }
        }
        if binding.scope() == Scope::ToolCall && self.scope.is_none() {
            return Err(ResourceError::OutsideCall { name: binding.name().clone() });
        }
        Ok((at, binding))
    }

    fn may_hold(self, holder: &AnyBinding, dependency: &AnyBinding) -> Result<(), ResourceError> {
        let (holder, name) = (holder.name().clone(), dependency.name().clone());
        if dependency.scope() == Scope::ToolCall {
            return Err(ResourceError::ScopeCaptured { holder, dependency: name });
        }
        if dependency.0.snapshot.is_some() && self.access == Access::Transacted {
            return Err(ResourceError::TransactionEscape { holder, dependency: name });
        }
        Ok(())
    }

    /// What can be had without waiting for a build.
    fn try_ready(self, at: usize, binding: &AnyBinding) -> Result<Option<Erased>, ResourceError> {
        if let Source::Outside(value) = &binding.0.source {
            return self.presented(at, binding, Arc::clone(value)).map(Some);
        }
        match self.look(at, binding)? {
            Found::Value(value, _) => self.presented(at, binding, value).map(Some),
            Found::Building(_) | Found::Empty => Ok(None),
        }
    }

    fn look(self, at: usize, binding: &AnyBinding) -> Result<Found, ResourceError> {
        match (binding.scope(), self.scope) {
            (Scope::Singleton, scope) => {
                let found = self.core.look(at, scope.map(|scope| scope.serial))?;
                if let Found::Value(_, used) = &found {
                    if let (Some(scope), false) = (scope, used.is_empty()) {
                        scope.note_use(used, binding)?;
                    }
                    if let Some(frame) = self.frame {
                        let needs = Made { closing: Vec::new(), needs: vec![at] };
                        frame
                            .keep(needs)
                            .map_err(|_| ResourceError::BuildOver { name: binding.name().clone() })?;
                    }
                }
                Ok(found)
            }
            (Scope::ToolCall, Some(scope)) => scope.look(at, binding),
            (Scope::ToolCall, None) => Err(ResourceError::OutsideCall { name: binding.name().clone() }),
            (Scope::Prototype, _) => Ok(Found::Empty),
        }
    }

    /// An instance as the one who asks is to see it: in a call, a snapshotable one is the call's own copy.
    fn presented(self, at: usize, binding: &AnyBinding, value: Erased) -> Result<Erased, ResourceError> {
        match (self.scope, &binding.0.snapshot) {
            (Some(scope), Some(operations)) if self.access == Access::Transacted => {
                scope.fork(at, binding, operations.as_ref(), value)
            }
            _ => Ok(value),
        }
    }

    /// Waits for a build, or does it. Boxed, so that a get that finds its instance stays small.
    fn resolve(self, at: usize, binding: &'a AnyBinding) -> BoxFuture<'a, Result<Erased, ResourceError>> {
        Box::pin(async move {
            self.check_chain(at)?;
            if binding.scope() == Scope::Prototype {
                return self.prototype(at, binding).await;
            }
            loop {
                match self.look(at, binding)? {
                    Found::Value(value, _) => return self.presented(at, binding, value),
                    Found::Building(flight) => {
                        let _waiting = self.wait(Build { serial: flight.build, at })?;
                        flight.wait().await?;
                    }
                    Found::Empty => self.fill(at, binding).await?,
                }
            }
        })
    }

    /// Builds into a slot that was empty a moment ago.
    async fn fill(self, at: usize, binding: &AnyBinding) -> Result<(), ResourceError> {
        let Some(claim) = self.claim(at, binding)? else { return Ok(()) };
        let outcome = self.construct(claim.build, binding).await;
        let (value, made) = match outcome {
            Ok(built) => built,
            Err(error) => {
                // Whether it failed because this call ended is not the others' concern: they try themselves.
                if !self.scope.is_some_and(|scope| scope.is_over()) {
                    claim.fail(error.clone());
                }
                return Err(error);
            }
        };
        let tenure = match (binding.scope(), self.scope) {
            (Scope::Singleton, Some(scope)) => Tenure::Provisional(vec![scope.serial]),
            _ => Tenure::Permanent,
        };
        let ready = Ready { value, made, tenure };
        let published = match &claim.place {
            Place::Context(core) => core
                .publish(at, ready)
                .map_err(|ready| (ready, ResourceError::Closed { name: binding.name().clone() })),
            Place::Call(scope) => scope
                .publish(at, ready)
                .map_err(|ready| (ready, ResourceError::CallOver { name: binding.name().clone() })),
        };
        if let Err((ready, error)) = published {
            Closing::new(self.core, in_order(ready.made.closing)).run_quietly().await;
            return Err(error);
        }
        if let (Scope::Singleton, Some(scope)) = (binding.scope(), self.scope) {
            scope.note_use(&[at], binding)?;
        }
        Ok(())
    }

    async fn prototype(self, at: usize, binding: &AnyBinding) -> Result<Erased, ResourceError> {
        let build = Build { serial: self.core.next_serial(), at };
        let (value, made) = self.construct(build, binding).await?;
        let name = || binding.name().clone();
        let kept = match (self.frame, self.scope) {
            (Some(frame), _) => {
                frame.keep(made).map_err(|made| (made, ResourceError::BuildOver { name: name() }))
            }
            (None, Some(scope)) => {
                scope.keep(made).map_err(|made| (made, ResourceError::CallOver { name: name() }))
            }
            (None, None) => {
                self.core.keep(made).map_err(|made| (made, ResourceError::Closed { name: name() }))
            }
        };
        if let Err((made, error)) = kept {
            Closing::new(self.core, in_order(made.closing)).run_quietly().await;
            return Err(error);
        }
        Ok(value)
    }

    /// Runs the provider and `post_construct`.
    async fn construct(self, build: Build, binding: &AnyBinding) -> Result<(Erased, Made), ResourceError> {
        let name = binding.name();
        let Source::Provider(provider) = &binding.0.source else {
            return Err(ResourceError::Unbound { name: name.clone() });
        };
        let _waiting = self.wait(build)?;
        let holder = match binding.scope() {
            Scope::Singleton => Some(build.at),
            Scope::ToolCall => None,
            Scope::Prototype => self.frame.and_then(|frame| frame.holder),
        };
        let frame = Arc::new(Frame {
            core: Arc::clone(self.core),
            build,
            holder,
            parent: self.frame.cloned(),
            made: Mutex::new(Some(Made::default())),
        });
        let resolver =
            Resolver { core: Arc::clone(self.core), scope: self.scope.cloned(), frame: Arc::clone(&frame) };
        let outcome = match catch(|| provider(resolver)) {
            Ok(building) => CatchPanic::new(building).await,
            Err(panic) => Err(panic),
        };
        let mut made = frame.end();
        let value = match outcome {
            Ok(Ok(value)) => value,
            failed => {
                Closing::new(self.core, in_order(made.closing)).run_quietly().await;
                return Err(match failed {
                    Ok(Err(cause)) => provider_failed(name, cause),
                    Err(panic) => provider_failed(name, Box::new(Panicked(panic))),
                    Ok(Ok(_)) => ResourceError::Unbound { name: name.clone() },
                });
            }
        };
        if binding.0.on_close.is_some() {
            let serial = self.core.next_serial();
            made.closing.push(Instance { binding: binding.clone(), value: Arc::clone(&value), serial });
        }
        if let Some(hook) = &binding.0.post_construct {
            // Given up here, the instance is left to be closed.
            let unready = Closing::new(self.core, in_order(std::mem::take(&mut made.closing)));
            if let Err(cause) = run_hook(hook.as_ref(), name, &value).await {
                unready.run_quietly().await;
                return Err(ResourceError::PostConstruct { name: name.clone(), cause: cause.into() });
            }
            made.closing = unready.keep();
        }
        Ok((value, made))
    }

    fn claim(self, at: usize, binding: &AnyBinding) -> Result<Option<Claim>, ResourceError> {
        let build = Build { serial: self.core.next_serial(), at };
        let flight = Flight::new(build.serial);
        let place = match (binding.scope(), self.scope) {
            (Scope::ToolCall, Some(scope)) => Place::Call(Arc::clone(scope)),
            _ => Place::Context(Arc::clone(self.core)),
        };
        let mine = match &place {
            Place::Context(core) => core.claim(at, flight.clone())?,
            Place::Call(scope) => scope.claim(at, flight.clone(), binding)?,
        };
        Ok(mine.then(|| Claim { place, build, flight }))
    }

    /// Within one task: what is being built must not be asked for again.
    fn check_chain(self, at: usize) -> Result<(), ResourceError> {
        let mut path = vec![at];
        let mut next = self.frame;
        while let Some(frame) = next {
            path.push(frame.build.at);
            if frame.build.at == at {
                let names = path.iter().rev().filter_map(|at| Some(self.core.binding(*at)?.name().clone()));
                return Err(ResourceError::Cycle { path: names.collect() });
            }
            next = frame.parent.as_ref();
        }
        Ok(())
    }

    /// Across tasks: two builds must not wait for each other.
    fn wait(self, build: Build) -> Result<Option<Waiting>, ResourceError> {
        self.frame.map(|frame| self.core.wait(frame.build, build)).transpose()
    }
}

/// A slot taken for a build. Dropped without an end, it frees the slot, and those who wait try themselves.
struct Claim {
    place: Place,
    build: Build,
    flight: Flight,
}

enum Place {
    Context(Arc<Core>),
    Call(Arc<ScopeInner>),
}

impl Claim {
    fn fail(self, error: ResourceError) {
        self.flight.land(Err(error));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A slot that was filled meanwhile is not this build's any more, and stays.
        let Build { serial, at } = self.build;
        match &self.place {
            Place::Context(core) => core.vacate(at, serial),
            Place::Call(scope) => scope.vacate(at, serial),
        }
        self.flight.land(Ok(()));
    }
}

/// A cycle and a capture already say everything; wrapping them once per level would bury it.
fn provider_failed(name: &ResourceName, cause: BoxError) -> ResourceError {
    match cause.downcast::<ResourceError>() {
        Ok(error) => match *error {
            ResourceError::Cycle { .. }
            | ResourceError::ScopeCaptured { .. }
            | ResourceError::OutsideFootprint { .. }
            | ResourceError::TransactionEscape { .. } => *error,
            other => ResourceError::Provider { name: name.clone(), cause: Arc::new(other) },
        },
        Err(cause) => ResourceError::Provider { name: name.clone(), cause: cause.into() },
    }
}
