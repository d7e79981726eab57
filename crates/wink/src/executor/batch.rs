//! Several calls in one turn: they look as if run in order, and overlap where nobody can tell.
//!
//! A call starts when every earlier call that is not decided yet has a footprint disjoint from its own, what its
//! policies look at included; without a footprint it waits for all of them. Each works on its own fork. From the
//! moment subscribers hear of a call, everything happens in request order: a call waits there until the one before
//! it is decided, and is not run after all when that one escalated.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::{OnceCell, watch};

use super::call::Call;
use super::outcome::{Failure, Outcome, ToolCall};
use super::{Executor, Shared};
use crate::BoxFuture;
use crate::limits::CancelToken;
use crate::policy::{PolicyCall, declared_by};
use crate::session::Ending;
use crate::tool::footprint::{Area, Footprint};
use crate::transaction::{Turn, take_turn};

/// A call's place in its batch.
pub(super) struct Place {
    /// The turn that all calls of the batch share.
    turn: Arc<OnceCell<Arc<Turn>>>,
    /// What became of the call before.
    before: watch::Receiver<Decided>,
    /// What becomes of this one.
    decided: watch::Sender<Decided>,
}

#[derive(Debug, Clone)]
enum Decided {
    NotYet,
    /// The next may go on.
    Clear,
    /// This tool ended the turn.
    Escalated(Arc<str>),
}

impl Place {
    pub(super) async fn turn(&self, call: &Call) -> Turn {
        let turn = self.turn.get_or_init(async || Arc::new(take_turn(call.session()).await)).await;
        Turn::Shared { _guard: Arc::clone(turn) }
    }

    /// Waits until everything before this call is decided.
    pub(super) async fn wait(&mut self) -> Result<(), Box<Failure>> {
        let before = match self.before.wait_for(|before| !matches!(before, Decided::NotYet)).await {
            Ok(before) => before.clone(),
            // Dropped undecided: the batch is being dropped, and this call with it.
            Err(_) => return Err(Failure::new(Ending::NotRun, "not run: the batch was dropped")),
        };
        match before {
            Decided::NotYet | Decided::Clear => Ok(()),
            Decided::Escalated(by) => Err(not_run(&by)),
        }
    }

    /// Why the call is not run, if the turn has ended already.
    pub(super) fn ended(&self) -> Option<Box<Failure>> {
        match &*self.before.borrow() {
            Decided::NotYet | Decided::Clear => None,
            Decided::Escalated(by) => Some(not_run(by)),
        }
    }

    /// Lets the next call go on, or not.
    pub(super) fn decide(&self, outcome: &Outcome) {
        let before = self.before.borrow().clone();
        self.decided.send_replace(match (before, &outcome.escalation) {
            (Decided::Escalated(by), _) => Decided::Escalated(by),
            (_, Some(_)) => Decided::Escalated(Arc::clone(&outcome.event.tool)),
            (_, None) => Decided::Clear,
        });
    }
}

fn not_run(by: &str) -> Box<Failure> {
    Failure::new(Ending::NotRun, format!("not run: {by} ended the turn before it"))
}

enum Progress {
    Waiting(Box<Call>),
    Running(BoxFuture<'static, Outcome>),
    Done(Outcome),
    /// Between two of the others.
    Moving,
}

impl Executor {
    /// Runs the calls of one response. There is one outcome per call, in the same order.
    pub async fn batch(&self, calls: Vec<ToolCall>) -> Vec<Outcome> {
        self.batch_cancellable(calls, None).await
    }

    /// Like [`Executor::batch`]; cancelling stops what runs, and the rest is not run.
    pub async fn batch_cancellable(&self, calls: Vec<ToolCall>, cancel: Option<CancelToken>) -> Vec<Outcome> {
        let turn = Arc::new(OnceCell::new());
        let (_first, mut before) = watch::channel(Decided::Clear);
        let mut seen: HashSet<Arc<str>> = HashSet::new();
        let mut footprints = Vec::with_capacity(calls.len());
        let mut progress = Vec::with_capacity(calls.len());
        for call in calls {
            let repeated = !seen.insert(Arc::clone(&call.id));
            footprints.push(if repeated { Footprint::nothing() } else { footprint(&self.shared, &call) });
            let (decided, next) = watch::channel(Decided::NotYet);
            let mut call = Call::new(&self.shared, call, cancel.clone());
            call.place = Some(Place { turn: Arc::clone(&turn), before, decided });
            call.repeated = repeated;
            before = next;
            progress.push(Progress::Waiting(call));
        }
        let most = self.shared.limits.max_calls_at_once.max(1);
        poll_fn(|cx| {
            loop {
                start(&mut progress, &footprints, most);
                let mut moved = false;
                for call in &mut progress {
                    if let Progress::Running(running) = call
                        && let Poll::Ready(outcome) = running.as_mut().poll(cx)
                    {
                        *call = Progress::Done(outcome);
                        moved = true;
                    }
                }
                if !moved {
                    break;
                }
            }
            match progress.iter().all(|call| matches!(call, Progress::Done(_))) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        let done = |call| match call {
            Progress::Done(outcome) => Some(outcome),
            Progress::Waiting(_) | Progress::Running(_) | Progress::Moving => None,
        };
        progress.into_iter().filter_map(done).collect()
    }
}

/// Starts what may start.
fn start(progress: &mut [Progress], footprints: &[Footprint], most: usize) {
    let mut running = progress.iter().filter(|call| matches!(call, Progress::Running(_))).count();
    for at in 0..progress.len() {
        let (earlier, rest) = progress.split_at_mut(at);
        let (Some(call), Some(own)) = (rest.first_mut(), footprints.get(at)) else { return };
        if running >= most || !matches!(call, Progress::Waiting(_)) {
            continue;
        }
        let free = earlier.iter().zip(footprints).all(|(call, footprint)| match call {
            Progress::Done(_) => true,
            Progress::Waiting(_) | Progress::Running(_) | Progress::Moving => footprint.is_disjoint(own),
        });
        if free && let Progress::Waiting(waiting) = std::mem::replace(call, Progress::Moving) {
            *call = Progress::Running(Box::pin(waiting.run()));
            running += 1;
        }
    }
}

/// Everything that a call may touch, what its policies look at included.
fn footprint(shared: &Shared, call: &ToolCall) -> Footprint {
    if !shared.feedback.is_empty() {
        return Footprint::everything();
    }
    let around = shared.around.load();
    let Some(placed) = around.rendered.as_ref().and_then(|rendered| rendered.find(&call.tool)) else {
        return Footprint::nothing();
    };
    let Ok(params) = placed.tool.inner.parse(&call.arguments, &shared.limits.parse) else {
        return Footprint::nothing();
    };
    let Some(declared) = placed.tool.inner.footprint(&params) else { return Footprint::everything() };
    let mut whole = declared.and(shared.published_footprint(&placed.tool));
    if placed.tool.contract().idempotency.is_some() {
        whole = whole.writing(Area::Outside);
    }
    let call = PolicyCall { tool: &placed.tool, params: &params };
    placed.policies.iter().fold(whole, |whole, placed| whole.and(declared_by(placed, &call)))
}
