//! The walk that lowers one schema.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::rules::{MAX_LEVELS, MAX_NESTING, MAX_NODES, MAX_PROPERTIES, MAX_VALUES};
use super::{Dialect, Incompatible, Lowered, admits_null, resolve};

/// A constraint is told in this many characters at most.
const MAX_TOLD: usize = 200;
const DEFINITIONS: &str = "#/$defs/";

/// Lowers a schema whose root is an object.
///
/// # Errors
/// When there is no schema of the dialect that lets pass all that this one does.
pub fn lower(schema: &Value, dialect: Dialect) -> Result<Lowered, Incompatible> {
    let root = inlined_root(schema)?;
    let mut walk = Walk::new(&root, dialect);
    let mut lowered = walk.node(&root, 0)?;
    if lowered.get("type").is_none_or(|name| name != "object") {
        return Err(Incompatible::Root);
    }
    let mut definitions = Map::new();
    while let Some(name) = walk.wanted.pop() {
        let schema = root.get("$defs").and_then(|all| all.get(&name)).ok_or(Incompatible::Reference)?;
        let schema = walk.node(schema, 0)?;
        definitions.insert(name, schema);
    }
    let levels = Levels { definitions: &definitions, known: HashMap::new(), dialect }.of(&lowered, 0)?;
    if levels > MAX_LEVELS {
        return Err(Incompatible::TooDeep);
    }
    if !definitions.is_empty() {
        definitions.sort_keys();
        lowered.as_object_mut().ok_or(Incompatible::Root)?.insert("$defs".to_owned(), definitions.into());
    }
    Ok(Lowered { schema: lowered, optional: walk.optional, unions: walk.unions })
}

/// The schema with what its root refers to at the root itself.
fn inlined_root(schema: &Value) -> Result<Value, Incompatible> {
    let mut root = schema.as_object().ok_or(Incompatible::Root)?.clone();
    if let Some(reference) = root.shift_remove("$ref") {
        let found = reference
            .as_str()
            .filter(|reference| *reference != "#")
            .and_then(|reference| resolve(schema, reference));
        for (keyword, value) in found.and_then(Value::as_object).ok_or(Incompatible::Reference)? {
            // Both hold, and what says it twice differently is nothing that we could merge.
            if root
                .get(keyword)
                .is_some_and(|own| own != value && keyword != "description" && keyword != "title")
            {
                return Err(Incompatible::Combined);
            }
            root.entry(keyword.clone()).or_insert_with(|| value.clone());
        }
    }
    Ok(root.into())
}

struct Walk<'s> {
    root: &'s Value,
    dialect: Dialect,
    nodes: usize,
    properties: usize,
    values: usize,
    optional: usize,
    unions: usize,
    /// Definitions that are referred to and not lowered yet, and all that were ever wanted.
    wanted: Vec<String>,
    seen: HashSet<String>,
}

impl<'s> Walk<'s> {
    fn new(root: &'s Value, dialect: Dialect) -> Self {
        let (wanted, seen) = Default::default();
        Self { root, dialect, nodes: 0, properties: 0, values: 0, optional: 0, unions: 0, wanted, seen }
    }

