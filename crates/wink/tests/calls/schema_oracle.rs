//! The walk against an independent validator: on the advertised form both accept the same arguments, apart from
//! what the walk is stricter about on purpose (`3.0` as an integer, duplicate keys, size, depth).

#![allow(missing_docs, dead_code)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wink::tool::schema::{CompiledSchema, ParseLimits, advertised_schema, tighten};
use wink::tool::secret::Secret;

// --- random schemas and random arguments ---------------------------------------------------------------------

const NAMES: [&str; 5] = ["a", "b", "kind", "ab", "é"];
const STRINGS: [&str; 7] = ["", "a", "b", "abc", "42", "日本", "a\"\\\n"];

fn name() -> BoxedStrategy<String> {
    prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned).boxed()
}

fn number() -> BoxedStrategy<Value> {
    prop_oneof![
        (-3i64..8).prop_map(Value::from),
        prop::sample::select(vec![json!(u64::MAX), json!(i64::MIN), json!(9_007_199_254_740_993_u64)]),
        // Fractions that are exact in binary, so that both sides see the same number.
        (-8i64..8).prop_map(|quarters| json!(quarters as f64 * 4.0 + 0.25)),
    ]
    .boxed()
}

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        prop::sample::select(STRINGS.to_vec()).prop_map(Value::from),
    ]
    .boxed()
}

