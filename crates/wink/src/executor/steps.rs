//! What happens in each step up to the commit.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::Executor;
use super::call::{Call, HandlerState};
use super::govern::MOST_CHANGES;
use super::outcome::{CatchUpError, Escalation, Failure};
use super::stop::{StopWhen, Stopped, held_to};
use crate::filesystem::{Filesystem, FsError};
use crate::ledger::ToolEffect;
use crate::limits::{BudgetExceededError, DeadlineExceededError};
use crate::policy::{PolicyCall, PolicyContext, PolicyFiles, PolicyMemory, ResultView, try_tell};
use crate::prompt::{PlacedTool, RenderedPrompt};
use crate::session::{Ending, LoggedParams, LoggedValue, RunContext};
use crate::store::{CallMark, StoreError};
use crate::support::future::{Contained, catch};
use crate::support::lock::lock;
use crate::tool::context::{CallContext, Surroundings};
use crate::tool::erased::ErasedResult;
use crate::tool::footprint::Footprint;
use crate::tool::render::bounded;
use crate::tool::schema::nearest;
use crate::tool::{
    HandlerKind, Isolation, Phase, PromptEvaluationError, ToolError, VisibilityExpansionRequired,
};
use crate::transaction::{NoTurn, RestoreFailedError, Transaction, take_turn_of_call, try_turn_of_call};

impl Call {
    /// Finds the tool, as the prompt was rendered last; false if others may have opened its section since.
    pub(super) fn lookup_now(&mut self) -> Result<bool, Box<Failure>> {
        if self.repeated {
            let id = super::shown_name(&self.invocation.call_id);
            let text = format!("call id '{id}' was used twice in one response; only the first call was run");
            return Err(Failure::new(Ending::Rejected, text));
        }
        if self.shared.may_be_open(&self.around, &self.name) {
            return Ok(false);
        }
        self.lookup().map(|()| true)
    }

    /// Finds the tool in the prompt as the store has the session now.
    pub(super) async fn lookup_again(&mut self) -> Result<(), Box<Failure>> {
        let executor = Executor { shared: Arc::clone(&self.shared) };
        match executor.catch_up().await {
            Ok(rendered) => self.sees(rendered),
            Err(CatchUpError::Store(error)) => return Err(self.store_failed(&error)),
            // What can be called is what was rendered last.
            Err(CatchUpError::Render(error)) => {
                tracing::error!(%error, "the prompt cannot be rendered as the session is now");
            }
        }
        self.lookup()
    }

    /// The prompt that this call is looked up in.
    pub(super) fn sees(&mut self, rendered: Arc<RenderedPrompt>) {
        let around = Surroundings { rendered: Some(rendered), ..Surroundings::clone(&self.around) };
        self.around = Arc::new(around);
    }

    pub(super) fn lookup(&mut self) -> Result<(), Box<Failure>> {
        let Some(rendered) = &self.around.rendered else {
            return Err(Failure::new(
                Ending::Unavailable,
                "no tools are available: the prompt was not rendered",
            ));
        };
        let Some(placed) = rendered.find(&self.name) else {
            let why = match rendered.hidden(&self.name) {
                Some(hidden) => format!("Tool '{}' is not available: {hidden}", self.name),
                None => format!("Unknown tool '{}'", super::shown_name(&self.name)),
            };
            return Err(self.unavailable(rendered, &why));
        };
        self.placed = Some(placed.clone());
        if placed.tool.contract().handler == HandlerKind::Missing {
            let why = format!("Tool '{}' has no handler here and cannot be called", self.name);
            return Err(self.unavailable(rendered, &why));
        }
        Ok(())
    }

    /// Why the tool cannot be called, and the nearest one that can be.
    fn unavailable(&self, rendered: &RenderedPrompt, why: &str) -> Box<Failure> {
        let callable = |placed: &&PlacedTool| placed.tool.contract().handler != HandlerKind::Missing;
        let names = rendered.tools().iter().filter(callable).map(|placed| &**placed.tool.name());
        let hint = match nearest(&self.name, names) {
            Some(name) => format!("{why}. Did you mean '{name}'?"),
            None => format!("{why}. Call one of the tools that you were given."),
        };
        Failure::new(Ending::Unavailable, hint)
    }

