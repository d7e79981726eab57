//! Calling one handler alone.

use std::sync::Arc;

use jiff::Timestamp;

use super::clock::FakeClock;
use crate::executor::OpenError;
use crate::filesystem::{Filesystem, MemoryFilesystem};
use crate::prompt::{Prompt, PromptTemplate, PromptValidationError};
use crate::resource::ResourceRegistry;
use crate::session::Session;
use crate::tool::context_builder::OpenContext;
use crate::tool::{
    AnyTool, Handler, IntoTool, IntoToolResult, Invocation, Tool, ToolContext, ToolError, ToolResult,
};

/// Calls a handler as the executor would: its result, or its error.
///
/// # Errors
/// What the handler returned as one.
pub async fn call_handler<C, P, R>(
    handler: &impl Handler<C, P, R>,
    params: P,
    cx: &mut C,
) -> Result<ToolResult<R>, ToolError> {
    handler.call(params, cx).await.into_tool_result()
}

/// What a handler needs around it, and nothing else: a session, an empty workspace in memory, a clock that stands
/// still.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use wink::filesystem::FilesystemExt;
/// use wink::prelude::*;
/// use wink::testing::{TestContext, call_handler};
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Note { text: String }
/// async fn note(note: Note, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
///     cx.filesystem().await?.write_text("note.txt", &note.text).await?;
///     Ok(ToolResult::done("noted"))
/// }
///
/// let bench = TestContext::new()?;
/// let mut cx = bench.open().await?;
/// let result = call_handler(&note, Note { text: "buy milk".into() }, &mut *cx).await.unwrap();
/// assert_eq!(result.message(), "noted");
/// cx.commit().await?;
/// assert_eq!(bench.files().read_text("note.txt").await?, "buy milk");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct TestContext {
    prompt: Prompt,
    session: Session,
    tool: AnyTool,
    clock: FakeClock,
    files: Arc<dyn Filesystem>,
    resources: ResourceRegistry,
}

impl TestContext {
    /// A session, a workspace and a clock of its own.
    ///
    /// # Errors
    /// Never, as long as its own prompt is right.
    pub fn new() -> Result<Self, PromptValidationError> {
        async fn nothing(_: (), _: &mut ToolContext) -> ToolResult<()> {
            ToolResult::done("")
        }
        let tool = Tool::new("under_test", "The tool whose handler is called", nothing).into_tool();
        let tool = tool.map_err(|error| PromptValidationError::in_prompt(error.0))?;
        let clock = FakeClock::new(Timestamp::UNIX_EPOCH);
        Ok(Self {
            prompt: PromptTemplate::builder("wink", "testing").build()?.prompt(),
            session: Session::builder().clock(Arc::new(clock.clone())).build(),
            tool,
            clock,
            files: Arc::new(MemoryFilesystem::new()),
            resources: ResourceRegistry::default(),
        })
    }

    /// With this session in place of its own.
    #[must_use]
    pub fn with_session(mut self, session: &Session) -> Self {
        self.session = session.clone();
        self
    }

    /// With this workspace in place of its own.
    #[must_use]
    pub fn with_files(mut self, files: Arc<dyn Filesystem>) -> Self {
        self.files = files;
        self
    }

    /// With these resources.
    #[must_use]
    pub fn with_resources(mut self, resources: ResourceRegistry) -> Self {
        self.resources = resources;
        self
    }

    /// A context for one call. Commit it, or drop it to roll back.
    ///
    /// # Errors
    /// When a resource cannot be opened.
    pub async fn open(&self) -> Result<OpenContext, OpenError> {
        let invocation = Invocation::new("test", &**self.session.clock());
        self.prompt
            .build_tool_context(&self.session, &self.tool, invocation)
            .resources(self.resources.clone())
            .filesystem(Arc::clone(&self.files))
            .open()
            .await
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The workspace as it is committed.
    #[must_use]
    pub fn files(&self) -> &Arc<dyn Filesystem> {
        &self.files
    }

    /// The clock of its own session.
    #[must_use]
    pub fn clock(&self) -> &FakeClock {
        &self.clock
    }
}
