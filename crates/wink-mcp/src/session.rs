//! Where sessions come from, and what a server needs of one.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::Tool;
use serde_json::Value;
use wink::BoxFuture;
use wink::executor::Executor;
use wink::prompt::Prompt;
use wink::session::{SessionId, ToolInvoked};

use crate::approval::Questions;
use crate::listing::Listed;
use crate::options::ServerOptions;
use crate::tasks::Tasks;

/// Opens sessions by name. Asked once for each that is served: what is opened is kept.
pub trait Sessions: Send + Sync + 'static {
    /// Opens the session of this name.
    fn open<'a>(&'a self, name: &'a SessionId) -> BoxFuture<'a, Result<Arc<ServedSession>, OpenError>>;
}

/// A session could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is none of this name.
    #[error("there is no session {0}")]
    Unknown(SessionId),
    /// It is there, and cannot be used.
    #[error("session {name} cannot be opened: {cause}")]
    Failed {
        /// Which.
        name: SessionId,
        /// Why.
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// How an event of the log is shown: its number, from 1, and the event.
pub type LogForm = dyn Fn(u64, &ToolInvoked) -> Value + Send + Sync;

/// A session that is served: one prompt, one executor, however many clients there are.
pub struct ServedSession {
    pub(crate) prompt: Prompt,
    pub(crate) executor: Executor,
    pub(crate) tools: Vec<Listed>,
    by_name: HashMap<Arc<str>, usize>,
    pub(crate) questions: Questions,
    pub(crate) tasks: Tasks,
    pub(crate) calls: Arc<tokio::sync::Semaphore>,
    pub(crate) log_form: Box<LogForm>,
    pub(crate) options: ServerOptions,
}

impl ServedSession {
    /// A session with the executor that runs its calls, here and wherever else the same session is used in this process.
    pub fn new(prompt: Prompt, executor: Executor, options: ServerOptions) -> Self {
        let tools: Vec<Listed> = prompt.possible_tools().map(|placed| Listed::new(&placed.tool)).collect();
        let names = prompt.possible_tools().enumerate();
        let by_name = names.map(|(at, placed)| (Arc::clone(placed.name()), at)).collect();
        let name = executor.session().id().clone();
        Self {
            questions: Questions::new(name, &options),
            tasks: Tasks::new(&options),
            calls: Arc::new(tokio::sync::Semaphore::new(options.max_calls)),
            log_form: Box::new(|_, event| serde_json::to_value(event).unwrap_or_default()),
            prompt,
            executor,
            tools,
            by_name,
            options,
        }
    }

    /// How events are shown in the log's resource; as they are serialised, unless told.
    #[must_use]
    pub fn log_form(mut self, form: impl Fn(u64, &ToolInvoked) -> Value + Send + Sync + 'static) -> Self {
        self.log_form = Box::new(form);
        self
    }

    /// The session's name.
    pub fn name(&self) -> &SessionId {
        self.executor.session().id()
    }

    /// The executor.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// What its clients are held to.
    pub fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// The tools, as clients are told.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().map(|listed| &listed.tool)
    }

    /// Cancels every call, now and later, and waits until none is on its way. For when nobody is served any more, so that every
    /// call has its event before the process ends.
    pub async fn close(&self) {
        self.executor.cancel();
        self.questions.forget();
        self.tasks.shutdown();
        let all = u32::try_from(self.options.max_calls).unwrap_or(u32::MAX);
        // Never closed, so that this ends when every call has.
        let _ = self.calls.acquire_many(all).await;
    }

    pub(crate) fn listed(&self, name: &str) -> Option<&Listed> {
        self.tools.get(*self.by_name.get(name)?)
    }
}

impl std::fmt::Debug for ServedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedSession").field("name", self.name()).finish_non_exhaustive()
    }
}
