//! The schema of a Rust type as it is shown to models.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::compile::is_annotation;
use super::error::SchemaError;
use super::pointer::definition;
use super::tighten::{each_schema, loosen, tighten};
use crate::tool::secret::SENSITIVE_KEYWORD;

/// The schema that models see for parameters of type `P`, and that their arguments are checked against.
///
/// Objects are closed at every depth, integers have the bounds of their width, optional enums list their values
/// and null, and types that occur once are inlined. `()` is an object without properties.
pub fn advertised_schema<P: JsonSchema>() -> Result<Value, SchemaError> {
    advertise(schema_of::<P>(), tighten)
}

/// The same with objects that take further keys, unless the type itself refuses them.
pub(crate) fn open_schema<P: JsonSchema>() -> Result<Value, SchemaError> {
    advertise(schema_of::<P>(), loosen)
}

fn schema_of<P: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<P>().to_value()
}

/// The schema of values of type `R`, as whoever gets them is told. Open, as what comes may one day say more.
pub(crate) fn output_schema<R: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(R).to_value();
    each_schema(&mut schema, &mut |fields| {
        bound_integers(fields);
        // Nobody else has names for these.
        if fields.get("format").is_some_and(|format| format == "float" || format == "double") {
            fields.shift_remove("format");
        }
    });
    schema
}

/// The part that does not depend on the type.
fn advertise(
    mut schema: Value,
    finish: fn(Value) -> Result<Value, SchemaError>,
) -> Result<Value, SchemaError> {
    if let Value::Object(fields) = &mut schema {
        fields.shift_remove("$schema");
        fields.shift_remove("title");
        if fields.get("type") == Some(&json!("null")) {
            fields.insert("type".to_owned(), json!("object"));
        }
    }
    each_schema(&mut schema, &mut |fields| {
        bound_integers(fields);
        if fields.contains_key(SENSITIVE_KEYWORD) {
            fields.shift_remove("default");
            fields.shift_remove("examples");
        }
    });
    list_optional_values(&mut schema);
    inline_definitions(&mut schema);
    let mut schema = finish(schema)?;
    // Closing parts together has put some definitions where they are used.
    inline_definitions(&mut schema);
    Ok(schema)
}

/// Turns the width that an integer's format names into bounds, which every reader of schemas understands.
fn bound_integers(fields: &mut Map<String, Value>) {
    let Some(Value::String(format)) = fields.get("format") else { return };
    // Wider integers are held to what a JSON number of 64 bits can say exactly.
    let (min, max) = match format.as_str() {
        "uint8" => (0, u8::MAX.into()),
        "uint16" => (0, u16::MAX.into()),
        "uint32" => (0, u32::MAX.into()),
        "uint64" | "uint128" => (0, u64::MAX),
        "uint" => (0, usize::MAX as u64),
        "int8" => (i8::MIN.into(), i8::MAX as u64),
        "int16" => (i16::MIN.into(), i16::MAX as u64),
        "int32" => (i32::MIN.into(), i32::MAX as u64),
        "int64" => (i64::MIN, i64::MAX as u64),
        "int128" => (i64::MIN, u64::MAX),
        "int" => (isize::MIN as i64, isize::MAX as u64),
        _ => return,
    };
    fields.shift_remove("format");
    // A bound of the type's own that is tighter stays.
    let whole = |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    if fields.get("minimum").and_then(whole).is_none_or(|own| own < i128::from(min)) {
        fields.insert("minimum".to_owned(), min.into());
    }
    if fields.get("maximum").and_then(whole).is_none_or(|own| own > i128::from(max)) {
        fields.insert("maximum".to_owned(), max.into());
    }
}

