//! An answer of the Responses API, event by event. The last event has all of it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::response;
use crate::providers::api::{Events, Progress};
use crate::providers::error;
use crate::{ModelError, ModelResponse, Piece, Stream, sse};

/// Any event: which fields there are depends on its type.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    delta: Option<Value>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    /// Where an error is told in an object of its own.
    error: Option<Value>,
}

/// What has arrived.
#[derive(Default)]
pub(super) struct Collected {
    items: Vec<Box<RawValue>>,
    response: Option<String>,
}

impl Events for Collected {
    fn take(&mut self, event: &sse::Event, stream: &dyn Stream) -> Result<Progress, ModelError> {
        let data = &event.data;
        // Servers that speak the older API as well end this way.
        if data.trim() == "[DONE]" {
            return Ok(Progress::Ended);
        }
        let event: Event<'_> = serde_json::from_str(data).map_err(error::malformed)?;
        let delta = event.delta.as_ref().and_then(Value::as_str).unwrap_or_default();
        match &*event.kind {
            "response.output_text.delta" | "response.refusal.delta" => stream.piece(Piece::Text(delta)),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                stream.piece(Piece::Thinking(delta));
            }
            "response.output_item.added" => {
                let item = event.item.map_or("null", RawValue::get);
                let item: Value = serde_json::from_str(item).map_err(error::malformed)?;
                if item.get("type").is_some_and(|name| name == "function_call") {
                    stream.piece(Piece::Call {
                        name: item.get("name").and_then(Value::as_str).unwrap_or_default(),
                    });
                }
            }
            "response.output_item.done" => self.items.extend(event.item.map(ToOwned::to_owned)),
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.response = event.response.map(|response| response.get().to_owned());
                return Ok(Progress::Ended);
            }
            "error" => {
                let whole = || serde_json::from_str(data).unwrap_or_default();
                return Err(error::of_object(&event.error.unwrap_or_else(whole)));
            }
            _ => {}
        }
        Ok(Progress::More)
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        let response = self.response.ok_or_else(error::ended_early)?;
        response::read(response.as_bytes(), self.items)
    }
}
