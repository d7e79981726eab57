//! Time on a connection: clients that take nothing of what is sent to them, and timers by the injected clock.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wink::BoxFuture;
use wink::limits::Clock;

/// A stream whose other end has to take what is written within a time.
pub(super) struct Guarded<S> {
    stream: S,
    clock: Arc<dyn Clock>,
    within: Duration,
    /// Runs while nothing is taken.
    stuck: Option<BoxFuture<'static, ()>>,
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S, clock: Arc<dyn Clock>, within: Duration) -> Self {
        Self { stream, clock, within, stuck: None }
    }

    fn watch<T>(&mut self, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stuck = None;
            return polled;
        }
        let (clock, within) = (&self.clock, self.within);
        let stuck =
            self.stuck.get_or_insert_with(|| clock.sleep_until(clock.monotonic().saturating_add(within)));
        match stuck.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.watch(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The protocol's timers by the injected clock.
#[derive(Clone)]
pub(super) struct ClockTimer(pub(super) Arc<dyn Clock>);

struct ClockSleep(std::sync::Mutex<BoxFuture<'static, ()>>);

impl Future for ClockSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        sleep.as_mut().poll(cx)
    }
}

impl Sleep for ClockSleep {}

impl Timer for ClockTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        let until = self.0.monotonic().saturating_add(duration);
        Box::pin(ClockSleep(std::sync::Mutex::new(self.0.sleep_until(until))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(deadline.saturating_duration_since(self.now()))
    }
}
