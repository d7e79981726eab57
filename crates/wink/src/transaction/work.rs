//! What a call works on: its fork of the session and its resources, behind a gate.
//!
//! Every operation of a handler passes here. Ending the call closes the gate: an operation in progress finds it
//! closed when it is done, and what it did is dropped with the fork. Nobody waits for a handler that does not
//! stop.

use std::any::{TypeId, type_name};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::resource::{CallResources, ResourceError};
use crate::session::{
    Action, CallStat, DispatchResult, EventSource, Fork, InvocationId, Item, Mark, ReducerFailure, Session, SessionError, SliceType,
    SliceView, Slot,
};
use crate::support::lock::lock;
use crate::tool::footprint::{Access, Area, Footprint};

/// An operation of a handler was refused.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The call has ended; nothing it does arrives any more.
    #[error("this call is over; nothing it does now is kept")]
    Over,
    /// The tool's declared footprint does not cover this.
    #[error("{what} is outside the footprint that this tool declares ({access})")]
    Footprint {
        /// What was touched.
        what: String,
        /// Whether it was looked at or changed.
        access: &'static str,
    },
    /// The session could not do it.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A resource could not be had.
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

/// One call's working copy.
pub(crate) struct Work {
    pub(crate) session: Session,
    pub(crate) resources: CallResources,
    footprint: Option<Footprint>,
    pub(crate) tool: Option<Arc<str>>,
    pub(crate) invocation: Option<InvocationId>,
    state: Mutex<State>,
    idle: Condvar,
}

enum State {
    Idle(Fork),
    /// An operation has the fork.
    Busy,
    Closed,
}

impl Work {
    pub(crate) fn new(
        session: Session,
        resources: CallResources,
        footprint: Option<Footprint>,
        tool: Option<Arc<str>>,
        invocation: Option<InvocationId>,
    ) -> Self {
        let state = Mutex::new(State::Idle(Fork::default()));
        Self { session, resources, footprint, tool, invocation, state, idle: Condvar::new() }
    }

    /// Closes the gate and takes the fork. The fork of an operation that is still in progress is lost to it.
    pub(crate) fn close(&self) -> Fork {
        let was = std::mem::replace(&mut *lock(&self.state), State::Closed);
        self.idle.notify_all();
        match was {
            State::Idle(fork) => fork,
            State::Busy | State::Closed => Fork::default(),
        }
    }

    /// Where this call's events come from.
    pub(crate) fn source(&self) -> EventSource {
        EventSource {
            session: self.session.id().clone(),
            tool: self.tool.clone(),
            invocation: self.invocation,
            time: self.session.clock().now(),
        }
    }

    pub(crate) fn is_open(&self) -> Result<(), AccessError> {
        match *lock(&self.state) {
            State::Idle(_) | State::Busy => Ok(()),
            State::Closed => Err(AccessError::Over),
        }
    }

    pub(crate) fn slice<T: SliceType>(&self) -> Result<SliceView<T>, AccessError> {
        self.check(Access::Read, || Area::Slice(TypeId::of::<T>(), T::NAME))?;
        let slot = self.slot::<T>()?;
        if T::KIND == crate::session::SliceKind::Log {
            self.is_open()?;
            return Ok(self.session.slice::<T>());
        }
        self.with(|fork, session| session.read_in(fork, slot))
    }

    pub(crate) fn dispatch<E: SliceType>(&self, event: E) -> Result<DispatchResult, AccessError> {
        self.slot::<E>()?;
        let failures = self.dispatch_item(TypeId::of::<E>(), Arc::new(event))?;
        Ok(DispatchResult { failures, ..DispatchResult::default() })
    }

    /// Dispatches an event whose type the session knows.
    pub(crate) fn dispatch_item(&self, event: TypeId, item: Item) -> Result<Vec<ReducerFailure>, AccessError> {
        if self.footprint.is_some() {
            let registry = self.session.registry();
            for target in registry.targets(event) {
                let name = registry.find_def(target).map_or("?", |(_, def)| def.name);
                self.check(Access::Write, || Area::Slice(target, name))?;
            }
        }
        self.with(|fork, session| session.apply_in(fork, Action::Event(item)))
    }

