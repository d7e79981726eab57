//! The way of a call, on one page. It only moves right: a failure at any step goes straight to recording the end.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tracing::Instrument;

use super::batch::Place;
use super::call::Call;
use super::outcome::{Escalation, Failure, Outcome};
use super::step::{Moment, Step};
use super::steps::lost;
use super::stop::{StopWhen, Stopped, held_to};
use crate::limits::CancelToken;
use crate::session::Ending;
use crate::support::background::MustFinish;
use crate::support::future::catch;
use crate::support::holding::{self, Inside};
use crate::tool::{Phase, PromptEvaluationError};

/// How far a call went at once.
enum Took {
    /// A step that somebody watches, and which is next.
    Next(Step),
    /// Somebody has to be waited for.
    Waits,
    /// The commit is on its way.
    Commits(MustFinish<Outcome>),
    /// It was the last.
    Last,
}

impl Call {
    /// Runs the call to its end, in its span.
    pub(super) async fn run(mut self: Box<Self>) -> Outcome {
        let span = tracing::debug_span!(
            "wink.call",
            tool = &*self.name,
            call_id = &*self.invocation.call_id,
            invocation = %self.invocation.id,
            session = %self.session().id(),
        );
        if span.is_disabled() {
            self.watched = self.shared.hook.is_some();
            return self.go().await;
        }
        self.watched = true;
        // Boxed, so that calls nobody traces do not carry the room for it.
        Box::pin(self.go()).instrument(span).await
    }

    async fn go(mut self: Box<Self>) -> Outcome {
        self.beat();
        if let Some(not_run) = self.place.as_ref().and_then(Place::ended) {
            self.fail(not_run);
        }
        let (shared, around, cancel) =
            (Arc::clone(&self.shared), Arc::clone(&self.around), self.cancel.clone());
        let when =
            StopWhen { cancel: [Some(&around.cancel), cancel.as_ref()], ..StopWhen::until(around.deadline) };
        let clock = shared.session.clock();
        loop {
            let took = poll_fn(|task| Poll::Ready(self.go_ahead(&when, task))).await;
            let ended = match took {
                Took::Last => true,
                Took::Next(next) => {
                    self.step = next;
                    false
                }
                // Up to the commit a call can be stopped; from there on it is brought to its end.
                Took::Waits if self.step < Step::Commit => {
                    let stepped = {
                        let stepping = pin!(self.wait_for_step());
                        held_to(&when, clock, pin!(Inside(shared.session.turn_key(), stepping))).await
                    };
                    self.stepped(stepped)
                }
                // A batch keeps the turn until its last call has ended.
                Took::Waits if self.place.is_some() => {
                    let stepped = {
                        let stepping = pin!(self.wait_for_step());
                        let inside = pin!(Inside(shared.session.turn_key(), stepping));
                        held_to(&StopWhen::default(), clock, inside).await
                    };
                    self.stepped(stepped)
                }
                Took::Waits => {
                    let stepped = {
                        let stepping = pin!(self.wait_for_step());
                        held_to(&StopWhen::default(), clock, stepping).await
                    };
                    self.stepped(stepped)
                }
                Took::Commits(committing) => {
                    let stepped = {
                        let stepping = pin!(self.committed(committing));
                        held_to(&StopWhen::default(), clock, stepping).await
                    };
                    self.stepped(stepped)
                }
            };
            if ended && let Some(outcome) = self.outcome.take() {
                self.beat();
                return outcome;
            }
            if ended {
                self.fail(Failure::new(Ending::NotCommitted, "the call ended without an outcome"));
            }
        }
    }

    /// Goes on for as long as nobody has to be waited for.
    fn go_ahead(&mut self, when: &StopWhen<'_>, task: &mut Context<'_>) -> Took {
        if self.step < Step::Commit
            && let Some(stopped) = when.already()
        {
            self.stepped(Err(stopped));
        }
        loop {
            // One at a time, only if somebody looks: the steps are too short to be watched for nothing.
            let went = match self.watched {
                true => Ok(Ok(Took::Waits)),
                false => {
                    let key = self.session().turn_key();
                    catch(|| holding::inside(key, || self.take_steps(task)))
                }
            };
            match went {
                Ok(Ok(took)) => return took,
                Ok(Err(failure)) => self.fail(failure),
                Err(panic) => {
                    if self.stepped(Err(Stopped::Panicked(panic))) {
                        return Took::Last;
                    }
                }
            }
        }
    }

