//! The agent file as it is written: one set of types, from which come both the schema that editors are given and what the
//! text is read into.
//!
//! Whether a text fits these types is found out by a walk along their schema (`read`), which reports everything at once; what
//! does not fit is left out before anything is decoded. So nothing here is mandatory for serde, and what is mandatory for
//! people is marked in the schema.

mod answer;
mod at;
mod model;
mod placed;
mod policy;
mod tool;
mod units;

use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use answer::{CompletionTable, OutputTable, StepTable, TaskTable};
pub(crate) use at::{At, Json, Named, Variables};
pub(crate) use model::{ModelTable, NativeName, ProviderName, RetryTable, ToolModeName};
pub(crate) use placed::Placed;
pub(crate) use policy::{
    ApprovalTable, NotTable, PathsTable, PolicyTable, QuotaTable, RateLimitTable, RateScope,
    ReadBeforeWriteTable,
};
pub(crate) use tool::{
    Arguments, DoubtName, ExampleTable, IdempotencyTable, IsolationName, OnFailure, ScopeName, StrategyName,
    ToolTable,
};
pub use units::duration;
pub(crate) use units::{SIZE_HINT, Size, TIME_HINT, Time, TimeOrForever};

/// An agent: what a model is told, which tools it has, and what its calls are held to.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(title = "Wink agent file", deny_unknown_fields)]
pub(crate) struct File {
    /// Who the agent is.
    #[schemars(required)]
    pub(crate) agent: Option<At<AgentTable>>,
    /// The model that `wink run` asks, unless it is told another.
    pub(crate) model: Option<At<ModelTable>>,
    /// What calls are held to.
    pub(crate) limits: Option<At<LimitsTable>>,
    /// The sandbox of the suite `sandbox`, and of commands with `sandbox = true`.
    pub(crate) sandbox: Option<At<SandboxTable>>,
    /// Which guarded paths tools may change, and what else they may not.
    pub(crate) guard: Option<At<GuardTable>>,
    /// What the last answer must be; just text unless told.
    pub(crate) output: Option<At<OutputTable>>,
    /// When the work is done; when the model says so unless told.
    pub(crate) completion: Option<At<CompletionTable>>,
    /// Policies that cover every tool. They are asked after those of the sections.
    #[serde(default)]
    pub(crate) policy: Vec<At<PolicyTable>>,
    /// The parts of the prompt, with their tools.
    #[serde(default)]
    pub(crate) section: Vec<At<SectionTable>>,
}

/// Who the agent is.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AgentTable {
    /// The namespace; may have several parts, with slashes between them.
    #[schemars(required)]
    pub(crate) ns: Option<At<String>>,
    /// The key in the namespace: small letters, digits, `.`, `_` and `-`.
    #[schemars(required)]
    pub(crate) key: Option<At<String>>,
    /// A name for people.
    pub(crate) name: Option<At<String>>,
    /// The tag of the overrides that are in place (`wink override`): `latest` unless told.
    pub(crate) overrides: Option<At<String>>,
}

/// What calls are held to.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct LimitsTable {
    /// How long a session may go on after it was opened.
    pub(crate) deadline: Option<At<Time>>,
    /// How many tokens may be used.
    pub(crate) budget: Option<At<BudgetTable>>,
    /// How long a command may take that says nothing of its own: ten minutes unless told.
    pub(crate) tool_timeout: Option<At<Time>>,
    /// How long a policy may think: five seconds unless told.
    pub(crate) policy_timeout: Option<At<Time>>,
    /// How long a probe of an effect in doubt may take: thirty seconds unless told.
    pub(crate) probe_timeout: Option<At<Time>>,
    /// How much of an answer the model sees: 64 KiB unless told.
    pub(crate) answer: Option<At<Size>>,
    /// How much of each part of a call the log keeps: 8 MiB unless told.
    pub(crate) logged: Option<At<Size>>,
    /// How large the arguments of a call may be: 8 MiB unless told, and never more.
    pub(crate) arguments: Option<At<Size>>,
    /// How deep the arguments of a call may be nested: 128 unless told, and never more.
    #[schemars(range(min = 1, max = 128))]
    pub(crate) arguments_depth: Option<At<u32>>,
    /// How many calls of one turn run at once: 64 unless told.
    #[schemars(range(min = 1))]
    pub(crate) calls_at_once: Option<At<u32>>,
}

/// How many tokens may be used. At least one limit is set.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct BudgetTable {
    /// The most input and output together.
    #[schemars(range(min = 1))]
    pub(crate) max_total_tokens: Option<At<u32>>,
    /// The most input.
    #[schemars(range(min = 1))]
    pub(crate) max_input_tokens: Option<At<u32>>,
    /// The most output.
    #[schemars(range(min = 1))]
    pub(crate) max_output_tokens: Option<At<u32>>,
}

