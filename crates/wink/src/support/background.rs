//! Work that must be finished whoever stops waiting for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::BoxFuture;

/// A future that runs to its end even when it is dropped half-way: dropping it hands the rest to the background.
///
/// A commit that is on its way to the store can be neither taken back nor left without its consequences.
pub(crate) struct MustFinish<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> MustFinish<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<T: Send + 'static> Future for MustFinish<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.0.as_mut() {
            None => Poll::Pending,
            Some(future) => match future.as_mut().poll(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(value) => {
                    self.0 = None;
                    Poll::Ready(value)
                }
            },
        }
    }
}

impl<T: Send + 'static> Drop for MustFinish<T> {
    fn drop(&mut self) {
        if let Some(future) = self.0.take() {
            finish(async move {
                future.await;
            });
        }
    }
}

/// Finishes `work` now if it can be (in memory it always can), else in the background.
pub(crate) fn finish(work: impl Future<Output = ()> + Send + 'static) {
    let mut work: BoxFuture<'static, ()> = Box::pin(work);
    if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
        return;
    }
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            runtime.spawn(work);
        }
        Err(_) => {
            // Without a runtime the thread that drops us may be anything; it must not be blocked.
            let spawned = std::thread::Builder::new().name("wink-finish".into()).spawn(move || block_on(work));
            if let Err(error) = spawned {
                tracing::error!(%error, "no thread to finish a call's end; it is finished when the session is next opened");
            }
        }
    }
}

/// Runs a future on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        std::thread::park();
    }
}
