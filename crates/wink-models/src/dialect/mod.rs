//! Schemas in the words that a provider's strict mode knows.
//!
//! A strict provider makes sure that what its model writes has the form of the schema, and takes only some of JSON Schema. A
//! schema is therefore *lowered*: what the dialect cannot say goes into the description, for the model to read, and is still
//! checked by the executor, which knows only the tool's own schema. Lowering never says less than the schema lets pass: whatever
//! is valid under the schema can be written under the lowered one. A schema for which that cannot be is sent as it is, without
//! strict mode. Nothing is fetched, and the work is bounded by the size of the schema.

mod lower;
mod nulls;
mod output;
mod rules;
mod tools;

use std::cell::Cell;

use serde_json::Value;

pub use lower::lower;
pub use nulls::without_nulls;
pub use output::LoweredOutput;
pub use tools::{LoweredTool, LoweredTools, lower_tools};

/// Whose strict mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI's, in both of its APIs: every property is required, so what is optional becomes nullable.
    OpenAi,
    /// Anthropic's: properties may be optional, though not too many of them.
    Anthropic,
}

/// A schema in a dialect, with what counts against the limits of a request.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Lowered {
    /// The schema.
    pub schema: Value,
    /// How many properties may be left out.
    pub optional: usize,
    /// How many places have several types.
    pub unions: usize,
}

/// Why a schema cannot be lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Incompatible {
    /// The root is no object with known properties.
    #[error("its root does not describe one object")]
    Root,
    /// An object may have properties that nobody knows.
    #[error("an object may have properties that are not named")]
    Open,
    /// A place may have any value.
    #[error("a value may have any type")]
    Untyped,
    /// A tuple.
    #[error("the items of an array have schemas of their own")]
    Tuple,
    /// A combination of schemas that the dialect cannot say.
    #[error("schemas are combined in a way that cannot be said")]
    Combined,
    /// A reference that leads to no definition.
    #[error("a reference does not lead to a definition")]
    Reference,
    /// It refers to itself.
    #[error("it refers to itself")]
    Recursive,
    /// It is too deep.
    #[error("it is nested too deep")]
    TooDeep,
    /// It is too large.
    #[error("it is too large")]
    TooLarge,
}

/// What a local reference leads to.
fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// Whether null is valid under a schema. What takes too many steps to find out does not admit it.
fn admits_null(root: &Value, schema: &Value) -> bool {
    null_valid(root, schema, &Cell::new(256))
}

fn null_valid(root: &Value, schema: &Value, steps: &Cell<usize>) -> bool {
    let Some(left) = steps.get().checked_sub(1) else { return false };
    steps.set(left);
    let fields = match schema {
        Value::Object(fields) => fields,
        other => return *other == Value::Bool(true),
    };
    let parts = |keyword: &str| fields.get(keyword).and_then(Value::as_array);
    let some = |schemas: &Vec<Value>| schemas.iter().any(|schema| null_valid(root, schema, steps));
    let has_null = |values: &Value| values.as_array().is_some_and(|values| values.iter().any(Value::is_null));
    fields.get("type").is_none_or(|types| {
        types == "null" || types.as_array().is_some_and(|names| names.contains(&"null".into()))
    }) && fields.get("enum").is_none_or(has_null)
        && fields.get("const").is_none_or(Value::is_null)
        && parts("anyOf").is_none_or(some)
        && parts("oneOf").is_none_or(some)
        && parts("allOf").is_none_or(|schemas| schemas.iter().all(|schema| null_valid(root, schema, steps)))
        && fields.get("$ref").is_none_or(|reference| {
            let found = reference.as_str().and_then(|reference| resolve(root, reference));
            found.is_some_and(|schema| null_valid(root, schema, steps))
        })
}
