//! Who answers: what an agent file says of its model. A name and settings; nothing here knows a provider, and nothing holds a key.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

/// The model of an agent, and how it is asked. What is none is left to whoever asks.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Whose wire format it is.
    pub provider: ModelProvider,
    /// What the provider calls it.
    pub model: String,
    /// The base URL.
    pub url: Option<String>,
    /// The name of the environment variable that has the key.
    pub key_env: Option<String>,
    /// Whether its calls are held to a schema, since it was not made for tools.
    pub constrained: bool,
    /// Whether answers come piece by piece.
    pub streaming: Option<bool>,
    /// For how long nothing may arrive.
    pub timeout: Option<Duration>,
    /// How long one response may be.
    pub max_output_tokens: Option<u32>,
    /// How much chance there is in the choice of words.
    pub temperature: Option<f64>,
    /// Further fields of the provider's request.
    pub extra: Map<String, Value>,
    /// How many responses a run may have.
    pub max_turns: Option<u32>,
    /// Tools of the program `claude` itself that it may use, as it calls them
    /// ([`Agent::with_native_tools`](crate::Agent::with_native_tools)).
    pub native_tools: Vec<&'static str>,
    /// How failed requests are sent again.
    pub retry: RetryConfig,
}

/// The environment variables that usually have keys of models, whoever's.
pub const USUAL_KEY_ENVS: [&str; 4] =
    ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY"];

/// How failed requests are sent again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetryConfig {
    /// How often a request is sent at most.
    pub attempts: Option<u32>,
    /// How long the first wait is at most.
    pub delay: Option<Duration>,
    /// How long any wait is at most.
    pub max_delay: Option<Duration>,
    /// For how long a request is sent again.
    pub window: Option<Duration>,
}

/// Whose wire format a model speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelProvider {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Responses.
    OpenAi,
    /// OpenAI's Chat Completions, which many others speak.
    OpenAiChat,
    /// The program `claude`.
    Claude,
}

impl ModelProvider {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::OpenAi, Self::OpenAiChat, Self::Claude];

    /// As files and command lines call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiChat => "openai-chat",
            Self::Claude => "claude",
        }
    }

    /// The environment variable that usually has its key.
    pub fn usual_key_env(self) -> &'static str {
        match self {
            Self::Anthropic | Self::Claude => "ANTHROPIC_API_KEY",
            Self::OpenAi | Self::OpenAiChat => "OPENAI_API_KEY",
        }
    }
}

impl fmt::Display for ModelProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether this can be the name of an environment variable; a key cannot.
pub(crate) fn is_variable(name: &str) -> bool {
    let starts = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    starts && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