    /// The steps, as far as they can be taken at once; only the present one if somebody watches.
    fn take_steps(&mut self, task: &mut Context<'_>) -> Result<Took, Box<Failure>> {
        loop {
            let next = match self.step {
                Step::Lookup => match self.lookup_now()? {
                    true => Step::Parse,
                    false => return Ok(Took::Waits),
                },
                Step::Parse => self.parse().map(|()| Step::Deadline)?,
                Step::Deadline => self.deadline().map(|()| Step::Context)?,
                Step::Context => match self.context_now() {
                    true => Step::Policies,
                    false => return Ok(Took::Waits),
                },
                Step::Policies => match self.policies_now()? {
                    true => Step::Ledger,
                    false => return Ok(Took::Waits),
                },
                Step::Ledger if !self.is_idempotent() && !self.is_serial() => Step::Begin,
                Step::Begin => {
                    self.still_wanted()?;
                    self.begin();
                    Step::Handler
                }
                // Before the handler may have an effect, the store knows that it may.
                Step::Handler if self.is_to_be_started() => return Ok(Took::Waits),
                Step::Handler => match self.handler_now(task)? {
                    true => Step::OnResult,
                    false => return Ok(Took::Waits),
                },
                Step::OnResult => {
                    self.still_wanted()?;
                    if self.has_listening_policies() {
                        return Ok(Took::Waits);
                    }
                    Step::Subscribers
                }
                Step::Subscribers if self.place.is_none() => self.subscribers().map(|()| Step::Commit)?,
                Step::Commit => match self.commit()? {
                    None => Step::Feedback,
                    Some(committing) => return Ok(Took::Commits(committing)),
                },
                Step::Feedback if self.shared.feedback.is_empty() => Step::Answer,
                Step::Answer => return Ok(Took::Last),
                Step::Ledger | Step::Subscribers | Step::Record | Step::Feedback => return Ok(Took::Waits),
            };
            if self.watched {
                return Ok(Took::Next(next));
            }
            self.step = next;
        }
    }

    /// Looks again whether the call is cancelled or its time is up: what ran meanwhile may not have waited for anything.
    /// What is done at the very moment of the deadline is done.
    fn still_wanted(&self) -> Result<(), Box<Failure>> {
        let cancelled = |token: &CancelToken| token.is_cancelled();
        if cancelled(&self.around.cancel) || self.cancel.as_ref().is_some_and(cancelled) {
            return Err(self.stopped(Stopped::Cancelled));
        }
        match self.around.deadline {
            Some(deadline) if deadline.timestamp() < self.session().clock().now() => {
                Err(self.stopped(Stopped::Deadline(deadline)))
            }
            _ => Ok(()),
        }
    }

    /// Takes the present step to its end, whoever has to be waited for. None: it was the last.
    async fn wait_for_step(&mut self) -> Result<Option<Step>, Box<Failure>> {
        if !self.watched {
            return self.wait_for(self.step).await.map(Some);
        }
        let span = tracing::trace_span!("wink.step", step = self.step.name());
        Box::pin(self.watched_step()).instrument(span).await
    }

    /// A step that somebody watches, and may make fail for as long as it can be taken back.
    async fn watched_step(&mut self) -> Result<Option<Step>, Box<Failure>> {
        let step = self.step;
        match step {
            Step::Commit => {}
            Step::Record | Step::Feedback | Step::Answer => self.late_hook(Moment::Before).await,
            _ => self.hook(Moment::Before).await?,
        }
        let next = match poll_fn(|task| Poll::Ready(self.take_steps(task))).await? {
            Took::Next(next) => Some(next),
            Took::Waits => Some(self.wait_for(step).await?),
            Took::Commits(committing) => self.committed(committing).await?,
            Took::Last => None,
        };
        if step >= Step::Commit {
            self.late_hook(Moment::After).await;
            return Ok(next);
        }
        self.hook(Moment::After).await?;
        if next == Some(Step::Commit) {
            // The last moment at which the call can be stopped.
            self.step = Step::Commit;
            self.hook(Moment::Before).await?;
        }
        Ok(next)
    }

