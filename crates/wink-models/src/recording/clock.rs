//! Clocks that write down what they say, and clocks that say it again.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wink::BoxFuture;
use wink::limits::{CancelToken, Clock};

use crate::lock;

/// How long somebody may have done something between two looks at the clock, in nanoseconds.
const NEAR: u64 = 1_000_000_000;

/// Something that a clock said, or that was while it did.
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
    /// A call was here.
    #[serde(rename = "c")]
    Call(Place),
    /// Somebody cancelled the run.
    #[serde(rename = "cancelled")]
    Cancelled,
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    /// It begins.
    Begun,
    /// Its policies are asked.
    Judged,
    /// Somebody is.
    Asked,
    /// They have decided.
    Decided,
    /// The ledger is asked.
    LookedUp,
    /// All is saved that it may change.
    Saved,
    /// Its handler runs.
    Run,
    /// Its handler has run.
    Returned,
    /// What came of it is being settled.
    Over,
    /// Subscribers are told of it.
    Told,
    /// It is being committed.
    Committing,
    /// It is committed.
    Committed,
    /// It is thought about.
    FedBack,
    /// It is answered.
    Answered,
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
/// the next. A stretch goes from one line to the next, or to where a call was, or the run was cancelled.
pub(super) struct ReplayingClock {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What was said between lines to come.
    lines: VecDeque<Vec<Tick>>,
    /// What was said up to the next line. It begins with what ends the present stretch.
    ahead: VecDeque<Tick>,
    /// Who is told when the run is to be cancelled.
    cancel: Option<CancelToken>,
    /// It was, after the line before.
    is_cancelled: bool,
    now: VecDeque<i64>,
    monotonic: VecDeque<u64>,
    slept: HashSet<u64>,
    /// Somebody waited in vain until one of these was over.
    is_up: bool,
    last_now: i64,
    last_monotonic: u64,
    sleeping: Vec<Waker>,
}

impl ReplayingClock {
    pub(super) fn new(lines: impl IntoIterator<Item = Vec<Tick>>) -> Self {
        let state = State { lines: lines.into_iter().collect(), ..State::default() };
        let clock = Self { state: Mutex::new(state) };
        clock.next_line();
        clock
    }

    /// Goes on to what was said after the next line.
    pub(super) fn next_line(&self) {
        self.go_on(|state| {
            // A run that went another way may have missed it.
            let is_cancelled = state.ahead.contains(&Tick::Cancelled);
            state.is_cancelled = false;
            state.ahead = state.lines.pop_front().unwrap_or_default().into();
            Went { on: true, is_cancelled }
        });
    }

    /// A call is here. Whether it got no further then, since the run was cancelled.
    pub(super) fn call_is_at(&self, place: Place) -> bool {
        self.go_on(|state| {
            // It did not have to be waited for where it had to be then.
            let is_cancelled = state.next_is(Tick::Cancelled);
            Went { on: state.next_is(Tick::Call(place)) || is_cancelled, is_cancelled }
        });
        let state = lock(&self.state);
        state.is_cancelled && !state.goes_further(0)
    }

    /// Who is cancelled when the run was. At once, if that was before anything else.
    pub(super) fn cancels(&self, cancel: &CancelToken) {
        let is_now = {
            let mut state = lock(&self.state);
            state.cancel = Some(cancel.clone());
            state.now.is_empty() && state.monotonic.is_empty()
        };
        if is_now {
            self.cancel_here();
        }
    }

    /// Cancels the run, if it was cancelled before anything else happened; and says whether it did. Not where a call got further all the
    /// same: it had what it waited for when it was told.
    pub(super) fn cancel_here(&self) -> bool {
        self.go_on(|state| {
            let is_cancelled = !state.goes_further(1) && state.next_is(Tick::Cancelled);
            Went { on: is_cancelled, is_cancelled }
        })
    }

    /// Whether something that was begun here was given up: its time had come, or somebody cancelled it.
    pub(super) fn gives_up(&self) -> bool {
        let state = lock(&self.state);
        state.is_cancelled || !state.slept.is_empty() || state.ahead.front() == Some(&Tick::Cancelled)
    }

