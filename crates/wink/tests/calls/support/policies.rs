//! The policies of the world.

use std::future::ready;
use std::sync::Arc;

use serde_json::json;
use wink::BoxFuture;
use wink::policy::{Decision, PolicyCall, PolicyContext, PolicyMemory, ResultView, ToolPolicy};
use wink::resource::BoxError;
use wink::tool::Footprint;

/// Denies the tool of this name.
pub struct Denies(pub &'static str);

impl ToolPolicy for Denies {
    fn kind(&self) -> &'static str {
        "denies"
    }

    fn check<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        let denied = **call.tool.name() == *self.0;
        let decision = match denied {
            true => Decision::deny("not allowed"),
            false => Decision::Allow,
        };
        Box::pin(ready(Ok(decision)))
    }

    fn footprint(&self, _: &PolicyCall<'_>, _: &Arc<str>) -> Footprint {
        Footprint::nothing()
    }
}

/// Allows everything, and counts the successes of each tool.
pub struct Remembers;

impl ToolPolicy for Remembers {
    fn kind(&self) -> &'static str {
        "remembers"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(ready(Ok(Decision::Allow)))
    }

    fn on_result<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        _: &'a ResultView<'a>,
        cx: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let tool = call.tool.name();
            let seen = cx.remembered(tool).and_then(|seen| seen.as_u64()).unwrap_or(0);
            Ok(memory.remember(Arc::clone(tool), json!(seen + 1))?)
        })
    }

    fn wants_results(&self) -> bool {
        true
    }

    fn footprint(&self, call: &PolicyCall<'_>, key: &Arc<str>) -> Footprint {
        Footprint::nothing().write_remembered(key, Arc::clone(call.tool.name()))
    }
}
