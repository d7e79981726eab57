//! The loop around an adapter: prepares prompt and session, opens resources, evaluates, records, finalises.

use std::sync::Arc;

use wink::limits::{Budget, BudgetTracker, CancelToken, Clock, Deadline, SystemClock};
use wink::prompt::Prompt;
use wink::resource::ResourceRegistry;
use wink::session::{Dispatcher, RunContext, Session, SessionBuilder};

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
    evaluation: Evaluation,
}

impl Request {
    /// Evaluates this prompt in a new session.
    pub fn new(prompt: &Prompt) -> Self {
        Self { prompt: prompt.clone(), session: None, evaluation: Evaluation::new() }
    }

    /// What is to be done, beside what the prompt says.
    pub fn task(self, task: impl Into<Arc<str>>) -> Self {
        self.evaluation(|evaluation| evaluation.task(task))
    }

    /// In a session that there is.
    pub fn session(mut self, session: &Session) -> Self {
        self.session = Some(session.clone());
        self
    }

    /// Which run and request it is. A run that the session knows is taken up again.
    pub fn run(self, run: RunContext) -> Self {
        self.evaluation(|evaluation| evaluation.run(run))
    }

    /// Resources of this request: over everything else. What is handed in is never closed.
    pub fn resources(self, resources: ResourceRegistry) -> Self {
        self.evaluation(|evaluation| evaluation.resources(resources))
    }

    /// When this request must be over, instead of when the loop says.
    pub fn deadline(self, deadline: Deadline) -> Self {
        self.evaluation(|evaluation| evaluation.deadline(deadline))
    }

    /// How many tokens this request may use, instead of what the loop says. All that are given count, and several requests may share one.
    pub fn budget(self, budget: Arc<BudgetTracker>) -> Self {
        self.evaluation(|evaluation| evaluation.budget(budget))
    }

    /// Who can stop it.
    pub fn cancel(self, cancel: CancelToken) -> Self {
        self.evaluation(|evaluation| evaluation.cancel(cancel))
    }

    /// Whatever else an evaluation can be given, such as who watches it or what records it:
    /// `request.evaluation(|evaluation| recorder.evaluation(evaluation))`. It wins over what the loop has.
    pub fn evaluation(mut self, given: impl FnOnce(Evaluation) -> Evaluation) -> Self {
        self.evaluation = given(self.evaluation);
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
    /// Any request can be recorded, and repeated from its recording in the same way:
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use std::sync::Arc;
    /// use wink::limits::SystemClock;
    /// use wink::prelude::*;
    /// use wink_models::recording::{Recorder, Scrubber};
    /// use wink_models::{MainLoop, MainLoopConfig, ModelAdapter, Request, ScriptedModel};
    ///
    /// # let section = Section::markdown("task", "Task").body("Say hello.");
    /// # let prompt = PromptTemplate::builder("examples", "hello").section(section).build()?.prompt();
    /// let model = Arc::new(ScriptedModel::parse(r#"{"text": "Hello."}"#)?);
    /// let recorder = Recorder::start(std::io::sink(), model, Arc::new(SystemClock), Scrubber::new());
    /// let adapter = ModelAdapter::new(recorder.model()).random(recorder.random());
    /// let main_loop = MainLoop::new(Arc::new(adapter), Arc::default(), MainLoopConfig::default());
    ///
    /// let session = main_loop.session(|builder| recorder.session(builder));
    /// let request = Request::new(&prompt).session(&session).evaluation(|it| recorder.evaluation(it));
    /// let (response, _) = main_loop.execute(request).await?;
    /// recorder.finish()?;
    /// # assert_eq!(&*response.text, "Hello.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// When it is stopped before the model is done.
    pub async fn execute(&self, request: Request) -> Result<(PromptResponse, Session), LoopError> {
        let Request { prompt, session, mut evaluation } = request;
        let session = session.unwrap_or_else(|| self.session(|builder| builder));
        let config = &self.config;
        evaluation.loop_resources = evaluation.loop_resources.or_else(|| config.resources.clone());
        evaluation.deadline = evaluation.deadline.or(config.deadline);
        evaluation.watch = evaluation.watch.or_else(|| config.watch.clone());
        if evaluation.budgets.is_empty() {
            evaluation.budgets.extend(config.budget.map(|budget| Arc::new(BudgetTracker::new(budget))));
        }
        let came = self.adapter.evaluate(&prompt, &session, evaluation).await;
        match came {
            Ok(response) => Ok((response, session)),
            Err(stopped) => Err(LoopError { stopped, session }),
        }
    }

    /// A session as the loop makes one for every request that brings none, with its clock, its dispatcher and what it prepares; and
    /// with what is done here before, for example by a [`Recorder`](crate::recording::Recorder::session).
    pub fn session(&self, with: impl FnOnce(SessionBuilder) -> SessionBuilder) -> Session {
        let clock = self.config.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
        let session = with(Session::builder().clock(clock).dispatcher(Arc::clone(&self.dispatcher))).build();
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
