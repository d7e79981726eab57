//! Takes known secrets out of what is written down.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;
use wink::executor::Withhold;
use wink::prompt::Prompt;
use wink::tool::AnyTool;
use wink::tool::secret::{MASK, Secret};

use super::forms;
use crate::message::{Called, Message};
use crate::model::ModelResponse;

/// The shortest secret that can be told from ordinary text.
const SHORTEST: usize = 6;

/// Knows secrets, and replaces them wherever they occur in texts, keys and numbers: as they are, inside of JSON, and in base64, as hex
/// digits or percent-encoded.
#[derive(Clone, Default)]
pub struct Scrubber {
    forms: Vec<Secret<String>>,
    /// Finds them.
    finder: Option<Arc<AhoCorasick>>,
    /// Those with sensitive arguments.
    tools: Vec<AnyTool>,
}

/// A secret is too short to be found: replacing it would replace half of what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret of fewer than {SHORTEST} characters cannot be kept out of what is written")]
pub struct TooShort;

impl Scrubber {
    /// A scrubber that knows no secrets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Knows one more.
    ///
    /// # Errors
    /// When it is too short.
    pub fn knowing(mut self, secret: &Secret<String>) -> Result<Self, TooShort> {
        let secret = secret.expose().trim();
        if secret.chars().count() < SHORTEST {
            return Err(TooShort);
        }
        for form in forms::of(secret) {
            if !self.forms.iter().any(|known| *known.expose() == form) {
                self.forms.push(Secret::new(form));
            }
        }
        Ok(self.found())
    }

