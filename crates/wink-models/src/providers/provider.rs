//! A model behind an API: the one way that a request takes, whatever the wire format.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, Once, PoisonError};

use wink::BoxFuture;
use wink::limits::CancelToken;

use super::api::{Api, Asked, Progress};
use super::endpoint::{Endpoint, SetupError, Streaming};
use super::error;
use super::estimate::{self, UNSAID};
use super::http::{Answer, Wire};
use super::told::Told;
use crate::dialect::{Dialect, LoweredTools, lower_tools, without_nulls};
use crate::recording::Scrubber;
use crate::scripted::tell;
use crate::{Model, ModelError, ModelRequest, ModelResponse, OutputSpec, Stop, Stream, ToolSpec, sse};

/// More calls than this in one response are no answer.
const MAX_CALLS: usize = 1_024;

/// A model behind an HTTP API. Made from a wire format and an [`Endpoint`]: `openai::Chat::new("a-model").at(endpoint)`.
pub struct Provider {
    api: Box<dyn Api>,
    wire: Wire,
    streaming: Streaming,
    /// The tools of the last request. Every turn of a conversation has the same.
    last: Mutex<Option<Known>>,
    /// Whether it was said that what answers cost is not.
    said: Once,
}

struct Known {
    tools: Arc<[ToolSpec]>,
    output: Option<Arc<OutputSpec>>,
    lowered: Arc<LoweredTools>,
}

impl Known {
    fn is_for(&self, request: &ModelRequest) -> bool {
        let same_output = match (&self.output, &request.output) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        Arc::ptr_eq(&self.tools, &request.tools) && same_output
    }
}

impl Provider {
    pub(super) fn new(api: impl Api, endpoint: Endpoint) -> Result<Self, SetupError> {
        let streaming = endpoint.streaming;
        let wire = Wire::new(endpoint, &api)?;
        Ok(Self { api: Box::new(api), wire, streaming, last: Mutex::new(None), said: Once::new() })
    }

    fn lowered(&self, request: &ModelRequest) -> Arc<LoweredTools> {
        // What is lost in a panic is only what was remembered.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last.as_ref().filter(|known| known.is_for(request)) {
            return Arc::clone(&known.lowered);
        }
        let lowered = Arc::new(lower_tools(&request.tools, request.output.as_deref(), self.api.dialect()));
        let (tools, output) = (Arc::clone(&request.tools), request.output.clone());
        *last = Some(Known { tools, output, lowered: Arc::clone(&lowered) });
        lowered
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        stream: &dyn Stream,
        cancel: &CancelToken,
    ) -> Result<ModelResponse, ModelError> {
        let asked =
            Asked { request, lowered: self.lowered(request), streamed: self.streaming == Streaming::On };
        let body = self.api.body(&asked)?;
        let sent = body.len();
        let answer = self.wire.post(body, cancel).await?;
        // What comes decides, and not what was asked for: some servers do not stream everything.
        let streams = answer.is_event_stream();
        let response = match streams {
            true => {
                let told = Told::new(self.wire.scrubber(), stream);
                let response = self.follow(answer, &asked, &told).await?;
                told.end();
                response
            }
            false => self.api.response(&answer.whole().await?, &asked)?,
        };
        if response.calls.len() > MAX_CALLS {
            return Err(error::malformed(format_args!("there are more than {MAX_CALLS} calls")));
        }
        // A provider that repeats a key does not have it written down.
        let response = self.wire.scrubber().said(restored(response, &asked, self.api.dialect()));
        let response = self.counted(sent, response);
        // Whoever watches sees the same of every answer, if not as early.
        if !streams || self.api.writes_for_us(&asked) {
            tell(stream, &response);
        }
        Ok(response)
    }

    /// The response with what it cost: as the server says, also if it says 0; estimated where it says nothing.
    fn counted(&self, sent: usize, mut response: ModelResponse) -> ModelResponse {
        let may_be = estimate::usage(sent, &response);
        let usage = &mut response.usage;
        if usage.input_tokens == UNSAID || usage.output_tokens == UNSAID {
            self.said.call_once(|| {
                let model = self.api.model();
                tracing::warn!(model, "the server does not say what its answers cost: tokens are estimated");
            });
            for (told, may_be) in [
                (&mut usage.input_tokens, may_be.input_tokens),
                (&mut usage.output_tokens, may_be.output_tokens),
            ] {
                if *told == UNSAID {
                    *told = may_be;
                }
            }
        }
        response
    }

    async fn follow(
        &self,
        mut answer: Answer<'_>,
        asked: &Asked<'_>,
        stream: &dyn Stream,
    ) -> Result<ModelResponse, ModelError> {
        let mut parser = sse::Parser::default();
        let mut events = self.api.events(asked);
        while let Some(chunk) = answer.chunk().await? {
            for event in parser.feed(&chunk).map_err(error::malformed)? {
                if events.take(&event, stream)? == Progress::Ended {
                    return events.finish();
                }
            }
        }
        events.finish()
    }
}

impl Model for Provider {
    fn name(&self) -> &str {
        self.api.model()
    }

    fn scrubber(&self) -> Scrubber {
        self.wire.scrubber().clone()
    }

    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        stream: &'a dyn Stream,
        cancel: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(
            async move { self.ask(request, stream, cancel).await.map_err(|error| self.wire.masked(error)) },
        )
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("model", &self.api.model()).finish_non_exhaustive()
    }
}

/// The response without what lowering the schemas has added to it.
fn restored(mut response: ModelResponse, asked: &Asked<'_>, dialect: Dialect) -> ModelResponse {
    if dialect == Dialect::OpenAi {
        for call in &mut response.calls {
            let mut tools = asked.request.tools.iter().zip(&asked.lowered.tools);
            if let Some((tool, _)) = tools.find(|(tool, lowered)| tool.name == call.name && lowered.strict)
                && let Some(arguments) = changed(without_nulls(&call.arguments, &tool.parameters))
            {
                call.arguments = arguments.into();
            }
        }
    }
    if let Some(output) = &asked.lowered.output
        && response.calls.is_empty()
        && response.stop == Stop::Complete
        && let Some(text) = changed(output.restore(&response.text))
    {
        response.text = text.into();
    }
    response
}

fn changed(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    }
}
