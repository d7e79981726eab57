//! What a model is told of a call is rendered once, and is the same text on every wire.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::sync::Arc;

use serde_json::Value;
use wink_models::ModelAdapter;

use crate::answers::{Unknown, expected, go_through, script};
use crate::provider_support::{WAYS, Way};

/// The texts of the answers to calls in the body of a request.
fn told(way: Way, body: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let of_role = |role: &str| {
        list(&body["messages"]).into_iter().filter(|message| message["role"] == role).collect::<Vec<_>>()
    };
    match way {
        Way::Anthropic => {
            let blocks = of_role("user").into_iter().flat_map(|message| list(&message["content"]));
            let results = blocks.filter(|block| block["type"] == "tool_result");
            results.map(|block| text(&block["content"])).collect()
        }
        Way::Chat => of_role("tool").iter().map(|message| text(&message["content"])).collect(),
        // After a line that says which tool it is of: such a model has no place for that.
        Way::Constrained => {
            let said = of_role("user").into_iter().skip(1).map(|message| text(&message["content"]));
            said.map(|said| said.split_once(":\n").expect("a heading").1.to_owned()).collect()
        }
        Way::Responses => {
            let items = list(&body["input"]).into_iter();
            let results = items.filter(|item| item["type"] == "function_call_output");
            results.map(|item| text(&item["output"])).collect()
        }
    }
}

// case 72
#[tokio::test]
async fn the_same_text_on_every_wire() {
    let expected = expected(Unknown::Called).await;
    assert_eq!(expected.len(), 14);
    for (way, streaming) in WAYS {
        let (fake, provider) = way.saying(streaming, &script(Unknown::Called)).await;
        go_through(&ModelAdapter::new(Arc::new(provider))).await;
        let last = fake.seen().pop().unwrap();
        assert_eq!(told(way, &last.body), expected, "{way:?} {streaming:?}");
    }
}
