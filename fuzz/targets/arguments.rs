//! Argument text against a few schemas: nothing panics, and what is accepted is JSON that an independent validator
//! accepts too. What is rejected although that validator accepts it must be one of the listed exceptions. Decoding while
//! checking, which is the quick way, gives what checking and then decoding gives.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wink::tool::schema::{CompiledSchema, ParseLimits, ProblemKind, advertised_schema, tighten};
use wink::tool::secret::Secret;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Typed {
    text: String,
    #[schemars(length(max = 4), regex(pattern = "^[a-z]*$"))]
    short: Option<String>,
    byte: u8,
    wide: Option<i64>,
    float: Option<f64>,
    shape: Option<Shape>,
    either: Option<Either>,
    tree: Option<Tree>,
    map: Option<BTreeMap<String, i8>>,
    any: Option<Value>,
    secret: Option<Secret<String>>,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
enum Shape {
    Circle { radius: u8 },
    Square { side: u8 },
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Either {
    Small { a: u8 },
    Large { a: i64, b: Option<bool> },
    Text(String),
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Tree {
    v: i32,
    kids: Vec<Tree>,
}

struct Subject {
    compiled: CompiledSchema,
    oracle: Validator,
}

static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    let dynamic = json!({
        "type": "object",
        "properties": {
            "n": { "type": "number", "minimum": -2, "exclusiveMaximum": 1e3, "multipleOf": 0.5 },
            "list": { "type": "array", "prefixItems": [{ "type": "integer" }], "items": { "$ref": "#/$defs/u" }, "uniqueItems": true },
            "u": { "$ref": "#/$defs/u" },
            "not": { "not": { "type": "string", "minLength": 3 } },
        },
        "patternProperties": { "^x": { "type": ["string", "null"] } },
        "maxProperties": 5,
        "$defs": { "u": { "oneOf": [
            { "type": "integer", "minimum": 0 },
            { "type": "integer", "maximum": 10 },
            { "enum": ["a", 3, null, [1], { "k": 1 }] },
            { "type": "object", "properties": { "u": { "$ref": "#/$defs/u" } }, "required": ["u"] },
            { "type": "object", "properties": { "u": { "$ref": "#/$defs/u" }, "w": {} } },
        ] } },
    });
    let schemas = [advertised_schema::<Typed>(), advertised_schema::<()>(), tighten(dynamic)];
    let subject = |schema: Value| Subject {
        compiled: CompiledSchema::compile(&schema).unwrap(),
        oracle: jsonschema::draft202012::new(&schema).unwrap(),
    };
    schemas.into_iter().map(|schema| subject(schema.unwrap())).collect()
});

fn parsed(text: &str) -> Option<Value> {
    let mut decoder = serde_json::Deserializer::from_str(text);
    decoder.disable_recursion_limit();
    let value = Value::deserialize(&mut decoder).ok()?;
    decoder.end().ok()?;
    Some(value)
}

/// Whether a number is written so that JSON Schema calls it an integer and the walk does not.
fn has_odd_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64() && number.as_f64().is_some_and(|float| float.fract() == 0.0),
        Value::Array(items) => items.iter().any(has_odd_integer),
        Value::Object(fields) => fields.values().any(has_odd_integer),
        _ => false,
    }
}

/// Decodes what the check accepts, with the decoder that decides.
fn decoded<T: DeserializeOwned>(compiled: &CompiledSchema, text: &str) -> Option<T> {
    compiled.check(text, &ParseLimits::default()).ok()?;
    let mut decoder = serde_json::Deserializer::from_str(text);
    decoder.disable_recursion_limit();
    T::deserialize(&mut decoder).ok()
}

/// One input of the fuzzer, or of its corpus.
pub fn run(text: &str) {
    if let Some(Subject { compiled, .. }) = SUBJECTS.first() {
        let quick: Option<Typed> = compiled.decode(text, &ParseLimits::default()).ok();
        let same = match (&quick, &decoded::<Typed>(compiled, text)) {
            (None, None) => true,
            (Some(quick), Some(decoded)) => {
                quick == decoded || format!("{quick:?}") == format!("{decoded:?}")
            }
            (Some(_), None) | (None, Some(_)) => false,
        };
        assert!(same || text.trim_ascii().is_empty(), "decoded otherwise");
    }
    for Subject { compiled, oracle } in SUBJECTS.iter() {
        let _ = compiled.mask(text);
        let checked = compiled.check(text, &ParseLimits::default());
        if let Err(rejection) = &checked {
            assert!(rejection.to_string().len() < 8192);
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        match (checked, parsed(text)) {
            (Ok(()), None) => panic!("accepted what is no JSON"),
            (Ok(()), Some(value)) => assert!(oracle.is_valid(&value) || has_odd_integer(&value)),
            (Err(rejection), None) => {
                // The decoder takes no number beyond the largest double either.
                let excused = rejection.more > 0
                    || rejection.problems.iter().any(|problem| {
                        use ProblemKind::{
                            InexactNumber, InvalidJson, NotAnObject, OutOfRange, TooDeep, WrongType,
                        };
                        matches!(
                            problem.kind,
                            InvalidJson | NotAnObject | TooDeep | InexactNumber | OutOfRange | WrongType
                        )
                    });
                assert!(excused, "{rejection}");
            }
            (Err(rejection), Some(value)) => {
                let excused = has_odd_integer(&value)
                    || rejection.problems.iter().any(|problem| {
                        use ProblemKind::{DuplicateKey, InexactNumber, TooDeep};
                        matches!(problem.kind, DuplicateKey | InexactNumber | TooDeep)
                    });
                assert!(excused || !oracle.is_valid(&value), "{rejection}");
            }
        }
    }
}
