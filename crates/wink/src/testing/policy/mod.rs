//! Policies without an executor: a bench to ask and tell them on, and what every [`ToolPolicy`](crate::policy::ToolPolicy) must do.

mod contract;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::clock::FakeClock;
use crate::filesystem::{Filesystem, MemoryFilesystem};
use crate::policy::{
    Decision, PlacedPolicy, PolicyCall, PolicyContext, PolicyFiles, PolicyMemory, ResultView, ask, tell,
};
use crate::resource::{Binding, BoxError, Glance, ResourceContext, ResourceError, ResourceRegistry};
use crate::session::{InvocationId, Session};
use crate::tool::erased::Params;
use crate::tool::schema::{ParseLimits, Rejection};
use crate::tool::{AnyTool, IntoTool, Invocation, Tool, ToolContext, ToolResult, ToolValidationError};
use crate::transaction::{Transaction, TransactionError, Work, take_turn};

pub use contract::policy_contract;

/// A call for a [`PolicyBench`].
#[derive(Debug)]
pub struct BenchCall {
    tool: AnyTool,
    params: Params,
}

impl BenchCall {
    /// A call of a tool that takes any arguments and does nothing.
    ///
    /// # Errors
    /// When the name is no tool name.
    pub fn new(tool: &str, arguments: Value) -> Result<Self, ToolValidationError> {
        let schema = json!({ "type": "object", "additionalProperties": true });
        let nothing = async |_: Value, _: &mut ToolContext| ToolResult::<Value>::done("");
        let tool = Tool::dynamic(tool, "A tool to ask policies about", schema, nothing).into_tool()?;
        // Made here and not parsed, since policies are to be asked about what no schema would let pass too.
        let params = Params::new(Box::new(arguments.clone()), arguments.to_string().into());
        Ok(Self { tool, params })
    }

    /// A call of a real tool.
    ///
    /// # Errors
    /// When the tool does not take the arguments.
    pub fn of(tool: &AnyTool, arguments: &str) -> Result<Self, Rejection> {
        let params = tool.inner.parse(&Arc::from(arguments), &ParseLimits::default())?;
        Ok(Self { tool: tool.clone(), params })
    }

    fn as_call(&self) -> PolicyCall<'_> {
        PolicyCall { tool: &self.tool, params: &self.params }
    }
}

/// A session, a workspace and a clock, to ask policies on and to tell them of results.
#[derive(Debug)]
pub struct PolicyBench {
    session: Session,
    resources: ResourceContext,
    clock: FakeClock,
    glance: Glance,
}

impl PolicyBench {
    /// With an empty workspace in memory.
    ///
    /// # Errors
    /// When the workspace cannot be bound.
    pub async fn new() -> Result<Self, ResourceError> {
        Self::with_files(Arc::new(MemoryFilesystem::new())).await
    }

    /// With this workspace.
    ///
    /// # Errors
    /// When it cannot be bound.
    pub async fn with_files(files: Arc<dyn Filesystem>) -> Result<Self, ResourceError> {
        Self::with_resources(&ResourceRegistry::of((Binding::filesystem(files),))?).await
    }

