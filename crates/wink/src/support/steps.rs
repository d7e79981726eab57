//! Named places where the death of the process matters: on the way of changes to disk and store.
//!
//! Nobody listens unless a test does ([`crate::testing::steps`]); then this is one load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::lock::lock;

/// What is told of each step.
pub(crate) type Listener = Arc<dyn Fn(&'static str) + Send + Sync>;

static LISTENED_TO: AtomicBool = AtomicBool::new(false);
static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);

/// Says that `step` was just done. Its name is in [`crate::testing::steps::ALL`].
#[inline]
pub fn reach(step: &'static str) {
    if LISTENED_TO.load(Ordering::Relaxed) {
        let listener = lock(&LISTENER).clone();
        if let Some(listener) = listener {
            listener(step);
        }
    }
}

pub(crate) fn listen(listener: Option<Listener>) {
    LISTENED_TO.store(listener.is_some(), Ordering::Relaxed);
    *lock(&LISTENER) = listener;
}
