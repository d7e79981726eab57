//! What came over the wire, before anybody made a Rust value of it.
//!
//! The executor is given arguments as the client wrote them: whoever decodes and encodes them again loses duplicate keys,
//! depth and the spelling of numbers, and then the same call is answered differently here and elsewhere. What is decoded is
//! counted first: values take far more memory than the bytes that they are written with.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{NumberOrString, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::room::LARGE;

const CALL: &str = "tools/call";
/// How long an id may be. Those that were used are remembered for a while.
const LONGEST_ID: usize = 256;
/// How many values there may be in a message beside the arguments of a call, names of fields included.
pub(crate) const MOST_VALUES: usize = 4096;
/// How deep they may be. The decoder itself takes a little more.
pub(crate) const DEEPEST: usize = 100;

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
    /// How many values are in it.
    pub(crate) values: usize,
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
    #[serde(borrow, default, deserialize_with = "written")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// A field that is there, also with `null` in it: a request whose id is that is no notification.
fn written<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(field).map(Some)
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

/// Looks at a frame. Bounded in depth and memory by not going down: what is inside is skipped over, not decoded.
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
    let request = match (&envelope.method, envelope.id.map(|id| read_id(id.get()))) {
        (Some(_), Some(None)) => {
            let why = format!("an id is an integer, or a string of at most {LONGEST_ID} bytes");
            return Err(Unreadable::Shape(None, why));
        }
        (Some(_), id) => id.flatten(),
        // The id of an answer is one of ours.
        (None, _) => None,
    };
    let mut looked =
        Frame { rewritten: None, arguments: None, request, method: None, cancels: None, values: 0 };
    let mut beside = Measure::of(text);
    looked.values = beside.values;
    match (envelope.method.as_deref(), envelope.params) {
        (Some(CALL), Some(params)) if is_object(params.get()) => {
            let parsed = serde_json::from_str::<CallParams<'_>>(params.get());
            let shape = |error: serde_json::Error| {
                Unreadable::Shape(looked.request.clone(), format!("params of {CALL}: {error}"))
            };
            let arguments = parsed.map_err(shape)?.arguments;
            looked.arguments = Some(RawArguments(arguments.map_or("", RawValue::get).into()));
            if let Some(arguments) = arguments.map(RawValue::get) {
                let within = Measure::of(arguments);
                if within.is_small() && arguments.len() <= LARGE && decodes(arguments) {
                    beside.values = beside.values.saturating_sub(within.values);
                } else {
                    // The executor says what is wrong with them, if anything is; the decoder only has to let the call through.
                    let rewritten = without(text, arguments);
                    beside = Measure::of(&rewritten);
                    looked.rewritten = Some(rewritten.into_bytes());
                }
            }
        }
        (Some("notifications/cancelled"), Some(params)) => {
            let parsed = serde_json::from_str::<CancelParams<'_>>(params.get()).ok();
            looked.cancels = parsed.and_then(|params| params.request_id).and_then(|id| read_id(id.get()));
        }
        _ => {}
    }
    if !beside.is_small() {
        let why = format!(
            "beside the arguments of a call, a message has at most {MOST_VALUES} values and is at most {DEEPEST} levels deep"
        );
        return Err(Unreadable::Shape(looked.request, why));
    }
    looked.method = envelope.method.map(Cow::into_owned);
    Ok(looked)
}

/// The id of a request, as it is written.
pub(crate) fn read_id(raw: &str) -> Option<RequestId> {
    match raw.bytes().next()? {
        b'"' => {
            let text = serde_json::from_str::<Cow<'_, str>>(raw).ok()?;
            (text.len() <= LONGEST_ID).then(|| NumberOrString::String(text.into()))
        }
        _ => serde_json::from_str::<i64>(raw).ok().map(NumberOrString::Number),
    }
}

/// How much there is to be decoded in a piece of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Measure {
    values: usize,
    depth: usize,
}

impl Measure {
    /// Of sound JSON; of anything else, some numbers.
    fn of(json: &str) -> Self {
        let mut measure = Self { values: 1, depth: 0 };
        let mut depth = 0_usize;
        let mut bytes = json.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => {
                    while let Some(byte) = bytes.next() {
                        match byte {
                            b'"' => break,
                            b'\\' => drop(bytes.next()),
                            _ => {}
                        }
                    }
                }
                b'[' | b'{' => {
                    depth = depth.saturating_add(1);
                    measure.depth = measure.depth.max(depth);
                    measure.values = measure.values.saturating_add(1);
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                b',' | b':' => measure.values = measure.values.saturating_add(1),
                _ => {}
            }
        }
        measure
    }

    fn is_small(self) -> bool {
        self.values <= MOST_VALUES && self.depth <= DEEPEST
    }
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

fn decodes(arguments: &str) -> bool {
    serde_json::from_str::<serde_json::Map<_, _>>(arguments).is_ok()
}

/// `text` with `{}` in place of `part`, which is a piece of it.
fn without(text: &str, part: &str) -> String {
    let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let end = start.saturating_add(part.len());
    let (before, after) = (text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default());
    [before, "{}", after].concat()
}

#[cfg(test)]
mod tests;
