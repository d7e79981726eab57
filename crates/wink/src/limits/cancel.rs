//! Cancellation: somebody no longer wants the answer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use std::task::Poll;

use tokio::sync::Notify;

/// Tells whoever holds a clone that they should stop. Once cancelled, always cancelled.
#[derive(Debug, Clone, Default)]
pub struct CancelToken {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    cancelled: AtomicBool,
    told: Notify,
}

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels. Again is a no-op.
    pub fn cancel(&self) {
        self.inner.cancelled.store(true, Ordering::Release);
        self.inner.told.notify_waiters();
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancelled.load(Ordering::Acquire)
    }

    /// Ends when it is cancelled.
    pub async fn cancelled(&self) {
        let mut told = std::pin::pin!(self.inner.told.notified());
        // Listening before looking, so that a cancellation in between is not missed.
        told.as_mut().enable();
        if !self.is_cancelled() {
            told.await;
        }
    }
}

/// Whether somebody no longer wants the answer, for those who may only listen. It can be taken along to other tasks.
#[derive(Debug, Clone, Default)]
pub struct Cancellation {
    tokens: [Option<CancelToken>; 2],
}

impl Cancellation {
    /// Cancelled when one of these is.
    pub(crate) fn of(tokens: [Option<&CancelToken>; 2]) -> Self {
        Self { tokens: tokens.map(|token| token.cloned()) }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.tokens.iter().flatten().any(CancelToken::is_cancelled)
    }

    /// Ends when it is cancelled.
    pub async fn cancelled(&self) {
        let wait = async |token: &Option<CancelToken>| match token {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        };
        let [one, other] = &self.tokens;
        let (mut one, mut other) = (pin!(wait(one)), pin!(wait(other)));
        poll_fn(|cx| match one.as_mut().poll(cx).is_ready() || other.as_mut().poll(cx).is_ready() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}