    /// Knows what another does, too.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        let news =
            other.forms.iter().filter(|form| !self.forms.iter().any(|known| known.expose() == form.expose()));
        let news: Vec<_> = news.cloned().collect();
        self.forms.extend(news);
        self.tools.extend(other.tools.iter().cloned());
        self.found()
    }

    fn found(mut self) -> Self {
        // The longest counts: a secret may be part of another's form.
        let mut builder = AhoCorasick::builder();
        let finder = builder.match_kind(MatchKind::LeftmostLongest);
        self.finder = finder.build(self.forms.iter().map(|form| form.expose())).ok().map(Arc::new);
        self
    }

    /// Knows which arguments of a prompt's tools are sensitive. They are left out of calls, and wherever else they occur after
    /// they were seen in one. A run with such calls cannot be repeated: what it was called with is gone.
    #[must_use]
    pub fn masking(mut self, prompt: &Prompt) -> Self {
        let tools = prompt.possible_tools().map(|placed| placed.tool.clone());
        self.tools.extend(tools.filter(|tool| tool.contract().has_sensitive()));
        self
    }

    /// Learns what is sensitive in the calls of a response.
    pub(super) fn learn(&mut self, calls: &[Called]) {
        for call in calls {
            let masked = self.masked(call);
            let (Ok(whole), Ok(masked)) =
                (serde_json::from_str::<Value>(&call.arguments), serde_json::from_str::<Value>(&masked))
            else {
                continue;
            };
            for secret in missing(&whole, &masked) {
                // One that is too short is left out of calls all the same.
                if let Ok(more) = self.clone().knowing(&Secret::new(secret)) {
                    *self = more;
                }
            }
        }
    }

    /// The arguments of a call, without what is sensitive.
    fn masked(&self, call: &Called) -> Arc<str> {
        let tool = self.tools.iter().find(|tool| *tool.name() == call.name);
        tool.map_or_else(|| Arc::clone(&call.arguments), |tool| tool.contract().masked(&call.arguments))
    }

    fn calls(&self, calls: &mut [Called]) -> bool {
        let mut left_out = false;
        for call in calls {
            let masked = self.masked(call);
            left_out |= masked != call.arguments;
            call.arguments = masked;
        }
        left_out
    }

    /// A response without the sensitive arguments of its calls.
    pub(super) fn response(&self, response: &ModelResponse) -> ModelResponse {
        let mut response = response.clone();
        if self.calls(&mut response.calls) {
            // The provider's own form of the calls may be in it.
            response.provider = None;
        }
        response
    }

    /// A message without the sensitive arguments of its calls.
    pub(super) fn message(&self, message: &Arc<Message>) -> Arc<Message> {
        let Message::Assistant { text, calls, provider } = &**message else { return Arc::clone(message) };
        let (mut calls, mut provider) = (calls.clone(), provider.clone());
        if !self.calls(&mut calls) {
            return Arc::clone(message);
        }
        provider.take();
        Arc::new(Message::Assistant { text: Arc::clone(text), calls, provider })
    }

    /// Whether it knows none.
    pub(crate) fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// What the program `claude` says without the sensitive arguments of calls, wherever it has them.
    #[cfg(all(feature = "claude", unix))]
    pub(super) fn spoken(&mut self, said: Value) -> Value {
        match said {
            Value::Array(items) => items.into_iter().map(|item| self.spoken(item)).collect(),
            Value::Object(mut fields) => {
                let name = ["name", "tool_name"].into_iter().find_map(|key| fields.get(key)?.as_str());
                let name: Option<Arc<str>> = name.map(|name| crate::claude::known_name(name).into());
                for key in ["input", "arguments", "tool_input"] {
                    if let (Some(name), Some(input)) = (&name, fields.get_mut(key)) {
                        let (id, name, arguments) = (Arc::default(), Arc::clone(name), input.to_string());
                        let call = Called { id, name, arguments: arguments.into() };
                        self.learn(std::slice::from_ref(&call));
                        if let Ok(masked) = serde_json::from_str(&self.masked(&call)) {
                            *input = masked;
                        }
                    }
                }
                fields.into_iter().map(|(key, value)| (key, self.spoken(value))).collect()
            }
            other => other,
        }
    }

    /// A text without the secrets.
    pub fn text(&self, text: &str) -> String {
        if self.forms.is_empty() {
            return text.to_owned();
        }
        // More secrets than can be looked for: then nothing is said.
        let Some(finder) = &self.finder else { return MASK.to_owned() };
        let mut left = String::with_capacity(text.len());
        let mut upto = 0;
        for found in finder.find_iter(text) {
            left.push_str(text.get(upto..found.start()).unwrap_or_default());
            left.push_str(MASK);
            upto = found.end();
        }
        left.push_str(text.get(upto..).unwrap_or_default());
        left
    }

    /// How many bytes at the end of a text may be the beginning of a secret.
    #[cfg(feature = "http")]
    pub(crate) fn begun(&self, text: &str) -> usize {
        let of = |form: &Secret<String>| {
            let starts = form.expose().char_indices().map(|(at, _)| at).skip(1);
            starts.filter(|at| form.expose().get(..*at).is_some_and(|start| text.ends_with(start))).max()
        };
        self.forms.iter().filter_map(of).max().unwrap_or(0)
    }

    /// What a model said, without the secrets, wherever in it they are.
    #[cfg(any(feature = "http", all(feature = "claude", unix)))]
    pub(crate) fn said(&self, mut response: ModelResponse) -> ModelResponse {
        if self.forms.is_empty() {
            return response;
        }
        response.text = self.text(&response.text).into();
        for call in &mut response.calls {
            call.id = self.text(&call.id).into();
            call.name = self.text(&call.name).into();
            call.arguments = self.json(&call.arguments).into();
        }
        response.provider = response.provider.map(|own| Arc::new(self.value(Value::clone(&own))));
        response
    }

    /// The text of a JSON value without the secrets, however they are spelled in it.
    fn json(&self, text: &str) -> String {
        let plain = self.text(text);
        let Ok(value) = serde_json::from_str::<Value>(&plain) else { return plain };
        let scrubbed = self.value(value.clone());
        if scrubbed == value { plain } else { scrubbed.to_string() }
    }

    /// A value without the secrets.
    pub fn value(&self, value: Value) -> Value {
        if self.forms.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(key, value)| (self.text(&key), self.value(value))).collect()
            }
            Value::Number(number) => {
                let text = number.to_string();
                let scrubbed = self.text(&text);
                if scrubbed == text { Value::Number(number) } else { Value::String(scrubbed) }
            }
            other => other,
        }
    }
}

impl Withhold for Scrubber {
    fn text(&self, text: &str) -> String {
        self.text(text)
    }

    fn json(&self, text: &str) -> String {
        self.json(text)
    }

    fn value(&self, value: Value) -> Value {
        self.value(value)
    }
}

/// The texts and numbers of one value that another has not in their place.
fn missing(whole: &Value, masked: &Value) -> Vec<String> {
    match (whole, masked) {
        (one, other) if one == other => Vec::new(),
        (Value::Object(fields), Value::Object(others)) => {
            let none = Value::Null;
            let of = |(key, value)| missing(value, others.get(key).unwrap_or(&none));
            fields.iter().flat_map(of).collect()
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            items.iter().zip(others).flat_map(|(one, other)| missing(one, other)).collect()
        }
        (Value::Object(fields), _) => {
            fields.values().flat_map(|value| missing(value, &Value::Null)).collect()
        }
        (Value::Array(items), _) => items.iter().flat_map(|item| missing(item, &Value::Null)).collect(),
        (Value::String(text), _) => vec![text.clone()],
        (Value::Number(number), _) => vec![number.to_string()],
        (Value::Null | Value::Bool(_), _) => Vec::new(),
    }
}

impl std::fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrubber").field("forms", &self.forms.len()).finish()
    }
}
