//! Policies: whether a call may run.
//!
//! A policy looks at a call and at the session through a context that only reads, and answers. It never runs
//! anything. What it wants to remember it writes after a success, inside that call's transaction, under its own
//! stable key. A policy that fails, panics or does not answer in time has denied.

mod approval;
mod combine;
mod context;
mod covered;
mod custom;
mod guard;
mod path;
mod quota;
mod rate_limit;
mod read_before_write;
mod sequential;

use std::borrow::Cow;
use std::sync::Arc;

use crate::BoxFuture;
use crate::resource::BoxError;
use crate::tool::AnyTool;
use crate::tool::erased::Params;
use crate::tool::footprint::Footprint;

pub use approval::ApprovalPolicy;
pub use combine::{AllOf, AnyOf, Not};
pub use context::{PolicyContext, PolicyFilesError, PolicyMemory, ResultView};
pub use custom::{FnPolicy, policy_fn};
pub use path::{PathPolicy, PathPolicyBuilder, PathPolicyError};
pub use quota::QuotaPolicy;
pub use rate_limit::RateLimitPolicy;
pub use read_before_write::ReadBeforeWritePolicy;
pub use sequential::SequentialDependencyPolicy;

pub(crate) use context::PolicyFiles;
pub(crate) use guard::{PolicyPanicked, ask, ask_now, declared_by, tell, try_tell};

/// A policy's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a decision that nobody looks at decides nothing"]
pub enum Decision {
    /// It may run.
    Allow,
    /// It may not; the model is told why.
    Deny(Cow<'static, str>),
    /// Somebody has to say so first.
    Ask(String),
}

impl Decision {
    /// A denial.
    pub fn deny(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Deny(reason.into())
    }
}

/// A call that waits to be allowed.
#[derive(Debug)]
pub struct PolicyCall<'a> {
    /// The tool.
    pub tool: &'a AnyTool,
    /// Its accepted arguments.
    pub params: &'a Params,
}

/// A rule that calls are held to. [`crate::testing::policy_contract`] is the suite for implementations.
pub trait ToolPolicy: Send + Sync + 'static {
    /// What kind of policy this is: part of the key under which its state is kept, so never change it.
    fn kind(&self) -> &'static str;

    /// Whether this policy has a say in the call at all. It is neither asked nor told of a call that it does not
    /// cover, and a combination goes by those of its parts that do: the opposite of a rule about `deploy` says
    /// nothing about `read_file`.
    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        let _ = call;
        true
    }

    /// Whether the call may run, from a policy that need not wait for anything to say so. Only looks. None, and
    /// [`ToolPolicy::check`] is asked instead; a policy has one of the two.
    fn check_now(&self, call: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Option<Result<Decision, BoxError>> {
        let _ = (call, cx);
        None
    }

    /// Whether the call may run. Only looks. A policy that has neither this nor [`ToolPolicy::check_now`] denies.
    fn check<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        cx: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(async move {
            self.check_now(call, cx).unwrap_or_else(|| Err("the policy does not say how it decides".into()))
        })
    }

    /// Told of a success, inside its transaction. Failing here is contained.
    fn on_result<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        result: &'a ResultView<'a>,
        cx: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        let _ = (call, result, cx, memory);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether [`ToolPolicy::on_result`] does anything, so that successes need not be shown to policies that do
    /// not look.
    fn wants_results(&self) -> bool {
        false
    }

    /// What answering for this call reads and writes; its own state under `key` included. Unless told, a policy is
    /// taken to look at everything, and its calls run one at a time.
    fn footprint(&self, call: &PolicyCall<'_>, key: &Arc<str>) -> Footprint {
        let _ = (call, key);
        Footprint::everything()
    }
}

/// A shared policy is that policy.
impl<T: ToolPolicy + ?Sized> ToolPolicy for Arc<T> {
    fn kind(&self) -> &'static str {
        (**self).kind()
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        (**self).covers(call)
    }

    fn check_now(&self, call: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Option<Result<Decision, BoxError>> {
        (**self).check_now(call, cx)
    }

    fn check<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        cx: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        (**self).check(call, cx)
    }

    fn on_result<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        result: &'a ResultView<'a>,
        cx: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        (**self).on_result(call, result, cx, memory)
    }

    fn wants_results(&self) -> bool {
        (**self).wants_results()
    }

    fn footprint(&self, call: &PolicyCall<'_>, key: &Arc<str>) -> Footprint {
        (**self).footprint(call, key)
    }
}

/// A policy in its place: its stable key is section path, kind and position.
#[derive(Clone)]
pub struct PlacedPolicy {
    /// The stable key.
    pub key: Arc<str>,
    /// The policy.
    pub policy: Arc<dyn ToolPolicy>,
}

impl PlacedPolicy {
    /// A policy under a key.
    pub fn new(key: impl Into<Arc<str>>, policy: impl ToolPolicy) -> Self {
        Self { key: key.into(), policy: Arc::new(policy) }
    }
}

impl std::fmt::Debug for PlacedPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PlacedPolicy").field(&self.key).finish()
    }
}