    fn node(&mut self, schema: &Value, nesting: usize) -> Result<Value, Incompatible> {
        let fields = schema.as_object().ok_or(Incompatible::Untyped)?;
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Incompatible::TooLarge);
        }
        if nesting > MAX_NESTING {
            return Err(Incompatible::TooDeep);
        }
        let mut lowered = Map::new();
        let mut told = Told::default();
        for (keyword, value) in fields {
            let kept = match keyword.as_str() {
                "type" | "title" | "description" => value.clone(),
                "const" => self.listed(std::slice::from_ref(value)).map(|()| value.clone())?,
                "enum" => {
                    self.listed(value.as_array().ok_or(Incompatible::Untyped)?).map(|()| value.clone())?
                }
                "properties" => self.properties(fields, nesting)?,
                "additionalProperties" if *value == false => value.clone(),
                "additionalProperties" | "patternProperties" => return Err(Incompatible::Open),
                "items" => self.node(value, nesting + 1)?,
                "prefixItems" => return Err(Incompatible::Tuple),
                "$ref" => self.reference(value)?,
                "anyOf" | "oneOf" | "allOf" => {
                    let schemas = self.union(keyword, value, nesting)?;
                    // Two of them both have to hold.
                    match lowered.insert("anyOf".to_owned(), schemas) {
                        Some(_) => return Err(Incompatible::Combined),
                        None => continue,
                    }
                }
                _ if self.dialect.says(keyword, value) => value.clone(),
                silent if is_silent(silent) => continue,
                _ => {
                    told.tell(keyword, value);
                    continue;
                }
            };
            lowered.insert(keyword.clone(), kept);
        }
        if let Some(required) = self.required(fields, &lowered) {
            lowered.insert("required".to_owned(), required);
        }
        self.finish(lowered, told)
    }

    /// What makes a node one that stands for itself.
    fn finish(&mut self, mut fields: Map<String, Value>, told: Told) -> Result<Value, Incompatible> {
        told.into_description(&mut fields);
        let structural = ["properties", "items", "enum", "const"];
        if fields.contains_key("anyOf") || fields.contains_key("$ref") {
            if structural.iter().any(|keyword| fields.contains_key(*keyword)) {
                return Err(Incompatible::Combined);
            }
            if fields.contains_key("anyOf") && fields.contains_key("$ref") {
                return Err(Incompatible::Combined);
            }
            // The alternatives have types of their own; an object that is closed beside them would be closed without properties.
            fields
                .retain(|keyword, _| matches!(keyword.as_str(), "anyOf" | "$ref" | "title" | "description"));
            if fields.contains_key("$ref") && fields.len() > 1 {
                let reference = fields.shift_remove("$ref").unwrap_or_default();
                fields.insert("anyOf".to_owned(), json!([{ "$ref": reference }]));
            }
            self.unions += usize::from(fields.contains_key("anyOf"));
            return Ok(fields.into());
        }
        if !fields.contains_key("type") {
            let types = types_of(&fields).ok_or(Incompatible::Untyped)?;
            fields.shift_insert(0, "type".to_owned(), types);
        }
        let is = |name: &str| match fields.get("type") {
            Some(Value::Array(names)) => names.iter().any(|known| known == name),
            Some(only) => only == name,
            None => false,
        };
        let (object, array) = (is("object"), is("array"));
        self.unions += usize::from(fields.get("type").is_some_and(Value::is_array));
        if fields.contains_key("enum") || fields.contains_key("const") {
            return if object || array { Err(Incompatible::Untyped) } else { Ok(fields.into()) };
        }
        if object && !fields.contains_key("additionalProperties") {
            return Err(Incompatible::Open);
        }
        if object && !fields.contains_key("properties") {
            fields.insert("properties".to_owned(), json!({}));
            fields.insert("required".to_owned(), json!([]));
        }
        if (array && !fields.contains_key("items")) || (!object && fields.contains_key("properties")) {
            return Err(Incompatible::Untyped);
        }
        Ok(fields.into())
    }

    fn properties(&mut self, fields: &Map<String, Value>, nesting: usize) -> Result<Value, Incompatible> {
        let properties = fields.get("properties").and_then(Value::as_object).ok_or(Incompatible::Untyped)?;
        self.properties += properties.len();
        if self.properties > MAX_PROPERTIES {
            return Err(Incompatible::TooLarge);
        }
        let mut lowered = Map::new();
        for (name, schema) in properties {
            let mut node = self.node(schema, nesting + 1)?;
            if !is_required(fields, name) {
                self.optional += 1;
                if self.dialect == Dialect::OpenAi && !admits_null(self.root, schema) {
                    node = nullable(node);
                }
            }
            lowered.insert(name.clone(), node);
        }
        Ok(lowered.into())
    }

    fn required(&self, fields: &Map<String, Value>, lowered: &Map<String, Value>) -> Option<Value> {
        let properties = lowered.get("properties")?.as_object()?;
        let all = self.dialect == Dialect::OpenAi;
        Some(properties.keys().filter(|name| all || is_required(fields, name)).map(String::as_str).collect())
    }

    fn union(&mut self, keyword: &str, value: &Value, nesting: usize) -> Result<Value, Incompatible> {
        let schemas = value.as_array().ok_or(Incompatible::Untyped)?;
        // One schema is the same under each of the three keywords.
        if schemas.is_empty() || (keyword == "allOf" && schemas.len() > 1) {
            return Err(Incompatible::Combined);
        }
        schemas.iter().map(|schema| self.node(schema, nesting + 1)).collect()
    }

    fn reference(&mut self, value: &Value) -> Result<Value, Incompatible> {
        let reference = value.as_str().ok_or(Incompatible::Reference)?;
        if let Some(name) = reference.strip_prefix(DEFINITIONS)
            && !name.contains(['/', '~', '%'])
        {
            if self.seen.insert(name.to_owned()) {
                self.wanted.push(name.to_owned());
            }
        } else if reference != "#" {
            return Err(Incompatible::Reference);
        }
        Ok(value.clone())
    }

    fn listed(&mut self, values: &[Value]) -> Result<(), Incompatible> {
        self.values += values.len();
        if self.values > MAX_VALUES {
            return Err(Incompatible::TooLarge);
        }
        match values.iter().all(|value| self.dialect.enumerates(value)) {
            true => Ok(()),
            false => Err(Incompatible::Untyped),
        }
    }
}

