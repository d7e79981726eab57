//! The program's own tools, as tools of the session: each of their calls goes through the executor like any other, so that
//! policies decide on it, the log has it, and what it did to the workspace is kept or undone as a whole.
//!
//! The executor's handler only stands for the program ([`PendingToolTracker::stand`]): it has the workspace saved ([`Working`]), lets the
//! program begin, and waits until the hooks say how it ended. The program works in the workspace itself, so such calls are taken one at a time, by
//! the session's turn; and all that they changed is found by looking.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use wink::executor::Executor;
use wink::prompt::Section;
use wink::tool::{Annotations, Handler, IntoToolResult, Tool, ToolContext, ToolError, ToolResult};
use wink::transaction::{PendingToolTracker, ToolEnd};

use super::process::Leash;
use super::wire::text_of;
use super::working::Working;
use crate::lock;

/// A tool that the program `claude` has itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Native {
    /// Reads a file.
    Read,
    /// Finds files by name.
    Glob,
    /// Searches files.
    Grep,
    /// Replaces text in a file.
    Edit,
    /// Writes a file.
    Write,
    /// Changes a cell of a notebook.
    NotebookEdit,
    /// Runs a command, outside of any sandbox. One that exits with another status than 0 has failed, and is undone.
    Bash,
    /// Gets a page of the web.
    WebFetch,
    /// Searches the web.
    WebSearch,
    /// Starts a sub-agent. The call is over when that has begun; what the sub-agent calls are calls of their own.
    Agent,
}

/// What a tool can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// It looks at the workspace.
    Reads,
    /// It changes the workspace.
    Writes,
    /// It looks at something outside.
    Looks,
    /// It starts others that call tools.
    Delegates,
}

impl Native {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::Glob,
        Self::Grep,
        Self::Edit,
        Self::Write,
        Self::NotebookEdit,
        Self::Bash,
        Self::WebFetch,
        Self::WebSearch,
        Self::Agent,
    ];

    /// What the program calls it.
    pub fn name(self) -> &'static str {
        self.names().0
    }

    /// What it is called in the session: in policies, and in the log. Its `file_path` is a `path` there, from the root of the
    /// workspace.
    pub fn tool(self) -> &'static str {
        self.names().1
    }

    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Read => ("Read", "claude_read", "Read a file."),
            Self::Glob => ("Glob", "claude_glob", "Find files by name."),
            Self::Grep => ("Grep", "claude_grep", "Search files."),
            Self::Edit => ("Edit", "claude_edit", "Replace text in a file."),
            Self::Write => ("Write", "claude_write", "Write a file."),
            Self::NotebookEdit => ("NotebookEdit", "claude_notebook_edit", "Change a cell of a notebook."),
            Self::Bash => ("Bash", "claude_bash", "Run a command."),
            Self::WebFetch => ("WebFetch", "claude_web_fetch", "Get a page of the web."),
            Self::WebSearch => ("WebSearch", "claude_web_search", "Search the web."),
            Self::Agent => ("Agent", "claude_agent", "Start a sub-agent."),
        }
    }

    pub(super) fn reach(self) -> Reach {
        match self {
            Self::Read | Self::Glob | Self::Grep => Reach::Reads,
            Self::Edit | Self::Write | Self::NotebookEdit | Self::Bash => Reach::Writes,
            Self::WebFetch | Self::WebSearch => Reach::Looks,
            Self::Agent => Reach::Delegates,
        }
    }

    /// Whether it is about a file or a directory, which its arguments name.
    pub(super) fn has_path(self) -> bool {
        match self {
            Self::Read | Self::Glob | Self::Grep | Self::Edit | Self::Write | Self::NotebookEdit => true,
            Self::Bash | Self::WebFetch | Self::WebSearch | Self::Agent => false,
        }
    }

    pub(super) fn by_name(name: &str) -> Option<Self> {
        // The name that it had in earlier versions.
        let name = if name == "Task" { "Agent" } else { name };
        Self::ALL.into_iter().find(|native| native.name() == name)
    }

    pub(super) fn by_tool(tool: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|native| native.tool() == tool)
    }

    /// The tool, for a section of one's own.
    pub fn into_tool(self) -> Tool<Value, Value> {
        let (_, tool, description) = self.names();
        let reads = self.reach() != Reach::Writes;
        let annotations = Annotations {
            read_only: reads,
            destructive: !reads,
            idempotent: reads,
            open_world: matches!(self, Self::Bash | Self::WebFetch | Self::WebSearch | Self::Agent),
        };
        // The program has looked at the arguments before. A policy that goes by paths has to know that there should be one.
        let schema = match self.has_path() {
            true => {
                json!({ "type": "object", "properties": { "path": { "type": "string" } }, "additionalProperties": true })
            }
            false => json!({ "type": "object", "additionalProperties": true }),
        };
        Tool::dynamic::<ToolContext, _>(tool, description, schema, Standing(self))
            .annotations(annotations)
            .without_overrides()
    }
}

/// A section with these tools of the program, under key `claude`. A prompt that has them is for a
/// [`ClaudeAdapter`](super::ClaudeAdapter): nobody else can run them.
///
/// Those that change files need the workspace on disk ([`HostFilesystem`](wink::filesystem::host::HostFilesystem)). What of them goes outside, as a command
/// of `Bash` may, is not undone.
pub fn native_tools(tools: impl IntoIterator<Item = Native>) -> Section {
    Section::tools("claude", "Claude Code")
        .body("Tools of Claude Code. What one of them changes in the workspace is undone when it fails.")
        .with_tools(tools.into_iter().map(Native::into_tool))
}

