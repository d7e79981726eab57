//! Numbers in arguments and typed results: each arrives with the decimal value that was written, or is refused by name.

#![allow(missing_docs)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use proptest::prelude::*;
use serde_json::{Value, json};
use wink::executor::{Executor, Outcome, ToolCall};
use wink::ledger::IdempotencyConfig;
use wink::prelude::*;
use wink::prompt::Output;
use wink::session::LoggedParams;
use wink::tool::schema::{CompiledSchema, ParseLimits, ProblemKind, tighten};

/// What a decoder that looks at fields only later gives.
#[data]
#[derive(Clone, Default)]
struct Inner {
    #[serde(default)]
    flat: Option<f64>,
}

#[data]
#[derive(Clone, Default)]
struct Numbers {
    signed: Option<i64>,
    unsigned: Option<u64>,
    double: Option<f64>,
    list: Option<Vec<f64>>,
    any: Option<Value>,
    either: Option<Either>,
    inner: Option<Inner>,
}

#[data]
#[derive(Clone)]
#[serde(untagged)]
enum Either {
    Whole(i64),
    Double(f64),
}

struct World {
    runtime: tokio::runtime::Runtime,
    executor: Executor,
}

impl World {
    fn new() -> Self {
        async fn echo(arguments: Value, _: &mut ToolContext) -> ToolResult<Value> {
            ToolResult::value(arguments)
        }
        async fn keyed(_: Value, cx: &mut ToolContext) -> ToolResult<Value> {
            ToolResult::value(cx.idempotency_key().unwrap_or_default().into())
        }
        async fn typed(arguments: Numbers, _: &mut ToolContext) -> ToolResult<Numbers> {
            ToolResult::value(arguments)
        }
        let any = json!({ "type": "object", "properties": { "n": true }, "required": ["n"] });
        let number = json!({ "type": "object", "properties": { "n": { "type": "number" } } });
        let section = Section::tools("t", "T")
            .tool(Tool::dynamic("any", "Echoes.", any, echo))
            .tool(Tool::dynamic("number", "Echoes.", number.clone(), echo))
            .tool(Tool::dynamic("keyed", "Keyed.", number, keyed).idempotency(IdempotencyConfig::auto()))
            .tool(Tool::new("typed", "Echoes.", typed));
        let prompt = PromptTemplate::builder("tests", "numbers").section(section).build().unwrap().prompt();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let session = Session::builder().id("s").build();
        let executor = runtime.block_on(Executor::open(&prompt, &session)).unwrap();
        Self { runtime, executor }
    }

    fn call(&self, tool: &str, arguments: &str) -> Outcome {
        self.runtime.block_on(self.executor.call(ToolCall::new("1", tool, arguments)))
    }
}

/// The decimal value of a number's text: its sign, its digits, and the power of ten of the last one.
fn decimal(text: &str) -> (bool, String, i128) {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let lower = text.to_ascii_lowercase();
    let (mantissa, power) = lower.split_once('e').unwrap_or((&lower, "0"));
    let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let digits = mantissa.replace('.', "");
    let digits = digits.trim_start_matches('0');
    let short = digits.trim_end_matches('0');
    if short.is_empty() {
        return (false, String::new(), 0);
    }
    let power = power.parse::<i128>().unwrap() - fraction as i128 + (digits.len() - short.len()) as i128;
    (negative, short.to_owned(), power)
}

/// Either the call was refused because of its number, or the value at `place` and the log have what was written.
fn arrives(outcome: &Outcome, place: &str, text: &str) -> bool {
    match &outcome.event.params {
        LoggedParams::Rejected { raw, problems } => {
            assert!(raw.contains(text), "{raw}");
            let field = place.split('/').nth(1).unwrap();
            assert!(problems.contains(&format!("`{field}")), "{problems}");
            false
        }
        LoggedParams::Accepted(logged) => {
            assert!(logged.contains(text), "{logged}");
            assert!(outcome.is_success(), "{}", outcome.text());
            let value = outcome.event.value.to_json();
            let arrived =
                value.pointer(place).unwrap_or_else(|| panic!("{text}: nothing at {place} of {value}"));
            assert_eq!(decimal(&arrived.to_string()), decimal(text), "{text} arrived as {arrived}");
            true
        }
    }
}

