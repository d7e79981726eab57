//! Values that a tool needs and nobody else may see.
//!
//! A [`Secret`] is an ordinary value for the handler and `***` for everything that prints or serialises it. Idempotency
//! keys, which have to tell two secrets apart, are made from what the model wrote, with the hash of a secret in its place.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a secret looks like to everybody but its handler.
pub const MASK: &str = "***";

/// The extension keyword that marks a sensitive node in a schema.
pub const SENSITIVE_KEYWORD: &str = "x-wink-sensitive";

/// A parameter that is masked in events, log, diagnostics and pages.
///
/// ```
/// use wink::tool::secret::Secret;
/// let token: Secret<String> = serde_json::from_str(r#""hunter2""#)?;
/// assert_eq!(token.expose(), "hunter2");
/// assert_eq!(format!("{token:?}"), "***");
/// assert_eq!(serde_json::to_string(&token)?, r#""***""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Keeps `value` from being seen.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself. Whoever calls this decides where it goes.
    pub fn expose(&self) -> &T {
        &self.0
    }

    /// The value itself, owned.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Secret<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

impl<T> Serialize for Secret<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

impl<T: JsonSchema> JsonSchema for Secret<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Secret_{}", T::schema_name()).into()
    }

    fn schema_id() -> Cow<'static, str> {
        format!("{}::Secret<{}>", module_path!(), T::schema_id()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = generator.subschema_for::<T>();
        schema.insert("writeOnly".to_owned(), true.into());
        schema.insert(SENSITIVE_KEYWORD.to_owned(), true.into());
        schema
    }
}
