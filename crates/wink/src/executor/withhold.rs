//! Keeping secrets of whoever drives an executor out of its calls: of what they are given, and of what they say.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::Shared;
use super::outcome::{Escalation, Failure, ToolCall};
use crate::session::ErasedValue;
use crate::support::future::catch;
use crate::tool::AnyTool;
use crate::tool::erased::ErasedResult;
use crate::tool::render::answer_text;

/// Knows secrets, and takes them out: the key of the model that calls, for example, which a task, a command or a file may have.
pub trait Withhold: Send + Sync {
    /// A text without them.
    fn text(&self, text: &str) -> String;

    /// The text of a JSON value without them, however they are spelled in it. What is no JSON is a text.
    fn json(&self, text: &str) -> String;

    /// A value without them, wherever in it they are.
    fn value(&self, value: Value) -> Value;
}

impl Shared {
    /// A text that is said or written down somewhere.
    pub(super) fn withheld<'a>(&self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        match &self.withhold {
            Some(withhold) => withhold.text(&text.into()).into(),
            None => text.into(),
        }
    }

    /// A call as it may be known: all that is made of its arguments has none of the secrets then.
    pub(super) fn withheld_call(&self, call: ToolCall) -> ToolCall {
        let Some(withhold) = &self.withhold else { return call };
        ToolCall {
            tool: withhold.text(&call.tool).into(),
            arguments: withhold.json(&call.arguments).into(),
            ..call
        }
    }

    /// A result, before anybody sees it: what log, ledger, slices and the model are given is made of this one.
    pub(super) fn withheld_result(&self, tool: &AnyTool, result: ErasedResult) -> ErasedResult {
        let Some(withhold) = &self.withhold else { return result };
        let message = withhold.text(&result.message);
        // One that cannot be written is written nowhere.
        let written = |value: &Arc<dyn ErasedValue>| catch(|| value.as_ref().to_json()).ok()?.ok();
        let (Some(value), Some(json)) = (&result.value, result.value.as_ref().and_then(written)) else {
            return ErasedResult { message, ..result };
        };
        let without = withhold.value(json.clone());
        if without == json {
            return ErasedResult { message, ..result };
        }
        match catch(|| tool.inner.revive(&without)) {
            Ok(Ok(value)) => ErasedResult { message, value: Some(value), ..result },
            // Its type cannot be without: then only what the model would have seen of it is left.
            Ok(Err(_)) | Err(_) if result.hidden => ErasedResult { message, value: None, ..result },
            Ok(Err(_)) | Err(_) => {
                let shown = tool.inner.render(value.as_ref());
                let message = withhold.text(&answer_text(&message, &shown));
                ErasedResult { message, value: None, ..result }
            }
        }
    }

    /// The same for what a call failed with.
    pub(super) fn withheld_failure(&self, failure: &mut Failure) {
        let Some(withhold) = &self.withhold else { return };
        failure.message = withhold.text(&failure.message);
        for cause in &mut failure.chain {
            *cause = withhold.text(cause);
        }
        if let Some(Escalation::Evaluation(error)) = &mut failure.escalation {
            error.message = withhold.text(&error.message);
        }
    }
}
