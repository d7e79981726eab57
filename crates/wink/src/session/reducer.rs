//! Reducers: pure functions from a slice and an event to a [`SliceOp`], and the registry that finds them.

use std::any::{Any, TypeId};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::slice::{Cell, Change, Item, SliceDef, SliceKind, SliceOp, SliceType, SliceView};
use super::{ReducerFailure, SessionError, record};
use crate::support::future::catch;

/// A reducer of events `E` into slice `S`. It does no I/O and reads no clock.
pub type Reducer<S, E> = dyn Fn(&SliceView<S>, &E) -> Result<SliceOp<S>, String> + Send + Sync;

/// Adds every event at the end. What an event type without a registration gets.
pub fn append_all<S: SliceType + Clone>() -> impl Fn(&SliceView<S>, &S) -> Result<SliceOp<S>, String> {
    |_, event| Ok(SliceOp::Append(event.clone()))
}

/// Keeps only the latest event.
pub fn replace_latest<S: SliceType + Clone>() -> impl Fn(&SliceView<S>, &S) -> Result<SliceOp<S>, String> {
    |_, event| Ok(SliceOp::Replace(vec![event.clone()]))
}

/// Replaces the item with the same key where it stands, or adds the event at the end.
pub fn upsert_by_key<S: SliceType + Clone>() -> impl Fn(&SliceView<S>, &S) -> Result<SliceOp<S>, String> {
    |_, event| Ok(SliceOp::Upsert(event.clone()))
}

/// Keeps the latest event of every key, in the order in which they came.
pub fn replace_latest_by_key<S: SliceType + Clone>()
-> impl Fn(&SliceView<S>, &S) -> Result<SliceOp<S>, String> {
    |_, event| Ok(SliceOp::ReplaceKey(event.clone()))
}

/// A slice that carries its own reducers, so that [`install`](super::Session::install) is all it takes.
///
/// Its state is the slice's latest item; each handler turns that and an event into the next.
pub trait DeclarativeSlice: SliceType {
    /// The state before the first event. Without one, events are ignored until the slice is seeded.
    fn initial() -> Option<Self> {
        None
    }

    /// Names the events that change this slice, and how.
    fn reducers(on: &mut Reducers<Self>);
}

/// Collects the handlers of a [`DeclarativeSlice`].
pub struct Reducers<S> {
    pub(crate) found: Vec<(SliceDef, Registration)>,
    of: std::marker::PhantomData<fn() -> S>,
}

impl<S: DeclarativeSlice> Reducers<S> {
    pub(crate) fn collect() -> Self {
        let mut reducers = Self { found: Vec::new(), of: std::marker::PhantomData };
        S::reducers(&mut reducers);
        reducers
    }

    /// On an event `E`, the state becomes what `next` makes of it.
    pub fn on<E: SliceType>(
        &mut self,
        next: impl Fn(&S, &E) -> Result<S, String> + Send + Sync + 'static,
    ) -> &mut Self {
        let reducer = move |view: &SliceView<S>, event: &E| {
            let next = match (view.latest(), S::initial()) {
                (Some(state), _) => next(&state, event)?,
                (None, Some(state)) => next(&state, event)?,
                (None, None) => return Ok(SliceOp::Keep),
            };
            Ok(SliceOp::Replace(vec![next]))
        };
        self.found.push((SliceDef::of::<E>(), Registration::of::<S, E>(reducer, Origin::Installed)));
        self
    }
}

/// Where a registration comes from; an installed slice is installed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Registered,
    Installed,
}

type RunOn<'a> = dyn Fn(&Cell, &SliceDef) -> Result<Option<Change>, String> + 'a;
type ErasedReducer = dyn Fn(&Cell, &SliceDef, &Item) -> Result<Option<Change>, String> + Send + Sync;

/// One reducer, with its types erased.
#[derive(Clone)]
pub(crate) struct Registration {
    pub(crate) target: TypeId,
    pub(crate) origin: Origin,
    run: Arc<ErasedReducer>,
}