/// What says nothing of the values that are valid, or is said elsewhere.
fn is_silent(keyword: &str) -> bool {
    let known = [
        "required",
        "$defs",
        "$schema",
        "$id",
        "$comment",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
    ];
    known.contains(&keyword) || keyword.starts_with("x-")
}

fn is_required(fields: &Map<String, Value>, name: &str) -> bool {
    fields
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|names| names.iter().any(|known| known == name))
}

/// The schema, or null.
fn nullable(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else { return schema };
    let enumerates = fields.contains_key("enum") || fields.contains_key("const");
    match (fields.get_mut("type"), enumerates) {
        (Some(Value::Array(names)), false) => names.push("null".into()),
        (Some(name), false) => *name = json!([name.take(), "null"]),
        _ => match fields.get_mut("anyOf").and_then(Value::as_array_mut) {
            Some(schemas) => schemas.push(json!({ "type": "null" })),
            None => {
                let description = fields.shift_remove("description");
                let mut outer = Map::from_iter(description.map(|text| ("description".to_owned(), text)));
                outer.insert("anyOf".to_owned(), json!([fields, { "type": "null" }]));
                fields = outer;
            }
        },
    }
    fields.into()
}

/// The types of the values that are listed.
fn types_of(fields: &Map<String, Value>) -> Option<Value> {
    let values = match (fields.get("enum"), fields.get("const")) {
        (Some(values), _) => values.as_array()?.as_slice(),
        (None, Some(value)) => std::slice::from_ref(value),
        (None, None) => return None,
    };
    let mut names: Vec<&str> = Vec::new();
    for value in values {
        let name = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) | Value::Object(_) => return None,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names.as_slice() {
        [] => None,
        [only] => Some((*only).into()),
        several => Some(several.into()),
    }
}

/// What cannot be said in the dialect, in words.
#[derive(Default)]
struct Told {
    constraints: String,
    default: Option<String>,
}

impl Told {
    fn tell(&mut self, keyword: &str, value: &Value) {
        let mut text = value.to_string();
        if let Some((at, _)) = text.char_indices().nth(MAX_TOLD) {
            text.truncate(at);
            text.push('…');
        }
        if keyword == "default" {
            self.default = Some(text);
            return;
        }
        let comma = if self.constraints.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(self.constraints, "{comma}{keyword} {text}");
    }

    fn into_description(self, fields: &mut Map<String, Value>) {
        let mut sentences = Vec::new();
        sentences.extend(fields.get("description").and_then(Value::as_str).map(str::to_owned));
        if !self.constraints.is_empty() {
            sentences.push(format!("Must satisfy: {}.", self.constraints));
        }
        sentences.extend(self.default.map(|value| format!("Default: {value}.")));
        if !sentences.is_empty() {
            fields.insert("description".to_owned(), sentences.join(" ").into());
        }
    }
}

/// How deep objects and arrays stand in each other, through references.
struct Levels<'l> {
    definitions: &'l Map<String, Value>,
    /// What definitions come to; nothing while one is being looked at.
    known: HashMap<&'l str, Option<usize>>,
    dialect: Dialect,
}

impl<'l> Levels<'l> {
    fn of(&mut self, schema: &'l Value, steps: usize) -> Result<usize, Incompatible> {
        // References may follow each other without any level between them.
        if steps > 4 * MAX_NESTING {
            return Err(Incompatible::TooDeep);
        }
        let mut levels = 0;
        let properties = schema.get("properties").and_then(Value::as_object);
        for node in properties.into_iter().flat_map(Map::values).chain(schema.get("items")) {
            levels = levels.max(self.of(node, steps + 1)? + 1);
        }
        for node in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
            levels = levels.max(self.of(node, steps + 1)?);
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            levels = levels.max(self.of_definition(reference, steps)?);
        }
        Ok(levels)
    }

    fn of_definition(&mut self, reference: &str, steps: usize) -> Result<usize, Incompatible> {
        let definitions = self.definitions;
        let found = reference.strip_prefix(DEFINITIONS).and_then(|name| definitions.get_key_value(name));
        let Some((name, schema)) = found else { return self.again() };
        match self.known.get(name.as_str()) {
            Some(Some(levels)) => Ok(*levels),
            Some(None) => self.again(),
            None => {
                self.known.insert(name, None);
                let levels = self.of(schema, steps + 1)?;
                self.known.insert(name, Some(levels));
                Ok(levels)
            }
        }
    }

    /// A schema that refers to itself is as deep as what is written, or not allowed at all.
    fn again(&self) -> Result<usize, Incompatible> {
        if self.dialect.recurses() { Ok(0) } else { Err(Incompatible::Recursive) }
    }
}
