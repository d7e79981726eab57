//! Where sessions come from, and what a server needs of one.

use std::sync::Arc;

use rmcp::model::{ErrorData, Tool};
use serde_json::Value;
use wink::BoxFuture;
use wink::executor::Executor;
use wink::prompt::Prompt;
use wink::session::{LogEntry, LogEvent, Logbook, Session, SessionId};
use wink::store::{Durability, StoreError};

use crate::approval::Questions;
use crate::http::Stay;
use crate::listing::{Listed, Listing};
use crate::options::ServerOptions;
use crate::tasks::{Past, Tasks};

/// Opens sessions by name. What is opened is kept as long as somebody uses it, and may be asked for again after that.
pub trait Sessions: Send + Sync + 'static {
    /// Opens the session of this name.
    fn open<'a>(&'a self, name: &'a SessionId) -> BoxFuture<'a, Result<Arc<ServedSession>, OpenError>>;

    /// Nobody has used this session for a while ([`HttpOptions::session_idle`](crate::HttpOptions::session_idle)), and the server
    /// keeps it no longer. One whose state is nowhere else, such as in a store, has to be kept here, and opened as it is.
    fn let_go(&self, session: Arc<ServedSession>) -> BoxFuture<'_, ()> {
        drop(session);
        Box::pin(std::future::ready(()))
    }
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

impl OpenError {
    /// All of it, with what is behind the cause, for whoever runs the server.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let Self::Failed { cause, .. } = self else { return text };
        let mut next = cause.source();
        while let Some(error) = next {
            let said = error.to_string();
            // Many say what is behind them themselves.
            if !text.contains(&said) {
                text.push_str(": ");
                text.push_str(&said);
            }
            next = error.source();
        }
        text
    }
}

/// How an entry of the log is shown.
pub type LogForm = dyn Fn(&LogEntry) -> Value + Send + Sync;

/// A session that is served: one prompt, one executor, however many clients there are.
pub struct ServedSession {
    pub(crate) prompt: Prompt,
    pub(crate) executor: Executor,
    listing: Listing,
    pub(crate) questions: Questions,
    pub(crate) tasks: Tasks,
    pub(crate) calls: Arc<tokio::sync::Semaphore>,
    pub(crate) log_form: Box<LogForm>,
    pub(crate) options: ServerOptions,
}

impl ServedSession {
    /// A session with the executor that runs its calls, here and wherever else the same session is used in this process.
    pub fn new(prompt: Prompt, executor: Executor, options: ServerOptions) -> Self {
        let listing = Listing::of(&prompt);
        Self::listed_as(listing, prompt, executor, options)
    }

    /// The same with a listing that is shared: that of the prompt, or of one with the same tools.
    pub fn listed_as(listing: Listing, prompt: Prompt, executor: Executor, options: ServerOptions) -> Self {
        let name = executor.session().id().clone();
        Self {
            questions: Questions::new(name, &options),
            tasks: Tasks::new(&options),
            calls: Arc::new(tokio::sync::Semaphore::new(options.max_calls)),
            log_form: Box::new(plain_form),
            prompt,
            executor,
            listing,
            options,
        }
    }

    /// How entries are shown in the log's resource; as they are serialised, with their number, unless told.
    #[must_use]
    pub fn log_form(mut self, form: impl Fn(&LogEntry) -> Value + Send + Sync + 'static) -> Self {
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
        self.listing.tools()
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

    /// Whether somebody waits for something of it, now or soon.
    pub(crate) fn stay(&self) -> Stay {
        // Calls that wait for an answer are on their way, too.
        let is_busy = self.calls.available_permits() < self.options.max_calls;
        match is_busy || self.tasks.running_task_count() > 0 {
            true => Stay::Needed,
            false => Stay::Free,
        }
    }

    /// What is known of a task that is not in memory.
    pub(crate) async fn past_task(&self, task: &str) -> Result<Option<Past>, ErrorData> {
        let past = self.tasks.past(self.executor.session(), task).await;
        past.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    pub(crate) fn listed(&self, name: &str) -> Option<&Listed> {
        self.listing.get(name)
    }
}

/// The log as the store has it. Of a session in memory nothing is stored, and not every store keeps a history: that is
/// [unsupported](wink::store::StoreErrorKind::Unsupported).
pub(crate) fn stored_log(session: &Session) -> Result<Logbook, StoreError> {
    match session.store().durability() {
        Durability::Restart => Ok(Logbook::of(Arc::clone(session.store()), session.id().clone())),
        Durability::Process => Err(StoreError::unsupported("read the log")),
    }
}

fn plain_form(entry: &LogEntry) -> Value {
    let mut shown = match &entry.event {
        LogEvent::Call(event) => serde_json::to_value(event),
        LogEvent::Undone(undone) => serde_json::to_value(undone),
    }
    .unwrap_or_default();
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("seq".to_owned(), entry.seq.into());
    }
    shown
}

impl std::fmt::Debug for ServedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedSession").field("name", self.name()).finish_non_exhaustive()
    }
}
