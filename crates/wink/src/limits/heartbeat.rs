//! Heartbeats: how a watchdog learns that work goes on.

use std::fmt;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;

use super::clock::Clock;
use crate::support::future::catch;
use crate::support::lock::lock;

/// Called at every beat, with its time.
type Listener = dyn Fn(Timestamp) + Send + Sync;

/// Records that work goes on, and tells whoever listens. Clones share their record.
#[derive(Clone)]
pub struct Heartbeat {
    clock: Arc<dyn Clock>,
    listeners: Vec<Arc<Listener>>,
    record: Arc<Mutex<Record>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Record {
    last: Option<Timestamp>,
    beats: u64,
}

impl Heartbeat {
    /// A heartbeat that nobody has beaten yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, listeners: Vec::new(), record: Arc::default() }
    }

    /// Calls `listener` at every beat of this heartbeat. A listener that panics is reported in diagnostics and
    /// disturbs nothing else.
    #[must_use]
    pub fn listener(mut self, listener: impl Fn(Timestamp) + Send + Sync + 'static) -> Self {
        self.listeners.push(Arc::new(listener));
        self
    }

    /// Records that work goes on.
    pub fn beat(&self) {
        let now = self.clock.now();
        {
            let mut record = lock(&self.record);
            record.last = Some(now);
            record.beats += 1;
        }
        for listener in &self.listeners {
            if let Err(panic) = catch(|| listener(now)) {
                tracing::warn!(panic, "a heartbeat listener panicked");
            }
        }
    }

    /// When it was last beaten.
    #[must_use]
    pub fn last_beat(&self) -> Option<Timestamp> {
        lock(&self.record).last
    }

    /// How often it was beaten.
    #[must_use]
    pub fn beats(&self) -> u64 {
        lock(&self.record).beats
    }
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { last, beats } = *lock(&self.record);
        f.debug_struct("Heartbeat").field("last", &last).field("beats", &beats).finish_non_exhaustive()
    }
}
