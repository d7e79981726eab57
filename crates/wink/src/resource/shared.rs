//! The ready-made snapshotable cell.

use std::fmt;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{BoxError, ResourceError};
use super::name::ResourceName;
use super::snapshot::{ResourceSnapshot, Snapshotable};
use crate::support::lock::lock;

/// A value that tools read and change, rolled back with the call that changed it.
///
/// Forking and snapshots cost nothing; an update clones the value, so keep large collections in persistent ones.
///
/// ```
/// use wink::resource::Shared;
///
/// let counter = Shared::new(1_u32);
/// counter.update(|n| *n += 1);
/// assert_eq!(*counter.read(), 2);
/// ```
pub struct Shared<T>(Mutex<Arc<T>>);

impl<T: Send + Sync + 'static> Shared<T> {
    /// A cell that holds `value`.
    pub fn new(value: T) -> Self {
        Self(Mutex::new(Arc::new(value)))
    }

    /// The value as it is now.
    #[must_use]
    pub fn read(&self) -> Arc<T> {
        Arc::clone(&lock(&self.0))
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        self.replace(Arc::new(value));
    }

    fn replace(&self, value: Arc<T>) {
        // The old value goes only when the lock is free again: dropping it is foreign code.
        let _old = std::mem::replace(&mut *lock(&self.0), value);
    }

    /// Replaces the value if it still is `expected`; says what it is otherwise.
    fn replace_if(&self, expected: &Arc<T>, value: Arc<T>) -> Result<(), Arc<T>> {
        let mut current = lock(&self.0);
        if !Arc::ptr_eq(&current, expected) {
            return Err(Arc::clone(&current));
        }
        // `expected` keeps the old value for longer than the lock is held.
        *current = value;
        Ok(())
    }
}

impl<T: Clone + Send + Sync + 'static> Shared<T> {
    /// Changes the value; what `change` returned last is handed back. When two threads change it at once, the
    /// second runs `change` again on what the first left, so no update is lost. A panic changes nothing.
    pub fn update<R>(&self, mut change: impl FnMut(&mut T) -> R) -> R {
        let mut current = self.read();
        loop {
            let mut next = T::clone(&current);
            let answer = change(&mut next);
            match self.replace_if(&current, Arc::new(next)) {
                Ok(()) => return answer,
                Err(newer) => current = newer,
            }
        }
    }
}

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Snapshotable for Shared<T> {
    fn snapshot(&self) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::shared(self.read()))
    }

    fn restore(&self, snapshot: &ResourceSnapshot) -> Result<(), BoxError> {
        self.replace(state(snapshot)?);
        Ok(())
    }

    fn fork(&self) -> Result<Self, BoxError> {
        Ok(Self(Mutex::new(self.read())))
    }

    fn merge(&self, fork: &Self, base: &ResourceSnapshot) -> Result<(), BoxError> {
        // One step, so that a change from outside is either seen (and refused) or comes after.
        self.replace_if(&state(base)?, fork.read())
            .map_err(|_| ResourceError::Conflict { name: ResourceName::of::<Self>() }.into())
    }

    fn decode(&self, json: &Value) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(T::deserialize(json)?))
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&*lock(&self.0)).finish()
    }
}

fn state<T: Send + Sync + 'static>(snapshot: &ResourceSnapshot) -> Result<Arc<T>, BoxError> {
    snapshot.state().ok_or_else(|| format!("the snapshot does not hold a {}", ResourceName::of::<T>()).into())
}
