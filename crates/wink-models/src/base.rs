//! What every adapter has, whoever it is that answers: terms, chance, an approver, resources and limits.

use std::sync::Arc;

use wink::executor::{Approver, Executor, ExecutorBuilder, ExecutorLimits};
use wink::limits::BudgetTracker;
use wink::prompt::Prompt;
use wink::resource::ResourceRegistry;
use wink::session::Session;
use wink::store::StoreTurn;
use wink::tool::AdapterInfo;

use crate::adapter::{Evaluation, PromptResponse, Stopped};
use crate::conversation::{Completed, Conversation, ConversationStep, RunStats, Said, StopReason, Terms};
use crate::driver::Ground;
use crate::random::Random;
use crate::recording::Scrubber;
use crate::sub_agent::Parent;
use crate::watched::Watched;

#[derive(Clone, Default)]
pub(crate) struct Base {
    pub(crate) terms: Terms,
    pub(crate) random: Random,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) resources: Option<ResourceRegistry>,
    pub(crate) limits: ExecutorLimits,
    /// Knows what nobody is to know but whoever answers.
    pub(crate) scrubber: Scrubber,
}

impl Base {
    /// Makes an executor of which the caller decides the rest ready for an evaluation.
    pub(crate) fn prepare(
        &self,
        adapter: AdapterInfo,
        session: &Session,
        builder: ExecutorBuilder,
        evaluation: &mut Evaluation,
    ) -> ExecutorBuilder {
        let name = evaluation.named(&self.random);
        // A run that goes on has what it had, unless it is given something else.
        if evaluation.budgets.is_empty() && !evaluation.is_new_run {
            let budget = ConversationStep::budget_of(session, &name);
            evaluation.budgets.extend(budget.map(|budget| Arc::new(BudgetTracker::new(budget))));
        }
        // Its own, also if the evaluation was cloned from one that ran.
        evaluation.spent = Arc::default();
        let hook = evaluation.tape.as_mut().map(|tape| {
            tape.take_over(&mut evaluation.cancel);
            tape.hook()
        });
        let parent = Parent { session: session.clone(), run: name, evaluation: evaluation.clone() };
        let adapter = adapter.utility(Arc::new(parent));
        let mut builder =
            builder.adapter(adapter).run(evaluation.run.clone()).cancel(evaluation.cancel.clone());
        if let Some(deadline) = evaluation.deadline {
            builder = builder.deadline(deadline);
        }
        if let Some(budget) = evaluation.budgets.last() {
            builder = builder.budget(Arc::clone(budget));
        }
        if let Some(hook) = hook {
            builder = builder.hook(hook);
        }
        if let Some(approver) = &self.approver {
            builder = builder.approver(Arc::clone(approver));
        }
        if !self.scrubber.is_empty() {
            builder = builder.withhold(Arc::new(self.scrubber.clone()));
        }
        builder
    }

    /// Opens an executor for an evaluation.
    pub(crate) async fn open(
        &self,
        adapter: AdapterInfo,
        prompt: &Prompt,
        session: &Session,
        evaluation: &mut Evaluation,
    ) -> Result<Executor, StopReason> {
        let mut limits = self.limits.clone();
        if evaluation.one_at_a_time {
            limits.max_calls_at_once = 1;
        }
        let mut builder = Executor::builder(prompt, session).limits(limits);
        if let Some(resources) = &self.resources {
            builder = builder.adapter_resources(resources.clone());
        }
        if let Some(resources) = &evaluation.loop_resources {
            builder = builder.loop_resources(resources.clone());
        }
        if let Some(resources) = &evaluation.resources {
            builder = builder.resources(resources.clone());
        }
        if let Some(opened) = &evaluation.opened {
            builder = builder.opened(opened.clone());
        }
        let opening = self.prepare(adapter, session, builder, evaluation).open().await;
        opening.map_err(|error| StopReason::Runtime(error.to_string()))
    }

    /// The conversation of a run, what it begins with if the session does not know it, and the right to go on with it, which nobody
    /// else has.
    pub(crate) async fn conversation(
        &self,
        session: &Session,
        evaluation: &mut Evaluation,
    ) -> Result<(Conversation, Option<Said>, StoreTurn), StopReason> {
        let run_id = evaluation.named(&self.random);
        let held = session.hold(&run_id).await.map_err(|error| StopReason::Runtime(error.to_string()))?;
        let Some(held) = held else { return Err(StopReason::Elsewhere { run: run_id }) };
        let known = match evaluation.is_new_run {
            true => None,
            false => Conversation::read_back(session, &run_id)
                .map_err(|error| StopReason::Runtime(error.to_string()))?,
        };
        let taken_up = |mut conversation: Conversation| {
            conversation.allow_turns(evaluation.max_turns);
            (conversation, None)
        };
        let (conversation, began) = known.map(taken_up).unwrap_or_else(|| {
            let budget = evaluation.budgets.last().map(|tracker| tracker.budget());
            let task = evaluation.task.as_ref().map(|task| Arc::from(self.scrubber.text(task)));
            let terms = self.terms.clone();
            let began = Said::Began { task: task.clone(), terms: terms.clone(), budget };
            (Conversation::begin(run_id, task, terms), Some(began))
        });
        Ok((conversation, began, held))
    }
}

impl Evaluation {
    pub(crate) fn ground<'a>(&'a self, prompt: &'a Prompt, executor: &'a Executor) -> Ground<'a> {
        Ground {
            executor,
            prompt,
            run: Arc::new(self.run.clone()),
            deadline: self.deadline,
            budgets: &self.budgets,
            spent: &self.spent,
            spends_for: &self.spends_for,
            cancel: &self.cancel,
            until_asked: self.until_asked,
            tape: self.tape.as_ref(),
            watch: Watched::new(self.watch.as_deref().unwrap_or(&())),
        }
    }
}

impl PromptResponse {
    /// What came of a run.
    pub(crate) fn of(
        run_id: Arc<str>,
        prompt: &Prompt,
        ended: Result<Completed, StopReason>,
        stats: RunStats,
    ) -> Result<Self, Stopped> {
        match ended {
            Ok(Completed { text, output, missing }) => {
                Ok(Self { run_id, prompt: Arc::clone(prompt.name()), text, output, missing, stats })
            }
            Err(reason) => Err(Stopped { run_id, reason, stats }),
        }
    }
}

/// Closes what an evaluation opened.
pub(crate) async fn close(executor: Executor) {
    if let Err(errors) = executor.close().await {
        tracing::warn!(?errors, "resources of an evaluation could not be closed");
    }
}
