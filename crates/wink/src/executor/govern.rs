//! The policies' step: every policy that covers the tool, in order, before anything runs.

use std::pin::pin;
use std::sync::Arc;

use super::approve::{Approval, ApprovalRequest};
use super::call::Call;
use super::outcome::Failure;
use super::stop::{StopWhen, held_to};
use crate::policy::{Decision, PlacedPolicy, PolicyCall, PolicyContext, PolicyFiles, ask};
use crate::session::{Ending, LoggedAnswer, LoggedDecision};
use crate::support::holding::Outside;

/// How often a call may come back to the approver because the state moved meanwhile.
pub(super) const MOST_QUESTIONS: usize = 4;

/// Somebody's word, and what it counts for.
struct Given {
    policy: Arc<str>,
    question: String,
    /// The state that they were shown.
    state: u64,
    by: Arc<str>,
}

impl Call {
    pub(super) async fn policies(&mut self) -> Result<(), Box<Failure>> {
        let Some(policies) = self.placed.as_ref().map(|placed| Arc::clone(&placed.policies)) else {
            return Err(Failure::new(Ending::Denied, "the runtime lost the tool"));
        };
        let mut given: Vec<Given> = Vec::new();
        'again: for _ in 0..=MOST_QUESTIONS {
            self.decisions = Vec::with_capacity(policies.len());
            self.approver = None;
            let state = self.session().state_version();
            for placed in policies.iter() {
                let answer = match self.check(placed).await {
                    Decision::Allow => LoggedAnswer::Allow,
                    Decision::Deny(reason) => {
                        let reason: Arc<str> = reason.as_ref().into();
                        self.decided(placed, LoggedAnswer::Deny(Arc::clone(&reason)));
                        return Err(Failure::new(Ending::Denied, &*reason));
                    }
                    Decision::Ask(question) => {
                        let known = given.iter().find(|given| {
                            given.policy == placed.key && given.question == question && given.state == state
                        });
                        let Some(by) = known.map(|given| Arc::clone(&given.by)) else {
                            let asked = self.ask(&placed.key, question.clone()).await?;
                            let question: Arc<str> = question.into();
                            match asked {
                                Ok(by) => {
                                    let policy = Arc::clone(&placed.key);
                                    given.push(Given { policy, question: question.to_string(), state, by });
                                    // All policies again: the world may have moved while somebody thought.
                                    continue 'again;
                                }
                                Err(reason) => {
                                    self.decided(placed, LoggedAnswer::Ask { question, approved: false });
                                    return Err(Failure::new(Ending::Denied, reason));
                                }
                            }
                        };
                        self.approver = Some(by);
                        LoggedAnswer::Ask { question: question.into(), approved: true }
                    }
                };
                self.decided(placed, answer);
            }
            return Ok(());
        }
        let text =
            format!("{} was not run: the session kept changing while approval was asked for", self.name);
        Err(Failure::new(Ending::Denied, text))
    }

    fn decided(&mut self, placed: &PlacedPolicy, answer: LoggedAnswer) {
        self.decisions.push(LoggedDecision { policy: Arc::clone(&placed.key), answer });
    }

    /// One policy's answer. Failing, panicking and being late are denials.
    pub(super) async fn check(&self, placed: &PlacedPolicy) -> Decision {
        let (Some(tool), Some(params)) = (&self.placed, &self.params) else {
            return Decision::deny("the runtime lost the call");
        };
        let call = PolicyCall { tool: &tool.tool, params };
        let cx = PolicyContext {
            key: &placed.key,
            session: self.session(),
            files: PolicyFiles::Committed(&self.shared.resources, &self.glance),
            work: None,
            invocation: &self.invocation,
            deadline: self.around.deadline,
        };
        let when = StopWhen::within(Some(self.shared.limits.policy_timeout));
        let problem =
            match held_to(&when, self.session().clock(), pin!(ask(&*placed.policy, &call, &cx))).await {
                Ok(Ok(decision)) => return decision.unwrap_or(Decision::Allow),
                Ok(Err(error)) => error.to_string(),
                Err(stopped) => format!("{stopped:?}"),
            };
        tracing::error!(policy = &*placed.key, problem, "a policy failed; the call is denied");
        Decision::deny(format!("{} was denied: policy {} could not decide", self.name, placed.policy.kind()))
    }

    /// Asks the approver. Others may use the session meanwhile.
    ///
    /// # Errors
    /// The outer one when the call has ended meanwhile; the inner one when it was not approved.
    pub(super) async fn ask(
        &mut self,
        policy: &str,
        question: String,
    ) -> Result<Result<Arc<str>, String>, Box<Failure>> {
        let Some(approver) = self.shared.approver.clone() else {
            return Ok(Err(format!("{} needs approval, and nobody can be asked: {question}", self.name)));
        };
        let request = ApprovalRequest {
            invocation: self.invocation.id,
            tool: Arc::clone(&self.name),
            arguments: self.logged.as_ref().map_or_else(|| "".into(), |logged| logged.text().into()),
            policy: policy.into(),
            question,
        };
        self.turn = None;
        if let Some(place) = &mut self.place {
            place.leave_turn().await?;
        }
        let asked = Outside(pin!(async { approver.ask(&request).await }));
        let asked = held_to(&StopWhen::default(), self.session().clock(), pin!(asked)).await;
        self.take_turn().await?;
        Ok(match asked {
            Ok(Ok(Approval::Approved { by })) => Ok(by),
            Ok(Ok(Approval::Refused { by, reason })) => {
                Err(format!("{} was not approved by {by}: {reason}", self.name))
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "the approver failed; the call is denied");
                Err(format!("{} needs approval, and asking for it failed", self.name))
            }
            Err(stopped) => {
                tracing::error!(?stopped, "the approver failed; the call is denied");
                Err(format!("{} needs approval, and asking for it failed", self.name))
            }
        })
    }
}
