//! How values become text for the model, and how that text is bounded.

use std::any::Any;
use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::result::RenderError;

/// The default rendering of a value: a string as it is, nothing as the empty string, a sequence as one item per
/// line, a struct or map as compact JSON without nulls.
pub(crate) fn default_text<R: Serialize + Any>(value: &R) -> Result<Cow<'_, str>, RenderError> {
    let any: &dyn Any = value;
    if let Some(text) = any.downcast_ref::<String>() {
        return Ok(Cow::Borrowed(text));
    }
    if any.is::<()>() {
        return Ok(Cow::Borrowed(""));
    }
    json_text(value).map(Cow::Owned)
}

/// Like [`default_text`], for any serialisable value.
pub(crate) fn json_text<R: Serialize + ?Sized>(value: &R) -> Result<String, RenderError> {
    let value = serde_json::to_value(value).map_err(|error| RenderError(error.to_string()))?;
    Ok(value_text(value))
}

/// The rules, on JSON.
pub(crate) fn value_text(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Array(items) => items.into_iter().map(value_text).collect::<Vec<_>>().join("\n"),
        other => without_nulls(other).to_string(),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(k, v)| (k, without_nulls(v)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Message, blank line, value; either alone when the other is empty.
pub(crate) fn answer_text<'a>(message: &'a str, value: &'a str) -> Cow<'a, str> {
    match (message.is_empty(), value.is_empty()) {
        (true, _) => Cow::Borrowed(value),
        (false, true) => Cow::Borrowed(message),
        (false, false) => Cow::Owned(format!("{message}\n\n{value}")),
    }
}

/// At most `bound` bytes of `text`, cut on a character boundary, with a marker that says so.
pub(crate) fn bounded(text: &str, bound: usize) -> Cow<'_, str> {
    if text.len() <= bound {
        return Cow::Borrowed(text);
    }
    let marker = format!("\n[output cut: {} bytes in all]", text.len());
    let room = bound.saturating_sub(marker.len());
    let end = text.floor_char_boundary(room);
    let kept = text.get(..end).unwrap_or_default();
    let whole = format!("{kept}{marker}");
    if whole.len() <= bound {
        return Cow::Owned(whole);
    }
    // A bound too small even for the marker.
    let end = text.floor_char_boundary(bound);
    Cow::Owned(text.get(..end).unwrap_or_default().to_owned())
}
