//! What a handler is lent for one call: the session, the workspace, resources, and everything it may know about
//! where it runs.
//!
//! A context is built for one call, borrowed mutably by the handler and gone afterwards. It hands out views that
//! cannot outlive that borrow; every operation through them passes the call's gate.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::erased::AnyTool;
use super::files::{FilesView, ReadFilesView};
use crate::filesystem::Filesystem;
use crate::limits::{
    BudgetTracker, CancelToken, Cancellation, Clock, Deadline, DeadlineExceededError, Heartbeat,
};
use crate::prompt::{Prompt, RenderedPrompt};
use crate::session::{
    Action, CallStat, DispatchResult, InvocationId, RunContext, SessionId, SliceType, SliceView, clear_where,
    seed,
};
use crate::support::background::block_on;
use crate::transaction::{AccessError, Work};

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invocation {
    /// Ours, always unique.
    pub id: InvocationId,
    /// The provider's; unique within its batch.
    pub call_id: Arc<str>,
    /// When the call began.
    pub time: Timestamp,
    /// Which try of the same call this is, from 1.
    pub attempt: u32,
    /// The message that the call came in.
    pub parent_message: Option<Arc<str>>,
}

impl Invocation {
    /// A first try of a call that begins now.
    pub fn new(call_id: impl Into<Arc<str>>, clock: &dyn Clock) -> Self {
        let time = clock.now();
        Self {
            id: InvocationId::fresh(time),
            call_id: call_id.into(),
            time,
            attempt: 1,
            parent_message: None,
        }
    }
}

/// Whoever drives the conversation.
#[derive(Clone)]
pub struct AdapterInfo {
    /// Its name.
    pub name: Arc<str>,
    /// What it can do, in its own words.
    pub capabilities: Vec<String>,
    utilities: Vec<Arc<dyn Any + Send + Sync>>,
}

impl AdapterInfo {
    /// An adapter without capabilities.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), capabilities: Vec::new(), utilities: Vec::new() }
    }

    /// Adds a capability.
    #[must_use]
    pub fn capability(mut self, name: impl Into<String>) -> Self {
        self.capabilities.push(name.into());
        self
    }

    /// Adds something that handlers can ask for by type: a rate limit, a tracer. No credentials.
    #[must_use]
    pub fn utility<T: Send + Sync + 'static>(mut self, utility: Arc<T>) -> Self {
        self.utilities.push(utility);
        self
    }

    /// The utility of this type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.utilities.iter().find_map(|utility| Arc::clone(utility).downcast().ok())
    }
}

impl std::fmt::Debug for AdapterInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AdapterInfo").field(&self.name).finish()
    }
}

/// What a handler says while it works.
pub trait Progress: Send + Sync + 'static {
    /// How far it is: `done` of `total`, if that is known.
    fn progress(&self, invocation: InvocationId, done: f64, total: Option<f64>, message: &str);
    /// A piece of the output.
    fn partial(&self, invocation: InvocationId, text: &str);
    /// It still runs, and nobody knows for how long: progress with a text that says so. For whoever shows the time anyway
    /// there is nothing to be told.
    fn still_running(&self, invocation: InvocationId, seconds: u32) {
        self.progress(invocation, seconds.into(), None, &format!("running for {seconds} s"));
    }
}

/// What all calls of an executor share.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) prompt: Prompt,
    pub(crate) rendered: Option<Arc<RenderedPrompt>>,
    pub(crate) adapter: AdapterInfo,
    pub(crate) run: Arc<RunContext>,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) budget: Option<Arc<BudgetTracker>>,
    pub(crate) heartbeat: Option<Arc<Heartbeat>>,
    pub(crate) progress: Option<Arc<dyn Progress>>,
    pub(crate) request: Option<Arc<Value>>,
    pub(crate) extras: BTreeMap<String, Value>,
    pub(crate) cancel: CancelToken,
}

/// The insides of a context. Handlers see them through [`ToolContext`] or [`ReadContext`].
#[doc(hidden)]
pub struct CallContext {
    pub(crate) around: Arc<Surroundings>,
    pub(crate) work: Arc<Work>,
    pub(crate) tool: AnyTool,
    pub(crate) invocation: Invocation,
    /// The arguments' text, sensitive ones masked.
    pub(crate) arguments: Arc<str>,
    pub(crate) idempotency_key: Option<Arc<str>>,
    /// Who can cancel this call alone.
    pub(crate) cancel: Option<CancelToken>,
}

/// What a read-only tool is lent: everything can be looked at, nothing changed. (A resource that is not snapshotable
/// is what its owner made it: nobody can tell whether it was changed.)
pub struct ReadContext {
    inner: CallContext,
}

