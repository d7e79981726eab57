//! Arguments against schemas: what is advertised, what is accepted, and what a model is told.

#![allow(missing_docs, dead_code)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wink::tool::schema::{
    CompiledSchema, ParseLimits, Problem, ProblemKind, Rejection, SchemaError, advertised_schema, keywords,
    tighten,
};

fn compiled<P: JsonSchema>() -> CompiledSchema {
    CompiledSchema::compile(&advertised_schema::<P>().unwrap()).unwrap()
}

fn dynamic(schema: Value) -> CompiledSchema {
    CompiledSchema::compile(&tighten(schema).unwrap()).unwrap()
}

fn check(schema: &CompiledSchema, text: &str) -> Result<(), Rejection> {
    schema.check(text, &ParseLimits::default())
}

fn message(schema: &CompiledSchema, text: &str) -> String {
    check(schema, text).unwrap_err().to_string()
}

fn field(schema: Value) -> CompiledSchema {
    dynamic(json!({ "type": "object", "properties": { "f": schema }, "required": ["f"] }))
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Search {
    /// What to look for.
    query: String,
    #[serde(default)]
    exact: bool,
    limit: Option<u8>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Fast,
    Thorough,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Order {
    items: Vec<Item>,
    #[serde(rename = "shipTo")]
    ship_to: Option<Address>,
    mode: Option<Mode>,
    #[serde(default = "one")]
    copies: u32,
}

fn one() -> u32 {
    1
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Item {
    a: i64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Address {
    street: String,
    city: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Tree {
    value: i64,
    #[serde(default)]
    children: Vec<Tree>,
}

// case 15
#[test]
fn no_parameters_are_an_empty_closed_object() {
    let expected = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    assert_eq!(advertised_schema::<()>(), Ok(expected.clone()));

    #[derive(JsonSchema, Deserialize)]
    struct Nothing;
    #[derive(JsonSchema, Deserialize)]
    struct Empty {}
    assert_eq!(advertised_schema::<Nothing>(), Ok(expected.clone()));
    assert_eq!(advertised_schema::<Empty>(), Ok(expected));
}

// cases 16, 17, 18, 21
#[test]
fn an_advertised_schema_says_everything() {
    assert_eq!(
        advertised_schema::<Search>().unwrap(),
        json!({
            "type": "object",
            "properties": {
                "query": { "description": "What to look for.", "type": "string" },
                "exact": { "type": "boolean", "default": false },
                "limit": { "type": ["integer", "null"], "minimum": 0, "maximum": 255 },
            },
            "required": ["query"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        advertised_schema::<Order>().unwrap(),
        json!({
            "type": "object",
            "properties": {
                "items": { "type": "array", "items": {
                    "type": "object",
                    "properties": { "a": { "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX } },
                    "required": ["a"],
                    "additionalProperties": false,
                } },
                "shipTo": { "anyOf": [
                    {
                        "type": "object",
                        "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
                        "required": ["street", "city"],
                        "additionalProperties": false,
                    },
                    { "type": "null" },
                ] },
                "mode": { "type": ["string", "null"], "enum": ["fast", "thorough", null] },
                "copies": { "type": "integer", "default": 1, "minimum": 0, "maximum": u32::MAX },
            },
            "required": ["items"],
            "additionalProperties": false,
        })
    );
    let schema = compiled::<Order>();
    for text in [
        r#"{"items":[],"mode":null,"shipTo":null}"#,
        r#"{"items":[{"a":-1}],"mode":"fast","shipTo":{"street":"s","city":"c"}}"#,
    ] {
        assert_eq!(check(&schema, text), Ok(()), "{text}");
    }
    assert_eq!(check(&compiled::<Search>(), r#"{"query":"x","limit":null}"#), Ok(()));
}

// case 19
#[test]
fn nested_objects_are_closed_exactly_where_the_parser_is() {
    #[derive(JsonSchema, Deserialize)]
    struct Outer {
        closed: Item,
        open: BTreeMap<String, i8>,
        any: Value,
        tagged: Tagged,
    }
    #[derive(JsonSchema, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Tagged {
        Wrapped(Item),
        Plain { b: bool },
    }
    let schema = compiled::<Outer>();
    let text = |closed, tagged| {
        format!(r#"{{"closed":{closed},"open":{{"any":1,"key":2}},"any":{{"x":[{{}}]}},"tagged":{tagged}}}"#)
    };
    let item = r#"{"a":1}"#;
    let accepted = text(item, r#"{"kind":"wrapped","a":2}"#);
    assert_eq!(check(&schema, &accepted), Ok(()));
    assert!(schema.decode::<Outer>(&accepted, &ParseLimits::default()).is_ok());
    assert_eq!(check(&schema, &text(item, r#"{"b":true,"kind":"plain"}"#)), Ok(()));
    assert_eq!(
        message(&schema, &text(r#"{"a":1,"x":2}"#, r#"{"kind":"wrapped","a":2,"b":true}"#)),
        "Invalid arguments, 2 problems:\n\
         - `closed.x`: unknown field; nearest known field is `a` (known: `a`)\n\
         - `tagged.b`: unknown field; nearest known field is `a` (known: `kind`, `a`)"
    );
    assert_eq!(
        message(&schema, &text(item, r#"{"kind":"plane"}"#)),
        "Invalid arguments: `tagged.kind`: expected one of: \"wrapped\"; \"plain\", got \"plane\""
    );
    assert_eq!(
        message(&schema, &text(item, r#"{"b":true}"#)),
        "Invalid arguments: `tagged.kind`: missing; expected one of: \"wrapped\"; \"plain\""
    );
}

// case 20
#[test]
fn recursive_types_have_finite_schemas() {
    assert_eq!(
        advertised_schema::<Tree>().unwrap(),
        json!({
            "type": "object",
            "properties": {
                "value": { "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX },
                "children": { "type": "array", "items": { "$ref": "#" } , "default": [] },
            },
            "required": ["value"],
            "additionalProperties": false,
        })
    );
    let schema = compiled::<Tree>();
    assert_eq!(check(&schema, r#"{"value":1,"children":[{"value":2,"children":[{"value":3}]}]}"#), Ok(()));
    assert_eq!(
        message(&schema, r#"{"value":1,"children":[{"value":2,"children":[{"value":"3"}]}]}"#),
        "Invalid arguments: `children[0].children[0].value`: expected an integer, got a string"
    );
    #[derive(JsonSchema)]
    struct Holder {
        left: Tree,
        right: Tree,
    }
    let holder = advertised_schema::<Holder>().unwrap();
    assert_eq!(holder["properties"]["left"], json!({ "$ref": "#/$defs/Tree" }));
    assert_eq!(holder["$defs"]["Tree"]["properties"]["children"]["items"], json!({ "$ref": "#/$defs/Tree" }));
}

// case 22
#[test]
fn an_unknown_field_is_named_with_its_nearest() {
    let rejection = check(&compiled::<Search>(), r#"{"query":"x","exat":true}"#).unwrap_err();
    assert_eq!(
        rejection,
        Rejection {
            problems: vec![Problem {
                path: "exat".to_owned(),
                kind: ProblemKind::UnknownField,
                expected: "`query`, `exact`, `limit`".to_owned(),
                got: "an unknown field".to_owned(),
                suggestion: Some("exact".to_owned()),
            }],
            more: 0,
        }
    );
    assert_eq!(
        message(&compiled::<Search>(), r#"{"query":"x","extra":true}"#),
        "Invalid arguments: `extra`: unknown field; nearest known field is `exact` (known: `query`, `exact`, `limit`)"
    );
    let stored = serde_json::to_string(&rejection).unwrap();
    assert_eq!(serde_json::from_str::<Rejection>(&stored).unwrap(), rejection);
}

// cases 23, 26, 27, 28, 29, 30
#[test]
fn nothing_is_coerced() {
    let search = compiled::<Search>();
    assert_eq!(
        message(&search, r#"{"query":null}"#),
        "Invalid arguments: `query`: expected a string, got null"
    );
    assert_eq!(
        message(&search, r#"{"query":{"text":"x"}}"#),
        "Invalid arguments: `query`: expected a string, got an object"
    );
    for (value, got) in [
        ("3.9", "a number written with a fraction or exponent"),
        ("3.0", "a number written with a fraction or exponent"),
        ("3e0", "a number written with a fraction or exponent"),
        ("true", "true"),
        ("\"7\"", "a string"),
        ("[7]", "a list"),
    ] {
        assert_eq!(
            message(&search, &format!(r#"{{"query":"x","limit":{value}}}"#)),
            format!("Invalid arguments: `limit`: expected an integer or null, got {got}")
        );
    }
    assert_eq!(
        message(&compiled::<Order>(), r#"{"items":"one"}"#),
        "Invalid arguments: `items`: expected a list, got a string"
    );
    assert_eq!(
        message(&compiled::<Order>(), r#"{"items":{"a":1}}"#),
        "Invalid arguments: `items`: expected a list, got an object"
    );
}

// cases 24, 25
#[test]
fn problems_have_full_paths() {
    let schema = compiled::<Order>();
    assert_eq!(message(&schema, "{}"), "Invalid arguments: `items`: missing; expected a list");
    assert_eq!(
        message(&schema, r#"{"items":[{"a":"x"},{}],"shipTo":{"street":"s"}}"#),
        "Invalid arguments, 3 problems:\n\
         - `items[0].a`: expected an integer, got a string\n\
         - `items[1].a`: missing; expected an integer\n\
         - `shipTo.city`: missing; expected a string"
    );
}

// case 31
#[test]
fn constraints_are_checked_with_one_message_each() {
    #[derive(JsonSchema)]
    struct Constrained {
        #[schemars(length(min = 2, max = 3))]
        name: String,
        #[schemars(range(min = 1, max = 10))]
        count: u32,
        #[schemars(regex(pattern = r"^[a-z]+$"))]
        code: String,
        #[schemars(length(min = 1))]
        tags: Vec<String>,
        mode: Mode,
    }
    let schema = compiled::<Constrained>();
    let good = r#"{"name":"日本é","count":10,"code":"abc","tags":["t"],"mode":"fast"}"#;
    assert_eq!(check(&schema, good), Ok(()));
    assert_eq!(
        message(&schema, r#"{"name":"日本éx","count":11,"code":"A1","tags":[],"mode":"fats"}"#),
        "Invalid arguments, 5 problems:\n\
         - `name`: expected 2 to 3 characters, got 4\n\
         - `count`: expected a number from 1 to 10, got `11`\n\
         - `code`: expected a string that matches `^[a-z]+$`, got \"A1\"\n\
         - `tags`: expected at least 1 item, got 0\n\
         - `mode`: expected one of \"fast\" or \"thorough\", got \"fats\"; did you mean \"fast\"?"
    );
    let long =
        format!(r#"{{"name":"ab","count":1,"code":"{}","tags":["t"],"mode":"fast"}}"#, "A".repeat(100));
    assert_eq!(
        message(&schema, &long),
        format!(
            "Invalid arguments: `code`: expected a string that matches `^[a-z]+$`, got \"{}…\"",
            "A".repeat(40)
        )
    );
}

// case 32
#[test]
fn no_text_is_the_empty_object() {
    let limits = ParseLimits::default();
    for text in ["", "  \n\t ", "{}", " { } "] {
        assert_eq!(compiled::<()>().decode::<()>(text, &limits), Ok(()), "{text:?}");
        assert_eq!(
            message(&compiled::<Search>(), text),
            "Invalid arguments: `query`: missing; expected a string"
        );
    }
}

// case 33
#[test]
fn invalid_json_is_told_with_its_place() {
    let schema = compiled::<Search>();
    for (text, expected) in [
        ("{oops", "expected a key in double quotes, got `oops` at line 1 column 2"),
        ("{", "expected a key in double quotes, got the end of the text at line 1 column 2"),
        ("{\"query\":\n  'x'}", "expected a value, got `'x'}` at line 2 column 3"),
        (r#"{"query" "x"}"#, "expected `:` after the key, got `\"x\"}` at line 1 column 10"),
        (r#"{"query":"x",}"#, "expected a key in double quotes, got `}` at line 1 column 14"),
        (r#"{"query":"x"} {}"#, "expected nothing after the JSON object, got `{}` at line 1 column 15"),
        (r#"{"query":"x"#, "expected `\"` to close the string, got the end of the text at line 1 column 12"),
        (
            r#"{"query":"x","limit":01}"#,
            "expected a number without leading zeros, got `01}` at line 1 column 22",
        ),
        (
            r#"{"query":"x","limit":1.}"#,
            "expected a digit after the decimal point, got `}` at line 1 column 24",
        ),
        (r#"{"query":"x","limit":-}"#, "expected a digit after `-`, got `}` at line 1 column 23"),
        (r#"{"query":nul}"#, "expected a value, got `nul}` at line 1 column 10"),
        (
            "{\"query\":\"a\nb\"}",
            "expected control characters in strings to be written as escapes such as `\\n`, got a raw control character at line 1 column 12",
        ),
        (
            r#"{"query":"\ud800"}"#,
            "expected the second half of a surrogate pair (`\\uDC00` to `\\uDFFF`), got `\"}` at line 1 column 17",
        ),
        (
            r#"{"query":"\udc00"}"#,
            "expected the first half of a surrogate pair before its second, got `\"}` at line 1 column 17",
        ),
        (
            r#"{"query":"\x"}"#,
            "expected one of the escapes \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u0000, got `x\"}` at line 1 column 12",
        ),
    ] {
        assert_eq!(
            message(&schema, text),
            format!("The arguments are not valid JSON: {expected}."),
            "{text}"
        );
    }
}

// case 34
#[test]
fn the_root_must_be_an_object() {
    for (text, got) in
        [("[1]", "a list"), ("7", "an integer"), ("\"x\"", "a string"), ("null", "null"), ("true", "true")]
    {
        assert_eq!(
            message(&compiled::<Search>(), text),
            format!("The arguments must be a JSON object, got {got}.")
        );
    }
}

// case 35
#[test]
fn a_tool_without_parameters_takes_none() {
    assert_eq!(
        message(&compiled::<()>(), r#"{"a":1,"b":{}}"#),
        "Invalid arguments, 2 problems:\n\
         - `a`: unexpected field; expected no fields\n\
         - `b`: unexpected field; expected no fields"
    );
}

#[test]
fn after_five_problems_the_rest_is_counted() {
    let text = r#"{"items":[{"a":""},{"a":""},{"a":""},{"a":""},{"a":""},{"a":""},{"a":""}],"copies":-1}"#;
    let rejection = check(&compiled::<Order>(), text).unwrap_err();
    assert_eq!((rejection.problems.len(), rejection.more), (5, 3));
    let text = rejection.to_string();
    assert!(text.starts_with("Invalid arguments, 8 problems:\n- `items[0].a`:"), "{text}");
    assert!(text.ends_with("\n- and 3 more"), "{text}");
}

#[test]
fn duplicate_keys_are_found_at_any_depth() {
    let schema = dynamic(json!({ "type": "object", "properties": {
        "known": { "type": "string" },
        "any": true,
        "map": { "type": "object", "additionalProperties": { "type": "integer" } },
        "form": { "anyOf": [{ "type": "object", "properties": { "a": {} } }, { "type": "object", "properties": { "a": {}, "b": {} } }] },
    } }));
    for (text, path) in [
        (r#"{"known":"a","known":"a"}"#, "known"),
        (r#"{"known":"a","kno\u0077n":"a"}"#, "known"),
        (r#"{"any":[{"x":{"y":1,"z":2,"y":3}}]}"#, "any[0].x.y"),
        (r#"{"map":{"k":1,"k":2}}"#, "map.k"),
        (r#"{"form":{"a":1,"b":2,"a":3}}"#, "form.a"),
    ] {
        assert_eq!(
            message(&schema, text),
            format!("Invalid arguments: `{path}`: the key occurs twice; send it once")
        );
    }
    let many: Vec<String> = (0..100).map(|n| format!("\"k{n}\":{n}")).collect();
    assert_eq!(check(&schema, &format!(r#"{{"map":{{{}}}}}"#, many.join(","))), Ok(()));
    let twice = format!(r#"{{"map":{{{},"k50":1}}}}"#, many.join(","));
    assert_eq!(message(&schema, &twice), "Invalid arguments: `map.k50`: the key occurs twice; send it once");
}

#[test]
fn integers_are_compared_exactly() {
    #[derive(JsonSchema, Deserialize, Debug, PartialEq)]
    struct Wide {
        u: u64,
        i: i64,
        b: i128,
    }
    let schema = compiled::<Wide>();
    let limits = ParseLimits::default();
    let text = |u: &str, i: &str| format!(r#"{{"u":{u},"i":{i},"b":18446744073709551615}}"#);
    assert_eq!(
        schema.decode::<Wide>(&text("18446744073709551615", "-9223372036854775808"), &limits),
        Ok(Wide { u: u64::MAX, i: i64::MIN, b: u64::MAX.into() })
    );
    let digits = "9".repeat(300);
    for (u, i) in [
        ("18446744073709551616", "0"),
        ("-1", "0"),
        ("0", "9223372036854775808"),
        ("0", "-9223372036854775809"),
        (digits.as_str(), "0"),
    ] {
        let rejection = schema.check(&text(u, i), &limits).unwrap_err();
        assert_eq!(rejection.problems[0].kind, ProblemKind::OutOfRange, "{rejection}");
        assert!(rejection.to_string().len() < 200);
    }
    // A million digits: no panic, not accepted.
    let rejection = schema.check(&text(&"9".repeat(1_000_000), "0"), &limits).unwrap_err();
    assert_eq!(rejection.problems[0].kind, ProblemKind::OutOfRange);
    // Where the schema has no bounds, the 64 bits of a JSON value are the bounds.
    let rejection = check(&field(json!({ "type": "integer" })), &format!(r#"{{"f":{digits}}}"#)).unwrap_err();
    assert_eq!(rejection.problems[0].kind, ProblemKind::InexactNumber);
    assert!(check(&field(json!({ "type": "integer" })), r#"{"f":-0}"#).is_err());
    assert_eq!(check(&field(json!({ "minimum": 0.5 })), r#"{"f":1}"#), Ok(()));
    assert!(check(&field(json!({ "minimum": 0.5 })), r#"{"f":0}"#).is_err());
}

#[test]
fn depth_and_size_are_limited() {
    let schema = field(json!(true));
    let limits = ParseLimits::default();
    let nested = |levels: usize| format!(r#"{{"f":{}1{}}}"#, "[".repeat(levels), "]".repeat(levels));
    assert_eq!(schema.check(&nested(127), &limits), Ok(()));
    assert!(schema.decode::<Value>(&nested(127), &limits).is_ok());
    assert_eq!(
        message(&schema, &nested(128)),
        "The arguments are too large: expected at most 128 levels of nesting, got more."
    );
    assert!(schema.check(&nested(3), &limits.with_depth(3)).is_err());
    assert_eq!(schema.check(&nested(2), &limits.with_depth(3)), Ok(()));
    assert!(schema.check(&nested(128), &limits.with_depth(100_000)).is_err());

    let long = |bytes: usize| format!(r#"{{"f":"{}"}}"#, "x".repeat(bytes - 8));
    assert_eq!(schema.check(&long(8 * 1024 * 1024), &limits), Ok(()));
    assert_eq!(
        message(&schema, &long(8 * 1024 * 1024 + 1)),
        "The arguments are too large: expected at most 8388608 bytes, got 8388609 bytes."
    );
    assert!(schema.check(&long(11), &limits.with_bytes(10)).is_err());
}

#[test]
fn a_megabyte_of_nesting_is_an_answer() {
    let tree = compiled::<Tree>();
    // Every level goes through a chain of combinators: the worst there is for the stack.
    let mut around = json!({ "$ref": "#" });
    for _ in 0..6 {
        around = json!({ "anyOf": [{ "type": "object", "minProperties": 9 , "additionalProperties": true }, around] });
    }
    let unions = dynamic(json!({ "type": "object", "properties": { "a": around, "children": around } }));
    for schema in [&tree, &unions, &field(json!(true)), &field(json!({ "type": "array" }))] {
        for unit in ["[", "{\"a\":", "{\"children\":[", "{\"f\":[", "{\"children\":[{\"value\":1,"] {
            let text = unit.repeat(1_000_000 / unit.len());
            let rejection = check(schema, &text).unwrap_err();
            let kind = rejection.problems[0].kind;
            assert!(matches!(kind, ProblemKind::TooDeep | ProblemKind::InvalidJson), "{rejection}");
        }
    }
    let deep = format!("{}{}", "{\"a\":".repeat(127), "{}");
    let deep = format!("{deep}{}", "}".repeat(127));
    assert_eq!(check(&unions, &deep), Ok(()));
}

#[test]
fn unions_inside_unions_stay_cheap() {
    // Both branches read all of `a` before they find out about the other key: 2^100 walks if done naively.
    let branch = |key: &str| json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/U" }, key: true }, "required": [key] });
    let schema = dynamic(json!({
        "type": "object",
        "properties": { "u": { "$ref": "#/$defs/U" } },
        "$defs": { "U": { "anyOf": [branch("b"), branch("c"), branch("d"), { "type": "object", "properties": { "a": { "$ref": "#/$defs/U" }, "b": true, "c": true, "d": true } }] } },
    }));
    let mut text = "{}".to_owned();
    for _ in 0..100 {
        text = format!(r#"{{"a":{text},"d":1}}"#);
    }
    assert_eq!(check(&schema, &format!(r#"{{"u":{text}}}"#)), Ok(()));
    let wrong = text.replacen("{}", r#"{"e":1}"#, 1);
    assert!(check(&schema, &format!(r#"{{"u":{wrong}}}"#)).is_err());
}

#[test]
fn looking_twice_on_every_level_stays_cheap() {
    let twice = [
        json!({ "type": "object", "allOf": [
            { "properties": { "a": { "$ref": "#" } } },
            { "properties": { "a": { "$ref": "#" } } },
            { "anyOf": [{ "properties": { "a": { "$ref": "#" } } }, { "properties": { "a": { "$ref": "#" }, "b": {} } }] },
        ] }),
        json!({ "type": "object", "properties": { "a": { "$ref": "#" } }, "patternProperties": { "^a": { "$ref": "#" }, "a$": { "$ref": "#" } } }),
    ];
    for schema in twice.map(dynamic) {
        let nested = |inner: &str| format!("{}{inner}{}", "{\"a\":".repeat(120), "}".repeat(120));
        assert_eq!(check(&schema, &nested("{}")), Ok(()));
        let rejection = check(&schema, &nested("7")).unwrap_err();
        assert_eq!(rejection.problems.len() + rejection.more, 1, "{rejection}");
    }
}

#[test]
fn a_failed_union_says_what_it_takes() {
    let schema = field(json!({ "anyOf": [
        { "type": "string", "maxLength": 2 },
        { "type": "integer", "minimum": 5 },
        { "type": "integer", "maximum": 0 },
    ] }));
    assert_eq!(
        message(&schema, r#"{"f":true}"#),
        "Invalid arguments: `f`: expected a string or an integer, got true"
    );
    assert_eq!(
        message(&schema, r#"{"f":"abc"}"#),
        "Invalid arguments: `f`: expected at most 2 characters, got 3"
    );
    assert_eq!(
        message(&schema, r#"{"f":3}"#),
        "Invalid arguments: `f`: expected one of: a number of at least 5; a number of at most 0, got `3`"
    );
    #[derive(JsonSchema)]
    enum Shape {
        Circle { radius: u8 },
        Square(u8),
    }
    #[derive(JsonSchema)]
    struct Draw {
        shape: Shape,
    }
    let schema = compiled::<Draw>();
    assert_eq!(check(&schema, r#"{"shape":{"Square":3}}"#), Ok(()));
    assert_eq!(
        message(&schema, r#"{"shape":{"Circle":{"radius":300}}}"#),
        "Invalid arguments: `shape.Circle.radius`: expected a number from 0 to 255, got `300`"
    );
    assert_eq!(
        message(&schema, r#"{"shape":{"Cirle":{}}}"#),
        "Invalid arguments: `shape`: expected an object with one of the keys `Circle`, `Square`, got one with `Cirle`; did you mean \"Circle\"?"
    );
    assert_eq!(
        message(&schema, r#"{"shape":{"Square":1,"Circle":{"radius":1}}}"#),
        "Invalid arguments: `shape.Circle`: unknown field; nearest known field is `Square` (known: `Square`)"
    );
}

#[test]
fn what_only_the_type_refuses_is_reported_at_its_path() {
    #[derive(Debug, PartialEq, JsonSchema, Deserialize)]
    struct At {
        names: Vec<Name>,
    }
    #[derive(Debug, PartialEq, JsonSchema)]
    #[schemars(transparent)]
    struct Name(String);
    impl<'de> Deserialize<'de> for Name {
        fn deserialize<D: serde::Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
            let text = String::deserialize(decoder)?;
            if text == "nobody" {
                Err(serde::de::Error::custom("nobody is not a name"))
            } else {
                Ok(Self(text))
            }
        }
    }
    let schema = compiled::<At>();
    let limits = ParseLimits::default();
    assert_eq!(
        schema.decode::<At>(r#"{"names":["a"]}"#, &limits),
        Ok(At { names: vec![Name("a".to_owned())] })
    );
    let rejection = schema.decode::<At>("{\"names\":\n [\"a\", \"nobody\", \"b\"]}", &limits).unwrap_err();
    assert_eq!(rejection.to_string(), "Invalid arguments: `names[1]`: nobody is not a name");
    assert_eq!(rejection.problems[0].kind, ProblemKind::Undecodable);
}

#[test]
fn only_objects_can_be_parameters() {
    for found in
        [advertised_schema::<String>(), advertised_schema::<Vec<u8>>(), advertised_schema::<Option<Item>>()]
    {
        assert!(matches!(found, Err(SchemaError::NotAnObject { .. })), "{found:?}");
    }
    assert_eq!(
        tighten(json!({ "type": "array" })).unwrap_err().to_string(),
        "a tool's parameters must be an object, but the schema describes a list; wrap the value in a struct with one field"
    );
    assert!(matches!(tighten(json!(true)), Err(SchemaError::NotAnObject { .. })));
}

/// What the list names is understood, and what it does not name is refused.
#[test]
fn the_keywords_that_are_named_are_those_that_are_understood() {
    let is_unknown = |keyword: &str| {
        let found = tighten(json!({ "type": "object", keyword: null }));
        matches!(found, Err(SchemaError::UnknownKeyword { .. }))
    };
    for keyword in keywords().filter(|keyword| *keyword != "type") {
        assert!(!is_unknown(keyword), "{keyword}");
    }
    let others = [
        "if",
        "then",
        "else",
        "contains",
        "minContains",
        "maxContains",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contentSchema",
        "$anchor",
        "$dynamicRef",
        "$dynamicAnchor",
        "$vocabulary",
        "requird",
        "x",
    ];
    for keyword in others {
        assert!(is_unknown(keyword) && keywords().all(|known| known != keyword), "{keyword}");
    }
}

#[test]
fn what_a_schema_says_to_readers_only_is_shown_as_it_is() {
    let schema = json!({
        "type": "object",
        "properties": {
            "region": { "type": "string", "x-mcp-header": "Region", "x-order": [1] },
            "image": { "type": "string", "contentEncoding": "base64", "contentMediaType": "image/png" },
        },
        "x-origin": { "by": "hand" },
        "additionalProperties": false,
    });
    assert_eq!(tighten(schema.clone()).unwrap(), schema);
}

#[test]
fn unusable_schemas_are_construction_errors() {
    let f = |schema: Value| {
        tighten(json!({ "type": "object", "properties": { "f": schema } })).unwrap_err().to_string()
    };
    assert_eq!(
        f(json!({ "if": true })),
        "schema keyword `if` at #/properties/f is not supported; express the rule with supported keywords or check it in the handler"
    );
    assert_eq!(
        f(json!({ "$ref": "https://example.com/x.json" })),
        "`$ref` `https://example.com/x.json` at #/properties/f leaves the schema; only `#`, `#/$defs/...` and `#/definitions/...` are followed"
    );
    assert_eq!(
        f(json!({ "$ref": "#/$defs/None" })),
        "`$ref` `#/$defs/None` at #/properties/f points to nothing in the schema"
    );
    assert_eq!(
        f(json!({ "type": "text" })),
        "schema keyword `type` at #/properties/f is invalid: types are null, boolean, integer, number, string, array and object"
    );
    assert!(
        f(json!({ "pattern": "(" })).starts_with("schema keyword `pattern` at #/properties/f is invalid: ")
    );
    for cyclic in [
        json!({ "type": "object", "properties": { "f": { "$ref": "#/$defs/A" } }, "$defs": { "A": { "$ref": "#/$defs/A" } } }),
        json!({ "type": "object", "properties": { "f": { "$ref": "#/$defs/A" } }, "$defs": {
            "A": { "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/B" }] }, "B": { "allOf": [{ "$ref": "#/$defs/A" }] } } }),
        json!({ "type": "object", "allOf": [{ "$ref": "#" }] }),
    ] {
        assert!(
            matches!(tighten(cyclic.clone()), Err(SchemaError::Cycle { .. })),
            "{cyclic} {:?}",
            tighten(cyclic.clone())
        );
    }
    let mut wide = json!({ "type": "null" });
    for _ in 0..15 {
        wide = json!({ "anyOf": [wide.clone(), wide] });
    }
    assert!(f(wide).contains("too many"));
    let mut deep = json!({ "type": "object" });
    for _ in 0..100 {
        deep = json!({ "type": "object", "properties": { "a": deep } });
    }
    assert!(f(deep).contains("too many schemas inside each other"));
    // Twelve definitions, each using the next twice around one value: small to write, huge to check.
    let mut definitions = serde_json::Map::new();
    for n in 0..14 {
        let next = json!({ "$ref": format!("#/$defs/D{}", n + 1) });
        definitions.insert(format!("D{n}"), json!({ "anyOf": [next, next] }));
    }
    definitions.insert("D14".to_owned(), json!({ "type": "string" }));
    let hostile =
        json!({ "type": "object", "properties": { "f": { "$ref": "#/$defs/D0" } }, "$defs": definitions });
    assert!(matches!(tighten(hostile), Err(SchemaError::TooComplex { .. })));
}

#[test]
fn assembled_objects_are_closed_as_a_whole() {
    let schema = tighten(json!({
        "type": "object",
        "properties": { "a": { "type": "integer" } },
        "allOf": [{ "properties": { "b": { "type": "integer" } } }, { "$ref": "#/$defs/C" }],
        "$defs": { "C": { "type": "object", "properties": { "c": { "type": "integer" } } } },
    }))
    .unwrap();
    let schema = CompiledSchema::compile(&schema).unwrap();
    assert_eq!(check(&schema, r#"{"a":1,"b":2,"c":3}"#), Ok(()));
    let rejection = check(&schema, r#"{"a":1,"b":2,"c":3,"d":4}"#).unwrap_err();
    assert_eq!((rejection.problems.len(), rejection.problems[0].path.as_str()), (1, "d"));

    let either = dynamic(json!({
        "type": "object",
        "properties": { "a": {}, "b": {} },
        "anyOf": [{ "required": ["a"] }, { "required": ["b"] }],
    }));
    assert_eq!(check(&either, r#"{"b":2}"#), Ok(()));
    assert!(check(&either, "{}").is_err());
    assert!(check(&either, r#"{"b":2,"c":3}"#).is_err());
    // Closing under `not` would let more pass.
    let not = json!({ "type": "object", "properties": { "a": { "not": { "type": "object" } } } });
    assert_eq!(tighten(not.clone()).unwrap()["properties"], not["properties"]);
    // What says itself which names it takes is left as it is, alone or beside others.
    let explicit = json!({ "type": "object", "properties": { "b": {
        "properties": { "a": {} }, "anyOf": [{ "additionalProperties": false }, { "type": "null" }],
    } } });
    assert_eq!(tighten(explicit.clone()).unwrap()["properties"], explicit["properties"]);
    let open = dynamic(json!({ "type": "object", "additionalProperties": true }));
    assert_eq!(check(&open, r#"{"x":1}"#), Ok(()));
    assert!(check(&dynamic(json!({ "type": "object" })), r#"{"x":1}"#).is_err());
}
