//! A context without an executor: for calling one handler alone, in a test or a harness of your own.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde_json::Value;

use super::context::{
    AdapterInfo, CallContext, Invocation, Progress, Surroundings, ToolContext, is_snake_case,
};
use super::erased::AnyTool;
use crate::executor::OpenError;
use crate::filesystem::Filesystem;
use crate::limits::{BudgetTracker, CancelToken, Deadline, Heartbeat};
use crate::prompt::Prompt;
use crate::resource::{Binding, ResourceContext, ResourceRegistry};
use crate::session::{RunContext, Session};
use crate::transaction::{Transaction, TransactionError};

/// Makes an [`OpenContext`]. [`Prompt::build_tool_context`] starts one.
#[must_use = "a builder does nothing until opened"]
pub struct ToolContextBuilder {
    session: Session,
    tool: AnyTool,
    invocation: Invocation,
    opened: Option<ResourceContext>,
    resources: ResourceRegistry,
    filesystem: Option<Arc<dyn Filesystem>>,
    arguments: Arc<str>,
    idempotency_key: Option<Arc<str>>,
    around: Surroundings,
}

impl ToolContextBuilder {
    pub(crate) fn new(prompt: &Prompt, session: &Session, tool: &AnyTool, invocation: Invocation) -> Self {
        Self {
            session: session.clone(),
            tool: tool.clone(),
            invocation,
            opened: None,
            resources: ResourceRegistry::default(),
            filesystem: None,
            arguments: "".into(),
            idempotency_key: None,
            around: Surroundings {
                prompt: prompt.clone(),
                rendered: None,
                adapter: AdapterInfo::new("wink"),
                run: Arc::new(RunContext::default()),
                deadline: None,
                budget: None,
                heartbeat: None,
                progress: None,
                request: None,
                extras: BTreeMap::new(),
                cancel: CancelToken::new(),
            },
        }
    }

    /// Resources over those of the prompt.
    pub fn resources(mut self, resources: ResourceRegistry) -> Self {
        self.resources = resources;
        self
    }

    /// The workspace, in place of the prompt's.
    pub fn filesystem(mut self, files: Arc<dyn Filesystem>) -> Self {
        self.filesystem = Some(files);
        self
    }

    /// Resources that the caller has opened, and closes. No others are there then.
    pub fn opened(mut self, resources: ResourceContext) -> Self {
        self.opened = Some(resources);
        self
    }

    /// Who drives the conversation.
    pub fn adapter(mut self, adapter: AdapterInfo) -> Self {
        self.around.adapter = adapter;
        self
    }

    /// Which run, request and worker this is.
    pub fn run(mut self, run: RunContext) -> Self {
        self.around.run = Arc::new(run);
        self
    }

    /// When everything must be over.
    pub fn deadline(mut self, deadline: Deadline) -> Self {
        self.around.deadline = Some(deadline);
        self
    }

    /// How many tokens there are.
    pub fn budget(mut self, budget: Arc<BudgetTracker>) -> Self {
        self.around.budget = Some(budget);
        self
    }

    /// Who is told that the call is alive.
    pub fn heartbeat(mut self, heartbeat: Arc<Heartbeat>) -> Self {
        self.around.heartbeat = Some(heartbeat);
        self
    }

