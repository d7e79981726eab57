//! Adapters: a prompt and a session in, a response out.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use wink::BoxFuture;
use wink::executor::{Approver, Executor, ExecutorBuilder, ExecutorLimits};
use wink::limits::{BudgetTracker, CancelToken, Deadline};
use wink::prompt::Prompt;
use wink::resource::{ResourceContext, ResourceRegistry};
use wink::session::{RunContext, Session};
use wink::tool::AdapterInfo;

use crate::base::{self, Base};
use crate::conversation::{RunStats, StopReason, Terms};
use crate::driver::{Driver, Watch};
use crate::model::{BoxModel, Settings};
use crate::random::Random;
use crate::recording::{Scrubber, Taped};
use crate::sub_agent::Spent;

/// Evaluates prompts, whatever it is that answers in the end.
pub trait Adapter: Send + Sync + 'static {
    /// Its name, for the log.
    fn name(&self) -> &str;

    /// Evaluates a prompt in a session, from the first request to the model's last word.
    ///
    /// An evaluation whose run the session knows already is taken up where it got.
    fn evaluate<'a>(
        &'a self,
        prompt: &'a Prompt,
        session: &'a Session,
        evaluation: Evaluation,
    ) -> BoxFuture<'a, Result<PromptResponse, Stopped>>;
}

/// What one evaluation is given: its task, its limits, what it works with, and who watches.
#[derive(Clone, Default)]
#[must_use = "an evaluation does nothing until an adapter has it"]
pub struct Evaluation {
    pub(crate) task: Option<Arc<str>>,
    pub(crate) run: RunContext,
    /// The run has just got its id, so no session knows it.
    pub(crate) is_new_run: bool,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) budgets: Vec<Arc<BudgetTracker>>,
    /// What its sub-runs cost.
    pub(crate) spent: Arc<Spent>,
    /// The same of the runs whose sub-run it is.
    pub(crate) spends_for: Vec<Arc<Spent>>,
    pub(crate) cancel: CancelToken,
    pub(crate) loop_resources: Option<ResourceRegistry>,
    pub(crate) resources: Option<ResourceRegistry>,
    pub(crate) opened: Option<ResourceContext>,
    pub(crate) watch: Option<Arc<dyn Watch>>,
    pub(crate) one_at_a_time: bool,
    pub(crate) until_asked: bool,
    /// Where it is written down how it goes on, or was.
    pub(crate) tape: Option<Taped>,
    pub(crate) max_turns: Option<u32>,
}

impl Evaluation {
    /// Nothing but what the prompt says, and no limits but the adapter's terms.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is to be done, beside what the prompt says.
    pub fn task(mut self, task: impl Into<Arc<str>>) -> Self {
        self.task = Some(task.into());
        self
    }

    /// Which run, request and worker this is. A run without an id gets one.
    pub fn run(mut self, run: RunContext) -> Self {
        self.run = run;
        self.is_new_run = false;
        self
    }

    /// When everything must be over.
    pub fn deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How many tokens there are. Several may be given: all are counted in, and all have to have some left.
    pub fn budget(mut self, budget: Arc<BudgetTracker>) -> Self {
        self.budgets.push(budget);
        self
    }

    /// Who can stop it.
    pub fn cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Resources of the loop: over the adapter's, under what was bound to the prompt.
    pub fn loop_resources(mut self, resources: ResourceRegistry) -> Self {
        self.loop_resources = Some(resources);
        self
    }

    /// Resources of this evaluation: over everything else.
    pub fn resources(mut self, resources: ResourceRegistry) -> Self {
        self.resources = Some(resources);
        self
    }

    /// Resources that the caller has opened, and closes.
    pub fn opened(mut self, resources: ResourceContext) -> Self {
        self.opened = Some(resources);
        self
    }

    /// Who sees it go on.
    pub fn watch(mut self, watch: Arc<dyn Watch>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// How many responses a run that is taken up again may have, instead of what it began with.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = Some(turns);
        self
    }

    /// Executes the calls of a response one after the other, also where they could overlap: for runs that are recorded, since
    /// calls that overlap read the clock in an order that nobody can repeat.
    pub fn one_at_a_time(mut self) -> Self {
        self.one_at_a_time = true;
        self
    }

    /// Stops before the model is asked, with [`StopReason::Asking`]: a run that was stopped makes the calls that its last response
    /// wants, and no more. For whoever wants to go on from there in another way, such as with a recording.
    pub fn until_asked(mut self) -> Self {
        self.until_asked = true;
        self
    }

    /// Work of the evaluation, which is cancelled by way of its tape if it has one.
    pub(crate) async fn held_to_tape<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.tape {
            Some(tape) => tape.held(&self.cancel, work).await,
            None => work.await,
        }
    }

    /// Gives the run a name, if it has none, and says which.
    pub(crate) fn named(&mut self, random: &Random) -> Arc<str> {
        let is_new = &mut self.is_new_run;
        let name = self.run.run_id.get_or_insert_with(|| {
            *is_new = true;
            random.name().to_string()
        });
        name.as_str().into()
    }
}

