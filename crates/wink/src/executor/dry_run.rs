//! Dry runs: what every policy would answer, and why, without running anything.

use std::sync::Arc;

use super::Executor;
use super::call::Call;
use super::outcome::ToolCall;
use crate::policy::Decision;
use crate::support::holding::Inside;
use crate::transaction::take_turn;

/// What one policy would say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyOpinion {
    /// The policy's stable key.
    pub policy: Arc<str>,
    /// Its kind.
    pub kind: &'static str,
    /// Its answer.
    pub decision: Decision,
}

/// What would become of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// Why the call would not even get to the policies: no such tool, rejected arguments, no time left.
    pub refused: Option<String>,
    /// What every policy says, in order, also those after the first that does not allow.
    pub opinions: Vec<PolicyOpinion>,
}

impl DryRun {
    /// The first policy that does not allow the call, if one does not.
    pub fn decisive(&self) -> Option<&PolicyOpinion> {
        self.opinions.iter().find(|opinion| opinion.decision != Decision::Allow)
    }

    /// Whether the handler would run without anybody being asked.
    pub fn would_run(&self) -> bool {
        self.refused.is_none() && self.decisive().is_none()
    }
}

impl Executor {
    /// Says what every policy would answer to a call. Runs nothing, changes nothing, records nothing.
    pub async fn dry_run(&self, call: ToolCall) -> DryRun {
        let mut call = Call::new(&self.shared, call, None);
        call.leave_no_trace();
        // As the session is now, and for this call alone. What cannot be brought up to date is as it was.
        if self.shared.may_be_open(&call.around, &call.name)
            && self.session().refresh().await.is_ok()
            && let Ok(rendered) = call.around.prompt.render(self.session())
        {
            call.sees(Arc::new(rendered));
        }
        let looked = call.lookup().and_then(|()| call.parse()).and_then(|()| call.deadline());
        if let Err(failure) = looked {
            return DryRun { refused: Some(failure.message), opinions: Vec::new() };
        }
        let _turn = match take_turn(self.session()).await {
            Ok(turn) => turn,
            Err(inside) => return DryRun { refused: Some(inside.to_string()), opinions: Vec::new() },
        };
        let policies = call.placed.as_ref().map(|placed| Arc::clone(&placed.policies));
        let mut opinions = Vec::new();
        for placed in policies.iter().flat_map(|policies| policies.iter()) {
            let decision = Inside(self.session().turn_key(), Box::pin(call.check(placed))).await;
            opinions.push(PolicyOpinion {
                policy: Arc::clone(&placed.key),
                kind: placed.policy.kind(),
                decision,
            });
        }
        std::mem::take(&mut call.glance).end(false).await;
        DryRun { refused: None, opinions }
    }
}
