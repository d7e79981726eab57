//! The tasks of one session: no more of them than can be kept, and none that is forgotten before its time.
//!
//! What runs is in memory. That a call became a task is in the session's log before the client is told, and so is its end: whoever
//! serves the session after that knows what came of it.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rmcp::model::{Task, TaskStatus};
use rmcp::task_manager::{TaskContext, TaskFuture, TaskManager, TaskOptions};
use serde::{Deserialize, Serialize};
use wink::limits::Clock;
use wink::session::{Ending, InvocationId, LogEntry, LogEvent, Session, SliceKind, SliceType, ToolInvoked};
use wink::store::{StoreError, StoreErrorKind};

use crate::options::ServerOptions;
use crate::session::stored_log;

/// As many times as many tasks as one server may have are looked through for one: others may have begun some, before or beside it.
const SERVERS: usize = 16;

/// A call became a task, of which its client was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskBegun {
    /// What the client knows it as.
    pub(crate) task: String,
    /// What the log knows the call as.
    pub(crate) call: InvocationId,
    /// When.
    pub(crate) time: Timestamp,
}

impl SliceType for TaskBegun {
    const NAME: &'static str = "wink.mcp_task";
    const KIND: SliceKind = SliceKind::Log;
}

/// What is known of a task that is not in memory.
pub(crate) enum Past {
    /// Its call came to this end.
    Ended(TaskBegun, Arc<ToolInvoked>),
    /// Its call has not ended: another server of the session has it.
    Elsewhere(TaskBegun),
}

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
        let mut begun = self.kept(now);
        let room = begun.len() < self.most;
        if room {
            begun.push_back(now);
        }
        room
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
        self.manager.spawn(TaskOptions::new().with_ttl_ms(self.ttl_ms()), make)
    }

    fn ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    /// What is known of a task that may still be asked about, now: others may serve the session too, and may have died.
    pub(crate) async fn past(&self, session: &Session, task: &str) -> Result<Option<Past>, StoreError> {
        let interrupted = session.refresh().await?;
        let Some(begun) = self.begun(session, task) else { return Ok(None) };
        // By its id: of clocks nobody knows how they were set when. The log is looked at first, which may have had the event of one
        // that seemed to be left.
        let ended = match event_of(session, begun.call).await? {
            Some(event) => Some(event),
            None => interrupted.into_iter().find(|event| event.id == begun.call).map(Arc::new),
        };
        Ok(Some(match ended {
            Some(event) => Past::Ended(begun, event),
            None => Past::Elsewhere(begun),
        }))
    }

    /// What the log has of a task, if it is not too old.
    fn begun(&self, session: &Session, task: &str) -> Option<TaskBegun> {
        // As long as in memory: it may end when its time is up, and is there for as long again.
        let kept = SignedDuration::try_from(self.ttl.saturating_mul(2)).unwrap_or(SignedDuration::MAX);
        let begun = session
            .slice::<TaskBegun>()
            .newest()
            .take(self.most.saturating_mul(SERVERS))
            .find(|begun| begun.task == task)?;
        let is_kept = self.clock.now().duration_since(begun.time) <= kept;
        is_kept.then(|| TaskBegun::clone(&begun))
    }

    /// The task as its client was told of it, at its end.
    pub(crate) fn told(&self, past: &Past) -> Task {
        let (begun, ended) = match past {
            // When one ended whose process died nobody knows; not before it began.
            Past::Ended(begun, event) => (begun, event.ended_at().max(begun.time)),
            Past::Elsewhere(begun) => (begun, begun.time),
        };
        Task::new(begun.task.clone(), TaskStatus::Completed, begun.time.to_string(), ended.to_string())
            .with_ttl_ms(self.ttl_ms())
    }
}

/// The event of a call, if the log has it.
async fn event_of(session: &Session, call: InvocationId) -> Result<Option<Arc<ToolInvoked>>, StoreError> {
    let found = async { stored_log(session)?.find(call).await };
    match found.await {
        Ok(Some(LogEntry { event: LogEvent::Call(event), .. })) => Ok(Some(event)),
        Ok(_) => Ok(None),
        // Then it is in memory.
        Err(error) if error.kind == StoreErrorKind::Unsupported => {
            Ok(session.slice::<ToolInvoked>().newest().find(|event| event.id == call))
        }
        Err(error) => Err(error),
    }
}

impl Past {
    /// Whether somebody cancelled it.
    pub(crate) fn was_cancelled(&self) -> bool {
        matches!(self, Self::Ended(_, event) if event.ending == Ending::Cancelled)
    }
}

impl Deref for Tasks {
    type Target = TaskManager;

    fn deref(&self) -> &TaskManager {
        &self.manager
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
mod tests {
    use wink::executor::{Executor, ToolCall};
    use wink::prompt::PromptTemplate;
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

    #[tokio::test]
    async fn the_end_of_a_task_is_found_however_clocks_were_set() {
        let clock = FakeClock::new("2026-11-01T00:00:00Z".parse().unwrap());
        let options = ServerOptions { clock: Arc::new(clock.clone()), ..ServerOptions::default() };
        let tasks = Tasks::new(&options);
        let session = Session::builder().clock(Arc::new(clock.clone())).build();
        let prompt = PromptTemplate::builder("tests", "none").build().unwrap().prompt();
        let executor = Executor::open(&prompt, &session).await.unwrap();
        let event = executor.call(ToolCall::new("1", "nobody", "{}")).await.event;
        // Others have ended since, and the clock was set back when the task had begun.
        let _ = executor.call(ToolCall::new("2", "nobody", "{}")).await;
        let time = clock.now() + Duration::from_secs(3600);
        let begun = TaskBegun { task: "t".to_owned(), call: event.id, time };
        assert!(session.dispatch(begun.clone()).is_ok());
        let older = Timestamp::UNIX_EPOCH;
        assert!(session.dispatch(TaskBegun { task: "old".to_owned(), time: older, ..begun }).is_ok());
        let Some(Past::Ended(found, ended)) = tasks.past(&session, "t").await.unwrap() else {
            panic!("its end is in the log");
        };
        assert_eq!((found.time, ended.id), (time, event.id));
        let told = tasks.told(&Past::Ended(found, ended));
        assert_eq!((told.created_at, told.last_updated_at), (time.to_string(), time.to_string()));
        // One that is too old to be asked about is not known.
        assert!(tasks.past(&session, "old").await.unwrap().is_none());
    }
}
