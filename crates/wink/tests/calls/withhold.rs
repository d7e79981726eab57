//! Secrets of whoever drives an executor: they are in nothing that a call is given, says, or leaves behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use wink::executor::{Executor, Outcome, ToolCall, Withhold};
use wink::ledger::IdempotencyConfig;
use wink::prelude::*;
use wink::session::{Ending, SnapshotScope};
use wink::testing::ByteStore;

const KEY: &str = "planted-key-4711";
const NUMBER: u64 = 4_711_471_147;

/// Knows a key and a number.
struct Knows;

impl Withhold for Knows {
    fn text(&self, text: &str) -> String {
        text.replace(KEY, "***").replace(&NUMBER.to_string(), "***")
    }

    fn json(&self, text: &str) -> String {
        self.text(text)
    }

    fn value(&self, value: Value) -> Value {
        let text = self.text(&value.to_string().replace(&NUMBER.to_string(), "\"***\""));
        serde_json::from_str(&text).unwrap()
    }
}

#[data]
struct How {
    how: String,
}

/// What a tool has found, and keeps in a slice.
#[data]
#[derive(SliceType)]
#[slice(name = "found")]
struct Found {
    text: String,
    number: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("refused: {KEY}")]
struct Refused(#[source] std::io::Error);

/// What handlers were called with.
static CALLED: Mutex<Vec<String>> = Mutex::new(Vec::new());

async fn find(params: How, _: &mut ToolContext) -> Result<ToolResult<Found>, ToolError> {
    CALLED.lock().unwrap().push(params.how.clone());
    let found = |number| Found { text: format!("it is {KEY}"), number };
    Ok(match &*params.how {
        "value" => ToolResult::ok(found(1), format!("found {KEY}")),
        "number" => ToolResult::ok(found(NUMBER), "a number"),
        "hidden" => ToolResult::ok(found(NUMBER), "hidden").exclude_value_from_context(),
        "failed" => ToolResult::failed(found(1), format!("not {KEY}")),
        "panic" => panic!("{KEY}"),
        "error" => return Err(Refused(std::io::Error::other(KEY)).into()),
        _ => ToolResult::value(Found { text: "nothing".to_owned(), number: 1 }),
    })
}

async fn executor(store: &Arc<ByteStore>) -> Executor {
    let tool = Tool::new("find", "Find it.", find).publishes().idempotency(IdempotencyConfig::auto());
    let section = Section::markdown("s", "S").body(format!("Never say {KEY}.")).tool(tool);
    let prompt = PromptTemplate::builder("tests", "withhold").section(section).build().unwrap().prompt();
    let session = Session::builder().store(Arc::clone(store) as _).open().await.unwrap();
    Executor::builder(&prompt, &session).withhold(Arc::new(Knows)).open().await.unwrap()
}

async fn call(executor: &Executor, how: &str) -> Outcome {
    executor.call(ToolCall::new("1", "find", json!({ "how": how }).to_string())).await
}

/// All that a store was given, as text.
fn stored(store: &ByteStore) -> String {
    let bytes = store.bytes();
    let text = String::from_utf8_lossy(&bytes);
    let numbers = text.split(|letter: char| !letter.is_ascii_digit());
    let bytes: Vec<u8> = numbers.filter_map(|number| number.parse().ok()).collect();
    format!("{text}\n{}", String::from_utf8_lossy(&bytes))
}

#[tokio::test]
async fn what_is_withheld_is_in_nothing_that_a_call_says_or_leaves() {
    let store = Arc::new(ByteStore::new());
    let executor = executor(&store).await;
    let unknown = "find failed unexpectedly (it panicked); what it did here was undone, and whether its effect outside happened is not known";
    for (how, ending, text) in [
        ("value", Ending::Succeeded, "found ***\n\n{\"text\":\"it is ***\",\"number\":1}"),
        // The type has no room for the mask: what was to be seen is.
        ("number", Ending::Succeeded, "a number\n\n{\"text\":\"it is ***\",\"number\":***}"),
        ("hidden", Ending::Succeeded, "hidden"),
        ("failed", Ending::Failed, "not ***"),
        ("error", Ending::Errored, "refused: ***"),
        ("panic", Ending::Panicked, unknown),
    ] {
        // The second time from the ledger, where it succeeded.
        for _ in 0..if ending == Ending::Panicked { 1 } else { 2 } {
            let outcome = call(&executor, how).await;
            assert_eq!((outcome.event.ending, outcome.text()), (ending, text), "{how}");
            let told = format!("{outcome:?}");
            assert!(!told.contains(KEY) && !told.contains(&NUMBER.to_string()), "{how}: {told}");
        }
    }
    let strange = call(&executor, KEY).await;
    assert!(strange.is_success() && CALLED.lock().unwrap().contains(&"***".to_owned()));
    let unknown = executor.call(ToolCall::new("1", KEY, format!("{{\"{KEY}\": 1}}"))).await;
    assert_eq!(unknown.event.ending, Ending::Unavailable);
    executor.session().flush().await.unwrap();
    let snapshot = executor.session().snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap().to_string();
    assert!(snapshot.contains("it is ***"), "the slice has it: {snapshot}");
    for said in [stored(&store), snapshot] {
        assert!(said.contains("Never say ***."), "{said}");
        assert!(!said.contains(KEY) && !said.contains(&NUMBER.to_string()), "{said}");
    }
}
