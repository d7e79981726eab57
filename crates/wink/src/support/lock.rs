//! Locks without poisoning: the data behind them is kept consistent by construction (values are replaced
//! whole), so a panic elsewhere must not take a session down with it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, whoever panicked while holding it.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
