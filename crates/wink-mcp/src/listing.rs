//! A tool as MCP describes it, and its value as structured content.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};
use wink::prompt::Prompt;
use wink::tool::AnyTool;

/// The field that a value is put in when it is no object: structured content was one in every revision before 2026-07-28.
const RESULT: &str = "result";

/// The tools of a prompt as clients are told of them: all that can be enabled, the built-in ones among them. Cheap to clone, so
/// that all sessions of an agent have one.
#[derive(Debug, Clone)]
pub struct Listing {
    tools: Arc<[Listed]>,
    by_name: Arc<HashMap<Arc<str>, usize>>,
}

impl Listing {
    /// The tools of this prompt.
    pub fn of(prompt: &Prompt) -> Self {
        let names = prompt.possible_tools().enumerate();
        Self {
            by_name: Arc::new(names.map(|(at, placed)| (Arc::clone(placed.name()), at)).collect()),
            tools: prompt.possible_tools().map(|placed| Listed::new(&placed.tool)).collect(),
        }
    }

    /// Each of them, in order.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().map(|listed| &listed.tool)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Listed> {
        self.tools.get(*self.by_name.get(name)?)
    }
}

/// A tool, and what becomes of its values.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) tool: Tool,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// There is nothing to tell.
    None,
    /// The value as it is.
    Object,
    /// The value in a field.
    InField,
}

impl Listed {
    pub(crate) fn new(tool: &AnyTool) -> Self {
        let contract = tool.contract();
        let words = contract.annotations();
        let annotations = ToolAnnotations::new()
            .read_only(words.read_only)
            .destructive(words.destructive)
            .idempotent(words.idempotent)
            .open_world(words.open_world);
        let schema = Arc::new(object(contract.schema()));
        let mut listed = Tool::new(contract.name().to_string(), contract.description().to_owned(), schema)
            .with_annotations(annotations);
        let shape = match contract.output_schema() {
            None => Shape::None,
            Some(schema) if is_object(schema) => {
                listed = listed.with_raw_output_schema(Arc::new(or_nothing(object(schema))));
                Shape::Object
            }
            Some(schema) => {
                listed = listed.with_raw_output_schema(Arc::new(in_field(schema)));
                Shape::InField
            }
        };
        Self { tool: listed, shape }
    }

    /// The value of a success as the tool's output schema describes it.
    pub(crate) fn structured(&self, value: Option<Value>) -> Option<Value> {
        match self.shape {
            Shape::None => None,
            // One beyond the log's bound is the beginning of its text.
            Shape::Object => Some(value.filter(Value::is_object).unwrap_or_else(|| json!({}))),
            Shape::InField => Some(value.map_or_else(|| json!({}), |value| json!({ RESULT: value }))),
        }
    }
}

fn object(schema: &Value) -> JsonObject {
    schema.as_object().cloned().unwrap_or_default()
}

fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// An object as it is described, or an empty one: any success may be without a value, and clients that check what they get
/// take none for a mistake.
fn or_nothing(mut schema: JsonObject) -> JsonObject {
    let required = schema.shift_remove("required");
    if let Some(required) = required
        && !schema.contains_key("anyOf")
    {
        schema.insert("anyOf".to_owned(), json!([{ "required": required }, { "maxProperties": 0 }]));
    }
    schema
}

/// An object with the value in a field. What the schema defines moves to the top, where references look for it.
fn in_field(schema: &Value) -> JsonObject {
    let mut inner = object(schema);
    let definitions = inner.shift_remove("$defs");
    let dialect = inner.shift_remove("$schema");
    let mut outer = Map::new();
    outer.extend(dialect.map(|dialect| ("$schema".to_owned(), dialect)));
    outer.insert("type".to_owned(), "object".into());
    outer.insert("properties".to_owned(), json!({ RESULT: inner }));
    outer.extend(definitions.map(|definitions| ("$defs".to_owned(), definitions)));
    outer
}
