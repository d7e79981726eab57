//! Closing objects at every depth.
//!
//! JSON Schema lets unknown keys pass unless told otherwise, and `additionalProperties: false` looks only at the
//! properties beside it. An object put together from several schemas (`allOf`, a flattened enum, a reference
//! with siblings) is therefore closed as a whole: each part that closes knows the names of all other parts.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::CompiledSchema;
use super::compile::{MAX_NESTING, MAX_NODES, is_annotation};
use super::error::SchemaError;
use super::pointer::{Pointer, resolve};

/// The schema with objects closed at every depth, which is the form that is advertised and checked.
///
/// An object that says `additionalProperties` itself stays as it is; every other one gets `false`, including
/// one without properties. What stands under `not` is left alone: closing it would let more pass, not less.
/// The root must describe an object, and says so in its `type`.
pub fn tighten(schema: Value) -> Result<Value, SchemaError> {
    // What was compiled bounds everything below: no reference loops, no explosion of alternatives.
    let mut schema = loosen(schema)?;
    let original = schema.clone();
    let mut closer = Closer { root: &original, visited: 0 };
    closer.close(&mut schema, &Names::default(), &Pointer::ROOT, 0)?;
    for keyword in ["$defs", "definitions"] {
        let here = Pointer::ROOT.key(keyword);
        for (name, definition) in schema.get_mut(keyword).and_then(Value::as_object_mut).into_iter().flatten()
        {
            closer.close(definition, &Names::default(), &here.key(name), 0)?;
        }
    }
    CompiledSchema::compile(&schema)?;
    if let Value::Object(fields) = &mut schema
        && !fields.contains_key("type")
    {
        fields.shift_insert(0, "type".to_owned(), "object".into());
    }
    Ok(schema)
}

/// The schema in a form that can be checked, with objects as open as they are. The root must describe an object.
pub(crate) fn loosen(mut schema: Value) -> Result<Value, SchemaError> {
    each_schema(&mut schema, &mut drop_unevaluated);
    if let Value::Object(fields) = &mut schema
        && !fields.contains_key("type")
        && ["properties", "required"].iter().any(|keyword| fields.contains_key(*keyword))
    {
        fields.shift_insert(0, "type".to_owned(), "object".into());
    }
    CompiledSchema::compile(&schema)?;
    Ok(schema)
}

/// Visits every schema of a document, outer ones first. What is nested too deep to be used is not visited.
pub(super) fn each_schema(schema: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    fn nested(schema: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>), nesting: usize) {
        let Value::Object(fields) = schema else { return };
        if nesting > MAX_NESTING {
            return;
        }
        visit(fields);
        for (keyword, value) in fields.iter_mut() {
            match (keyword.as_str(), value) {
                ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(schemas)) => {
                    schemas.values_mut().for_each(|schema| nested(schema, visit, nesting + 1));
                }
                ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
                    schemas.iter_mut().for_each(|schema| nested(schema, visit, nesting + 1));
                }
                ("items" | "additionalProperties" | "propertyNames" | "not", value) => {
                    nested(value, visit, nesting + 1);
                }
                _ => {}
            }
        }
    }
    nested(schema, visit, 0);
}

/// Rewrites `unevaluatedProperties`: closing objects as a whole is what it is for.
fn drop_unevaluated(fields: &mut Map<String, Value>) {
    match fields.get("unevaluatedProperties") {
        Some(Value::Bool(true)) if !fields.contains_key("additionalProperties") => {
            fields.insert("additionalProperties".to_owned(), Value::Bool(true));
        }
        Some(Value::Bool(_)) => {}
        _ => return, // a schema here is refused when compiling
    }
    fields.shift_remove("unevaluatedProperties");
}

/// Names that an object may have.
#[derive(Debug, Clone, Default)]
struct Names {
    names: BTreeSet<String>,
    patterns: BTreeSet<String>,
    /// Any name goes: some part says what additional properties may be.
    open: bool,
}

impl Names {
    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.patterns.is_empty() && !self.open
    }

    fn add(&mut self, other: &Self) {
        self.names.extend(other.names.iter().cloned());
        self.patterns.extend(other.patterns.iter().cloned());
        self.open |= other.open;
    }
}

/// The parts of a schema that see the same object: combinator keyword, position, and its names.
type Parts = Vec<(&'static str, usize, Names)>;

const COMBINATORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

struct Closer<'r> {
    root: &'r Value,
    visited: usize,
}

