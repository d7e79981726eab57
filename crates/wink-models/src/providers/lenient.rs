//! Parts of answers as servers really write them: counts that are none, null for what is left out, arguments that are no text. What is
//! odd in them is not guessed at: a count that is none is not there, and arguments are what was written, for the tool to judge.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// How many; nothing, if it is no such number.
pub(super) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Value::deserialize(from)?.as_u64())
}

/// Something; nothing, if it is something else.
pub(super) fn or_none<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).ok())
}

/// Something; what it is by default, if it is null.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// The arguments of a call: their text; or the JSON of what is there in its place.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written(pub(super) String);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        let text = raw.get();
        Ok(Self(match text.as_bytes().first() {
            Some(b'"') => serde_json::from_str(text).map_err(serde::de::Error::custom)?,
            _ if text == "null" => String::new(),
            _ => text.to_owned(),
        }))
    }
}

/// The text of a message: as one, or in parts.
pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let part = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
    Ok(match Value::deserialize(from)? {
        Value::String(text) => Some(text),
        Value::Array(parts) => Some(parts.iter().filter_map(part).collect()),
        _ => None,
    })
}
