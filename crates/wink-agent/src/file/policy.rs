//! Policies as they are written: each table is one policy, and its one key says which kind.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{At, Json, Named, Time};

/// A rule that calls are held to. One key says which.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct PolicyTable {
    /// Tools that come before others: `{ deploy = ["test", "build"] }`.
    pub(crate) sequential: Option<At<Named<At<Vec<At<String>>>>>>,
    /// A file is read before it is changed. `{}` knows the file tools; others are named here.
    pub(crate) read_before_write: Option<At<ReadBeforeWriteTable>>,
    /// Only so many calls in one session.
    pub(crate) quota: Option<At<QuotaTable>>,
    /// Only so many calls in a stretch of time.
    pub(crate) rate_limit: Option<At<RateLimitTable>>,
    /// Which paths tools may name.
    pub(crate) paths: Option<At<PathsTable>>,
    /// Somebody is asked first.
    pub(crate) approval: Option<At<ApprovalTable>>,
    /// Allows what all of these allow.
    pub(crate) all_of: Option<At<Vec<At<PolicyTable>>>>,
    /// Allows what one of these allows.
    pub(crate) any_of: Option<At<Vec<At<PolicyTable>>>>,
    /// Allows what this denies, and the other way round.
    pub(crate) not: Option<At<Box<NotTable>>>,
}

/// Which tools read and write which files, beside the file tools.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ReadBeforeWriteTable {
    /// Tools that read the file which this parameter names.
    #[serde(default)]
    pub(crate) reads: Named<At<String>>,
    /// Tools that change the file which this parameter names.
    #[serde(default)]
    pub(crate) writes: Named<At<String>>,
}

/// How many calls may succeed in a session.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, extend("minProperties" = 1))]
pub(crate) struct QuotaTable {
    /// Of each of these tools.
    #[serde(default)]
    pub(crate) tools: Named<At<u32>>,
    /// Of all tools together.
    pub(crate) session: Option<At<u32>>,
}

/// How many calls may succeed in any stretch of time.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RateLimitTable {
    /// How many.
    #[schemars(required)]
    pub(crate) max: Option<At<u32>>,
    /// In any stretch of this length.
    #[schemars(required)]
    pub(crate) window: Option<At<Time>>,
    /// Whether each tool is counted by itself: so unless told.
    pub(crate) per: Option<At<RateScope>>,
    /// Only these tools are covered and counted; all of them unless told.
    pub(crate) tools: Option<At<Vec<At<String>>>>,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RateScope {
    /// Each tool by itself.
    Tool,
    /// All tools together.
    All,
}

/// Which paths tools may name. A denying rule wins; where there is an allowing one, what none of them matches is denied.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct PathsTable {
    /// Globs of what is allowed.
    #[serde(default)]
    pub(crate) allow: Vec<At<String>>,
    /// Globs of what is denied.
    #[serde(default)]
    pub(crate) deny: Vec<At<String>>,
    /// Which parameters of a tool are paths; those named `path` are, unless told.
    #[serde(default)]
    pub(crate) tools: Named<At<Vec<At<String>>>>,
    /// Tools that reach everything below the path in this parameter.
    #[serde(default)]
    pub(crate) trees: Named<At<String>>,
    /// Parameters that are paths in every tool that has them, beside `path`.
    #[serde(default)]
    pub(crate) parameters: Vec<At<String>>,
    /// Whether only the tools that are named here are covered.
    pub(crate) only_named_tools: Option<At<bool>>,
    /// Paths that the rules must allow, or the file is refused.
    #[serde(default)]
    pub(crate) example_allowed: Vec<At<String>>,
    /// Paths that the rules must deny, or the file is refused.
    #[serde(default)]
    pub(crate) example_denied: Vec<At<String>>,
}

/// Somebody is asked before a call.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ApprovalTable {
    /// Of these tools; of all of them unless told.
    pub(crate) tools: Option<At<Vec<At<String>>>>,
    /// Only when each of these parameters has one of these values.
    #[serde(default)]
    pub(crate) when: Named<At<Vec<Json>>>,
}

/// The opposite of a policy.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct NotTable {
    /// The policy.
    #[schemars(required)]
    pub(crate) policy: Option<At<PolicyTable>>,
    /// What the model is told when the policy allows.
    pub(crate) because: Option<At<String>>,
}
