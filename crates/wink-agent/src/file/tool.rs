//! Command tools as they are written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{At, Json, Named, Placed, Time, TimeOrForever, Variables};

/// A command as a tool. It gets its arguments as JSON on its standard input and as `WINK_ARG_NAME` variables, never through
/// a shell. Exit code 0 is success, with its standard output as the message; anything else is a failure, and what it did to
/// the workspace is undone.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ToolTable {
    /// Its name: small letters, digits, `_` and `-`.
    #[schemars(required)]
    pub(crate) name: Option<At<String>>,
    /// What it does, for the model, in at most 200 characters.
    #[schemars(required)]
    pub(crate) description: Option<At<String>>,
    /// The program and its fixed arguments. A relative path with a slash in it is in the workspace; a plain name is looked
    /// for on the `PATH`.
    #[schemars(required, length(min = 1))]
    pub(crate) command: Option<At<Vec<At<String>>>>,
    /// The JSON Schema of its arguments; none unless told.
    #[schemars(with = "Option<Named<Json>>")]
    pub(crate) params: Option<At<Placed>>,
    /// The directory below the workspace that it runs in.
    pub(crate) cwd: Option<At<String>>,
    /// Variables of its environment, beside the caller's: their values, or a list of names, `NAME` for the caller's own value and
    /// `NAME=VALUE` for another. Keys of models, and in a sandbox everything, are passed only if they are named here.
    #[serde(default)]
    pub(crate) env: Variables,
    /// How long it may take.
    pub(crate) timeout: Option<At<Time>>,
    /// How many characters of each of its outputs are kept: 32768 unless told.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) output: Option<At<u32>>,
    /// How it gets its arguments: both ways unless told.
    pub(crate) arguments: Option<At<Arguments>>,
    /// Whether it is confined to the workspace, without network.
    pub(crate) sandbox: Option<At<bool>>,
    /// What it is kept apart from, where several sessions or processes write one workspace.
    pub(crate) isolation: Option<At<IsolationName>>,
    /// How its effect is kept from happening twice.
    pub(crate) idempotency: Option<At<IdempotencyTable>>,
    /// What it says of its effect outside when it exits with anything but 0. Unless told, `in_doubt` for a tool with a key that
    /// reaches outside (`open_world`), and `no_effect` for any other.
    pub(crate) on_failure: Option<At<OnFailure>>,
    /// What it is like.
    pub(crate) annotations: Option<At<AnnotationsTable>>,
    /// Parameters that are masked in log and diagnostics, by dotted path.
    #[serde(default)]
    pub(crate) sensitive: Vec<At<String>>,
    /// Representative calls, for the model.
    #[serde(default)]
    pub(crate) example: Vec<At<ExampleTable>>,
    /// Whether its description may be replaced by an override: so unless told.
    pub(crate) accepts_overrides: Option<At<bool>>,
}

/// How a command gets its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Arguments {
    /// As JSON on its standard input, and as variables of its environment.
    Both,
    /// As JSON on its standard input alone: for arguments that are too large for an environment.
    Stdin,
}

/// What a command that fails says of its effect outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnFailure {
    /// It did not happen: the next call with the key runs.
    NoEffect,
    /// It may have happened: the key is in doubt.
    InDoubt,
}

/// What a tool is kept apart from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IsolationName {
    /// The first to commit wins: a path that it wrote and that another session changed since it began is a conflict, and it
    /// is undone. So unless told.
    FirstCommitter,
    /// It holds the workspace's write turn while it runs, so it never meets a conflict; other sessions wait to commit.
    Serial,
}

/// How an effect is kept from happening twice.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct IdempotencyTable {
    /// How the key is made.
    #[schemars(required)]
    pub(crate) strategy: Option<At<StrategyName>>,
    /// For `params`: the parameters that count.
    pub(crate) fields: Option<At<Vec<At<String>>>>,
    /// For `custom`: the key, with `${name}` for parameters. A hash of these is added, so that others have another key.
    pub(crate) key: Option<At<String>>,
    /// How long a recorded effect counts: `24h` unless told; or `forever`.
    pub(crate) ttl: Option<At<TimeOrForever>>,
    /// Where the key counts.
    pub(crate) scope: Option<At<ScopeName>>,
    /// For the scope `named`: its name.
    pub(crate) scope_name: Option<At<String>>,
    /// What to do when it cannot be known whether an earlier try had its effect.
    pub(crate) when_in_doubt: Option<At<DoubtName>>,
    /// For `probe`: the command that finds out. It gets the arguments as the tool does, and the key as
    /// `WINK_IDEMPOTENCY_KEY`. Exit code 0: it happened, with this output; 1: it did not; anything else: not known yet.
    #[schemars(length(min = 1))]
    pub(crate) probe: Option<At<Vec<At<String>>>>,
}

/// How a key is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StrategyName {
    /// From all parameters.
    Auto,
    /// From the parameters in `fields`.
    Params,
    /// As `key` says.
    Custom,
    /// Not at all: it always runs.
    None,
}

/// Where a key counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScopeName {
    /// In its session.
    Session,
    /// In the whole workspace.
    Global,
    /// Wherever `scope_name` is used.
    Named,
}

/// What to do when in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DoubtName {
    /// Fail, with the reason.
    Fail,
    /// Run it again.
    RunAgain,
    /// Ask somebody.
    Ask,
    /// Run the command in `probe`.
    Probe,
}

/// What a tool is like: hints for clients. `open_world` also decides what a call that was stopped, or failed, leaves in the ledger.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AnnotationsTable {
    /// It changes nothing.
    pub(crate) read_only: Option<At<bool>>,
    /// What it changes cannot be had back.
    pub(crate) destructive: Option<At<bool>>,
    /// Doing it twice is like doing it once.
    pub(crate) idempotent: Option<At<bool>>,
    /// It reaches beyond the workspace. Unless told, so does every command that is not confined (`sandbox`).
    pub(crate) open_world: Option<At<bool>>,
}

/// A representative call.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ExampleTable {
    /// What it shows, in at most 200 characters.
    #[schemars(required)]
    pub(crate) description: Option<At<String>>,
    /// The arguments; none unless told.
    pub(crate) input: Option<At<Named<Json>>>,
    /// What the command prints.
    #[schemars(required)]
    pub(crate) output: Option<At<String>>,
}