fn texts() -> impl Strategy<Value = String> {
    let sign = prop_oneof![3 => Just(""), 1 => Just("-")];
    let integer = prop_oneof![
        Just("0".to_owned()),
        "[1-9][0-9]{0,30}",
        any::<u64>().prop_map(|n| n.to_string()),
        // Around the ends of what is exact.
        (0_u128..40).prop_map(|n| (u128::from(u64::MAX) - 20 + n).to_string()),
        (0_u128..40).prop_map(|n| ((1_u128 << 63) - 20 + n).to_string()),
        (0_u128..40).prop_map(|n| ((1_u128 << 53) - 20 + n).to_string()),
    ];
    let fraction = prop_oneof![
        2 => Just(String::new()),
        2 => "\\.[0-9]{1,25}",
        1 => "\\.0{1,25}",
        1 => "\\.[0-9]{1,3}0{1,25}",
    ];
    let exponent = prop_oneof![
        4 => Just(String::new()),
        2 => "[eE][+-]?[0-9]{1,2}",
        1 => "[eE][+-]?3[0-9]{2}",
        1 => "[eE][+-]?[0-9]{10,25}",
    ];
    let parts = (sign, integer, fraction, exponent);
    let written =
        parts.prop_map(|(sign, integer, fraction, power)| format!("{sign}{integer}{fraction}{power}"));
    let doubles = any::<f64>().prop_filter("finite", |double| double.is_finite());
    prop_oneof![
        3 => written,
        1 => doubles.clone().prop_map(|double| double.to_string()),
        1 => doubles.prop_map(|double| format!("{double:e}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(3000), failure_persistence: None, ..ProptestConfig::default() })]

    // case 253
    #[test]
    fn every_number_arrives_as_written_or_is_refused_by_name(text in texts()) {
        thread_local!(static WORLD: World = World::new());
        WORLD.with(|world| {
            let arguments = format!("{{\"n\": {text}}}");
            let any = arrives(&world.call("any", &arguments), "/n", &text);
            prop_assert_eq!(arrives(&world.call("number", &arguments), "/n", &text), any);
            let nested = world.call("any", &format!("{{\"n\": [{{\"a\": {text}}}]}}"));
            prop_assert_eq!(arrives(&nested, "/n/0/a", &text), any);
            // What is refused is what JSON values cannot hold, and nothing else.
            let json: Result<Value, _> = serde_json::from_str(&text);
            let is_wide = !text.contains(['.', 'e', 'E']) && text.parse::<u64>().is_err() && text.parse::<i64>().is_err();
            let holds = !is_wide && json.is_ok_and(|json| decimal(&json.to_string()) == decimal(&text));
            prop_assert_eq!(any, holds, "{}", text);
            for (field, place) in
                [("signed", "/signed"), ("unsigned", "/unsigned"), ("double", "/double"), ("any", "/any"), ("either", "/either")]
            {
                let arrived = arrives(&world.call("typed", &format!("{{\"{field}\": {text}}}")), place, &text);
                prop_assert!(any || !arrived, "{field}: {text}");
            }
            arrives(&world.call("typed", &format!("{{\"list\": [{text}]}}")), "/list/0", &text);
            arrives(&world.call("typed", &format!("{{\"inner\": {{\"flat\": {text}}}}}")), "/inner/flat", &text);
            Ok(())
        })?;
    }

    #[test]
    fn equal_numbers_share_a_key_and_others_do_not(one in texts(), other in texts(), near in 0_u64..4) {
        thread_local!(static WORLD: World = World::new());
        let key = |text: &str| WORLD.with(|world| {
            let outcome = world.call("keyed", &format!("{{\"n\": {text}}}"));
            outcome.is_success().then(|| outcome.event.value.to_json().to_string())
        });
        // A neighbour in its last digit.
        let mut neighbour = one.clone();
        neighbour.pop();
        neighbour.push_str(&near.to_string());
        for other in [&other, &neighbour] {
            if let (Some(first), Some(second)) = (key(&one), key(other)) {
                prop_assert_eq!(first == second, decimal(&one) == decimal(other), "{} and {}", one, other);
            }
        }
    }
}

fn refusal(schema: &Value, text: &str) -> (ProblemKind, String) {
    let schema = CompiledSchema::compile(&tighten(schema.clone()).unwrap()).unwrap();
    let rejection = schema.check(text, &ParseLimits::default()).unwrap_err();
    (rejection.problems[0].kind, rejection.to_string())
}

// case 253
#[test]
fn a_refusal_names_the_field_the_limit_and_what_to_do() {
    let schema = json!({ "type": "object", "properties": { "wei": { "type": "integer" }, "any": true, "n": { "type": "number" } } });
    let wide = "would be rounded; expected an integer from -9223372036854775808 to 18446744073709551615, or a string if the field takes one";
    let rounded = "would be rounded; expected a number that a double holds (15 significant digits always fit), or a string if the field takes one";
    let large = "would be rounded; expected a number from -1.7976931348623157e308 to 1.7976931348623157e308, or a string if the field takes one";
    for (arguments, path, number, why) in [
        (r#"{"wei": 20000000000000000001}"#, "wei", "20000000000000000001", wide),
        (r#"{"any": [0, {"k": -9223372036854775809}]}"#, "any[1].k", "-9223372036854775809", wide),
        (r#"{"n": 0.1000000000000000055}"#, "n", "0.1000000000000000055", rounded),
        (r#"{"any": 1e400}"#, "any", "1e400", large),
        (r#"{"n": -1e400}"#, "n", "-1e400", large),
        (r#"{"n": 1e-400}"#, "n", "1e-400", rounded),
    ] {
        let expected = format!("Invalid arguments: `{path}`: `{number}` {why}");
        assert_eq!(refusal(&schema, arguments), (ProblemKind::InexactNumber, expected));
    }
}

#[test]
fn other_spellings_of_a_number_pass() {
    let world = World::new();
    for text in [
        "0.1",
        "0.10",
        "1e2",
        "100.0",
        "-0",
        "-0.0",
        "0e999999999999999999999",
        "5e-324",
        "1.7976931348623157e308",
    ] {
        assert!(arrives(&world.call("number", &format!("{{\"n\": {text}}}")), "/n", text), "{text}");
    }
}

#[test]
fn a_double_does_not_take_an_integer_that_it_rounds() {
    let world = World::new();
    for (text, fits) in
        [("9007199254740992", true), ("9007199254740993", false), ("10000000000000000000", true)]
    {
        let outcome = world.call("typed", &format!("{{\"double\": {text}}}"));
        assert_eq!(arrives(&outcome, "/double", text), fits, "{}", outcome.text());
        // Another form of the same union takes it.
        let outcome = world.call("typed", &format!("{{\"either\": {text}}}"));
        assert!(arrives(&outcome, "/either", text), "{}", outcome.text());
    }
}

// case 253
#[test]
fn two_large_integers_are_not_one_call() {
    let world = World::new();
    for last in ["1", "2"] {
        let outcome = world.call("keyed", &format!("{{\"n\": 2000000000000000000{last}}}"));
        assert!(!outcome.is_success() && !outcome.event.replayed);
    }
}

#[test]
fn a_typed_result_is_not_rounded() {
    let output = Output::object::<Numbers>();
    let prompt = PromptTemplate::builder("tests", "result").output(output).build().unwrap().prompt();
    let rendered = prompt.render(&Session::new()).unwrap();
    let contract = rendered.output().unwrap();
    for text in ["20000000000000000001", "0.1000000000000000055", "1e400"] {
        for field in ["any", "double"] {
            let error = contract.parse(&format!("{{\"{field}\": {text}}}")).unwrap_err().to_string();
            assert!(error.contains(field) && error.contains("would be rounded"), "{error}");
        }
    }
    // An integer with a fraction is one only if it is one exactly.
    assert!(contract.parse(r#"{"signed": 7.0}"#).is_ok());
    assert!(contract.parse(r#"{"signed": 7.00000000000000000001}"#).is_err());
}
