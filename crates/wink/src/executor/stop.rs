//! Stopping: work races against cancellation and the clock, and its panics are contained.
//!
//! The other side of the race is only set up when the work is not done at its first poll; a call that never waits
//! pays nothing for its limits.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::BoxFuture;
use crate::limits::{CancelToken, Clock, Deadline};
use crate::support::future::panic_text;

/// Why work did not finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stopped {
    Cancelled,
    Deadline(Deadline),
    Timeout(Duration),
    Panicked(String),
}

/// What work is held to.
#[derive(Clone, Copy, Default)]
pub(crate) struct StopWhen<'a> {
    pub(crate) cancel: [Option<&'a CancelToken>; 2],
    pub(crate) deadline: Option<Deadline>,
    pub(crate) timeout: Option<Duration>,
    /// When that began to run; now, unless it is known.
    pub(crate) since: Option<Duration>,
}

impl StopWhen<'_> {
    /// Until a deadline, if there is one.
    pub(crate) fn until(deadline: Option<Deadline>) -> Self {
        Self { deadline, ..Self::default() }
    }

    /// For so long, if there is a limit.
    pub(crate) fn within(timeout: Option<Duration>) -> Self {
        Self { timeout, ..Self::default() }
    }

    /// How long the work may take, and when that is over, once it is known when it began.
    fn limit(&self) -> Option<(Duration, Duration)> {
        let timeout = self.timeout?;
        Some((timeout, self.since?.saturating_add(timeout)))
    }

    /// Whether work that ended now ended in time.
    pub(crate) fn in_time(&self, clock: &Arc<dyn Clock>) -> Result<(), Stopped> {
        match self.limit() {
            Some((timeout, limit)) if clock.monotonic() > limit => Err(Stopped::Timeout(timeout)),
            _ => Ok(()),
        }
    }

    pub(super) fn already(&self) -> Option<Stopped> {
        self.cancel.into_iter().flatten().any(CancelToken::is_cancelled).then_some(Stopped::Cancelled)
    }

    /// Ends when the work must.
    fn listen(&self, clock: &Arc<dyn Clock>) -> BoxFuture<'static, Stopped> {
        let mut waits: Vec<BoxFuture<'static, Stopped>> = Vec::new();
        for token in self.cancel.into_iter().flatten() {
            let token = token.clone();
            waits.push(Box::pin(async move {
                token.cancelled().await;
                Stopped::Cancelled
            }));
        }
        if let Some(deadline) = self.deadline {
            let clock = Arc::clone(clock);
            waits.push(Box::pin(async move {
                // The clock may be set back while we sleep; what counts is the time then.
                while !deadline.is_past(&*clock) {
                    let until = clock.monotonic().saturating_add(deadline.remaining(&*clock));
                    clock.sleep_until(until).await;
                }
                Stopped::Deadline(deadline)
            }));
        }
        if let Some((timeout, limit)) = self.limit() {
            let sleep = clock.sleep_until(limit);
            waits.push(Box::pin(async move {
                sleep.await;
                Stopped::Timeout(timeout)
            }));
        }
        Box::pin(poll_fn(move |cx| {
            for wait in &mut waits {
                if let Poll::Ready(stopped) = wait.as_mut().poll(cx) {
                    return Poll::Ready(stopped);
                }
            }
            Poll::Pending
        }))
    }
}

/// Runs `work` until it is done or must stop. Work that is done at the same moment is done; work that kept its
/// thread beyond its time is not, whatever it says.
///
/// It takes the work where it is pinned: a call's work is large, and must not be moved about.
pub(crate) fn held_to<'a, F: Future>(
    when: &'a StopWhen<'a>,
    clock: &'a Arc<dyn Clock>,
    mut work: Pin<&'a mut F>,
) -> impl Future<Output = Result<F::Output, Stopped>> + use<'a, F> {
    let mut listening: Option<BoxFuture<'static, Stopped>> = None;
    let mut begun: Option<StopWhen<'a>> = None;
    poll_fn(move |cx| {
        let when = match &begun {
            Some(when) => when,
            None => {
                if let Some(stopped) = when.already() {
                    return Poll::Ready(Err(stopped));
                }
                let now = || clock.monotonic();
                let since = when.timeout.map(|_| when.since.unwrap_or_else(now));
                begun.insert(StopWhen { since, ..*when })
            }
        };
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Ready(value)) => return Poll::Ready(when.in_time(clock).map(|()| value)),
            Ok(Poll::Pending) => {}
            Err(payload) => return Poll::Ready(Err(Stopped::Panicked(panic_text(payload)))),
        }
        let stop = listening.get_or_insert_with(|| when.listen(clock));
        stop.as_mut().poll(cx).map(Err)
    })
}