    /// Somebody waits here who waited then until their time was up. What they did meanwhile is not repeated, and with it how often they
    /// looked at the clock, so that the moment is nearly that one.
    #[cfg(unix)]
    pub(super) fn time_is_up(&self) {
        let woken = {
            let mut state = lock(&self.state);
            state.is_up = true;
            std::mem::take(&mut state.sleeping)
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Whether nothing more was said, and nothing happened, up to the next line.
    #[cfg(all(feature = "claude", unix))]
    pub(super) fn is_at_line(&self) -> bool {
        lock(&self.state).ahead.is_empty()
    }

    /// Whether the run was cancelled next.
    #[cfg(all(feature = "claude", unix))]
    pub(super) fn cancels_next(&self) -> bool {
        lock(&self.state).ahead.front() == Some(&Tick::Cancelled)
    }

    /// Whether nothing is known of what came after this, and a sleep until then was not over: the process died in it.
    pub(super) fn died_before(&self, until: Duration) -> bool {
        let state = lock(&self.state);
        state.lines.is_empty() && state.ahead.is_empty() && !state.slept.contains(&nanos(until))
    }

    /// Whether the run is still to be cancelled.
    pub(super) fn is_left_uncancelled(&self) -> bool {
        let state = lock(&self.state);
        state.ahead.iter().chain(state.lines.iter().flatten()).any(|tick| *tick == Tick::Cancelled)
    }

    /// Goes on to what was said from somewhere on, and says whether the run is cancelled there.
    fn go_on(&self, goes: impl FnOnce(&mut State) -> Went) -> bool {
        let (went, cancel, woken) = {
            let mut state = lock(&self.state);
            let went = goes(&mut state);
            if !went.on {
                return false;
            }
            state.enter_stretch();
            state.is_cancelled |= went.is_cancelled;
            (went, state.cancel.clone(), std::mem::take(&mut state.sleeping))
        };
        woken.into_iter().for_each(Waker::wake);
        if let Some(cancel) = cancel.filter(|_| went.is_cancelled) {
            cancel.cancel();
        }
        went.is_cancelled
    }
}

/// What became of going on.
struct Went {
    on: bool,
    is_cancelled: bool,
}

impl State {
    /// Leaves the stretch, if it ends with this.
    fn next_is(&mut self, tick: Tick) -> bool {
        self.ahead.pop_front_if(|next| *next == tick).is_some()
    }

    /// Whether a sleep until then was over.
    fn was_over(&self, until: u64) -> bool {
        let is_near = |slept: &u64| self.is_up && slept.abs_diff(until) < NEAR;
        self.slept.contains(&until) || self.slept.iter().any(is_near)
    }

    /// Whether the call goes on after so many things that happened, and not just to its end.
    fn goes_further(&self, after: usize) -> bool {
        let said = |tick: &&Tick| matches!(tick, Tick::Call(_) | Tick::Cancelled);
        match self.ahead.iter().filter(said).nth(after) {
            Some(Tick::Call(place)) => !matches!(place, Place::Begun | Place::Over | Place::Answered),
            _ => false,
        }
    }

    /// Takes what was said up to the next thing that happened.
    fn enter_stretch(&mut self) {
        if let Some(last) = self.now.drain(..).next_back() {
            self.last_now = last;
        }
        if let Some(last) = self.monotonic.drain(..).next_back() {
            self.last_monotonic = last;
        }
        self.slept.clear();
        self.is_up = false;
        let said = |tick: &mut Tick| !matches!(tick, Tick::Call(_) | Tick::Cancelled);
        while let Some(tick) = self.ahead.pop_front_if(said) {
            match tick {
                Tick::Now(nanos) => self.now.push_back(nanos),
                Tick::Monotonic(nanos) => self.monotonic.push_back(nanos),
                Tick::Slept(nanos) => {
                    self.slept.insert(nanos);
                }
                Tick::Call(_) | Tick::Cancelled => {}
            }
        }
    }
}

/// Goes on to what was said after the next line, however what it is about ends.
pub(super) struct NextLine<'a>(pub(super) &'a ReplayingClock);

impl Drop for NextLine<'_> {
    fn drop(&mut self) {
        self.0.next_line();
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
            if state.was_over(until) {
                return Poll::Ready(());
            }
            if !state.sleeping.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.sleeping.push(cx.waker().clone());
            }
            Poll::Pending
        }))
    }
}
