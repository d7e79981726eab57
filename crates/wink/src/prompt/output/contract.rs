//! Output contracts: what the model is told and its answer is held to, frozen when the template is built.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Codec, Output};
use crate::session::{Session, SessionError};
use crate::tool::schema::{CompiledSchema, SchemaError, loosen, tighten};

/// The key of a list where the root has to be an object.
pub(super) const ITEMS: &str = "items";

type MakeSchema = fn() -> Result<Value, SchemaError>;

/// Where the schema comes from.
pub(super) enum Source {
    Typed { closed: MakeSchema, open: MakeSchema },
    Given(Value),
}

/// What the answer is, at its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Container {
    /// A JSON object.
    Object,
    /// A JSON list.
    List,
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object => "object",
            Self::List => "list",
        })
    }
}

/// What becomes of keys that the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExtraKeys {
    /// The answer is not accepted.
    Rejected,
    /// They pass, and are in the answer's JSON.
    Allowed,
}

/// What the model's last answer must be. Cheap to clone.
#[derive(Clone)]
pub struct OutputContract {
    inner: Arc<Inner>,
}

struct Inner {
    name: Arc<str>,
    container: Container,
    extra_keys: ExtraKeys,
    schema: Arc<Value>,
    object_schema: Arc<Value>,
    compiled: CompiledSchema,
    codec: Codec,
}

impl OutputContract {
    pub(crate) fn new<Out>(output: Output<Out>) -> Result<Self, String> {
        let Output { name, source, container, extra_keys, codec, .. } = output;
        let name = tidy(&name)?;
        let advice = match &source {
            Source::Typed { .. } => "say Output::list for a list, and put anything else into a struct",
            Source::Given(_) => "put it into one",
        };
        let fault = |error: SchemaError| match error {
            SchemaError::NotAnObject { found } => {
                format!("the output {name} is {found}; an output is an object or a list: {advice}")
            }
            other => format!("the output {name}: {other}"),
        };
        let object_schema = match (source, extra_keys) {
            (Source::Typed { closed, .. }, ExtraKeys::Rejected) => closed(),
            (Source::Typed { open, .. }, ExtraKeys::Allowed) => open(),
            (Source::Given(schema), extra_keys) => {
                let whole = match container {
                    Container::Object => schema,
                    Container::List => {
                        wrapped(schema).map_err(|reason| format!("the output {name}: {reason}"))?
                    }
                };
                if extra_keys == ExtraKeys::Rejected { tighten(whole) } else { loosen(whole) }
            }
        };
        let object_schema = object_schema.map_err(fault)?;
        let compiled = CompiledSchema::compile(&object_schema).map_err(fault)?;
        let object_schema = Arc::new(object_schema);
        let schema = match container {
            Container::Object => Arc::clone(&object_schema),
            Container::List => Arc::new(list_schema(&object_schema)),
        };
        let inner =
            Inner { name: name.into(), container, extra_keys, schema, object_schema, compiled, codec };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What the type is called: letters, digits, `_` and `-`, at most 64.
    pub fn name(&self) -> &Arc<str> {
        &self.inner.name
    }

    /// Object or list.
    pub fn container(&self) -> Container {
        self.inner.container
    }

    /// What becomes of keys that the schema does not know.
    pub fn extra_keys(&self) -> ExtraKeys {
        self.inner.extra_keys
    }

    /// The schema of the answer, as it is checked.
    pub fn schema(&self) -> &Arc<Value> {
        &self.inner.schema
    }

    /// The same for whoever can only ask for an object: a list is its one property, `items`. An answer in this form is
    /// read like any other.
    pub fn object_schema(&self) -> &Arc<Value> {
        &self.inner.object_schema
    }

    /// What the model is told.
    pub(crate) fn instructions(&self) -> String {
        let Inner { name, container, schema, .. } = &*self.inner;
        format!(
            "When you are done, answer with one JSON {container} in a block marked `json`, and with no other JSON. It must fit \
             this schema, `{name}`:\n\n```\n{schema}\n```"
        )
    }

    /// Makes a session know where values go, if that was asked for.
    pub(crate) fn prepare(&self, session: &Session) -> Result<(), SessionError> {
        self.inner.codec.prepare.map_or(Ok(()), |prepare| prepare(session))
    }

    pub(super) fn compiled(&self) -> &CompiledSchema {
        &self.inner.compiled
    }

    pub(super) fn codec(&self) -> &Codec {
        &self.inner.codec
    }
}

impl fmt::Debug for OutputContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputContract")
            .field("name", &self.inner.name)
            .field("container", &self.inner.container)
            .field("extra_keys", &self.inner.extra_keys)
            .finish_non_exhaustive()
    }
}

/// A name that every provider takes: names of generic types have other characters.
fn tidy(name: &str) -> Result<String, String> {
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let tidy: String = name.chars().take(64).map(fits).collect();
    if tidy.is_empty() { Err("the output has no name".to_owned()) } else { Ok(tidy) }
}

/// The schema of an object that has the list as its one property.
fn wrapped(mut list: Value) -> Result<Value, String> {
    if list.to_string().contains("\"$ref\":\"#\"") {
        return Err(
            "a list cannot refer to itself as `#`; put it into $defs and refer to it there".to_owned()
        );
    }
    let mut definitions = Map::new();
    if let Value::Object(fields) = &mut list {
        fields.shift_remove("$schema");
        definitions.extend(["$defs", "definitions"].iter().filter_map(|key| fields.shift_remove_entry(*key)));
    }
    let mut whole = json!({ "type": "object", "properties": { ITEMS: list }, "required": [ITEMS] });
    if let Value::Object(fields) = &mut whole {
        fields.extend(definitions);
    }
    Ok(whole)
}

/// The way back: the list's own schema, with the definitions that it refers to.
fn list_schema(whole: &Value) -> Value {
    let items = whole.get("properties").and_then(|properties| properties.get(ITEMS));
    let mut schema = items.cloned().unwrap_or_default();
    for keyword in ["$defs", "definitions"] {
        if let (Some(definitions), Value::Object(fields)) = (whole.get(keyword), &mut schema) {
            fields.insert(keyword.to_owned(), definitions.clone());
        }
    }
    schema
}
