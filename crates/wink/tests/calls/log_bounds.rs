//! What the log keeps of a call is bounded, part by part; what the ledger gives back is whole.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wink::executor::{Executor, ExecutorLimits, Outcome, ToolCall};
use wink::ledger::IdempotencyConfig;
use wink::policy::{Decision, policy_fn};
use wink::prelude::*;
use wink::session::{Ending, ToolInvoked};

const MAX: usize = 1_000;
const LONG: usize = 5_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Long {
    text: String,
    list: Vec<Option<i64>>,
    map: BTreeMap<String, Option<bool>>,
}

impl Long {
    fn new(bytes: usize) -> Self {
        Self {
            text: "ü".repeat(bytes / 2),
            list: vec![None, Some(i64::MIN)],
            map: BTreeMap::from([("a".to_owned(), None), ("b".to_owned(), Some(true))]),
        }
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct How {
    how: String,
    #[serde(default)]
    pad: String,
}

#[derive(Debug, thiserror::Error)]
#[error("{}", "e".repeat(LONG))]
struct LongError(#[source] Option<Box<LongError>>);

async fn tell(params: How, _: &mut ToolContext) -> Result<ToolResult<Long>, ToolError> {
    Ok(match &*params.how {
        "message" => ToolResult::ok(Long::new(10), "m".repeat(LONG)),
        "value" => ToolResult::value(Long::new(LONG)),
        "hidden" => ToolResult::ok(Long::new(LONG), "hidden").exclude_value_from_context(),
        "failed" => ToolResult::failed(Long::new(LONG), "f".repeat(LONG)),
        "error" => return Err(LongError(Some(Box::new(LongError(None)))).into()),
        _ => ToolResult::ok(Long::new(10), "short"),
    })
}

async fn once(params: How, cx: &mut ToolContext) -> Result<ToolResult<Long>, ToolError> {
    tell(params, cx).await
}

async fn executor() -> Executor {
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("tell", "Tells.", tell))
        .tool(Tool::new("once", "Tells once.", once).idempotency(IdempotencyConfig::auto()))
        .policy(policy_fn("policy", |call, _| {
            match call.params.get("how").and_then(|how| how.as_str().map(str::to_owned)).as_deref() {
                Some("denied") => Decision::deny("d".repeat(LONG)),
                _ => Decision::Allow,
            }
        }));
    let prompt = PromptTemplate::builder("tests", "bounds").section(section).build().unwrap().prompt();
    let limits =
        ExecutorLimits { max_logged_bytes: MAX, max_answer_bytes: LONG * 4, ..ExecutorLimits::default() };
    Executor::builder(&prompt, &Session::new()).limits(limits).open().await.unwrap()
}

/// The texts in an event, by the names of its fields.
fn texts(event: &ToolInvoked) -> Vec<(String, usize)> {
    fn walk(name: &str, value: &Value, found: &mut Vec<(String, usize)>) {
        match value {
            Value::String(text) => found.push((name.to_owned(), text.len())),
            Value::Array(items) => items.iter().for_each(|item| walk(name, item, found)),
            Value::Object(map) => {
                map.iter().for_each(|(key, item)| walk(&format!("{name}/{key}"), item, found))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = Vec::new();
    walk("", &serde_json::to_value(event).unwrap(), &mut found);
    found
}

async fn call(executor: &Executor, tool: &str, arguments: Value) -> Outcome {
    executor.call(ToolCall::new("1", tool, arguments.to_string())).await
}

#[tokio::test]
async fn each_part_of_an_event_is_bounded() {
    let executor = executor().await;
    let long = "n".repeat(LONG);
    let many: BTreeMap<String, u32> = (0..5).map(|at| (format!("{at}{long}"), 1)).collect();
    let rows = [
        ("tell", json!({ "how": "message" }), Ending::Succeeded),
        ("tell", json!({ "how": "value" }), Ending::Succeeded),
        ("tell", json!({ "how": "hidden" }), Ending::Succeeded),
        ("tell", json!({ "how": "failed" }), Ending::Failed),
        ("tell", json!({ "how": "error" }), Ending::Errored),
        ("tell", json!({ "how": "denied" }), Ending::Denied),
        ("tell", json!({ "how": "pad", "pad": long }), Ending::Succeeded),
        ("tell", json!(many), Ending::Rejected),
        (&*long, json!({}), Ending::Unavailable),
    ];
    for (tool, arguments, ending) in rows {
        let outcome = call(&executor, tool, arguments.clone()).await;
        assert_eq!(outcome.event.ending, ending);
        for (name, bytes) in texts(&outcome.event) {
            assert!(bytes <= MAX, "{name} of {ending:?} has {bytes} bytes");
        }
        let chain: usize = outcome.event.error_chain.iter().map(String::len).sum();
        assert!(chain <= MAX, "all causes together");
    }
    let log = executor.session().slice::<ToolInvoked>();
    assert_eq!(log.latest().unwrap().tool.len(), 200);
}

#[tokio::test]
async fn what_is_short_is_kept_as_it_is() {
    let executor = executor().await;
    let outcome = call(&executor, "tell", json!({ "how": "short" })).await;
    assert_eq!(
        (&*outcome.event.message, outcome.event.value.typed::<Long>()),
        ("short", Some(Long::new(10)))
    );
    let outcome = call(&executor, "tell", json!({ "how": "value" })).await;
    let kept = outcome.event.value.to_json();
    let kept = kept.as_str().unwrap();
    assert!(kept.starts_with("{\"text\":\"üüü"), "{kept}");
    assert!(kept.ends_with("ü\n[value cut: the log keeps 1000 bytes of it]"), "{kept}");
    // The model's answer has its own bound.
    assert!(outcome.text().len() > LONG);
}

#[tokio::test]
async fn a_replay_gives_back_the_whole_of_it() {
    for how in ["message", "value", "hidden"] {
        let executor = executor().await;
        let first = call(&executor, "once", json!({ "how": how })).await;
        let second = call(&executor, "once", json!({ "how": how })).await;
        assert!(!first.event.replayed && second.event.replayed);
        assert_eq!(first.text(), second.text());
        assert_eq!(first.event.value, second.event.value);
    }
}
