//! The state behind an opened context: the singletons, who uses the provisional ones, who waits for whom, and
//! what is left to be closed. All of it changes under one lock, and no foreign code runs under that.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::binding::{AnyBinding, Erased};
use super::error::ResourceError;
use super::registry::ResourceRegistry;
use super::slot::{Flight, Instance, Made, Ready, Serial, Slot, Tenure};
use crate::limits::Clock;
use crate::support::lock::lock;

pub(super) struct Core {
    pub(super) registry: ResourceRegistry,
    /// What close hooks are held to.
    pub(super) clock: Arc<dyn Clock>,
    serial: AtomicU64,
    orphaned: AtomicBool,
    state: Mutex<State>,
    /// Held from a call's merge to its end.
    pub(super) merging: Arc<tokio::sync::Mutex<()>>,
}

struct State {
    closed: bool,
    /// One per binding, in the registry's order.
    slots: Vec<Slot>,
    /// Prototypes that the context itself handed out.
    loose: Vec<Instance>,
    /// What nobody looks after any more: its call or its build was dropped.
    orphans: Vec<Instance>,
    /// Builds that wait for other builds.
    waits: Vec<Wait>,
}

/// A build, and the binding that it is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Build {
    pub(super) serial: Serial,
    pub(super) at: usize,
}

#[derive(PartialEq, Eq)]
struct Wait {
    from: Build,
    to: Build,
}

/// What was found in a slot.
pub(super) enum Found {
    Empty,
    Building(Flight),
    /// The instance, and the provisional singletons that the asking call has not used before.
    Value(Erased, Vec<usize>),
}

impl Core {
    pub(super) fn new(registry: ResourceRegistry, clock: Arc<dyn Clock>) -> Arc<Self> {
        let slots = registry.bindings().iter().map(|_| Slot::Empty).collect();
        let state = State { closed: false, slots, loose: Vec::new(), orphans: Vec::new(), waits: Vec::new() };
        Arc::new(Self {
            registry,
            clock,
            serial: AtomicU64::new(0),
            orphaned: AtomicBool::new(false),
            state: Mutex::new(state),
            merging: Arc::default(),
        })
    }

    pub(super) fn next_serial(&self) -> Serial {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn binding(&self, at: usize) -> Option<&AnyBinding> {
        self.registry.bindings().get(at)
    }

    /// Looks for a singleton on behalf of a call, or of somebody outside any call.
    pub(super) fn look(&self, at: usize, scope: Option<Serial>) -> Result<Found, ResourceError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(self.closed(at));
        }
        let (value, provisional) = match state.slots.get(at) {
            Some(Slot::Ready(ready)) => (Arc::clone(&ready.value), ready.tenure != Tenure::Permanent),
            Some(Slot::Building(flight)) => return Ok(Found::Building(flight.clone())),
            _ => return Ok(Found::Empty),
        };
        let mut used = Vec::new();
        match scope {
            Some(scope) if provisional => state.touch(at, scope, &mut used),
            None if provisional => state.promote(at),
            _ => {}
        }
        Ok(Found::Value(value, used))
    }

    /// Takes an empty slot for a build. False when somebody else was quicker.
    pub(super) fn claim(&self, at: usize, flight: Flight) -> Result<bool, ResourceError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(self.closed(at));
        }
        Ok(claim(state.slots.get_mut(at), flight))
    }

    /// Puts a finished build into its slot; hands it back when the context was closed meanwhile.
    pub(super) fn publish(&self, at: usize, ready: Ready) -> Result<(), Ready> {
        let mut state = lock(&self.state);
        let closed = state.closed;
        match state.slots.get_mut(at) {
            Some(slot) if !closed => {
                *slot = Slot::Ready(ready);
                Ok(())
            }
            _ => Err(ready),
        }
    }

    /// Empties the slot of a build that failed or was given up.
    pub(super) fn vacate(&self, at: usize, build: Serial) {
        vacate(lock(&self.state).slots.get_mut(at), build);
    }

    /// Keeps for good what a committed call used.
    pub(super) fn promote(&self, used: &[usize]) {
        let mut state = lock(&self.state);
        for &at in used {
            state.promote(at);
        }
    }

    /// Hands what an inner scope used to the outer one.
    pub(super) fn hand_over(&self, used: &[usize], from: Serial, to: Serial) {
        let mut state = lock(&self.state);
        for &at in used {
            if let Some(Tenure::Provisional(users)) = state.tenure(at) {
                users.retain(|user| *user != from && *user != to);
                users.push(to);
            }
        }
    }

    /// A call is over without effect: what only it used is taken out, to be closed.
    pub(super) fn release(&self, used: &[usize], scope: Serial) -> Vec<Instance> {
        // Dropped after the lock is free again: dropping an instance is foreign code.
        let mut gone = Vec::new();
        let mut state = lock(&self.state);
        for &at in used {
            let Some(Tenure::Provisional(users)) = state.tenure(at) else { continue };
            users.retain(|user| *user != scope);
            if users.is_empty() {
                gone.extend(state.empty(at));
            }
        }
        drop(state);
        gone.into_iter().flat_map(|ready| ready.made.closing).collect()
    }

    /// Looks after prototypes that the context handed out; hands them back when it is closed.
    pub(super) fn keep(&self, made: Made) -> Result<(), Made> {
        if made.closing.is_empty() {
            return Ok(());
        }
        let mut state = lock(&self.state);
        if state.closed {
            return Err(made);
        }
        state.loose.extend(made.closing);
        Ok(())
    }

    /// Takes in what nobody looks after any more.
    pub(super) fn orphan(&self, instances: Vec<Instance>) {
        if !instances.is_empty() {
            lock(&self.state).orphans.extend(instances);
            self.orphaned.store(true, Ordering::Release);
        }
    }

    pub(super) fn has_orphans(&self) -> bool {
        self.orphaned.load(Ordering::Acquire)
    }

    pub(super) fn take_orphans(&self) -> Vec<Instance> {
        if !self.orphaned.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut lock(&self.state).orphans)
    }

    /// Closes the context to everybody, and hands out all that is to be closed.
    pub(super) fn shut(&self) -> Vec<Instance> {
        let mut gone = Vec::new();
        let mut state = lock(&self.state);
        state.closed = true;
        let mut all = std::mem::take(&mut state.orphans);
        all.append(&mut state.loose);
        for at in 0..state.slots.len() {
            gone.extend(state.empty(at));
        }
        drop(state);
        all.extend(gone.into_iter().flat_map(|ready| ready.made.closing));
        all
    }

    /// A singleton that is there to stay.
    pub(super) fn permanent(&self, at: usize) -> Option<Erased> {
        match lock(&self.state).slots.get(at) {
            Some(Slot::Ready(ready)) if ready.tenure == Tenure::Permanent => Some(Arc::clone(&ready.value)),
            _ => None,
        }
    }

    /// Notes that one build waits for another, unless that one waits for the first, directly or not.
    pub(super) fn wait(self: &Arc<Self>, from: Build, to: Build) -> Result<Waiting, ResourceError> {
        let mut state = lock(&self.state);
        let mut path = vec![from, to];
        if to == from || leads(&state.waits, to, from, &mut path) {
            let path = path.iter().filter_map(|build| Some(self.binding(build.at)?.name().clone())).collect();
            return Err(ResourceError::Cycle { path });
        }
        state.waits.push(Wait { from, to });
        Ok(Waiting { core: Arc::clone(self), wait: Wait { from, to } })
    }

    fn closed(&self, at: usize) -> ResourceError {
        let name = self.binding(at).map(|binding| binding.name().clone());
        ResourceError::Closed { name: name.unwrap_or_else(|| super::ResourceName::given("the resource")) }
    }
}

