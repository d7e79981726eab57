//! The steps that one test reaches, in a program in which other tests reach theirs.

#![cfg(unix)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, Id};
use wink::testing::steps;

/// The process has one listener.
static ALONE: Mutex<()> = Mutex::new(());

/// Listens as long as it exists, and no other test does.
pub(crate) struct Listening {
    _alone: MutexGuard<'static, ()>,
}

/// Has `listener` called at each step that this test reaches: on its thread, or on one that its runtime provides.
pub(crate) fn on_own_steps(listener: impl Fn(&'static str) + Send + Sync + 'static) -> Listening {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (thread, runtime) = (std::thread::current().id(), runtime());
    steps::on_every_step(move |step| {
        let is_own =
            std::thread::current().id() == thread || (runtime.is_some() && self::runtime() == runtime);
        if is_own {
            listener(step);
        }
    });
    Listening { _alone: alone }
}

fn runtime() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

impl Drop for Listening {
    fn drop(&mut self) {
        steps::stop_listening();
    }
}
