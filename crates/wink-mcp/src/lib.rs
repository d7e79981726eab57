//! An agent's tools as an MCP server: over stdio for the client that starts it, over streamable HTTP for many.
//!
//! Every call goes through the [`Executor`](wink::executor::Executor) of its session, the same that the library and the
//! command line use: same answer text, same event, same state. What is written here is only how the protocol says it.
//!
//! ```no_run
//! use std::sync::Arc;
//! use wink::prelude::*;
//! use wink_mcp::{Server, ServedSession, ServerOptions, serve_stdio};
//!
//! # async fn serve(prompt: Prompt) -> Result<(), Box<dyn std::error::Error>> {
//! let executor = Executor::open(&prompt, &Session::new()).await?;
//! let options = ServerOptions::default();
//! let session = Arc::new(ServedSession::new(prompt, executor, options.clone()));
//! serve_stdio(Server::new(session), &options).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Revisions 2026-07-28, 2025-11-25 and 2025-06-18 are spoken.
//!
//! # How things are said
//!
//! - A tool that is not open now is listed too; calling it says how to open it.
//! - A failure is a result with `isError`, rejected arguments included. A tool that there is not is error `-32602`, with the
//!   text and the event that it has everywhere.
//! - A policy that wants somebody's word asks the client's user: by an `elicitation/create` request, or, from 2026-07-28 on, by
//!   a result that requires input. Its `requestState` is sealed, bound to session, tool and arguments, good for one answer
//!   and for [a while](ServerOptions::answer_within); the call itself waits, and the executor sees whether the state
//!   is still the one that was asked about. A client that cannot be asked is denied, and told why.
//! - A client that may send a request again says which one it is in `_meta`, under [`REQUEST_KEY`] (or as Claude Code and
//!   Codex do: `claudecode/toolUseId`, `callId`): a tool without an idempotency config of its own then has its
//!   effect once for that key and these arguments, within an hour.
//! - A call that takes long becomes a task for a client that declares that extension.
//! - `_meta["wink/invocation"]` of a result is the call's id in the log, for `wink show` and `wink undo`.

mod approval;
mod call;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod ids;
mod listing;
mod offers;
mod options;
mod reports;
mod room;
mod running;
mod server;
mod session;
mod signed;
mod skim;
mod stdio;
mod tasks;
mod wire;

pub use http::{Access, FILES_FOR_CALLS, HttpOptions, NoPath, TokenKey, path_of, serve_http};
pub use listing::Listing;
pub use options::ServerOptions;
pub use rmcp;
pub use server::Server;
pub use session::{LogForm, OpenError, ServedSession, Sessions};
pub use stdio::{ServeError, serve_lines, serve_stdio};

/// The field of `_meta` in which a client says which request a call is, so that sending it again does not do it again.
pub const REQUEST_KEY: &str = "wink/idempotencyKey";
