//! What an agent's work must come to, as it is written: its answer, when it is done, and how whole tasks are shown to it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{At, Json, Named};

/// What the last answer must be: JSON that fits a schema.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct OutputTable {
    /// What the model is told that it is called: the agent's key unless told.
    pub(crate) name: Option<At<String>>,
    /// The JSON Schema of an object or of a list.
    #[schemars(required)]
    pub(crate) schema: Option<At<Named<Json>>>,
    /// Whether keys pass that the schema does not name: not unless told.
    pub(crate) extra_keys: Option<At<bool>>,
}

/// When the work is done. A model that says so too early is told what is missing.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct CompletionTable {
    /// Whether every step of the plan must be done: not unless told.
    pub(crate) plan: Option<At<bool>>,
}

/// How a whole task is done, for the model. It is shown while all of its tools can be called.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct TaskTable {
    /// What was wanted, on one line of at most 500 characters.
    #[schemars(required)]
    pub(crate) objective: Option<At<String>>,
    /// Which tools were called, in order.
    #[schemars(required, length(min = 1))]
    pub(crate) step: Option<At<Vec<At<StepTable>>>>,
    /// What came of it, on one line of at most 500 characters.
    #[schemars(required)]
    pub(crate) outcome: Option<At<String>>,
}

/// A call on the way.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct StepTable {
    /// The tool, of any section of the agent.
    #[schemars(required)]
    pub(crate) tool: Option<At<String>>,
    /// What it was called for, in at most 200 characters.
    #[schemars(required)]
    pub(crate) description: Option<At<String>>,
    /// The arguments; none unless told.
    pub(crate) input: Option<At<Named<Json>>>,
    /// What came back: of a command, what it printed.
    #[schemars(required)]
    pub(crate) output: Option<At<Json>>,
}
