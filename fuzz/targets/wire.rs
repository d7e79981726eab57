//! A frame of the MCP server, before it is decoded, against a plain decoding of all of it: what is not JSON to the server is
//! none, arguments are kept as they were written, nothing else is changed, and what is left to be decoded is bounded. The id of
//! a request is found as well in one that is passed over.

use serde_json::{Value, json};
use wink_mcp::fuzzing::{BOUNDS, look, skim};

/// One input of the fuzzer, or of its corpus.
pub fn run(frame: &[u8]) {
    let model = serde_json::from_slice::<Value>(frame).ok();
    let looked = match look(frame) {
        Ok(looked) => looked,
        Err(None) => {
            assert!(model.is_none(), "it is JSON");
            return;
        }
        Err(Some(why)) => {
            assert!(!why.is_empty() && why.len() < 1000, "{why}");
            return;
        }
    };
    // Names are compared as they are written there, and a method that is null is one.
    if looked.method.is_some() && !frame.contains(&b'\\') {
        for piece in [1, 3, usize::MAX] {
            assert_eq!(skim(frame, piece), looked.id);
        }
    }
    // Numbers without end and halves of characters are skipped over, and refused when they are decoded.
    let Some(mut model) = model else { return };
    assert!(model.is_object());
    let method = model.get("method").filter(|method| !method.is_null());
    assert_eq!(looked.method.as_deref(), method.map(|method| method.as_str().expect("it was taken")));
    let id = model.get("id").filter(|id| method.is_some() && !id.is_null());
    assert_eq!(looked.id.as_ref(), id);
    let is_call = looked.method.as_deref() == Some("tools/call") && model["params"].is_object();
    assert_eq!(looked.arguments.is_some(), is_call);
    let decoded: Value = serde_json::from_slice(&looked.decoded).expect("it was JSON");
    let mut most = BOUNDS.0;
    if let Some(text) = &looked.arguments {
        let given = model["params"].get("arguments").filter(|given| !given.is_null()).cloned();
        let kept = (!text.is_empty()).then(|| serde_json::from_str::<Value>(text).expect("a part of it"));
        assert_eq!(kept, given);
        // The decoder is given them as they are, or none.
        if decoded["params"].get("arguments") != model["params"].get("arguments") {
            assert_eq!(decoded["params"]["arguments"], json!({}));
            model["params"]["arguments"] = json!({});
        } else if given.is_some() {
            most += BOUNDS.0;
        }
    }
    assert_eq!(decoded, model);
    let (values, depth) = size(&decoded);
    assert!(values <= most && depth <= BOUNDS.1 + 1, "{values} values, {depth} deep");
}

/// How many values there are, and how deep.
fn size(value: &Value) -> (usize, usize) {
    let sum = |inner: Vec<(usize, usize)>| {
        inner.into_iter().fold((1, 0), |(count, depth), (more, deep)| (count + more, depth.max(deep + 1)))
    };
    match value {
        Value::Array(items) => sum(items.iter().map(size).collect()),
        Value::Object(fields) => sum(fields.values().map(size).collect()),
        _ => (1, 0),
    }
}
