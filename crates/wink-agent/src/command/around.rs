//! Who stands around the commands of tools.

use std::sync::Arc;

use serde_json::Value;
use wink::BoxFuture;
use wink::resource::{Binding, MergeMode, ResourceError, ResourceRegistry};
use wink::tool::{ToolContext, ToolError, ToolResult};

use crate::open::Prepared;

/// What a call of a command tool comes to.
pub type CommandOutcome = Result<ToolResult<Value>, ToolError>;

/// Stands around the commands of an agent's tools: has them run and sees what comes of it, or answers in their place. What is done with
/// the answer is the executor's, as ever.
pub trait AroundCommands: Send + Sync + 'static {
    /// A tool is called. `run` starts its command as soon as it is awaited, and only then.
    fn call<'a>(
        &'a self,
        cx: &'a ToolContext,
        run: BoxFuture<'a, CommandOutcome>,
    ) -> BoxFuture<'a, CommandOutcome>;
}

impl Prepared {
    /// Has somebody stand around the commands of the agent's tools.
    ///
    /// # Errors
    /// When they cannot be put among the agent's resources: then commands would be run without them.
    pub fn around_commands(mut self, around: Arc<dyn AroundCommands>) -> Result<Self, ResourceError> {
        let around = ResourceRegistry::of([Binding::instance(around)])?;
        self.resources = self.resources.merge(&around, MergeMode::LaterWins)?;
        Ok(self)
    }
}
