//! What a wire format has to do.

use std::sync::Arc;

use crate::dialect::{Dialect, LoweredTools};
use crate::{Message, ModelError, ModelRequest, ModelResponse, Stream, sse};

/// One wire format: how a request is written, and how an answer is read.
pub(super) trait Api: Send + Sync + 'static {
    /// The model's name.
    fn model(&self) -> &str;

    /// Where requests go, after the base URL.
    fn path(&self) -> &'static str;

    /// The header that has the key, and what stands before the key.
    fn key_header(&self) -> (&'static str, &'static str);

    /// Headers of every request.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// In which words schemas are sent.
    fn dialect(&self) -> Dialect;

    /// Writes a request.
    fn body(&self, asked: &Asked<'_>) -> Result<Vec<u8>, ModelError>;

    /// Reads an answer that came as a whole.
    fn response(&self, answer: &[u8], asked: &Asked<'_>) -> Result<ModelResponse, ModelError>;

    /// Whether what the model writes is in a form of ours, and nothing to show before it is read.
    fn writes_for_us(&self, _: &Asked<'_>) -> bool {
        false
    }

    /// Begins to read an answer that comes as events.
    fn events<'a>(&'a self, asked: &'a Asked<'a>) -> Box<dyn Events + 'a>;
}

/// What is asked, in the provider's words.
pub(super) struct Asked<'a> {
    pub(super) request: &'a ModelRequest,
    /// In the order of the request's tools.
    pub(super) lowered: Arc<LoweredTools>,
    pub(super) streamed: bool,
}

impl<'a> Asked<'a> {
    /// The prompt, and who says it.
    ///
    /// Providers want something to answer. Where nobody has said anything yet, that is the prompt itself.
    pub(super) fn prompt(&self) -> Prompt<'a> {
        match self.request.messages.front().map(|message| &**message) {
            Some(Message::User { .. }) => Prompt::System(&self.request.prompt),
            _ => Prompt::User(&self.request.prompt),
        }
    }
}

/// The prompt in its role.
pub(super) enum Prompt<'a> {
    System(&'a str),
    User(&'a str),
}

/// Puts a response together from events.
pub(super) trait Events: Send {
    /// Takes an event.
    fn take(&mut self, event: &sse::Event, stream: &dyn Stream) -> Result<Progress, ModelError>;

    /// The response, once it has ended, or the stream with it.
    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError>;
}

/// Whether more is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Ended,
}
