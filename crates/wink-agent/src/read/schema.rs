//! The schema of agent files: for editors, and for the walk that checks a text.

use serde_json::{Map, Value};

use crate::file::File;

/// The JSON Schema of an agent file.
pub(crate) fn schema() -> Value {
    let mut schema = schemars::schema_for!(File).to_value();
    plain(&mut schema);
    schema
}

/// TOML has no null: what may be left out is left out, and never written as one.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    fields.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(branches)) = fields.get_mut("anyOf") {
                branches.retain(|branch| branch.get("type").is_none_or(|name| name != "null"));
                if let [Value::Object(only)] = branches.as_mut_slice() {
                    let only: Map<String, Value> = std::mem::take(only);
                    fields.remove("anyOf");
                    for (keyword, value) in only {
                        // What is said of the field says more than what is said of its type.
                        fields.entry(keyword).or_insert(value);
                    }
                }
            }
            // A default of nothing says nothing.
            fields.retain(|keyword, value| keyword != "default" || !value.is_null());
            fields.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}