fn value() -> BoxedStrategy<Value> {
    scalar()
        .prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((name(), inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
        .boxed()
}

fn keyworded(parts: Vec<Option<(&'static str, Value)>>) -> Value {
    Value::Object(parts.into_iter().flatten().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn maybe<T: std::fmt::Debug + 'static>(
    key: &'static str,
    strategy: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Option<(&'static str, Value)>>
where
    Value: From<T>,
{
    prop::option::weighted(0.4, strategy.prop_map(move |value| (key, Value::from(value)))).boxed()
}

fn leaf() -> BoxedStrategy<Value> {
    let types = vec!["null", "boolean", "integer", "number", "string"];
    prop_oneof![
        Just(json!(true)),
        Just(json!({})),
        Just(json!(false)),
        prop::sample::select(types.clone()).prop_map(|name| json!({ "type": name })),
        prop::sample::subsequence(types, 1..4).prop_map(|names| json!({ "type": names })),
        scalar().prop_map(|value| json!({ "const": value })),
        prop::collection::vec(value(), 1..4).prop_map(|values| json!({ "enum": values })),
        (
            maybe("minLength", 0u64..3),
            maybe("maxLength", 0u64..4),
            maybe("pattern", prop::sample::select(vec!["^a", r"^\d+$", r"\w", "b$", "日"])),
            any::<bool>()
        )
            .prop_map(|(a, b, c, typed)| keyworded(vec![
                typed.then(|| ("type", json!("string"))),
                a,
                b,
                c
            ])),
        (
            maybe("minimum", number()),
            maybe("maximum", number()),
            maybe("exclusiveMinimum", number()),
            maybe("exclusiveMaximum", number()),
            maybe("multipleOf", 1u64..4),
            prop::sample::select(vec![None, Some("integer"), Some("number")])
        )
            .prop_map(|(a, b, c, d, e, kind)| {
                keyworded(vec![kind.map(|kind| ("type", json!(kind))), a, b, c, d, e])
            }),
    ]
    .boxed()
}

fn object(inner: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    (
        prop::collection::vec((name(), inner.clone()), 0..4),
        maybe(
            "required",
            prop::collection::btree_set(name(), 0..3).prop_map(|names| names.into_iter().collect::<Vec<_>>()),
        ),
        prop_oneof![
            3 => Just(None),
            1 => any::<bool>().prop_map(|open| Some(("additionalProperties", json!(open)))),
            1 => inner.clone().prop_map(|schema| Some(("additionalProperties", schema))),
        ],
        prop::option::weighted(0.2, (prop::sample::select(vec!["^a", "b"]), inner.clone())),
        maybe("minProperties", 0u64..3),
        maybe("maxProperties", 0u64..4),
        prop::option::weighted(0.2, inner),
        any::<bool>(),
    )
        .prop_map(|(properties, required, additional, pattern, min, max, names, typed)| {
            let properties: Map<String, Value> = properties.into_iter().collect();
            keyworded(vec![
                typed.then(|| ("type", json!("object"))),
                (!properties.is_empty()).then(|| ("properties", Value::Object(properties))),
                required,
                additional,
                pattern.map(|(pattern, schema)| ("patternProperties", json!({ pattern: schema }))),
                min,
                max,
                names.map(|schema| ("propertyNames", schema)),
            ])
        })
        .boxed()
}

fn schema() -> BoxedStrategy<Value> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        let list = |key: &'static str, inner: BoxedStrategy<Value>| {
            prop::collection::vec(inner, 1..4).prop_map(move |branches| json!({ key: branches }))
        };
        let boxed = inner.clone().boxed();
        prop_oneof![
            4 => object(boxed.clone()),
            2 => (
                maybe("items", boxed.clone()),
                prop::option::weighted(0.3, prop::collection::vec(boxed.clone(), 1..3).prop_map(|list| ("prefixItems", Value::from(list)))),
                maybe("minItems", 0u64..2),
                maybe("maxItems", 0u64..4),
                maybe("uniqueItems", any::<bool>()),
            ).prop_map(|(a, b, c, d, e)| keyworded(vec![a, b, c, d, e])),
            1 => list("anyOf", boxed.clone()),
            1 => list("oneOf", boxed.clone()),
            1 => list("allOf", boxed.clone()),
            1 => leaf().prop_map(|schema| json!({ "not": schema })),
            1 => Just(json!({ "$ref": "#/$defs/one" })),
            1 => Just(json!({ "$ref": "#" })),
            // Objects assembled from parts, and tagged unions.
            1 => (object(boxed.clone()), object(boxed.clone()), object(boxed.clone()), prop::sample::select(vec!["anyOf", "oneOf", "allOf"]))
                .prop_map(|(mut base, left, right, key)| {
                    base[key] = json!([left, right]);
                    base
                }),
            1 => (object(boxed.clone()), object(boxed)).prop_map(|(left, right)| {
                let tagged = |mut schema: Value, tag: &str| {
                    schema["type"] = json!("object");
                    if !schema["properties"].is_object() {
                        schema["properties"] = json!({});
                    }
                    schema["properties"]["kind"] = json!({ "const": tag });
                    schema["required"] = json!(["kind"]);
                    schema
                };
                json!({ "oneOf": [tagged(left, "a"), tagged(right, "b")] })
            }),
        ]
    })
    .boxed()
}

fn document() -> BoxedStrategy<Value> {
    (object(schema().boxed()), schema())
        .prop_map(|(mut root, one)| {
            root["type"] = json!("object");
            root["$defs"] = json!({ "one": one });
            root
        })
        .boxed()
}

/// Arguments that have a good chance to fit a schema.
fn fitting(schema: &Value, root: &Value, pick: &mut impl FnMut(usize) -> usize, fuel: usize) -> Value {
    let Value::Object(fields) = schema else { return json!("a") };
    if fuel == 0 {
        return Value::Null;
    }
    if let Some(value) = fields.get("const") {
        return value.clone();
    }
    if let Some(Value::Array(values)) = fields.get("enum") {
        return values[pick(values.len())].clone();
    }
    if let Some(Value::String(reference)) = fields.get("$ref") {
        let target = root.pointer(reference.trim_start_matches('#')).cloned().unwrap_or_default();
        return fitting(&target, root, pick, fuel - 1);
    }
    let mut result = Map::new();
    let mut is_object = false;
    for key in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = fields.get(key) {
            let chosen = pick(branches.len());
            for (index, branch) in branches.iter().enumerate() {
                if key == "allOf" || index == chosen {
                    match fitting(branch, root, pick, fuel - 1) {
                        Value::Object(inner) => {
                            is_object = true;
                            result.extend(inner);
                        }
                        other if !fields.contains_key("properties") => return other,
                        _ => {}
                    }
                }
            }
        }
    }
    if is_object || fields.get("type") == Some(&json!("object")) || fields.contains_key("properties") {
        for (name, schema) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if pick(3) > 0 {
                result.insert(name.clone(), fitting(schema, root, pick, fuel - 1));
            }
        }
        if pick(4) == 0
            && let Some(extra) = fields.get("additionalProperties")
        {
            result.insert("other".to_owned(), fitting(extra, root, pick, fuel - 1));
        }
        return Value::Object(result);
    }
    if fields.contains_key("items") || fields.contains_key("prefixItems") || fields.contains_key("minItems") {
        let count = pick(4);
        let items = (0..count).map(|index| {
            let item = fields.get("prefixItems").and_then(|list| list.get(index)).or(fields.get("items"));
            fitting(item.unwrap_or(&Value::Bool(true)), root, pick, fuel - 1)
        });
        return items.collect();
    }
    let kind = match fields.get("type") {
        Some(Value::Array(names)) => names[pick(names.len())].clone(),
        Some(name) => name.clone(),
        None => json!(["string", "integer", "number"][pick(3)]),
    };
    match kind.as_str().unwrap_or_default() {
        "null" => Value::Null,
        "boolean" => json!(pick(2) == 0),
        "integer" => json!(pick(9) as i64 - 2),
        "number" => json!(pick(9) as f64 - 1.75),
        _ => json!(STRINGS[pick(STRINGS.len())]),
    }
}