    /// Who is told how far the handler is.
    pub fn progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.around.progress = Some(progress);
        self
    }

    /// The provider's request that the call comes from.
    pub fn request(mut self, request: Value) -> Self {
        self.around.request = Some(Arc::new(request));
        self
    }

    /// Something for the handler to find, under a snake_case ASCII key.
    pub fn extra(mut self, key: impl Into<String>, value: Value) -> Self {
        self.around.extras.insert(key.into(), value);
        self
    }

    /// Who can cancel the call.
    pub fn cancel(mut self, cancel: CancelToken) -> Self {
        self.around.cancel = cancel;
        self
    }

    /// The arguments as the model wrote them: what the context's serialised form says of them. A handler that is
    /// called alone is handed its parameters by the caller.
    pub fn arguments(mut self, arguments: impl Into<Arc<str>>) -> Self {
        let text = arguments.into();
        let schema = self.tool.contract().compiled();
        self.arguments = if schema.has_sensitive() { schema.mask(&text).as_ref().into() } else { text };
        self
    }

    /// The key under which the call's effect counts.
    pub fn idempotency_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Prepares the session, renders the prompt, opens the resources and begins a transaction.
    ///
    /// # Errors
    /// As for an executor.
    pub async fn open(mut self) -> Result<OpenContext, OpenError> {
        if let Some(key) = self.around.extras.keys().find(|key| !is_snake_case(key)) {
            return Err(OpenError::ExtraKey(key.clone()));
        }
        self.around.prompt.prepare(&self.session)?;
        self.around.rendered = Some(Arc::new(self.around.prompt.render(&self.session)?));
        let resources = match self.opened {
            Some(resources) => resources,
            None => {
                let files = self.filesystem.map(|files| ResourceRegistry::of((Binding::filesystem(files),)));
                let files = files.transpose()?;
                let layers = [Some(self.around.prompt.resources()), Some(&self.resources), files.as_ref()];
                ResourceRegistry::layered(layers.into_iter().flatten()).open().await?
            }
        };
        let call = (Arc::clone(self.tool.name()), self.invocation.id);
        let transaction = Transaction::begin_call(&self.session, &resources, call).await;
        let cx = ToolContext::new(CallContext {
            around: Arc::new(self.around),
            work: Arc::clone(transaction.work()),
            tool: self.tool,
            invocation: self.invocation,
            arguments: self.arguments,
            idempotency_key: self.idempotency_key,
            cancel: None,
        });
        Ok(OpenContext { cx, transaction, resources })
    }
}

/// A context with the transaction that it works in. Dropping it rolls back.
///
/// It is a [`ToolContext`]: lend it to a handler with `&mut cx`.
#[must_use = "dropping it rolls back"]
pub struct OpenContext {
    cx: ToolContext,
    transaction: Transaction,
    resources: ResourceContext,
}

impl OpenContext {
    /// Keeps what was done through the context.
    ///
    /// # Errors
    /// When it cannot be kept; then nothing of it is.
    pub async fn commit(self) -> Result<(), TransactionError> {
        self.transaction.commit().await
    }

    /// Forgets what was done through the context.
    ///
    /// # Errors
    /// When LOG events could not be stored.
    pub async fn rollback(self) -> Result<(), TransactionError> {
        self.transaction.rollback().await
    }

    /// The opened resources, as they are outside the call.
    #[must_use]
    pub fn resources(&self) -> &ResourceContext {
        &self.resources
    }
}

impl Deref for OpenContext {
    type Target = ToolContext;

    fn deref(&self) -> &ToolContext {
        &self.cx
    }
}

impl DerefMut for OpenContext {
    fn deref_mut(&mut self) -> &mut ToolContext {
        &mut self.cx
    }
}

impl Prompt {
    /// A context for one call of a tool of this prompt, to call its handler alone.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use wink::prelude::*;
    /// use wink::testing::call_handler;
    /// use wink::tool::{IntoTool, Invocation};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Visit { place: String }
    /// impl SliceType for Visit {
    ///     const NAME: &'static str = "visit";
    /// }
    /// async fn visit(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    ///     let _ = cx.session().dispatch(Visit { place: "here".into() })?;
    ///     Ok(ToolResult::done("visited"))
    /// }
    /// let tool = Tool::new("visit", "Go there.", visit).into_tool()?;
    /// let section = Section::tools("travel", "Travel").tool(tool.clone());
    /// let prompt = PromptTemplate::builder("examples", "alone").section(section).build()?.prompt();
    /// let session = Session::new();
    ///
    /// let invocation = Invocation::new("call-1", &**session.clock());
    /// let mut cx = prompt.build_tool_context(&session, &tool, invocation).open().await?;
    /// let result: ToolResult<()> = call_handler(&visit, (), &mut *cx).await.unwrap();
    /// assert_eq!(result.message(), "visited");
    /// assert!(session.slice::<Visit>().is_empty());
    /// cx.commit().await?;
    /// assert_eq!(session.slice::<Visit>().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn build_tool_context(
        &self,
        session: &Session,
        tool: &AnyTool,
        invocation: Invocation,
    ) -> ToolContextBuilder {
        ToolContextBuilder::new(self, session, tool, invocation)
    }
}
