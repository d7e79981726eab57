//! The tasks of one session: no more of them than can be kept.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::Task;
use rmcp::task_manager::{TaskContext, TaskFuture, TaskManager, TaskOptions};
use wink::limits::Clock;

use crate::options::ServerOptions;

/// Keeps tasks until they are too old to be asked about.
pub(crate) struct Tasks {
    manager: TaskManager,
    /// When those that may still be kept were begun, oldest first.
    begun: Mutex<VecDeque<Duration>>,
    most: usize,
    ttl: Duration,
    clock: Arc<dyn Clock>,
}

impl Tasks {
    pub(crate) fn new(options: &ServerOptions) -> Self {
        Self {
            manager: TaskManager::new(),
            begun: Mutex::default(),
            most: options.max_tasks,
            ttl: options.task_ttl,
            clock: Arc::clone(&options.clock),
        }
    }

    /// Whether there is room for one more. Whoever is told so has it.
    pub(crate) fn reserve(&self) -> bool {
        let now = self.clock.monotonic();
        // One that ends when its time is up is kept for as long again, for whoever has not asked yet.
        let kept = self.ttl.saturating_mul(2);
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        while begun.front().is_some_and(|begun| begun.saturating_add(kept) <= now) {
            begun.pop_front();
        }
        let room = begun.len() < self.most;
        if room {
            begun.push_back(now);
        }
        room
    }

    pub(crate) fn spawn(&self, make: impl FnOnce(TaskContext) -> TaskFuture) -> Task {
        let ttl = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        self.manager.spawn(TaskOptions::new().with_ttl_ms(ttl), make)
    }
}

impl Deref for Tasks {
    type Target = TaskManager;

    fn deref(&self) -> &TaskManager {
        &self.manager
    }
}

#[cfg(test)]
mod tests {
    use wink::testing::FakeClock;

    use super::*;

    #[test]
    fn tasks_are_bounded_and_time_makes_room() {
        let clock = FakeClock::new(jiff::Timestamp::UNIX_EPOCH);
        let options = ServerOptions {
            clock: Arc::new(clock.clone()),
            max_tasks: 2,
            task_ttl: Duration::from_secs(10),
            ..ServerOptions::default()
        };
        let tasks = Tasks::new(&options);
        assert_eq!([tasks.reserve(), tasks.reserve(), tasks.reserve()], [true, true, false]);
        clock.advance(Duration::from_secs(20));
        assert_eq!([tasks.reserve(), tasks.reserve(), tasks.reserve()], [true, true, false]);
    }
}