/// What a tool is lent for one call.
pub struct ToolContext {
    read: ReadContext,
}

impl ToolContext {
    pub(crate) fn new(inner: CallContext) -> Self {
        Self { read: ReadContext::new(inner) }
    }

    /// The session, as this call sees it.
    pub fn session(&self) -> CallSession<'_> {
        CallSession { read: ReadSession { work: &self.read.inner.work } }
    }

    /// The workspace, as this call sees it.
    pub async fn filesystem(&self) -> Result<FilesView<'_>, AccessError> {
        let files = self.read.files().await?;
        Ok(FilesView::new(&self.read.inner.work, files))
    }
}

/// Everything that can be looked at is there too.
impl Deref for ToolContext {
    type Target = ReadContext;

    fn deref(&self) -> &ReadContext {
        &self.read
    }
}

impl ReadContext {
    pub(crate) fn new(inner: CallContext) -> Self {
        Self { inner }
    }

    pub(crate) fn work(&self) -> &Arc<Work> {
        &self.inner.work
    }

    /// The session, to look at.
    pub fn session(&self) -> ReadSession<'_> {
        ReadSession { work: &self.inner.work }
    }

    /// The workspace, to look at.
    pub async fn filesystem(&self) -> Result<ReadFilesView<'_>, AccessError> {
        Ok(ReadFilesView::new(&self.inner.work, self.files().await?))
    }

    async fn files(&self) -> Result<Arc<dyn Filesystem>, AccessError> {
        let work = &self.inner.work;
        work.is_open()?;
        // Which files is checked path by path.
        Ok(work.resources.get::<dyn Filesystem>().await?)
    }

    /// A resource, by type or trait. A snapshotable one is this call's own copy; a handler that only looks must not
    /// change it, or the call fails.
    pub async fn resource<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, AccessError> {
        self.inner.work.resource::<T>().await
    }

    /// A resource that need not be there.
    pub async fn resource_optional<T: ?Sized + Send + Sync + 'static>(
        &self,
    ) -> Result<Option<Arc<T>>, AccessError> {
        self.inner.work.resource_optional::<T>().await
    }

    /// The prompt that the tool is part of, with its unrendered sections.
    pub fn prompt(&self) -> &Prompt {
        &self.inner.around.prompt
    }

    /// The prompt as the model saw it.
    pub fn rendered_prompt(&self) -> Option<&RenderedPrompt> {
        self.inner.around.rendered.as_deref()
    }

    /// Whoever drives the conversation.
    pub fn adapter(&self) -> &AdapterInfo {
        &self.inner.around.adapter
    }

    /// The tool.
    pub fn tool(&self) -> &AnyTool {
        &self.inner.tool
    }

    /// The call.
    pub fn invocation(&self) -> &Invocation {
        &self.inner.invocation
    }

    /// The key under which this call's effect counts, to pass upstream.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.inner.idempotency_key.as_deref()
    }

    /// When everything must be over.
    pub fn deadline(&self) -> Option<Deadline> {
        self.inner.around.deadline
    }

    /// An error if the deadline has passed; `?` it in long loops.
    pub fn check_deadline(&self) -> Result<(), DeadlineExceededError> {
        match self.inner.around.deadline {
            Some(deadline) => deadline.check(&**self.clock()),
            None => Ok(()),
        }
    }

    /// How many tokens there are left.
    pub fn budget(&self) -> Option<&BudgetTracker> {
        self.inner.around.budget.as_deref()
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.inner.work.session.clock()
    }

    /// Whether the call should stop: it was cancelled, or is over already.
    pub fn is_cancelled(&self) -> bool {
        self.inner.around.cancel.is_cancelled()
            || self.inner.cancel.as_ref().is_some_and(CancelToken::is_cancelled)
            || self.inner.work.is_open().is_err()
    }

    /// To listen whether this call, or every call of the executor, is cancelled.
    pub fn cancellation(&self) -> Cancellation {
        Cancellation::of([Some(&self.inner.around.cancel), self.inner.cancel.as_ref()])
    }

    /// Says that the call is alive. Without a heartbeat nothing happens.
    pub fn beat(&self) {
        if let Some(heartbeat) = self.while_open(&self.inner.around.heartbeat) {
            heartbeat.beat();
        }
    }

    /// Says how far the call is.
    pub fn progress(&self, done: f64, total: Option<f64>, message: &str) {
        if let Some(progress) = self.while_open(&self.inner.around.progress) {
            progress.progress(self.inner.invocation.id, done, total, message);
        }
    }

    /// Says that the call goes on.
    pub(super) fn still_running(&self, seconds: u32) {
        if let Some(progress) = self.while_open(&self.inner.around.progress) {
            progress.still_running(self.inner.invocation.id, seconds);
        }
    }

    /// Hands on a piece of the output before the call ends.
    pub fn partial_output(&self, text: &str) {
        if let Some(progress) = self.while_open(&self.inner.around.progress) {
            progress.partial(self.inner.invocation.id, text);
        }
    }

    /// Somebody to tell, until the call is over: what a handler that did not stop says then concerns nobody.
    fn while_open<'a, T>(&self, listener: &'a Option<T>) -> Option<&'a T> {
        listener.as_ref().filter(|_| self.inner.work.is_open().is_ok())
    }

    /// The request that the call came from, where the adapter has one.
    pub fn request(&self) -> Option<&Value> {
        self.inner.around.request.as_deref()
    }

    /// Run, request, worker and trace ids.
    pub fn run(&self) -> &RunContext {
        &self.inner.around.run
    }

    /// Something that an adapter or orchestrator added.
    pub fn extra(&self, key: &str) -> Option<&Value> {
        self.inner.around.extras.get(key)
    }

    /// Waits for a future in a blocking handler.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => runtime.block_on(future),
            Err(_) => block_on(future),
        }
    }

    /// The context without its live handles, so that a call can be executed elsewhere. A stable form. Sensitive
    /// arguments are masked in it.
    pub fn to_json(&self) -> Value {
        let around = &self.inner.around;
        let arguments = match &*self.inner.arguments {
            "" => json!({}),
            text => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        };
        let budget = around.budget.as_ref();
        let budget = budget.map(|budget| json!({ "limits": budget.budget(), "used": budget.used() }));
        json!({
            "version": 1,
            "prompt": around.prompt.name(),
            "adapter": { "name": around.adapter.name, "capabilities": around.adapter.capabilities },
            "session": self.inner.work.session.id(),
            "tool": self.inner.tool.name(),
            "arguments": arguments,
            "invocation": self.inner.invocation,
            "idempotency_key": self.inner.idempotency_key,
            "deadline": around.deadline.map(Deadline::timestamp),
            "budget": budget,
            "request": around.request,
            "run": *around.run,
            "extras": around.extras,
        })
    }
}

