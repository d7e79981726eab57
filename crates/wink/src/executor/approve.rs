//! Approvers: who is asked when a policy wants somebody's word.

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

/// Somebody who can be asked: a person at a terminal, a client, a callback.
pub trait Approver: Send + Sync + 'static {
    /// Asks. Waiting for the answer does not count against a policy's time.
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>>;
}
