//! From a JSON Schema document to the table of nodes: every keyword is understood or refused.

use std::collections::HashMap;

use regex::RegexBuilder;
use serde_json::{Map, Value};

use super::error::SchemaError;
use super::node::{
    Additional, Allowed, ArrayRules, Bounds, Combine, Node, NodeId, NumberRules, ObjectRules, Omitted,
    Pattern, Property, StringRules, Types, Union,
};
use super::number::{Num, Precision, canonical};
use super::pointer::{Pointer, resolve};
use crate::tool::secret::SENSITIVE_KEYWORD;

/// How many schemas a document may hold.
pub(super) const MAX_NODES: usize = 10_000;
/// How deep schemas may be nested in each other as written.
pub(super) const MAX_NESTING: usize = 64;

/// Compiles `root`; node 0 is the root.
pub(super) fn compile(root: &Value) -> Result<Vec<Node>, SchemaError> {
    let mut compiler = Compiler { root, nodes: Vec::new(), references: HashMap::new(), queue: Vec::new() };
    compiler.reference("#", &Pointer::ROOT)?;
    // Definitions are compiled from a queue: a long chain of references must not become deep recursion.
    while let Some((id, schema, place)) = compiler.queue.pop() {
        let node = compiler.node(schema, &Pointer::at(&place), 0)?;
        if let Some(slot) = compiler.nodes.get_mut(id as usize) {
            *slot = node;
        }
    }
    Ok(compiler.nodes)
}

struct Compiler<'r> {
    root: &'r Value,
    nodes: Vec<Node>,
    references: HashMap<String, NodeId>,
    queue: Vec<(NodeId, &'r Value, String)>,
}

impl<'r> Compiler<'r> {
    /// The node that a reference points to; it may be filled later.
    fn reference(&mut self, reference: &str, place: &Pointer<'_>) -> Result<NodeId, SchemaError> {
        if let Some(id) = self.references.get(reference) {
            return Ok(*id);
        }
        let target = resolve(self.root, reference, place)?;
        let id = self.push(Node::of_types(Types::ALL), place)?;
        self.references.insert(reference.to_owned(), id);
        self.queue.push((id, target, reference.to_owned()));
        Ok(id)
    }

    fn push(&mut self, node: Node, place: &Pointer<'_>) -> Result<NodeId, SchemaError> {
        if self.nodes.len() >= MAX_NODES {
            return Err(SchemaError::TooComplex {
                what: "schemas",
                limit: MAX_NODES,
                path: place.to_string(),
            });
        }
        self.nodes.push(node);
        Ok((self.nodes.len() - 1) as NodeId)
    }

    fn child(
        &mut self,
        schema: &'r Value,
        place: &Pointer<'_>,
        nesting: usize,
    ) -> Result<NodeId, SchemaError> {
        // A bare reference is its target: nothing to check in between.
        if let Some(fields) = schema.as_object()
            && let Some(Value::String(reference)) = fields.get("$ref")
            && fields.keys().all(|keyword| keyword == "$ref" || is_annotation(keyword))
        {
            return self.reference(reference, place);
        }
        let node = self.node(schema, place, nesting + 1)?;
        self.push(node, place)
    }

    fn children(
        &mut self,
        list: &'r Value,
        place: &Pointer<'_>,
        nesting: usize,
    ) -> Result<Vec<NodeId>, SchemaError> {
        let schemas = list.as_array().filter(|schemas| !schemas.is_empty());
        let schemas =
            schemas.ok_or_else(|| place.invalid("a list of schemas with at least one is needed"))?;
        let numbered = schemas.iter().enumerate();
        numbered.map(|(index, schema)| self.child(schema, &place.key(&index.to_string()), nesting)).collect()
    }

