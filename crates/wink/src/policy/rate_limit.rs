//! Only so many calls in a stretch of time.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::covered::Tools;
use super::{Decision, PolicyCall, PolicyContext, PolicyMemory, ResultView, ToolPolicy};
use crate::BoxFuture;
use crate::resource::BoxError;
use crate::tool::footprint::Footprint;

/// Bounds how many calls may succeed in any stretch of time of a given length.
///
/// It remembers the times of the last `max` successes, each under an item of its own, in a ring: the call is within
/// the limit when the oldest of them is out of the window. So a check looks at two items, whatever `max` is. A
/// replayed result is not counted: nothing ran.
#[derive(Debug, Clone)]
#[must_use = "a policy does nothing until a section or template has it"]
pub struct RateLimitPolicy {
    max: u64,
    window: Duration,
    counted: Counted,
    tools: Tools,
}

#[derive(Debug, Clone, Copy)]
enum Counted {
    EachTool,
    Together,
}

/// The ring's items below the item of what is counted.
const NEXT: &str = "next";

impl RateLimitPolicy {
    /// Each tool may succeed `max` times in any `window`.
    pub fn per_tool(max: u32, window: Duration) -> Self {
        Self { max: u64::from(max), window, counted: Counted::EachTool, tools: Tools::All }
    }

    /// All tools together may succeed `max` times in any `window`.
    pub fn overall(max: u32, window: Duration) -> Self {
        Self { counted: Counted::Together, ..Self::per_tool(max, window) }
    }

    /// Has a say in these tools only, and counts no others.
    pub fn only(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = Tools::these(tools);
        self
    }

    /// What the calls of `tool` are counted under. No tool has this name.
    fn item<'a>(&self, tool: &'a str) -> &'a str {
        match self.counted {
            Counted::EachTool => tool,
            Counted::Together => "*",
        }
    }

    /// Where the next success goes, which is where the oldest one that counts is. None if nothing may ever run.
    fn place(&self, tool: &str, cx: &PolicyContext<'_>) -> Option<Place> {
        let item = self.item(tool);
        let next = cx.remembered(&format!("{item}/{NEXT}")).and_then(|next| next.as_u64()).unwrap_or(0);
        let at = next.checked_rem(self.max)?;
        Some(Place { next: (at + 1) % self.max, item: format!("{item}/{at}") })
    }

    fn decide(&self, tool: &str, cx: &PolicyContext<'_>) -> Result<Decision, BoxError> {
        if !self.tools.include(tool) {
            return Ok(Decision::Allow);
        }
        let (max, window) = (self.max, self.window);
        let Some(place) = self.place(tool, cx) else {
            return Ok(Decision::deny(format!(
                "Cannot call '{tool}' - its rate limit is 0 calls in {window:?}"
            )));
        };
        let Some(oldest) = cx.remembered(&place.item) else { return Ok(Decision::Allow) };
        let oldest: Timestamp = oldest.as_str().ok_or("a remembered time is not a text")?.parse()?;
        // A clock that was put back shows no time at all since a call that is then in the future.
        let since = Duration::try_from(cx.now().duration_since(oldest)).unwrap_or(Duration::ZERO);
        if since >= window {
            return Ok(Decision::Allow);
        }
        let wait = whole_seconds(window - since);
        Ok(Decision::deny(format!(
            "Cannot call '{tool}' yet - {max} of {max} calls in the last {window:?} are used\nTry again in {wait:?}."
        )))
    }

    fn count(&self, tool: &str, cx: &PolicyContext<'_>, memory: &PolicyMemory<'_>) -> Result<(), BoxError> {
        let Some(place) = self.place(tool, cx) else { return Ok(()) };
        memory.remember(place.item, Value::String(cx.now().to_string()))?;
        memory.remember(format!("{}/{NEXT}", self.item(tool)), Value::from(place.next))?;
        Ok(())
    }
}

/// At least as long, in seconds: nobody waits for nanoseconds.
fn whole_seconds(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)))
}

struct Place {
    next: u64,
    item: String,
}

impl ToolPolicy for RateLimitPolicy {
    fn kind(&self) -> &'static str {
        "rate_limit"
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        self.tools.include(call.tool.name())
    }

    fn check_now(&self, call: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Option<Result<Decision, BoxError>> {
        Some(self.decide(call.tool.name(), cx))
    }

    fn on_result<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        result: &'a ResultView<'a>,
        cx: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        let counts = !result.replayed && self.covers(call);
        Box::pin(std::future::ready(if counts { self.count(call.tool.name(), cx, memory) } else { Ok(()) }))
    }

    fn wants_results(&self) -> bool {
        true
    }

    fn footprint(&self, call: &PolicyCall<'_>, key: &Arc<str>) -> Footprint {
        if !self.covers(call) {
            return Footprint::nothing();
        }
        Footprint::nothing().write_remembered(key, self.item(call.tool.name()))
    }
}
