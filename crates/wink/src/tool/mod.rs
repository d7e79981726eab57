//! Tools: typed contracts with one handler each.
//!
//! A [`Tool`] is written with plain Rust types and becomes an [`AnyTool`] when a section takes it: its contract is
//! then checked and frozen. Nothing here decides whether a call may run, or runs one; handlers see the world
//! through the [`ToolContext`] that they are lent.

mod build;
pub mod context;
pub mod context_builder;
pub mod contract;
pub mod erased;
pub mod error;
pub mod files;
pub mod footprint;
pub mod handler;
pub(crate) mod render;
pub mod result;
pub(crate) mod reword;
pub mod schema;
pub mod secret;
mod shown;
mod telling;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use context::{AdapterInfo, Invocation, Progress, ReadContext, ToolContext};
pub use context_builder::{OpenContext, ToolContextBuilder};
pub use contract::{Annotations, Contract, HandlerKind, Isolation, ToolExample};
pub use erased::{AnyTool, IntoTool, Params};
pub use error::{
    OrTell, Phase, PromptEvaluationError, ToolError, ToolValidationError, VisibilityExpansionRequired,
};
pub use footprint::Footprint;
pub use handler::{BlockingHandler, ContextKind, Handler};
pub use result::{IntoToolResult, Render, RenderError, ToolResult};

use crate::ledger::IdempotencyConfig;
use crate::session::SliceType;
use build::{AsyncRun, BlockingRun, Publish, Rendering, Run, SchemaSource};
use shown::OutputSource;

/// A tool that takes `P` and gives `R`.
///
/// What is wrong with it is reported when the prompt that it becomes part of is built, with the section's path.
#[must_use = "a tool does nothing until a section has it"]
pub struct Tool<P, R> {
    name: String,
    description: String,
    schema: SchemaSource,
    output_schema: OutputSource,
    run: Option<Arc<dyn Run>>,
    kind: HandlerKind,
    examples: Vec<(String, P, R)>,
    annotations: Annotations,
    timeout: Option<Duration>,
    isolation: Isolation,
    accepts_overrides: bool,
    idempotency: Option<IdempotencyConfig>,
    sensitive: Vec<String>,
    vouched: bool,
    footprint: Option<Arc<dyn Fn(&P) -> Footprint + Send + Sync>>,
    render: Option<Rendering<R>>,
    publish: Publish<R>,
}

/// What parameters and values must be: plain data that serde knows.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the parameters or the value of a tool",
    label = "not plain data that serde knows",
    note = "put `#[data]` on it, or `#[derive(Serialize, Deserialize, JsonSchema)]`"
)]
pub trait ToolData: Serialize + DeserializeOwned + Send + Sync + 'static {}
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> ToolData for T {}

/// [`ToolData`] whose schema is known from its type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the parameters or the value of a tool",
    label = "not plain data that serde and schemars know",
    note = "put `#[data]` on it, or `#[derive(Serialize, Deserialize, JsonSchema)]`"
)]
pub trait TypedData: ToolData + JsonSchema {}
#[diagnostic::do_not_recommend]
impl<T: ToolData + JsonSchema> TypedData for T {}

impl<P: TypedData, R: TypedData> Tool<P, R> {
    /// A tool with an asynchronous handler: a plain `async fn(P, &mut ToolContext)`, or `&mut ReadContext` for a
    /// tool that only looks.
    pub fn new<C, H>(name: impl Into<String>, description: impl Into<String>, handler: H) -> Self
    where
        C: ContextKind,
        H: Handler<C, P, R>,
    {
        let run = AsyncRun { handler, of: PhantomData::<fn() -> (C, P, R)> };
        Self::typed(name, description).handled(Arc::new(run), HandlerKind::Async, C::READ_ONLY)
    }

    /// A tool whose handler blocks; it gets a thread of its own.
    pub fn blocking<C, H>(name: impl Into<String>, description: impl Into<String>, handler: H) -> Self
    where
        C: ContextKind,
        H: BlockingHandler<C, P, R>,
    {
        let run = BlockingRun { handler, of: PhantomData::<fn() -> (C, P, R)> };
        Self::typed(name, description).handled(Arc::new(run), HandlerKind::Blocking, C::READ_ONLY)
    }

    /// A tool that is listed and handled by somebody else. Calling it here is a failed result.
    pub fn without_handler(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::typed(name, description)
    }

