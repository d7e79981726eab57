//! Where a run was when somebody cancelled it: written down, and found again.
//!
//! What a clock says is in order already, so this is beside it: each call says how far it is, and a cancellation is where it came. In
//! between, a run that is repeated takes the same way, and is cancelled as soon as it waits there.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
#[cfg(unix)]
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use wink::BoxFuture;
use wink::executor::{Moment, Step, StepHook};
use wink::limits::CancelToken;
use wink::session::InvocationId;

use super::clock::{Place, ReplayingClock, Tick};
#[cfg(unix)]
use super::files::ReplayedFiles;
#[cfg(all(feature = "claude", unix))]
use super::talk::ReplayedTalk;
use super::write::Shared;
#[cfg(unix)]
use crate::lock;

/// What is written, or was.
pub(super) enum Tape {
    Recorded(Arc<Shared>),
    Replayed(Replay),
}

/// A run that is repeated.
pub(super) struct Replay {
    pub(super) clock: Arc<ReplayingClock>,
    #[cfg(unix)]
    pub(super) files: Arc<ReplayedFiles>,
    /// The first thing that was not as it was then.
    #[cfg(unix)]
    pub(super) difference: Arc<Mutex<Option<String>>>,
    #[cfg(all(feature = "claude", unix))]
    pub(super) talk: Option<Arc<ReplayedTalk>>,
}

impl Replay {
    async fn call_is_at(&self, place: Place) {
        #[cfg(all(feature = "claude", unix))]
        if let Some(talk) = &self.talk {
            talk.until_heard().await;
        }
        // What policies say that were cut short is not heard, so that it is all the same where they were.
        if self.clock.call_is_at(place) || place == Place::Judged && self.clock.cancel_here() {
            // Whoever holds the call sees that before it goes on.
            tokio::task::yield_now().await;
        }
    }

    #[cfg(unix)]
    async fn changed(&self, call: InvocationId) {
        if let Some(differs) = self.files.difference(call).await {
            lock(&self.difference).get_or_insert(differs);
        }
    }
}

impl Tape {
    /// A call is about to be committed, or is: what it changed is written down or compared.
    #[cfg(unix)]
    async fn at_commit(&self, moment: Moment, call: InvocationId) {
        match (self, moment) {
            (Self::Recorded(shared), Moment::Before) => shared.files.begins(call),
            (Self::Recorded(shared), Moment::After) => shared.changed(call).await,
            (Self::Replayed(replay), Moment::Before) => replay.files.now().begins(call),
            (Self::Replayed(replay), Moment::After) => replay.changed(call).await,
        }
    }
}

impl StepHook for Tape {
    fn at<'a>(&'a self, step: Step, moment: Moment, call: InvocationId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            #[cfg(unix)]
            if step == Step::Commit {
                self.at_commit(moment, call).await;
            }
            #[cfg(not(unix))]
            let _ = call;
            match (self, place(step, moment)) {
                (Self::Recorded(shared), Some(place)) => shared.tick(Tick::Call(place)),
                (Self::Replayed(replay), Some(place)) => replay.call_is_at(place).await,
                (_, None) => {}
            }
            Ok(())
        })
    }
}

/// How far a call is, as far as it matters: what may wait for something is in between, and what a cancellation comes to depends on that.
fn place(step: Step, moment: Moment) -> Option<Place> {
    match (step, moment) {
        (Step::Lookup, Moment::Before) => Some(Place::Begun),
        (Step::Policies, Moment::Before) => Some(Place::Judged),
        (Step::Policies, Moment::After) => Some(Place::Decided),
        (Step::Ledger, Moment::Before) => Some(Place::LookedUp),
        (Step::Begin, Moment::Before) => Some(Place::Saved),
        (Step::Handler, Moment::Before) => Some(Place::Run),
        (Step::Handler, Moment::After) => Some(Place::Returned),
        (Step::OnResult | Step::Record, Moment::Before) => Some(Place::Over),
        (Step::Subscribers, Moment::Before) => Some(Place::Told),
        (Step::Commit, Moment::Before) => Some(Place::Committing),
        (Step::Commit, Moment::After) => Some(Place::Committed),
        (Step::Feedback, Moment::Before) => Some(Place::FedBack),
        (Step::Answer, Moment::Before) => Some(Place::Answered),
        _ => None,
    }
}

/// The tape of an evaluation.
#[derive(Clone)]
pub(crate) struct Taped {
    tape: Arc<Tape>,
    stopped: StoppedBy,
}

/// Who stops an evaluation.
#[derive(Clone)]
enum StoppedBy {
    /// Whoever has its token.
    Others,
    /// Whoever has this token, by way of the tape.
    Tape(CancelToken),
    /// The run whose sub-run it is.
    Run,
}

impl Taped {
    pub(super) fn new(tape: Tape) -> Self {
        Self { tape: Arc::new(tape), stopped: StoppedBy::Others }
    }

    /// The tape of a sub-run: its calls are on it, and it is stopped with the run.
    pub(crate) fn of_sub_run(&self) -> Self {
        Self { tape: Arc::clone(&self.tape), stopped: StoppedBy::Run }
    }

    /// Whether the run that is repeated died before this moment, in a wait.
    pub(crate) fn died_before(&self, until: Duration) -> bool {
        matches!(&*self.tape, Tape::Replayed(replay) if replay.clock.died_before(until))
    }

    /// Who is told of the steps of calls.
    pub(crate) fn hook(&self) -> Arc<dyn StepHook> {
        Arc::clone(&self.tape) as _
    }

    /// Takes the token of an evaluation, which has another from now on: what cancels it comes by here first.
    pub(crate) fn take_over(&mut self, cancel: &mut CancelToken) {
        if matches!(self.stopped, StoppedBy::Others) {
            self.stopped = StoppedBy::Tape(std::mem::take(cancel));
        }
    }

    /// Work that can be cancelled by `own`, which is when the tape says so, or when somebody wants it.
    pub(crate) async fn held<T>(&self, own: &CancelToken, work: impl Future<Output = T>) -> T {
        let StoppedBy::Tape(theirs) = &self.stopped else { return work.await };
        if let Tape::Replayed(replay) = &*self.tape {
            replay.clock.cancels(own);
        }
        let (mut work, mut wanted) = (pin!(work), pin!(theirs.cancelled()));
        poll_fn(|cx| {
            if !own.is_cancelled() && wanted.as_mut().poll(cx).is_ready() {
                // Before anybody knows: what they do about it comes after it.
                if let Tape::Recorded(shared) = &*self.tape {
                    shared.tick(Tick::Cancelled);
                }
                own.cancel();
            }
            loop {
                match (work.as_mut().poll(cx), &*self.tape) {
                    (Poll::Pending, Tape::Replayed(replay)) if replay.clock.cancel_here() => {}
                    (polled, _) => return polled,
                }
            }
        })
        .await
    }
}
