//! The fork that a call works on.
//!
//! A fork copies nothing when it is made: a slice is taken over (a few pointers) when it is first touched, and
//! what the call does to it stays here until it is published. Rolling back is forgetting the fork. When the
//! session moved on meanwhile, the fork's events run through the reducers again on what is there now; only a
//! slice that the call *read* and that has changed since is a conflict.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::ReducerFailure;
use super::events::ToolInvoked;
use super::reducer::{Registry, Slot, concrete, type_of};
use super::root::{PolicyCell, Recount, Root};
use super::slice::{Cell, Change, Item, SliceDef, SliceKind, SliceOp, SliceView};
use crate::filesystem::FileVersion;

/// One thing that a call did to the session, kept so that it can be done again on a newer base.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) what: Action,
    /// Whether the STATE part still stands; a nested rollback takes it back, and the LOG part stays.
    state: bool,
    /// Whether a reducer already failed on it in the call, which was told so.
    failed: bool,
}

#[derive(Clone)]
pub(crate) enum Action {
    Event(Item),
    Edit {
        slot: Slot,
        edit: Arc<Edit>,
    },
    /// Of the index of calls, by tool. Only an undo does this; it goes by no slice.
    Recount(Arc<Recounts>),
}

/// A direct change of a slice (seed, clear), as a function so that it can be repeated.
pub(crate) type Edit = dyn Fn(&Cell, &SliceDef) -> Result<Option<Change>, String> + Send + Sync;

#[derive(Clone)]
pub(crate) struct Touched {
    pub(crate) slot: Slot,
    pub(crate) base: u64,
    pub(crate) cell: Cell,
    pub(crate) changes: Vec<Change>,
    /// Set while nothing was done but append, and nobody looked: then the slice has not been taken over, and `cell`
    /// is empty. Such additions need no base, and go to the end of whatever is there.
    pub(crate) blind: Option<Arc<SliceDef>>,
}

#[derive(Clone)]
pub(crate) struct TouchedPolicy {
    pub(crate) key: Arc<str>,
    base: PolicyCell,
    read: Vec<Arc<str>>,
    pub(crate) cell: PolicyCell,
    pub(crate) changes: Vec<(Arc<str>, Option<Arc<Value>>)>,
}

/// A call's private view of a session.
#[derive(Clone, Default)]
pub(crate) struct Fork {
    pub(crate) touched: Vec<Touched>,
    pub(crate) policies: Vec<TouchedPolicy>,
    pub(crate) steps: Vec<Step>,
    /// What the call itself looked at, and in which version. Not taken back by a nested rollback.
    pub(crate) reads: Vec<(Slot, u64)>,
    /// The success to count in the index of calls.
    pub(crate) success: Option<(Arc<str>, Timestamp)>,
}

/// Changes of the index of calls, by tool.
pub(crate) type Recounts = Vec<(Arc<str>, Recount)>;

/// A place in a fork's history to come back to.
pub(crate) struct Mark {
    touched: Vec<Touched>,
    policies: Vec<TouchedPolicy>,
    steps: usize,
}

/// Why a fork cannot be published on the session as it is now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// The call read a slice that somebody else changed meanwhile.
    #[error("slice {slice} was read by this call and changed by somebody else before it ended")]
    Slice {
        /// The slice's name.
        slice: &'static str,
    },
    /// A policy's state was read and changed meanwhile.
    #[error("the state of policy {policy} was read by this call and changed before it ended")]
    Policy {
        /// The policy's key.
        policy: Arc<str>,
    },
    /// A reducer that accepted an event refuses it on the newer state.
    #[error("slice {slice} changed meanwhile and its reducer now fails: {reason}")]
    Reducer {
        /// The slice's name.
        slice: &'static str,
        /// The reducer's error.
        reason: String,
    },
}

impl Fork {
    /// The slice's contents in this fork. `read` is for what the call itself looks at; a reducer's look at its
    /// own slice is repeated when the base moved, so it never conflicts.
    pub(crate) fn cell(&mut self, slot: Slot, read: bool, base: impl FnOnce() -> Cell) -> &mut Touched {
        let mut base = Some(base);
        let at = match self.touched.iter().position(|touched| touched.slot == slot) {
            Some(at) => at,
            None => {
                let cell = base.take().map_or_else(Cell::nothing, |base| base());
                let (base, changes) = (cell.version, Vec::new());
                self.touched.push(Touched { slot, base, cell, changes, blind: None });
                self.touched.len() - 1
            }
        };
        #[expect(clippy::indexing_slicing, reason = "the position was just found or made")]
        let touched = &mut self.touched[at];
        if let Some(base) = base {
            touched.see(base);
        }
        if read && !self.reads.contains(&(slot, touched.base)) {
            self.reads.push((slot, touched.base));
        }
        touched
    }

