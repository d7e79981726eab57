//! The session: typed slices that only events change, the log of what happened, and the index of successful calls.
//!
//! Everything in a session is immutable behind shared pointers. Nothing here knows what a tool is, runs a handler,
//! or does I/O other than handing records to the [store](crate::store).

mod compact;
mod core;
mod dispatcher;
mod events;
mod family;
mod fork;
mod ids;
mod items;
mod log_part;
mod logbook;
mod open;
mod paged;
mod past;
mod read_only;
mod record;
mod reducer;
mod restore;
mod root;
mod settle;
mod slice;
mod snapshot;
mod summary;
mod sync;
mod tally;
#[cfg(test)]
mod tests;
mod undone;
mod window;

use std::any::{Any, TypeId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use jiff::Timestamp;

use self::core::Inner;
use crate::limits::{Clock, SystemClock};
use crate::store::{Durability, MemoryStore, SharedStore, StoreError};
use crate::support::lock::lock;

pub use self::core::CommitError;
pub use compact::{Compaction, LogRetention};
pub use dispatcher::{Delivery, DeliveryError, DispatchResult, Dispatcher, EventSource, Subscription};
pub use events::{
    Ending, ErasedValue, LoggedAnswer, LoggedDecision, LoggedParams, LoggedValue, PromptExecuted,
    PromptRendered, RenderedTool, RunContext, ToolInvoked, ToolsRendered,
};
pub use family::FamilyError;
pub use fork::Conflict;
pub use ids::{IdSource, InvocationId, SessionId};
pub use logbook::{CallChanges, LogEntry, LogEvent, LogPage, Logbook, UnreadableEntry};
pub use open::{SessionBuilder, SliceProblem};
pub use read_only::ReadOnlySession;
pub use reducer::{
    DeclarativeSlice, Reducer, Reducers, append_all, replace_latest, replace_latest_by_key, upsert_by_key,
};
pub use root::CallStat;
pub use slice::{SliceKey, SliceKind, SliceOp, SliceType, SliceView};
pub use snapshot::{SessionSnapshot, SnapshotError, SnapshotScope};
#[doc(hidden)]
pub use tally::Counted;
pub use undone::{KeptEffect, UndoReach, Undone};
/// Implements [`trait@SliceType`] as an attribute says.
///
/// `name` is required: it is what stored values are found by, whatever becomes of the type's own name. `version`,
/// `kind` (`"state"`, `"log"`), `key` (a field whose text is the item's key) and `upgrade` (a function that reads
/// older versions) are the trait's other items.
///
/// ```
/// use wink::prelude::*;
///
/// #[data]
/// #[derive(SliceType)]
/// #[slice(name = "step", key = "id")]
/// struct Step {
///     id: u32,
///     title: String,
/// }
///
/// let step = Step { id: 7, title: "Write".into() };
/// assert_eq!(step.key().unwrap().to_string(), "7");
/// ```
#[cfg(feature = "macros")]
pub use wink_macros::SliceType;

pub(crate) use self::core::Closing;
pub(crate) use fork::{Action, Fork, Mark, Step, clear_where, contents, seed};
pub(crate) use ids::fresh_uuid;
pub(crate) use past::{PastCalls, PastError, SliceBack, TablesBack};
pub(crate) use reducer::{Registry, Slot};
pub(crate) use slice::Item;
pub(crate) use window::Committing;

/// A session. A handle: clones of it are the same session ([`Session::duplicate`] copies).
#[derive(Clone)]
pub struct Session {
    pub(crate) core: Arc<Core>,
}

pub(crate) struct Core {
    id: SessionId,
    created_at: Timestamp,
    pub(crate) clock: Arc<dyn Clock>,
    ids: IdSource,
    pub(crate) store: SharedStore,
    durability: Durability,
    hears_every_commit: bool,
    is_shared: bool,
    registry: ArcSwap<Registry>,
    /// Whether anybody reduces the events of calls; if not, nobody has to look.
    reduces_calls: AtomicBool,
    inner: Mutex<Inner>,
    dispatcher: Arc<Dispatcher>,
    /// Held from the begin of a call to its end: two callers take turns.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    /// Held while a commit is on its way to the store.
    committing: tokio::sync::Mutex<()>,
    family: Mutex<family::Family>,
    /// What was read from the store for slices that nobody has named yet, and what could not be read.
    stored: Mutex<open::Stored>,
    unread: Arc<paged::Unread>,
}

/// A reducer failed, and left its slice as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the reducer of slice {slice} failed: {reason}")]
pub struct ReducerFailure {
    /// The slice.
    pub slice: &'static str,
    /// What the reducer said.
    pub reason: String,
}

/// A session could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Two slice types declare one name.
    #[error("slice name {name:?} belongs to {by}; {wanted_by} must declare another")]
    SliceNameTaken {
        /// The name.
        name: &'static str,
        /// The type that has it.
        by: &'static str,
        /// The type that wants it.
        wanted_by: &'static str,
    },
    /// A declarative slice names no event, or one twice.
    #[error("slice {slice} cannot be installed: {reason}")]
    Install {
        /// The slice.
        slice: &'static str,
        /// Why.
        reason: String,
    },
    /// A slice was not changed.
    #[error("slice {slice} is unchanged: {reason}")]
    Edit {
        /// The slice.
        slice: &'static str,
        /// Why.
        reason: String,
    },
    /// What the store holds of a slice cannot be read.
    #[error("slice {slice} cannot be read from the store: {reason}")]
    Unreadable {
        /// The slice.
        slice: String,
        /// Why.
        reason: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Session {
    /// A session that lives as long as the process.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A session with a chosen id, clock, store or tags.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::new(Arc::new(MemoryStore::new()), Arc::new(SystemClock))
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.core.id
    }

    /// When it was made.
    pub fn created_at(&self) -> Timestamp {
        self.core.created_at
    }

    /// The clock that everything in this session reads.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.core.clock
    }

    /// Where it is kept.
    pub fn store(&self) -> &SharedStore {
        &self.core.store
    }

    /// Who listens to its events.
    pub fn dispatcher(&self) -> &Dispatcher {
        &self.core.dispatcher
    }

    /// The slice of `T` as it is now. Empty for a type that nothing was dispatched of.
    pub fn slice<T: SliceType>(&self) -> SliceView<T> {
        match self.slot_of::<T>() {
            Ok(slot) => SliceView::new(self.cell_now(slot).items),
            Err(error) => {
                tracing::error!(%error, "slice read as empty");
                SliceView::new(slice::Cell::empty(&slice::SliceDef::of::<T>()).items)
            }
        }
    }

    /// Hands an event to the reducers of its type, then to its subscribers.
    ///
    /// From outside a call: it is neither lost nor undone with a call that runs meanwhile.
    pub fn dispatch<E: SliceType>(&self, event: E) -> DispatchResult {
        if let Err(error) = self.slot_of::<E>() {
            let failures = vec![ReducerFailure { slice: E::NAME, reason: error.to_string() }];
            return DispatchResult { failures, ..DispatchResult::default() };
        }
        self.dispatch_item(Arc::new(event))
    }

    /// The same for an event whose type the session knows already.
    pub(crate) fn dispatch_item(&self, event: Item) -> DispatchResult {
        let failures = self.apply_outside(Action::Event(Arc::clone(&event)));
        let delivery = self.deliver(&event, None);
        DispatchResult { failures, delivery }
    }

    /// Records the end of an evaluation: the event, then every element of its structured output in its slice.
    pub fn record_executed<T: SliceType>(
        &self,
        executed: PromptExecuted,
        outputs: impl IntoIterator<Item = T>,
    ) -> DispatchResult {
        let mut all = self.dispatch(executed);
        for output in outputs {
            all.add(self.dispatch(output));
        }
        all
    }

    /// Makes `items` the only ones in their slice. A slice whose stored contents could not be read starts anew.
    pub fn seed<T: SliceType>(&self, items: impl IntoIterator<Item = T>) -> Result<(), SessionError> {
        let slot = self.slot_of::<T>()?;
        self.edit(T::NAME, slot, fork::seed(items))?;
        if self.unreadable(slot).is_some() {
            self.change_registry(|registry| registry.mend(slot));
        }
        Ok(())
    }

    /// Empties the slice. Like every direct change, refused for a LOG slice.
    pub fn clear<T: SliceType>(&self) -> Result<(), SessionError> {
        self.seed::<T>([])
    }

    /// Removes the items that match.
    pub fn clear_where<T: SliceType>(
        &self,
        matches: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> Result<(), SessionError> {
        let slot = self.readable_slot::<T>()?;
        self.edit(T::NAME, slot, fork::clear_where(matches))
    }

    /// Adds a reducer of events `E` into slice `S`. Reducers of one event run in the order of registration.
    pub fn register<E: SliceType, S: SliceType>(
        &self,
        reducer: impl Fn(&SliceView<S>, &E) -> Result<SliceOp<S>, String> + Send + Sync + 'static,
    ) -> Result<(), SessionError> {
        if TypeId::of::<S>() == TypeId::of::<ToolInvoked>() {
            let reason = "only the runtime records calls".to_owned();
            return Err(SessionError::Install { slice: S::NAME, reason });
        }
        self.slot_of::<E>()?;
        self.slot_of::<S>()?;
        let registration = reducer::Registration::of::<S, E>(reducer, reducer::Origin::Registered);
        self.change_registry(|registry| registry.add(TypeId::of::<E>(), registration));
        Ok(())
    }

    /// Installs a slice that carries its own reducers. Again is a no-op.
    pub fn install<S: DeclarativeSlice>(&self) -> Result<(), SessionError> {
        let found = Reducers::<S>::collect().found;
        let fault = |reason: String| Err(SessionError::Install { slice: S::NAME, reason });
        if found.is_empty() {
            return fault("it names no event".to_owned());
        }
        for (at, (def, _)) in found.iter().enumerate() {
            if found.iter().skip(at + 1).any(|(other, _)| other.type_id == def.type_id) {
                return fault(format!("it names event {} twice", def.name));
            }
        }
        if S::KIND == SliceKind::Log {
            return fault(fork::only_grows(S::NAME));
        }
        self.slot_of::<S>()?;
        let mut registrations = Vec::new();
        for (def, registration) in found {
            registrations.push((def.type_id, registration));
            self.slot_for(def)?;
        }
        self.change_registry(|registry| {
            for (event, registration) in registrations {
                let there = registry.reducers(event).is_some_and(|list| {
                    list.iter().any(|other| {
                        other.target == registration.target && other.origin == registration.origin
                    })
                });
                if !there {
                    registry.add(event, registration);
                }
            }
        });
        Ok(())
    }

    /// Makes a slice type known, so that successful tool values of this type are dispatched to it and stored
    /// values are read.
    pub fn know<T: SliceType>(&self) -> Result<(), SessionError> {
        self.slot_of::<T>()?;
        self.change_registry(|registry| registry.accept(TypeId::of::<T>()));
        Ok(())
    }

    /// How often `tool` succeeded in this session, and when last.
    pub fn calls(&self, tool: &str) -> Option<CallStat> {
        lock(&self.core.inner).state.calls(tool)
    }

    /// How many calls succeeded in this session, over all tools.
    pub fn total_calls(&self) -> u64 {
        lock(&self.core.inner).state.total_calls()
    }

    /// A view that offers no change.
    pub fn read_only(&self) -> ReadOnlySession {
        ReadOnlySession::of(self.clone())
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.core.registry.load_full()
    }

    fn set_registry(&self, registry: Arc<Registry>) {
        if registry.reducers(TypeId::of::<ToolInvoked>()).is_some() {
            self.core.reduces_calls.store(true, Ordering::Release);
        }
        self.core.registry.store(registry);
    }

    pub(crate) fn inner(&self) -> &Mutex<Inner> {
        &self.core.inner
    }

    pub(crate) fn deliver(&self, event: &Item, source: Option<EventSource>) -> Delivery {
        let event: &dyn Any = event.as_ref();
        if !self.core.dispatcher.listens(event.type_id()) {
            return Delivery::default();
        }
        let source = source.unwrap_or_else(|| EventSource {
            session: self.core.id.clone(),
            tool: None,
            invocation: None,
            time: self.core.clock.now(),
        });
        self.core.dispatcher.deliver_erased(event, &source)
    }

    /// What a policy remembers, as committed.
    pub(crate) fn policy_item(&self, policy: &str, item: &str) -> Option<Arc<serde_json::Value>> {
        lock(&self.core.inner).state.policy_item(policy, item)
    }

    /// Which publication last changed STATE: equal numbers, equal state.
    pub(crate) fn state_version(&self) -> u64 {
        lock(&self.core.inner).state_version()
    }

    /// Whether somebody reduces the events of calls into a slice.
    pub(crate) fn reduces_calls(&self) -> bool {
        self.core.reduces_calls.load(Ordering::Acquire)
    }

    /// A slice as `fork` sees it.
    pub(crate) fn read_in<T: SliceType>(&self, fork: &mut Fork, slot: Slot) -> SliceView<T> {
        SliceView::new(self.look_in(fork, slot).items.clone())
    }

    /// A slice's contents as `fork` sees them.
    pub(crate) fn look_in<'a>(&self, fork: &'a mut Fork, slot: Slot) -> &'a slice::Cell {
        let touched = fork.cell(slot, true, || {
            let registry = self.core.registry.load();
            match registry.def(slot) {
                Some(def) => lock(&self.core.inner).state.cell(slot, def),
                None => slice::Cell::nothing(),
            }
        });
        &touched.cell
    }

    /// Notes an event in `fork` that does nothing but go to the end of its own slice. None: it is another case.
    pub(crate) fn append_in(&self, fork: &mut Fork, event: &Item) -> Option<()> {
        fork.append_blindly(&self.core.registry.load(), event).then(|| {
            fork.record(Action::Event(Arc::clone(event)), false);
        })
    }

    /// Applies the STATE part of an action to `fork`. It is still to be recorded there.
    pub(crate) fn reduce_in(&self, fork: &mut Fork, action: &Action) -> Vec<ReducerFailure> {
        let registry = self.registry();
        if let Action::Edit { slot, .. } = action
            && let Some(def) = registry.def(*slot).filter(|def| def.kind == SliceKind::Log)
        {
            return vec![ReducerFailure { slice: def.name, reason: fork::only_grows(def.name) }];
        }
        let base = |slot, def: &slice::SliceDef| lock(&self.core.inner).state.cell(slot, def);
        fork.apply(&registry, action, SliceKind::State, base)
    }

    /// A policy's state as `fork` sees it.
    pub(crate) fn policy_in<'a>(&self, fork: &'a mut Fork, policy: &Arc<str>) -> &'a mut fork::TouchedPolicy {
        fork.policy(policy, || lock(&self.core.inner).state.policy(policy))
    }

    /// The events of `fork` that stand.
    pub(crate) fn events_of(&self, fork: &Fork, committed: bool) -> Vec<Item> {
        if fork.steps.is_empty() {
            return Vec::new();
        }
        let heard = |event: &Item| self.core.dispatcher.listens(reducer::type_of(event));
        fork.events(&self.registry(), committed, heard)
    }

    fn cell_now(&self, slot: Slot) -> slice::Cell {
        let registry = self.registry();
        let Some(def) = registry.def(slot) else { return slice::Cell::nothing() };
        let inner = lock(&self.core.inner);
        match def.kind {
            SliceKind::State => inner.state.cell(slot, def),
            SliceKind::Log => inner.log.cell(slot, def),
        }
    }

    fn edit(&self, slice: &'static str, slot: Slot, edit: Arc<fork::Edit>) -> Result<(), SessionError> {
        match self.apply_outside(Action::Edit { slot, edit }).into_iter().next() {
            None => Ok(()),
            Some(failure) => Err(SessionError::Edit { slice, reason: failure.reason }),
        }
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.core.id).finish_non_exhaustive()
    }
}
