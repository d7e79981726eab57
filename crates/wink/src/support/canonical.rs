//! Canonical JSON: one text per value, whatever the order in which its keys came. Keys of the ledger and content
//! hashes are made from it.

use serde_json::Value;

/// The value's canonical text: object keys sorted at every level, no spaces.
pub(crate) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// The hash of the value's canonical text, in hex.
pub(crate) fn canonical_hash(value: &Value) -> String {
    blake3::hash(canonical(value).as_bytes()).to_hex().to_string()
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}
