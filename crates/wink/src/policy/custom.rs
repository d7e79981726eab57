//! Policies of eight lines.

use std::sync::Arc;

use super::covered::Tools;
use super::{Decision, PolicyCall, PolicyContext, ToolPolicy};
use crate::resource::BoxError;
use crate::tool::footprint::Footprint;

/// A policy that is one function. It remembers nothing; a policy that does implements [`ToolPolicy`].
///
/// ```
/// use wink::policy::{Decision, policy_fn};
///
/// let small_orders = policy_fn("small_orders", |call, _| match call.params.get("count").and_then(|n| n.as_u64()) {
///     Some(0..=10) => Decision::Allow,
///     _ => Decision::deny("Cannot order more than 10 at once"),
/// })
/// .only(["order"]);
/// ```
pub fn policy_fn<F>(kind: &'static str, decide: F) -> FnPolicy<F>
where
    F: Fn(&PolicyCall<'_>, &PolicyContext<'_>) -> Decision + Send + Sync + 'static,
{
    FnPolicy { kind, decide, tools: Tools::All, reads: None }
}

/// What [`policy_fn`] makes.
#[derive(Debug, Clone)]
#[must_use = "a policy does nothing until a section or template has it"]
pub struct FnPolicy<F> {
    kind: &'static str,
    decide: F,
    tools: Tools,
    reads: Option<Footprint>,
}

impl<F> FnPolicy<F> {
    /// Has a say in these tools only.
    pub fn only(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = Tools::these(tools);
        self
    }

    /// Says what the function looks at beside the call, so that calls can overlap in time. Unless told, it is taken
    /// to look at everything.
    pub fn reads(mut self, footprint: Footprint) -> Self {
        self.reads = Some(footprint);
        self
    }
}

impl<F> ToolPolicy for FnPolicy<F>
where
    F: Fn(&PolicyCall<'_>, &PolicyContext<'_>) -> Decision + Send + Sync + 'static,
{
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        self.tools.include(call.tool.name())
    }

    fn check_now(&self, call: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Option<Result<Decision, BoxError>> {
        Some(Ok(if self.covers(call) { (self.decide)(call, cx) } else { Decision::Allow }))
    }

    fn footprint(&self, call: &PolicyCall<'_>, _: &Arc<str>) -> Footprint {
        match &self.reads {
            _ if !self.covers(call) => Footprint::nothing(),
            Some(reads) => reads.clone(),
            None => Footprint::everything(),
        }
    }
}
