//! When a failed request is sent again, and when no more.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StopReason;
use crate::model::{ModelError, ModelErrorKind};

/// How failed requests are repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// How often a request is sent at most.
    pub max_attempts: u32,
    /// How long the first wait is at most; every further one may be twice as long.
    pub base_delay: Duration,
    /// How long a wait is at most, unless the provider wants to be left alone for longer.
    pub max_delay: Duration,
    /// How long after the first failure the request is sent for the last time.
    pub window: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
            window: Duration::from_secs(300),
        }
    }
}

impl RetryPolicy {
    /// How long to wait after this many attempts. Half of it is certain and half is chance, so that many who failed together do
    /// not come back together; a provider's own wish is the least.
    fn delay(&self, attempts: u32, retry_after: Option<Duration>, chance: u64) -> Duration {
        let doubled = 2u32.saturating_pow(attempts.saturating_sub(1));
        let most = self.base_delay.saturating_mul(doubled).min(self.max_delay);
        let half = most / 2;
        let share = u32::try_from(chance >> 32).unwrap_or(u32::MAX);
        let jitter = half.mul_f64(f64::from(share) / f64::from(u32::MAX));
        match retry_after {
            None => half + jitter,
            // On top of it, since whoever was told the same would come back at the same moment.
            Some(least) => least.saturating_add(jitter),
        }
    }
}

/// A request failed, and is not sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum RetriesExhausted {
    /// It was sent as often as it may be.
    #[error(
        "the request failed {attempts} times, which is as often as it may be sent; the last time: {last}"
    )]
    Attempts {
        /// How often.
        attempts: u32,
        /// The last failure.
        last: ModelError,
    },
    /// Another try would come too late.
    #[error(
        "the request failed for {elapsed:?}, and the next try, in {wait:?}, would be after the {window:?} it may take; the last time: {last}"
    )]
    Window {
        /// How long ago it first failed.
        elapsed: Duration,
        /// How long the wait would have been.
        wait: Duration,
        /// How long there is.
        window: Duration,
        /// The last failure.
        last: ModelError,
    },
    /// Another try would come after the deadline.
    #[error(
        "the request failed, and the next try, in {wait:?}, would be after the deadline, in {left:?}: {last}"
    )]
    Deadline {
        /// How long the wait would have been.
        wait: Duration,
        /// How long there is until the deadline.
        left: Duration,
        /// The last failure.
        last: ModelError,
    },
}

impl RetriesExhausted {
    /// Never: that is what it says.
    pub fn retry_safe(&self) -> bool {
        false
    }
}

/// What is known of the tries of one request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Retries {
    attempts: u32,
    first: Option<Duration>,
}

impl Retries {
    /// How long to wait until the next try, or why there is none.
    pub(super) fn failed(
        &mut self,
        policy: &RetryPolicy,
        error: ModelError,
        at: Duration,
        left: Option<Duration>,
        chance: u64,
    ) -> Result<Duration, StopReason> {
        if error.kind == ModelErrorKind::Cancelled {
            return Err(StopReason::Cancelled);
        }
        if !error.retry_safe || !may_pass(error.kind) {
            return Err(StopReason::Request(error));
        }
        self.attempts = self.attempts.saturating_add(1);
        let attempts = self.attempts;
        if attempts >= policy.max_attempts {
            return Err(RetriesExhausted::Attempts { attempts, last: error }.into());
        }
        let elapsed = at.saturating_sub(*self.first.get_or_insert(at));
        let wait = policy.delay(attempts, error.retry_after, chance);
        if elapsed.saturating_add(wait) > policy.window {
            let window = policy.window;
            return Err(RetriesExhausted::Window { elapsed, wait, window, last: error }.into());
        }
        match left {
            Some(left) if wait >= left => Err(RetriesExhausted::Deadline { wait, left, last: error }.into()),
            Some(_) | None => Ok(wait),
        }
    }
}

/// Whether the next try may end otherwise.
fn may_pass(kind: ModelErrorKind) -> bool {
    match kind {
        ModelErrorKind::Throttled
        | ModelErrorKind::Unavailable
        | ModelErrorKind::Connection
        | ModelErrorKind::TimedOut
        | ModelErrorKind::Malformed => true,
        ModelErrorKind::Unauthorized
        | ModelErrorKind::Rejected
        | ModelErrorKind::TooLong
        | ModelErrorKind::Cancelled => false,
    }
}