impl Closer<'_> {
    /// Closes one schema whose object may also have the names `outside`. True: it is closed now.
    fn close(
        &mut self,
        schema: &mut Value,
        outside: &Names,
        place: &Pointer<'_>,
        nesting: usize,
    ) -> Result<bool, SchemaError> {
        self.visited += 1;
        let too_complex = |what, limit| Err(SchemaError::TooComplex { what, limit, path: place.to_string() });
        if nesting > MAX_NESTING {
            return too_complex("schemas inside each other", MAX_NESTING);
        }
        if self.visited > MAX_NODES {
            return too_complex("schemas", MAX_NODES);
        }
        let Value::Object(fields) = schema else { return Ok(false) };
        self.inline_reference(fields, outside, place)?;
        let own = own_names(fields);
        let parts = self.parts(fields, place)?;
        let mut closed = self.close_parts(fields, outside, &own, &parts, place, nesting)?;
        if let Some(Value::String(reference)) = fields.get("$ref") {
            closed |= declares_object(resolve(self.root, reference, place)?);
        }
        let mut all = own;
        parts.iter().for_each(|(_, _, names)| all.add(names));
        all.add(outside);
        if !closed && !all.open && declares(fields) && !fields.contains_key("additionalProperties") {
            admit(fields, &all);
            fields.insert("additionalProperties".to_owned(), Value::Bool(false));
            closed = true;
        }
        self.close_inner(fields, place, nesting)?;
        Ok(closed || fields.contains_key("additionalProperties"))
    }

    /// Replaces a reference by its target where the target's object has to be closed together with more names.
    fn inline_reference(
        &mut self,
        fields: &mut Map<String, Value>,
        outside: &Names,
        place: &Pointer<'_>,
    ) -> Result<(), SchemaError> {
        let Some(Value::String(reference)) = fields.get("$ref") else { return Ok(()) };
        let target = resolve(self.root, reference, place)?;
        let names = self.names(target, place, 0)?;
        let alone = outside.is_empty()
            && !declares(fields)
            && !COMBINATORS.iter().any(|combinator| fields.contains_key(*combinator));
        if alone || names.is_empty() && !declares_object(target) {
            return Ok(());
        }
        let mut target = target.clone();
        if let Value::Object(target) = &mut target {
            // Definitions stay where references find them: at the root.
            target.shift_remove("$defs");
            target.shift_remove("definitions");
        }
        fields.shift_remove("$ref");
        if !merge(fields, &target)
            && let Some(all) =
                fields.entry("allOf").or_insert_with(|| Value::Array(Vec::new())).as_array_mut()
        {
            all.push(target);
        }
        // The target may be a reference itself; loops were refused before.
        self.inline_reference(fields, outside, place)
    }

    fn parts(&self, fields: &Map<String, Value>, place: &Pointer<'_>) -> Result<Parts, SchemaError> {
        let mut parts = Vec::new();
        for combinator in COMBINATORS {
            let members = fields.get(combinator).and_then(Value::as_array);
            for (index, member) in members.into_iter().flatten().enumerate() {
                parts.push((combinator, index, self.names(member, place, 0)?));
            }
        }
        Ok(parts)
    }

    /// Closes the parts of an object. True: whatever parts apply, one of them closes the object.
    fn close_parts(
        &mut self,
        fields: &mut Map<String, Value>,
        outside: &Names,
        own: &Names,
        parts: &Parts,
        place: &Pointer<'_>,
        nesting: usize,
    ) -> Result<bool, SchemaError> {
        let mut closed = false;
        for combinator in COMBINATORS {
            let here = place.key(combinator);
            let Some(members) = fields.get_mut(combinator).and_then(Value::as_array_mut) else { continue };
            let mut every = true;
            for (index, member) in members.iter_mut().enumerate() {
                let mut others = outside.clone();
                others.add(own);
                for (keyword, position, names) in parts {
                    let alternative = *keyword == combinator && combinator != "allOf";
                    if !alternative && (*keyword, *position) != (combinator, index) {
                        others.add(names);
                    }
                }
                // "Or nothing more": the empty alternative beside ones that name fields.
                let empty = combinator != "allOf" && member.as_object().is_some_and(Map::is_empty);
                if empty && !others.is_empty() && !others.open {
                    *member = serde_json::json!({ "type": "object" });
                }
                let number = index.to_string();
                let here = here.key(&number);
                let can_be_object = may_be_object(member);
                let this = self.close(member, &others, &here, nesting + 1)?;
                closed |= this && combinator == "allOf";
                every &= this || !can_be_object;
            }
            closed |= every && combinator != "allOf";
        }
        Ok(closed)
    }

    /// Goes on to the schemas of values inside.
    fn close_inner(
        &mut self,
        fields: &mut Map<String, Value>,
        place: &Pointer<'_>,
        nesting: usize,
    ) -> Result<(), SchemaError> {
        let fresh = Names::default();
        for keyword in ["properties", "patternProperties"] {
            let here = place.key(keyword);
            for (name, schema) in fields.get_mut(keyword).and_then(Value::as_object_mut).into_iter().flatten()
            {
                self.close(schema, &fresh, &here.key(name), nesting + 1)?;
            }
        }
        for keyword in ["additionalProperties", "items"] {
            if let Some(schema) = fields.get_mut(keyword) {
                self.close(schema, &fresh, &place.key(keyword), nesting + 1)?;
            }
        }
        let here = place.key("prefixItems");
        let items = fields.get_mut("prefixItems").and_then(Value::as_array_mut);
        for (index, schema) in items.into_iter().flatten().enumerate() {
            self.close(schema, &fresh, &here.key(&index.to_string()), nesting + 1)?;
        }
        Ok(())
    }

    /// All names that a schema gives to the object it sees, through combinators and references.
    fn names(&self, schema: &Value, place: &Pointer<'_>, nesting: usize) -> Result<Names, SchemaError> {
        if nesting > MAX_NESTING {
            return Err(SchemaError::Cycle { path: place.to_string() });
        }
        let Value::Object(fields) = schema else { return Ok(Names::default()) };
        let mut names = own_names(fields);
        if let Some(Value::String(reference)) = fields.get("$ref") {
            names.add(&self.names(resolve(self.root, reference, place)?, place, nesting + 1)?);
        }
        for combinator in COMBINATORS {
            for member in fields.get(combinator).and_then(Value::as_array).into_iter().flatten() {
                names.add(&self.names(member, place, nesting + 1)?);
            }
        }
        Ok(names)
    }
}

