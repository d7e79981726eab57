//! Who answers, in every result of the revisions that want it there.
//!
//! Done to the bytes that go out, since there all results pass, also those that the protocol's own service makes, and those
//! whose type there has no place for it. What is written stays as it was.

use std::borrow::Cow;
use std::fmt;

use rmcp::model::{Implementation, JsonObject};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Where a result says it.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The name of a server, as it is written into its results.
#[derive(Debug, Clone)]
pub(crate) struct Signature(String);

impl Signature {
    pub(crate) fn of(server: &Implementation) -> Self {
        let mut meta = JsonObject::new();
        // A name and a version: there is nothing in them that cannot be written.
        meta.insert(SERVER_INFO.to_owned(), serde_json::to_value(server).unwrap_or_default());
        Self(serde_json::to_string(&meta).unwrap_or_default())
    }

    /// The field, without the braces around it.
    fn field(&self) -> &str {
        self.0.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default()
    }

    /// A message that goes out, signed if it is a result that is. Which are: those with a `resultType`, which there is only
    /// in revisions that want it.
    pub(crate) fn sign(&self, message: Vec<u8>) -> Vec<u8> {
        self.signed(&message).unwrap_or(message)
    }

    /// What goes out of a stream of events: one of them, whole, or something that is none.
    pub(crate) fn sign_event(&self, event: &[u8]) -> Option<Vec<u8>> {
        const DATA: &[u8] = b"data:";
        let is_data = |line: &&[u8]| line.starts_with(DATA);
        let line = event.split(|byte| *byte == b'\n').find(is_data)?;
        let message = line.strip_prefix(DATA)?;
        let signed = self.signed(message)?;
        let at = offset(event, message);
        let (before, rest) = (event.get(..at)?, event.get(at.checked_add(message.len())?..)?);
        Some([before, &signed, rest].concat())
    }

    fn signed(&self, message: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(message).ok()?;
        let result = serde_json::from_str::<Answer<'_>>(text).ok()?.result?.get();
        let fields = serde_json::from_str::<Fields<'_>>(result).ok()?;
        if !fields.has_type {
            return None;
        }
        let (object, field) = match fields.meta.map(RawValue::get) {
            Some(meta) => {
                let known = serde_json::from_str::<JsonObject>(meta).ok()?;
                if known.contains_key(SERVER_INFO) {
                    return None;
                }
                (meta, if known.is_empty() { self.field().to_owned() } else { format!(",{}", self.field()) })
            }
            None => (result, format!(",\"_meta\":{}", self.0)),
        };
        // Before the brace that closes it.
        let end = offset(message, object.as_bytes()).checked_add(object.len())?.checked_sub(1)?;
        let (before, rest) = (text.get(..end)?, text.get(end..)?);
        Some([before, &field, rest].concat().into_bytes())
    }
}

/// Where `part` begins, which is a piece of `whole`.
fn offset(whole: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
}

/// What is looked at in a result. Nothing else is decoded: it may be large.
#[derive(Default)]
struct Fields<'a> {
    has_type: bool,
    meta: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(result: D) -> Result<Self, D::Error> {
        struct Look;

        impl<'de> Visitor<'de> for Look {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Fields::default();
                while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                    match &*name {
                        "_meta" => fields.meta = Some(map.next_value()?),
                        name => {
                            fields.has_type |= name == "resultType";
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(fields)
            }
        }

        result.deserialize_map(Look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = r#""io.modelcontextprotocol/serverInfo":{"name":"w","version":"1"}"#;

    fn signed(message: &str) -> String {
        let signature = Signature::of(&Implementation::new("w", "1"));
        String::from_utf8(signature.sign(message.as_bytes().to_vec())).unwrap_or_default()
    }

    #[test]
    fn results_that_say_their_type_are_signed_and_nothing_else_is_changed() {
        for (message, expected) in [
            (
                r#"{"id":1,"result":{"resultType":"complete"}}"#,
                format!(r#"{{"id":1,"result":{{"resultType":"complete","_meta":{{{NAME}}}}}}}"#),
            ),
            (
                r#"{"result":{"_meta":{"a":{}},"x":1.0e2,"x":2,"resultType":"task" } ,"id":1}"#,
                format!(
                    r#"{{"result":{{"_meta":{{"a":{{}},{NAME}}},"x":1.0e2,"x":2,"resultType":"task" }} ,"id":1}}"#
                ),
            ),
            (
                r#"{"result":{"_meta":{},"resultType":"complete"}}"#,
                format!(r#"{{"result":{{"_meta":{{{NAME}}},"resultType":"complete"}}}}"#),
            ),
        ] {
            assert_eq!(signed(message), expected);
            assert_eq!(signed(&expected), expected);
        }
        for message in [
            r#"{"id":1,"result":{}}"#,
            r#"{"id":1,"result":{"content":[{"resultType":"complete"}]}}"#,
            r#"{"id":1,"error":{"code":1,"message":"resultType"}}"#,
            r#"{"method":"x","params":{"resultType":"complete"}}"#,
            "",
            "{",
        ] {
            assert_eq!(signed(message), message);
        }
    }

    #[test]
    fn an_event_is_signed_where_its_data_is() {
        let signature = Signature::of(&Implementation::new("w", "1"));
        let event = b"id: 5\ndata: {\"id\":1,\"result\":{\"resultType\":\"complete\"}}\n\n";
        let expected = format!(
            "id: 5\ndata: {{\"id\":1,\"result\":{{\"resultType\":\"complete\",\"_meta\":{{{NAME}}}}}}}\n\n"
        );
        assert_eq!(signature.sign_event(event), Some(expected.into_bytes()));
        for event in [b":\n\n".as_slice(), b"data: \n\n", b"data: {\"method\":\"x\"}\n\n"] {
            assert_eq!(signature.sign_event(event), None);
        }
    }
}
