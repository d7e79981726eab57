//! Answers in the wire formats.

mod anthropic;
mod chat;
mod responses;

pub(crate) use anthropic::SIGNATURE;
pub(crate) use responses::ENCRYPTED;
use serde_json::Value;

use crate::Api;
use crate::script::Reply;

/// An event of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    name: Option<String>,
    data: String,
}

impl Event {
    /// An event whose name is also the type in its data.
    fn typed(data: &Value) -> Self {
        let name = data.get("type").and_then(Value::as_str).map(str::to_owned);
        Self { name, data: data.to_string() }
    }

    fn plain(data: impl ToString) -> Self {
        Self { name: None, data: data.to_string() }
    }

    /// As it is sent.
    pub(crate) fn text(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("event: {name}\n")).unwrap_or_default();
        format!("{name}data: {}\n\n", self.data)
    }
}

/// An answer as a whole.
pub(crate) fn whole(api: Api, number: usize, reply: &Reply, asked: &Value) -> Value {
    match api {
        Api::Anthropic => anthropic::whole(number, reply, asked),
        Api::Chat => chat::whole(number, reply, asked),
        Api::Responses => responses::whole(number, reply, asked),
    }
}

/// An answer as events.
pub(crate) fn events(api: Api, number: usize, reply: &Reply, asked: &Value) -> Vec<Event> {
    match api {
        Api::Anthropic => anthropic::events(number, reply, asked),
        Api::Chat => chat::events(number, reply, asked),
        Api::Responses => responses::events(number, reply, asked),
    }
}

/// In the middle of a stream: the provider cannot go on.
pub(crate) fn failure(api: Api) -> Event {
    match api {
        Api::Anthropic => Event::typed(&api.error("overloaded_error", None, "Overloaded")),
        Api::Chat => Event::plain(api.error("server_error", None, "The engine is overloaded")),
        Api::Responses => Event::typed(&serde_json::json!({
            "type": "error", "code": "server_error", "message": "The engine is overloaded", "param": null, "sequence_number": 99,
        })),
    }
}

/// Text as it arrives: a few letters at a time.
fn pieces(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(6).map(|chunk| chunk.iter().collect()).collect()
}

fn model(asked: &Value) -> &Value {
    asked.get("model").unwrap_or(&Value::Null)
}
