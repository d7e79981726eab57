//! Schemas in the providers' dialects: what was valid stays writable, and the providers take it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use wink_fake::{anthropic_strict, openai_strict};
use wink_models::dialect::{Dialect, Incompatible, lower, lower_tools, without_nulls};
use wink_models::{OutputSpec, ToolSpec};

/// A type, from which a schema and values come.
#[derive(Debug, Clone)]
enum Type {
    Text,
    Count,
    Flag,
    Word(Vec<String>),
    Nullable(Box<Type>),
    List(Box<Type>),
    Record(Vec<(String, Type, Need)>),
    Tagged(Vec<Type>),
    /// The definition `tree`, which refers to itself.
    Tree,
    /// Anything under a name of its own.
    Named(Box<Type>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

fn types() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![
        Just(Type::Text),
        Just(Type::Count),
        Just(Type::Flag),
        prop::collection::btree_set("[a-z]{1,4}", 1..4)
            .prop_map(|words| Type::Word(words.into_iter().collect())),
        Just(Type::Tree),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let need = prop_oneof![Just(Need::Required), Just(Need::Optional)];
        let fields = prop::collection::btree_map("[a-z]{1,3}", (inner.clone(), need), 0..4);
        prop_oneof![
            inner.clone().prop_map(|inner| Type::Nullable(Box::new(inner))),
            inner.clone().prop_map(|inner| Type::List(Box::new(inner))),
            inner.clone().prop_map(|inner| Type::Named(Box::new(inner))),
            prop::collection::vec(inner, 1..3).prop_map(Type::Tagged),
            fields.prop_map(record),
        ]
    })
}

fn record(fields: std::collections::BTreeMap<String, (Type, Need)>) -> Type {
    Type::Record(fields.into_iter().map(|(name, (kind, need))| (name, kind, need)).collect())
}

fn records() -> impl Strategy<Value = Type> {
    let need = prop_oneof![Just(Need::Required), Just(Need::Optional)];
    prop::collection::btree_map("[a-z]{1,3}", (types(), need), 0..4).prop_map(record)
}

fn object(properties: Map<String, Value>, required: Vec<&str>) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn schema_of(kind: &Type, definitions: &mut Map<String, Value>) -> Value {
    match kind {
        Type::Text => {
            json!({ "type": "string", "minLength": 1, "maxLength": 9, "description": "Some text." })
        }
        Type::Count => json!({ "type": "integer", "minimum": 0, "default": 3 }),
        Type::Flag => json!({ "type": "boolean" }),
        Type::Word(words) => json!({ "type": "string", "enum": words }),
        Type::Nullable(inner) => json!({ "anyOf": [schema_of(inner, definitions), { "type": "null" }] }),
        Type::List(inner) => {
            json!({ "type": "array", "items": schema_of(inner, definitions), "maxItems": 3, "uniqueItems": false })
        }
        Type::Record(fields) => {
            let required = fields
                .iter()
                .filter(|(_, _, need)| *need == Need::Required)
                .map(|(name, ..)| &**name)
                .collect();
            let properties =
                fields.iter().map(|(name, kind, _)| (name.clone(), schema_of(kind, definitions))).collect();
            object(properties, required)
        }
        Type::Tagged(kinds) => {
            let kinds: Vec<_> = kinds
                .iter()
                .enumerate()
                .map(|(number, kind)| {
                    let tag = ("tag".to_owned(), json!({ "const": number, "type": "integer" }));
                    object(
                        Map::from_iter([tag, ("value".to_owned(), schema_of(kind, definitions))]),
                        vec!["tag"],
                    )
                })
                .collect();
            json!({ "oneOf": kinds })
        }
        Type::Tree => {
            let branches = json!({ "type": "array", "items": { "$ref": "#/$defs/tree" } });
            let properties = json!({ "name": { "type": "string" }, "branches": branches, "parent": { "$ref": "#/$defs/tree" } });
            definitions
                .insert("tree".to_owned(), object(properties.as_object().unwrap().clone(), vec!["name"]));
            json!({ "$ref": "#/$defs/tree", "description": "A tree." })
        }
        Type::Named(inner) => {
            let schema = schema_of(inner, definitions);
            let name = format!("named{}", definitions.len());
            definitions.insert(name.clone(), schema);
            json!({ "$ref": format!("#/$defs/{name}") })
        }
    }
}

fn whole_schema(kind: &Type) -> Value {
    let mut definitions = Map::new();
    let mut schema = schema_of(kind, &mut definitions);
    schema.as_object_mut().unwrap().insert("$defs".to_owned(), definitions.into());
    schema
}

/// A value, and the same as a strict model writes it: with null for what is left out.
type Both = (Value, Value);

