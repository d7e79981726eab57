//! Does what a conversation says: asks the model, executes calls, waits, and keeps what was said.
//!
//! What the model said is durable before any of its calls is executed: asked again, it might want something else. What the
//! calls came to is not waited for, since calls that are executed again have their effect once, by their request keys.

use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use wink::executor::{Escalation, Executor, Outcome, ToolCall};
use wink::limits::{BudgetTracker, CancelToken, Clock, Deadline, TokenUsage};
use wink::prompt::{Prompt, RenderedPrompt};
use wink::session::{LoggedValue, PromptExecuted, RunContext, Session};
use wink::store::Durability;
use wink::{CatchPanic, catch_panic};

use crate::conversation::{
    Completed, Conversation, ConversationStep, Ended, Input, Next, RunStats, Said, StopReason, Tally,
    Unexpected,
};
use crate::finish::{self, Judged, Parsed};
use crate::message::ToolAnswer;
use crate::model::{Model, ModelError, ModelRequest, Settings, Stream};
use crate::random::Random;
use crate::recording::Taped;
use crate::request::Shown;
use crate::sub_agent::Spent;
use crate::watched::Watched;

/// Sees a run go on. One that panics ends the run, which can be taken up again.
pub trait Watch: Stream {
    /// What the run came to so far.
    fn stats(&self, stats: RunStats) {
        let _ = stats;
    }

    /// These calls are executed now.
    fn calls(&self, calls: &[ToolCall]) {
        let _ = calls;
    }

    /// And this came of some of them. Each is told once, in the order of the calls, while those after it may still run; what a run that
    /// is taken up again has of before comes first.
    fn outcomes(&self, outcomes: &[Outcome]) {
        let _ = outcomes;
    }

    /// A request failed.
    fn failed(&self, error: &ModelError) {
        let _ = error;
    }

    /// It is sent again after this long.
    fn waiting(&self, wait: Duration) {
        let _ = wait;
    }

    /// A call has started a run of its own, of this name: who sees that one go on. Nobody does, unless one is given: what a sub-run
    /// says is not said by the run. A panic here is one of the call.
    fn sub_run(&self, run: &str) -> Option<Arc<dyn Watch>> {
        let _ = run;
        None
    }
}

impl Watch for () {}

/// What every run has, whoever it is that asks the model.
#[derive(Clone)]
pub(crate) struct Ground<'a> {
    pub(crate) executor: &'a Executor,
    pub(crate) prompt: &'a Prompt,
    pub(crate) run: Arc<RunContext>,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) budgets: &'a [Arc<BudgetTracker>],
    pub(crate) spent: &'a Spent,
    pub(crate) spends_for: &'a [Arc<Spent>],
    pub(crate) cancel: &'a CancelToken,
    pub(crate) until_asked: bool,
    pub(crate) tape: Option<&'a Taped>,
    pub(crate) watch: Watched<'a>,
}

/// Everything that a run is driven with.
pub(crate) struct Driver<'a> {
    pub(crate) ground: Ground<'a>,
    pub(crate) model: &'a dyn Model,
    pub(crate) settings: Arc<Settings>,
    pub(crate) random: &'a Random,
}

impl<'a> Deref for Driver<'a> {
    type Target = Ground<'a>;

    fn deref(&self) -> &Ground<'a> {
        &self.ground
    }
}