    /// Runs `action`'s reducers here, for slices of `kind`.
    pub(crate) fn apply(
        &mut self,
        registry: &Registry,
        action: &Action,
        kind: SliceKind,
        mut base: impl FnMut(Slot, &SliceDef) -> Cell,
    ) -> Vec<ReducerFailure> {
        let mut failures = Vec::new();
        match action {
            Action::Event(event) if kind == SliceKind::State && self.append_blindly(registry, event) => {}
            Action::Event(event) => registry.reduce(
                type_of(event),
                event,
                |def| def.kind == kind,
                |slot, def, run| self.cell(slot, false, || base(slot, def)).change(def, run),
                &mut failures,
            ),
            Action::Edit { slot, edit } => {
                if let Some(def) = registry.def(*slot).filter(|def| def.kind == kind) {
                    let touched = self.cell(*slot, false, || base(*slot, def));
                    if let Err(reason) = touched.change(def, &|cell| edit(cell, def)) {
                        failures.push(ReducerFailure { slice: def.name, reason });
                    }
                }
            }
            Action::Recount(_) => {}
        }
        failures
    }

    /// Notes an event that goes to the end of its own slice, which nobody has looked at. False: it is another case.
    pub(crate) fn append_blindly(&mut self, registry: &Registry, event: &Item) -> bool {
        let is_state = |(_, def): &(Slot, &Arc<SliceDef>)| def.kind == SliceKind::State;
        let Some((slot, def)) = registry.plain(type_of(event)).filter(is_state) else { return false };
        if registry.broken(slot).is_some() {
            return false;
        }
        let change = Change::Append(Arc::clone(event));
        match self.touched.iter_mut().find(|touched| touched.slot == slot) {
            Some(touched) if touched.blind.is_some() => touched.changes.push(change),
            Some(_) => return false,
            None => self.touched.push(Touched {
                slot,
                base: 0,
                cell: Cell::nothing(),
                changes: vec![change],
                blind: Some(Arc::clone(def)),
            }),
        }
        true
    }

    /// Takes over every slice that was only appended to so far.
    pub(crate) fn see_all(&mut self, root: &Root) {
        for touched in &mut self.touched {
            if let Some(def) = touched.blind.clone() {
                let cell = root.cell(touched.slot, &def);
                touched.see(|| cell);
            }
        }
    }

    /// Remembers `action`, whose STATE part was applied.
    pub(crate) fn record(&mut self, action: Action, failed: bool) {
        self.steps.push(Step { what: action, state: true, failed });
    }

    /// The events that somebody hears, that this fork's call dispatched, and that stand if it commits (`committed`)
    /// or not.
    pub(crate) fn events(
        &self,
        registry: &Registry,
        committed: bool,
        heard: impl Fn(&Item) -> bool,
    ) -> Vec<Item> {
        let is_log = |item: &Item| {
            let targets = registry.targets(type_of(item));
            targets
                .into_iter()
                .filter_map(|target| registry.find(target))
                .filter_map(|slot| registry.def(slot))
                .any(|def| def.kind == SliceKind::Log)
        };
        self.steps
            .iter()
            .filter_map(|step| match &step.what {
                // Subscribers have heard of the call's own event before.
                Action::Event(item) if is_own_event(item) || !heard(item) => None,
                Action::Event(item) if (committed && step.state) || is_log(item) => Some(Arc::clone(item)),
                Action::Event(_) | Action::Edit { .. } | Action::Recount(_) => None,
            })
            .collect()
    }

