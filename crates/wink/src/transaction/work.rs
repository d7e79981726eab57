//! What a call works on: its fork of the session and its resources, behind a gate.
//!
//! Every operation of a handler passes here. Ending the call closes the gate: an operation in progress finds it
//! closed when it is done, and what it did is dropped with the fork. Nobody waits for a handler that does not
//! stop.
//!
//! Only an operation that runs reducers, which are foreign code, takes the fork away with it. What the call did
//! before stays behind as its list of steps, so that its LOG events stand whenever the gate is closed.

use std::any::{TypeId, type_name};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;
use serde_json::Value;

use super::{InsideCall, NoTurn};
use crate::resource::{CallResources, ResourceError};
use crate::session::{
    Action, CallStat, DispatchResult, EventSource, Fork, InvocationId, Item, Mark, ReducerFailure, Session,
    SessionError, SliceType, SliceView, Slot, Step, ToolInvoked, contents,
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
    /// The transaction never began, since it was begun from inside a call of the same session.
    #[error(transparent)]
    Inside(#[from] InsideCall),
    /// The transaction never began, since the store could not say what other processes did to the session.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
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

impl From<NoTurn> for AccessError {
    fn from(why: NoTurn) -> Self {
        match why {
            NoTurn::Inside(inside) => inside.into(),
            NoTurn::Store(error) => error.into(),
        }
    }
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
    /// What of the log could not be read before it looked at it, if it has.
    unread: OnceLock<u64>,
}

enum State {
    Idle(Fork),
    /// An operation has the fork, except for the steps before it.
    Busy(Vec<Step>),
    /// An operation panicked and took the fork with it: only the LOG part of the steps before it is left.
    Lost(Vec<Step>),
    Closed,
    /// It never began.
    Refused(NoTurn),
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
        let (idle, unread) = (Condvar::new(), OnceLock::new());
        Self { session, resources, footprint, tool, invocation, state, idle, unread }
    }

    /// The work of a transaction that never began.
    pub(crate) fn refused(session: Session, resources: CallResources, why: NoTurn) -> Self {
        let work = Self::new(session, resources, None, None, None);
        *lock(&work.state) = State::Refused(why);
        work
    }

    /// Why it never began, if it did not.
    pub(crate) fn refusal(&self) -> Option<NoTurn> {
        match &*lock(&self.state) {
            State::Refused(why) => Some(why.clone()),
            State::Idle(_) | State::Busy(_) | State::Lost(_) | State::Closed => None,
        }
    }

    /// Whether all of the log that it looked at could be read.
    pub(crate) fn has_read_all(&self) -> bool {
        self.unread.get().is_none_or(|before| *before == self.session.unread())
    }

    /// Closes the gate and takes the fork. When an operation still has it, only the LOG part is left.
    pub(crate) fn close(&self) -> Fork {
        self.close_whole().unwrap_or_else(Fork::of_steps)
    }

    /// Like [`Work::close`]; the error is what there was before an operation that still has the rest, or
    /// lost it: good for its LOG part only.
    pub(crate) fn close_whole(&self) -> Result<Fork, Vec<Step>> {
        let was = std::mem::replace(&mut *lock(&self.state), State::Closed);
        self.idle.notify_all();
        match was {
            State::Idle(fork) => Ok(fork),
            State::Busy(steps) | State::Lost(steps) => Err(steps),
            State::Closed | State::Refused(_) => Ok(Fork::default()),
        }
    }

    /// Where this call's events come from.
    pub(crate) fn source(&self) -> EventSource {
        self.source_at(self.session.clock().now())
    }

    /// As [`Work::source`], for a time that is known.
    pub(crate) fn source_at(&self, time: Timestamp) -> EventSource {
        EventSource {
            session: self.session.id().clone(),
            tool: self.tool.clone(),
            invocation: self.invocation,
            time,
        }
    }

    pub(crate) fn is_open(&self) -> Result<(), AccessError> {
        match &*lock(&self.state) {
            State::Idle(_) | State::Busy(_) => Ok(()),
            State::Lost(_) | State::Closed => Err(AccessError::Over),
            State::Refused(why) => Err(why.clone().into()),
        }
    }

    pub(crate) fn slice<T: SliceType>(&self) -> Result<SliceView<T>, AccessError> {
        self.check(Access::Read, || Area::Slice(TypeId::of::<T>(), T::NAME))?;
        self.slice_for_policy()
    }

    /// A slice for a policy, which says itself what it looks at: the tool's footprint is the handler's.
    pub(crate) fn slice_for_policy<T: SliceType>(&self) -> Result<SliceView<T>, AccessError> {
        let slot = self.slot::<T>()?;
        if T::KIND == crate::session::SliceKind::Log {
            self.is_open()?;
            self.unread.get_or_init(|| self.session.unread());
            return Ok(self.session.slice::<T>());
        }
        self.with(|fork, session| session.read_in(fork, slot))
    }

    pub(crate) fn dispatch<E: SliceType>(&self, event: E) -> Result<DispatchResult, AccessError> {
        if TypeId::of::<E>() == TypeId::of::<ToolInvoked>() {
            let reason = "only the runtime records calls".to_owned();
            return Err(SessionError::Edit { slice: E::NAME, reason }.into());
        }
        self.slot::<E>()?;
        let failures = self.dispatch_item(TypeId::of::<E>(), Arc::new(event))?;
        Ok(DispatchResult { failures, ..DispatchResult::default() })
    }

    /// Dispatches an event whose type the session knows.
    pub(crate) fn dispatch_item(
        &self,
        event: TypeId,
        item: Item,
    ) -> Result<Vec<ReducerFailure>, AccessError> {
        if self.footprint.is_some() {
            let registry = self.session.registry();
            for target in registry.targets(event) {
                let name = registry.find_def(target).map_or("?", |(_, def)| def.name);
                self.check(Access::Write, || Area::Slice(target, name))?;
            }
        }
        self.apply(Action::Event(item))
    }

    /// Shows the event of the call's own success to the reducers that take such events.
    pub(crate) fn reduce_success(
        &self,
        event: &Arc<ToolInvoked>,
    ) -> Result<Vec<ReducerFailure>, AccessError> {
        if !self.session.reduces_calls() {
            return Ok(Vec::new());
        }
        self.apply(Action::Event(Arc::clone(event) as Item))
    }

    pub(crate) fn edit<T: SliceType>(&self, action: impl FnOnce(Slot) -> Action) -> Result<(), AccessError> {
        self.check(Access::Write, || Area::Slice(TypeId::of::<T>(), T::NAME))?;
        let action = action(self.slot::<T>()?);
        self.edited(action)
    }

    fn edited(&self, action: Action) -> Result<(), AccessError> {
        match self.apply(action)?.into_iter().next() {
            None => Ok(()),
            Some(failure) => Err(SessionError::Edit { slice: failure.slice, reason: failure.reason }.into()),
        }
    }

    /// Makes `items` the only ones in their slice, which must not be changed by anybody else meanwhile.
    pub(crate) fn replace(&self, slot: Slot, items: Vec<Item>) -> Result<(), AccessError> {
        self.with(|fork, session| _ = session.look_in(fork, slot))?;
        self.edited(Action::Edit { slot, edit: contents(items) })
    }

    pub(crate) fn calls(&self, tool: &str) -> Result<Option<CallStat>, AccessError> {
        self.check(Access::Read, || Area::History)?;
        Ok(self.session.calls(tool))
    }

    pub(crate) fn policy_get(
        &self,
        policy: &Arc<str>,
        item: &str,
    ) -> Result<Option<Arc<Value>>, AccessError> {
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
        self.resource_in(&self.resources).await
    }

    /// A resource as a scope inside this call's has it.
    pub(crate) async fn resource_in<T: ?Sized + Send + Sync + 'static>(
        &self,
        resources: &CallResources,
    ) -> Result<Arc<T>, AccessError> {
        self.check_resource::<T>()?;
        Ok(resources.get::<T>().await?)
    }

    pub(crate) async fn resource_optional<T: ?Sized + Send + Sync + 'static>(
        &self,
    ) -> Result<Option<Arc<T>>, AccessError> {
        self.resource_optional_in(&self.resources).await
    }

    pub(crate) async fn resource_optional_in<T: ?Sized + Send + Sync + 'static>(
        &self,
        resources: &CallResources,
    ) -> Result<Option<Arc<T>>, AccessError> {
        self.check_resource::<T>()?;
        Ok(resources.get_optional::<T>().await?)
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

    /// Does `work` on the fork, under the lock: nothing that runs foreign code.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Fork, &Session) -> T) -> Result<T, AccessError> {
        let mut state = self.wait_for_fork();
        match &mut *state {
            State::Idle(fork) => Ok(work(fork, &self.session)),
            State::Busy(_) | State::Lost(_) | State::Closed => Err(AccessError::Over),
            State::Refused(why) => Err(why.clone().into()),
        }
    }

    /// Runs `action` through the reducers of the fork.
    fn apply(&self, action: Action) -> Result<Vec<ReducerFailure>, AccessError> {
        // What runs no reducer need not let go of the lock.
        if let Action::Event(event) = &action
            && let Some(()) = self.with(|fork, session| session.append_in(fork, event))?
        {
            return Ok(Vec::new());
        }
        let mut lent = self.lend()?;
        // The lock is not held here: reducers are foreign code, and closing must never wait for them.
        let failures = self.session.reduce_in(&mut lent.fork, &action);
        lent.give_back(action, !failures.is_empty())?;
        Ok(failures)
    }

    fn lend(&self) -> Result<Lent<'_>, AccessError> {
        let mut state = self.wait_for_fork();
        let fork = match &mut *state {
            State::Idle(fork) => fork,
            State::Busy(_) | State::Lost(_) | State::Closed => return Err(AccessError::Over),
            State::Refused(why) => return Err(why.clone().into()),
        };
        let mut fork = std::mem::take(fork);
        *state = State::Busy(std::mem::take(&mut fork.steps));
        Ok(Lent { work: self, fork })
    }

    fn wait_for_fork(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        while matches!(*state, State::Busy(_)) {
            state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    fn slot<T: SliceType>(&self) -> Result<Slot, AccessError> {
        Ok(self.session.readable_slot::<T>()?)
    }
}

/// The fork, with an operation that may take long, or panic.
struct Lent<'a> {
    work: &'a Work,
    fork: Fork,
}

impl Lent<'_> {
    /// Puts the fork back with one more step, unless the call has ended meanwhile.
    fn give_back(mut self, action: Action, failed: bool) -> Result<(), AccessError> {
        let mut state = lock(&self.work.state);
        let State::Busy(steps) = &mut *state else { return Err(AccessError::Over) };
        let mut fork = std::mem::take(&mut self.fork);
        fork.steps = std::mem::take(steps);
        fork.record(action, failed);
        *state = State::Idle(fork);
        self.work.idle.notify_one();
        Ok(())
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.work.state);
        // Still busy only if the operation panicked: what it left of the fork is not to be trusted.
        if let State::Busy(steps) = &mut *state {
            *state = State::Lost(std::mem::take(steps));
            self.work.idle.notify_all();
        }
    }
}
