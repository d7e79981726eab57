//! Keys of the ledger: equal calls have equal keys however they are written, and different calls have different ones.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};
use wink::executor::{Executor, ToolCall};
use wink::ledger::{IdempotencyConfig, LedgerScope};
use wink::prelude::*;
use wink::tool::secret::Secret;

/// An executor of one tool that answers with its key.
fn keys_of<P: wink::tool::TypedData>(config: IdempotencyConfig) -> Keys {
    async fn answer<P: wink::tool::TypedData>(_: P, cx: &mut ToolContext) -> ToolResult<String> {
        ToolResult::value(cx.idempotency_key().unwrap_or_default().to_owned())
    }
    Keys::new(Tool::new("order", "Order.", answer::<P>).idempotency(config), "s")
}

struct Keys {
    runtime: tokio::runtime::Runtime,
    executor: Executor,
}

impl Keys {
    fn new(tool: impl wink::tool::IntoTool, session: &str) -> Self {
        let section = Section::tools("shop", "Shop").tool(tool);
        let prompt = PromptTemplate::builder("tests", "keys").section(section).build().unwrap().prompt();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let session = Session::builder().id(session).build();
        let executor = runtime.block_on(Executor::open(&prompt, &session)).unwrap();
        Self { runtime, executor }
    }

    fn key(&self, arguments: &str) -> String {
        let outcome = self.runtime.block_on(self.executor.call(ToolCall::new("1", "order", arguments)));
        assert!(outcome.is_success(), "{arguments}: {}", outcome.text());
        outcome.event.value.to_json().as_str().unwrap().to_owned()
    }

