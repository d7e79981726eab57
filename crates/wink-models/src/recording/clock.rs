//! Clocks that write down what they say, and clocks that say it again.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wink::BoxFuture;
use wink::limits::Clock;

use crate::lock;

/// Something that a clock said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Tick {
    /// The time, in nanoseconds since 1970.
    #[serde(rename = "n")]
    Now(i64),
    /// The time that never goes back, in nanoseconds.
    #[serde(rename = "m")]
    Monotonic(u64),
    /// A sleep until then was over.
    #[serde(rename = "s")]
    Slept(u64),
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Says what another clock says, and writes it down.
pub(super) struct RecordingClock {
    clock: Arc<dyn Clock>,
    tape: Arc<Mutex<Vec<Tick>>>,
}

impl RecordingClock {
    pub(super) fn new(clock: Arc<dyn Clock>, tape: Arc<Mutex<Vec<Tick>>>) -> Self {
        Self { clock, tape }
    }
}

impl Clock for RecordingClock {
    fn now(&self) -> Timestamp {
        // As it is written down: both runs must see the same.
        let nanos = i64::try_from(self.clock.now().as_nanosecond()).unwrap_or(i64::MAX);
        lock(&self.tape).push(Tick::Now(nanos));
        timestamp(nanos)
    }

    fn monotonic(&self) -> Duration {
        let nanos = nanos(self.clock.monotonic());
        lock(&self.tape).push(Tick::Monotonic(nanos));
        Duration::from_nanos(nanos)
    }

    fn sleep_until(&self, until: Duration) -> BoxFuture<'static, ()> {
        let (sleep, tape) = (self.clock.sleep_until(until), Arc::clone(&self.tape));
        Box::pin(async move {
            sleep.await;
            lock(&tape).push(Tick::Slept(nanos(until)));
        })
    }
}

fn timestamp(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanos.into()).unwrap_or(Timestamp::MAX)
}

/// Says again what was written down, stretch by stretch: whoever looks once more or less often in one of them is right again in
/// the next.
pub(super) struct ReplayingClock {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The stretches to come.
    stretches: VecDeque<Vec<Tick>>,
    now: VecDeque<i64>,
    monotonic: VecDeque<u64>,
    slept: HashSet<u64>,
    last_now: i64,
    last_monotonic: u64,
    sleeping: Vec<Waker>,
}

impl ReplayingClock {
    pub(super) fn new(stretches: impl IntoIterator<Item = Vec<Tick>>) -> Self {
        let clock = Self {
            state: Mutex::new(State { stretches: stretches.into_iter().collect(), ..State::default() }),
        };
        clock.next_stretch();
        clock
    }

    /// Goes on to what was said after the next line.
    pub(super) fn next_stretch(&self) {
        let woken = {
            let mut state = lock(&self.state);
            state.leave_stretch();
            for tick in state.stretches.pop_front().unwrap_or_default() {
                match tick {
                    Tick::Now(nanos) => state.now.push_back(nanos),
                    Tick::Monotonic(nanos) => state.monotonic.push_back(nanos),
                    Tick::Slept(nanos) => {
                        state.slept.insert(nanos);
                    }
                }
            }
            std::mem::take(&mut state.sleeping)
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Whether a sleep was over before the next line.
    pub(super) fn somebody_slept(&self) -> bool {
        !lock(&self.state).slept.is_empty()
    }
}

impl State {
    fn leave_stretch(&mut self) {
        if let Some(last) = self.now.drain(..).next_back() {
            self.last_now = last;
        }
        if let Some(last) = self.monotonic.drain(..).next_back() {
            self.last_monotonic = last;
        }
        self.slept.clear();
    }
}

/// The replaying clock, to be handed around.
pub(super) struct Replayed(pub(super) Arc<ReplayingClock>);

impl Clock for Replayed {
    fn now(&self) -> Timestamp {
        let mut state = lock(&self.0.state);
        if let Some(next) = state.now.pop_front() {
            state.last_now = next;
        }
        timestamp(state.last_now)
    }

    fn monotonic(&self) -> Duration {
        let mut state = lock(&self.0.state);
        if let Some(next) = state.monotonic.pop_front() {
            state.last_monotonic = next;
        }
        Duration::from_nanos(state.last_monotonic)
    }

    /// Is over at once if it was over then, and never if something else was faster.
    fn sleep_until(&self, until: Duration) -> BoxFuture<'static, ()> {
        let clock = Arc::clone(&self.0);
        let until = nanos(until);
        Box::pin(poll_fn(move |cx| {
            let mut state = lock(&clock.state);
            if state.slept.contains(&until) {
                return Poll::Ready(());
            }
            if !state.sleeping.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.sleeping.push(cx.waker().clone());
            }
            Poll::Pending
        }))
    }
}
