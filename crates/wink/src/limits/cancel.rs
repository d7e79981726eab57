//! Cancellation: somebody no longer wants the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
