//! The ready-made snapshotable cell.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{BoxError, ResourceError};
use super::name::ResourceName;
use super::snapshot::{ResourceSnapshot, Snapshotable};

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
pub struct Shared<T>(ArcSwap<T>);

impl<T: Send + Sync + 'static> Shared<T> {
    /// A cell that holds `value`.
    pub fn new(value: T) -> Self {
        Self(ArcSwap::from_pointee(value))
    }

    /// The value as it is now.
    #[must_use]
    pub fn read(&self) -> Arc<T> {
        self.0.load_full()
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}

impl<T: Clone + Send + Sync + 'static> Shared<T> {
    /// Changes the value; what `change` returned last is handed back. When two threads change it at once, the
    /// second runs `change` again on what the first left, so no update is lost. A panic changes nothing.
    pub fn update<R>(&self, mut change: impl FnMut(&mut T) -> R) -> R {
        let mut current = self.0.load_full();
        loop {
            let mut next = T::clone(&current);
            let answer = change(&mut next);
            let seen = self.0.compare_and_swap(&current, Arc::new(next));
            if Arc::ptr_eq(&seen, &current) {
                return answer;
            }
            current = Arc::clone(&seen);
        }
    }
}

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Snapshotable for Shared<T> {
    fn snapshot(&self) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::shared(self.read()))
    }

    fn restore(&self, snapshot: &ResourceSnapshot) -> Result<(), BoxError> {
        self.0.store(state(snapshot)?);
        Ok(())
    }

    fn fork(&self) -> Result<Self, BoxError> {
        Ok(Self(ArcSwap::new(self.read())))
    }

    fn merge(&self, fork: &Self, base: &ResourceSnapshot) -> Result<(), BoxError> {
        // One step, so that a change from outside is either seen (and refused) or comes after.
        let base = state::<T>(base)?;
        let seen = self.0.compare_and_swap(&base, fork.read());
        if Arc::ptr_eq(&seen, &base) {
            return Ok(());
        }
        Err(Box::new(ResourceError::Conflict { name: ResourceName::of::<Self>() }))
    }

    fn decode(&self, json: &Value) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(T::deserialize(json)?))
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.0.load()).finish()
    }
}

fn state<T: Send + Sync + 'static>(snapshot: &ResourceSnapshot) -> Result<Arc<T>, BoxError> {
    snapshot.state().ok_or_else(|| format!("the snapshot does not hold a {}", ResourceName::of::<T>()).into())
}