impl Driver<'_> {
    /// Begins a run, or takes it up where the session says that it got.
    pub(crate) async fn run(
        &self,
        mut conversation: Conversation,
        is_new: Option<Said>,
    ) -> (Result<Completed, StopReason>, RunStats) {
        let (begun, attempt) = match is_new {
            Some(began) => (self.keep(&conversation, began, None).await, 1),
            None => (self.take_up(&mut conversation), if conversation.is_executing() { 2 } else { 1 }),
        };
        let mut not_before = None;
        let ended = match begun {
            Ok(()) => self.go_on(&mut conversation, attempt, &mut not_before).await,
            Err(reason) => Err(reason),
        };
        if let (Err(_), Some(until)) = (&ended, not_before) {
            self.put_off(&conversation, until);
        }
        self.flush().await;
        self.watch.stats(conversation.stats());
        (ended, conversation.stats())
    }

    async fn go_on(
        &self,
        conversation: &mut Conversation,
        mut attempt: u32,
        not_before: &mut Option<Timestamp>,
    ) -> Result<Completed, StopReason> {
        let Some(rendered) = self.executor.rendered() else {
            return Err(StopReason::Runtime("the prompt was not rendered".to_owned()));
        };
        let shown = |rendered| Shown::new(rendered, Arc::clone(&self.settings));
        let mut showing = shown(rendered);
        loop {
            self.watch.stats(conversation.stats());
            self.watch.check()?;
            let mut parsed = None;
            let input = match conversation.next() {
                Next::Ended(Ended::Completed(completed)) => return Ok(completed),
                Next::Ended(Ended::Stopped(reason)) => return Err(reason),
                Next::Ask | Next::Wait(_) if self.until_asked => return Err(StopReason::Asking),
                Next::Ask => self.ask(&showing.request(conversation)).await,
                Next::Wait(wait) => self.wait(wait).await,
                Next::Execute(calls) => {
                    let tried = std::mem::replace(&mut attempt, 1);
                    let calls = calls.into_iter().map(|call| call.attempt(tried)).collect();
                    let (input, opened) = self.execute(calls).await;
                    if let Some(rendered) = opened {
                        showing = shown(rendered);
                    }
                    input
                }
                Next::Finish(text) => {
                    let left = conversation.reminders_left();
                    let (input, output) = self.judged(showing.rendered(), left, text).await;
                    parsed = output;
                    input
                }
            };
            match &input {
                Input::Failed { error, .. } => {
                    let asked_for = error.retry_after;
                    *not_before = asked_for.and_then(|after| self.clock().now().checked_add(after).ok());
                }
                Input::Said(_) => *not_before = None,
                Input::Waited | Input::Stopped { .. } => {}
            }
            self.tell(conversation, input, parsed).await?;
        }
    }

    /// Keeps until when the provider wants to be left alone, for whoever takes the run up before that.
    fn put_off(&self, conversation: &Conversation, until: Timestamp) {
        let (run, time) = (Arc::clone(conversation.run()), self.clock().now());
        if until <= time {
            return;
        }
        let (said, number) = (Said::PutOff { until }, Some(conversation.steps() + 1));
        let kept = self.session().dispatch(ConversationStep { run, time, said, withheld: false, number });
        if !kept.is_ok() {
            tracing::warn!(?kept, "how long the provider wants to be left alone could not be kept");
        }
    }
}

