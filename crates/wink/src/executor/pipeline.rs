//! The way of a call, on one page. It only moves right: a failure at any step goes straight to recording the end.

use std::pin::pin;
use std::sync::Arc;

use tracing::Instrument;

use super::batch::Place;
use super::call::Call;
use super::outcome::{Escalation, Failure, Outcome};
use super::step::{Moment, Step};
use super::stop::{StopWhen, Stopped, held_to};
use crate::session::Ending;
use crate::support::holding::Inside;
use crate::tool::{Phase, PromptEvaluationError};

impl Call {
    /// Runs the call to its end, in its span.
    pub(super) async fn run(self: Box<Self>) -> Outcome {
        let span = tracing::debug_span!(
            "wink.call",
            tool = &*self.name,
            call_id = &*self.invocation.call_id,
            invocation = %self.invocation.id,
            session = %self.session().id(),
        );
        match span.is_disabled() {
            true => self.go().await,
            // Boxed, so that calls nobody traces do not carry the room for it.
            false => Box::pin(self.go()).instrument(span).await,
        }
    }

    async fn go(mut self: Box<Self>) -> Outcome {
        self.beat();
        let (shared, around, cancel) =
            (Arc::clone(&self.shared), Arc::clone(&self.around), self.cancel.clone());
        let when =
            StopWhen { cancel: [Some(&around.cancel), cancel.as_ref()], ..StopWhen::until(around.deadline) };
        let clock = shared.session.clock();
        let not_run = self.place.as_ref().and_then(Place::ended);
        // Up to the commit a call can be stopped; from there on it is brought to its end.
        let prepared = match not_run {
            Some(failure) => Ok(Err(failure)),
            None => {
                let inside = Inside(shared.session.turn_key(), pin!(self.prepare()));
                held_to(&when, clock, pin!(inside)).await
            }
        };
        match prepared {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => self.fail(failure),
            Err(stopped) => {
                let failure = self.stopped(stopped);
                self.fail(failure);
            }
        }
        loop {
            let concluded = {
                let concluding = pin!(self.conclude());
                held_to(&StopWhen::default(), clock, concluding).await
            };
            match concluded {
                Ok(Ok(())) => {
                    if let Some(outcome) = self.outcome.take() {
                        self.beat();
                        return outcome;
                    }
                    self.fail(Failure::new(Ending::NotCommitted, "the call ended without an outcome"));
                }
                Ok(Err(failure)) => self.fail(failure),
                Err(stopped) if self.outcome.is_none() => {
                    let failure = self.stopped(stopped);
                    self.fail(failure);
                }
                // What follows the commit cannot change what came of it.
                Err(stopped) => {
                    tracing::error!(step = self.step.name(), ?stopped, "a step after the commit failed");
                    self.step = Step::Answer;
                }
            }
        }
    }

    async fn prepare(&mut self) -> Result<(), Box<Failure>> {
        let watched = self.shared.hook.is_some();
        while self.step < Step::Commit {
            if watched {
                self.hook(Moment::Before).await?;
            }
            if let Some(next) = self.advance().await? {
                if watched {
                    self.hook(Moment::After).await?;
                }
                self.step = next;
            }
        }
        self.hook(Moment::Before).await
    }

    async fn conclude(&mut self) -> Result<(), Box<Failure>> {
        while let Some(next) = self.advance().await? {
            self.step = next;
        }
        Ok(())
    }

    /// Does the present step in its span, and says which is next.
    async fn advance(&mut self) -> Result<Option<Step>, Box<Failure>> {
        let span = tracing::trace_span!("wink.step", step = self.step.name());
        match span.is_disabled() {
            true => self.take_step().await,
            false => Box::pin(self.take_step()).instrument(span).await,
        }
    }

