//! The only clock there is.

#![expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::BoxFuture;

/// Time as the runtime sees it. Tests inject one that moves only when told to.
pub trait Clock: Send + Sync + 'static {
    /// The wall-clock time, in UTC.
    fn now(&self) -> Timestamp;

    /// Time since a fixed origin; never goes back.
    fn monotonic(&self) -> Duration;

    /// Ends when [`Clock::monotonic`] has reached `until`.
    fn sleep_until(&self, until: Duration) -> BoxFuture<'static, ()>;
}

/// The machine's clock. Its timers need a Tokio runtime; reading it does not.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        ORIGIN.elapsed()
    }

    fn sleep_until(&self, until: Duration) -> BoxFuture<'static, ()> {
        let left = until.saturating_sub(self.monotonic());
        Box::pin(tokio::time::sleep(left))
    }
}