/// What a command in the sandbox may use. What is not set has its default.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SandboxTable {
    /// What the sandbox is made of.
    pub(crate) engine: Option<At<EngineName>>,
    /// For podman: the image whose programs are there.
    pub(crate) image: Option<At<String>>,
    /// A directory with the programs that are there, in place of the machine's own or of an image.
    pub(crate) root: Option<At<String>>,
    /// Memory: 1 GiB unless told.
    pub(crate) memory: Option<At<Size>>,
    /// Processors, parts of one too: 1 unless told.
    pub(crate) cpu: Option<At<f64>>,
    /// Processes and threads at once: 256 unless told.
    pub(crate) processes: Option<At<u32>>,
    /// How long a command of `shell_execute` may take: two minutes unless told.
    pub(crate) time: Option<At<Time>>,
    /// Characters of each output of `shell_execute` that are kept: 32768 unless told.
    pub(crate) output: Option<At<u32>>,
    /// How much fits into `/tmp`: 64 MiB unless told.
    pub(crate) temporary: Option<At<Size>>,
    /// How large a file may become: 4 GiB unless told.
    pub(crate) file: Option<At<Size>>,
    /// Limits that are lifted. A limit that is not, and cannot be enforced on a machine, means that nothing runs there.
    #[serde(default)]
    pub(crate) unlimited: Vec<At<LiftedLimit>>,
}

/// Paths, as patterns from the root of the workspace: `*` does not cross `/`, `**` matches zero or more directories. A pattern stands
/// for what it matches and everything inside.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct GuardTable {
    /// Guarded paths that tools may change: `.vscode/settings.json`, `**/.envrc`, `.git/hooks`.
    #[serde(default)]
    pub(crate) open: Vec<At<String>>,
    /// Paths that tools may not change, beside those that are always guarded: `deploy/**`.
    #[serde(default)]
    pub(crate) add: Vec<At<String>>,
}

/// What a sandbox is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EngineName {
    /// Namespaces of the kernel: needs nothing installed.
    Namespaces,
    /// Podman, with an image or a root directory.
    Podman,
}

/// A limit that can be lifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LiftedLimit {
    /// On memory.
    Memory,
    /// On processors.
    Cpu,
    /// On processes.
    Processes,
    /// On the size of a file.
    File,
    /// Those that this machine cannot enforce, whichever they are.
    Unenforceable,
}

/// A part of the prompt: a text, and the tools and policies that belong to it.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SectionTable {
    /// Its key among its siblings: small letters, digits, `.`, `_` and `-`.
    #[schemars(required)]
    pub(crate) key: Option<At<String>>,
    /// Its heading.
    #[schemars(required)]
    pub(crate) title: Option<At<String>>,
    /// Its text. `${name}` and `$name` stand for its params, `$$` for a dollar sign.
    pub(crate) body: Option<At<String>>,
    /// What is shown while it is closed.
    pub(crate) summary: Option<At<String>>,
    /// How much of it is shown, until the model opens it.
    pub(crate) visibility: Option<At<VisibilityName>>,
    /// What the placeholders of body and summary stand for.
    pub(crate) params: Option<At<Named<Json>>>,
    /// Whether the examples of its tools are shown.
    pub(crate) examples: Option<At<bool>>,
    /// Ready-made sections with their tools: `planning`, `files`, `digest`, `sandbox`, `eval`.
    #[serde(default)]
    pub(crate) suites: Vec<At<SuiteName>>,
    /// Settings of the suite `planning`.
    pub(crate) planning: Option<At<PlanningTable>>,
    /// Settings of the suite `files`.
    pub(crate) files: Option<At<FilesTable>>,
    /// How whole tasks are done, for the model.
    #[serde(default)]
    pub(crate) task: Vec<At<TaskTable>>,
    /// Commands as tools.
    #[serde(default)]
    pub(crate) tool: Vec<At<ToolTable>>,
    /// Policies that cover the tools of this section and of those below it.
    #[serde(default)]
    pub(crate) policy: Vec<At<PolicyTable>>,
    /// Sections below this one.
    #[serde(default)]
    pub(crate) section: Vec<At<SectionTable>>,
}

/// How much of a section is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VisibilityName {
    /// All of it.
    Full,
    /// Its summary, and how to open it. Its tools are there once it is open.
    Summary,
}

/// A ready-made section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SuiteName {
    /// A plan that the model keeps.
    Planning,
    /// The files of the workspace: read, write, edit, delete, list, find.
    Files,
    /// What the workspace looks like, as a closed section.
    Digest,
    /// Programs in a sandbox.
    Sandbox,
    /// Short Python programs that only compute.
    Eval,
}

impl SuiteName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Planning => "planning",
            Self::Files => "files",
            Self::Digest => "digest",
            Self::Sandbox => "sandbox",
            Self::Eval => "eval",
        }
    }
}

/// Settings of the suite `planning`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct PlanningTable {
    /// How the model is told to think.
    pub(crate) strategy: Option<At<PlanningName>>,
}

/// How a model is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PlanningName {
    /// Reason, act, observe, and again.
    React,
    /// Plan everything, act step by step, reflect after each.
    PlanActReflect,
    /// Restate the goal, decompose it, route the parts to tools, put the results together.
    GoalDecomposeRouteSynthesise,
}

/// Settings of the suite `files`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct FilesTable {
    /// Whether a file that is there must be read before it is written, edited or deleted: so unless told.
    pub(crate) read_before_write: Option<At<bool>>,
    /// How much one `read_file` returns: 48 KiB unless told.
    pub(crate) read: Option<At<Size>>,
    /// How many entries `list_directory` and `glob` return: 1000 unless told.
    #[schemars(range(min = 1))]
    pub(crate) entries: Option<At<u32>>,
    /// How many characters of a matching line `grep` returns: 500 unless told.
    #[schemars(range(min = 1))]
    pub(crate) match_characters: Option<At<u32>>,
}
