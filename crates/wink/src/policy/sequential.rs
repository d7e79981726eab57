//! Some tools come before others.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Decision, PolicyCall, PolicyContext, ToolPolicy};
use crate::resource::BoxError;
use crate::tool::footprint::Footprint;

/// Denies a tool until the tools that it needs have succeeded in the session, wherever those are declared.
///
/// ```
/// use wink::policy::SequentialDependencyPolicy;
///
/// let policy = SequentialDependencyPolicy::new().require("deploy", ["test", "build"]);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a policy does nothing until a section or template has it"]
pub struct SequentialDependencyPolicy {
    required: HashMap<String, Vec<String>>,
}

impl SequentialDependencyPolicy {
    /// A policy that requires nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// `tool` needs `first` to have succeeded, all of them. They are named in this order.
    pub fn require(
        mut self,
        tool: impl Into<String>,
        first: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let required = self.required.entry(tool.into()).or_default();
        for name in first.into_iter().map(Into::into) {
            if !required.contains(&name) {
                required.push(name);
            }
        }
        self
    }

    fn decide(&self, tool: &str, cx: &PolicyContext<'_>) -> Decision {
        let Some(required) = self.required.get(tool) else { return Decision::Allow };
        let missing: Vec<&str> =
            required.iter().map(String::as_str).filter(|name| cx.calls(name).is_none()).collect();
        if missing.is_empty() {
            return Decision::Allow;
        }
        Decision::deny(format!(
            "Cannot call '{tool}' - missing required tools: {}\nCall these tools first, then retry {tool}.",
            missing.join(", ")
        ))
    }
}

impl ToolPolicy for SequentialDependencyPolicy {
    fn kind(&self) -> &'static str {
        "sequential_dependency"
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        self.required.contains_key(&**call.tool.name())
    }

    fn check_now(&self, call: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Option<Result<Decision, BoxError>> {
        Some(Ok(self.decide(call.tool.name(), cx)))
    }

    fn footprint(&self, call: &PolicyCall<'_>, _: &Arc<str>) -> Footprint {
        if self.covers(call) { Footprint::nothing().read_history() } else { Footprint::nothing() }
    }
}
