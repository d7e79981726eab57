//! What is done with bytes before they are a message, for the fuzzer and the replay of its corpus. No part of the interface.

use rmcp::model::{NumberOrString, RequestId};
use serde_json::Value;

use crate::skim::Skim;
use crate::wire::{self, Unreadable};

/// How many values, and how deep, what is left to be decoded may be.
pub const BOUNDS: (usize, usize) = (wire::MOST_VALUES, wire::DEEPEST);

/// A frame that may be decoded.
#[derive(Debug)]
pub struct Looked {
    /// What is left to be decoded.
    pub decoded: Vec<u8>,
    /// The arguments of a call.
    pub arguments: Option<String>,
    /// The id of a request.
    pub id: Option<Value>,
    /// The method.
    pub method: Option<String>,
}

/// Looks at a frame; the reason if it is JSON and no message.
///
/// # Errors
/// When it is not to be decoded.
pub fn look(frame: &[u8]) -> Result<Looked, Option<String>> {
    let looked = wire::look(frame).map_err(|unreadable| match unreadable {
        Unreadable::Syntax => None,
        Unreadable::Shape(_, why) => Some(why),
    })?;
    Ok(Looked {
        decoded: looked.rewritten.unwrap_or_else(|| frame.to_vec()),
        arguments: looked.arguments.map(|arguments| arguments.0.as_ref().to_owned()),
        id: looked.request.map(id),
        method: looked.method,
    })
}

/// The id of a request that passes by in pieces of this many bytes.
pub fn skim(frame: &[u8], piece: usize) -> Option<Value> {
    let mut skim = Skim::default();
    frame.chunks(piece.max(1)).for_each(|piece| skim.pass(piece));
    skim.request().map(id)
}

fn id(id: RequestId) -> Value {
    match id {
        NumberOrString::Number(number) => number.into(),
        NumberOrString::String(text) => text.as_ref().into(),
    }
}