    pub(super) fn parse(&mut self) -> Result<(), Box<Failure>> {
        let Some(placed) = &self.placed else { return Err(lost("the tool")) };
        match placed.tool.inner.parse(&self.raw, &self.shared.limits.parse) {
            Ok(params) => {
                // A declared footprint is enforced; the tool's own value goes where it goes.
                let declared = placed.tool.inner.footprint(&params);
                self.footprint = declared.map(|own| own.and(self.shared.published_footprint(&placed.tool)));
                self.logged = Some(LoggedParams::Accepted(self.masked()));
                self.params = Some(params);
                Ok(())
            }
            Err(rejection) => {
                let problems: Arc<str> = rejection.to_string().into();
                let raw = self.shared.logged(&self.masked());
                self.logged = Some(LoggedParams::Rejected { raw, problems: Arc::clone(&problems) });
                Err(Failure::new(Ending::Rejected, &*problems))
            }
        }
    }

    pub(super) fn deadline(&mut self) -> Result<(), Box<Failure>> {
        if let Some(deadline) = self.around.deadline
            && deadline.is_past(&**self.session().clock())
        {
            return Err(self.exhausted(&deadline.exceeded().to_string(), Some(deadline)));
        }
        if let Some(budget) = &self.around.budget
            && let Err(error) = budget.check()
        {
            return Err(self.exhausted(&error.to_string(), None));
        }
        Ok(())
    }

    /// The context's step, when nobody else has the session and there is nothing to be cleared up or noted first.
    pub(super) fn context_now(&mut self) -> bool {
        if self.place.is_some() || self.shared.resources.has_orphans() || self.session().is_durable() {
            return false;
        }
        self.turn = try_turn_of_call(&self.shared.session);
        self.turn.is_some()
    }

    pub(super) async fn context(&mut self) -> Result<(), Box<Failure>> {
        // Before it waits: others may have the session for long, and the process may die meanwhile.
        self.mark().await?;
        self.take_turn().await?;
        for error in self.shared.resources.drain().await {
            tracing::warn!(%error, "a resource of an earlier call could not be closed");
        }
        self.free_since = self.session().clock().monotonic();
        Ok(())
    }

    /// From here on a call whose process dies is known to have been on its way. Its event strikes the mark out.
    pub(super) async fn mark(&mut self) -> Result<(), Box<Failure>> {
        let session = &self.shared.session;
        if self.marked || !session.is_durable() {
            return Ok(());
        }
        // As much as the event keeps: many may wait.
        let most = self.shared.limits.max_logged_bytes;
        let arguments = match &self.logged {
            Some(logged) => bounded(logged.text(), most).into_owned(),
            None => bounded(&self.masked(), most).into_owned(),
        };
        let mark = CallMark {
            invocation: self.invocation.id,
            call_id: self.invocation.call_id.to_string(),
            tool: super::shown_name(&self.name).into_owned(),
            arguments,
            prompt: self.around.prompt.name().to_string(),
            adapter: self.around.adapter.name.to_string(),
            time: self.invocation.time,
            run: Some(RunContext::clone(&self.around.run)).filter(|run| *run != RunContext::default()),
            request: self.request_key.as_ref().map(|key| bounded(key, most).into_owned()),
            attempt: Some(self.invocation.attempt),
        };
        session.store().begin(session.id(), mark).await.map_err(|error| self.store_failed(&error))?;
        self.marked = true;
        Ok(())
    }

    pub(super) fn is_idempotent(&self) -> bool {
        self.placed.as_ref().is_some_and(|placed| placed.tool.contract().idempotency.is_some())
            || self.once_by_request().is_some()
    }

    /// Whether it holds the workspace's write turn while it runs.
    pub(super) fn is_serial(&self) -> bool {
        let contract = self.placed.as_ref().map(|placed| placed.tool.contract());
        contract.is_some_and(|contract| contract.isolation == Isolation::Serial)
    }