    fn node(&mut self, schema: &'r Value, place: &Pointer<'_>, nesting: usize) -> Result<Node, SchemaError> {
        if nesting > MAX_NESTING {
            let path = place.to_string();
            return Err(SchemaError::TooComplex {
                what: "schemas inside each other",
                limit: MAX_NESTING,
                path,
            });
        }
        let fields = match schema {
            Value::Bool(true) => return Ok(Node::of_types(Types::ALL)),
            Value::Bool(false) => return Ok(Node::of_types(Types::NONE)),
            Value::Object(fields) => fields,
            _ => return Err(place.invalid("a schema is an object, true or false")),
        };
        let mut node = Node::of_types(Types::ALL);
        let mut combine = Combine::default();
        let mut string = StringRules { length: Bounds::ANY, pattern: None };
        let mut number = NumberRules::default();
        let mut has_number = false;
        for (keyword, value) in fields {
            let here = place.key(keyword);
            let unknown =
                || SchemaError::UnknownKeyword { keyword: keyword.clone(), path: place.to_string() };
            match keyword.as_str() {
                word if !is_known(word) => return Err(unknown()),
                "type" => node.types = types(value, &here)?,
                "enum" | "const" => {
                    node.allowed = Some(Box::new(allowed(keyword, value, &here, node.allowed.take())?))
                }
                "minLength" => string.length.min = count(value, &here)?,
                "maxLength" => string.length.max = count(value, &here)?,
                "pattern" => string.pattern = Some(pattern(value, &here)?),
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                    has_number = true;
                    bound(&mut number, keyword, value, &here)?;
                }
                "$ref" => {
                    let reference = value.as_str().ok_or_else(|| here.invalid("a text is needed"))?;
                    combine.all.push(self.reference(reference, &here)?);
                }
                "allOf" => combine.all.extend(self.children(value, &here, nesting)?),
                "anyOf" | "oneOf" => combine.unions.push(Union {
                    exactly_one: keyword == "oneOf",
                    branches: self.children(value, &here, nesting)?,
                    dispatch: None,
                }),
                "not" => combine.not = Some(self.child(value, &here, nesting)?),
                "format" if value == "double" => node.precision = Precision::Double,
                SENSITIVE_KEYWORD => node.sensitive = value == &Value::Bool(true),
                _ if is_object_keyword(keyword) || is_array_keyword(keyword) || is_annotation(keyword) => {}
                "$schema" | "$id" if nesting == 0 => {}
                "$defs" | "definitions" => {}
                _ => return Err(unknown()),
            }
        }
        if fields.keys().any(|keyword| is_object_keyword(keyword)) {
            node.object = Some(Box::new(self.object(fields, place, nesting)?));
        }
        if fields.keys().any(|keyword| is_array_keyword(keyword)) {
            node.array = Some(Box::new(self.array(fields, place, nesting)?));
        }
        if string.pattern.is_some() || string.length != Bounds::ANY {
            node.string = Some(Box::new(string));
        }
        node.number = has_number.then(|| Box::new(number));
        node.only_union =
            node.is_bare() && combine.all.is_empty() && combine.not.is_none() && combine.unions.len() == 1;
        if !combine.all.is_empty() || !combine.unions.is_empty() || combine.not.is_some() {
            node.combine = Some(Box::new(combine));
        }
        Ok(node)
    }

    fn object(
        &mut self,
        fields: &'r Map<String, Value>,
        place: &Pointer<'_>,
        nesting: usize,
    ) -> Result<ObjectRules, SchemaError> {
        let mut rules = ObjectRules {
            properties: Vec::new(),
            sorted: Vec::new(),
            required: 0,
            patterns: Vec::new(),
            additional: Additional::Allowed,
            names: None,
            by_name_only: false,
            size: Bounds::ANY,
        };
        for (keyword, value) in fields {
            let here = place.key(keyword);
            match keyword.as_str() {
                "properties" => {
                    for (name, schema) in schemas(value, &here)? {
                        let node = self.child(schema, &here.key(name), nesting)?;
                        let omitted = omitted(schema);
                        rules.properties.push(Property { omitted, ..Property::new(name, node) });
                    }
                }
                "patternProperties" => {
                    for (source, schema) in schemas(value, &here)? {
                        let node = self.child(schema, &here.key(source), nesting)?;
                        rules.patterns.push((regex(source, &here)?, node));
                    }
                }
                "additionalProperties" => {
                    rules.additional = match value {
                        Value::Bool(true) => Additional::Allowed,
                        Value::Bool(false) => Additional::Forbidden,
                        schema => Additional::Checked(self.child(schema, &here, nesting)?),
                    };
                }
                "propertyNames" => rules.names = Some(self.child(value, &here, nesting)?),
                "minProperties" => rules.size.min = count(value, &here)?,
                "maxProperties" => rules.size.max = count(value, &here)?,
                _ => {}
            }
        }
        if let Some(required) = fields.get("required") {
            let here = place.key("required");
            let names = required.as_array().ok_or_else(|| here.invalid("a list of names is needed"))?;
            let mut places: HashMap<String, usize> = rules
                .properties
                .iter()
                .enumerate()
                .map(|(index, known)| (known.name.clone(), index))
                .collect();
            for name in names {
                let name = name.as_str().ok_or_else(|| here.invalid("names are texts"))?;
                match places.get(name).and_then(|index| rules.properties.get_mut(*index)) {
                    Some(property) => property.required = true,
                    None => {
                        let node = self.child(&Value::Bool(true), &here, nesting)?;
                        places.insert(name.to_owned(), rules.properties.len());
                        let property = Property::new(name, node);
                        rules.properties.push(Property { required: true, declared: false, ..property });
                    }
                }
            }
        }
        rules.required = rules.properties.iter().filter(|property| property.required).count();
        rules.by_name_only = rules.patterns.is_empty() && rules.names.is_none();
        rules.sorted = (0..rules.properties.len() as u32).collect();
        let properties = &rules.properties;
        rules.sorted.sort_by_key(|index| properties.get(*index as usize).map(|property| &property.name));
        Ok(rules)
    }

    fn array(
        &mut self,
        fields: &'r Map<String, Value>,
        place: &Pointer<'_>,
        nesting: usize,
    ) -> Result<ArrayRules, SchemaError> {
        let mut rules = ArrayRules { prefix: Vec::new(), items: None, size: Bounds::ANY, unique: false };
        for (keyword, value) in fields {
            let here = place.key(keyword);
            match keyword.as_str() {
                "items" if value.is_array() => {
                    return Err(here.invalid("a list of schemas is called `prefixItems`"));
                }
                "items" => rules.items = Some(self.child(value, &here, nesting)?),
                "prefixItems" => rules.prefix = self.children(value, &here, nesting)?,
                "minItems" => rules.size.min = count(value, &here)?,
                "maxItems" => rules.size.max = count(value, &here)?,
                "uniqueItems" => {
                    rules.unique = value.as_bool().ok_or_else(|| here.invalid("true or false is needed"))?;
                }
                _ => {}
            }
        }
        Ok(rules)
    }
}