    pub(crate) fn edit<T: SliceType>(&self, action: impl FnOnce(Slot) -> Action) -> Result<(), AccessError> {
        self.check(Access::Write, || Area::Slice(TypeId::of::<T>(), T::NAME))?;
        let action = action(self.slot::<T>()?);
        let failures = self.with(|fork, session| session.apply_in(fork, action))?;
        match failures.into_iter().next() {
            None => Ok(()),
            Some(failure) => {
                Err(SessionError::Edit { slice: failure.slice, reason: failure.reason }.into())
            }
        }
    }

    pub(crate) fn calls(&self, tool: &str) -> Result<Option<CallStat>, AccessError> {
        self.check(Access::Read, || Area::History)?;
        Ok(self.session.calls(tool))
    }

    pub(crate) fn policy_get(&self, policy: &Arc<str>, item: &str) -> Result<Option<Arc<Value>>, AccessError> {
        self.with(|fork, session| session.policy_in(fork, policy).get(item))
    }

    pub(crate) fn policy_set(
        &self,
        policy: &Arc<str>,
        item: Arc<str>,
        value: Option<Arc<Value>>,
    ) -> Result<(), AccessError> {
        self.with(|fork, session| session.policy_in(fork, policy).set(item, value))
    }

    pub(crate) async fn resource<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, AccessError> {
        self.check_resource::<T>()?;
        Ok(self.resources.get::<T>().await?)
    }

    pub(crate) async fn resource_optional<T: ?Sized + Send + Sync + 'static>(
        &self,
    ) -> Result<Option<Arc<T>>, AccessError> {
        self.check_resource::<T>()?;
        Ok(self.resources.get_optional::<T>().await?)
    }

    fn check_resource<T: ?Sized + 'static>(&self) -> Result<(), AccessError> {
        self.is_open()?;
        self.check(Access::Read, || Area::Resource(TypeId::of::<T>(), type_name::<T>()))
    }

    pub(crate) fn check(&self, access: Access, area: impl FnOnce() -> Area) -> Result<(), AccessError> {
        let Some(footprint) = &self.footprint else { return Ok(()) };
        let area = area();
        if footprint.allows(access, &area) {
            return Ok(());
        }
        let access = match access {
            Access::Read => "read",
            Access::Write => "write",
        };
        Err(AccessError::Footprint { what: area.to_string(), access })
    }

    pub(crate) fn mark(&self) -> Result<Mark, AccessError> {
        self.with(|fork, _| fork.mark())
    }

    pub(crate) fn roll_back_to(&self, mark: Mark) -> Result<(), AccessError> {
        self.with(|fork, _| fork.roll_back_to(mark))
    }

    /// Does `work` on the fork.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Fork, &Session) -> T) -> Result<T, AccessError> {
        let mut fork = self.borrow()?;
        // The lock is not held here: reducers are foreign code, and closing must never wait for them.
        let out = work(&mut fork, &self.session);
        let mut state = lock(&self.state);
        match *state {
            State::Closed => Err(AccessError::Over),
            State::Idle(_) | State::Busy => {
                *state = State::Idle(fork);
                self.idle.notify_one();
                Ok(out)
            }
        }
    }

    fn borrow(&self) -> Result<Fork, AccessError> {
        let mut state: MutexGuard<'_, State> = lock(&self.state);
        loop {
            match std::mem::replace(&mut *state, State::Busy) {
                State::Idle(fork) => return Ok(fork),
                State::Closed => {
                    *state = State::Closed;
                    return Err(AccessError::Over);
                }
                State::Busy => state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn slot<T: SliceType>(&self) -> Result<Slot, AccessError> {
        let slot = self.session.slot_of::<T>()?;
        match self.session.unreadable(slot) {
            None => Ok(slot),
            Some(reason) => Err(SessionError::Unreadable { slice: T::NAME.to_owned(), reason }.into()),
        }
    }
}
