//! What one call is given beside what its executor has.

use std::sync::{Arc, OnceLock};

use super::approve::Approver;
use super::call::Call;
use super::outcome::{Escalation, ExpansionError, Outcome, ToolCall};
use super::{Executor, Shared};
use crate::limits::CancelToken;
use crate::session::InvocationId;
use crate::tool::VisibilityExpansionRequired;
use crate::tool::context::{Progress, Surroundings};

/// What one call has of its own: an executor serves many callers, and each of them wants to be asked and told itself.
#[derive(Clone, Default)]
#[must_use = "options do nothing until a call is made with them"]
pub struct CallOptions {
    cancel: Option<CancelToken>,
    approver: Option<Arc<dyn Approver>>,
    progress: Option<Arc<dyn Progress>>,
    noted: Option<Arc<OnceLock<InvocationId>>>,
}

impl CallOptions {
    /// A call like any other.
    pub fn new() -> Self {
        Self::default()
    }

    /// Who can cancel this call.
    pub fn cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Who is asked about this call, instead of whom the executor would ask.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Who is told how far this call is, instead of whom the executor would tell.
    pub fn progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Where it is noted what the call is known as in the log, as soon as it begins.
    pub fn note_id(mut self, noted: Arc<OnceLock<InvocationId>>) -> Self {
        self.noted = Some(noted);
        self
    }

    fn call(self, shared: &Arc<Shared>, call: ToolCall) -> Box<Call> {
        let mut call = Call::new(shared, call, self.cancel);
        call.approver = self.approver;
        if let Some(noted) = self.noted {
            // Options that are used twice tell of the first call.
            let _ = noted.set(call.invocation.id);
        }
        if self.progress.is_some() {
            call.around =
                Arc::new(Surroundings { progress: self.progress, ..Surroundings::clone(&call.around) });
        }
        call
    }
}

impl std::fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallOptions")
            .field("cancel", &self.cancel)
            .field("approver", &self.approver.is_some())
            .field("progress", &self.progress.is_some())
            .finish()
    }
}

impl Executor {
    /// Like [`Executor::call`], for a caller of whom there are several.
    pub async fn call_with(&self, call: ToolCall, options: CallOptions) -> Outcome {
        options.call(&self.shared, call).run().await
    }

    /// Like [`Executor::call_with`], for whoever hands the answer on and nothing else: sections that the call asks to have opened are
    /// opened, and that is stored, before there is an answer that says so. The escalation is still there, to be told from a
    /// result. If they cannot be opened, the answer says that instead, and it is [`Escalation::NotOpened`].
    pub async fn drive(&self, call: ToolCall, options: CallOptions) -> Outcome {
        let mut outcome = self.call_with(call, options).await;
        if let Some(Escalation::Visibility(expansion)) = &outcome.escalation
            && let Err(error) = self.open_for_good(expansion).await
        {
            tracing::error!(%error, "sections that a call asked for were not opened");
            outcome.answer.text = format!("{} failed: {error}", outcome.answer.tool).into();
            outcome.escalation = Some(Escalation::NotOpened(error));
        }
        outcome
    }

    async fn open_for_good(&self, expansion: &VisibilityExpansionRequired) -> Result<(), ExpansionError> {
        self.expand(expansion)?;
        Ok(self.shared.session.flush().await?)
    }
}