fn values(kind: &Type) -> BoxedStrategy<Both> {
    let same = |value: Value| (value.clone(), value);
    match kind {
        Type::Text => "[a-z\"{},]{1,9}".prop_map(move |text| same(text.into())).boxed(),
        Type::Count => (0..99_u32).prop_map(move |count| same(count.into())).boxed(),
        Type::Flag => any::<bool>().prop_map(move |flag| same(flag.into())).boxed(),
        Type::Word(words) => {
            prop::sample::select(words.clone()).prop_map(move |word| same(word.into())).boxed()
        }
        Type::Nullable(inner) => prop_oneof![Just((Value::Null, Value::Null)), values(inner)].boxed(),
        Type::List(inner) => prop::collection::vec(values(inner), 0..3).prop_map(unzip).boxed(),
        Type::Record(fields) => values_of_fields(fields),
        Type::Tagged(kinds) => {
            let kinds = kinds.iter().enumerate().map(|(number, kind)| {
                let tag = Type::Record(vec![("value".to_owned(), kind.clone(), Need::Optional)]);
                let with_tag = move |mut value: Value| {
                    value.as_object_mut().unwrap().insert("tag".to_owned(), number.into());
                    value
                };
                values(&tag).prop_map(move |(value, written)| (with_tag(value), with_tag(written))).boxed()
            });
            prop::strategy::Union::new(kinds).boxed()
        }
        Type::Tree => {
            let leaf = same(json!({ "name": "leaf" }));
            let leaf = (leaf.0, json!({ "name": "leaf", "branches": null, "parent": null }));
            prop::collection::vec(Just(leaf), 0..3)
                .prop_map(|branches| {
                    let (value, written) = unzip(branches);
                    (
                        json!({ "name": "root", "branches": value }),
                        json!({ "name": "root", "branches": written, "parent": null }),
                    )
                })
                .boxed()
        }
        Type::Named(inner) => values(inner),
    }
}

fn unzip(both: Vec<Both>) -> Both {
    let (values, written): (Vec<_>, Vec<_>) = both.into_iter().unzip();
    (values.into(), written.into())
}

fn values_of_fields(fields: &[(String, Type, Need)]) -> BoxedStrategy<Both> {
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, kind, need)| {
            let name = name.clone();
            let given = match need {
                Need::Required => values(kind).prop_map(Some).boxed(),
                Need::Optional => prop::option::of(values(kind)).boxed(),
            };
            given.prop_map(move |given| (name.clone(), given)).boxed()
        })
        .collect();
    fields
        .prop_map(|fields| {
            let (mut value, mut written) = (Map::new(), Map::new());
            for (name, given) in fields {
                if let Some((given, _)) = &given {
                    value.insert(name.clone(), given.clone());
                }
                written.insert(name, given.map_or(Value::Null, |(_, written)| written));
            }
            (value.into(), written.into())
        })
        .boxed()
}

fn typed_values() -> impl Strategy<Value = (Type, Both)> {
    records().prop_flat_map(|kind| values(&kind).prop_map(move |both| (kind.clone(), both)))
}

/// Whether a value says the same as another: null and nothing are the same where both are allowed.
fn same_but_for_nulls(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            names.into_iter().all(|name| {
                same_but_for_nulls(
                    one.get(name).unwrap_or(&Value::Null),
                    other.get(name).unwrap_or(&Value::Null),
                )
            })
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| same_but_for_nulls(one, other))
        }
        (one, other) => one == other,
    }
}

proptest! {
    #[test]
    fn what_is_valid_can_be_written_in_the_dialect_and_is_read_back((kind, (value, written)) in typed_values()) {
        let schema = whole_schema(&kind);
        let valid = jsonschema::validator_for(&schema).unwrap();
        prop_assert!(valid.is_valid(&value), "{schema} {value}");

        let strict = lower(&schema, Dialect::OpenAi).unwrap().schema;
        prop_assert_eq!(openai_strict(&strict), Ok(()), "{}", strict);
        prop_assert!(jsonschema::is_valid(&strict, &written), "{schema} {strict} {written}");
        let text = serde_json::to_string_pretty(&written).unwrap();
        let read: Value = serde_json::from_str(&without_nulls(&text, &schema)).unwrap();
        prop_assert!(valid.is_valid(&read), "{schema} {written} {read}");
        prop_assert!(same_but_for_nulls(&read, &value), "{read} {value}");

        match lower(&schema, Dialect::Anthropic) {
            Ok(strict) => {
                prop_assert_eq!(anthropic_strict(&strict.schema), Ok(()), "{}", strict.schema);
                prop_assert!(jsonschema::is_valid(&strict.schema, &value), "{schema} {} {value}", strict.schema);
            }
            Err(reason) => prop_assert_eq!(reason, Incompatible::Recursive),
        }
    }

    #[test]
    fn any_text_survives(text in r#"[\[\]{}:,"\\ nul0a]{0,40}"#) {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
        let read = without_nulls(&text, &schema);
        prop_assert!(*read == text || serde_json::from_str::<Value>(&read).is_ok());
    }
}