impl Ground<'_> {
    /// Tells the conversation what happened, and keeps what was said.
    pub(crate) async fn tell(
        &self,
        conversation: &mut Conversation,
        input: Input,
        parsed: Option<Parsed>,
    ) -> Result<(), StopReason> {
        let mut input = input;
        if let Input::Said(Said::Answered { tally, .. }) | Input::Stopped { tally, .. } = &mut input {
            tally.usage = self.spent.take();
        }
        let Input::Said(said) = input else {
            return conversation.take(input).map_err(misfit);
        };
        conversation.take(Input::Said(said.clone())).map_err(misfit)?;
        let costs = match &said {
            Said::Responded(response) => {
                self.count(response.usage);
                true
            }
            // Of sub-runs.
            Said::Answered { .. } => true,
            Said::Began { .. } | Said::Reminded { .. } | Said::PutOff { .. } | Said::Finished { .. } => false,
        };
        self.keep(conversation, said, parsed).await?;
        if costs { self.stop_if_used_up(conversation) } else { Ok(()) }
    }

    pub(crate) fn stop_if_used_up(&self, conversation: &mut Conversation) -> Result<(), StopReason> {
        match self.budgets.iter().find_map(|budget| budget.check().err()) {
            Some(error) if !conversation.has_ended() => {
                let stopped = Input::Stopped { reason: StopReason::Budget(error), tally: Tally::default() };
                conversation.take(stopped).map_err(misfit)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Keeps what was said in the session, and on its disk where something depends on it.
    pub(crate) async fn keep(
        &self,
        conversation: &Conversation,
        said: Said,
        parsed: Option<Parsed>,
    ) -> Result<(), StopReason> {
        let session = self.session();
        let (must_last, finished) = (said.must_last(), matches!(said, Said::Finished { .. }));
        let (said, withheld) = self.without_sensitive(said);
        let (run, time) = (Arc::clone(conversation.run()), session.clock().now());
        let step = ConversationStep { run, time, said, withheld, number: Some(conversation.steps()) };
        let kept = session.dispatch(step.clone());
        if !kept.failures.is_empty() {
            return Err(StopReason::Runtime(format!("what was said could not be kept: {:?}", kept.failures)));
        }
        // In one batch with the step: nothing is sent before the flush.
        if finished && let Next::Ended(Ended::Completed(completed)) = conversation.next() {
            self.record(conversation, completed, parsed);
        }
        if must_last {
            let failed = |error| StopReason::Runtime(format!("what was said could not be stored: {error}"));
            session.flush().await.map_err(failed)?;
            // The run is this one's alone; should it not be, nothing is done twice all the same.
            if step.is_contested(session) {
                return Err(StopReason::Elsewhere { run: step.run });
            }
        }
        Ok(())
    }

    /// As it may be in the log, and whether something is missing.
    fn without_sensitive(&self, mut said: Said) -> (Said, bool) {
        let Said::Responded(response) = &mut said else { return (said, false) };
        let mut withheld = false;
        for call in &mut response.calls {
            let Some(placed) = self.prompt.placed_tools().find(|placed| *placed.name() == call.name) else {
                continue;
            };
            let masked = placed.tool.contract().masked(&call.arguments);
            withheld |= masked != call.arguments;
            call.arguments = masked;
        }
        if withheld {
            // The provider's own form of the calls may be in it.
            response.provider = None;
        }
        (said, withheld)
    }

    /// Says in the log that the prompt was evaluated, and puts its result where it belongs.
    fn record(&self, conversation: &Conversation, completed: Completed, parsed: Option<Parsed>) {
        let session = self.session();
        let recorded = session.dispatch(PromptExecuted {
            run: Arc::clone(&self.run),
            prompt: Arc::clone(self.prompt.name()),
            time: session.clock().now(),
            text: completed.text,
            output: completed.output.map_or(LoggedValue::None, LoggedValue::Json),
            usage: Some(conversation.stats().usage),
        });
        if !recorded.is_ok() {
            tracing::warn!(?recorded, "the end of an evaluation was recorded with failures");
        }
        if let Some(parsed) = parsed {
            parsed.dispatch(session);
        }
    }
}

impl Driver<'_> {
    async fn ask(&self, request: &ModelRequest) -> Input {
        let asking = async {
            let responding = catch_panic(|| self.model.respond(request, &self.watch, self.cancel))?;
            CatchPanic::new(responding).await
        };
        match self.held(asking).await {
            Ok(Err(panic)) => {
                tracing::error!(panic, model = self.model.name(), "a model panicked");
                let reason = StopReason::Runtime("the model panicked when it was asked".to_owned());
                Input::Stopped { reason, tally: Tally::default() }
            }
            Ok(Ok(Ok(response))) => Input::Said(Said::Responded(response)),
            Ok(Ok(Err(error))) => {
                let clock = self.clock();
                tracing::info!(%error, "a request failed");
                self.watch.failed(&error);
                let left = self.deadline.map(|deadline| deadline.remaining(&**clock));
                Input::Failed { error, at: clock.monotonic(), left, chance: self.random.any() }
            }
            Err(reason) => Input::Stopped { reason, tally: Tally::default() },
        }
    }
}

impl Ground<'_> {
    pub(crate) async fn wait(&self, wait: Duration) -> Input {
        self.watch.waiting(wait);
        let until = self.clock().monotonic().saturating_add(wait);
        if self.tape.is_some_and(|tape| tape.died_before(until)) {
            return Input::Stopped { reason: StopReason::Cancelled, tally: Tally::default() };
        }
        match self.held(self.clock().sleep_until(until)).await {
            Ok(()) => Input::Waited,
            Err(reason) => Input::Stopped { reason, tally: Tally::default() },
        }
    }

    /// What was used before counts, too: once, in a tracker that may have counted some of it.
    pub(crate) fn take_up(&self, conversation: &mut Conversation) -> Result<(), StopReason> {
        let (run, used) = (self.run_id(), conversation.stats().usage);
        for budget in self.budgets {
            let known = budget.used_under(run);
            budget.record(
                run,
                TokenUsage {
                    input_tokens: used.input_tokens.saturating_sub(known.input_tokens),
                    output_tokens: used.output_tokens.saturating_sub(known.output_tokens),
                    cached_tokens: used.cached_tokens.saturating_sub(known.cached_tokens),
                },
            );
        }
        self.stop_if_used_up(conversation)
    }

    /// Executes the calls of a response, and gives the prompt as it is afterwards if they opened sections.
    pub(crate) async fn execute(&self, calls: Vec<ToolCall>) -> (Input, Option<Arc<RenderedPrompt>>) {
        let calls: Vec<ToolCall> = calls.into_iter().map(|call| self.keyed(call)).collect();
        self.watch.calls(&calls);
        let (outcomes, tally) = self.outcomes(calls).await;
        let mut opened = None;
        if let Some(escalation) = outcomes.iter().find_map(|outcome| outcome.escalation.clone()) {
            match self.escalated(escalation) {
                Ok(rendered) => opened = Some(rendered),
                Err(reason) => return (Input::Stopped { reason, tally }, None),
            }
        }
        let answers = outcomes.iter().map(ToolAnswer::from).collect();
        (Input::Said(Said::Answered { answers, tally, expanded: opened.is_some() }), opened)
    }

    /// What a call asks of whoever drives it: the prompt as it is with the opened sections, or the end.
    pub(crate) fn escalated(&self, escalation: Escalation) -> Result<Arc<RenderedPrompt>, StopReason> {
        let exhausted = || {
            let past = self.deadline.and_then(|deadline| deadline.check(&**self.clock()).err());
            let over = || self.budgets.iter().find_map(|budget| budget.check().err());
            past.map(StopReason::Deadline).or_else(|| over().map(StopReason::Budget))
        };
        match escalation {
            Escalation::Visibility(expansion) => {
                self.executor.expand(&expansion).map_err(|error| StopReason::Runtime(error.to_string()))
            }
            Escalation::Evaluation(error) => Err(exhausted().unwrap_or(StopReason::Evaluation(error))),
            Escalation::Cancelled => Err(StopReason::Cancelled),
            Escalation::Restore(error) => Err(StopReason::Runtime(error.to_string())),
            other => Err(StopReason::Runtime(other.to_string())),
        }
    }

    /// What follows from the model's last word.
    pub(crate) async fn judged(
        &self,
        rendered: &RenderedPrompt,
        reminders_left: u32,
        text: Arc<str>,
    ) -> (Input, Option<Parsed>) {
        let judging = finish::judge(self.prompt, rendered, self.executor, &text);
        match self.until_stopped(judging).await.flatten() {
            Ok(judged) => finished(judged, reminders_left, text),
            Err(reason) => (Input::Stopped { reason, tally: Tally::default() }, None),
        }
    }

    /// Says that all of the log is to stay there, whatever came of a run.
    pub(crate) async fn flush(&self) {
        if let Err(error) = self.session().flush().await {
            tracing::error!(%error, "the end of a run could not be stored");
        }
    }

    /// Work that is only begun if the run need not stop.
    pub(crate) async fn held<T>(&self, work: impl Future<Output = T>) -> Result<T, StopReason> {
        if self.cancel.is_cancelled() {
            return Err(StopReason::Cancelled);
        }
        if let Some(deadline) = self.deadline {
            deadline.check(&**self.clock())?;
        }
        self.until_stopped(work).await
    }

    /// Work, until it is done or the run must stop. What is not done then is dropped.
    async fn until_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, StopReason> {
        let deadline = async {
            let Some(deadline) = self.deadline else { return std::future::pending().await };
            // The clock may be set back meanwhile; what counts is the time then.
            while !deadline.is_past(&**self.clock()) {
                let until = self.clock().monotonic().saturating_add(deadline.remaining(&**self.clock()));
                self.clock().sleep_until(until).await;
            }
            StopReason::Deadline(deadline.exceeded())
        };
        let (work, deadline) = (pin!(work), pin!(deadline));
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.cancel.cancelled() => Err(StopReason::Cancelled),
            reason = deadline => Err(reason),
        }
    }

    /// Request keys are for runs that can be taken up again.
    pub(crate) fn keyed(&self, call: ToolCall) -> ToolCall {
        match self.session().store().durability() {
            Durability::Restart => call,
            Durability::Process => ToolCall { request_key: None, ..call },
        }
    }

    pub(crate) fn count(&self, usage: TokenUsage) {
        for budget in self.budgets {
            budget.record(self.run_id(), usage);
        }
        self.spends_for.iter().for_each(|spent| spent.add(usage));
    }

    pub(crate) fn run_id(&self) -> &str {
        self.run.run_id.as_deref().unwrap_or_default()
    }

    pub(crate) fn session(&self) -> &Session {
        self.executor.session()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        self.session().clock()
    }
}

fn misfit(error: Unexpected) -> StopReason {
    StopReason::Runtime(error.to_string())
}

/// What follows from the model's last word: it is told what is wrong, as often as it may be, and then that is how it is.
pub(crate) fn finished(judged: Judged, reminders_left: u32, text: Arc<str>) -> (Input, Option<Parsed>) {
    let said = |said| (Input::Said(said), None);
    match (judged.output, judged.missing) {
        (Err(wrong), _) if reminders_left > 0 => said(Said::Reminded { missing: wrong.to_string().into() }),
        (Ok(_), Some(missing)) if reminders_left > 0 => said(Said::Reminded { missing }),
        (Err(wrong), _) => {
            // Nobody answers again who could be told to.
            let reason = StopReason::Output { reason: wrong.kind.to_string(), text };
            (Input::Stopped { reason, tally: Tally::default() }, None)
        }
        (Ok(parsed), missing) => {
            let output = parsed.as_ref().map(Parsed::json);
            (Input::Said(Said::Finished { output, missing }), parsed)
        }
    }
}