    /// Every action, for its LOG part.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Action> {
        self.steps.iter().map(|step| &step.what)
    }

    /// The fork without its STATE: what a failed commit still has to say.
    pub(crate) fn log_only(&self) -> Self {
        // The event of a success that did not come about is not a fact.
        let facts = |step: &&Step| !matches!(&step.what, Action::Event(item) if is_own_event(item));
        Self::of_steps(self.steps.iter().filter(facts).cloned().collect())
    }

    /// A fork that has nothing but these steps, for their LOG part.
    pub(crate) fn of_steps(steps: Vec<Step>) -> Self {
        Self { steps, ..Self::default() }
    }

    pub(crate) fn policy(&mut self, key: &Arc<str>, base: impl FnOnce() -> PolicyCell) -> &mut TouchedPolicy {
        let at = match self.policies.iter().position(|touched| touched.key == *key) {
            Some(at) => at,
            None => {
                let base = base();
                self.policies.push(TouchedPolicy {
                    key: Arc::clone(key),
                    cell: base.clone(),
                    base,
                    read: Vec::new(),
                    changes: Vec::new(),
                });
                self.policies.len() - 1
            }
        };
        #[expect(clippy::indexing_slicing, reason = "the position was just found or made")]
        &mut self.policies[at]
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { touched: self.touched.clone(), policies: self.policies.clone(), steps: self.steps.len() }
    }

    /// Takes back the STATE part of everything since `mark`. What was read since stays read.
    pub(crate) fn roll_back_to(&mut self, mark: Mark) {
        self.touched = mark.touched;
        for policy in &mut self.policies {
            match mark.policies.iter().find(|earlier| earlier.key == policy.key) {
                Some(earlier) => {
                    policy.cell = earlier.cell.clone();
                    policy.changes.clone_from(&earlier.changes);
                }
                None => {
                    policy.cell = policy.base.clone();
                    policy.changes.clear();
                }
            }
        }
        for step in self.steps.iter_mut().skip(mark.steps) {
            step.state = false;
        }
    }

    /// Whether anything of the session would change.
    pub(crate) fn is_clean(&self) -> bool {
        self.success.is_none()
            && self.touched.iter().all(|touched| touched.changes.is_empty())
            && self.policies.iter().all(|policy| policy.changes.is_empty())
            && self.recounts().next().is_none()
    }

    /// The changes of the index of calls, beside the success.
    pub(crate) fn recounts(&self) -> impl Iterator<Item = &(Arc<str>, Recount)> {
        let recounts = self.steps.iter().filter_map(|step| match &step.what {
            Action::Recount(recounts) if step.state => Some(recounts.iter()),
            Action::Recount(_) | Action::Event(_) | Action::Edit { .. } => None,
        });
        recounts.flatten()
    }

    /// Whether every slice and policy state that the fork took over is still what `root` has.
    pub(crate) fn is_current(&self, root: &Root) -> bool {
        self.touched
            .iter()
            .all(|touched| touched.blind.is_some() || root.version(touched.slot) == touched.base)
            && self.reads.iter().all(|(slot, version)| root.version(*slot) == *version)
            && self.policies.iter().all(|policy| root.policy_version(&policy.key) == policy.base.version)
    }

    /// Whether this fork changes the slice.
    pub(crate) fn changes(&self, slot: Slot) -> bool {
        self.touched.iter().any(|touched| touched.slot == slot && !touched.changes.is_empty())
    }

    /// Brings the fork up to `root`: what others changed is taken over, and the call's own events run again.
    pub(crate) fn rebase(&mut self, registry: &Registry, root: &Root) -> Result<(), Conflict> {
        if let Some((slot, _)) = self.reads.iter().find(|(slot, version)| root.version(*slot) != *version) {
            return Err(Conflict::Slice { slice: registry.def(*slot).map_or("?", |def| def.name) });
        }
        for touched in self.touched.iter_mut().filter(|touched| touched.blind.is_none()) {
            let Some(def) = registry.def(touched.slot) else { continue };
            let current = root.cell(touched.slot, def);
            if current.version == touched.base {
                continue;
            }
            touched.base = current.version;
            touched.cell = current;
            touched.changes.clear();
            for step in self.steps.iter().filter(|step| step.state) {
                // Only a failure after earlier success would change what the call was told.
                if let Err(reason) = touched.repeat(registry, def, &step.what)
                    && !step.failed
                {
                    return Err(Conflict::Reducer { slice: def.name, reason });
                }
            }
        }
        for policy in &mut self.policies {
            policy.rebase(root.policy(&policy.key))?;
        }
        Ok(())
    }
}

impl Touched {
    /// Takes the slice over, if that was not done yet.
    fn see(&mut self, base: impl FnOnce() -> Cell) {
        let Some(def) = self.blind.take() else { return };
        self.cell = base();
        self.base = self.cell.version;
        for change in &self.changes {
            self.cell.apply(&def, change);
        }
    }

