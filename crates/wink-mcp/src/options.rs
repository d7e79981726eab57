//! What a server holds its clients to.

use std::sync::Arc;
use std::time::Duration;

use wink::limits::{Clock, SystemClock};
use wink::tool::schema::ParseLimits;

/// What a message may have beside the longest arguments that an executor takes.
const BESIDE_ARGUMENTS: usize = 256 * 1024;

/// Bounds of a server, whatever it speaks over. All of them can be changed; none can be left out.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// How many bytes one message may have: a little more than the arguments of a call may, unless told.
    pub max_message_bytes: usize,
    /// How much memory all messages of more than 64 KiB may take together while they are on their way, as it is reckoned
    /// before they are decoded: four times their bytes, and 80 bytes for each value in them. Those for which there is no room
    /// are refused; one that takes more than that by itself goes alone.
    pub max_message_memory: usize,
    /// How many calls of one session may be on their way at a time, those that wait for an answer included.
    pub max_calls: usize,
    /// How many questions of one session may wait for their answer.
    pub max_questions: usize,
    /// How long a question may wait for its answer. The call is denied then.
    pub answer_within: Duration,
    /// How long a call is waited for before it becomes a task, for a client that knows what that is.
    pub task_after: Duration,
    /// How long a task can be asked about, and how long it may take. The log has what came of one: a server that was ended, or
    /// killed, and started again knows it.
    pub task_ttl: Duration,
    /// How many tasks of one session there may be at a time. Further calls are waited for, however long they take.
    pub max_tasks: usize,
    /// How many requests of one connection may wait for their answer before no more are read.
    pub max_unanswered: usize,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            max_message_bytes: ParseLimits::MAX_BYTES + BESIDE_ARGUMENTS,
            max_message_memory: 384 * 1024 * 1024,
            max_calls: 256,
            max_questions: 64,
            answer_within: Duration::from_secs(10 * 60),
            task_after: Duration::from_secs(10),
            task_ttl: Duration::from_secs(24 * 60 * 60),
            max_tasks: 256,
            max_unanswered: 1024,
            clock: Arc::new(SystemClock),
        }
    }
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions")
            .field("max_message_bytes", &self.max_message_bytes)
            .field("max_message_memory", &self.max_message_memory)
            .field("max_calls", &self.max_calls)
            .field("max_questions", &self.max_questions)
            .field("answer_within", &self.answer_within)
            .field("task_after", &self.task_after)
            .field("task_ttl", &self.task_ttl)
            .field("max_tasks", &self.max_tasks)
            .field("max_unanswered", &self.max_unanswered)
            .finish_non_exhaustive()
    }
}
