//! Opening an executor.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::Value;

use super::approve::Approver;
use super::step::StepHook;
use super::{Executor, ExecutorLimits, Shared, Withhold};
use crate::feedback::{Board, FeedbackProvider, Trigger};
use crate::limits::{BudgetTracker, CancelToken, Deadline, Heartbeat};
use crate::prompt::{Prompt, PromptRenderError};
use crate::resource::{ResourceContext, ResourceError, ResourceRegistry};
use crate::session::{RunContext, Session, SessionError};
use crate::tool::context::{AdapterInfo, Progress, Surroundings, is_snake_case};

/// An executor could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The prompt could not be rendered.
    #[error(transparent)]
    Render(#[from] PromptRenderError),
    /// A resource could not be opened.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// A slice of the prompt's tools could not be installed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// An extra's key is not snake_case ASCII.
    #[error("extra {0:?} must have a snake_case ASCII key")]
    ExtraKey(String),
}

/// Makes an [`Executor`].
#[must_use = "a builder does nothing until opened"]
pub struct ExecutorBuilder {
    prompt: Prompt,
    session: Session,
    layers: [Option<ResourceRegistry>; 3],
    opened: Option<ResourceContext>,
    adapter: AdapterInfo,
    run: RunContext,
    deadline: Option<Deadline>,
    budget: Option<Arc<BudgetTracker>>,
    heartbeat: Option<Arc<Heartbeat>>,
    progress: Option<Arc<dyn Progress>>,
    request: Option<Arc<Value>>,
    extras: BTreeMap<String, Value>,
    cancel: CancelToken,
    approver: Option<Arc<dyn Approver>>,
    feedback: Vec<(Trigger, Arc<dyn FeedbackProvider>)>,
    hook: Option<Arc<dyn StepHook>>,
    withhold: Option<Arc<dyn Withhold>>,
    limits: ExecutorLimits,
}

impl ExecutorBuilder {
    pub(super) fn new(prompt: &Prompt, session: &Session) -> Self {
        Self {
            prompt: prompt.clone(),
            session: session.clone(),
            layers: [None, None, None],
            opened: None,
            adapter: AdapterInfo::new("wink"),
            run: RunContext::default(),
            deadline: None,
            budget: None,
            heartbeat: None,
            progress: None,
            request: None,
            extras: BTreeMap::new(),
            cancel: CancelToken::new(),
            approver: None,
            feedback: Vec::new(),
            hook: None,
            withhold: None,
            limits: ExecutorLimits::default(),
        }
    }

    /// Resources of the adapter: over those of sections, under the loop's.
    pub fn adapter_resources(mut self, resources: ResourceRegistry) -> Self {
        self.layers[0] = Some(resources);
        self
    }

    /// Resources of the loop: over the adapter's, under what was bound to the prompt.
    pub fn loop_resources(mut self, resources: ResourceRegistry) -> Self {
        self.layers[1] = Some(resources);
        self
    }

    /// Resources of this request: over everything else.
    pub fn resources(mut self, resources: ResourceRegistry) -> Self {
        self.layers[2] = Some(resources);
        self
    }

    /// Resources that the caller has opened, and closes.
    pub fn opened(mut self, resources: ResourceContext) -> Self {
        self.opened = Some(resources);
        self
    }

    /// Who drives the conversation.
    pub fn adapter(mut self, adapter: AdapterInfo) -> Self {
        self.adapter = adapter;
        self
    }

    /// Which run, request and worker this is.
    pub fn run(mut self, run: RunContext) -> Self {
        self.run = run;
        self
    }

    /// When everything must be over.
    pub fn deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How many tokens there are.
    pub fn budget(mut self, budget: Arc<BudgetTracker>) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Who is told that calls are alive.
    pub fn heartbeat(mut self, heartbeat: Arc<Heartbeat>) -> Self {
        self.heartbeat = Some(heartbeat);
        self
    }

    /// Who is told how far handlers are.
    pub fn progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// The provider's request that the calls come from.
    pub fn request(mut self, request: Value) -> Self {
        self.request = Some(Arc::new(request));
        self
    }

    /// Something for handlers to find, under a snake_case ASCII key.
    pub fn extra(mut self, key: impl Into<String>, value: Value) -> Self {
        self.extras.insert(key.into(), value);
        self
    }

    /// Who can cancel every call.
    pub fn cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Who is asked when a policy wants somebody's word.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Who may add something to answers, and when. Those that fire after one call speak in the order given here.
    pub fn feedback(mut self, when: Trigger, provider: impl FeedbackProvider) -> Self {
        self.feedback.push((when, Arc::new(provider)));
        self
    }

    /// Who watches calls go through their steps.
    pub fn hook(mut self, hook: Arc<dyn StepHook>) -> Self {
        self.hook = Some(hook);
        self
    }

    /// Who takes out of calls what nobody is to know. A handler that is called sees none of it in its arguments; what it says and
    /// returns is without it for log, ledger, slices and model. What it writes itself, to files, slices or the world outside, is its own.
    pub fn withhold(mut self, withhold: Arc<dyn Withhold>) -> Self {
        self.withhold = Some(withhold);
        self
    }

    /// What calls are held to.
    pub fn limits(mut self, limits: ExecutorLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Installs the prompt's slices, renders it and opens its resources.
    pub async fn open(self) -> Result<Executor, OpenError> {
        if let Some(key) = self.extras.keys().find(|key| !is_snake_case(key)) {
            return Err(OpenError::ExtraKey(key.clone()));
        }
        self.prompt.prepare(&self.session)?;
        let rendered = self.prompt.render(&self.session)?;
        let owns_resources = self.opened.is_none();
        let resources = match self.opened {
            Some(resources) => resources,
            None => {
                let [adapter, main_loop, request] = &self.layers;
                let order = [
                    Some(self.prompt.declared_resources()),
                    adapter.as_ref(),
                    main_loop.as_ref(),
                    Some(self.prompt.bound_resources()),
                    request.as_ref(),
                ];
                ResourceRegistry::layered(order.into_iter().flatten())
                    .open_with(Arc::clone(self.session.clock()))
                    .await?
            }
        };
        let rendered = Arc::new(rendered);
        let around = Surroundings {
            prompt: self.prompt.clone(),
            rendered: Some(Arc::clone(&rendered)),
            adapter: self.adapter,
            run: Arc::new(self.run),
            deadline: self.deadline,
            budget: self.budget,
            heartbeat: self.heartbeat,
            progress: self.progress,
            request: self.request,
            extras: self.extras,
            cancel: self.cancel,
        };
        let shared = Shared {
            feedback: Board::new(self.feedback, &self.session),
            session: self.session,
            resources,
            owns_resources,
            around: ArcSwap::from_pointee(around),
            approver: self.approver,
            hook: self.hook,
            withhold: self.withhold,
            limits: self.limits,
            abandoned: Arc::default(),
        };
        shared.record_rendered(&self.prompt, &rendered);
        Ok(Executor { shared: Arc::new(shared) })
    }
}
