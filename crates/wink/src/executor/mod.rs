//! The executor: the only way a tool runs.
//!
//! `pipeline` has the way of a call on one page, `steps`, `govern` and `once` what happens in each step, `call` and
//! `end` how a call ends, `batch` several calls at once. This is the only room that sees tools, policies, ledger and
//! transactions together; nobody else runs a handler.

mod approve;
mod batch;
mod blocking;
mod build;
mod call;
mod dry_run;
mod end;
mod feedback;
mod govern;
mod logged;
mod once;
mod options;
mod outcome;
mod pipeline;
mod step;
mod steps;
mod stop;
mod withhold;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

pub use approve::{Approval, ApprovalRequest, Approver, approver_fn};
pub use build::{ExecutorBuilder, OpenError};
pub use dry_run::{DryRun, PolicyOpinion};
pub use options::CallOptions;
pub use outcome::{Answer, CatchUpError, Escalation, ExpansionError, Outcome, ToolCall};
pub use step::{Moment, Step, StepHook};
pub use withhold::Withhold;

use crate::feedback::Board;
use crate::limits::CancelToken;
use crate::prompt::{Prompt, PromptRenderError, RenderedPrompt, record_expansion};
use crate::resource::{ResourceContext, ResourceErrors};
use crate::session::Session;
use crate::tool::context::Surroundings;
use crate::tool::footprint::{Area, Footprint};
use crate::tool::render::bounded;
use crate::tool::schema::ParseLimits;
use crate::tool::{AnyTool, VisibilityExpansionRequired};
use blocking::Abandoned;
use call::Call;

/// What calls are held to.
#[derive(Debug, Clone)]
pub struct ExecutorLimits {
    /// How long a policy may think. Waiting for an approver does not count.
    pub policy_timeout: Duration,
    /// How long a probe of an effect in doubt may take.
    pub probe_timeout: Duration,
    /// How much of an answer the model sees.
    pub max_answer_bytes: usize,
    /// How much of each part of a call the log keeps: the answer, the message, the value, the arguments and what was
    /// wrong with them, the causes of an error.
    pub max_logged_bytes: usize,
    /// How many calls of a batch run at once.
    pub max_calls_at_once: usize,
    /// How many threads of stopped blocking handlers there may be before no further one is started.
    pub max_abandoned_threads: usize,
    /// How large and deep arguments may be.
    pub parse: ParseLimits,
}

impl Default for ExecutorLimits {
    fn default() -> Self {
        Self {
            policy_timeout: Duration::from_secs(5),
            probe_timeout: Duration::from_secs(30),
            max_answer_bytes: 64 * 1024,
            max_logged_bytes: 8 * 1024 * 1024,
            max_calls_at_once: 64,
            max_abandoned_threads: 64,
            parse: ParseLimits::default(),
        }
    }
}

/// Runs the calls of one prompt on one session. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    session: Session,
    resources: ResourceContext,
    owns_resources: bool,
    around: ArcSwap<Surroundings>,
    approver: Option<Arc<dyn Approver>>,
    feedback: Board,
    hook: Option<Arc<dyn StepHook>>,
    withhold: Option<Arc<dyn Withhold>>,
    limits: ExecutorLimits,
    abandoned: Arc<Abandoned>,
}

impl Shared {
    /// Whether a tool that cannot be called, as the prompt was rendered here, may be one that can be: another process may
    /// have opened its section.
    fn may_be_open(&self, around: &Surroundings, tool: &str) -> bool {
        let hidden = |rendered: &Arc<RenderedPrompt>| rendered.hidden(tool).is_some();
        self.session.is_shared() && around.rendered.as_ref().is_some_and(hidden)
    }

    /// The slices that a success's own value changes.
    fn published_footprint(&self, tool: &AnyTool) -> Footprint {
        let registry = self.session.registry();
        let kinds = tool.inner.published_kinds(&self.session);
        let targets = kinds.into_iter().flat_map(|kind| registry.targets(kind));
        targets.fold(Footprint::nothing(), |whole, target| {
            let name = registry.find_def(target).map_or("?", |(_, def)| def.name);
            whole.writing(Area::Slice(target, name))
        })
    }
}

