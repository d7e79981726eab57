//! A provider that is none: a server on loopback that speaks the wire formats of Anthropic's Messages and of OpenAI's Chat
//! Completions and Responses, as a whole and as events, by a script.
//!
//! It checks what it is sent as the real ones do, and refuses with their words: every call answered, roles in order, schemas
//! within the strict dialects. It shares no code with the providers that it tests, so that a mistake is not made twice. It is a
//! part of tests: no limits, no encryption, any key.

mod check;
mod script;
mod server;
mod speak;

pub use check::{anthropic_strict, openai_strict};
pub use script::{Call, Fault, Reply, Script, Stop, Turn, Usage};
pub use server::{Fake, Seen};

use serde_json::{Value, json};

/// Which wire format is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    Anthropic,
    Chat,
    Responses,
}

impl Api {
    fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/messages" => Some(Self::Anthropic),
            "/v1/chat/completions" => Some(Self::Chat),
            "/v1/responses" => Some(Self::Responses),
            _ => None,
        }
    }

    /// An error, as this API tells it.
    fn error(self, kind: &str, code: Option<&str>, message: &str) -> Value {
        match self {
            Self::Anthropic => {
                json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_fake" })
            }
            Self::Chat | Self::Responses => {
                json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
            }
        }
    }
}