/// The session in a call, to look at.
pub struct ReadSession<'a> {
    work: &'a Work,
}

impl ReadSession<'_> {
    /// The session's id.
    pub fn id(&self) -> &SessionId {
        self.work.session.id()
    }

    /// The slice of `T`, with what this call did to it.
    pub fn slice<T: SliceType>(&self) -> Result<SliceView<T>, AccessError> {
        self.work.slice()
    }

    /// How often `tool` succeeded in this session before this call, and when last.
    pub fn calls(&self, tool: &str) -> Result<Option<CallStat>, AccessError> {
        self.work.calls(tool)
    }
}

/// The session in a call. What is dispatched here stands or falls with the call.
pub struct CallSession<'a> {
    read: ReadSession<'a>,
}

impl<'a> CallSession<'a> {
    pub(crate) fn new(work: &'a Work) -> Self {
        Self { read: ReadSession { work } }
    }

    pub(crate) fn into_read(self) -> ReadSession<'a> {
        self.read
    }

    /// Hands an event to the reducers of its type. Subscribers hear of it when the call is decided.
    pub fn dispatch<E: SliceType>(&self, event: E) -> Result<DispatchResult, AccessError> {
        self.read.work.dispatch(event)
    }

    /// Makes `items` the only ones in their slice.
    pub fn seed<T: SliceType>(&self, items: impl IntoIterator<Item = T>) -> Result<(), AccessError> {
        let edit = seed(items);
        self.read.work.edit::<T>(|slot| Action::Edit { slot, edit })
    }

    /// Removes the items that match.
    pub fn clear_where<T: SliceType>(
        &self,
        matches: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> Result<(), AccessError> {
        let edit = clear_where(matches);
        self.read.work.edit::<T>(|slot| Action::Edit { slot, edit })
    }
}

/// Everything that can be looked at is there too.
impl<'a> Deref for CallSession<'a> {
    type Target = ReadSession<'a>;

    fn deref(&self) -> &ReadSession<'a> {
        &self.read
    }
}

/// Whether an extra may have this key.
pub(crate) fn is_snake_case(key: &str) -> bool {
    let mut characters = key.chars();
    characters.next().is_some_and(|first| first.is_ascii_lowercase())
        && characters.all(|next| next.is_ascii_lowercase() || next.is_ascii_digit() || next == '_')
}
