//! Work that must be finished whoever stops waiting for it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use super::future::{BoxFuture, CatchPanic, panic_text};
use super::holding;
use super::lock::lock;

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
        // Taken out while it runs: one that panicked must not be polled again, in our drop least of all.
        let Some(mut future) = self.0.take() else { return Poll::Pending };
        let polled = future.as_mut().poll(cx);
        if polled.is_pending() {
            self.0 = Some(future);
        }
        polled
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
///
/// It is called from `drop`, and so never panics.
pub(crate) fn finish(work: impl Future<Output = ()> + Send + 'static) {
    // Whoever drops us may have used up what the runtime lets a task do at once, and locks that are free would be waited for.
    let mut work: BoxFuture<'static, ()> = Box::pin(tokio::task::coop::unconstrained(work));
    let mut cx = Context::from_waker(Waker::noop());
    match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut cx))) {
        Ok(Poll::Ready(())) => {}
        Ok(Poll::Pending) => match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(Background(Some(work)))),
            // Without a runtime the thread that drops us may be anything; it must not be blocked.
            Err(_) => finish_on_a_thread(work),
        },
        Err(payload) => report(&panic_text(payload)),
    }
}

/// Work on a runtime, which may go away before the work is done.
struct Background(Option<BoxFuture<'static, ()>>);

impl Future for Background {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(mut work) = self.0.take() else { return Poll::Ready(()) };
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            self.0 = Some(work);
        }
        polled
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            finish_on_a_thread(work);
        }
    }
}

fn finish_on_a_thread(work: BoxFuture<'static, ()>) {
    let body = move || {
        if let Err(panic) = block_on(CatchPanic::new(work)) {
            report(&panic);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("wink-finish".into()).spawn(body) {
        tracing::error!(%error, "no thread to finish a call's end; it is finished when the session is next opened");
    }
}

fn report(panic: &str) {
    tracing::error!(panic, "finishing a call's end panicked; what it had not stored is not stored");
}

/// Does `work`, which waits for a disk, where nobody else has to wait for it. Dropping the future does not stop it.
///
/// A thread of its own, since a runtime that shuts down may give up what it has not begun. A panic goes on here.
pub(crate) async fn off_this_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = tokio::sync::oneshot::channel();
    let shared = Arc::new(Mutex::new(Some(work)));
    let (theirs, inside) = (Arc::clone(&shared), holding::all());
    let body = move || {
        holding::carry(inside);
        let work = lock(&theirs).take();
        // Whoever does not wait any more is told nothing.
        let _ = send.send(work.map(|work| catch_unwind(AssertUnwindSafe(work))));
    };
    let spawned = std::thread::Builder::new().name("wink-disk".into()).spawn(body);
    let done = match spawned {
        Ok(_) => receive.await.ok().flatten(),
        Err(_) => None,
    };
    let left = lock(&shared).take();
    match (done, left) {
        (Some(Ok(done)), _) => done,
        (Some(Err(panic)), _) => std::panic::resume_unwind(panic),
        // There was no thread to be had.
        (None, Some(work)) => work(),
        (None, None) => std::future::pending().await,
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