    /// Whether it may write files, as far as it says.
    pub(super) fn may_write_files(&self) -> bool {
        let contract = self.placed.as_ref().map(|placed| placed.tool.contract());
        contract.is_some_and(|contract| !contract.annotations.read_only)
            && self.footprint.as_ref().is_none_or(Footprint::writes_files)
    }

    /// Takes the workspace's write turn, and asks the policies again: what they allowed was the state before it.
    pub(super) async fn take_write_turn(&mut self) -> Result<(), Box<Failure>> {
        let is_covered = self.placed.as_ref().is_some_and(|placed| !placed.policies.is_empty());
        for _ in 0..=MOST_CHANGES {
            if self.write_turn.is_some() {
                return Ok(());
            }
            self.wait_for_write_turn().await?;
            if self.write_turn.is_none() || !is_covered {
                return Ok(());
            }
            // An approver is asked without the turn.
            self.policies_again().await?;
        }
        let text =
            format!("{} was not run: it kept waiting for approval and for the workspace in turns", self.name);
        Err(Failure::new(Ending::Denied, text))
    }

    /// Waits for the workspace's write turn, as long as the tool may take. After the session's turn, and before a claim: the
    /// holder of the turn may wait for neither.
    async fn wait_for_write_turn(&mut self) -> Result<(), Box<Failure>> {
        let patience = self.placed.as_ref().and_then(|placed| placed.tool.contract().timeout);
        let files = self.glance.get_optional::<dyn Filesystem>(&self.shared.resources).await;
        // A workspace that cannot be had fails the handler that wants it, and no other.
        let Ok(Some(files)) = files else { return Ok(()) };
        match files.write_turn(patience).await {
            Ok(turn) => self.write_turn = turn,
            // What a dead process left in the workspace cannot be taken back.
            Err(error @ FsError::NotUndone { .. }) => return Err(self.raised(&error.into())),
            Err(error) => {
                let text = format!(
                    "{} was not run: it waits for the workspace's write turn, and {error}; nothing was changed",
                    self.name
                );
                return Err(Failure::new(Ending::TimedOut, text).because(vec![error.to_string()]));
            }
        }
        Ok(())
    }

    /// The request's key, if it is what keeps the effect from happening twice: a tool that says something of its effects
    /// itself is taken at its word, and one that only reads has none.
    pub(super) fn once_by_request(&self) -> Option<&Arc<str>> {
        let contract = self.placed.as_ref()?.tool.contract();
        let concerns = contract.idempotency.is_none() && !contract.annotations.read_only;
        self.request_key.as_ref().filter(|_| concerns)
    }

    pub(super) fn has_listening_policies(&self) -> bool {
        self.placed.as_ref().is_some_and(|placed| placed.is_listened_to)
    }

    /// Waits for the session's turn.
    pub(super) async fn take_turn(&mut self) -> Result<(), Box<Failure>> {
        let turn = match &self.place {
            Some(place) => place.turn(self).await,
            None => take_turn_of_call(&self.shared.session).await,
        };
        let refused = |reason: NoTurn| match reason {
            NoTurn::Inside(reason) => {
                let text = format!("{} was not run: {reason}", self.name);
                Failure::new(Ending::Unavailable, text).because(vec![reason.to_string()])
            }
            NoTurn::Store(error) => self.store_failed(&error),
        };
        self.turn = Some(turn.map_err(refused)?);
        Ok(())
    }

    pub(super) fn begin(&mut self) {
        let session = &self.shared.session;
        if let Some(place) = &self.place {
            place.asks_no_more();
        }
        let turn = self.turn.take();
        let call = Some((Arc::clone(&self.name), self.invocation.id));
        let footprint = self.footprint.take();
        let tag = Arc::clone(&self.name);
        let scope = self.glance.begin(&self.shared.resources);
        let mut tx = Transaction::begin_on(session, scope, turn, footprint, tag, call);
        // Its fork uses the lock that the turn holds. One that cannot be had now would wait for it.
        if let Some(turn) = self.write_turn.take()
            && let Ok(Some(files)) = tx.work().resources.ready::<dyn Filesystem>()
        {
            files.enter_turn(&turn);
            tx.hold(turn);
        }
        self.tx = Some(tx);
    }