    fn same(&self, one: &str, other: &str) -> bool {
        self.key(one) == self.key(other)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Order {
    tags: HashSet<String>,
    #[serde(default)]
    weights: HashMap<String, f64>,
    #[serde(default)]
    groups: Vec<HashSet<u8>>,
    #[serde(default)]
    level: Level,
    note: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lines: Vec<Line>,
    #[serde(skip_serializing)]
    password: String,
    #[serde(default)]
    way: Way,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
enum Level {
    #[default]
    Low,
    High,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
struct Line {
    #[serde(default)]
    count: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Way {
    /// In this order.
    Path { stops: Vec<u8> },
    /// In any order.
    Area {
        stops_of: BTreeSet<u8>,
        #[serde(default)]
        fast: bool,
    },
    #[default]
    None,
}

const PLAIN: &str = r#"{"tags":["a","b","c"],"password":"x"}"#;

// case 233
#[test]
fn sets_and_maps_have_no_order() {
    let keys = keys_of::<Order>(IdempotencyConfig::auto());
    let first = keys.key(PLAIN);
    for _ in 0..20 {
        assert_eq!(keys.key(PLAIN), first, "each time");
    }
    assert!(keys.same(PLAIN, r#"{"password":"x","tags":["c","a","b"]}"#));
    assert!(!keys.same(PLAIN, r#"{"tags":["a","b"],"password":"x"}"#));
    let groups = |groups: &str| format!(r#"{{"tags":[],"password":"x","groups":{groups}}}"#);
    assert!(keys.same(&groups("[[1,2],[3]]"), &groups("[[2,1],[3]]")));
    assert!(!keys.same(&groups("[[1,2],[3]]"), &groups("[[3],[1,2]]")), "a list has an order");
    let way = |way: &str| format!(r#"{{"tags":[],"password":"x","way":{way}}}"#);
    assert!(keys.same(&way(r#"{"stops_of":[1,2]}"#), &way(r#"{"fast":false,"stops_of":[2,1]}"#)));
    assert!(!keys.same(&way(r#"{"stops":[1,2]}"#), &way(r#"{"stops":[2,1]}"#)));
}

// case 233
#[test]
fn what_is_not_serialised_counts() {
    let keys = keys_of::<Order>(IdempotencyConfig::auto());
    assert!(!keys.same(PLAIN, r#"{"tags":["a","b","c"],"password":"y"}"#));
}

// case 233
#[test]
fn a_default_counts_whether_it_is_written_or_not() {
    let keys = keys_of::<Order>(IdempotencyConfig::auto());
    let with = |more: &str| format!(r#"{{"tags":["a","b","c"],"password":"x",{more}}}"#);
    for same in [
        r#""weights":{}"#,
        r#""groups":[]"#,
        r#""level":"Low""#,
        r#""note":null"#,
        r#""lines":[]"#,
        r#""way":null"#,
    ] {
        assert!(keys.same(PLAIN, &with(same)), "{same}");
    }
    for other in
        [r#""weights":{"a":0}"#, r#""groups":[[]]"#, r#""level":"High""#, r#""note":"""#, r#""lines":[{}]"#]
    {
        assert!(!keys.same(PLAIN, &with(other)), "{other}");
    }
    let line = |line: &str| with(&format!(r#""lines":[{line}]"#));
    assert!(keys.same(&line("{}"), &line(r#"{"of":null,"count":0}"#)), "inside of things too");
    assert!(!keys.same(&line("{}"), &line(r#"{"of":0}"#)));
}

// case 233
#[test]
fn items_of_a_set_are_told_apart_in_any_order() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Parts {
        parts: HashSet<Line>,
    }
    let keys = keys_of::<Parts>(IdempotencyConfig::auto());
    let parts = |parts: &str| format!(r#"{{"parts":[{parts}]}}"#);
    // In whatever order the set of the parameters has them.
    for _ in 0..20 {
        assert!(keys.same(
            &parts(r#"{"of":null},{"of":1},{"of":2,"count":1},{"count":2}"#),
            &parts(r#"{"count":2,"of":null},{"of":2,"count":1},{},{"count":0,"of":1}"#)
        ));
    }
    assert!(!keys.same(&parts(r#"{"of":null},{"of":1}"#), &parts(r#"{"of":0},{"of":1}"#)));
}

// case 233
#[test]
fn parameters_that_cannot_be_written_again_have_keys() {
    #[derive(Deserialize, JsonSchema)]
    struct OneWay {
        name: Option<String>,
        #[serde(default)]
        #[schemars(default)]
        count: u8,
    }
    impl Serialize for OneWay {
        fn serialize<S: wink::serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            let _ = (&self.name, self.count);
            Err(wink::serde::ser::Error::custom("one way"))
        }
    }
    let keys = keys_of::<OneWay>(IdempotencyConfig::auto());
    assert!(keys.same("{}", r#"{"count":0,"name":null}"#));
    assert!(!keys.same("{}", r#"{"name":""}"#));
}

// case 233
#[test]
fn numbers_count_by_their_value() {
    let keys = keys_of::<Order>(IdempotencyConfig::auto());
    let weight = |weight: &str| format!(r#"{{"tags":[],"password":"x","weights":{{"a":{weight}}}}}"#);
    for one in ["1.0", "1e0", "10e-1", "1.00"] {
        assert!(keys.same(&weight("1"), &weight(one)), "{one}");
    }
    assert!(keys.same(&weight("0"), &weight("-0.0")));
    assert!(keys.same(&weight("0.5"), &weight("5e-1")));
    assert!(!keys.same(&weight("1"), &weight("1.5")));
    assert!(!keys.same(&weight("9007199254740992"), &weight("9007199254740994")));
}

#[test]
fn a_default_that_is_never_written_does_not_stand_for_another_value() {
    fn ten() -> u32 {
        10
    }
    fn is_ten(n: &u32) -> bool {
        *n == 10
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only what the model writes counts")]
    struct Odd {
        #[serde(default = "ten", skip_serializing_if = "is_ten")]
        some: u32,
        #[serde(default = "ten", skip_serializing)]
        never: u32,
        #[serde(default, skip_serializing)]
        perhaps: Option<u32>,
    }
    let keys = keys_of::<Odd>(IdempotencyConfig::auto());
    assert!(!keys.same("{}", r#"{"some":0}"#));
    assert!(!keys.same("{}", r#"{"never":0}"#));
    assert!(!keys.same("{}", r#"{"perhaps":0}"#));
}

// case 228
#[test]
fn chosen_parameters_count_in_the_same_way() {
    let keys = keys_of::<Order>(IdempotencyConfig::params(["tags", "level"]));
    assert!(keys.same(PLAIN, r#"{"level":"Low","tags":["b","c","a"],"password":"y"}"#));
    assert!(!keys.same(PLAIN, r#"{"level":"High","tags":["b","c","a"],"password":"x"}"#));
}

// case 229
#[test]
fn a_key_function_sees_one_form_and_no_secret() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Login {
        user: String,
        password: Secret<String>,
        #[serde(default)]
        rights: HashSet<String>,
        #[serde(default)]
        weight: f64,
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let shown = Arc::clone(&seen);
    let keys = keys_of::<Login>(IdempotencyConfig::custom(move |params| {
        shown.lock().unwrap().push(params.clone());
        Ok(params.to_string())
    }));
    assert!(keys.same(
        r#"{"user":"u","password":"hunter2","rights":["w","r"],"weight":0.0}"#,
        r#"{"rights":["r","w"],"password":"hunter2","user":"u"}"#
    ));
    let seen = seen.lock().unwrap();
    let hash = seen[0]["password"].as_str().unwrap().to_owned();
    assert!(hash.starts_with("blake3:"), "{hash}");
    let form = json!({ "password": hash, "rights": ["r", "w"], "user": "u", "weight": 0 });
    assert_eq!(*seen, vec![form; seen.len()]);
}

#[test]
fn of_a_dynamic_tool_absent_and_null_are_different_things() {
    async fn answer(_: Value, cx: &mut ToolContext) -> ToolResult<Value> {
        ToolResult::value(cx.idempotency_key().into())
    }
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": ["string", "null"] },
            "level": { "type": "integer", "default": 3 },
            "again": { "$ref": "#", "default": {} },
            "size": { "type": "object", "default": {}, "properties": { "width": { "default": 1 } } },
            "set": { "type": "array", "uniqueItems": true },
        },
    });
    let keys = Keys::new(
        Tool::dynamic("order", "Order.", schema, answer).idempotency(IdempotencyConfig::auto()),
        "s",
    );
    assert!(!keys.same("{}", r#"{"name":null}"#));
    assert!(!keys.same("{}", r#"{"set":[]}"#));
    assert!(keys.same("{}", r#"{"level":3}"#));
    assert!(keys.same("{}", r#"{"size":{}}"#));
    assert!(keys.same("{}", r#"{"size":{"width":1.0}}"#));
    assert!(!keys.same("{}", r#"{"size":{"width":2}}"#));
    assert!(keys.same(r#"{"set":[{"a":1,"b":2},"x",1]}"#, r#"{"set":["x",1.0,{"b":2,"a":1}]}"#));
}

// case 229
#[test]
fn scopes_and_names_never_meet() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Text {
        text: String,
    }
    let texts = ["", "a", ":", "a:order", "order:a", "s:order:a", "%", "%3A", "global"];
    let names = [
        "global",
        "session",
        "%global",
        "",
        ":",
        "s",
        "session:s",
        "session:s:order",
        "global:order",
        "a:order",
        "%3A",
        "%253A",
        "日本",
    ];
    let scopes = names.map(|name| LedgerScope::Named(name.into()));
    let scopes = scopes.into_iter().chain([LedgerScope::Global]).map(|scope| (scope, "s"));
    let sessions = ["s", "s:order", "s:order:a", "", "global", "%3A", ":"];
    let all = scopes.chain(sessions.map(|session| (LedgerScope::Session, session)));
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (scope, session) in all {
        let said = format!("{scope:?} {session:?}");
        let config = IdempotencyConfig::custom(|params| Ok(params["text"].as_str().unwrap_or("").to_owned()))
            .scope(scope);
        async fn answer(_: Text, cx: &mut ToolContext) -> ToolResult<String> {
            ToolResult::value(cx.idempotency_key().unwrap_or_default().to_owned())
        }
        let keys = Keys::new(Tool::new("order", "Order.", answer).idempotency(config), session);
        for text in texts {
            let key = keys.key(&json!({ "text": text }).to_string());
            let said = format!("{said} {text:?}");
            if let Some(other) = seen.insert(key.clone(), said.clone()) {
                assert_eq!(said, other, "both have the key {key}");
            }
        }
    }
}

fn level() -> impl Strategy<Value = Level> {
    prop_oneof![Just(Level::Low), Just(Level::High)]
}

fn order() -> impl Strategy<Value = Order> {
    let word = || "[ab]{0,2}";
    let line = (0u8..2, prop::option::of(0u8..2)).prop_map(|(count, of)| Line { count, of });
    let way = prop_oneof![
        prop::collection::vec(0u8..3, 0..3).prop_map(|stops| Way::Path { stops }),
        (prop::collection::btree_set(0u8..3, 0..3), any::<bool>())
            .prop_map(|(stops_of, fast)| Way::Area { stops_of, fast }),
        Just(Way::None),
    ];
    (
        prop::collection::hash_set(word(), 0..3),
        prop::collection::hash_map(word(), prop_oneof![Just(0.0), Just(1.0), Just(0.5)], 0..2),
        prop::collection::vec(prop::collection::hash_set(0u8..3, 0..3), 0..2),
        level(),
        prop::option::of(word()),
        prop::collection::vec(line, 0..2),
        word(),
        way,
    )
        .prop_map(|(tags, weights, groups, level, note, lines, password, way)| Order {
            tags,
            weights,
            groups,
            level,
            note,
            lines,
            password,
            way,
        })
}

/// One of the ways to write an order; `dice` decides.
fn written(order: &Order, dice: &mut impl FnMut(usize) -> usize) -> Value {
    let mut shuffled = |items: Vec<Value>| {
        let mut items = items;
        for at in (1..items.len()).rev() {
            items.swap(at, dice(at + 1));
        }
        items
    };
    let tags = shuffled(order.tags.iter().map(|tag| json!(tag)).collect());
    let groups: Vec<Value> = order
        .groups
        .iter()
        .map(|group| json!(shuffled(group.iter().map(|item| json!(item)).collect())))
        .collect();
    let way = match &order.way {
        Way::Path { stops } => json!({ "stops": stops }),
        Way::Area { stops_of, fast } => {
            let stops_of = shuffled(stops_of.iter().map(|stop| json!(stop)).collect());
            if *fast || dice(2) == 0 {
                json!({ "fast": fast, "stops_of": stops_of })
            } else {
                json!({ "stops_of": stops_of })
            }
        }
        Way::None => Value::Null,
    };
    let weight =
        |weight: f64, dice: &mut dyn FnMut(usize) -> usize| match weight.fract() == 0.0 && dice(2) == 0 {
            true => json!(weight as u64),
            false => json!(weight),
        };
    let weights: serde_json::Map<String, Value> =
        order.weights.iter().map(|(name, value)| (name.clone(), weight(*value, dice))).collect();
    let lines: Vec<Value> = order
        .lines
        .iter()
        .map(|line| {
            let mut fields = serde_json::Map::new();
            if line.count != 0 || dice(2) == 0 {
                fields.insert("count".into(), json!(line.count));
            }
            if line.of.is_some() || dice(2) == 0 {
                fields.insert("of".into(), json!(line.of));
            }
            Value::Object(fields)
        })
        .collect();
    let mut fields = vec![("tags", json!(tags)), ("password", json!(order.password))];
    let optional = [
        ("weights", json!(weights), order.weights.is_empty()),
        ("groups", json!(groups), order.groups.is_empty()),
        ("level", json!(order.level), order.level == Level::Low),
        ("note", json!(order.note), order.note.is_none()),
        ("lines", json!(lines), order.lines.is_empty()),
        ("way", way, order.way == Way::None),
    ];
    for (name, value, is_default) in optional {
        if !is_default || dice(2) == 0 {
            fields.push((name, value));
        }
    }
    for at in (1..fields.len()).rev() {
        fields.swap(at, dice(at + 1));
    }
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // case 233
    #[test]
    fn keys_are_equal_exactly_when_calls_are(
        one in order(),
        other in order(),
        mut seed in any::<u64>(),
    ) {
        thread_local!(static KEYS: Keys = keys_of::<Order>(IdempotencyConfig::auto()));
        let mut dice = |sides: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap() % sides
        };
        let texts = [&one, &one, &other].map(|order| written(order, &mut dice).to_string());
        KEYS.with(|keys| {
            prop_assert_eq!(keys.key(&texts[0]), keys.key(&texts[1]), "{} {}", texts[0], texts[1]);
            prop_assert_eq!(keys.same(&texts[0], &texts[2]), one == other, "{} {}", texts[0], texts[2]);
            Ok(())
        })?;
    }
}
