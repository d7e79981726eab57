//! An answer of the Responses API.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wink::limits::TokenUsage;

use crate::providers::error;
use crate::providers::estimate::UNSAID;
use crate::providers::lenient::{self, Written};
use crate::providers::openai::{arguments, made_up_id};
use crate::{Called, ModelError, ModelErrorKind, ModelResponse, Stop};

/// Whose `provider` it is: another provider's is not ours to send.
const BY: &str = "openai.responses";

#[derive(Deserialize)]
struct Answer {
    status: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    output: Vec<Box<RawValue>>,
    incomplete_details: Option<Incomplete>,
    error: Option<Value>,
    #[serde(default, deserialize_with = "lenient::or_none")]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Usage {
    #[serde(default, deserialize_with = "lenient::count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::count")]
    output_tokens: Option<u64>,
    input_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default, deserialize_with = "lenient::count")]
    cached_tokens: Option<u64>,
}

impl Usage {
    fn tokens(self) -> TokenUsage {
        TokenUsage {
            input_tokens: self.input_tokens.unwrap_or(UNSAID),
            output_tokens: self.output_tokens.unwrap_or(UNSAID),
            cached_tokens: self
                .input_tokens_details
                .and_then(|details| details.cached_tokens)
                .unwrap_or_default(),
        }
    }
}

/// Reads an answer; `arrived` are the items that came one by one before it. Some servers do not repeat them.
pub(super) fn read(answer: &[u8], arrived: Vec<Box<RawValue>>) -> Result<ModelResponse, ModelError> {
    let answer: Answer = serde_json::from_slice(answer).map_err(error::malformed)?;
    if let Some(said) = answer.error.filter(|error| !error.is_null()) {
        return Err(error::of_object(&said));
    }
    let mut stop =
        match (answer.status.as_deref(), answer.incomplete_details.and_then(|details| details.reason)) {
            (Some("failed" | "cancelled"), _) => {
                return Err(error::new(
                    ModelErrorKind::Unavailable,
                    "the provider gave up and said no reason",
                ));
            }
            (Some("queued" | "in_progress"), _) => {
                return Err(error::malformed("the provider says that the answer is still to come"));
            }
            (Some("incomplete"), Some(reason)) if reason == "content_filter" => Stop::Refused,
            (Some("incomplete"), _) => Stop::Truncated,
            _ => Stop::Complete,
        };
    let items = if answer.output.is_empty() { arrived } else { answer.output };
    let (mut text, mut calls, mut kept) = (String::new(), Vec::new(), Vec::new());
    let mut needed = false;
    for written in items {
        let item: Value = serde_json::from_str(written.get()).map_err(error::malformed)?;
        match text_of(&item, "type") {
            "message" => {
                let said = message(&item, &mut stop);
                if !said.is_empty() {
                    kept.push(json!({ "text": said }));
                }
                text.push_str(&said);
            }
            "function_call" => {
                let call = call(&item, &written)?;
                kept.push(json!({ "call": call.id }));
                calls.push(call);
            }
            // Without what is encrypted the provider would look for it where nothing was stored.
            "reasoning" if item.get("encrypted_content").is_none_or(Value::is_null) => {}
            _ => {
                needed = true;
                kept.push(json!({ "item": item }));
            }
        }
    }
    let provider = needed.then(|| Arc::new(json!({ "by": BY, "items": kept })));
    Ok(ModelResponse {
        text: text.into(),
        calls,
        stop,
        usage: answer.usage.unwrap_or_default().tokens(),
        provider,
    })
}

fn message(item: &Value, stop: &mut Stop) -> String {
    let mut said = String::new();
    for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
        said.push_str(text_of(part, "text"));
        let refusal = text_of(part, "refusal");
        if !refusal.is_empty() {
            *stop = Stop::Refused;
            said.push_str(refusal);
        }
    }
    said
}

/// The call that an item is, with its arguments as they are written, also if they are an object.
fn call(item: &Value, written: &RawValue) -> Result<Called, ModelError> {
    #[derive(Deserialize)]
    struct Call {
        #[serde(default)]
        arguments: Written,
    }
    let id = match text_of(item, "call_id") {
        "" => made_up_id(),
        id => id.into(),
    };
    let call: Call = serde_json::from_str(written.get()).map_err(error::malformed)?;
    Ok(Called { id, name: text_of(item, "name").into(), arguments: arguments(&call.arguments.0) })
}

fn text_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A part of an answer, in its place among the others. Of text and calls there is only one truth, which is the message's.
pub(super) enum Kept<'a> {
    Item(&'a Value),
    Text(&'a str),
    Call(&'a str),
}

/// The items that were kept, if they are ours.
pub(super) fn kept_items(provider: Option<&Value>) -> Option<impl Iterator<Item = Kept<'_>>> {
    let kept = provider.filter(|kept| kept.get("by").is_some_and(|by| by == BY))?;
    Some(kept.get("items")?.as_array()?.iter().filter_map(|kept| {
        let text = |name| kept.get(name).and_then(Value::as_str);
        text("text").map(Kept::Text).or(text("call").map(Kept::Call)).or(kept.get("item").map(Kept::Item))
    }))
}
