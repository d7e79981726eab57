//! The loop around an adapter: prepares prompt and session, opens resources, evaluates, records, finalises.

use std::sync::Arc;

use wink::limits::{Budget, BudgetTracker, CancelToken, Clock, Deadline, SystemClock};
use wink::prompt::Prompt;
use wink::resource::ResourceRegistry;
use wink::session::{Dispatcher, RunContext, Session};

use crate::adapter::{Adapter, Evaluation, PromptResponse, Stopped};
use crate::driver::Watch;

/// What every request of a loop has, unless it brings its own.
#[derive(Clone, Default)]
pub struct MainLoopConfig {
    /// Resources: over the adapter's, under what was bound to the prompt and what a request brings.
    pub resources: Option<ResourceRegistry>,
    /// When everything must be over.
    pub deadline: Option<Deadline>,
    /// How many tokens each request may use.
    pub budget: Option<Budget>,
    /// The clock of the sessions that the loop makes; the machine's, if none is given.
    pub clock: Option<Arc<dyn Clock>>,
    /// Who sees requests go on.
    pub watch: Option<Arc<dyn Watch>>,
}

/// Executes requests, each from its prompt to its response. Cheap to clone.
#[derive(Clone)]
#[must_use = "a loop does nothing until it executes a request"]
pub struct MainLoop {
    adapter: Arc<dyn Adapter>,
    dispatcher: Arc<Dispatcher>,
    prepare: Option<Arc<dyn Fn(&Session) + Send + Sync>>,
    config: MainLoopConfig,
}

/// One request.
#[must_use = "a request does nothing until a loop executes it"]
pub struct Request {
    prompt: Prompt,
    session: Option<Session>,
    task: Option<Arc<str>>,
    run: RunContext,
    resources: Option<ResourceRegistry>,
    deadline: Option<Deadline>,
    budget: Option<Arc<BudgetTracker>>,
    cancel: CancelToken,
}

impl Request {
    /// Evaluates this prompt in a new session.
    pub fn new(prompt: &Prompt) -> Self {
        Self {
            prompt: prompt.clone(),
            session: None,
            task: None,
            run: RunContext::default(),
            resources: None,
            deadline: None,
            budget: None,
            cancel: CancelToken::new(),
        }
    }

    /// What is to be done, beside what the prompt says.
    pub fn task(mut self, task: impl Into<Arc<str>>) -> Self {
        self.task = Some(task.into());
        self
    }

    /// In a session that there is.
    pub fn session(mut self, session: &Session) -> Self {
        self.session = Some(session.clone());
        self
    }

    /// Which run and request it is. A run that the session knows is taken up again.
    pub fn run(mut self, run: RunContext) -> Self {
        self.run = run;
        self
    }

    /// Resources of this request: over everything else. What is handed in is never closed.
    pub fn resources(mut self, resources: ResourceRegistry) -> Self {
        self.resources = Some(resources);
        self
    }

    /// When this request must be over, instead of when the loop says.
    pub fn deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How many tokens this request may use, instead of what the loop says. Several may share a tracker.
    pub fn budget(mut self, budget: Arc<BudgetTracker>) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Who can stop it.
    pub fn cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = cancel;
        self
    }
}

/// A request that was stopped, and the session as far as it got.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{stopped}")]
pub struct LoopError {
    /// Why.
    #[source]
    pub stopped: Stopped,
    /// Where.
    pub session: Session,
}

impl MainLoop {
    /// A loop around this adapter. The dispatcher hears the events of every session that the loop makes.
    pub fn new(adapter: Arc<dyn Adapter>, dispatcher: Arc<Dispatcher>, config: MainLoopConfig) -> Self {
        Self { adapter, dispatcher, prepare: None, config }
    }

    /// What is done with every session that the loop makes, for example to register its reducers.
    pub fn prepare(mut self, prepare: impl Fn(&Session) + Send + Sync + 'static) -> Self {
        self.prepare = Some(Arc::new(prepare));
        self
    }

    /// Executes a request: the response, and the session that it was made in.
    ///
    /// # Errors
    /// When it is stopped before the model is done.
    pub async fn execute(&self, request: Request) -> Result<(PromptResponse, Session), LoopError> {
        let session = request.session.unwrap_or_else(|| self.new_session());
        let mut evaluation = Evaluation::new().run(request.run).cancel(request.cancel);
        evaluation.task = request.task;
        evaluation.loop_resources = self.config.resources.clone();
        evaluation.resources = request.resources;
        evaluation.deadline = request.deadline.or(self.config.deadline);
        evaluation.watch = self.config.watch.clone();
        let own = || self.config.budget.map(|budget| Arc::new(BudgetTracker::new(budget)));
        evaluation.budgets.extend(request.budget.or_else(own));
        let came = self.adapter.evaluate(&request.prompt, &session, evaluation).await;
        match came {
            Ok(response) => Ok((response, session)),
            Err(stopped) => Err(LoopError { stopped, session }),
        }
    }

    fn new_session(&self) -> Session {
        let clock = self.config.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
        let session = Session::builder().clock(clock).dispatcher(Arc::clone(&self.dispatcher)).build();
        if let Some(prepare) = &self.prepare {
            prepare(&session);
        }
        session
    }
}

impl std::fmt::Debug for MainLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MainLoop").field("adapter", &self.adapter.name()).finish_non_exhaustive()
    }
}