    fn typed(name: impl Into<String>, description: impl Into<String>) -> Self {
        let mut tool = Self::bare(name, description, SchemaSource::typed::<P>());
        tool.output_schema = OutputSource::typed::<R>();
        tool
    }
}

impl Tool<Value, Value> {
    /// A tool whose schema is known only at run time. Its arguments are held to the schema and arrive as JSON.
    pub fn dynamic<C, H>(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: Value,
        handler: H,
    ) -> Self
    where
        C: ContextKind,
        H: Handler<C, Value, Value>,
    {
        let run = AsyncRun { handler, of: PhantomData::<fn() -> (C, Value, Value)> };
        Self::bare(name, description, SchemaSource::Given(schema)).handled(
            Arc::new(run),
            HandlerKind::Async,
            C::READ_ONLY,
        )
    }

    /// The schema of a dynamic tool's value. Example outputs are held to it.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = OutputSource::Given(Some(schema));
        self
    }
}

impl<P: ToolData, R: ToolData> Tool<P, R> {
    fn bare(name: impl Into<String>, description: impl Into<String>, schema: SchemaSource) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            schema,
            output_schema: OutputSource::Given(None),
            run: None,
            kind: HandlerKind::Missing,
            examples: Vec::new(),
            annotations: Annotations::default(),
            timeout: None,
            isolation: Isolation::default(),
            accepts_overrides: true,
            idempotency: None,
            sensitive: Vec::new(),
            vouched: false,
            footprint: None,
            render: None,
            publish: Publish::IfKnown,
        }
    }

    fn handled(mut self, run: Arc<dyn Run>, kind: HandlerKind, read_only: bool) -> Self {
        self.run = Some(run);
        self.kind = kind;
        if read_only {
            self.annotations.read_only = true;
            self.annotations.destructive = false;
            self.annotations.idempotent = true;
        }
        self
    }

    /// Shows the model a representative call. Held to the same rules as a real one.
    pub fn example(mut self, description: impl Into<String>, input: P, output: R) -> Self {
        self.examples.push((description.into(), input, output));
        self
    }

    /// Says what the tool is like.
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.annotations = annotations;
        self
    }

    /// How long one call may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// What a call is kept apart from, where several sessions or processes write one workspace.
    ///
    /// A [serial](Isolation::Serial) call waits for the workspace's write turn before it begins, as long as its timeout
    /// allows, and holds it until it is committed or rolled back.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Keeps its description, those of its parameters and its examples from being replaced without touching code.
    pub fn without_overrides(mut self) -> Self {
        self.accepts_overrides = false;
        self
    }

    /// Keeps the tool's effect from happening twice.
    pub fn idempotency(mut self, config: IdempotencyConfig) -> Self {
        self.idempotency = Some(config);
        self
    }

    /// Masks a parameter (by dotted path) in events, log and diagnostics. Or make it a
    /// [`Secret`](secret::Secret).
    pub fn sensitive(mut self, field: impl Into<String>) -> Self {
        self.sensitive.push(field.into());
        self
    }

    /// Says that the schemas and examples are right, so that they need not be made before they are wanted. Only for tools of this
    /// crate's own, with nothing in them that somebody else gave; `vouched_tools_are_right` makes every one.
    pub(crate) fn vouched(mut self) -> Self {
        self.vouched = true;
        self
    }

    /// Declares what a call reads and writes, so that it may overlap with others. Enforced.
    pub fn footprint(mut self, footprint: impl Fn(&P) -> Footprint + Send + Sync + 'static) -> Self {
        self.footprint = Some(Arc::new(footprint));
        self
    }

    /// Says how the model sees the value.
    pub fn render_with(
        mut self,
        render: impl Fn(&R) -> Result<String, RenderError> + Send + Sync + 'static,
    ) -> Self {
        self.render = Some(Arc::new(render));
        self
    }

    /// The model sees the value as its own [`Render`] says.
    pub fn rendered(self) -> Self
    where
        R: Render,
    {
        self.render_with(R::render)
    }

    /// Dispatches the value of a successful call to its slice, in sessions that did not know the type before too.
    pub fn publishes(mut self) -> Self
    where
        R: SliceType,
    {
        self.publish = Publish::slice();
        self
    }

    /// Dispatches each element of a successful call's value to its slice.
    pub fn publishes_each<T>(mut self) -> Self
    where
        T: SliceType + Clone,
        R: AsRef<[T]>,
    {
        self.publish = Publish::each::<T>();
        self
    }
}