/// Changes one thing somewhere.
fn mutate(value: &mut Value, pick: &mut impl FnMut(usize) -> usize, fresh: &Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() && pick(4) > 0 => {
            let key = fields.keys().nth(pick(fields.len())).cloned().unwrap_or_default();
            match pick(4) {
                0 => drop(fields.remove(&key)),
                1 => drop(fields.insert(NAMES[pick(NAMES.len())].to_owned(), fresh.clone())),
                _ => mutate(&mut fields[&key], pick, fresh),
            }
        }
        Value::Array(items) if !items.is_empty() && pick(4) > 0 => {
            let index = pick(items.len());
            match pick(4) {
                0 => items.push(items[index].clone()),
                _ => mutate(&mut items[index], pick, fresh),
            }
        }
        other => *other = fresh.clone(),
    }
}

fn picker(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed | 1;
    move |limit| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % limit.max(1)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2000), max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_walk_agrees_with_the_oracle(
        document in document(),
        seeds in prop::collection::vec(any::<u64>(), 6),
        fresh in value(),
        random in value(),
    ) {
        let Ok(advertised) = tighten(document.clone()) else {
            // References that consume no input, or more combinators than the runtime takes.
            return Ok(());
        };
        let text_of_document = document.to_string();
        let compiled = CompiledSchema::compile(&advertised).unwrap();
        let oracle = jsonschema::draft202012::new(&advertised).unwrap();
        let mut inputs = vec![random, json!({})];
        for seed in seeds {
            let mut pick = picker(seed);
            let mut input = fitting(&advertised, &advertised, &mut pick, 6);
            inputs.push(input.clone());
            mutate(&mut input, &mut pick, &fresh);
            inputs.push(input);
        }
        for input in inputs {
            let text = input.to_string();
            let checked = compiled.check(&text, &ParseLimits::default());
            prop_assert_eq!(
                checked.is_ok(),
                oracle.is_valid(&input),
                "schema {}\nadvertised {}\ninput {}\nresult {:?}",
                document, advertised, text, checked
            );
            // Tightening lets nothing more pass, except that closing can make the branches of a `oneOf` exclusive.
            if checked.is_ok() && !text_of_document.contains("oneOf") {
                prop_assert!(jsonschema::draft202012::new(&document).unwrap().is_valid(&input), "{} {} {}", document, advertised, text);
            }
            let mut pretty = serde_json::to_string_pretty(&input).unwrap();
            pretty.push('\n');
            prop_assert_eq!(compiled.check(&pretty, &ParseLimits::default()).is_ok(), checked.is_ok());
        }
    }
}

