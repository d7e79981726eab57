//! Agents from task to typed result: the conversation with a model, the providers that answer, the loop around both, and
//! recordings of it.
//!
//! A [`Model`] answers one request. It knows a provider's wire format and nothing of tools, sessions or limits; those are the
//! conversation's business, so that every provider comes to the same session. A [`ModelAdapter`] is a model with everything around
//! it; a [`MainLoop`] executes requests with one.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use wink::prelude::*;
//! use wink_models::{MainLoop, MainLoopConfig, ModelAdapter, Request, ScriptedModel};
//!
//! /// Adds two numbers.
//! #[tool]
//! async fn add(a: i64, b: i64) -> ToolResult<i64> {
//!     ToolResult::value(a + b)
//! }
//!
//! let script = r#"
//! {"tool_calls": [{"id": "1", "name": "add", "arguments": {"a": 2, "b": 40}}]}
//! {"text": "It is 42."}
//! "#;
//! let model = Arc::new(ScriptedModel::parse(script)?);
//! let section = Section::markdown("sums", "Sums").body("Add with the tool.").tool(add_tool());
//! let prompt = PromptTemplate::builder("examples", "sums").section(section).build()?.prompt();
//!
//! let adapter = Arc::new(ModelAdapter::new(model));
//! let main_loop = MainLoop::new(adapter, Arc::default(), MainLoopConfig::default());
//! let (response, session) = main_loop.execute(Request::new(&prompt).task("What is 2 + 40?")).await?;
//! assert_eq!(&*response.text, "It is 42.");
//! assert_eq!(session.calls("add").map(|calls| calls.count), Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod adapter;
mod again;
mod base;
pub mod blocking;
#[cfg(all(feature = "claude", unix))]
pub mod claude;
pub mod conversation;
pub mod dialect;
mod driver;
mod finish;
mod main_loop;
mod message;
mod model;
#[cfg(feature = "http")]
pub mod providers;
mod random;
pub mod recording;
mod report;
mod request;
mod scripted;
pub mod sse;
mod sub_agent;
pub mod testing;
mod watched;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use adapter::{Adapter, Evaluation, ModelAdapter, PromptResponse, Stopped};
pub use conversation::{RetryPolicy, RunStats, StopReason, Terms};
pub use driver::Watch;
pub use main_loop::{LoopError, MainLoop, MainLoopConfig, Request};
pub use message::{Called, Message, ToolAnswer};
pub use model::{
    BoxModel, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, OutputSpec, Piece, Settings,
    Stop, Stream, ToolSpec,
};
pub use random::Random;
pub use report::RunReport;
pub use request::Shown;
pub use scripted::{ScriptError, ScriptedModel};
pub use sub_agent::{Share, SubAgent, SubTask};
pub use wink::tool::secret::Secret;

/// Locks `mutex`, whoever panicked while holding it: what is behind it is replaced whole.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