/// What came of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptResponse {
    /// The run.
    pub run_id: Arc<str>,
    /// The prompt, as `ns/key`.
    pub prompt: Arc<str>,
    /// The model's last word.
    pub text: Arc<str>,
    /// The typed result, if one was asked for.
    pub output: Option<Arc<Value>>,
    /// What is missing all the same, after all reminders.
    pub missing: Option<Arc<str>>,
    /// What it took.
    pub stats: RunStats,
}

impl PromptResponse {
    /// The typed result, in its type. None if there is none, or it is of another type.
    pub fn output<T: DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(self.output.as_deref()?).ok()
    }

    /// What it came to as JSON: the typed result, or the model's last word if none was asked for.
    pub fn value(&self) -> Value {
        match &self.output {
            Some(output) => Value::clone(output),
            None => Value::from(&*self.text),
        }
    }
}

/// An evaluation was stopped before the model was done.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct Stopped {
    /// The run; it can be taken up again if it was cancelled, ran out of time, or died.
    pub run_id: Arc<str>,
    /// Why.
    pub reason: StopReason,
    /// What it took so far.
    pub stats: RunStats,
}

/// An adapter of any [`Model`](crate::Model). Cheap to clone.
#[derive(Clone)]
#[must_use = "an adapter does nothing until it evaluates a prompt"]
pub struct ModelAdapter {
    model: BoxModel,
    settings: Arc<Settings>,
    base: Base,
}

impl ModelAdapter {
    /// An adapter with nothing but defaults.
    pub fn new(model: BoxModel) -> Self {
        let base = Base { scrubber: model.scrubber(), ..Base::default() };
        Self { model, settings: Arc::default(), base }
    }

    /// How the model is asked.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Arc::new(settings);
        self
    }

    /// Keeps more secrets out of calls, their results and the log than the key of whoever answers, which it knows.
    pub fn withhold(mut self, secrets: &Scrubber) -> Self {
        self.base.scrubber = self.base.scrubber.and(secrets);
        self
    }

    /// What conversations are held to.
    pub fn terms(mut self, terms: Terms) -> Self {
        self.base.terms = terms;
        self
    }

    /// Where chance comes from: names of runs, and how long to wait before a request is sent again.
    pub fn random(mut self, random: Random) -> Self {
        self.base.random = random;
        self
    }

    /// Who is asked when a policy wants somebody's word.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.base.approver = Some(approver);
        self
    }

    /// Resources of the adapter: over those of sections, under the loop's.
    pub fn resources(mut self, resources: ResourceRegistry) -> Self {
        self.base.resources = Some(resources);
        self
    }

    /// What calls are held to.
    pub fn limits(mut self, limits: ExecutorLimits) -> Self {
        self.base.limits = limits;
        self
    }

    /// Makes an executor of which the caller decides the rest ready for an evaluation: see [`ModelAdapter::converse`].
    pub fn prepare(
        &self,
        session: &Session,
        builder: ExecutorBuilder,
        evaluation: &mut Evaluation,
    ) -> ExecutorBuilder {
        self.base.prepare(AdapterInfo::new(self.model.name()), session, builder, evaluation)
    }

    /// Evaluates the prompt of an executor that was opened with [`ModelAdapter::prepare`] for the same evaluation, and leaves it
    /// open.
    ///
    /// # Errors
    /// When the run is stopped before the model is done.
    pub async fn converse(
        &self,
        prompt: &Prompt,
        executor: &Executor,
        mut evaluation: Evaluation,
    ) -> Result<PromptResponse, Stopped> {
        let run_id = evaluation.named(&self.base.random);
        let known = self.base.conversation(executor.session(), &mut evaluation).await;
        let (conversation, is_new, held) = match known {
            Ok(known) => known,
            Err(reason) => return Err(Stopped { run_id, reason, stats: RunStats::default() }),
        };
        let driver = Driver {
            ground: evaluation.ground(prompt, executor),
            model: &*self.model,
            settings: Arc::clone(&self.settings),
            random: &self.base.random,
        };
        let (ended, stats) = evaluation.held_to_tape(driver.run(conversation, is_new)).await;
        drop(held);
        PromptResponse::of(run_id, prompt, ended, stats)
    }
}

impl Adapter for ModelAdapter {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn evaluate<'a>(
        &'a self,
        prompt: &'a Prompt,
        session: &'a Session,
        mut evaluation: Evaluation,
    ) -> BoxFuture<'a, Result<PromptResponse, Stopped>> {
        Box::pin(async move {
            let run_id = evaluation.named(&self.base.random);
            let adapter = AdapterInfo::new(self.model.name());
            let executor = match self.base.open(adapter, prompt, session, &mut evaluation).await {
                Ok(executor) => executor,
                Err(reason) => return Err(Stopped { run_id, reason, stats: RunStats::default() }),
            };
            let came = self.converse(prompt, &executor, evaluation).await;
            base::close(executor).await;
            came
        })
    }
}

impl std::fmt::Debug for ModelAdapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelAdapter").field("model", &self.model.name()).finish_non_exhaustive()
    }
}