// --- Rust types ----------------------------------------------------------------------------------------------

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Plain {
    text: String,
    number: i32,
    float: f64,
    flag: bool,
    letter: char,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Widths {
    a: u8,
    b: i16,
    c: u32,
    d: i64,
    e: u64,
    f: usize,
    g: i128,
    h: std::num::NonZeroI8,
    i: Option<std::num::NonZeroU16>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Point {
    x: i32,
    y: Option<u8>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase")]
enum Mode {
    /// The usual one.
    #[default]
    QuickLook,
    Deep,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
enum Internal {
    Struct { x: u8, nested: Point },
    Newtype(Point),
    Unit,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
enum External {
    Struct { x: u8 },
    Newtype(Point),
    Tuple(u8, String),
    Unit,
    Other,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "t", content = "c", rename_all = "snake_case")]
enum Adjacent {
    Struct { x: u8 },
    Newtype(Point),
    Tuple(u8, bool),
    Unit,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Untagged {
    Small { x: u8 },
    Large(Point),
    Text(String),
    List(Vec<u8>),
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Enums {
    internal: Internal,
    external: External,
    adjacent: Adjacent,
    untagged: Untagged,
    mode: Option<Mode>,
    #[serde(default)]
    other: Mode,
    optional: Option<External>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Flat {
    own: u8,
    #[serde(flatten)]
    point: Point,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct FlatEnum {
    own: u8,
    #[serde(flatten)]
    inner: Internal,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct FlatTwo {
    own: u8,
    #[serde(flatten)]
    first: Adjacent,
    #[serde(flatten)]
    second: Internal,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct FlatOptional {
    own: u8,
    #[serde(flatten)]
    inner: Option<Internal>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct FlatMap {
    own: u8,
    #[serde(flatten)]
    rest: HashMap<String, u8>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Strict {
    a: u8,
    inner: Option<Box<Strict>>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Expression {
    root: Node,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Node {
    Literal(i64),
    Add(Box<Node>, Box<Node>),
    Call { name: String, arguments: Vec<Node> },
    Nothing,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Collections {
    map: BTreeMap<String, Point>,
    by_number: BTreeMap<u32, String>,
    tuple: (u8, String, Option<bool>),
    set: BTreeSet<String>,
    array: [u8; 2],
    any: Value,
    object: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct Renamed {
    #[serde(rename = "type")]
    kind: String,
    some_field: u8,
    #[serde(default = "seven")]
    with_default: u8,
    #[serde(skip)]
    hidden: u8,
}

fn seven() -> u8 {
    7
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Validated {
    #[schemars(length(min = 1, max = 3))]
    name: String,
    #[schemars(range(min = -2, max = 5))]
    count: i64,
    #[schemars(regex(pattern = r"^a*b$"))]
    code: String,
    #[schemars(length(max = 2), inner(range(max = 3)))]
    list: Vec<u8>,
    #[schemars(range(max = 300))]
    loose: u8,
    password: Secret<String>,
}

/// Whatever the schema accepts decodes, and the walk and the oracle accept the same.
fn agree<P: JsonSchema + DeserializeOwned>(seed: u64, fresh: &Value) -> Result<(), TestCaseError> {
    let advertised = advertised_schema::<P>().unwrap();
    let compiled = CompiledSchema::compile(&advertised).unwrap();
    let oracle = jsonschema::draft202012::new(&advertised).unwrap();
    for round in 0..40_u64 {
        let mut pick = picker(seed.wrapping_mul(31).wrapping_add(round.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let mut input = fitting(&advertised, &advertised, &mut pick, 8);
        for _ in 0..round % 3 {
            mutate(&mut input, &mut pick, fresh);
        }
        let text = input.to_string();
        let checked = compiled.check(&text, &ParseLimits::default());
        prop_assert_eq!(checked.is_ok(), oracle.is_valid(&input), "{}\n{}\n{:?}", advertised, text, checked);
        if checked.is_ok() {
            let decoded = compiled.decode::<P>(&text, &ParseLimits::default());
            prop_assert!(decoded.is_ok(), "{}\n{}\n{:?}", advertised, text, decoded.err());
        }
    }
    Ok(())
}

macro_rules! typed {
    ($($test:ident: $type:ty,)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
            $(#[test]
            fn $test(seed in any::<u64>(), fresh in value()) {
                agree::<$type>(seed, &fresh)?;
            })*
        }
    };
}

typed! {
    plain: Plain,
    widths: Widths,
    enums: Enums,
    internal: Internal,
    flat: Flat,
    flat_enum: FlatEnum,
    flat_two: FlatTwo,
    flat_optional: FlatOptional,
    flat_map: FlatMap,
    strict: Strict,
    expression: Expression,
    collections: Collections,
    renamed: Renamed,
    validated: Validated,
    nothing: (),
}

// case 19
#[test]
fn values_of_the_types_themselves_are_accepted() {
    fn round<P: JsonSchema + Serialize + DeserializeOwned>(value: P) {
        let compiled = CompiledSchema::compile(&advertised_schema::<P>().unwrap()).unwrap();
        let mut json = serde_json::to_value(&value).unwrap();
        let decoded = compiled.decode::<P>(&json.to_string(), &ParseLimits::default());
        assert!(decoded.is_ok(), "{json} {:?}", decoded.err());
        json["unknown"] = json!(1);
        assert!(compiled.check(&json.to_string(), &ParseLimits::default()).is_err(), "{json}");
    }
    let point = || Point { x: -1, y: Some(2) };
    for (internal, external, adjacent, untagged) in [
        (
            Internal::Struct { x: 1, nested: point() },
            External::Struct { x: 1 },
            Adjacent::Struct { x: 1 },
            Untagged::Small { x: 1 },
        ),
        (
            Internal::Newtype(point()),
            External::Newtype(point()),
            Adjacent::Newtype(point()),
            Untagged::Large(point()),
        ),
        (Internal::Unit, External::Unit, Adjacent::Unit, Untagged::Text("t".to_owned())),
        (
            Internal::Unit,
            External::Tuple(1, "t".to_owned()),
            Adjacent::Tuple(1, true),
            Untagged::List(vec![1]),
        ),
    ] {
        round(Enums {
            internal,
            external,
            adjacent,
            untagged,
            mode: Some(Mode::Deep),
            other: Mode::QuickLook,
            optional: None,
        });
    }
    round(Flat { own: 1, point: point() });
    for inner in [Internal::Struct { x: 1, nested: point() }, Internal::Newtype(point()), Internal::Unit] {
        round(FlatEnum { own: 1, inner });
    }
    round(FlatOptional { own: 1, inner: None });
    round(FlatOptional { own: 1, inner: Some(Internal::Newtype(point())) });
    round(FlatTwo { own: 1, first: Adjacent::Unit, second: Internal::Newtype(point()) });
    round(Strict { a: 1, inner: Some(Box::new(Strict { a: 2, inner: None })) });
    let leaf = || Box::new(Node::Literal(1));
    round(Expression {
        root: Node::Add(
            Box::new(Node::Add(leaf(), leaf())),
            Box::new(Node::Call { name: "f".to_owned(), arguments: vec![Node::Nothing] }),
        ),
    });
}
