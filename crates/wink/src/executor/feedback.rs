//! Feedback: what providers add to an answer after a call.

use std::sync::Arc;

use super::call::Call;

/// Adds a block to answers when its trigger fires.
pub trait FeedbackProvider: Send + Sync + 'static {}

/// The providers of an executor.
pub(super) struct Board {
    providers: Vec<Arc<dyn FeedbackProvider>>,
}

impl Board {
    pub(super) fn new(providers: Vec<Arc<dyn FeedbackProvider>>) -> Self {
        Self { providers }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.providers.is_empty()
    }
}

impl Call {
    pub(super) async fn feedback(&mut self) {
        if self.shared.feedback.is_empty() {}
    }
}
