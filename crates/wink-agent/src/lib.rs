//! Agents from a file, without Rust.
//!
//! An agent file is TOML: sections with their texts, suites of tools, commands as tools, policies and limits. All of it is
//! checked when it is loaded, everything wrong is reported at once with its place ([`LoadError`]), and what was loaded is an
//! [`Agent`], which does not change any more. [`Agent::open`] opens a session of it in a workspace, with the one executor
//! that every surface uses.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use wink::prelude::*;
//! use wink_agent::Agent;
//! use wink_store::Workspace;
//!
//! # let dir = tempfile::tempdir()?;
//! let agent = Agent::parse(
//!     r#"
//!     [agent]
//!     ns = "examples"
//!     key = "notes"
//!
//!     [[section]]
//!     key = "notes"
//!     title = "Notes"
//!     body = "Keep notes in files."
//!     suites = ["files"]
//!     "#,
//!     "wink.toml",
//! )?;
//! let workspace = Arc::new(Workspace::open(dir.path())?);
//! let opened = agent.open(&workspace, "main").await?;
//! let write = ToolCall::new("1", "write_file", r#"{"path": "a.txt", "content": "one"}"#);
//! assert!(opened.executor().call(write).await.event.success);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

//! # The file
//!
//! A command as a tool gets the arguments of its call as JSON on its standard input, and each as a variable `WINK_ARG_NAME` of its
//! environment: the name in capitals, with `_` for what shells cannot name; texts as they are, other values as JSON. An argument that
//! no program can be given as a variable fails the call. Beside them there are `WINK_TOOL`, `WINK_INVOCATION_ID` and, for a tool with an
//! idempotency config, `WINK_IDEMPOTENCY_KEY`. Exit code 0 is success, with its standard output as the message; anything else is a
//! failure, and what it did to the workspace is undone. It has the rights and the environment of this program, unless
//! `sandbox = true` confines it. When its time is over or the call is cancelled, every process of it is gone.
//!
//! `[model]` says who answers, for whoever runs the agent ([`Agent::model`]); never with a key, but with the name of the variable that
//! has it. With `native_tools` Claude Code is given tools of its own; policies know `Edit` as `claude_edit`, and the file that it is given as
//! `path` ([`Agent::with_native_tools`]).
//!
//! `when` of an approval compares arguments; one that the model left out may stand for anything, and is asked about.
//!
#![doc = concat!("```toml\n", include_str!("reference.toml"), "```")]
//!
//! Tools do not change the agent's own file, or make a `wink.toml` where there is none: whoever writes it says what may be run next
//! time. A file in the workspace that a command *runs* is another matter: whoever may write a script may do what it does, so give
//! a policy of `paths` to agents whose commands are in the workspace.
//!
//! Texts of the prompt, also those of suites, are replaced by files in [`OVERRIDES_NAME`] beside the agent file, which
//! `wink override seed` writes to start from; tools do not change these either. There may be several sets, by tag; `overrides` in `[agent]`
//! says which is in place, unless somebody asks for another ([`Agent::find_tagged`]).
//!
//! [`Agent::schema`] is a JSON Schema of it, for editors. `[[section.mcp]]`, other MCP servers' tools, is not built yet.

#![cfg(unix)]

mod agent;
mod build;
mod builtin;
mod command;
mod file;
mod model;
mod open;
mod own_file;
mod problem;
mod programs;
mod read;
mod untouched;

pub use agent::{Agent, FILE_NAME, OVERRIDES_NAME, OVERRIDES_TAG, Origin, SessionLimits};
pub use command::{AroundCommands, CommandOutcome, withhold_variable};
pub use file::duration;
pub use model::{ModelConfig, ModelProvider, RetryConfig, USUAL_KEY_ENVS};
pub use open::{OpenError, OpenSession, Prepared};
pub use problem::{LoadError, Problem};
pub use programs::MissingProgram;
