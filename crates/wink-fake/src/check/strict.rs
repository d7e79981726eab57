//! The strict dialects, from the providers' side.

use serde_json::{Map, Value};

use super::{ensure, list, text};

const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
const SHARED: [&str; 13] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "enum",
    "const",
    "$ref",
    "$defs",
    "title",
    "description",
    "format",
];
const OPENAI: [&str; 8] = [
    "pattern",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
];
const ANTHROPIC: [&str; 2] = ["minItems", "default"];

/// What counts against the limits of a request to Anthropic.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counted {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl Counted {
    pub(super) fn add_tool(&mut self, tool: Self) {
        self.tools += 1;
        self.add_output(tool);
    }

    pub(super) fn add_output(&mut self, other: Self) {
        self.optional += other.optional;
        self.unions += other.unions;
    }

    pub(super) fn check(self) -> Result<(), String> {
        ensure(self.tools <= 20, || format!("there are {} strict tools; the limit is 20", self.tools))?;
        ensure(self.optional <= 24, || {
            format!("there are {} optional parameters; the limit is 24", self.optional)
        })?;
        ensure(self.unions <= 16, || {
            format!("there are {} parameters with union types; the limit is 16", self.unions)
        })
    }
}

/// OpenAI's.
pub(super) fn openai(schema: &Value) -> Result<(), String> {
    root(schema)?;
    let mut look =
        Look { openai: true, root: schema, properties: 0, counted: Counted::default(), within: Vec::new() };
    look.node(schema, 0)?;
    look.definitions()?;
    ensure(look.properties <= 5_000, || "the schema has more than 5000 properties".to_owned())
}

/// Anthropic's.
pub(super) fn anthropic(schema: &Value) -> Result<Counted, String> {
    root(schema)?;
    let mut look =
        Look { openai: false, root: schema, properties: 0, counted: Counted::default(), within: Vec::new() };
    look.node(schema, 0)?;
    look.definitions()?;
    Ok(look.counted)
}

fn root(schema: &Value) -> Result<(), String> {
    let object = text(schema, "type") == Some("object") && schema.get("anyOf").is_none();
    ensure(object, || "schema must have type 'object' and not have 'anyOf' at the top level".to_owned())
}

struct Look<'v> {
    openai: bool,
    root: &'v Value,
    properties: usize,
    counted: Counted,
    /// Definitions that are being looked at.
    within: Vec<&'v str>,
}

impl<'v> Look<'v> {
    fn definitions(&mut self) -> Result<(), String> {
        let definitions = self.root.get("$defs").and_then(Value::as_object);
        definitions.into_iter().flatten().try_for_each(|(_, schema)| self.node(schema, 0))
    }

    fn node(&mut self, schema: &'v Value, levels: usize) -> Result<(), String> {
        let fields = schema.as_object().ok_or("a schema must be an object")?;
        ensure(levels <= 10, || "the schema is nested deeper than 10 levels".to_owned())?;
        self.keywords(fields)?;
        if let Some(reference) = fields.get("$ref") {
            ensure(fields.len() == 1, || "$ref cannot have keywords beside it".to_owned())?;
            return self.reference(reference.as_str().unwrap_or_default(), levels);
        }
        let union = list(schema, "anyOf");
        self.counted.unions +=
            usize::from(!union.is_empty() || fields.get("type").is_some_and(Value::is_array));
        if !union.is_empty() {
            return union.iter().try_for_each(|schema| self.node(schema, levels));
        }
        let types: Vec<&str> = match fields.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => return Err(format!("schema must have a 'type' key: {schema}")),
        };
        if types.contains(&"object") {
            self.object(fields, levels)?;
        }
        if types.contains(&"array") {
            let items = fields.get("items").ok_or("array schema missing items")?;
            self.node(items, levels + 1)?;
        }
        Ok(())
    }

    fn keywords(&self, fields: &Map<String, Value>) -> Result<(), String> {
        let own: &[&str] = if self.openai { &OPENAI } else { &ANTHROPIC };
        for (keyword, value) in fields {
            let known = SHARED.contains(&keyword.as_str()) || own.contains(&keyword.as_str());
            ensure(known, || format!("'{keyword}' is not permitted"))?;
            let sound = match keyword.as_str() {
                "format" => value
                    .as_str()
                    .is_some_and(|name| FORMATS.contains(&name) || (!self.openai && name == "uri")),
                "pattern" => value
                    .as_str()
                    .is_some_and(|pattern| !["(?=", "(?!", "(?<"].iter().any(|look| pattern.contains(look))),
                "minItems" if !self.openai => value.as_u64().is_some_and(|count| count <= 1),
                _ => true,
            };
            ensure(sound, || format!("'{keyword}' is not permitted to be {value}"))?;
        }
        Ok(())
    }

    fn object(&mut self, fields: &'v Map<String, Value>, levels: usize) -> Result<(), String> {
        let closed = fields.get("additionalProperties") == Some(&Value::Bool(false));
        ensure(closed, || "'additionalProperties' is required to be supplied and to be false".to_owned())?;
        let properties =
            fields.get("properties").and_then(Value::as_object).ok_or("'properties' is required")?;
        let required: Vec<_> =
            fields.get("required").and_then(Value::as_array).into_iter().flatten().collect();
        self.properties += properties.len();
        for (name, schema) in properties {
            let optional = !required.iter().any(|known| *known == name);
            ensure(!optional || !self.openai, || {
                format!(
                    "'required' is required to be supplied and to be an array including every key in properties. Missing '{name}'"
                )
            })?;
            self.counted.optional += usize::from(optional);
            self.node(schema, levels + 1)?;
        }
        let unknown =
            required.iter().find(|name| !name.as_str().is_some_and(|name| properties.contains_key(name)));
        unknown.map_or(Ok(()), |name| Err(format!("'required' has {name}, which is no property")))
    }

    fn reference(&mut self, reference: &'v str, levels: usize) -> Result<(), String> {
        if reference == "#" {
            return ensure(self.openai, || "schemas must not refer to themselves".to_owned());
        }
        let name = reference
            .strip_prefix("#/$defs/")
            .ok_or_else(|| format!("$ref '{reference}' is not permitted"))?;
        let schema = self
            .root
            .pointer(&format!("/$defs/{name}"))
            .ok_or_else(|| format!("$ref '{reference}' leads nowhere"))?;
        if self.within.contains(&name) {
            return ensure(self.openai, || "schemas must not refer to themselves".to_owned());
        }
        self.within.push(name);
        let counted = self.counted;
        let properties = self.properties;
        self.node(schema, levels)?;
        // Each definition counts once, where it stands.
        self.properties = properties;
        self.counted = counted;
        self.within.pop();
        Ok(())
    }
}
