//! The tasks of one session: no more of them than can be kept.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ErrorData, GetTaskResult, Task};
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
    promise: Duration,
    clock: Arc<dyn Clock>,
}

impl Tasks {
    pub(crate) fn new(options: &ServerOptions) -> Self {
        Self {
            manager: TaskManager::new(),
            begun: Mutex::default(),
            most: options.max_tasks,
            ttl: options.task_ttl,
            promise: options.task_promise,
            clock: Arc::clone(&options.clock),
        }
    }

    /// Whether there is room for one more. Whoever is told so has it.
    pub(crate) fn reserve(&self) -> bool {
        let now = self.clock.monotonic();
        let mut begun = self.kept(now);
        let room = begun.len() < self.most;
        if room {
            begun.push_back(now);
        }
        room
    }

    /// Whether there is one that somebody may ask about.
    pub(crate) fn any_kept(&self) -> bool {
        !self.kept(self.clock.monotonic()).is_empty()
    }

    fn kept(&self, now: Duration) -> MutexGuard<'_, VecDeque<Duration>> {
        // One that ends when its time is up is kept for as long again, for whoever has not asked yet.
        let kept = self.ttl.saturating_mul(2);
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        while begun.front().is_some_and(|begun| begun.saturating_add(kept) <= now) {
            begun.pop_front();
        }
        begun
    }

    pub(crate) fn spawn(&self, make: impl FnOnce(TaskContext) -> TaskFuture) -> Task {
        let ttl = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        self.promised(self.manager.spawn(TaskOptions::new().with_ttl_ms(ttl), make))
    }

    /// The task as it is now.
    pub(crate) fn look(&self, id: &str) -> Result<GetTaskResult, ErrorData> {
        let mut state = self.manager.get_task(id)?;
        state.task = self.promised(state.task);
        Ok(GetTaskResult::new(state))
    }

    /// With no more promised than a server can keep that may be ended: some time from now on.
    fn promised(&self, mut task: Task) -> Task {
        let age =
            task.created_at.parse::<jiff::Timestamp>().map(|begun| self.clock.now().duration_since(begun));
        let age = age.ok().and_then(|age| Duration::try_from(age).ok()).unwrap_or_default();
        let until = age.saturating_add(self.promise).min(self.ttl);
        task.ttl_ms = Some(u64::try_from(until.as_millis()).unwrap_or(u64::MAX));
        task
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
    fn what_is_promised_is_a_little_more_time_each_time() {
        let clock = FakeClock::new("2026-11-01T00:00:00Z".parse().unwrap());
        let options = ServerOptions { clock: Arc::new(clock.clone()), ..ServerOptions::default() };
        let tasks = Tasks::new(&options);
        let told = |age: i64| {
            let begun = clock.now() - jiff::SignedDuration::from_secs(age);
            let task = Task::new("t", rmcp::model::TaskStatus::Working, begun.to_string(), begun.to_string());
            tasks.promised(task).ttl_ms.unwrap() / 1000
        };
        assert_eq!([told(0), told(3600)], [60, 3660]);
        // Never more than it is kept.
        assert_eq!(told(24 * 60 * 60), 24 * 60 * 60);
        // A clock that was set back makes nobody wait for ever.
        assert_eq!(told(-1000), 60);
    }

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
