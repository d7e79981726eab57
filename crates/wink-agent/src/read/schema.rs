//! The schema of agent files: for editors, and for the walk that checks a text.

#[cfg(test)]
use serde_json::Map;
use serde_json::Value;

/// The JSON Schema of an agent file, as a text: making it from the types takes longer than all else that reading a file does. A
/// test sees to it that it is what the types say.
pub(super) const TEXT: &str = include_str!("schema.json");

/// The JSON Schema of an agent file.
pub(crate) fn schema() -> Value {
    serde_json::from_str(TEXT).unwrap_or_default()
}

/// What the types say.
#[cfg(test)]
pub(super) fn of_types() -> Value {
    let mut schema = schemars::schema_for!(crate::file::File).to_value();
    plain(&mut schema);
    schema
}

/// TOML has no null: what may be left out is left out, and never written as one.
#[cfg(test)]
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
