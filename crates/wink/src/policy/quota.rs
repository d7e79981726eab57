//! Only so many calls in one session.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Decision, PolicyCall, PolicyContext, ToolPolicy};
use crate::resource::BoxError;
use crate::tool::footprint::Footprint;

/// Bounds how many calls may succeed in a session: of one tool, of all tools together, or both.
///
/// ```
/// use wink::policy::QuotaPolicy;
///
/// let policy = QuotaPolicy::new().tool("deploy", 1).session(100);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a policy does nothing until a section or template has it"]
pub struct QuotaPolicy {
    tools: HashMap<String, u64>,
    session: Option<u64>,
}

impl QuotaPolicy {
    /// A policy that bounds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// `tool` may succeed `limit` times.
    pub fn tool(mut self, tool: impl Into<String>, limit: u64) -> Self {
        self.tools.insert(tool.into(), limit);
        self
    }

    /// The tools that this policy covers may run while fewer than `limit` calls of any tool have succeeded.
    pub fn session(mut self, limit: u64) -> Self {
        self.session = Some(limit);
        self
    }

    fn decide(&self, tool: &str, cx: &PolicyContext<'_>) -> Decision {
        if let Some(limit) = self.tools.get(tool) {
            let used = cx.calls(tool).map_or(0, |stat| stat.count);
            if used >= *limit {
                return Decision::deny(format!(
                    "Cannot call '{tool}' - its quota for this session is used up: {used} of {limit} calls"
                ));
            }
        }
        if let Some(limit) = self.session {
            let used = cx.total_calls();
            if used >= limit {
                return Decision::deny(format!(
                    "Cannot call '{tool}' - the quota of this session is used up: {used} of {limit} calls of all tools"
                ));
            }
        }
        Decision::Allow
    }
}

impl ToolPolicy for QuotaPolicy {
    fn kind(&self) -> &'static str {
        "quota"
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        self.session.is_some() || self.tools.contains_key(&**call.tool.name())
    }

    fn check_now(&self, call: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Option<Result<Decision, BoxError>> {
        Some(Ok(self.decide(call.tool.name(), cx)))
    }

    fn footprint(&self, call: &PolicyCall<'_>, _: &Arc<str>) -> Footprint {
        if self.covers(call) { Footprint::nothing().read_history() } else { Footprint::nothing() }
    }
}
