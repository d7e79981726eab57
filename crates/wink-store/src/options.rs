//! What can be chosen when a store is opened.

use std::sync::Arc;
use std::time::Duration;

use wink::limits::{Clock, SystemClock};

/// How a store is opened.
#[derive(Clone)]
#[must_use]
pub struct StoreOptions {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) busy: Duration,
    pub(crate) most_pages: Option<u64>,
    pub(crate) check: bool,
    pub(crate) retention: StoreRetention,
}

/// How much of what nobody needs is kept. [`Workspace::prune`](crate::Workspace::prune) removes the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct StoreRetention {
    /// For how long it is remembered of a journal that it was committed. Calls that are older cannot be undone.
    pub journals: Duration,
    /// For how long recorded effects are kept beyond the time at which they stop counting.
    pub expired: Duration,
}

impl Default for StoreRetention {
    fn default() -> Self {
        Self { journals: Duration::from_hours(24 * 90), expired: Duration::ZERO }
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            busy: Duration::from_secs(30),
            most_pages: None,
            check: false,
            retention: StoreRetention::default(),
        }
    }
}

impl StoreOptions {
    /// The clock by which the store waits, and says when something was written.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How long another process may keep the database for one commit.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy = timeout;
        self
    }

    /// The database takes no more pages (of 4096 bytes) than this.
    pub fn most_pages(mut self, pages: u64) -> Self {
        self.most_pages = Some(pages);
        self
    }

    /// Has the database looked through when it is opened; a damaged one is not.
    pub fn check_at_open(mut self) -> Self {
        self.check = true;
        self
    }

    /// What is kept.
    pub fn retention(mut self, retention: StoreRetention) -> Self {
        self.retention = retention;
        self
    }
}

impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreOptions").field("retention", &self.retention).finish_non_exhaustive()
    }
}