impl Registration {
    pub(crate) fn of<S: SliceType, E: SliceType>(
        reducer: impl Fn(&SliceView<S>, &E) -> Result<SliceOp<S>, String> + Send + Sync + 'static,
        origin: Origin,
    ) -> Self {
        let run = move |cell: &Cell, def: &SliceDef, event: &Item| {
            let event = event.downcast_ref::<E>().ok_or("the event has another type")?;
            let view = SliceView::<S>::new(cell.items.clone());
            concrete(def, &view, reducer(&view, event)?)
        };
        Self { target: TypeId::of::<S>(), origin, run: Arc::new(run) }
    }

    /// Runs the reducer. Its panic is its failure.
    pub(crate) fn run(&self, cell: &Cell, def: &SliceDef, event: &Item) -> Result<Option<Change>, String> {
        catch(|| (self.run)(cell, def, event))
            .unwrap_or_else(|panic| Err(format!("the reducer panicked: {panic}")))
    }
}

/// What `op` comes down to on the slice as it is.
pub(crate) fn concrete<S: SliceType>(
    def: &SliceDef,
    view: &SliceView<S>,
    op: SliceOp<S>,
) -> Result<Option<Change>, String> {
    let item = |value: S| Arc::new(value) as Item;
    let keyed = |value: S| {
        let item = item(value);
        if def.keyed && def.has_key(&item) {
            Ok(item)
        } else {
            Err(format!("slice {} has no key for this item: set KEYED and key() on its type", def.name))
        }
    };
    Ok(Some(match op {
        SliceOp::Keep => return Ok(None),
        SliceOp::Append(value) => Change::Append(item(value)),
        SliceOp::Extend(values) => Change::Extend(values.into_iter().map(item).collect()),
        SliceOp::Upsert(value) => Change::Upsert(keyed(value)?),
        SliceOp::ReplaceKey(value) => Change::ReplaceKey(keyed(value)?),
        SliceOp::Replace(values) => Change::Replace(values.into_iter().map(item).collect()),
        SliceOp::Clear => Change::Replace(Vec::new()),
        SliceOp::ClearWhere(matches) => Change::Remove(
            view.iter().enumerate().filter(|(_, item)| matches(item)).map(|(at, _)| at).collect(),
        ),
    }))
}

/// Where a slice lives in a session's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) usize);

/// The slice types that a session knows, and the reducers of each event type.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    defs: Vec<Arc<SliceDef>>,
    slots: HashMap<TypeId, Slot, ByTypeId>,
    reducers: HashMap<TypeId, Arc<[Registration]>, ByTypeId>,
    accepted: HashSet<TypeId, ByTypeId>,
    /// Slices whose stored contents could not be read, and why.
    broken: Vec<(Slot, Arc<str>)>,
}

impl Registry {
    /// The slot of `def`'s type, made on first use.
    pub(crate) fn slot(&mut self, def: SliceDef) -> Result<Slot, SessionError> {
        self.slot_shared(Arc::new(def))
    }

    pub(crate) fn slot_shared(&mut self, def: Arc<SliceDef>) -> Result<Slot, SessionError> {
        if let Some(slot) = self.slots.get(&def.type_id) {
            return Ok(*slot);
        }
        let other = self.defs.iter().find(|other| other.name == def.name).map(|other| other.type_name);
        if let Some(by) = other.or(record::is_own(def.name).then_some("the session's own tables")) {
            return Err(SessionError::SliceNameTaken { name: def.name, by, wanted_by: def.type_name });
        }
        let slot = Slot(self.defs.len());
        self.slots.insert(def.type_id, slot);
        self.defs.push(def);
        Ok(slot)
    }

    pub(crate) fn find(&self, type_id: TypeId) -> Option<Slot> {
        self.slots.get(&type_id).copied()
    }

    /// A slice and its definition.
    pub(crate) fn place(&self, type_id: TypeId) -> Option<(Slot, &Arc<SliceDef>)> {
        let slot = self.find(type_id)?;
        Some((slot, self.def(slot)?))
    }

    pub(crate) fn find_def(&self, type_id: TypeId) -> Option<(Slot, Arc<SliceDef>)> {
        let slot = self.find(type_id)?;
        Some((slot, Arc::clone(self.def(slot)?)))
    }

    pub(crate) fn find_name(&self, name: &str) -> Option<Slot> {
        self.defs.iter().position(|def| def.name == name).map(Slot)
    }

    pub(crate) fn def(&self, slot: Slot) -> Option<&Arc<SliceDef>> {
        self.defs.get(slot.0)
    }

