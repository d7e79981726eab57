//! What happens in each step up to the commit.

use std::pin::pin;
use std::sync::Arc;

use super::call::{Call, HandlerState};
use super::outcome::{Escalation, Failure};
use super::stop::{StopWhen, Stopped, held_to};
use crate::ledger::ToolEffect;
use crate::limits::{BudgetExceededError, DeadlineExceededError};
use crate::policy::{PolicyCall, PolicyContext, PolicyFiles, PolicyMemory, ResultView};
use crate::prompt::{PlacedTool, RenderedPrompt};
use crate::session::{Ending, LoggedParams, LoggedValue};
use crate::store::{CallMark, StoreError};
use crate::tool::context::CallContext;
use crate::tool::erased::ErasedResult;
use crate::tool::schema::nearest;
use crate::tool::{HandlerKind, Phase, PromptEvaluationError, ToolError, VisibilityExpansionRequired};
use crate::transaction::{InsideCall, Transaction, take_turn_of_call};

impl Call {
    pub(super) fn lookup(&mut self) -> Result<(), Box<Failure>> {
        if self.repeated {
            let id = super::shown_name(&self.invocation.call_id);
            let text = format!("call id '{id}' was used twice in one response; only the first call was run");
            return Err(Failure::new(Ending::Rejected, text));
        }
        let Some(rendered) = self.around.rendered.clone() else {
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
            return Err(self.unavailable(&rendered, &why));
        };
        self.placed = Some(placed.clone());
        if placed.tool.contract().handler == HandlerKind::Missing {
            let why = format!("Tool '{}' has no handler here and cannot be called", self.name);
            return Err(self.unavailable(&rendered, &why));
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

    pub(super) async fn context(&mut self) -> Result<(), Box<Failure>> {
        self.take_turn().await?;
        for error in self.shared.resources.drain().await {
            tracing::warn!(%error, "a resource of an earlier call could not be closed");
        }
        Ok(())
    }

    pub(super) fn is_idempotent(&self) -> bool {
        self.placed.as_ref().is_some_and(|placed| placed.tool.contract().idempotency.is_some())
    }

    pub(super) fn has_listening_policies(&self) -> bool {
        let mut policies = self.placed.iter().flat_map(|placed| placed.policies.iter());
        policies.any(|placed| placed.policy.wants_results())
    }

    /// Waits for the session's turn.
    pub(super) async fn take_turn(&mut self) -> Result<(), Box<Failure>> {
        let turn = match &self.place {
            Some(place) => place.turn(self).await,
            None => take_turn_of_call(&self.shared.session).await,
        };
        let refused = |reason: InsideCall| {
            let text = format!("{} was not run: {reason}", self.name);
            Failure::new(Ending::Unavailable, text).because(vec![reason.to_string()])
        };
        self.turn = Some(turn.map_err(refused)?);
        Ok(())
    }

    pub(super) async fn begin(&mut self) -> Result<(), Box<Failure>> {
        let session = &self.shared.session;
        if session.is_durable() {
            let mark = CallMark {
                invocation: self.invocation.id,
                call_id: self.invocation.call_id.to_string(),
                tool: self.name.to_string(),
                arguments: self.logged.as_ref().map(|logged| logged.text().to_owned()).unwrap_or_default(),
                prompt: self.around.prompt.name().to_string(),
                adapter: self.around.adapter.name.to_string(),
                time: self.invocation.time,
            };
            session.store().begin(session.id(), mark).await.map_err(|error| self.store_failed(&error))?;
        }
        if let Some(place) = &self.place {
            place.asks_no_more();
        }
        let turn = self.turn.take();
        let call = Some((Arc::clone(&self.name), self.invocation.id));
        let footprint = self.footprint.take();
        let tag = Arc::clone(&self.name);
        let scope = self.glance.take().unwrap_or_else(|| self.shared.resources.tool_scope());
        self.tx = Some(Transaction::begin_on(session, scope, turn, footprint, tag, call));
        Ok(())
    }

    pub(super) async fn handler(&mut self) -> Result<(), Box<Failure>> {
        let (Some(placed), Some(tx)) = (self.placed.clone(), &self.tx) else { return Err(lost("the call")) };
        if let Some(effect) = &self.replay {
            let result = revived(&placed.tool, effect).map_err(|reason| {
                let text = format!("the recorded result of {} cannot be read: {reason}", self.name);
                Failure::new(Ending::Errored, text).because(vec![reason])
            })?;
            let again = effect.session == *self.session().id();
            self.result = Some(result);
            return if again { Ok(()) } else { self.publish() };
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
        let when = StopWhen::within(contract.timeout);
        let clock = Arc::clone(self.session().clock());
        // From here on the outside world may have been touched.
        self.handler = HandlerState::Running;
        let ran = match contract.handler {
            HandlerKind::Blocking => {
                let run = super::blocking::run(&self.shared, placed.tool.clone(), params, cx);
                held_to(&when, &clock, pin!(run)).await
            }
            HandlerKind::Async | HandlerKind::Missing => {
                held_to(&when, &clock, pin!(placed.tool.inner.run(params, cx))).await
            }
        };
        let returned = match ran {
            Ok(returned) => returned,
            Err(stopped) => return Err(self.handler_stopped(stopped)),
        };
        match returned {
            Ok(result) if result.success => {
                self.handler = HandlerState::Succeeded;
                self.result = Some(result);
                self.publish()
            }
            Ok(result) => {
                self.handler = HandlerState::Refused;
                Err(refused(&placed.tool, result))
            }
            Err(error) => {
                self.handler = HandlerState::Refused;
                Err(self.raised(&error))
            }
        }
    }

    /// Dispatches a success's value to its slices.
    fn publish(&mut self) -> Result<(), Box<Failure>> {
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
            let told = async {
                match placed.policy.covers(&call) {
                    true => placed.policy.on_result(&call, &view, &cx, &memory).await,
                    false => Ok(()),
                }
            };
            let problem = match held_to(&when, self.session().clock(), pin!(told)).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(stopped) => format!("{stopped:?}"),
            };
            // Half of what it wanted to remember is worse than nothing.
            let _ = work.roll_back_to(mark);
            tracing::error!(policy = &*placed.key, problem, "a policy failed on a result; the result stands");
        }
        Ok(())
    }

    pub(super) async fn subscribers(&mut self) -> Result<(), Box<Failure>> {
        if let Some(place) = &mut self.place {
            place.wait().await?;
        }
        self.make_candidate();
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
        let dispatcher = self.shared.session.dispatcher();
        if !dispatcher.has_subscribers::<crate::session::ToolInvoked>() {
            return Ok(());
        }
        let delivery = dispatcher.deliver(&**event, &tx.work().source());
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

    fn handler_stopped(&self, stopped: Stopped) -> Box<Failure> {
        match stopped {
            Stopped::Panicked(panic) => {
                tracing::error!(tool = &*self.name, panic, "a handler panicked");
                let text =
                    format!("{} failed unexpectedly (it panicked); {}", self.name, self.what_remains());
                Failure::new(Ending::Panicked, text).because(vec![format!("panic: {panic}")])
            }
            Stopped::Timeout(limit) => {
                let text = format!(
                    "{} took longer than {limit:?} and was stopped; {}",
                    self.name,
                    self.what_remains()
                );
                Failure::new(Ending::TimedOut, text)
            }
            Stopped::Cancelled | Stopped::Deadline(_) => lost("the handler"),
        }
    }

    /// What an error that a handler returned means.
    fn raised(&self, error: &ToolError) -> Box<Failure> {
        let chain = error.chain();
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
        Failure::new(Ending::Errored, error.text()).because(chain)
    }

    pub(super) fn store_failed(&self, error: &StoreError) -> Box<Failure> {
        let text = format!("{} was not run: {error}; nothing was changed", self.name);
        Failure::new(Ending::NotCommitted, text)
            .because(vec![error.to_string()])
            .escalating(Escalation::Store(error.clone().into()))
    }
}

/// A failed result, as it is.
fn refused(tool: &crate::tool::AnyTool, result: ErasedResult) -> Box<Failure> {
    let mut failure = Failure::new(Ending::Failed, result.message);
    if let Some(value) = result.value {
        if !result.hidden {
            failure.rendered_value = tool.inner.render(value.as_ref()).into_owned();
        }
        failure.value = LoggedValue::Typed(value);
        failure.hidden = result.hidden;
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