/// Keywords of schemas, whatever they describe.
const ANY: [&str; 20] = [
    "type",
    "enum",
    "const",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "$ref",
    "$defs",
    "definitions",
    "$schema",
    "$id",
];

/// Keywords about objects.
const OBJECT: [&str; 7] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
];

/// Keywords about lists.
const ARRAY: [&str; 5] = ["items", "prefixItems", "minItems", "maxItems", "uniqueItems"];

/// Keywords that say something to readers and nothing to the parser.
const ANNOTATIONS: [&str; 12] = [
    "title",
    "description",
    "default",
    "example",
    "examples",
    "format",
    "contentEncoding",
    "contentMediaType",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
];

/// What keywords begin with that are somebody's own. They are annotations, whatever they say.
const EXTENSION: &str = "x-";

/// The keywords that a schema may have, beside those of somebody's own, which begin with `x-`: what is in no list here is
/// refused, so that nothing that a schema says is passed over in silence.
pub fn keywords() -> impl Iterator<Item = &'static str> + Clone {
    ANY.into_iter().chain(OBJECT).chain(ARRAY).chain(ANNOTATIONS)
}

fn is_known(keyword: &str) -> bool {
    keyword.starts_with(EXTENSION) || keywords().any(|known| known == keyword)
}

fn is_object_keyword(keyword: &str) -> bool {
    OBJECT.contains(&keyword)
}

fn is_array_keyword(keyword: &str) -> bool {
    ARRAY.contains(&keyword)
}

/// What leaving out the property with this schema means.
fn omitted(schema: &Value) -> Omitted {
    match schema.get("default") {
        Some(default) => Omitted::Is(Box::new(default.clone())),
        None if schema.get("writeOnly") == Some(&Value::Bool(true)) => Omitted::Unknown,
        None => Omitted::AsTyped,
    }
}