/// Rewrites "this enum or null" to one list of values that includes null.
fn list_optional_values(root: &mut Value) {
    let definitions = root.get("$defs").cloned().unwrap_or_default();
    each_schema(root, &mut |fields| {
        let Some([values, null]) = fields.get("anyOf").and_then(Value::as_array).map(Vec::as_slice) else {
            return;
        };
        if null != &json!({ "type": "null" }) {
            return;
        }
        let target = match values.get("$ref").and_then(Value::as_str).and_then(definition) {
            Some(name) => definitions.get(&name),
            None => Some(values),
        };
        let Some((mut list, docs)) = target.and_then(string_values) else { return };
        list.push(Value::Null);
        let described =
            fields.get("description").or_else(|| target.and_then(|target| target.get("description")));
        let lines = described.and_then(Value::as_str).map(str::to_owned).into_iter().chain(docs);
        let description = lines.collect::<Vec<_>>().join("\n");
        fields.shift_remove("anyOf");
        if !description.is_empty() {
            fields.insert("description".to_owned(), description.into());
        }
        fields.insert("type".to_owned(), json!(["string", "null"]));
        fields.insert("enum".to_owned(), list.into());
    });
}

/// The values of a schema that is nothing but a list of texts, and what it says about each.
fn string_values(schema: &Value) -> Option<(Vec<Value>, Vec<String>)> {
    let fields = schema.as_object()?;
    let only =
        |allowed: &[&str]| fields.keys().all(|key| is_annotation(key) || allowed.contains(&key.as_str()));
    let values: Vec<Value> = if let Some(Value::Array(values)) = fields.get("enum") {
        only(&["type", "enum"]).then(|| values.clone())?
    } else if let Some(value) = fields.get("const") {
        only(&["type", "const"]).then(|| vec![value.clone()])?
    } else {
        let mut all = (Vec::new(), Vec::new());
        for branch in fields.get("oneOf").filter(|_| only(&["oneOf"]))?.as_array()? {
            let (values, docs) = string_values(branch)?;
            if let (Some(Value::String(value)), Some(Value::String(text))) =
                (values.first(), branch.get("description"))
            {
                all.1.push(format!("- `{value}`: {text}"));
            }
            all.0.extend(values);
            all.1.extend(docs);
        }
        return Some(all);
    };
    values.iter().all(Value::is_string).then_some((values, Vec::new()))
}

/// Puts definitions that are used once, and do not lead back to themselves, where they are used.
fn inline_definitions(root: &mut Value) {
    loop {
        let mut uses: BTreeMap<String, usize> = BTreeMap::new();
        each_schema(root, &mut |fields| {
            if let Some(name) = fields.get("$ref").and_then(Value::as_str).and_then(definition) {
                *uses.entry(name).or_default() += 1;
            }
        });
        let Some(definitions) = root.get_mut("$defs").and_then(Value::as_object_mut) else { return };
        definitions.retain(|name, _| uses.contains_key(name));
        if definitions.is_empty() {
            if let Value::Object(fields) = root {
                fields.shift_remove("$defs");
            }
            return;
        }
        let recursive: BTreeSet<String> =
            definitions.keys().filter(|name| leads_to(definitions, name)).cloned().collect();
        let once = |name: &String| uses.get(name) == Some(&1) && !recursive.contains(name);
        let targets: BTreeMap<String, Value> = definitions
            .iter()
            .filter(|(name, _)| once(name))
            .map(|(name, schema)| (name.clone(), schema.clone()))
            .collect();
        let mut changed = false;
        each_schema(root, &mut |fields| {
            let name = fields.get("$ref").and_then(Value::as_str).and_then(definition);
            let Some(Value::Object(target)) = name.and_then(|name| targets.get(&name)) else { return };
            let free = |key: &String| key == "$ref" || is_annotation(key) || key == SENSITIVE_KEYWORD;
            if !fields.keys().all(free) {
                return;
            }
            fields.shift_remove("$ref");
            for (keyword, value) in target {
                fields.entry(keyword.clone()).or_insert_with(|| value.clone());
            }
            changed = true;
        });
        if !changed {
            return;
        }
    }
}

/// Whether a definition refers to itself, directly or through others.
fn leads_to(definitions: &Map<String, Value>, start: &str) -> bool {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut queue = vec![start.to_owned()];
    while let Some(name) = queue.pop() {
        let Some(mut schema) = definitions.get(&name).cloned() else { continue };
        each_schema(&mut schema, &mut |fields| {
            if let Some(next) = fields.get("$ref").and_then(Value::as_str).and_then(definition)
                && seen.insert(next.clone())
            {
                queue.push(next);
            }
        });
    }
    seen.contains(start)
}