    pub(crate) fn defs(&self) -> impl Iterator<Item = (Slot, &Arc<SliceDef>)> {
        self.defs.iter().enumerate().map(|(at, def)| (Slot(at), def))
    }

    pub(crate) fn reducers(&self, event: TypeId) -> Option<&Arc<[Registration]>> {
        self.reducers.get(&event)
    }

    pub(crate) fn add(&mut self, event: TypeId, registration: Registration) {
        let mut list = self.reducers.get(&event).map(|list| list.to_vec()).unwrap_or_default();
        list.push(registration);
        self.reducers.insert(event, list.into());
    }

    /// The slice that an event of this type is simply appended to, if that is all it does.
    pub(crate) fn plain(&self, event: TypeId) -> Option<(Slot, &Arc<SliceDef>)> {
        if self.reducers.contains_key(&event) {
            return None;
        }
        let slot = self.find(event)?;
        // Finding an item's key is the slice type's own code, which never runs under the session's lock.
        self.def(slot).filter(|def| !def.keyed).map(|def| (slot, def))
    }

    /// Why the stored contents of a slice could not be read, if they could not.
    pub(crate) fn broken(&self, slot: Slot) -> Option<&Arc<str>> {
        self.broken.iter().find(|(broken, _)| *broken == slot).map(|(_, reason)| reason)
    }

    pub(super) fn has_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    pub(crate) fn set_broken(&mut self, slot: Slot, reason: Arc<str>) {
        self.broken.push((slot, reason));
    }

    /// The slice has been given new contents.
    pub(crate) fn mend(&mut self, slot: Slot) {
        self.broken.retain(|(broken, _)| *broken != slot);
    }

    pub(crate) fn mend_all(&mut self) {
        self.broken.clear();
    }

    /// Whether tool values of this type are dispatched: a reducer takes them, or somebody said so. That a slice was
    /// looked at is not enough.
    pub(crate) fn accepts(&self, event: TypeId) -> bool {
        self.reducers.contains_key(&event) || self.accepted.contains(&event)
    }

    pub(crate) fn accept(&mut self, event: TypeId) {
        self.accepted.insert(event);
    }

    /// The slices that an event of this type changes.
    pub(crate) fn targets(&self, event: TypeId) -> Vec<TypeId> {
        match self.reducers.get(&event) {
            Some(list) => list.iter().map(|registration| registration.target).collect(),
            None => vec![event],
        }
    }

    /// Runs the reducers of `event` over the cells that `cell` hands out, reporting the failures.
    ///
    /// An event type without a reducer is appended to its own slice.
    pub(crate) fn reduce(
        &self,
        event_type: TypeId,
        event: &Item,
        only: impl Fn(&SliceDef) -> bool,
        mut visit: impl FnMut(
            Slot,
            &SliceDef,
            &dyn Fn(&Cell) -> Result<Option<Change>, String>,
        ) -> Result<(), String>,
        failures: &mut Vec<ReducerFailure>,
    ) {
        let mut one = |target: TypeId, run: &RunOn| {
            let Some(slot) = self.find(target) else { return };
            let Some(def) = self.def(slot) else { return };
            if !only(def) {
                return;
            }
            let done = match self.broken(slot).filter(|_| def.kind == SliceKind::State) {
                Some(reason) => Err(reason.to_string()),
                None => visit(slot, def, &|cell| run(cell, def)),
            };
            if let Err(reason) = done {
                failures.push(ReducerFailure { slice: def.name, reason });
            }
        };
        match self.reducers.get(&event_type) {
            Some(list) => {
                for registration in list.iter() {
                    one(registration.target, &|cell, def| registration.run(cell, def, event));
                }
            }
            None => one(event_type, &|_, _| Ok(Some(Change::Append(Arc::clone(event))))),
        }
    }
}

/// The type of an erased item.
pub(crate) fn type_of(item: &Item) -> TypeId {
    let item: &dyn Any = item.as_ref();
    item.type_id()
}

/// A `TypeId` is a hash already.
#[derive(Default)]
pub(crate) struct TypeIdHasher(u64);

impl Hasher for TypeIdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) type ByTypeId = BuildHasherDefault<TypeIdHasher>;
