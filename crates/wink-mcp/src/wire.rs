//! What came over the wire, before anybody made a Rust value of it.
//!
//! The executor is given arguments as the client wrote them: whoever decodes and encodes them again loses duplicate keys,
//! depth and the spelling of numbers, and then the same call is answered differently here and elsewhere.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{NumberOrString, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;

const CALL: &str = "tools/call";

/// The arguments of a `tools/call`, as they were written. Travels beside the decoded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawArguments(pub(crate) Arc<str>);

/// A frame, looked at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// What is to be decoded, if it is not the frame as it came.
    pub(crate) rewritten: Option<Vec<u8>>,
    /// The arguments, if it is a call.
    pub(crate) arguments: Option<RawArguments>,
    /// Whether it asks for an answer: a request's id.
    pub(crate) request: Option<RequestId>,
    /// The method.
    pub(crate) method: Option<String>,
    /// The request that it cancels.
    pub(crate) cancels: Option<RequestId>,
}

/// A frame that is nothing to be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is not JSON.
    Syntax,
    /// It is JSON, and no message.
    Shape(Option<RequestId>, String),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CancelParams<'a> {
    #[serde(borrow, rename = "requestId", default)]
    request_id: Option<&'a RawValue>,
}

/// Looks at a frame. Bounded in depth by not going down: what is inside is skipped over, not decoded.
pub(crate) fn look(frame: &[u8]) -> Result<Frame, Unreadable> {
    let text = std::str::from_utf8(frame).map_err(|_| Unreadable::Syntax)?;
    if !is_object(text) {
        // A list would be read as the fields of a message, one after the other.
        return Err(match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Ok(_) => Unreadable::Shape(None, "a message is one object; batches are not taken".to_owned()),
            Err(_) => Unreadable::Syntax,
        });
    }
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Unreadable::Shape(None, format!("not a message: {error}")),
        _ => Unreadable::Syntax,
    })?;
    let id = envelope.id.map(read_id);
    let Some(method) = envelope.method else {
        return Ok(Frame { rewritten: None, arguments: None, request: None, method: None, cancels: None });
    };
    let request = match id {
        Some(Some(id)) => Some(id),
        Some(None) => return Err(Unreadable::Shape(None, "an id is a string or an integer".to_owned())),
        None => None,
    };
    let mut looked = Frame { rewritten: None, arguments: None, request, method: None, cancels: None };
    match (&*method, envelope.params) {
        (CALL, Some(params)) if is_object(params.get()) => {
            let parsed = serde_json::from_str::<CallParams<'_>>(params.get());
            let shape = |error: serde_json::Error| {
                Unreadable::Shape(looked.request.clone(), format!("params of {CALL}: {error}"))
            };
            let arguments = parsed.map_err(shape)?.arguments;
            let raw = arguments.map_or("", RawValue::get);
            looked.arguments = Some(RawArguments(raw.into()));
            let decodes = |raw: &str| serde_json::from_str::<serde_json::Map<_, _>>(raw).is_ok();
            if let Some(arguments) = arguments
                && !decodes(arguments.get())
            {
                // The executor says what is wrong with them; the decoder only has to let the call through.
                looked.rewritten = Some(without(text, arguments.get()));
            }
        }
        ("notifications/cancelled", Some(params)) => {
            let parsed = serde_json::from_str::<CancelParams<'_>>(params.get()).ok();
            looked.cancels = parsed.and_then(|params| params.request_id).and_then(read_id);
        }
        _ => {}
    }
    looked.method = Some(method.into_owned());
    Ok(looked)
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

fn read_id(raw: &RawValue) -> Option<RequestId> {
    let value = serde_json::from_str::<serde_json::Value>(raw.get()).ok()?;
    match value {
        serde_json::Value::String(text) => Some(NumberOrString::String(text.into())),
        serde_json::Value::Number(number) => number.as_i64().map(NumberOrString::Number),
        _ => None,
    }
}

/// `text` with `{}` in place of `part`, which is a piece of it.
fn without(text: &str, part: &str) -> Vec<u8> {
    let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let end = start.saturating_add(part.len());
    let (before, after) = (text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default());
    [before.as_bytes(), b"{}", after.as_bytes()].concat()
}

#[cfg(test)]
mod tests;
