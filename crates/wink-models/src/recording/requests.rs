//! Requests as they are written down: each with what is new since an earlier one.

use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wink::tool::secret::MASK;

use crate::message::Message;
use crate::model::{ModelRequest, OutputSpec, Settings, ToolSpec};

/// How many conversations may go on side by side without being written down anew: a run, and the sub-runs inside it.
const MOST_KNOWN: usize = 16;

/// A request as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedRequest {
    /// Its number, from 0.
    number: usize,
    /// The request that it goes on from, if there is one; the rest is what is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settings: Option<Settings>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Arc<Message>>,
}

impl RecordedRequest {
    /// Its number, from 0.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The same with other messages.
    pub(super) fn mapped(mut self, map: impl Fn(&Arc<Message>) -> Arc<Message>) -> Self {
        self.messages = self.messages.iter().map(map).collect();
        self
    }

    /// In which part another differs first, with what each has there. This one is the recorded one: where it has a mask, anything may
    /// be in the other, but nothing else than what it has around that.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let told = |part: &str, then: Value, now: Value| {
            Some(format!("{part} was {}, and is {}", excerpt(&then, &now), excerpt(&now, &then)))
        };
        let differ = |then: Value, now: Value| (!fits(&then, &now)).then_some((then, now));
        if let Some((then, now)) = differ(value(&self.prompt), value(&other.prompt)) {
            return told("the prompt", then, now);
        }
        if let Some((then, now)) = differ(value(&self.tools), value(&other.tools)) {
            return told("the list of tools", then, now);
        }
        for at in 0..self.messages.len().max(other.messages.len()) {
            let (then, now) = (self.messages.get(at), other.messages.get(at));
            let what = match then.or(now).map(|message| &**message) {
                Some(Message::User { .. }) => "what the user says",
                Some(Message::Assistant { .. }) => "what the model said",
                Some(Message::Tools { .. }) | None => "what the tools answered",
            };
            if let Some((then, now)) = differ(value(&then), value(&now)) {
                return told(what, then, now);
            }
        }
        if let Some((then, now)) = differ(value(&self.output), value(&other.output)) {
            return told("the form of the result", then, now);
        }
        if let Some((then, now)) = differ(value(&self.settings), value(&other.settings)) {
            return told("how the model is asked", then, now);
        }
        let Self { number, after, .. } = self;
        let is_next = (number, after) == (&other.number, &other.after);
        (!is_next).then(|| "it goes on from another request".to_owned())
    }
}

/// Whether a value can be what was written down as another.
pub(super) fn fits(then: &Value, now: &Value) -> bool {
    match (then, now) {
        (Value::String(then), Value::String(now)) => fits_text(then, now),
        // A secret that is a number is written as a text.
        (Value::String(then), Value::Number(now)) => then.contains(MASK) && fits_text(then, &now.to_string()),
        (Value::Array(then), Value::Array(now)) => {
            then.len() == now.len() && then.iter().zip(now).all(|(then, now)| fits(then, now))
        }
        (Value::Object(then), Value::Object(now)) => {
            then.len() == now.len() && then.iter().all(|(key, value)| fits_field(key, value, now))
        }
        (then, now) => then == now,
    }
}

fn fits_field(key: &str, value: &Value, now: &Map<String, Value>) -> bool {
    match now.get(key) {
        Some(same) => fits(value, same),
        None => {
            key.contains(MASK) && now.iter().any(|(name, other)| fits_text(key, name) && fits(value, other))
        }
    }
}

/// Each mask stands for one stretch of whatever was there.
fn fits_text(then: &str, now: &str) -> bool {
    let parts: Vec<&str> = then.split(MASK).collect();
    match parts.as_slice() {
        [first, between @ .., last] => {
            let Some(mut rest) = now.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
                return false;
            };
            between.iter().all(|part| match rest.split_once(part) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
        }
        _ => then == now,
    }
}

