//! Params: the values that sections' placeholders stand for, bound to a prompt by type.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value};

/// What can be bound to a prompt: a plain struct that serde and schemars know. Its fields are the placeholders.
pub trait PromptParams: Serialize + JsonSchema + Send + Sync + 'static {}
impl<T: Serialize + JsonSchema + Send + Sync + 'static> PromptParams for T {}

/// A params type, without an instance.
#[derive(Debug, Clone)]
pub(crate) struct ParamsType {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
    fields: Fields,
}

/// Where the names of the fields come from.
#[derive(Debug, Clone)]
enum Fields {
    /// A type's schema.
    OfType(fn() -> Value),
    /// Values that one section was given.
    Given(Arc<BTreeSet<String>>),
}

/// What the values of a section are bound as, which have no type of their own. Nobody else can bind it.
struct GivenValues;

impl ParamsType {
    pub(crate) fn of<P: PromptParams>() -> Self {
        let schema = || {
            let settings = SchemaSettings::draft2020_12().for_serialize();
            settings.into_generator().into_root_schema_for::<P>().to_value()
        };
        Self { id: TypeId::of::<P>(), name: type_name::<P>(), fields: Fields::OfType(schema) }
    }

    fn given(values: &Map<String, Value>) -> Self {
        let fields = Fields::Given(Arc::new(values.keys().cloned().collect()));
        Self { id: TypeId::of::<GivenValues>(), name: "of the section", fields }
    }

    /// The names of its fields, as serde writes them.
    pub(crate) fn fields(&self) -> BTreeSet<String> {
        let schema = match &self.fields {
            Fields::OfType(schema) => schema,
            Fields::Given(names) => return BTreeSet::clone(names),
        };
        let root = schema();
        let mut fields = BTreeSet::new();
        collect(&root, &root, &mut BTreeSet::new(), &mut fields);
        fields
    }
}

/// Flattened enums put fields into branches, and shared types behind references.
fn collect(root: &Value, schema: &Value, seen: &mut BTreeSet<String>, fields: &mut BTreeSet<String>) {
    if let Some(Value::Object(properties)) = schema.get("properties") {
        fields.extend(properties.keys().cloned());
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for branch in schema.get(keyword).and_then(Value::as_array).into_iter().flatten() {
            collect(root, branch, seen, fields);
        }
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str)
        && let Some(target) = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer))
        && seen.insert(reference.to_owned())
    {
        collect(root, target, seen, fields);
    }
}

/// Params that were bound.
pub(crate) struct BoundParams {
    pub(crate) of: ParamsType,
    pub(crate) typed: Box<dyn Any + Send + Sync>,
    pub(crate) values: Map<String, Value>,
}

impl BoundParams {
    pub(crate) fn new<P: PromptParams>(params: P) -> Result<Arc<Self>, String> {
        let values = match serde_json::to_value(&params) {
            Ok(Value::Object(values)) => values,
            Ok(Value::Null) => Map::new(),
            Ok(_) => return Err("params must be a struct with named fields".to_owned()),
            Err(error) => return Err(format!("the params cannot be serialised: {error}")),
        };
        Ok(Arc::new(Self { of: ParamsType::of::<P>(), typed: Box::new(params), values }))
    }

    pub(crate) fn given(values: Map<String, Value>) -> Arc<Self> {
        Arc::new(Self { of: ParamsType::given(&values), typed: Box::new(GivenValues), values })
    }
}
