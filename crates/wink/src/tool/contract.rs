//! A tool's contract: what the model is told, frozen at construction (`shown` says what is made later). Listing and dispatch
//! never rebuild it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::ToolValidationError;
use super::schema::CompiledSchema;
use super::shown::Shown;
use crate::ledger::IdempotencyConfig;

/// What a tool says of itself, in MCP's four words. Hints for whoever shows it. Two are taken at their word
/// when a request is sent again ([`ToolCall::request_key`](crate::executor::ToolCall::request_key)): a tool that only reads is read
/// again, and one that does not reach outside, stopped, is run again. A tool with an
/// [idempotency config](crate::ledger::IdempotencyConfig) that does not reach outside is run again if its
/// [footprint](crate::tool::Footprint) is in memory alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotations {
    /// It changes nothing.
    pub read_only: bool,
    /// What it changes cannot be had back.
    pub destructive: bool,
    /// Doing it twice is like doing it once.
    pub idempotent: bool,
    /// It reaches outside: beyond the session, the workspace and the resources that are restored with a call that fails.
    pub open_world: bool,
}

impl Default for Annotations {
    /// What MCP assumes of a tool that says nothing.
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

/// What a tool's calls are kept apart from, where several sessions or processes write one workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// The first to commit wins: a path that the call wrote and another session changed meanwhile is a conflict, and the
    /// call is rolled back.
    #[default]
    FirstCommitter,
    /// The call holds the workspace's write turn while it runs: no other session or process commits a change of files
    /// meanwhile, so the call never meets a conflict.
    Serial,
}

/// One representative call, checked when the tool was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolExample {
    /// What it shows; 1 to 200 characters.
    pub description: String,
    /// The arguments.
    pub input: Value,
    /// The value that comes of them.
    pub output: Value,
    /// The value as the model would see it.
    pub rendered: String,
}

/// How a handler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlerKind {
    /// There is none: the tool is listed, and calling it fails.
    Missing,
    /// A future.
    Async,
    /// A thread of its own.
    Blocking,
}

/// The frozen contract.
#[derive(Debug, Clone)]
pub struct Contract {
    pub(crate) name: Arc<str>,
    pub(crate) description: Arc<str>,
    pub(crate) shown: Shown,
    pub(crate) annotations: Annotations,
    pub(crate) timeout: Option<Duration>,
    pub(crate) isolation: Isolation,
    pub(crate) accepts_overrides: bool,
    pub(crate) handler: HandlerKind,
    pub(crate) idempotency: Option<IdempotencyConfig>,
}

impl Contract {
    /// The tool's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What it does, for the model.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The schema of its parameters, as the model is told and as arguments are held to.
    pub fn schema(&self) -> &Value {
        self.shown.whole().schema()
    }

    /// The same as text, always the same bytes.
    pub fn schema_text(&self) -> &str {
        self.shown.whole().text()
    }

    /// The schema of its value.
    pub fn output_schema(&self) -> Option<&Value> {
        self.shown.whole().output_schema()
    }

    /// The schema of its parameters, ready for checking.
    pub(crate) fn compiled(&self) -> &CompiledSchema {
        self.shown.whole().compiled()
    }

    /// Arguments, as they came, with sensitive ones masked; see [`CompiledSchema::mask`].
    pub fn masked(&self, arguments: &Arc<str>) -> Arc<str> {
        match self.compiled().has_sensitive() {
            true => self.compiled().mask(arguments).as_ref().into(),
            false => Arc::clone(arguments),
        }
    }

    /// Whether some of its arguments are sensitive.
    pub fn has_sensitive(&self) -> bool {
        self.compiled().has_sensitive()
    }

    /// Representative calls.
    pub fn examples(&self) -> &[ToolExample] {
        self.shown.whole().examples()
    }

    /// What it says of itself.
    pub fn annotations(&self) -> Annotations {
        self.annotations
    }

    /// How long one call may take.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// What a call is kept apart from.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Whether its description, those of its parameters and its examples may be replaced without touching code.
    pub fn accepts_overrides(&self) -> bool {
        self.accepts_overrides
    }

    /// How its handler runs.
    pub fn handler(&self) -> HandlerKind {
        self.handler
    }

    /// How its effects are kept from happening twice.
    pub fn idempotency(&self) -> Option<&IdempotencyConfig> {
        self.idempotency.as_ref()
    }
}

/// Checks a tool's name. It is never trimmed: a name with a space around it is a mistake to be seen.
pub(crate) fn check_name(name: &str) -> Result<(), ToolValidationError> {
    if name.trim() != name {
        return Err(ToolValidationError(format!(
            "tool name {name:?} has whitespace around it; names are never trimmed"
        )));
    }
    let fits = |character: char| matches!(character, 'a'..='z' | '0'..='9' | '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return Err(ToolValidationError(format!("tool name {name:?} must match ^[a-z0-9_-]{{1,64}}$")));
    }
    Ok(())
}

/// Trims and checks a description of a tool or an example.
pub(crate) fn check_description(what: &str, text: &str) -> Result<String, ToolValidationError> {
    let text = text.trim();
    let count = text.chars().count();
    if count == 0 || count > 200 {
        return Err(ToolValidationError(format!("{what} must have 1 to 200 characters, not {count}")));
    }
    if text.chars().any(char::is_control) {
        return Err(ToolValidationError(format!("{what} must not contain control characters")));
    }
    Ok(text.to_owned())
}
