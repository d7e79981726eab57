//! What somebody answered when a policy asked, written down and said again: a run that needed a person is repeated without one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use wink::BoxFuture;
use wink::executor::{Approval, ApprovalRequest, Approver};
use wink::resource::BoxError;

use super::Line;
use super::clock::{NextLine, Place, ReplayingClock, Tick};
use super::write::Shared;
use crate::lock;

/// An answer, and what was asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedApproval {
    tool: Arc<str>,
    policy: Arc<str>,
    answer: Said,
}

/// What was said, or why nothing was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Said {
    Approved {
        by: Arc<str>,
    },
    Refused {
        by: Arc<str>,
        reason: String,
    },
    Failed {
        error: String,
    },
    /// Nobody waited for it any more.
    GivenUp,
}

impl From<&Result<Approval, BoxError>> for Said {
    fn from(answer: &Result<Approval, BoxError>) -> Self {
        match answer {
            Ok(Approval::Approved { by }) => Self::Approved { by: Arc::clone(by) },
            Ok(Approval::Refused { by, reason }) => {
                Self::Refused { by: Arc::clone(by), reason: reason.clone() }
            }
            Err(error) => Self::Failed { error: error.to_string() },
        }
    }
}

/// Whoever is asked, and what they answer written down.
pub(super) struct RecordedApprover {
    pub(super) approver: Arc<dyn Approver>,
    pub(super) shared: Arc<Shared>,
}

impl Approver for RecordedApprover {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        Box::pin(async move {
            self.shared.tick(Tick::Call(Place::Asked));
            let mut asking = Asking { request, shared: &self.shared, said: Said::GivenUp };
            let answer = self.approver.ask(request).await;
            asking.said = Said::from(&answer);
            answer
        })
    }
}

/// Writes what was answered, or that nobody waited for it.
struct Asking<'a> {
    request: &'a ApprovalRequest,
    shared: &'a Shared,
    said: Said,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let (tool, policy) = (Arc::clone(&self.request.tool), Arc::clone(&self.request.policy));
        let approval = RecordedApproval { tool, policy, answer: self.said.clone() };
        self.shared.line(Line { approval: Some(approval), ..Line::default() });
    }
}

/// Answers as was answered then.
pub(super) struct ReplayedApprover {
    pub(super) answers: Mutex<VecDeque<RecordedApproval>>,
    pub(super) clock: Arc<ReplayingClock>,
    /// The first thing that was not as it was then.
    pub(super) difference: Arc<Mutex<Option<String>>>,
}

impl Approver for ReplayedApprover {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        Box::pin(async move {
            let is_same =
                |one: &mut RecordedApproval| one.tool == request.tool && one.policy == request.policy;
            let Some(recorded) = lock(&self.answers).pop_front_if(is_same) else {
                let message = format!(
                    "the policy {} asks about {}, and nobody answered that when this was recorded",
                    request.policy, request.tool
                );
                lock(&self.difference).get_or_insert_with(|| message.clone());
                return Err(message.into());
            };
            self.clock.call_is_at(Place::Asked);
            let _answered = NextLine(&self.clock);
            match recorded.answer {
                Said::Approved { by } => Ok(Approval::Approved { by }),
                Said::Refused { by, reason } => Ok(Approval::Refused { by, reason }),
                Said::Failed { error } => Err(error.into()),
                Said::GivenUp if self.clock.gives_up() => std::future::pending().await,
                Said::GivenUp => Err("nobody waited for the answer when this was recorded".into()),
            }
        })
    }
}
