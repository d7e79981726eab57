//! The schema for editors and the reading of files say the same, and no text is too strange to be read.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};
use wink_agent::Agent;

static VALIDATOR: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&Agent::schema()).unwrap());

#[test]
fn the_schema_is_one() {
    let schema = Agent::schema();
    jsonschema::meta::validate(&schema).unwrap();
    assert_eq!(schema.get("title"), Some(&json!("Wink agent file")));
}

/// A value that is nested as deep as TOML can be.
fn deepest(key: &str) -> String {
    let keys = vec![key; 78].join(".");
    format!("{}1{}", format!("{{ {keys} = ").repeat(78), " }".repeat(78))
}

#[test]
fn deep_nesting_is_told_and_harms_nobody() {
    let texts = [
        format!("x = {}", deepest("a")),
        format!("{AGENT}params = {}", deepest("a")),
        format!("{AGENT}tool = [{{ params = {} }}]", deepest("a")),
        format!("[[policy]]\nnot.policy = {}", deepest("not.policy")),
        format!("policy = {}1{}", "[".repeat(10_000), "]".repeat(10_000)),
        format!("[[{}]]", vec!["section"; 10_000].join(".")),
        format!("[[{}]]\nkey = 1", vec!["section"; 79].join(".")),
    ];
    for text in texts {
        // Whatever thread it is on.
        let small = std::thread::Builder::new().stack_size(256 * 1024);
        let told = small
            .spawn(move || Agent::parse(&text, "wink.toml").unwrap_err().to_string())
            .unwrap()
            .join()
            .unwrap();
        assert!(told.len() < 20_000, "{} bytes", told.len());
    }
}

const AGENT: &str = "[agent]\nns = \"a\"\nkey = \"b\"\n[[section]]\nkey = \"a\"\ntitle = \"A\"\n";

/// The keys of agent files, and some that are none.
const KEYS: [&str; 48] = [
    "output",
    "schema",
    "extra_keys",
    "completion",
    "plan",
    "task",
    "step",
    "objective",
    "agent",
    "ns",
    "key",
    "name",
    "section",
    "title",
    "body",
    "summary",
    "visibility",
    "suites",
    "tool",
    "command",
    "description",
    "params",
    "timeout",
    "policy",
    "sequential",
    "quota",
    "session",
    "tools",
    "not",
    "all_of",
    "rate_limit",
    "max",
    "window",
    "per",
    "limits",
    "deadline",
    "sandbox",
    "memory",
    "unlimited",
    "idempotency",
    "strategy",
    "fields",
    "ttl",
    "annotations",
    "read_only",
    "env",
    "mcp",
    "titel",
];

fn value() -> impl Strategy<Value = toml::Value> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "", "full", "summary", "files", "planning", "auto", "params", "5m", "1 GiB", "a", "$x"
        ])
        .prop_map(|text| toml::Value::String(text.to_owned())),
        any::<bool>().prop_map(toml::Value::Boolean),
        (-2i64..200).prop_map(toml::Value::Integer),
        (0.0f64..2.0).prop_map(toml::Value::Float),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(toml::Value::Array),
            prop::collection::vec((prop::sample::select(KEYS.to_vec()), inner), 0..6).prop_map(|entries| {
                toml::Value::Table(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

fn file() -> impl Strategy<Value = toml::Table> {
    prop::collection::vec((prop::sample::select(KEYS.to_vec()), value()), 0..6)
        .prop_map(|entries| entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 512 } else { 4096 }))]

    #[test]
    fn any_text_is_read(text in "\\PC*") {
        let _ = Agent::parse(&text, "wink.toml");
    }

    #[test]
    fn any_text_like_toml_is_read(text in "([a-z\\[\\]{}=\".,'#\\n 0-9$-]|section|\\[\\[section\\]\\]|agent|key|tool|mcp){0,60}") {
        if let Err(error) = Agent::parse(&text, "wink.toml") {
            prop_assert!(!error.problems().is_empty());
            for problem in error.problems() {
                prop_assert!(problem.line <= text.lines().count() + 1, "{problem:?}");
            }
        }
    }

    #[test]
    fn any_tree_is_read(file in file()) {
        let text = file.to_string();
        if let Err(error) = Agent::parse(&text, "wink.toml") {
            prop_assert!(!error.problems().is_empty());
            prop_assert!(error.problems().iter().all(|problem| !problem.message.is_empty()));
        }
    }

    /// What an editor underlines, loading refuses. (The other way round there is more that loading knows.)
    #[test]
    fn what_the_schema_refuses_is_refused(file in file()) {
        let text = file.to_string();
        let json: Value = serde_json::to_value(&file).unwrap();
        if !VALIDATOR.is_valid(&json) {
            prop_assert!(Agent::parse(&text, "wink.toml").is_err(), "{text}");
        }
    }
}
