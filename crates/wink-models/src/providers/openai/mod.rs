//! OpenAI's two APIs, and the many servers that speak the older one.

mod chat;
mod responses;

pub use chat::{Chat, LengthField, ToolMode};
pub use responses::{Reasoning, Responses};

/// Where OpenAI itself is.
pub const BASE_URL: &str = "https://api.openai.com/v1";

/// The header that has the key.
const KEY_HEADER: (&str, &str) = ("authorization", "Bearer ");

/// What a model wrote as arguments. A call without any is written as nothing at all by some servers.
fn arguments(text: &str) -> std::sync::Arc<str> {
    if text.trim().is_empty() { "{}".into() } else { text.into() }
}

/// An id for a call that came without one. It has to be told apart from all others of the conversation.
fn made_up_id() -> std::sync::Arc<str> {
    format!("call_{}", uuid::Uuid::new_v4().simple()).into()
}
