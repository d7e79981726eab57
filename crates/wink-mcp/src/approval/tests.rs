use std::sync::Arc;

use serde_json::json;

use super::*;

fn questions(name: &str) -> Questions {
    Questions::new(name.into(), &ServerOptions::default())
}

#[test]
fn a_seal_is_good_for_its_call_only() {
    let (here, elsewhere) = (questions("main"), questions("main"));
    let id = Uuid::new_v4();
    let bound = Bound { tool: "deploy", arguments: r#"{"a":1,"b":[2]}"# };
    let state = format!("{}.{}", id.simple(), here.seal(id, bound).to_hex());
    assert_eq!(here.open(&state, bound), Some(id));
    // The same arguments, spelled otherwise.
    assert_eq!(here.open(&state, Bound { arguments: r#"{ "b": [2], "a": 1 }"#, ..bound }), Some(id));
    assert_eq!(here.open(&state, Bound { arguments: r#"{"a":1,"b":[3]}"#, ..bound }), None);
    assert_eq!(here.open(&state, Bound { tool: "release", ..bound }), None);
    // Another server has another key.
    assert_eq!(elsewhere.open(&state, bound), None);
    for wrong in ["", ".", "x.y", &state[1..], &format!("{state}0"), &state.replace('.', "")] {
        assert_eq!(here.open(wrong, bound), None, "{wrong}");
    }
    let other = format!("{}.{}", Uuid::new_v4().simple(), here.seal(id, bound).to_hex());
    assert_eq!(here.open(&other, bound), None);
}

#[test]
fn everything_but_a_plain_yes_is_a_no() {
    let said = |answer: Value| approval_of(&serde_json::from_value(answer).unwrap(), "me");
    let yes = json!({ "action": "accept", "content": { "approve": true } });
    assert_eq!(said(yes), Approval::Approved { by: Arc::from("me") });
    for no in [
        json!({ "action": "accept", "content": { "approve": false } }),
        json!({ "action": "accept", "content": { "approve": "true" } }),
        json!({ "action": "accept", "content": {} }),
        json!({ "action": "accept" }),
        json!({ "action": "decline", "content": { "approve": true } }),
        json!({ "action": "cancel" }),
    ] {
        assert!(matches!(said(no), Approval::Refused { .. }));
    }
}
