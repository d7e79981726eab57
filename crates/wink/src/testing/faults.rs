//! Faults at any step of a call: what fails there, panics, is cancelled, hangs or is dropped.

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::clock::FakeClock;
use crate::BoxFuture;
use crate::executor::{Executor, Moment, Outcome, Step, StepHook, ToolCall};
use crate::limits::CancelToken;
use crate::session::InvocationId;
use crate::support::lock::lock;
use crate::transaction::take_turn;

/// How far the clock is moved when a call hangs. A deadline that is to end it must be nearer.
pub const HANG: Duration = Duration::from_secs(60 * 60);

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The step fails.
    Error,
    /// The step panics.
    Panic,
    /// Somebody cancels the call.
    Cancel,
    /// The step never ends; the clock goes on.
    Hang,
    /// Whoever waits for the call goes away.
    Drop,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 5] = [Self::Error, Self::Panic, Self::Cancel, Self::Hang, Self::Drop];
}

/// Where something goes wrong, and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FaultPoint {
    /// The step.
    pub step: Step,
    /// Before or after its work.
    pub moment: Moment,
    /// What goes wrong.
    pub fault: Fault,
    /// At which call that comes by here, from 1.
    pub nth: usize,
}

impl FaultPoint {
    /// At the first call that comes by.
    #[must_use]
    pub fn new(step: Step, moment: Moment, fault: Fault) -> Self {
        Self { step, moment, fault, nth: 1 }
    }

    /// At the `nth` call that comes by, from 1.
    #[must_use]
    pub fn nth(self, nth: usize) -> Self {
        Self { nth, ..self }
    }
}

/// What came of a call with a fault.
#[derive(Debug)]
#[must_use = "a fault that was not hit proves nothing"]
pub struct FaultOutcome {
    /// Whether the call came to the point at all.
    pub hit: bool,
    /// What the call came to; none when it was dropped.
    pub outcome: Option<Outcome>,
}

/// A [`StepHook`] that makes calls go wrong where it is told to. Clones are the same hook.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use wink::executor::{Executor, Moment, Step, ToolCall};
/// use wink::prelude::*;
/// use wink::testing::{Fault, FaultPoint, Faults};
///
/// async fn nothing(_: (), _: &mut ToolContext) -> ToolResult<()> {
///     ToolResult::done("done")
/// }
/// let section = Section::tools("tools", "Tools").tool(Tool::new("nothing", "Do nothing.", nothing));
/// let prompt = PromptTemplate::builder("examples", "faults").section(section).build()?.prompt();
///
/// let faults = Faults::new();
/// let executor = Executor::builder(&prompt, &Session::new()).hook(Arc::new(faults.clone())).open().await?;
/// let point = FaultPoint::new(Step::Handler, Moment::After, Fault::Panic);
/// let came = faults.run(&executor, ToolCall::new("1", "nothing", ""), point).await;
/// assert!(came.hit && !came.outcome.unwrap().is_success());
/// assert_eq!(faults.hits(), [point]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Default)]
pub struct Faults {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    clock: Option<FakeClock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    armed: Vec<Armed>,
    hits: Vec<FaultPoint>,
    /// Whoever runs the call, to be told that its point was reached.
    runner: Option<Waker>,
}

struct Armed {
    point: FaultPoint,
    cancel: CancelToken,
    seen: usize,
}

impl Faults {
    /// Nothing goes wrong yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`Faults::new`]; for [`Fault::Hang`] this clock is moved, by [`HANG`].
    #[must_use]
    pub fn with_clock(clock: FakeClock) -> Self {
        Self { shared: Arc::new(Shared { clock: Some(clock), state: Mutex::default() }) }
    }

    /// Makes something go wrong once. [`Fault::Cancel`] cancels `cancel`; who drops or moves the clock is up to the
    /// caller.
    pub fn arm(&self, point: FaultPoint, cancel: CancelToken) {
        lock(&self.shared.state).armed.push(Armed { point, cancel, seen: 0 });
    }

    /// What went wrong so far, in order.
    #[must_use]
    pub fn hits(&self) -> Vec<FaultPoint> {
        lock(&self.shared.state).hits.clone()
    }

    /// What was to go wrong and has not.
    #[must_use]
    pub fn unhit(&self) -> Vec<FaultPoint> {
        lock(&self.shared.state).armed.iter().map(|armed| armed.point).collect()
    }

    /// Forgets what has not gone wrong yet.
    pub fn disarm(&self) {
        lock(&self.shared.state).armed.clear();
    }

    /// Runs a call in which `point` goes wrong, and waits until the call's end is recorded. The executor must have
    /// this hook, and a deadline if the call is to hang before its commit.
    pub async fn run(&self, executor: &Executor, call: ToolCall, point: FaultPoint) -> FaultOutcome {
        let cancel = CancelToken::new();
        let before = self.hits().len();
        self.arm(point, cancel.clone());
        let outcome = {
            let mut call = pin!(executor.call_cancellable(call, cancel));
            let mut moved = false;
            poll_fn(|cx| {
                lock(&self.shared.state).runner = Some(cx.waker().clone());
                loop {
                    if let Poll::Ready(outcome) = call.as_mut().poll(cx) {
                        return Poll::Ready(Some(outcome));
                    }
                    if self.hits().len() == before {
                        return Poll::Pending;
                    }
                    match (point.fault, &self.shared.clock) {
                        (Fault::Drop, _) => return Poll::Ready(None),
                        (Fault::Hang, Some(clock)) if !moved => {
                            moved = true;
                            clock.advance(HANG);
                        }
                        _ => return Poll::Pending,
                    }
                }
            })
            .await
        };
        // A dropped call is brought to its end by others, who have its turn until then.
        drop(take_turn(executor.session()).await.ok());
        self.disarm();
        FaultOutcome { hit: self.hits().len() > before, outcome }
    }

    /// What goes wrong here, if something does.
    fn reach(&self, step: Step, moment: Moment) -> Option<(Fault, CancelToken)> {
        let mut state = lock(&self.shared.state);
        let here = |armed: &&mut Armed| armed.point.step == step && armed.point.moment == moment;
        state.armed.iter_mut().filter(here).for_each(|armed| armed.seen += 1);
        let at = state.armed.iter().position(|armed| {
            armed.point.step == step && armed.point.moment == moment && armed.seen == armed.point.nth
        })?;
        let armed = state.armed.remove(at);
        state.hits.push(armed.point);
        let runner = state.runner.take();
        drop(state);
        if let Some(runner) = runner {
            runner.wake();
        }
        Some((armed.point.fault, armed.cancel))
    }
}

impl StepHook for Faults {
    #[allow(clippy::panic, reason = "that is the fault")]
    fn at<'a>(&'a self, step: Step, moment: Moment, _: InvocationId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let Some((fault, cancel)) = self.reach(step, moment) else { return Ok(()) };
            match fault {
                Fault::Error => Err(format!("a fault {moment:?} step {}", step.name())),
                Fault::Panic => panic!("a fault {moment:?} step {}", step.name()),
                Fault::Cancel => {
                    cancel.cancel();
                    // A call that never waits is never stopped: it has to look up once.
                    yield_once().await;
                    Ok(())
                }
                Fault::Hang | Fault::Drop => pending().await,
            }
        })
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("hits", &self.hits()).field("unhit", &self.unhit()).finish()
    }
}

async fn yield_once() {
    let mut yielded = false;
    poll_fn(|cx| match std::mem::replace(&mut yielded, true) {
        true => Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