fn value(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

/// Where one text begins to differ from another, with a little around it.
pub(super) fn excerpt(this: &Value, other: &Value) -> String {
    /// Characters before and after.
    const BEFORE: usize = 24;
    const AFTER: usize = 96;
    let (this, other) = (this.to_string(), other.to_string());
    let same = this.chars().zip(other.chars()).take_while(|(one, two)| one == two).count();
    let from = same.saturating_sub(BEFORE);
    let text: String = this.chars().skip(from).take(BEFORE + AFTER).collect();
    let (before, after) = (
        if from > 0 { "…" } else { "" },
        if this.chars().count() > from + BEFORE + AFTER { "…" } else { "" },
    );
    format!("`{before}{text}{after}`")
}

/// What was asked lately.
#[derive(Debug, Default)]
pub(super) struct Requests {
    asked: usize,
    known: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    number: usize,
    request: ModelRequest,
}

impl Requests {
    /// How a request is written down that comes after those before.
    pub(super) fn record(&mut self, request: &ModelRequest) -> RecordedRequest {
        let number = self.asked;
        self.asked += 1;
        let at = self.known.iter().rposition(|known| continues(&known.request.messages, &request.messages));
        let before = at.map(|at| self.known.remove(at));
        if self.known.len() >= MOST_KNOWN {
            self.known.remove(0);
        }
        self.known.push(Known { number, request: request.clone() });
        let earlier = before.as_ref().map(|known| &known.request);
        let said = earlier.map_or(0, |earlier| earlier.messages.len());
        let differs = |same: &dyn Fn(&ModelRequest) -> bool| earlier.is_none_or(|earlier| !same(earlier));
        RecordedRequest {
            number,
            after: before.as_ref().map(|known| known.number),
            prompt: differs(&|it| Arc::ptr_eq(&it.prompt, &request.prompt) || it.prompt == request.prompt)
                .then(|| Arc::clone(&request.prompt)),
            tools: differs(&|it| Arc::ptr_eq(&it.tools, &request.tools) || it.tools == request.tools)
                .then(|| request.tools.iter().map(tool).collect()),
            output: differs(&|it| it.output == request.output)
                .then(|| request.output.as_deref().map(output))
                .flatten(),
            settings: differs(&|it| it.settings == request.settings)
                .then(|| Settings::clone(&request.settings)),
            // Without going through those that were there.
            messages: request.messages.clone().split_off(said).into_iter().collect(),
        }
    }
}

/// Whether one list of messages is the other with more at its end. Messages are shared, so it is enough to look at the last.
fn continues(earlier: &Vector<Arc<Message>>, later: &Vector<Arc<Message>>) -> bool {
    match (earlier.last(), earlier.len().checked_sub(1).and_then(|at| later.get(at))) {
        (Some(last), Some(same)) => Arc::ptr_eq(last, same),
        (Some(_) | None, _) => false,
    }
}

fn tool(spec: &ToolSpec) -> Value {
    let ToolSpec { name, description, parameters, examples } = spec;
    serde_json::json!({ "name": name, "description": description, "parameters": parameters, "examples": examples })
}

fn output(spec: &OutputSpec) -> Value {
    serde_json::json!({ "name": spec.name, "schema": spec.schema })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mask_stands_for_what_was_there_and_for_nothing_else() {
        for (then, now, same) in [
            ("a", "a", true),
            ("a", "b", false),
            ("***", "anything", true),
            ("a *** b", "a hunter22 b", true),
            ("a *** b", "a hunter22 c", false),
            ("a *** b *** c", "a 1 b 2 c", true),
            ("a *** b *** c", "a 1 x 2 c", false),
            ("******", "", true),
            ("a***a", "a", false),
            ("**", "hunter22", false),
        ] {
            assert_eq!(fits_text(then, now), same, "{then} and {now}");
        }
        let then = json!({ "text": "it is ***", "more": ["***", 1], "***": true });
        for (now, same) in [
            (json!({ "text": "it is 1", "more": [12345678, 1], "k": true }), true),
            (json!({ "text": "it was 1", "more": [12345678, 1], "k": true }), false),
            (json!({ "text": "it is 1", "more": [12345678, 2], "k": true }), false),
            (json!({ "text": "it is 1", "more": [12345678, 1], "k": false }), false),
            (json!({ "text": "it is 1", "more": [12345678, 1] }), false),
        ] {
            assert_eq!(fits(&then, &now), same, "{now}");
        }
    }
}