fn own_names(fields: &Map<String, Value>) -> Names {
    let keys = |keyword: &str| {
        let object = fields.get(keyword).and_then(Value::as_object);
        object.map(|object| object.keys().cloned().collect()).unwrap_or_default()
    };
    let open = fields.get("additionalProperties").is_some_and(|value| value != &Value::Bool(false));
    Names { names: keys("properties"), patterns: keys("patternProperties"), open }
}

/// Whether the schema itself says that it is about objects.
fn declares(fields: &Map<String, Value>) -> bool {
    let by_type = match fields.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => false,
    };
    by_type
        || ["properties", "patternProperties", "additionalProperties"]
            .iter()
            .any(|key| fields.contains_key(*key))
}

fn declares_object(schema: &Value) -> bool {
    schema.as_object().is_some_and(|fields| {
        declares(fields) || COMBINATORS.iter().any(|combinator| fields.contains_key(*combinator))
    })
}

fn may_be_object(schema: &Value) -> bool {
    match schema {
        Value::Bool(pass) => *pass,
        Value::Object(fields) => match (fields.get("type"), fields.get("const"), fields.get("enum")) {
            (Some(Value::String(name)), _, _) => name == "object",
            (Some(Value::Array(names)), _, _) => names.iter().any(|name| name == "object"),
            (_, Some(value), _) => value.is_object(),
            (_, _, Some(Value::Array(values))) => values.iter().any(Value::is_object),
            _ => true,
        },
        _ => false,
    }
}

/// Lets names of other parts pass here; those parts say what their values may be.
fn admit(fields: &mut Map<String, Value>, names: &Names) {
    for (keyword, list) in [("properties", &names.names), ("patternProperties", &names.patterns)] {
        if list.is_empty() && keyword != "properties" {
            continue;
        }
        let entry = fields.entry(keyword).or_insert_with(|| Value::Object(Map::new()));
        for name in list {
            if let Value::Object(known) = &mut *entry {
                known.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
            }
        }
    }
}

/// Adds the keywords of `other`, if each of them can be added without changing its meaning.
fn merge(fields: &mut Map<String, Value>, other: &Value) -> bool {
    let Value::Object(other) = other else { return false };
    if fields.contains_key("additionalProperties") || other.contains_key("additionalProperties") {
        return false;
    }
    let compatible = other.iter().all(|(keyword, value)| match (keyword.as_str(), fields.get(keyword)) {
        (_, None) => true,
        ("properties", Some(Value::Object(known))) => {
            value.as_object().is_some_and(|new| new.keys().all(|name| !known.contains_key(name)))
        }
        ("required", Some(Value::Array(_))) => value.is_array(),
        (keyword, Some(known)) => is_annotation(keyword) || known == value,
    });
    if !compatible {
        return false;
    }
    for (keyword, value) in other {
        match (fields.get_mut(keyword), value) {
            (None, value) => {
                fields.insert(keyword.clone(), value.clone());
            }
            (Some(Value::Object(known)), Value::Object(new)) if keyword == "properties" => {
                known.extend(new.iter().map(|(name, schema)| (name.clone(), schema.clone())));
            }
            (Some(Value::Array(known)), Value::Array(new)) if keyword == "required" => {
                known.extend(new.iter().cloned());
            }
            _ => {}
        }
    }
    true
}
