//! What the tests of providers share: a conversation, and every provider in front of a fake.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test takes what it needs")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use wink::limits::CancelToken;
use wink_fake::{Fake, Script};
use wink_models::providers::{Endpoint, Provider, Streaming, anthropic, openai};
use wink_models::{
    Called, Message, Model, ModelError, ModelRequest, ModelResponse, OutputSpec, Piece, Stream, ToolAnswer,
    ToolSpec,
};

/// A key that no output may have.
pub const KEY: &str = "sk-planted-0123456789abcdef";

/// Every way to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Anthropic,
    Chat,
    Constrained,
    Responses,
}

pub const WAYS: [(Way, Streaming); 8] = [
    (Way::Anthropic, Streaming::On),
    (Way::Anthropic, Streaming::Off),
    (Way::Chat, Streaming::On),
    (Way::Chat, Streaming::Off),
    (Way::Constrained, Streaming::On),
    (Way::Constrained, Streaming::Off),
    (Way::Responses, Streaming::On),
    (Way::Responses, Streaming::Off),
];

impl Way {
    pub fn endpoint(self, fake: &Fake) -> Endpoint {
        let path = if self == Way::Anthropic { "" } else { "/v1" };
        Endpoint::new(format!("{}{path}", fake.url())).key(KEY.to_owned())
    }

    pub fn at(self, endpoint: Endpoint) -> Provider {
        let made = match self {
            Way::Anthropic => anthropic::Messages::new("a-model").at(endpoint),
            Way::Chat => openai::Chat::new("a-model").at(endpoint),
            Way::Constrained => {
                openai::Chat::new("a-model").tools(openai::ToolMode::Constrained).at(endpoint)
            }
            Way::Responses => {
                openai::Responses::new("a-model").reasoning(openai::Reasoning::Kept).at(endpoint)
            }
        };
        made.unwrap()
    }

    /// A provider in front of a fake that says these lines.
    pub async fn saying(self, streaming: Streaming, lines: &str) -> (Fake, Provider) {
        let fake = Fake::start(Script::parse(lines).unwrap()).await.unwrap();
        let provider = self.at(self.endpoint(&fake).streaming(streaming));
        (fake, provider)
    }
}

pub async fn ask(provider: &Provider, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
    provider.respond(request, &(), &CancelToken::new()).await
}

/// What was told while a model answered.
#[derive(Default)]
pub struct Told(Mutex<Vec<(&'static str, String)>>);

impl Stream for Told {
    fn piece(&self, piece: Piece<'_>) {
        let (kind, text) = match piece {
            Piece::Text(text) => ("text", text),
            Piece::Thinking(text) => ("thinking", text),
            Piece::Call { name } => ("call", name),
        };
        self.0.lock().unwrap().push((kind, text.to_owned()));
    }
}

impl Told {
    /// How many pieces of one kind there were.
    pub fn pieces(&self, kind: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(told, _)| *told == kind).count()
    }

    /// All pieces of one kind.
    pub fn all(&self, kind: &str) -> String {
        self.0
            .lock()
            .unwrap()
            .iter()
            .filter(|(told, _)| *told == kind)
            .map(|(_, text)| text.as_str())
            .collect()
    }
}

pub fn tool(name: &str, parameters: Value) -> ToolSpec {
    let description = format!("Does {name}.").into();
    ToolSpec { name: name.into(), description, parameters: Arc::new(parameters), examples: Arc::new([]) }
}

/// A tool with a parameter that may be left out, and one that can be sent only as it is.
pub fn tools() -> Arc<[ToolSpec]> {
    let read = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "minLength": 1 },
            "limit": { "type": "integer", "minimum": 1, "default": 10 },
        },
        "required": ["path"],
        "additionalProperties": false,
    });
    let open = json!({ "type": "object", "properties": {}, "additionalProperties": { "type": "string" } });
    let read = ToolSpec { examples: Arc::new([json!({ "path": "a.txt" })]), ..tool("read", read) };
    Arc::new([read, tool("tag", open)])
}

pub fn output() -> Arc<OutputSpec> {
    let schema = json!({
        "type": "object",
        "properties": { "answer": { "type": "integer" }, "note": { "type": "string" } },
        "required": ["answer"],
        "additionalProperties": false,
    });
    Arc::new(OutputSpec { name: "Answer".into(), schema: Arc::new(schema) })
}

pub fn request(messages: impl IntoIterator<Item = Message>) -> ModelRequest {
    ModelRequest {
        prompt: "Be brief.".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: tools(),
        output: None,
        settings: Arc::default(),
    }
}

pub fn user(text: &str) -> Message {
    Message::User { text: text.into() }
}

pub fn called(id: &str, name: &str, arguments: &str) -> Called {
    Called { id: id.into(), name: name.into(), arguments: arguments.into() }
}

pub fn answer(id: &str, name: &str, text: &str, success: bool) -> ToolAnswer {
    ToolAnswer { id: id.into(), name: name.into(), text: text.into(), success }
}

/// The response, as what was said.
pub fn said(response: ModelResponse) -> Message {
    Message::Assistant { text: response.text, calls: response.calls, provider: response.provider }
}
