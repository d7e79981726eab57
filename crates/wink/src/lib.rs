//! Wink: a tool runtime for LLM agents.
//!
//! A model proposes tool calls; Wink decides whether each may run, runs it as one atomic transaction over
//! session state, workspace files and resources, records it, and renders what the model sees.
//!
//! ```
//! use wink::prelude::*;
//!
//! /// Saves a note in a file.
//! #[tool]
//! async fn save_note(file: String, text: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
//!     cx.filesystem().await?.write_text(&file, &text).await?;
//!     Ok(ToolResult::done("saved"))
//! }
//! # let _ = save_note_tool();
//! ```
//!
//! These eight lines are a tool. A [`Section`](prompt::Section) takes it, together with the text, policies and
//! resources that belong to it; a [`PromptTemplate`](prompt::PromptTemplate) checks everything; an
//! [`Executor`](executor::Executor) runs calls on a [`Session`](session::Session):
//!
//! ```
//! # use wink::prelude::*;
//! # /// Saves a note in a file.
//! # #[tool]
//! # async fn save_note(file: String, text: String, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
//! #     cx.filesystem().await?.write_text(&file, &text).await?;
//! #     Ok(ToolResult::done("saved"))
//! # }
//! use std::sync::Arc;
//! use wink::filesystem::{FilesystemExt, MemoryFilesystem};
//! use wink::resource::Binding;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let files = Arc::new(MemoryFilesystem::new());
//! let section = Section::markdown("notes", "Notes")
//!     .body("Save what you will need later.")
//!     .tool(save_note_tool())
//!     .resource(Binding::filesystem(files.clone()));
//! let prompt = PromptTemplate::builder("examples", "notes").section(section).build()?.prompt();
//!
//! let executor = Executor::open(&prompt, &Session::new()).await?;
//! let call = ToolCall::new("call_1", "save_note", r#"{"file": "todo.txt", "text": "buy milk"}"#);
//! let outcome = executor.call(call).await;
//!
//! assert_eq!(outcome.text(), "saved");
//! assert_eq!(files.read_text("todo.txt").await?, "buy milk");
//! # Ok(())
//! # }
//! ```
//!
//! # What happens to a call
//!
//! Find the tool, read the arguments, look at the clock, ask the [policies](policy), look in the [ledger], begin a
//! [transaction], run the handler, tell the policies, show the event to subscribers, commit, ask for [feedback],
//! answer. A failure anywhere rolls everything back and is recorded; the model gets one answer and the log has one
//! [event](session::ToolInvoked), whatever happened.
//!
//! # Where to go on
//!
//! - [`guide`]: a page per topic, with examples.
//! - [`prelude`]: what most programs import.
//! - [`testing`]: a fake clock, scripted calls, injected faults, contract suites.
//! - [`suites`]: planning, files, workspace digest.
//!
//! By itself this crate keeps sessions in memory ([`MemoryStore`](store::MemoryStore)), and files in memory or in a
//! directory ([`MemoryFilesystem`](filesystem::MemoryFilesystem), [`HostFilesystem`](filesystem::host::HostFilesystem)). The
//! crate `wink-store` has the durable store, and a `Workspace` of directory and store that survives the death of the process
//! ([durability](guide::durability)); `wink-sandbox` runs commands, `wink-eval` Python, and `wink-models` has
//! the loop around a model.
//!
//! Feature `macros` (on by default) has `#[tool]`, `#[data]` and `#[derive(SliceType)]`. They are sugar: everything
//! works without them.

pub mod executor;
pub mod feedback;
pub mod filesystem;
#[cfg(feature = "macros")]
pub mod guide;
pub mod ledger;
pub mod limits;
pub mod policy;
pub mod prompt;
pub mod resource;
pub mod session;
pub mod store;
pub mod suites;
pub mod testing;
pub mod tool;
pub mod transaction;

mod support;

pub use support::future::{BoxFuture, CatchPanic, catch as catch_panic};