#[test]
fn only_nulls_that_mean_nothing_are_cut_and_the_rest_stays_byte_for_byte() {
    let inner = json!({ "type": "object", "properties": { "x": { "type": "integer" }, "y": { "type": ["integer", "null"] } } });
    let schema = json!({
        "type": "object",
        "properties": {
            "a": { "type": "string" }, "b": { "type": "string" }, "must": { "type": "string" },
            "list": { "type": "array", "items": inner }, "in": inner,
        },
        "required": ["must"],
    });
    for (text, expected) in [
        (r#"{"a": null}"#, "{}"),
        (r#"{ "a" : null , "b" : "x" }"#, r#"{ "b" : "x" }"#),
        (r#"{ "b" : "x" , "a" : null }"#, r#"{ "b" : "x" }"#),
        (r#"{"a":null,"b":null,"must":"null"}"#, r#"{"must":"null"}"#),
        (r#"{"must":"m","a":null,"b":null}"#, r#"{"must":"m"}"#),
        (r#"{"a":null,"must":1.0e2,"b":null}"#, r#"{"must":1.0e2}"#),
        (r#"{"must":null,"unknown":null}"#, r#"{"must":null,"unknown":null}"#),
        (
            r#"{"in":{"x":null,"y":null}, "list":[{"y":null,"x":null},{"x":1}]}"#,
            r#"{"in":{"y":null}, "list":[{"y":null},{"x":1}]}"#,
        ),
        (r#"{"\u0061":null}"#, "{}"),
        (r#"[{"a":null}]"#, r#"[{"a":null}]"#),
        (r#"{"a":null"#, r#"{"a":null"#),
        ("null", "null"),
    ] {
        assert_eq!(without_nulls(text, &schema), expected, "{text}");
    }
}

#[test]
fn a_tag_tells_which_of_several_objects_is_meant() {
    let one = json!({ "type": "object", "properties": { "kind": { "const": "one" }, "x": { "type": "integer" } }, "required": ["kind"] });
    let other = json!({ "type": "object", "properties": { "kind": { "const": "other" }, "x": { "type": "null" } }, "required": ["kind", "x"] });
    let schema = json!({ "oneOf": [one, other] });
    assert_eq!(without_nulls(r#"{"kind":"one","x":null}"#, &schema), r#"{"kind":"one"}"#);
    assert_eq!(without_nulls(r#"{"kind":"other","x":null}"#, &schema), r#"{"kind":"other","x":null}"#);
}

#[test]
fn what_cannot_be_said_is_told_or_refused() {
    let field = |schema: Value| json!({ "type": "object", "properties": { "f": schema }, "required": ["f"], "additionalProperties": false });
    let lowered = |schema: Value, dialect| {
        lower(&field(schema), dialect).map(|lowered| lowered.schema["properties"]["f"].clone())
    };
    let text = json!({ "type": "string", "description": "A name.", "minLength": 2, "pattern": "^(?!x)", "format": "iri", "x-wink-sensitive": true });
    let told = json!({ "type": "string", "description": "A name. Must satisfy: minLength 2, pattern \"^(?!x)\", format \"iri\"." });
    assert_eq!(lowered(text, Dialect::OpenAi), Ok(told));
    let plain = json!({ "type": "string", "pattern": "^x+$", "format": "uri" });
    assert_eq!(
        lowered(plain.clone(), Dialect::OpenAi),
        Ok(json!({ "type": "string", "pattern": "^x+$", "description": "Must satisfy: format \"uri\"." }))
    );
    assert_eq!(
        lowered(plain, Dialect::Anthropic),
        Ok(json!({ "type": "string", "format": "uri", "description": "Must satisfy: pattern \"^x+$\"." }))
    );
    for (schema, reason) in [
        (json!({}), Incompatible::Untyped),
        (json!(true), Incompatible::Untyped),
        (json!({ "type": "array" }), Incompatible::Untyped),
        (json!({ "type": "object" }), Incompatible::Open),
        (json!({ "type": "object", "additionalProperties": { "type": "string" } }), Incompatible::Open),
        (
            json!({ "type": "array", "prefixItems": [{ "type": "string" }], "items": { "type": "string" } }),
            Incompatible::Tuple,
        ),
        (json!({ "allOf": [{ "type": "string" }, { "minLength": 1 }] }), Incompatible::Combined),
        (json!({ "$ref": "https://example.com/schema" }), Incompatible::Reference),
        (json!({ "$ref": "#/$defs/none" }), Incompatible::Reference),
        (json!({ "enum": [{ "a": 1 }] }), Incompatible::Untyped),
    ] {
        assert_eq!(lowered(schema.clone(), Dialect::OpenAi), Err(reason), "{schema}");
    }
    assert_eq!(
        lower(&json!({ "type": "array", "items": { "type": "string" } }), Dialect::OpenAi),
        Err(Incompatible::Root)
    );
}

#[test]
fn depth_and_size_are_bounded() {
    let nest = |levels: usize| {
        (0..levels).fold(json!({ "type": "string" }), |inner, _| {
            json!({ "type": "object", "properties": { "f": inner }, "required": ["f"], "additionalProperties": false })
        })
    };
    assert!(lower(&nest(10), Dialect::OpenAi).is_ok());
    assert_eq!(lower(&nest(11), Dialect::OpenAi), Err(Incompatible::TooDeep));
    assert_eq!(lower(&nest(500), Dialect::OpenAi), Err(Incompatible::TooDeep));
    // Through references as well: a chain of definitions, each inside the next.
    let chain = |length: usize| {
        let definitions: Map<_, _> = (0..length)
            .map(|number| {
                let inner = if number + 1 < length {
                    json!({ "$ref": format!("#/$defs/d{}", number + 1) })
                } else {
                    json!({ "type": "string" })
                };
                (format!("d{number}"), object(Map::from_iter([("f".to_owned(), inner)]), vec!["f"]))
            })
            .collect();
        let mut schema =
            object(Map::from_iter([("f".to_owned(), json!({ "$ref": "#/$defs/d0" }))]), vec!["f"]);
        schema["$defs"] = definitions.into();
        schema
    };
    assert!(lower(&chain(9), Dialect::OpenAi).is_ok());
    assert_eq!(lower(&chain(10), Dialect::OpenAi), Err(Incompatible::TooDeep));
    assert_eq!(lower(&chain(4_000), Dialect::OpenAi), Err(Incompatible::TooDeep));
    let wide = |count: usize| {
        object((0..count).map(|number| (format!("f{number}"), json!({ "type": "string" }))).collect(), vec![])
    };
    assert!(lower(&wide(5_000), Dialect::OpenAi).is_ok());
    assert_eq!(lower(&wide(5_001), Dialect::OpenAi), Err(Incompatible::TooLarge));
}

#[test]
fn strict_tools_stay_within_what_a_request_may_have() {
    let tool = |number: usize, optional: usize| {
        let properties =
            (0..optional).map(|number| (format!("f{number}"), json!({ "type": "string" }))).collect();
        let parameters = Arc::new(object(properties, vec![]));
        ToolSpec {
            name: format!("t{number}").into(),
            description: "".into(),
            parameters,
            examples: Arc::new([]),
        }
    };
    let strict = |tools: &[ToolSpec], dialect| -> Vec<bool> {
        lower_tools(tools, None, dialect).tools.iter().map(|tool| tool.strict).collect()
    };
    let with_output = |optional: usize, dialect| {
        let schema = Arc::clone(&tool(0, optional).parameters);
        let output = OutputSpec { name: "Answer".into(), schema };
        let lowered = lower_tools(&[tool(0, 4), tool(1, 1)], Some(&output), dialect);
        let tools: Vec<_> = lowered.tools.iter().map(|tool| tool.strict).collect();
        (lowered.output.unwrap().strict, tools)
    };
    let many: Vec<_> = (0..22).map(|number| tool(number, 0)).collect();
    assert_eq!(strict(&many, Dialect::Anthropic), [[true; 20].as_slice(), &[false; 2]].concat());
    assert_eq!(strict(&many, Dialect::OpenAi), [true; 22]);
    // One that is too much is left out, and a smaller one after it is not.
    assert_eq!(strict(&[tool(0, 20), tool(1, 5), tool(2, 4)], Dialect::Anthropic), [true, false, true]);
    // The output counts, and comes first. One that is too much by itself leaves all to the tools.
    assert_eq!(with_output(19, Dialect::Anthropic), (true, vec![true, true]));
    assert_eq!(with_output(21, Dialect::Anthropic), (true, vec![false, true]));
    assert_eq!(with_output(24, Dialect::Anthropic), (true, vec![false, false]));
    assert_eq!(with_output(30, Dialect::Anthropic), (false, vec![true, true]));
    assert_eq!(with_output(30, Dialect::OpenAi), (true, vec![true, true]));
}