impl Drop for Core {
    /// Hooks need somebody to wait for them, so they cannot run here.
    fn drop(&mut self) {
        let unclosed = self.shut().len();
        if unclosed > 0 {
            tracing::warn!(
                unclosed,
                "resources were dropped without being closed; call ResourceContext::close"
            );
        }
    }
}

impl State {
    fn tenure(&mut self, at: usize) -> Option<&mut Tenure> {
        match self.slots.get_mut(at) {
            Some(Slot::Ready(ready)) => Some(&mut ready.tenure),
            _ => None,
        }
    }

    /// Takes a built instance out of its slot; a build under way stays, and is refused when it ends.
    fn empty(&mut self, at: usize) -> Option<Ready> {
        let slot = self.slots.get_mut(at)?;
        match std::mem::replace(slot, Slot::Empty) {
            Slot::Ready(ready) => Some(ready),
            other => {
                *slot = other;
                None
            }
        }
    }

    fn needs(&self, at: usize) -> Vec<usize> {
        match self.slots.get(at) {
            Some(Slot::Ready(ready)) => ready.made.needs.clone(),
            _ => Vec::new(),
        }
    }

    /// Notes that a call uses a provisional singleton, and with it everything that was built into it.
    fn touch(&mut self, at: usize, scope: Serial, used: &mut Vec<usize>) {
        if let Some(Tenure::Provisional(users)) = self.tenure(at)
            && !users.contains(&scope)
        {
            users.push(scope);
            used.push(at);
            for need in self.needs(at) {
                self.touch(need, scope, used);
            }
        }
    }

    fn promote(&mut self, at: usize) {
        if let Some(tenure @ Tenure::Provisional(_)) = self.tenure(at) {
            *tenure = Tenure::Permanent;
            for need in self.needs(at) {
                self.promote(need);
            }
        }
    }
}

/// Takes a slot if it is empty.
pub(super) fn claim(slot: Option<&mut Slot>, flight: Flight) -> bool {
    match slot {
        Some(slot @ Slot::Empty) => {
            *slot = Slot::Building(flight);
            true
        }
        _ => false,
    }
}

/// Empties a slot if it is this build's.
pub(super) fn vacate(slot: Option<&mut Slot>, build: Serial) {
    if let Some(slot) = slot
        && matches!(slot, Slot::Building(flight) if flight.build == build)
    {
        *slot = Slot::Empty;
    }
}

/// Whether `from` waits for `to`, directly or not; `path` is extended by the way there.
fn leads(waits: &[Wait], from: Build, to: Build, path: &mut Vec<Build>) -> bool {
    for wait in waits.iter().filter(|wait| wait.from == from) {
        path.push(wait.to);
        if wait.to == to || leads(waits, wait.to, to, path) {
            return true;
        }
        path.pop();
    }
    false
}

/// While it lives, one build waits for another.
pub(super) struct Waiting {
    core: Arc<Core>,
    wait: Wait,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = lock(&self.core.state);
        if let Some(at) = state.waits.iter().position(|wait| *wait == self.wait) {
            state.waits.swap_remove(at);
        }
    }
}