/// Makes a tool of a function.
///
/// The function stays as it is and can be called as before; beside it comes `<name>_tool()`, which makes the
/// [`Tool`](tool::Tool). The doc comment's first paragraph is what the model is told, each argument is a parameter, and doc
/// comments on arguments describe them. An `async fn` becomes an asynchronous tool, a plain `fn` a blocking one.
///
/// ```
/// use wink::prelude::*;
///
/// /// Adds two numbers.
/// #[tool]
/// async fn add(
///     /// The first.
///     a: i64,
///     /// The second.
///     b: i64,
/// ) -> ToolResult<i64> {
///     ToolResult::value(a + b)
/// }
///
/// let section = Section::tools("sums", "Sums").tool(add_tool());
/// ```
///
/// The parameters become a type, here `AddParams { a, b }`, for examples and footprints:
/// `add_tool().example("A sum.", AddParams { a: 1, b: 2 }, 3)`. Arguments take `#[serde(…)]` and `#[schemars(…)]`
/// like its fields.
///
/// A context comes last: `cx: &mut ToolContext`, or `&mut ReadContext` for a tool that only looks. When the only other
/// argument is called `params` (or is taken apart where it stands) it is the whole parameter object:
///
/// ```
/// use wink::prelude::*;
///
/// #[data]
/// struct Search {
///     /// What to look for.
///     query: String,
///     limit: Option<u32>,
/// }
///
/// /// Finds files that contain a text.
/// #[tool(name = "find", timeout = "30s")]
/// async fn search(params: Search, cx: &mut ReadContext) -> Result<ToolResult<Vec<String>>, ToolError> {
///     let found = cx.filesystem().await?.glob("", &params.query).await?;
///     Ok(ToolResult::value(found.into_iter().map(|entry| entry.path.to_string()).collect()))
/// }
/// # let _ = search_tool();
/// ```
///
/// Options: `name` (the function's name if missing), `description` (instead of the doc comment), `timeout` (`"500ms"`,
/// `"30s"`, `"2m"`, `"1h"`). Everything else is a method of [`Tool`](tool::Tool).
#[cfg(feature = "macros")]
pub use wink_macros::tool;

/// Makes a type fit for parameters and values: derives `Serialize`, `Deserialize` and `JsonSchema`, without a
/// dependency on `serde` or `schemars`.
///
/// Write it first, above other attributes.
///
/// ```
/// use wink::prelude::*;
///
/// #[data]
/// #[derive(Debug, Clone, PartialEq)]
/// struct Note {
///     /// What to remember.
///     text: String,
///     #[serde(default)]
///     pinned: bool,
/// }
/// ```
#[cfg(feature = "macros")]
pub use wink_macros::data;

/// What a tool, its prompt and its executor need, in one line: `use wink::prelude::*;`
pub mod prelude {
    #[cfg(feature = "macros")]
    pub use wink_macros::{data, tool};

    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};

    pub use crate::executor::{Executor, Outcome, ToolCall};
    pub use crate::prompt::{Prompt, PromptTemplate, Section, Visibility};
    pub use crate::session::{Session, SliceType};
    pub use crate::tool::{
        AnyTool, Footprint, OrTell, ReadContext, Render, RenderError, Tool, ToolContext, ToolError,
        ToolResult,
    };
}

pub use schemars;
pub use serde;
pub use serde_json;

// Everything that is handed around can cross threads; so can a call while it runs.
const _: () = {
    const fn send_and_sync<T: Send + Sync + ?Sized>() {}
    const fn send<T: Send>() {}
    const fn future_is_send<T: Send>(_: fn(&'static executor::Executor, executor::ToolCall) -> T) {}

    send_and_sync::<executor::Executor>();
    send_and_sync::<executor::Outcome>();
    send_and_sync::<executor::ToolCall>();
    send_and_sync::<session::Session>();
    send_and_sync::<session::SessionSnapshot>();
    send_and_sync::<session::ToolInvoked>();
    send_and_sync::<prompt::Prompt>();
    send_and_sync::<prompt::PromptTemplate>();
    send_and_sync::<prompt::RenderedPrompt>();
    send_and_sync::<resource::ResourceContext>();
    send_and_sync::<resource::ResourceRegistry>();
    send_and_sync::<dyn filesystem::Filesystem>();
    send_and_sync::<tool::AnyTool>();
    send_and_sync::<tool::ToolContext>();
    send_and_sync::<tool::ReadContext>();
    send_and_sync::<tool::ToolError>();
    send::<transaction::Transaction>();
    future_is_send(executor::Executor::call);
};