/// Whether a keyword says something to readers and nothing to the parser.
pub(super) fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword) || (keyword.starts_with(EXTENSION) && keyword != SENSITIVE_KEYWORD)
}

fn types(value: &Value, here: &Pointer<'_>) -> Result<Types, SchemaError> {
    let one = |name: &Value| {
        name.as_str()
            .and_then(Types::named)
            .ok_or_else(|| here.invalid("types are null, boolean, integer, number, string, array and object"))
    };
    match value {
        Value::Array(names) => names.iter().try_fold(Types::NONE, |types, name| Ok(types.or(one(name)?))),
        name => one(name),
    }
}

/// The values of `enum` or `const`; with both, those that are in both.
fn allowed(
    keyword: &str,
    value: &Value,
    here: &Pointer<'_>,
    other: Option<Box<Allowed>>,
) -> Result<Allowed, SchemaError> {
    let values = match (keyword, value) {
        ("const", value) => std::slice::from_ref(value),
        (_, Value::Array(values)) => values.as_slice(),
        _ => return Err(here.invalid("a list of values is needed")),
    };
    let mut allowed = Allowed { strings: Vec::new(), others: Vec::new() };
    for value in values {
        match value {
            Value::String(text) => allowed.strings.push(text.clone()),
            other => allowed.others.push(canonical(other)),
        }
    }
    if let Some(other) = other {
        allowed.strings.retain(|text| other.strings.contains(text));
        allowed.others.retain(|text| other.others.contains(text));
    }
    Ok(allowed)
}

fn count(value: &Value, here: &Pointer<'_>) -> Result<u64, SchemaError> {
    let whole = |float: f64| (float >= 0.0 && float.fract() == 0.0 && float < 1e15).then_some(float as u64);
    value
        .as_u64()
        .or_else(|| value.as_f64().and_then(whole))
        .ok_or_else(|| here.invalid("a whole number of at least 0 is needed"))
}

fn bound(
    rules: &mut NumberRules,
    keyword: &str,
    value: &Value,
    here: &Pointer<'_>,
) -> Result<(), SchemaError> {
    let Value::Number(number) = value else { return Err(here.invalid("a number is needed")) };
    let number = Num::from_json(number);
    match keyword {
        "minimum" => rules.min = Some(number),
        "maximum" => rules.max = Some(number),
        "exclusiveMinimum" => rules.above = Some(number),
        "exclusiveMaximum" => rules.below = Some(number),
        _ if number > Num::Int(0) => rules.step = Some(number),
        _ => return Err(here.invalid("a number above 0 is needed")),
    }
    Ok(())
}

fn pattern(value: &Value, here: &Pointer<'_>) -> Result<Pattern, SchemaError> {
    regex(value.as_str().ok_or_else(|| here.invalid("a text is needed"))?, here)
}

/// Compiles a pattern. In JSON Schema `\d` and `\w` are the ASCII classes.
fn regex(source: &str, here: &Pointer<'_>) -> Result<Pattern, SchemaError> {
    const MAX_SIZE: usize = 1 << 20;
    let mut translated = String::with_capacity(source.len());
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            translated.push(c);
            continue;
        }
        match chars.next() {
            Some('d') => translated.push_str("[0-9]"),
            Some('D') => translated.push_str("[^0-9]"),
            Some('w') => translated.push_str("[0-9A-Za-z_]"),
            Some('W') => translated.push_str("[^0-9A-Za-z_]"),
            Some('/') => translated.push('/'),
            Some(other) => translated.extend(['\\', other]),
            None => translated.push('\\'),
        }
    }
    let regex = RegexBuilder::new(&translated).size_limit(MAX_SIZE).build();
    let regex = regex.map_err(|error| here.invalid(&error.to_string()))?;
    Ok(Pattern { source: source.to_owned(), regex })
}

fn schemas<'v>(value: &'v Value, here: &Pointer<'_>) -> Result<&'v Map<String, Value>, SchemaError> {
    value.as_object().ok_or_else(|| here.invalid("an object of schemas is needed"))
}
