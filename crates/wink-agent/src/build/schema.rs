//! The schema of a tool's arguments: everything that is wrong with it, each thing where it is written.

use serde_json::{Map, Value};
use wink::tool::schema::{SchemaError, keywords, tighten};

use super::{Build, SCHEMA_HINT};
use crate::file::{At, Placed};
use crate::problem::Span;
use crate::read::did_you_mean;

/// More mistakes of one schema are not told at once.
const MOST: usize = 100;

impl Build<'_> {
    /// The schema as it is written, if it is one. Otherwise all that is wrong: what was found is taken out, and what is left
    /// looked at again, for the library tells of one thing at a time.
    pub(super) fn schema(&mut self, params: Option<&At<Placed>>, written: Value) -> Option<Value> {
        let Some(params) = params else { return Some(written) };
        let before = self.problems.count();
        let mut rest = written.clone();
        for round in 0..MOST {
            let error = match tighten(rest.clone()) {
                Ok(tight) => {
                    self.never_there(params, &tight);
                    break;
                }
                // What was taken out may have made it one.
                Err(SchemaError::NotAnObject { .. }) if round > 0 => break,
                Err(error) => error,
            };
            let steps = mistake(&error);
            let (name, steps_as_text) = (is_about_name(&error), steps.iter().map(String::as_str));
            let span = if name { params.name_at(steps_as_text) } else { params.value_at(steps_as_text) };
            let hint = match &error {
                SchemaError::UnknownKeyword { keyword, .. } => known_keywords(keyword),
                _ => SCHEMA_HINT.to_owned(),
            };
            self.problems.hint(span, error.to_string(), hint);
            if !take_out(&mut rest, &steps) {
                break;
            }
        }
        (self.problems.count() == before).then_some(written)
    }

    /// Fields that have to be there and cannot be: objects take no others than they name.
    fn never_there(&mut self, params: &At<Placed>, tight: &Value) {
        let mut found = Vec::new();
        look(tight, &mut Vec::new(), &mut found);
        for Missing { place, name, known } in found {
            let message = format!(
                "`{name}` is required and not among the properties, and others are not taken: nothing fits this"
            );
            let hint = did_you_mean(&name, known.iter().map(String::as_str));
            let hint = hint.unwrap_or_else(|| {
                format!("describe it: `properties = {{ {name} = {{ … }} }}`, or take it out of `required`")
            });
            self.problems.hint(params.value_at(place.iter().map(String::as_str)), message, hint);
        }
    }

    /// Where a parameter is named.
    pub(super) fn parameter_place<'p>(params: &'p At<Placed>, name: &str) -> &'p Span {
        params.name_at(["properties", name])
    }
}

/// What could be there instead of a keyword that is not supported.
fn known_keywords(written: &str) -> String {
    did_you_mean(written, keywords()).unwrap_or_else(|| {
        let known: Vec<&str> = keywords().collect();
        format!("supported are {}, and what begins with x-", known.join(", "))
    })
}

/// Whether it is the keyword that is wrong, and not what it says.
fn is_about_name(error: &SchemaError) -> bool {
    matches!(error, SchemaError::UnknownKeyword { .. })
}

/// The steps to what is wrong, from the root of the schema.
fn mistake(error: &SchemaError) -> Vec<String> {
    match error {
        // A definition is called what a reference to it is.
        SchemaError::InvalidKeyword { keyword, .. } if keyword.starts_with('#') => steps(keyword),
        SchemaError::UnknownKeyword { keyword, path } | SchemaError::InvalidKeyword { keyword, path, .. } => {
            let mut steps = steps(path);
            steps.push(keyword.clone());
            steps
        }
        SchemaError::RemoteRef { path, .. } | SchemaError::UnresolvedRef { path, .. } => {
            let mut steps = steps(path);
            if steps.last().is_none_or(|last| last != "$ref") {
                steps.push("$ref".to_owned());
            }
            steps
        }
        SchemaError::Cycle { path } | SchemaError::TooComplex { path, .. } => steps(path),
        // It is the whole that is wrong.
        _ => Vec::new(),
    }
}

/// The steps of a JSON pointer.
fn steps(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}

/// Takes a part out of a schema, so that the rest can be looked at; false if it is not there.
fn take_out(schema: &mut Value, steps: &[String]) -> bool {
    let Some((last, above)) = steps.split_last() else { return false };
    let is_root = above.is_empty();
    let parent = above.iter().try_fold(schema, |at, step| match at {
        Value::Object(fields) => fields.get_mut(step),
        Value::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
        _ => None,
    });
    match parent {
        Some(Value::Object(fields)) if is_root && last == "type" => {
            // There is one thing that it can be.
            fields.insert(last.clone(), "object".into()).is_some_and(|before| before != "object")
        }
        Some(Value::Object(fields)) => fields.shift_remove(last).is_some(),
        Some(Value::Array(items)) => match last.parse::<usize>().ok().and_then(|at| items.get_mut(at)) {
            Some(item) => std::mem::replace(item, Value::Bool(true)) != Value::Bool(true),
            None => false,
        },
        _ => false,
    }
}

/// A field that has to be there and cannot be.
struct Missing {
    place: Vec<String>,
    name: String,
    known: Vec<String>,
}

/// Looks for such fields in a schema that was tightened, which bounds how deep it is.
fn look(schema: &Value, place: &mut Vec<String>, found: &mut Vec<Missing>) {
    let Value::Object(fields) = schema else { return };
    let is_closed = fields.get("additionalProperties") == Some(&Value::Bool(false));
    if is_closed && !fields.contains_key("patternProperties") {
        let known = fields.get("properties").and_then(Value::as_object);
        let required = fields.get("required").and_then(Value::as_array).into_iter().flatten();
        for (at, name) in required.filter_map(Value::as_str).enumerate() {
            if known.is_none_or(|known| !known.contains_key(name)) {
                let place = place.iter().cloned().chain(["required".to_owned(), at.to_string()]).collect();
                let known = known.into_iter().flat_map(Map::keys).cloned().collect();
                found.push(Missing { place, name: name.to_owned(), known });
            }
        }
    }
    let mut below = |steps: [&str; 2], schema: &Value| {
        let before = place.len();
        place.extend(steps.iter().filter(|step| !step.is_empty()).map(|step| (*step).to_owned()));
        look(schema, place, found);
        place.truncate(before);
    };
    for (keyword, value) in fields {
        match (keyword.as_str(), value) {
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(schemas)) => {
                schemas.iter().for_each(|(name, schema)| below([keyword, name], schema));
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter().enumerate().for_each(|(at, schema)| below([keyword, &at.to_string()], schema));
            }
            ("items" | "additionalProperties", schema) => below([keyword, ""], schema),
            _ => {}
        }
    }
}
