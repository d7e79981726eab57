//! The model's last word: whether it is what it has to be, and whether all is done.

use std::sync::Arc;

use serde_json::Value;
use wink::executor::Executor;
use wink::feedback::{Completion, CompletionContext};
use wink::prompt::{OutputError, ParsedOutput, Prompt, RenderedPrompt};
use wink::session::Session;

use crate::conversation::StopReason;
use crate::model::OutputSpec;

/// What is to be thought of the model's last word.
pub(crate) struct Judged {
    /// The typed result, if one was asked for; or what is wrong with it.
    pub(crate) output: Result<Option<Parsed>, OutputError>,
    /// What is missing.
    pub(crate) missing: Option<Arc<str>>,
}

/// A typed result.
pub(crate) struct Parsed(ParsedOutput);

impl Parsed {
    /// As JSON.
    pub(crate) fn json(&self) -> Arc<Value> {
        self.0.shared_json()
    }

    /// Puts it in its slice, if the session knows that.
    pub(crate) fn dispatch(&self, session: &Session) {
        let dispatched = self.0.dispatch(session);
        if !dispatched.is_ok() {
            tracing::warn!(?dispatched, "a typed result was recorded with failures");
        }
    }
}

/// The form of the typed result that a prompt asks for.
pub(crate) fn output_spec(rendered: &RenderedPrompt) -> Option<Arc<OutputSpec>> {
    let contract = rendered.output()?;
    let (name, schema) = (Arc::clone(contract.name()), Arc::clone(contract.object_schema()));
    Some(Arc::new(OutputSpec { name, schema }))
}

/// Looks at the model's last word. Whether all is done is only asked about a result that fits; nobody takes it for done when that
/// cannot be found out.
pub(crate) async fn judge(
    prompt: &Prompt,
    rendered: &RenderedPrompt,
    executor: &Executor,
    text: &str,
) -> Result<Judged, StopReason> {
    let parsed = match rendered.output().map(|contract| contract.parse(text)).transpose() {
        Ok(parsed) => parsed,
        Err(error) => return Ok(Judged { output: Err(error), missing: None }),
    };
    let mut missing = None;
    if let Some(checker) = prompt.completion() {
        let mut cx = CompletionContext::new(executor.session(), text).with_resources(executor.resources());
        if let Some(parsed) = &parsed {
            cx = cx.with_output(parsed.json());
        }
        let said = cx.ask(&**checker).await.map_err(|error| StopReason::Runtime(error.to_string()))?;
        missing = match said {
            Completion::Complete => None,
            Completion::Missing(text) => Some(text.into()),
        };
    }
    Ok(Judged { output: Ok(parsed.map(Parsed)), missing })
}
