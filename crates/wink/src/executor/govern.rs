//! The policies' step: every policy that covers the tool, in order, before anything runs.

use std::pin::pin;
use std::sync::Arc;

use super::approve::{Approval, ApprovalRequest};
use super::call::Call;
use super::outcome::Failure;
use super::steps::lost;
use super::stop::{StopWhen, Stopped, held_to};
use crate::policy::{Decision, PlacedPolicy, PolicyCall, PolicyContext, PolicyFiles, ask, ask_now};
use crate::resource::{ResourceError, ResourceSnapshot};
use crate::session::{Ending, LoggedAnswer, LoggedDecision};
use crate::support::future::Contained;
use crate::support::holding::Outside;

/// How often somebody may be asked the same again because the state moved meanwhile.
pub(super) const MOST_CHANGES: usize = 4;

/// What somebody said about a call, and what it counts for.
#[derive(Default)]
pub(super) struct Approvals {
    given: Vec<Given>,
    /// Everybody who approved, in the order they were asked; also those whose word no longer counts.
    pub(super) by: Vec<Arc<str>>,
    /// How often a word given no longer counted.
    changes: usize,
}

/// Somebody's word, and what it counts for.
struct Given {
    policy: Arc<str>,
    question: String,
    shown: Shown,
}

/// The state that somebody was shown.
struct Shown {
    session: u64,
    resources: Vec<(String, ResourceSnapshot)>,
}