    /// The steps.
    async fn take_step(&mut self) -> Result<Option<Step>, Box<Failure>> {
        Ok(Some(match self.step {
            Step::Lookup => self.lookup().map(|()| Step::Parse)?,
            Step::Parse => self.parse().map(|()| Step::Deadline)?,
            Step::Deadline => self.deadline().map(|()| Step::Context)?,
            Step::Context => self.context().await.map(|()| Step::Policies)?,
            Step::Policies => self.policies().await.map(|()| Step::Ledger)?,
            Step::Ledger => {
                if self.is_idempotent() {
                    self.ledger().await?;
                }
                Step::Begin
            }
            Step::Begin => self.begin().await.map(|()| Step::Handler)?,
            Step::Handler => self.handler().await.map(|()| Step::OnResult)?,
            Step::OnResult => {
                if self.has_listening_policies() {
                    self.on_result().await?;
                }
                Step::Subscribers
            }
            Step::Subscribers => self.subscribers().await.map(|()| Step::Commit)?,
            Step::Commit => {
                self.outcome = Some(self.commit().await?);
                self.decide();
                self.late_hook(Moment::After).await;
                Step::Feedback
            }
            Step::Record => {
                self.late_hook(Moment::Before).await;
                let lost = || Failure::new(Ending::NotCommitted, "the call failed");
                let mut failure = self.failure.take().unwrap_or_else(lost);
                // The log is in request order too.
                if let Some(place) = &mut self.place
                    && let Err(not_run) = place.wait().await
                {
                    failure = not_run;
                }
                self.outcome = Some(self.record(failure).await);
                self.decide();
                self.late_hook(Moment::After).await;
                Step::Feedback
            }
            Step::Feedback => {
                self.late_hook(Moment::Before).await;
                if !self.shared.feedback.is_empty() {
                    self.feedback().await;
                }
                self.late_hook(Moment::After).await;
                Step::Answer
            }
            Step::Answer => {
                self.late_hook(Moment::Before).await;
                self.late_hook(Moment::After).await;
                return Ok(None);
            }
        }))
    }

    fn decide(&self) {
        if let (Some(place), Some(outcome)) = (&self.place, &self.outcome) {
            place.decide(outcome);
        }
    }

    fn fail(&mut self, failure: Box<Failure>) {
        self.failure = Some(failure);
        self.step = Step::Record;
    }

    /// What it means that the call was stopped where it was.
    fn stopped(&self, stopped: Stopped) -> Box<Failure> {
        let (name, remains) = (&self.name, self.what_remains());
        match stopped {
            Stopped::Cancelled => Failure::new(Ending::Cancelled, format!("{name} was cancelled; {remains}"))
                .escalating(Escalation::Cancelled),
            Stopped::Deadline(deadline) => self.exhausted(&deadline.exceeded().to_string(), Some(deadline)),
            Stopped::Timeout(limit) => {
                let text = format!("{name} took longer than {limit:?} and was stopped; {remains}");
                Failure::new(Ending::TimedOut, text)
            }
            Stopped::Panicked(panic) => {
                tracing::error!(tool = &**name, step = self.step.name(), panic, "a call panicked");
                let text = format!("{name} failed unexpectedly; {remains}");
                let chain = vec![format!("panic in step {}: {panic}", self.step.name())];
                Failure::new(Ending::Panicked, text).because(chain)
            }
        }
    }

    /// The deadline or the budget is exhausted.
    pub(super) fn exhausted(&self, reason: &str, deadline: Option<crate::limits::Deadline>) -> Box<Failure> {
        let error = PromptEvaluationError {
            phase: Phase::Tool,
            message: reason.to_owned(),
            deadline: deadline.map(crate::limits::Deadline::timestamp),
        };
        let text = format!("{} was stopped: {reason}; {}", self.name, self.what_remains());
        Failure::new(Ending::Exhausted, text).escalating(Escalation::Evaluation(error))
    }

    fn beat(&self) {
        if let Some(heartbeat) = &self.around.heartbeat {
            heartbeat.beat();
        }
    }

    async fn hook(&self, moment: Moment) -> Result<(), Box<Failure>> {
        let Some(hook) = &self.shared.hook else { return Ok(()) };
        let watched = hook.at(self.step, moment, self.invocation.id).await;
        watched.map_err(|reason| {
            let text = format!(
                "{} failed in step {}: {reason}; {}",
                self.name,
                self.step.name(),
                self.what_remains()
            );
            Failure::new(Ending::NotCommitted, text).because(vec![reason])
        })
    }

    /// The hook where nothing can be taken back any more: it may neither fail the call nor hold it up for good.
    async fn late_hook(&self, moment: Moment) {
        if self.shared.hook.is_none() {
            return;
        }
        let when = StopWhen {
            cancel: [Some(&self.around.cancel), self.cancel.as_ref()],
            deadline: self.around.deadline,
            timeout: Some(self.shared.limits.policy_timeout),
        };
        match held_to(&when, self.session().clock(), pin!(self.hook(moment))).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => tracing::warn!(reason = failure.message, "a hook failed after the commit"),
            Err(stopped) => tracing::warn!(?stopped, "a hook was stopped after the commit"),
        }
    }
}
