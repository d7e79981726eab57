//! An answer of Anthropic's, event by event.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::response::{Block, Usage, response};
use crate::providers::api::{Events, Progress};
use crate::providers::{error, lenient};
use crate::{Called, ModelError, ModelResponse, Piece, Stream, sse};

/// Any event: which fields there are depends on its type.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: usize,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    delta: Delta,
    message: Option<Begun>,
    #[serde(default, deserialize_with = "lenient::or_none")]
    usage: Option<Usage>,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct Begun {
    #[serde(default, deserialize_with = "lenient::or_none")]
    usage: Option<Usage>,
}

/// More of a block, or the end of the message.
#[derive(Default, Deserialize)]
struct Delta {
    text: Option<String>,
    partial_json: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    stop_reason: Option<String>,
}

/// What has arrived.
#[derive(Default)]
pub(super) struct Collected {
    blocks: Vec<Building>,
    stop_reason: Option<String>,
    usage: Usage,
    ended: bool,
}

/// A block, and the input that arrives for it as text.
struct Building {
    block: Block,
    input: String,
}

impl Building {
    fn finish(self) -> Result<Block, ModelError> {
        Ok(match self.block {
            block if self.input.is_empty() => block,
            Block::Call(call) => Block::Call(Called { arguments: self.input.into(), ..call }),
            Block::Other(mut value) => {
                let input = serde_json::from_str(&self.input).map_err(error::malformed)?;
                if let Some(fields) = value.as_object_mut() {
                    fields.insert("input".to_owned(), input);
                }
                Block::Other(value)
            }
            block @ Block::Text(_) => block,
        })
    }
}

impl Collected {
    fn begin(&mut self, index: usize, block: &RawValue, stream: &dyn Stream) -> Result<(), ModelError> {
        if index != self.blocks.len() {
            return Err(error::malformed(format_args!("block {index} comes out of turn")));
        }
        let block = Block::read(block)?;
        match &block {
            Block::Text(text) if !text.is_empty() => stream.piece(Piece::Text(text)),
            Block::Call(call) => stream.piece(Piece::Call { name: &call.name }),
            Block::Text(_) | Block::Other(_) => {}
        }
        self.blocks.push(Building { block, input: String::new() });
        Ok(())
    }

    fn add(&mut self, index: usize, delta: Delta, stream: &dyn Stream) -> Result<(), ModelError> {
        let unknown = || error::malformed(format_args!("block {index} has not begun"));
        let building = self.blocks.get_mut(index).ok_or_else(unknown)?;
        building.input.push_str(delta.partial_json.as_deref().unwrap_or_default());
        match &mut building.block {
            Block::Text(text) => {
                let more = delta.text.unwrap_or_default();
                stream.piece(Piece::Text(&more));
                text.push_str(&more);
            }
            Block::Other(value) => {
                if let Some(more) = &delta.thinking {
                    stream.piece(Piece::Thinking(more));
                    append(value, "thinking", more);
                }
                if let Some(more) = &delta.signature {
                    append(value, "signature", more);
                }
            }
            Block::Call(_) => {}
        }
        Ok(())
    }
}

fn append(block: &mut Value, name: &str, more: &str) {
    let Some(fields) = block.as_object_mut() else { return };
    match fields.get_mut(name) {
        Some(Value::String(text)) => text.push_str(more),
        _ => drop(fields.insert(name.to_owned(), more.into())),
    }
}

impl Events for Collected {
    fn take(&mut self, event: &sse::Event, stream: &dyn Stream) -> Result<Progress, ModelError> {
        let event: Event<'_> = serde_json::from_str(&event.data).map_err(error::malformed)?;
        match &*event.kind {
            "content_block_start" => {
                let block =
                    event.content_block.ok_or_else(|| error::malformed("a block without its beginning"))?;
                self.begin(event.index, block, stream)?;
            }
            "content_block_delta" => self.add(event.index, event.delta, stream)?,
            "message_start" => {
                self.usage.update(event.message.and_then(|message| message.usage).unwrap_or_default())
            }
            "message_delta" => {
                self.stop_reason = event.delta.stop_reason;
                self.usage.update(event.usage.unwrap_or_default());
            }
            "message_stop" => {
                self.ended = true;
                return Ok(Progress::Ended);
            }
            "error" => return Err(error::of_object(&event.error)),
            // Pings, ends of blocks, and what may be added.
            _ => {}
        }
        Ok(Progress::More)
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        if !self.ended {
            return Err(error::ended_early());
        }
        let blocks = self.blocks.into_iter().map(Building::finish).collect::<Result<_, _>>()?;
        Ok(response(blocks, self.stop_reason.as_deref(), self.usage))
    }
}
