//! Registries: sets of bindings, one per type, and how several become one.

use std::any::TypeId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::binding::{AnyBinding, BindingSet, Source};
use super::context::ResourceContext;
use super::error::ResourceError;
use super::name::ResourceName;
use super::snapshot::typed;
use crate::limits::{Clock, SystemClock};

/// What happens when two registries bind the same type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeMode {
    /// It is an error.
    Strict,
    /// The later registry's binding replaces the earlier one's, in its place.
    LaterWins,
}

/// A set of bindings, at most one per type. Cloning it is cheap.
#[derive(Debug, Clone, Default)]
pub struct ResourceRegistry {
    table: Arc<Table>,
}

impl ResourceRegistry {
    /// A registry of these bindings: `ResourceRegistry::of((Binding::new(..), Binding::instance(..)))?`.
    ///
    /// # Errors
    /// When a type is bound twice, or a binding contradicts itself.
    pub fn of(bindings: impl BindingSet) -> Result<Self, ResourceError> {
        let mut table = Table::default();
        for binding in bindings.into_bindings() {
            binding.check()?;
            table.add(binding, MergeMode::Strict)?;
        }
        Ok(Self { table: Arc::new(table) })
    }

    /// This registry and `other`, as one.
    ///
    /// # Errors
    /// When both bind the same type and `mode` is [`MergeMode::Strict`].
    pub fn merge(&self, other: &Self, mode: MergeMode) -> Result<Self, ResourceError> {
        if other.is_empty() {
            return Ok(self.clone());
        }
        if self.is_empty() {
            return Ok(other.clone());
        }
        let mut table = Table::clone(&self.table);
        for binding in &other.table.bindings {
            table.add(binding.clone(), mode)?;
        }
        Ok(Self { table: Arc::new(table) })
    }

    /// One registry of several, lowest precedence first: template, sections depth first, adapter, loop, bind,
    /// request. Later ones win.
    #[must_use]
    pub fn layered<'a>(layers: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut layers = layers.into_iter().filter(|layer| !layer.is_empty());
        let Some(first) = layers.next() else { return Self::default() };
        let mut whole = first.clone();
        for layer in layers {
            let table = Arc::make_mut(&mut whole.table);
            for binding in &layer.table.bindings {
                table.put(binding.clone());
            }
        }
        whole
    }

    /// Opens the registry: builds the eager singletons, in order of declaration.
    ///
    /// # Errors
    /// When one cannot be built; what was built before it is closed again.
    pub async fn open(&self) -> Result<ResourceContext, ResourceError> {
        ResourceContext::open(self.clone(), Arc::new(SystemClock)).await
    }

    /// As [`ResourceRegistry::open`], with the clock that close hooks are held to.
    pub(crate) async fn open_with(&self, clock: Arc<dyn Clock>) -> Result<ResourceContext, ResourceError> {
        ResourceContext::open(self.clone(), clock).await
    }

    /// An instance that was made outside; it needs no opening.
    ///
    /// # Errors
    /// [`ResourceError::NotOpen`] when the resource is one that is built on demand.
    pub fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, ResourceError> {
        let Some((_, binding)) = self.table.find(TypeId::of::<T>()) else {
            return Err(ResourceError::Unbound { name: ResourceName::of::<T>() });
        };
        match &binding.0.source {
            Source::Outside(instance) => typed(&binding.0.name, instance),
            Source::Provider(_) => Err(ResourceError::NotOpen { name: binding.0.name.clone() }),
        }
    }

    /// Whether `T` is bound.
    #[must_use]
    pub fn contains<T: ?Sized + 'static>(&self) -> bool {
        self.table.find(TypeId::of::<T>()).is_some()
    }

    /// Whether nothing is bound.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.bindings.is_empty()
    }

    /// The bindings, in order of declaration.
    #[must_use]
    pub fn bindings(&self) -> &[AnyBinding] {
        &self.table.bindings
    }

    pub(crate) fn find(&self, key: TypeId) -> Option<(usize, &AnyBinding)> {
        self.table.find(key)
    }
}

#[derive(Debug, Clone, Default)]
struct Table {
    bindings: Vec<AnyBinding>,
    index: HashMap<TypeId, usize, BuildHasherDefault<TypeIdHasher>>,
}

impl Table {
    fn find(&self, key: TypeId) -> Option<(usize, &AnyBinding)> {
        let at = *self.index.get(&key)?;
        Some((at, self.bindings.get(at)?))
    }

    fn add(&mut self, binding: AnyBinding, mode: MergeMode) -> Result<(), ResourceError> {
        if mode == MergeMode::Strict && self.index.contains_key(&binding.0.key) {
            return Err(ResourceError::Duplicate { name: binding.0.name.clone() });
        }
        self.put(binding);
        Ok(())
    }

    fn put(&mut self, binding: AnyBinding) {
        let known = self.index.get(&binding.0.key).and_then(|at| self.bindings.get_mut(*at));
        if let Some(place) = known {
            *place = binding;
        } else {
            self.index.insert(binding.0.key, self.bindings.len());
            self.bindings.push(binding);
        }
    }
}

/// A `TypeId` is a hash already; hashing it again would be most of the cost of a lookup.
#[derive(Default)]
struct TypeIdHasher(u64);

impl Hasher for TypeIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