/// What a call is told that the program ended, or let go of, before it began.
const GIVEN_UP: &str = "Claude Code gave this call up before it began; nothing was changed";

/// Calls of tools that the program runs.
pub(super) struct Pending {
    leash: Arc<Leash>,
    /// Is told of calls that may begin.
    begin: mpsc::UnboundedSender<Arc<str>>,
    /// Those that are on their way to their handlers.
    expected: Mutex<HashMap<Arc<str>, Expected>>,
    /// Those whose handlers stand for the program.
    tracker: OnceLock<PendingToolTracker>,
}

struct Expected {
    native: Native,
    /// Why it must not begin, whatever the policies say.
    refusal: Option<String>,
}

impl Pending {
    pub(super) fn new(leash: Arc<Leash>) -> (Arc<Self>, mpsc::UnboundedReceiver<Arc<str>>) {
        let (begin, begun) = mpsc::unbounded_channel();
        (Arc::new(Self { leash, begin, expected: Mutex::default(), tracker: OnceLock::new() }), begun)
    }

    /// Tracks calls of this executor.
    pub(super) fn track(&self, executor: &Executor) {
        // There is one executor for each.
        let tracker = PendingToolTracker::new(executor.session().clone(), executor.resources().clone());
        let _ = self.tracker.set(tracker);
    }

    /// A call is on its way.
    pub(super) fn expect(&self, id: &Arc<str>, native: Native, refusal: Option<String>) {
        lock(&self.expected).insert(Arc::clone(id), Expected { native, refusal });
    }

    /// A call that did not get as far as its handler is not expected any more.
    pub(super) fn forget(&self, id: &str) {
        lock(&self.expected).remove(id);
    }

    /// The program says how a call ended. False if there is no such call.
    pub(super) fn ended(&self, id: &str, end: ToolEnd, said: Value) -> bool {
        if let Some(expected) = lock(&self.expected).get_mut(id) {
            expected.refusal.get_or_insert_with(|| GIVEN_UP.to_owned());
            return true;
        }
        self.tracker.get().is_some_and(|tracker| tracker.report(id, end, said))
    }

    /// The program is gone, and says nothing any more.
    pub(super) async fn let_go(&self) {
        for expected in lock(&self.expected).values_mut() {
            expected.refusal.get_or_insert_with(|| GIVEN_UP.to_owned());
        }
        let Some(tracker) = self.tracker.get() else { return };
        for id in tracker.pending() {
            if let Err(error) = tracker.abort(&id).await {
                tracing::error!(%error, "a call of Claude Code could not be given up");
            }
        }
    }

    fn arrived(&self, id: &str, native: Native) -> Option<Expected> {
        let mut expected = lock(&self.expected);
        match expected.get(id).is_some_and(|call| call.native == native) {
            true => expected.remove(id),
            false => None,
        }
    }

    /// The program may begin. Whoever does not listen any more has ended it.
    fn may_begin(&self, id: &Arc<str>) {
        let _ = self.begin.send(Arc::clone(id));
    }
}

/// Stands for a tool that the program runs.
struct Standing(Native);

impl Standing {
    async fn run(&self, cx: &ToolContext) -> Result<ToolResult<Value>, ToolError> {
        let id = Arc::clone(&cx.invocation().call_id);
        let pending = cx.adapter().get::<Pending>();
        let call = pending.as_ref().and_then(|pending| pending.arrived(&id, self.0));
        let tracker = pending.as_ref().and_then(|pending| pending.tracker.get());
        let (Some(pending), Some(call), Some(tracker)) = (&pending, call, tracker) else {
            let text = format!(
                "{} is run by Claude Code itself, which is not about to; nothing was changed",
                self.0.tool()
            );
            return Err(ToolError::new(text));
        };
        if let Some(refusal) = call.refusal {
            return Err(ToolError::new(refusal));
        }
        let standing = tracker.stand(cx)?;
        let working = match self.0.reach() {
            Reach::Writes => Some(Working::begin(cx, &pending.leash).await?),
            Reach::Reads | Reach::Looks => None,
            Reach::Delegates => {
                pending.may_begin(&id);
                return Ok(ToolResult::done("the sub-agent has begun"));
            }
        };
        pending.may_begin(&id);
        match standing.ended().await {
            Some((ToolEnd::Succeeded, value)) => {
                if let Some(working) = working {
                    working.keep().await?;
                }
                // The model has the program's own words for it.
                Ok(ToolResult::value(value).exclude_value_from_context())
            }
            Some((ToolEnd::Failed, said)) => {
                if let Some(working) = working {
                    working.undo().await?;
                }
                Ok(ToolResult::error(text_of(&said)))
            }
            None => {
                if let Some(working) = working {
                    working.undo_all().await?;
                }
                let error =
                    "Claude Code ended while it ran this; what it had changed in the workspace is undone";
                let error = ToolError::new(error);
                // Only a command changes anything outside.
                Err(if self.0 == Native::Bash { error.in_doubt() } else { error })
            }
        }
    }
}

impl Handler<ToolContext, Value, Value> for Standing {
    fn call<'a>(
        &'a self,
        _: Value,
        cx: &'a mut ToolContext,
    ) -> impl Future<Output: IntoToolResult<Value = Value>> + Send + 'a {
        self.run(cx)
    }
}
