//! Agents as tools of other agents: a run inside a call, with a share of the budget.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use wink::data;
use wink::limits::{Budget, BudgetLimits, BudgetTracker, CancelToken, TokenUsage};
use wink::prompt::Prompt;
use wink::session::{RunContext, Session};
use wink::tool::{Handler, IntoToolResult, Tool, ToolContext, ToolError, ToolResult};

use crate::adapter::{Adapter, Evaluation};
use crate::conversation::StopReason;
use crate::lock;
use crate::recording::Taped;

/// What an evaluation lends the runs that its calls start.
pub(crate) struct Parent {
    pub(crate) session: Session,
    pub(crate) run: Arc<str>,
    pub(crate) evaluation: Evaluation,
}

/// What the sub-runs of a run cost that nobody has added to what the run did.
#[derive(Debug, Default)]
pub(crate) struct Spent(Mutex<TokenUsage>);

impl Spent {
    pub(crate) fn add(&self, usage: TokenUsage) {
        let mut spent = lock(&self.0);
        *spent = spent.plus(usage);
    }

    pub(crate) fn take(&self) -> TokenUsage {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// How much of the budget a sub-agent may use in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// All that is left.
    Whole,
    /// So many percent of the whole budget; all that is left, if there is no budget of total tokens.
    Percent(u8),
    /// So many tokens.
    Tokens(u32),
}

/// An agent that can be called as a tool. It has a session of its own, a child of the caller's; its workspace and resources are
/// its prompt's: what it commits there is not undone with the call, so it does not share the caller's.
#[derive(Clone)]
#[must_use = "a sub-agent does nothing until it is made a tool"]
pub struct SubAgent {
    adapter: Arc<dyn Adapter>,
    prompt: Prompt,
    share: Share,
}

/// What a sub-agent is asked.
#[data]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubTask {
    /// What it is to do, with everything that it needs to know.
    pub task: String,
}

impl SubAgent {
    /// An agent with this prompt.
    pub fn new(adapter: Arc<dyn Adapter>, prompt: Prompt) -> Self {
        Self { adapter, prompt, share: Share::Whole }
    }

    /// How much of the caller's budget one call may use.
    pub fn share(mut self, share: Share) -> Self {
        self.share = share;
        self
    }

    /// The tool. Its value is the agent's typed result, or its last word if its prompt asks for none. A call of an agent that is not
    /// done after all reminders has failed, and says what is missing.
    pub fn tool(self, name: impl Into<String>, description: impl Into<String>) -> Tool<SubTask, Value> {
        Tool::new::<ToolContext, _>(name, description, self)
    }

    /// What the sub-run may use: its share, and in any case no more than its caller has.
    fn budgets(&self, cx: &ToolContext) -> Result<Vec<Arc<BudgetTracker>>, ToolError> {
        let parent = cx.adapter().get::<Parent>();
        let mut budgets = match (&parent, cx.budget()) {
            (Some(parent), _) => parent.evaluation.budgets.clone(),
            (None, Some(budget)) => vec![Arc::new(budget.clone())],
            (None, None) => Vec::new(),
        };
        let whole = cx.budget().and_then(|tracker| BudgetLimits::from(tracker.budget()).max_total_tokens);
        let tokens = match (self.share, whole) {
            (Share::Whole, _) | (Share::Percent(_), None) => None,
            (Share::Percent(percent), Some(whole)) => Some(whole.saturating_mul(i64::from(percent)) / 100),
            (Share::Tokens(tokens), _) => Some(i64::from(tokens)),
        };
        if let Some(tokens) = tokens {
            budgets.push(Arc::new(BudgetTracker::new(Budget::total(tokens.max(1))?)));
        }
        Ok(budgets)
    }

    fn session(&self, cx: &ToolContext, parent: Option<&Parent>) -> Session {
        let id = format!("{}/{}", cx.session().id(), cx.invocation().id);
        let builder = Session::builder().clock(Arc::clone(cx.clock())).id(id);
        match parent {
            Some(parent) => {
                let child = builder.ids(parent.session.ids().clone()).build();
                if let Err(error) = parent.session.adopt(&child) {
                    tracing::warn!(%error, "a sub-agent's session is nobody's child");
                }
                child
            }
            None => builder.build(),
        }
    }

    async fn run(&self, params: SubTask, cx: &ToolContext) -> Result<ToolResult<Value>, ToolError> {
        let parent = cx.adapter().get::<Parent>();
        let session = self.session(cx, parent.as_deref());
        let caller = parent.as_ref().map_or_else(|| cx.session().id().to_string(), |it| it.run.to_string());
        let run_id = format!("{caller}/{}", cx.invocation().id);
        let watch = parent.as_ref().and_then(|parent| parent.evaluation.watch.as_ref()?.sub_run(&run_id));
        let cancel = CancelToken::new();
        let mut evaluation = Evaluation::new()
            .task(params.task)
            .run(RunContext { run_id: Some(run_id), ..cx.run().clone() })
            .cancel(cancel.clone());
        evaluation.budgets = self.budgets(cx)?;
        evaluation.deadline = cx.deadline();
        evaluation.watch = watch;
        if let Some(parent) = &parent {
            evaluation.spends_for.clone_from(&parent.evaluation.spends_for);
            evaluation.spends_for.push(Arc::clone(&parent.evaluation.spent));
            evaluation.one_at_a_time = parent.evaluation.one_at_a_time;
            evaluation.tape = parent.evaluation.tape.as_ref().map(Taped::of_sub_run);
        }
        let cancellation = cx.cancellation();
        let evaluating = self.adapter.evaluate(&self.prompt, &session, evaluation);
        let stopping = async {
            cancellation.cancelled().await;
            cancel.cancel();
            std::future::pending().await
        };
        let came = tokio::select! {
            biased;
            came = evaluating => came,
            never = stopping => never,
        };
        match came {
            Ok(response) => Ok(match &response.missing {
                None => ToolResult::value(response.value()),
                Some(missing) => {
                    ToolResult::failed(response.value(), format!("the sub-agent is not done: {missing}"))
                }
            }),
            // Whoever is out of time or of budget is told by its own limits; the rest is for the model to act on.
            Err(stopped) => {
                let what = match stopped.reason {
                    StopReason::Budget(_) => "its share of the budget is used up",
                    StopReason::TurnCap { .. } => "it was not done after all its turns",
                    StopReason::Refused { .. } => "its model refused",
                    _ => "it was stopped",
                };
                let told = format!("the sub-agent came to no result: {what}");
                Err(ToolError::from(stopped).tell(told))
            }
        }
    }
}

impl Handler<ToolContext, SubTask, Value> for SubAgent {
    fn call<'a>(
        &'a self,
        params: SubTask,
        cx: &'a mut ToolContext,
    ) -> impl Future<Output: IntoToolResult<Value = Value>> + Send + 'a {
        self.run(params, cx)
    }
}

impl std::fmt::Debug for SubAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubAgent")
            .field("prompt", &self.prompt)
            .field("share", &self.share)
            .finish_non_exhaustive()
    }
}