    /// The steps that could not be taken at once.
    async fn wait_for(&mut self, step: Step) -> Result<Step, Box<Failure>> {
        Ok(match step {
            Step::Lookup => Box::pin(self.lookup_again()).await.map(|()| Step::Parse)?,
            Step::Context => Box::pin(self.context()).await.map(|()| Step::Policies)?,
            Step::Policies => Box::pin(self.policies()).await.map(|()| Step::Ledger)?,
            // Boxed where it is rare, so that other calls do not carry the room for it.
            Step::Ledger => Box::pin(self.ledger()).await.map(|()| Step::Begin)?,
            Step::Handler => {
                if self.is_to_be_started() {
                    self.start().await?;
                    if poll_fn(|task| Poll::Ready(self.handler_now(task))).await? {
                        return Ok(Step::OnResult);
                    }
                }
                self.handler().await.map(|()| Step::OnResult)?
            }
            Step::OnResult => Box::pin(self.on_result()).await.map(|()| Step::Subscribers)?,
            Step::Subscribers => {
                self.wait_for_place().await?;
                self.subscribers().map(|()| Step::Commit)?
            }
            Step::Record => {
                // The log is in request order too.
                if let Err(not_run) = self.wait_for_place().await {
                    self.failure = Some(not_run);
                }
                Box::pin(self.record()).await;
                Step::Feedback
            }
            Step::Feedback => {
                Box::pin(self.feedback()).await;
                Step::Answer
            }
            Step::Parse | Step::Deadline | Step::Begin | Step::Commit | Step::Answer => {
                return Err(lost("its way"));
            }
        })
    }

    async fn committed(&mut self, committing: MustFinish<Outcome>) -> Result<Option<Step>, Box<Failure>> {
        let outcome = committing.await;
        self.decided_as(outcome);
        Ok(Some(Step::Feedback))
    }

    /// What came of waiting for a step; true: it was the last.
    fn stepped(&mut self, stepped: Result<Result<Option<Step>, Box<Failure>>, Stopped>) -> bool {
        match stepped {
            Ok(Ok(Some(next))) => self.step = next,
            Ok(Ok(None)) => return true,
            // What follows the commit cannot change what came of it.
            Ok(Err(failure)) if self.outcome.is_none() => self.fail(failure),
            Err(stopped) if self.outcome.is_none() => {
                let failure = self.stopped(stopped);
                self.fail(failure);
            }
            Ok(Err(_)) | Err(_) => {
                tracing::error!(step = self.step.name(), "a step after the commit failed");
                // A last step that fails is not taken again.
                let last = self.step == Step::Answer;
                self.step = Step::Answer;
                return last;
            }
        }
        false
    }

    fn fail(&mut self, failure: Box<Failure>) {
        self.failure = Some(failure);
        self.step = Step::Record;
    }

    /// What it means that the call was stopped where it was.
    pub(super) fn stopped(&self, stopped: Stopped) -> Box<Failure> {
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
                let panic = self.shared.withheld(panic).into_owned();
                tracing::error!(tool = &**name, step = self.step.name(), panic, "a call panicked");
                let (whose, chain) = match self.step {
                    Step::Handler => (" (it panicked)", format!("panic: {panic}")),
                    step => ("", format!("panic in step {}: {panic}", step.name())),
                };
                let text = format!("{name} failed unexpectedly{whose}; {remains}");
                Failure::new(Ending::Panicked, text).because(vec![chain])
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
            since: None,
        };
        match held_to(&when, self.session().clock(), pin!(self.hook(moment))).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => tracing::warn!(reason = failure.message, "a hook failed after the commit"),
            Err(stopped) => tracing::warn!(?stopped, "a hook was stopped after the commit"),
        }
    }
}
