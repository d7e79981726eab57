//! What was said so far, in words of no provider.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wink::executor::Outcome;

/// One message of a conversation, after the prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "role")]
pub enum Message {
    /// What the user, or the loop in their place, says.
    User {
        /// The text.
        text: Arc<str>,
    },
    /// What the model said.
    Assistant {
        /// Its text; empty when it only called tools.
        text: Arc<str>,
        /// The tools that it called, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Called>,
        /// What the provider wants back as it was (signed thinking, item ids); nobody else looks into it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Arc<Value>>,
    },
    /// What the tools answered: one for each call of the message before, in the order of the calls.
    Tools {
        /// The answers.
        answers: Vec<ToolAnswer>,
    },
}

/// A call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Called {
    /// The provider's id of it.
    pub id: Arc<str>,
    /// The tool.
    pub name: Arc<str>,
    /// The arguments, byte for byte: they are parsed by the executor and by nobody else.
    pub arguments: Arc<str>,
}

/// What the model is shown of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolAnswer {
    /// The call's id.
    pub id: Arc<str>,
    /// The tool.
    pub name: Arc<str>,
    /// The rendered answer.
    pub text: Arc<str>,
    /// Whether the call succeeded.
    pub success: bool,
}

impl From<&Outcome> for ToolAnswer {
    fn from(outcome: &Outcome) -> Self {
        let answer = &outcome.answer;
        Self {
            id: Arc::clone(&answer.call_id),
            name: Arc::clone(&answer.tool),
            text: Arc::clone(&answer.text),
            success: answer.success,
        }
    }
}