    fn change(
        &mut self,
        def: &SliceDef,
        run: &dyn Fn(&Cell) -> Result<Option<Change>, String>,
    ) -> Result<(), String> {
        if let Some(change) = run(&self.cell)? {
            if def.kind == SliceKind::Log && !change.only_adds() {
                return Err(only_grows(def.name));
            }
            self.cell.apply(def, &change);
            self.changes.push(change);
        }
        Ok(())
    }

    /// Runs the part of `action` that is this slice's again. Of several reducers, one that fails stops no other.
    pub(super) fn repeat(
        &mut self,
        registry: &Registry,
        def: &SliceDef,
        action: &Action,
    ) -> Result<(), String> {
        match action {
            Action::Edit { slot, edit } if *slot == self.slot => self.change(def, &|cell| edit(cell, def)),
            Action::Edit { .. } | Action::Recount(_) => Ok(()),
            Action::Event(event) => {
                let mut failures = Vec::new();
                registry.reduce(
                    type_of(event),
                    event,
                    |target| target.type_id == def.type_id,
                    |_, def, run| self.change(def, run),
                    &mut failures,
                );
                failures.into_iter().next().map_or(Ok(()), |failure| Err(failure.reason))
            }
        }
    }
}

impl Fork {
    /// What policies remembered in the call about files as its copy of the workspace had them is true of the files as
    /// they are in the workspace now.
    pub(crate) fn versions_became(&mut self, versions: impl Iterator<Item = (FileVersion, FileVersion)>) {
        let became: HashMap<String, FileVersion> = versions.map(|(was, is)| (was.to_string(), is)).collect();
        if became.is_empty() {
            return;
        }
        for policy in &mut self.policies {
            for at in 0..policy.changes.len() {
                let Some((item, Some(value))) = policy.changes.get(at) else { continue };
                if let Some(is) = value.as_str().and_then(|was| became.get(was)) {
                    let value = Some(Arc::new(Value::String(is.to_string())));
                    policy.set(Arc::clone(item), value);
                }
            }
        }
    }
}

impl TouchedPolicy {
    pub(crate) fn get(&mut self, item: &str) -> Option<Arc<Value>> {
        if !self.read.iter().any(|read| **read == *item) {
            self.read.push(item.into());
        }
        self.cell.get(item)
    }

    pub(crate) fn set(&mut self, item: Arc<str>, value: Option<Arc<Value>>) {
        self.cell.set(Arc::clone(&item), value.clone());
        self.changes.push((item, value));
    }

    fn rebase(&mut self, current: PolicyCell) -> Result<(), Conflict> {
        if current.version == self.base.version {
            return Ok(());
        }
        if self.read.iter().any(|item| current.get(item) != self.base.get(item)) {
            return Err(Conflict::Policy { policy: Arc::clone(&self.key) });
        }
        self.cell = current.clone();
        self.base = current;
        for (item, value) in &self.changes {
            self.cell.set(Arc::clone(item), value.clone());
        }
        Ok(())
    }
}

/// Why a LOG slice is not seeded, cleared or replaced.
pub(crate) fn only_grows(slice: &str) -> String {
    format!("slice {slice} is LOG and kept for good: it can be appended to, and changed in no other way")
}

/// Whether this is the event of a call itself, which only the runtime makes.
fn is_own_event(item: &Item) -> bool {
    type_of(item) == TypeId::of::<ToolInvoked>()
}

/// The edit that removes the items that match.
pub(crate) fn clear_where<T: super::SliceType>(
    matches: impl Fn(&T) -> bool + Send + Sync + 'static,
) -> Arc<Edit> {
    let matches: Arc<dyn Fn(&T) -> bool + Send + Sync> = Arc::new(matches);
    Arc::new(move |cell, def| {
        let view = SliceView::<T>::new(cell.items.clone());
        crate::support::future::catch(|| concrete(def, &view, SliceOp::ClearWhere(Arc::clone(&matches))))
            .unwrap_or_else(|panic| Err(format!("the condition panicked: {panic}")))
    })
}

/// The edit that makes `items` the only ones.
pub(crate) fn seed<T: super::SliceType>(items: impl IntoIterator<Item = T>) -> Arc<Edit> {
    contents(items.into_iter().map(|item| Arc::new(item) as Item).collect())
}

/// [`seed`], with items whose type is erased.
pub(crate) fn contents(items: Vec<Item>) -> Arc<Edit> {
    Arc::new(move |_, _| Ok(Some(Change::Replace(items.clone()))))
}
