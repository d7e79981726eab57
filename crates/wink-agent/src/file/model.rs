//! Who answers, as it is written: a model and how it is asked. Never a key.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{At, Json, Named, Time};

/// The model that `wink run` asks, unless it is told another.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ModelTable {
    /// Whose wire format it is.
    #[schemars(required)]
    pub(crate) provider: Option<At<ProviderName>>,
    /// What the provider calls it.
    #[schemars(required)]
    pub(crate) model: Option<At<String>>,
    /// The base URL, for anybody who speaks the same as the provider: a proxy, or a server of your own.
    pub(crate) url: Option<At<String>>,
    /// The name of the environment variable that has the key: the provider's usual one unless told, and none with a `url`.
    pub(crate) key_env: Option<At<String>>,
    /// How it calls tools: `native` unless told.
    pub(crate) tools: Option<At<ToolModeName>>,
    /// Whether answers come piece by piece: so unless told.
    pub(crate) streaming: Option<At<bool>>,
    /// For how long nothing may arrive: ten minutes unless told.
    pub(crate) timeout: Option<At<Time>>,
    /// How long one response may be, in tokens.
    #[schemars(range(min = 1))]
    pub(crate) max_output_tokens: Option<At<u32>>,
    /// How much chance there is in the choice of words.
    pub(crate) temperature: Option<At<f64>>,
    /// Further fields of the provider's request, taken as they are.
    pub(crate) extra: Option<At<Named<Json>>>,
    /// How many responses a run may have: 50 unless told.
    #[schemars(range(min = 1))]
    pub(crate) max_turns: Option<At<u32>>,
    /// How failed requests are sent again.
    pub(crate) retry: Option<At<RetryTable>>,
    /// Tools of the program `claude` itself that it may use, as it calls them; with `provider = "claude"`. Policies and the log
    /// have `Edit` as `claude_edit`. What one changes in the workspace is undone when it fails.
    pub(crate) native_tools: Option<At<Vec<At<NativeName>>>>,
}

/// A tool that the program `claude` has itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) enum NativeName {
    /// Reads a file.
    Read,
    /// Finds files by name.
    Glob,
    /// Searches files.
    Grep,
    /// Replaces text in a file.
    Edit,
    /// Writes a file.
    Write,
    /// Changes a cell of a notebook.
    NotebookEdit,
    /// Runs a command, outside of any sandbox.
    Bash,
    /// Gets a page of the web.
    WebFetch,
    /// Searches the web.
    WebSearch,
    /// Starts a sub-agent.
    Agent,
}

impl NativeName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Glob => "Glob",
            Self::Grep => "Grep",
            Self::Edit => "Edit",
            Self::Write => "Write",
            Self::NotebookEdit => "NotebookEdit",
            Self::Bash => "Bash",
            Self::WebFetch => "WebFetch",
            Self::WebSearch => "WebSearch",
            Self::Agent => "Agent",
        }
    }
}

/// Whose wire format it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProviderName {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Responses.
    Openai,
    /// OpenAI's Chat Completions, as LiteLLM, llama.cpp, vLLM, Ollama and others speak it.
    OpenaiChat,
    /// The program `claude` (Claude Code).
    Claude,
}

/// How a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolModeName {
    /// As the provider has it.
    Native,
    /// By output that is held to a schema, for models that were not made for tools; with `openai-chat`.
    Constrained,
}

/// How failed requests are sent again. What is not set has its default.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RetryTable {
    /// How often a request is sent at most: 5 times unless told.
    #[schemars(range(min = 1))]
    pub(crate) attempts: Option<At<u32>>,
    /// How long the first wait is at most: 500ms unless told. Every further one may be twice as long.
    pub(crate) delay: Option<At<Time>>,
    /// How long any wait is at most, unless the provider asks for more: 30s unless told.
    pub(crate) max_delay: Option<At<Time>>,
    /// For how long a request is sent again: 5m unless told.
    pub(crate) window: Option<At<Time>>,
}
