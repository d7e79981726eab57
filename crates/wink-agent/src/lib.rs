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

#![cfg(unix)]

mod agent;
mod build;
mod builtin;
mod command;
mod file;
mod open;
mod problem;
mod read;

pub use agent::{Agent, FILE_NAME, Origin};
pub use open::{OpenError, OpenSession};
pub use problem::{LoadError, Problem};
