//! Arguments of past calls, as providers take them back.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

/// What a model wrote as arguments. Providers want an object there, also where the model wrote none.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Arguments<'a> {
    /// An object, byte for byte.
    Object(&'a RawValue),
    /// Something else, as the model wrote it.
    Invalid { invalid: &'a str },
}

impl<'a> Arguments<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) if raw.get().starts_with('{') => Self::Object(raw),
            _ => Self::Invalid { invalid: text },
        }
    }

    /// As text.
    pub(super) fn text(text: &'a str) -> Cow<'a, str> {
        match Self::new(text) {
            Self::Object(raw) => raw.get().into(),
            invalid @ Self::Invalid { .. } => serde_json::to_string(&invalid).unwrap_or_default().into(),
        }
    }
}
