//! Approvers: who is asked when a policy wants somebody's word.

use std::future::Future;
use std::sync::Arc;

use crate::BoxFuture;
use crate::resource::BoxError;
use crate::session::InvocationId;

/// What somebody is asked to approve. The approval counts for exactly this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// The call.
    pub invocation: InvocationId,
    /// The tool.
    pub tool: Arc<str>,
    /// Its arguments, sensitive ones masked.
    pub arguments: Arc<str>,
    /// The policy that asks.
    pub policy: Arc<str>,
    /// Its question.
    pub question: String,
}

/// What they said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Yes.
    Approved {
        /// Who says so.
        by: Arc<str>,
    },
    /// No.
    Refused {
        /// Who says so.
        by: Arc<str>,
        /// Why, for the model.
        reason: String,
    },
}

/// An approver that is one function.
///
/// ```
/// use wink::executor::{Approval, approver_fn};
///
/// let careful = approver_fn(async |request| match &*request.tool {
///     "delete_file" => Ok(Approval::Refused { by: "ops".into(), reason: "nothing is deleted today".into() }),
///     _ => Ok(Approval::Approved { by: "ops".into() }),
/// });
/// ```
pub fn approver_fn<F, A>(ask: F) -> impl Approver
where
    F: Fn(ApprovalRequest) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Approval, BoxError>> + Send + 'static,
{
    FnApprover(ask)
}

struct FnApprover<F>(F);

impl<F, A> Approver for FnApprover<F>
where
    F: Fn(ApprovalRequest) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Approval, BoxError>> + Send + 'static,
{
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        Box::pin((self.0)(request.clone()))
    }
}

/// Somebody who can be asked: a person at a terminal, a client, a callback.
pub trait Approver: Send + Sync + 'static {
    /// Asks. Waiting for the answer does not count against a policy's time.
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>>;
}