    /// Whether the store has to be told that the handler starts. A replay starts none.
    pub(super) fn is_to_be_started(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.is_to_be_started())
    }

    /// Tells the store that the handler starts; if that fails, it does not.
    pub(super) async fn start(&mut self) -> Result<(), Box<Failure>> {
        let Some(claim) = &mut self.claim else { return Ok(()) };
        let started = claim.start().await;
        started.map_err(|error| self.store_failed(&error))
    }

    /// Starts the handler; false if it has to be waited for.
    pub(super) fn handler_now(&mut self, task: &mut Context<'_>) -> Result<bool, Box<Failure>> {
        let (Some(placed), Some(tx)) = (&self.placed, &self.tx) else { return Err(lost("the call")) };
        if let Some(effect) = &self.replay {
            let result = revived(&placed.tool, effect).map_err(|reason| {
                let text = format!("the recorded result of {} cannot be read: {reason}", self.name);
                Failure::new(Ending::Errored, text).because(vec![reason])
            })?;
            self.result = Some(self.shared.withheld_result(&placed.tool, result));
            self.publish_replayed()?;
            return Ok(true);
        }
        let cx = CallContext {
            around: Arc::clone(&self.around),
            work: Arc::clone(tx.work()),
            tool: placed.tool.clone(),
            invocation: self.invocation.clone(),
            arguments: match &self.logged {
                Some(LoggedParams::Accepted(text)) => Arc::clone(text),
                Some(LoggedParams::Rejected { .. }) | None => Arc::default(),
            },
            idempotency_key: self.claim.as_ref().map(|claim| Arc::clone(&claim.key)),
            cancel: self.cancel.clone(),
        };
        let Some(params) = self.params.take() else { return Err(lost("the arguments")) };
        let contract = placed.tool.contract();
        // From here on the outside world may have been touched.
        self.handler = HandlerState::Running;
        let timed = contract.timeout.is_some();
        if timed {
            self.free_since = self.shared.session.clock().monotonic();
        }
        let running = match contract.handler {
            HandlerKind::Blocking => {
                Box::pin(super::blocking::run(Arc::clone(&self.shared), placed.tool.clone(), params, cx))
            }
            HandlerKind::Async | HandlerKind::Missing => placed.tool.inner.run(params, cx),
        };
        let mut running = Contained::new(running);
        match catch(|| Pin::new(&mut running).poll(task)) {
            Ok(Poll::Ready(returned)) => {
                drop(running);
                if timed {
                    let limit = self.handler_limit();
                    limit.in_time(self.session().clock()).map_err(|late| self.stopped(late))?;
                }
                self.returned(returned)?;
                Ok(true)
            }
            Ok(Poll::Pending) => {
                self.running = Mutex::new(Some(running));
                Ok(false)
            }
            Err(panic) => Err(self.stopped(Stopped::Panicked(panic))),
        }
    }

    /// Waits for a handler that has started.
    pub(super) async fn handler(&mut self) -> Result<(), Box<Failure>> {
        let Some(mut running) = lock(&self.running).take() else { return Err(lost("the handler")) };
        let clock = Arc::clone(self.session().clock());
        // It was polled just now, and is polled again when it wakes us: a handler that yields lets others go on.
        let mut rests = true;
        let running = poll_fn(move |task| match std::mem::take(&mut rests) {
            true => Poll::Pending,
            false => Pin::new(&mut running).poll(task),
        });
        let ran = held_to(&self.handler_limit(), &clock, pin!(running)).await;
        let returned = ran.map_err(|stopped| self.stopped(stopped))?;
        self.returned(returned)
    }

    fn handler_limit(&self) -> StopWhen<'static> {
        let limit = self.placed.as_ref().and_then(|placed| placed.tool.contract().timeout);
        StopWhen { since: Some(self.free_since), ..StopWhen::within(limit) }
    }

    fn returned(&mut self, returned: Result<ErasedResult, ToolError>) -> Result<(), Box<Failure>> {
        let Some(placed) = &self.placed else { return Err(lost("the tool")) };
        match returned.map(|result| self.shared.withheld_result(&placed.tool, result)) {
            Ok(result) if result.success => {
                self.handler = HandlerState::Succeeded;
                self.result = Some(result);
                self.publish()
            }
            Ok(result) => {
                self.handler = HandlerState::Refused;
                Err(refused(result))
            }
            Err(error) => {
                // One that cannot tell what became of its effect is as good as stopped.
                if !error.leaves_doubt() {
                    self.handler = HandlerState::Refused;
                }
                Err(self.raised(&error))
            }
        }
    }

    /// Dispatches a success's value to its slices.
    pub(super) fn publish(&mut self) -> Result<(), Box<Failure>> {
        let (Some(placed), Some(tx), Some(result)) = (&self.placed, &self.tx, &self.result) else {
            return Err(lost("the result"));
        };
        let Some(value) = &result.value else { return Ok(()) };
        for (kind, item) in placed.tool.inner.published(&self.shared.session, value) {
            match tx.work().dispatch_item(kind, item) {
                Ok(failures) => {
                    for failure in failures {
                        tracing::warn!(%failure, tool = &*self.name, "a tool's value did not reach its slice");
                    }
                }
                Err(error) => {
                    let text = format!("the value of {} could not be kept: {error}", self.name);
                    return Err(Failure::new(Ending::Errored, text));
                }
            }
        }
        Ok(())
    }

    pub(super) async fn on_result(&mut self) -> Result<(), Box<Failure>> {
        let (Some(placed), Some(tx), Some(result)) = (&self.placed, &self.tx, &self.result) else {
            return Err(lost("the result"));
        };
        // The handler took the parameters; policies get them again.
        let params = placed.tool.inner.parse(&self.raw, &self.shared.limits.parse);
        let params = params.map_err(|rejection| Failure::new(Ending::Errored, rejection.to_string()))?;
        let work = tx.work();
        let call = PolicyCall { tool: &placed.tool, params: &params };
        let view = ResultView {
            message: &result.message,
            replayed: self.replay.is_some(),
            value: result.value.as_deref(),
        };
        for placed in placed.policies.iter().filter(|placed| placed.policy.wants_results()) {
            let cx = PolicyContext {
                key: &placed.key,
                session: &self.shared.session,
                files: PolicyFiles::InCall(&work.resources),
                work: Some(work),
                invocation: &self.invocation,
                deadline: self.around.deadline,
            };
            let memory = PolicyMemory { key: &placed.key, work };
            let when = StopWhen::within(Some(self.shared.limits.policy_timeout));
            let Ok(mark) = work.mark() else { continue };
            let telling = pin!(try_tell(&*placed.policy, &call, &view, &cx, &memory));
            let told = match held_to(&when, self.session().clock(), telling).await {
                Ok(told) => told,
                Err(stopped) => Err(format!("{stopped:?}").into()),
            };
            if let Err(error) = memory.or_forget(mark, told) {
                tracing::error!(policy = &*placed.key, %error, "a policy failed on a result; the result stands");
            }
        }
        Ok(())
    }

    /// Waits until every call before this one in its batch is decided.
    pub(super) async fn wait_for_place(&mut self) -> Result<(), Box<Failure>> {
        match &mut self.place {
            Some(place) => place.wait().await,
            None => Ok(()),
        }
    }

    pub(super) fn subscribers(&mut self) -> Result<(), Box<Failure>> {
        self.make_candidate()?;
        self.ended = self.candidate.as_ref().map_or(self.ended, |(event, _)| event.ended_at());
        let (Some((event, _)), Some(tx)) = (&self.candidate, &self.tx) else {
            return Err(lost("the result"));
        };
        match tx.work().reduce_success(event) {
            Ok(failures) => {
                for failure in failures {
                    tracing::warn!(%failure, "the event of a call did not reach a slice");
                }
            }
            Err(error) => {
                let text = format!("{} was not committed: {error}; {}", self.name, self.what_remains());
                return Err(Failure::new(Ending::NotCommitted, text));
            }
        }
        let source = || Cow::Owned(tx.work().source_at(self.ended));
        let delivery = self.shared.session.dispatcher().deliver_from(&**event, source);
        if delivery.failures.is_empty() {
            return Ok(());
        }
        let text = format!(
            "{} was not committed: {}; {}",
            self.name,
            delivery.failures.join("; "),
            self.what_remains()
        );
        Err(Failure::new(Ending::NotCommitted, text).because(delivery.failures))
    }

    /// What an error that a handler returned means.
    fn raised(&self, error: &ToolError) -> Box<Failure> {
        let chain = error.chain().into_iter().map(|cause| self.shared.withheld(cause).into_owned());
        let chain: Vec<String> = chain.collect();
        tracing::info!(tool = &*self.name, chain = chain.join(": "), "a handler returned an error");
        if let Some(expansion) = error.find::<VisibilityExpansionRequired>() {
            let text = format!("opened {}", expansion.keys.join(", "));
            return Failure::new(Ending::Expanded, text)
                .because(chain)
                .escalating(Escalation::Visibility(expansion.clone()));
        }
        if let Some(raised) = error.find::<PromptEvaluationError>() {
            let text = format!("{} was stopped: {}; nothing was changed", self.name, raised.message);
            return Failure::new(Ending::Escalated, text)
                .because(chain)
                .escalating(Escalation::Evaluation(raised.clone()));
        }
        let not_undone = match error.find::<FsError>() {
            Some(FsError::NotUndone { reason, .. }) => Some(RestoreFailedError { reason: reason.clone() }),
            _ => error.find::<RestoreFailedError>().cloned(),
        };
        if let Some(failed) = not_undone {
            return Failure::new(Ending::NotRestored, error.text())
                .because(chain)
                .escalating(Escalation::Restore(failed));
        }
        let exhausted = match (error.find::<DeadlineExceededError>(), error.find::<BudgetExceededError>()) {
            (Some(passed), _) => Some((passed.to_string(), Some(passed.deadline))),
            (None, Some(exceeded)) => Some((exceeded.to_string(), None)),
            (None, None) => None,
        };
        if let Some((message, deadline)) = exhausted {
            let text = format!("{} was stopped: {message}; nothing was changed", self.name);
            let error = PromptEvaluationError { phase: Phase::Tool, message, deadline };
            return Failure::new(Ending::Exhausted, text)
                .because(chain)
                .escalating(Escalation::Evaluation(error));
        }
        let mut text = error.text();
        if error.leaves_doubt() && self.leaves_doubt() {
            text.push_str("\nWhether its effect outside happened is not known.");
        }
        Failure::new(Ending::Errored, text).because(chain)
    }

    pub(super) fn store_failed(&self, error: &StoreError) -> Box<Failure> {
        let text = format!("{} was not run: {error}; nothing was changed", self.name);
        Failure::new(Ending::NotCommitted, text)
            .because(vec![error.to_string()])
            .escalating(Escalation::Store(error.clone().into()))
    }
}

/// A failed result, as it is. Its payload is for the log, and not for the model.
fn refused(result: ErasedResult) -> Box<Failure> {
    let mut failure = Failure::new(Ending::Failed, result.message);
    if let Some(value) = result.value {
        failure.value = LoggedValue::Typed(value);
        failure.hidden = true;
    }
    failure
}

/// A recorded effect as a result.
fn revived(tool: &crate::tool::AnyTool, effect: &ToolEffect) -> Result<ErasedResult, String> {
    let value = effect.value.as_ref().map(|value| tool.inner.revive(value)).transpose()?;
    Ok(ErasedResult {
        message: effect.message.clone(),
        value,
        success: true,
        hidden: effect.exclude_value_from_context,
    })
}

/// A step found that an earlier one did not do its work. It cannot happen, and if it does, only the call fails.
pub(super) fn lost(what: &str) -> Box<Failure> {
    Failure::new(Ending::NotCommitted, format!("the runtime lost {what}; nothing was changed"))
}
