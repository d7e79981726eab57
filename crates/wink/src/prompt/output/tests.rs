#![allow(clippy::unwrap_used, reason = "tests panic when they fail")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Container, ExtraKeys, Output, OutputContract};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Node {
    name: String,
    children: Vec<Node>,
}

#[test]
fn a_list_is_told_as_a_list_and_as_an_object() {
    let contract = OutputContract::new(Output::list::<Node>()).unwrap();
    assert_eq!(contract.container(), Container::List);
    assert_eq!(contract.extra_keys(), ExtraKeys::Rejected);
    assert_eq!(&**contract.name(), "Node_list");
    let node = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "children": { "type": "array", "items": { "$ref": "#/$defs/Node" } },
        },
        "required": ["name", "children"],
        "additionalProperties": false,
    });
    let list = json!({ "type": "array", "items": { "$ref": "#/$defs/Node" } });
    assert_eq!(
        **contract.object_schema(),
        json!({
            "type": "object", "properties": { "items": list }, "required": ["items"], "additionalProperties": false,
            "$defs": { "Node": node },
        })
    );
    assert_eq!(
        **contract.schema(),
        json!({ "type": "array", "items": { "$ref": "#/$defs/Node" }, "$defs": { "Node": node } })
    );
}

#[test]
fn names_are_what_every_provider_takes() {
    let named = |name: &str| OutputContract::new(Output::object::<Node>().named(name));
    assert_eq!(&**named("A list of <things>").unwrap().name(), "A_list_of__things_");
    assert_eq!(named(&"a".repeat(80)).unwrap().name().len(), 64);
    assert_eq!(named("").unwrap_err(), "the output has no name");
}

#[test]
fn what_is_no_object_and_no_list_is_refused() {
    assert_eq!(
        OutputContract::new(Output::object::<u8>()).unwrap_err(),
        "the output uint8 is an integer; an output is an object or a list: say Output::list for a list, and put anything \
         else into a struct"
    );
    assert!(OutputContract::new(Output::object::<Vec<u8>>()).is_err());
    assert!(OutputContract::new(Output::dynamic("text", json!({ "type": "string" }))).is_err());
    let itself = json!({ "type": "array", "items": { "$ref": "#" } });
    assert_eq!(
        OutputContract::new(Output::dynamic("tree", itself)).unwrap_err(),
        "the output tree: a list cannot refer to itself as `#`; put it into $defs and refer to it there"
    );
}

#[test]
fn an_integer_is_one_however_it_is_written_and_never_another() {
    let schema = json!({
        "type": "object", "required": ["version"],
        "properties": { "version": { "type": "integer" }, "size": { "type": "number" } },
    });
    let contract = OutputContract::new(Output::dynamic("release", schema)).unwrap();
    let read = |text: &str| contract.parse(text).map(|parsed| parsed.json().clone());
    assert_eq!(read(r#"{"version": 7.0}"#).unwrap(), json!({ "version": 7 }));
    assert_eq!(read(r#"{"version": 7e1, "size": 0.5}"#).unwrap(), json!({ "version": 70, "size": 0.5 }));
    assert_eq!(read(r#"{"version": 7, "size": 1.0}"#).unwrap(), json!({ "version": 7, "size": 1.0 }));
    assert_eq!(read(r#"{"version": 18446744073709551615}"#).unwrap(), json!({ "version": u64::MAX }));
    for text in [r#"{"version": 7.5}"#, r#"{"version": 99999999999999999999999}"#, r#"{"version": 1e23}"#] {
        assert!(read(text).is_err(), "{text}");
    }
    for text in
        [r#"{"version": 99999999999999999999999}"#, r#"{"version": 7, "size": 99999999999999999999999}"#]
    {
        let refused = read(text).unwrap_err().to_string();
        assert!(refused.contains("`99999999999999999999999` would be rounded"), "{refused}");
    }
}
