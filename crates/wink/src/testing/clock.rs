//! A clock that moves only when told to.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{oneshot, watch};

use crate::BoxFuture;
use crate::limits::Clock;
use crate::support::lock::lock;

/// A [`Clock`] for tests: time stands still until [`FakeClock::advance`]. Clones are the same clock.
#[derive(Clone)]
pub struct FakeClock {
    shared: Arc<Shared>,
}

struct Shared {
    start: Timestamp,
    state: Mutex<State>,
    sleeping: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    elapsed: Duration,
    next: u64,
    sleepers: Vec<Sleeper>,
}

struct Sleeper {
    until: Duration,
    /// Tells sleepers of one moment apart, and keeps their order.
    number: u64,
    wake: oneshot::Sender<()>,
}

impl FakeClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        let (sleeping, _) = watch::channel(0);
        Self { shared: Arc::new(Shared { start, state: Mutex::default(), sleeping }) }
    }

    /// Moves time on, and wakes those whose time has come, the earliest first.
    pub fn advance(&self, by: Duration) {
        let mut due = {
            let mut state = lock(&self.shared.state);
            state.elapsed = state.elapsed.saturating_add(by);
            let now = state.elapsed;
            let (due, later) =
                state.sleepers.drain(..).partition::<Vec<_>, _>(|sleeper| sleeper.until <= now);
            state.sleepers = later;
            self.shared.sleeping.send_replace(state.sleepers.len());
            due
        };
        due.sort_by_key(|sleeper| (sleeper.until, sleeper.number));
        for sleeper in due {
            // A sleeper that was given up needs no waking.
            let _ = sleeper.wake.send(());
        }
    }

    /// How many sleep.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        lock(&self.shared.state).sleepers.len()
    }

    /// Ends when at least `count` sleep, so that a test knows when to move time on.
    pub async fn until_sleeping(&self, count: usize) {
        // The sender lives as long as this clock, so there is no other end than the one waited for.
        let _ = self.shared.sleeping.subscribe().wait_for(|sleeping| *sleeping >= count).await;
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        self.shared.start.saturating_add(self.monotonic()).unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        lock(&self.shared.state).elapsed
    }

    fn sleep_until(&self, until: Duration) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let (number, woken) = {
                let mut state = lock(&shared.state);
                if until <= state.elapsed {
                    return;
                }
                let (wake, woken) = oneshot::channel();
                let number = state.next;
                state.next += 1;
                state.sleepers.push(Sleeper { until, number, wake });
                shared.sleeping.send_replace(state.sleepers.len());
                (number, woken)
            };
            let _asleep = Asleep { shared, number };
            let _ = woken.await;
        })
    }
}

impl fmt::Debug for FakeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeClock").field("now", &self.now()).field("sleepers", &self.sleepers()).finish()
    }
}

/// Takes a sleeper off the list when its sleep is given up.
struct Asleep {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Asleep {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.sleepers.retain(|sleeper| sleeper.number != self.number);
        self.shared.sleeping.send_replace(state.sleepers.len());
    }
}