impl Executor {
    /// An executor with nothing but defaults.
    pub async fn open(prompt: &Prompt, session: &Session) -> Result<Self, OpenError> {
        Self::builder(prompt, session).open().await
    }

    /// An executor with a deadline, an approver, resources and so on.
    pub fn builder(prompt: &Prompt, session: &Session) -> ExecutorBuilder {
        ExecutorBuilder::new(prompt, session)
    }

    /// Runs one call. It has exactly one answer and one event, whatever happens; dropping the future cancels it.
    ///
    /// Callers on one session take turns. A call from inside another call of the same session (its handler, a policy, a
    /// subscriber) would wait for itself, and is refused instead; calls of other sessions, a child's for example, are
    /// fine. A task that a handler *spawns* just waits for the turn: a handler that waits for such a task waits until
    /// its timeout.
    pub async fn call(&self, call: ToolCall) -> Outcome {
        Call::new(&self.shared, call, None).run().await
    }

    /// Like [`Executor::call`], for one call that somebody may cancel.
    pub async fn call_cancellable(&self, call: ToolCall, cancel: CancelToken) -> Outcome {
        Call::new(&self.shared, call, Some(cancel)).run().await
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.shared.session
    }

    /// The opened resources.
    pub fn resources(&self) -> &ResourceContext {
        &self.shared.resources
    }

    /// The prompt as the model sees it.
    pub fn rendered(&self) -> Option<Arc<RenderedPrompt>> {
        self.shared.around.load().rendered.clone()
    }

    /// Renders the prompt again, for a session that has changed. What is rendered is what can be called. The log says
    /// so if the model sees something else now.
    pub fn refresh(&self) -> Result<Arc<RenderedPrompt>, PromptRenderError> {
        let around = self.shared.around.load_full();
        let rendered = Arc::new(around.prompt.render(&self.shared.session)?);
        let next = Surroundings { rendered: Some(Arc::clone(&rendered)), ..around.as_ref().clone() };
        self.shared.around.store(Arc::new(next));
        self.shared.record_rendered(&around.prompt, &rendered);
        Ok(rendered)
    }

    /// Takes over what other processes did to the session ([`Session::refresh`]), and renders the prompt again. A call of a
    /// tool whose section is closed does so by itself, before it says so.
    ///
    /// # Errors
    /// See [`CatchUpError`].
    pub async fn catch_up(&self) -> Result<Arc<RenderedPrompt>, CatchUpError> {
        self.shared.session.refresh().await?;
        Ok(self.refresh()?)
    }

    /// Records an expansion right after the call that asked for it, and renders the prompt again. It is stored with the next
    /// call, or by [`Session::flush`]; [`Executor::drive`] does all of it.
    pub fn expand(
        &self,
        expansion: &VisibilityExpansionRequired,
    ) -> Result<Arc<RenderedPrompt>, PromptRenderError> {
        let recorded = record_expansion(&self.shared.session, expansion);
        if !recorded.is_ok() {
            tracing::error!(?recorded, "an expansion was recorded with failures");
        }
        self.refresh()
    }

    /// Cancels every call of this executor, now and later.
    pub fn cancel(&self) {
        self.shared.around.load().cancel.cancel();
    }

    /// How many threads of stopped blocking handlers still run.
    pub fn abandoned_threads(&self) -> usize {
        self.shared.abandoned.count()
    }

    /// Closes the resources that this executor opened; those that it was handed stay open.
    pub async fn close(self) -> Result<(), ResourceErrors> {
        match self.shared.owns_resources {
            true => self.shared.resources.close().await,
            false => Ok(()),
        }
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("session", self.shared.session.id()).finish_non_exhaustive()
    }
}

/// A tool name that a model made up, bounded.
fn shown_name(name: &str) -> std::borrow::Cow<'_, str> {
    bounded(name, 200)
}
