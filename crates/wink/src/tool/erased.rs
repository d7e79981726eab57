//! Tools with their types erased: what sections hold, prompts list and the executor runs.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::context::CallContext;
use super::contract::{Contract, ToolExample};
use super::error::{ToolError, ToolValidationError};
use super::footprint::Footprint;
use super::schema::{ParseLimits, Rejection};
use crate::BoxFuture;
use crate::session::{ErasedValue, Item, Session, SessionError};

/// A tool whose parameter and result types are no longer in its type. Cheap to clone.
#[derive(Clone)]
pub struct AnyTool {
    pub(crate) inner: Arc<dyn Erased>,
}

impl AnyTool {
    /// The tool's contract.
    pub fn contract(&self) -> &Contract {
        self.inner.contract()
    }

    /// The tool's name.
    pub fn name(&self) -> &Arc<str> {
        self.inner.contract().name()
    }
}

impl fmt::Debug for AnyTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyTool").field(self.name()).finish()
    }
}

/// Something that becomes a tool, or says why it cannot. A section takes these and its prompt reports.
pub trait IntoTool {
    /// The name it was given, right or wrong: for messages.
    fn declared_name(&self) -> &str;

    /// The finished tool.
    fn into_tool(self) -> Result<AnyTool, ToolValidationError>;
}

impl IntoTool for AnyTool {
    fn declared_name(&self) -> &str {
        self.name()
    }

    fn into_tool(self) -> Result<AnyTool, ToolValidationError> {
        Ok(self)
    }
}

/// Accepted arguments, typed for the handler and readable for policies.
pub struct Params {
    pub(crate) typed: Box<dyn Any + Send + Sync>,
    pub(crate) text: Arc<str>,
    json: OnceLock<Value>,
}

impl Params {
    pub(crate) fn new(typed: Box<dyn Any + Send + Sync>, text: Arc<str>) -> Self {
        Self { typed, text, json: OnceLock::new() }
    }

    /// The arguments as the model wrote them.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The arguments as JSON. Parsed when first asked for.
    pub fn json(&self) -> &Value {
        self.json.get_or_init(|| {
            if self.text.trim().is_empty() {
                return Value::Object(serde_json::Map::new());
            }
            // As deep as the check allows, so that policies see whatever the handler sees.
            super::schema::decode::parse(&self.text).unwrap_or(Value::Null)
        })
    }

    /// One argument.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.json().get(name)
    }

    /// The arguments in the tool's own type.
    pub fn typed<P: 'static>(&self) -> Option<&P> {
        let typed: &dyn Any = self.typed.as_ref();
        typed.downcast_ref()
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the text: it may hold secrets.
        f.write_str("Params(..)")
    }
}

/// A handler's result with its type erased.
pub(crate) struct ErasedResult {
    pub(crate) message: String,
    pub(crate) value: Option<Arc<dyn ErasedValue>>,
    pub(crate) success: bool,
    pub(crate) hidden: bool,
}

/// The key under which a call's effect counts, and the hash of what it was made from.
#[derive(Clone)]
pub(crate) struct KeyParts {
    pub(crate) text: String,
    pub(crate) params_hash: String,
}

/// What the executor needs of a tool.
pub(crate) trait Erased: Send + Sync {
    fn contract(&self) -> &Contract;
    fn parse(&self, text: &Arc<str>, limits: &ParseLimits) -> Result<Params, Rejection>;
    fn footprint(&self, params: &Params) -> Option<Footprint>;
    /// Runs an asynchronous handler. The context is gone when the future is.
    fn run(&self, params: Params, cx: CallContext) -> BoxFuture<'static, Result<ErasedResult, ToolError>>;
    /// Runs a blocking handler on this thread.
    fn run_blocking(&self, params: Params, cx: CallContext) -> Result<ErasedResult, ToolError>;
    /// The value as the model sees it.
    fn render<'a>(&self, value: &'a dyn ErasedValue) -> Cow<'a, str>;
    /// An example of it from JSON, held to the rules of a real call.
    fn example(&self, description: &str, input: Value, output: Value) -> Result<ToolExample, String>;
    /// The value again, from its stored form.
    fn revive(&self, json: &Value) -> Result<Arc<dyn ErasedValue>, String>;
    /// The idempotency key's own part; none when the tool has no config or its strategy is none.
    fn key(&self, params: &Params) -> Result<Option<KeyParts>, String>;
    /// A hash of the arguments: the same for all spellings of the same ones.
    fn params_hash(&self, params: &Params) -> Result<String, String>;
    /// The values to dispatch when a call succeeds, with their types.
    fn published(&self, session: &Session, value: &Arc<dyn ErasedValue>) -> Vec<(TypeId, Item)>;
    /// The types of those values.
    fn published_kinds(&self, session: &Session) -> Vec<TypeId>;
    /// Makes the session know the slices that the tool's values go to.
    fn prepare(&self, session: &Session) -> Result<(), SessionError>;
}
