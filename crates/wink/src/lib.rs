//! Wink: a tool runtime for LLM agents.
//!
//! A model proposes tool calls; Wink decides whether each may run, runs it as one atomic transaction over
//! session state, workspace files and resources, records it, and renders what the model sees.

pub mod executor;
pub mod feedback;
pub mod filesystem;
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

pub use support::future::BoxFuture;

/// What a tool needs, in one line: `use wink::prelude::*;`
pub mod prelude {
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};

    pub use crate::prompt::{Prompt, PromptTemplate, Section, Visibility};
    pub use crate::session::{Session, SliceType};
    pub use crate::tool::{
        AnyTool, Footprint, OrTell, ReadContext, Render, RenderError, Tool, ToolContext, ToolError, ToolResult,
    };
}

pub use schemars;
pub use serde;
pub use serde_json;
