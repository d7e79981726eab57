//! An answer of Chat Completions, chunk by chunk.

use serde::Deserialize;
use serde_json::Value;

use super::Chat;
use super::response::{self, Usage};
use crate::providers::api::{Api, Asked, Events, Progress};
use crate::providers::error;
use crate::providers::lenient::{self, Written};
use crate::providers::openai::{arguments, made_up_id};
use crate::{Called, ModelError, ModelResponse, Piece, Stream, sse};

#[derive(Deserialize)]
struct Chunk {
    #[serde(default, deserialize_with = "lenient::or_default")]
    choices: Vec<Choice>,
    #[serde(default, deserialize_with = "lenient::or_none")]
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default, deserialize_with = "lenient::count")]
    index: Option<u64>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Delta {
    #[serde(default, deserialize_with = "lenient::text")]
    content: Option<String>,
    refusal: Option<String>,
    /// What most servers beside OpenAI call what the model thinks.
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<usize>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Written>,
}

/// What has arrived.
pub(super) struct Collected<'a> {
    chat: &'a Chat,
    asked: &'a Asked<'a>,
    said: response::Collected,
    calls: Vec<Building>,
    ended: bool,
}

struct Building {
    index: usize,
    id: String,
    name: String,
    arguments: String,
}

impl<'a> Collected<'a> {
    pub(super) fn new(chat: &'a Chat, asked: &'a Asked<'a>) -> Self {
        Self { chat, asked, said: response::Collected::default(), calls: Vec::new(), ended: false }
    }

    fn add(&mut self, delta: Delta, stream: &dyn Stream) {
        if let Some(more) = delta.reasoning_content.filter(|more| !more.is_empty()) {
            stream.piece(Piece::Thinking(&more));
        }
        // What is held to our schema is nothing to show before it is read.
        let stream = if self.chat.writes_for_us(self.asked) { &() } else { stream };
        if let Some(more) = delta.content.filter(|more| !more.is_empty()) {
            stream.piece(Piece::Text(&more));
            self.said.text.push_str(&more);
        }
        if let Some(more) = delta.refusal {
            stream.piece(Piece::Text(&more));
            self.said.refusal.push_str(&more);
        }
        delta.tool_calls.unwrap_or_default().into_iter().for_each(|call| self.add_call(call, stream));
    }

    fn add_call(&mut self, delta: CallDelta, stream: &dyn Stream) {
        let id = delta.id.unwrap_or_default();
        // Servers that send no index send each call as a whole.
        let index = delta.index.unwrap_or(self.calls.len());
        let function = delta.function.unwrap_or(FunctionDelta { name: None, arguments: None });
        // The one that is being written is the last, almost always. Another id is another call, whatever its place.
        let is_same =
            |call: &Building| call.index == index && (id.is_empty() || call.id.is_empty() || call.id == id);
        let place = match self.calls.iter().rposition(is_same) {
            Some(place) => place,
            None => {
                let name = function.name.clone().unwrap_or_default();
                stream.piece(Piece::Call { name: &name });
                self.calls.push(Building { index, id: id.clone(), name, arguments: String::new() });
                self.calls.len() - 1
            }
        };
        if let Some(call) = self.calls.get_mut(place) {
            if call.name.is_empty() {
                call.name = function.name.unwrap_or_default();
            }
            if call.id.is_empty() {
                call.id = id;
            }
            call.arguments.push_str(&function.arguments.unwrap_or_default().0);
        }
    }
}

impl Events for Collected<'_> {
    fn take(&mut self, event: &sse::Event, stream: &dyn Stream) -> Result<Progress, ModelError> {
        if event.data.trim() == "[DONE]" {
            return Ok(Progress::Ended);
        }
        let chunk: Chunk = serde_json::from_str(&event.data).map_err(error::malformed)?;
        if let Some(said) = chunk.error.filter(|error| !error.is_null()) {
            return Err(error::of_object(&said));
        }
        if let Some(usage) = chunk.usage {
            self.said.usage = usage;
        }
        // One is asked for; whoever sends more sends them in turns.
        if let Some(choice) = chunk.choices.into_iter().find(|choice| choice.index.unwrap_or(0) == 0) {
            self.add(choice.delta, stream);
            self.ended |= choice.finish_reason.is_some();
            // What was cut off stays so, whatever is said after that.
            let cut = self.said.finish_reason.take_if(|reason| reason == "length");
            self.said.finish_reason = cut.or(choice.finish_reason).or(self.said.finish_reason.take());
        }
        Ok(Progress::More)
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        let Self { chat, asked, said, calls, ended } = *self;
        if !ended {
            return Err(error::ended_early());
        }
        let calls = calls.into_iter().map(|call| {
            let id = if call.id.is_empty() { made_up_id() } else { call.id.into() };
            Called { id, name: call.name.into(), arguments: arguments(&call.arguments) }
        });
        let said = response::Collected { calls: calls.collect(), ..said };
        Ok(chat.finish(said.response(), asked))
    }
}