impl Call {
    /// Asks the policies that answer at once, in order; false at the first that does not, or wants somebody asked.
    pub(super) fn policies_now(&mut self) -> Result<bool, Box<Failure>> {
        let Some(policies) = self.placed.as_ref().map(|placed| Arc::clone(&placed.policies)) else {
            return Err(lost("the tool"));
        };
        while let Some(placed) = policies.get(self.allowed) {
            match self.check_now(placed) {
                Some(Decision::Allow) => self.allowed += 1,
                Some(Decision::Deny(reason)) => return Err(self.denied(placed, &reason)),
                Some(Decision::Ask(_)) | None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Asks all of them again.
    pub(super) async fn policies_again(&mut self) -> Result<(), Box<Failure>> {
        self.allowed = 0;
        self.policies().await
    }

    pub(super) async fn policies(&mut self) -> Result<(), Box<Failure>> {
        let Some(policies) = self.placed.as_ref().map(|placed| Arc::clone(&placed.policies)) else {
            return Err(lost("the tool"));
        };
        // Some have allowed it already.
        let mut first = self.allowed;
        'again: loop {
            self.allowed = first;
            self.decisions.clear();
            self.glance.look_again();
            for placed in policies.iter().skip(std::mem::take(&mut first)) {
                let answer = match self.check(placed).await {
                    Decision::Allow => LoggedAnswer::Allow,
                    Decision::Deny(reason) => return Err(self.denied(placed, &reason)),
                    Decision::Ask(question) if self.is_approved(&placed.key, &question)? => {
                        LoggedAnswer::Ask { question: question.into(), approved: true }
                    }
                    Decision::Ask(question) => {
                        let shown = self.shown()?;
                        match self.ask(&placed.key, question.clone()).await? {
                            Ok(()) => {
                                let policy = Arc::clone(&placed.key);
                                self.approvals.given.push(Given { policy, question, shown });
                                // All policies again: the world may have moved while somebody thought.
                                continue 'again;
                            }
                            Err(reason) => {
                                let question = question.into();
                                self.decided(placed, LoggedAnswer::Ask { question, approved: false });
                                return Err(Failure::new(Ending::Denied, reason));
                            }
                        }
                    }
                };
                self.decided(placed, answer);
            }
            return Ok(());
        }
    }

    /// Whether somebody said yes to exactly this, in exactly this state. A word that no longer counts is forgotten.
    fn is_approved(&mut self, policy: &Arc<str>, question: &str) -> Result<bool, Box<Failure>> {
        let Some(at) = self.approvals.given.iter().position(|given| given.policy == *policy) else {
            return Ok(false);
        };
        let given = self.approvals.given.swap_remove(at);
        if given.question == question && self.is_as_shown(&given.shown)? {
            self.approvals.given.push(given);
            return Ok(true);
        }
        self.approvals.changes += 1;
        if self.approvals.changes > MOST_CHANGES {
            let text = "what was shown kept changing while approval was asked for";
            return Err(Failure::new(Ending::Denied, format!("{} was not run: {text}", self.name)));
        }
        Ok(false)
    }

    /// The state as it is now.
    fn shown(&self) -> Result<Shown, Box<Failure>> {
        let resources = self.shared.resources.snapshot_all().map_err(|error| self.not_shown(&error))?;
        Ok(Shown { session: self.session().state_version(), resources })
    }

    fn is_as_shown(&self, shown: &Shown) -> Result<bool, Box<Failure>> {
        Ok(shown.session == self.session().state_version()
            && self
                .shared
                .resources
                .unchanged_since(&shown.resources)
                .map_err(|error| self.not_shown(&error))?)
    }

    fn not_shown(&self, error: &ResourceError) -> Box<Failure> {
        tracing::error!(%error, "it cannot be told what an approval counts for; the call is denied");
        let text =
            format!("{} needs approval, and it cannot be told what it would count for: {error}", self.name);
        Failure::new(Ending::Denied, text).because(vec![error.to_string()])
    }

    fn denied(&mut self, placed: &PlacedPolicy, reason: &str) -> Box<Failure> {
        let reason: Arc<str> = reason.into();
        self.decided(placed, LoggedAnswer::Deny(self.shared.logged(&reason)));
        Failure::new(Ending::Denied, &*reason)
    }

    fn decided(&mut self, placed: &PlacedPolicy, answer: LoggedAnswer) {
        match answer {
            LoggedAnswer::Allow if self.decisions.is_empty() => self.allowed += 1,
            answer => self.decisions.push(LoggedDecision { policy: Arc::clone(&placed.key), answer }),
        }
    }

    /// One policy's answer, if it comes at once.
    fn check_now(&mut self, placed: &PlacedPolicy) -> Option<Decision> {
        let (Some(tool), Some(params)) = (&self.placed, &self.params) else {
            return Some(Decision::deny("the runtime lost the call"));
        };
        let call = PolicyCall { tool: &tool.tool, params };
        let ask = || ask_now(&*placed.policy, &call, &self.policy_context(placed)).transpose();
        let limit = self.shared.limits.policy_timeout;
        let clock = self.session().clock();
        let mut answer = ask()?;
        let mut now = clock.monotonic();
        let mut late = now > self.free_since.saturating_add(limit);
        if late {
            // Since it could be asked at the earliest; somebody else may have taken the time. Now it is known.
            let begun = now;
            answer = ask()?;
            now = clock.monotonic();
            late = now > begun.saturating_add(limit);
        }
        self.free_since = now;
        Some(match answer {
            Ok(_) if late => self.could_not_decide(placed, &format!("{:?}", Stopped::Timeout(limit))),
            Ok(decision) => decision.unwrap_or(Decision::Allow),
            Err(error) => self.could_not_decide(placed, &error.to_string()),
        })
    }

    fn policy_context<'a>(&'a self, placed: &'a PlacedPolicy) -> PolicyContext<'a> {
        PolicyContext {
            key: &placed.key,
            session: self.session(),
            files: PolicyFiles::Committed(&self.shared.resources, &self.glance),
            work: None,
            invocation: &self.invocation,
            deadline: self.around.deadline,
        }
    }

    /// One policy's answer. Failing, panicking and being late are denials.
    pub(super) async fn check(&self, placed: &PlacedPolicy) -> Decision {
        let (Some(tool), Some(params)) = (&self.placed, &self.params) else {
            return Decision::deny("the runtime lost the call");
        };
        let call = PolicyCall { tool: &tool.tool, params };
        let cx = self.policy_context(placed);
        let when = StopWhen::within(Some(self.shared.limits.policy_timeout));
        let problem =
            match held_to(&when, self.session().clock(), pin!(ask(&*placed.policy, &call, &cx))).await {
                Ok(Ok(decision)) => return decision.unwrap_or(Decision::Allow),
                Ok(Err(error)) => error.to_string(),
                Err(stopped) => format!("{stopped:?}"),
            };
        self.could_not_decide(placed, &problem)
    }

    fn could_not_decide(&self, placed: &PlacedPolicy, problem: &str) -> Decision {
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
    ) -> Result<Result<(), String>, Box<Failure>> {
        let Some(approver) = self.approver.as_ref().or(self.shared.approver.as_ref()).cloned() else {
            return Ok(Err(format!("{} needs approval, and nobody can be asked: {question}", self.name)));
        };
        let request = ApprovalRequest {
            invocation: self.invocation.id,
            tool: Arc::clone(&self.name),
            arguments: self.logged.as_ref().map_or_else(|| "".into(), |logged| logged.text().into()),
            policy: policy.into(),
            question,
        };
        (self.write_turn, self.turn) = (None, None);
        if let Some(place) = &mut self.place {
            place.leave_turn().await?;
        }
        let asked = Contained::new(Box::pin(async { approver.ask(&request).await }));
        let asked = Outside(asked);
        let asked = held_to(&StopWhen::default(), self.session().clock(), pin!(asked)).await;
        self.take_turn().await?;
        Ok(match asked {
            Ok(Ok(Approval::Approved { by })) => {
                self.approvals.by.push(by);
                Ok(())
            }
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
