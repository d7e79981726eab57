//! Evaluations for callers that have no runtime.

use tokio::runtime::{Builder, Handle};
use wink::prompt::Prompt;
use wink::session::Session;

use crate::adapter::{Adapter, Evaluation, PromptResponse, Stopped};
use crate::conversation::{RunStats, StopReason};

/// Evaluates a prompt on this thread, and returns when that is over.
///
/// ```
/// use std::sync::Arc;
/// use wink::prelude::*;
/// use wink_models::{Evaluation, ModelAdapter, ScriptedModel, blocking};
///
/// let adapter = ModelAdapter::new(Arc::new(ScriptedModel::parse(r#"{"text": "It is 42."}"#)?));
/// let section = Section::markdown("sums", "Sums").body("Add.");
/// let prompt = PromptTemplate::builder("examples", "sums").section(section).build()?.prompt();
/// let evaluation = Evaluation::new().task("What is 2 + 40?");
/// let response = blocking::evaluate(&adapter, &prompt, &Session::new(), evaluation)?;
/// assert_eq!(&*response.text, "It is 42.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the run is stopped before the model is done; also when this thread is a runtime's, which must not be held up:
/// [`Adapter::evaluate`] is for that.
pub fn evaluate(
    adapter: &dyn Adapter,
    prompt: &Prompt,
    session: &Session,
    evaluation: Evaluation,
) -> Result<PromptResponse, Stopped> {
    let named = evaluation.run.run_id.as_deref().unwrap_or_default().into();
    let never = |reason: String| Stopped {
        run_id: named,
        reason: StopReason::Runtime(reason),
        stats: RunStats::default(),
    };
    if Handle::try_current().is_ok() {
        return Err(never("this thread is a runtime's, and would hold it up".to_owned()));
    }
    match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(adapter.evaluate(prompt, session, evaluation)),
        Err(error) => Err(never(format!("there is no runtime to be had: {error}"))),
    }
}