    /// With these resources, and no workspace unless they have one.
    ///
    /// # Errors
    /// When they cannot be opened.
    pub async fn with_resources(resources: &ResourceRegistry) -> Result<Self, ResourceError> {
        let clock = FakeClock::new(Timestamp::UNIX_EPOCH);
        let session = Session::builder().clock(Arc::new(clock.clone())).build();
        Ok(Self { session, resources: resources.open().await?, clock, glance: Glance::default() })
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The session's clock.
    pub fn clock(&self) -> &FakeClock {
        &self.clock
    }

    /// The workspace as it is committed.
    ///
    /// # Errors
    /// When there is none.
    pub async fn files(&self) -> Result<Arc<dyn Filesystem>, ResourceError> {
        self.resources.get().await
    }

    /// What `policy` answers.
    ///
    /// # Errors
    /// When it fails or panics, which denies.
    pub async fn check(&self, policy: &PlacedPolicy, call: &BenchCall) -> Result<Decision, BoxError> {
        let invocation = self.invocation();
        let cx = self.context(&policy.key, &invocation, None);
        Ok(ask(&*policy.policy, &call.as_call(), &cx).await?.unwrap_or(Decision::Allow))
    }

    /// A success of `call`: does `work` on the call's workspace, tells the policies, counts the call and commits.
    ///
    /// # Errors
    /// When there is no workspace to work on, or the commit fails.
    pub async fn succeed(
        &self,
        policies: &[PlacedPolicy],
        call: &BenchCall,
        work: impl AsyncFnOnce(&dyn Filesystem),
    ) -> Result<(), TransactionError> {
        let mut transaction = self.begin(call).await;
        let fork = transaction.work().resources.get_optional::<dyn Filesystem>().await?;
        match fork {
            Some(files) => work(&*files).await,
            None => work(&MemoryFilesystem::new()).await,
        }
        self.tell_all(transaction.work(), policies, call, false).await;
        transaction.succeeds(Arc::clone(call.tool.name()), self.session.clock().now());
        transaction.commit().await
    }

    /// A success of `call` that was taken from the ledger: the policies are told, and nothing else happens.
    ///
    /// # Errors
    /// When the commit fails.
    pub async fn replay(&self, policies: &[PlacedPolicy], call: &BenchCall) -> Result<(), TransactionError> {
        let transaction = self.begin(call).await;
        self.tell_all(transaction.work(), policies, call, true).await;
        transaction.commit().await
    }

    /// A call that was rolled back after the policies had been told of its success, as when its commit failed.
    ///
    /// # Errors
    /// When the end cannot be recorded.
    pub async fn roll_back(
        &self,
        policies: &[PlacedPolicy],
        call: &BenchCall,
    ) -> Result<(), TransactionError> {
        let transaction = self.begin(call).await;
        self.tell_all(transaction.work(), policies, call, false).await;
        transaction.rollback().await
    }

    /// What policies remember, by their keys and items.
    pub fn remembered(&self) -> BTreeMap<String, BTreeMap<String, Value>> {
        let json = self.session.snapshot().to_json().unwrap_or_default();
        serde_json::from_value(json.get("policies").cloned().unwrap_or_default()).unwrap_or_default()
    }

    async fn begin(&self, call: &BenchCall) -> Transaction {
        // Nothing is inside a bench's session.
        let turn = take_turn(&self.session).await.ok();
        let of = (Arc::clone(call.tool.name()), self.invocation().id);
        let scope = self.resources.tool_scope();
        Transaction::begin_on(&self.session, scope, turn, None, "bench".into(), Some(of))
    }

    async fn tell_all(&self, work: &Work, policies: &[PlacedPolicy], call: &BenchCall, replayed: bool) {
        let invocation = self.invocation();
        for PlacedPolicy { key, policy } in policies {
            let cx = self.context(key, &invocation, Some(work));
            let result = ResultView { message: "", replayed, value: None };
            tell(&**policy, &call.as_call(), &result, &cx, &PolicyMemory { key, work }).await;
        }
    }

    fn context<'a>(
        &'a self,
        key: &'a Arc<str>,
        invocation: &'a Invocation,
        work: Option<&'a Work>,
    ) -> PolicyContext<'a> {
        let files = match work {
            Some(work) => PolicyFiles::InCall(&work.resources),
            None => PolicyFiles::Committed(&self.resources, &self.glance),
        };
        PolicyContext { key, session: &self.session, files, work, invocation, deadline: None }
    }

    fn invocation(&self) -> Invocation {
        let time = self.session.clock().now();
        Invocation {
            id: InvocationId::fresh(time),
            call_id: "bench".into(),
            time,
            attempt: 1,
            parent_message: None,
        }
    }
}
