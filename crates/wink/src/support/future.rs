//! Futures: the boxed form that object-safe traits return, and polling that contains panics.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::limits::Clock;

/// The future that every object-safe trait of this crate returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a panic carried, as text.
pub(crate) fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "panic without a text".to_owned()
    };
    // It is somebody else's, and may panic again when it is dropped. What that panic carries is never looked at.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
    text
}

/// Polls a future of somebody else, turning a panic into its text. What panics when it is dropped, panics here and no
/// further.
#[must_use = "futures do nothing unless they are awaited"]
pub struct CatchPanic<F>(Option<F>);

impl<F> CatchPanic<F> {
    /// Of this future.
    pub fn new(future: F) -> Self {
        Self(Some(future))
    }
}

impl<F: Future + Unpin> Future for CatchPanic<F> {
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(inner) = &mut self.0 else { return Poll::Pending };
        match catch(|| Pin::new(inner).poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl<F: Unpin> Unpin for CatchPanic<F> {}

impl<F> Drop for CatchPanic<F> {
    fn drop(&mut self) {
        drop_contained(self.0.take());
    }
}

/// Work of somebody else: what panics when it is dropped, panics here and no further.
pub(crate) struct Contained<'a, T>(Option<BoxFuture<'a, T>>);

impl<'a, T> Contained<'a, T> {
    pub(crate) fn new(work: BoxFuture<'a, T>) -> Self {
        Self(Some(work))
    }
}

impl<T> Future for Contained<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            Some(work) => work.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for Contained<'_, T> {
    fn drop(&mut self) {
        drop_contained(self.0.take());
    }
}

/// Runs `work`, but no longer than `limit`. Without a timer (the machine's clock, outside a runtime) there is no limit.
pub(crate) async fn within<F: Future + Unpin>(
    clock: &Arc<dyn Clock>,
    limit: Duration,
    mut work: F,
) -> Option<F::Output> {
    let mut timer: Option<Option<BoxFuture<'static, ()>>> = None;
    poll_fn(move |cx| {
        if let Poll::Ready(done) = Pin::new(&mut work).poll(cx) {
            return Poll::Ready(Some(done));
        }
        let until = || clock.sleep_until(clock.monotonic().saturating_add(limit));
        match timer.get_or_insert_with(|| catch(until).ok()) {
            Some(timer) => timer.as_mut().poll(cx).map(|()| None),
            None => Poll::Pending,
        }
    })
    .await
}

/// Drops what may be somebody else's, and may panic at that.
pub(crate) fn drop_contained<T>(value: T) {
    if let Err(panic) = catch(move || drop(value)) {
        tracing::error!(panic, "a value that a call left behind panicked when it was dropped");
    }
}

/// Runs synchronous code of somebody else, turning a panic into its text.
///
/// # Errors
/// When it panics.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(panic_text)
}
