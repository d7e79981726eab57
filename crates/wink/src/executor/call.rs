//! One call on its way through the pipeline: what is known of it so far, and how it ends.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;

use super::Shared;
use super::approve::Approver;
use super::batch::Place;
use super::end::{End, to_settle, what_remains};
use super::govern::Approvals;
use super::logged::IsCut;
use super::outcome::{Failure, Outcome, ToolCall};
use super::step::Step;
use crate::filesystem::WriteTurn;
use crate::ledger::{Claim, ToolEffect};
use crate::limits::CancelToken;
use crate::prompt::PlacedTool;
use crate::resource::Glance;
use crate::session::{
    Closing, Ending, ErasedValue, LoggedDecision, LoggedParams, LoggedValue, Session, ToolInvoked,
};
use crate::support::background::{MustFinish, finish};
use crate::support::future::{Contained, catch, drop_contained};
use crate::tool::ToolError;
use crate::tool::context::{Invocation, Surroundings};
use crate::tool::erased::{ErasedResult, Params};
use crate::tool::footprint::Footprint;
use crate::tool::render::{answer_text, bounded};
use crate::transaction::{Aborted, Transaction, Turn};

/// One call. Dropping it half-way rolls it back and records its end.
pub(super) struct Call {
    pub(super) shared: Arc<Shared>,
    pub(super) around: Arc<Surroundings>,
    pub(super) invocation: Invocation,
    pub(super) name: Arc<str>,
    pub(super) raw: Arc<str>,
    pub(super) cancel: Option<CancelToken>,
    /// Who is asked about this call alone.
    pub(super) approver: Option<Arc<dyn Approver>>,
    /// The request that this is, if its caller may send it again.
    pub(super) request_key: Option<Arc<str>>,
    /// How long it may send it again.
    pub(super) request_ttl: Duration,
    pub(super) started: Duration,
    /// When a success ended; till then, when the call began.
    pub(super) ended: Timestamp,
    pub(super) step: Step,
    /// Whether somebody looks at each step: a hook, or a trace.
    pub(super) watched: bool,
    pub(super) placed: Option<PlacedTool>,
    pub(super) params: Option<Params>,
    pub(super) logged: Option<LoggedParams>,
    pub(super) footprint: Option<Footprint>,
    /// How many policies have allowed it, one after the other.
    pub(super) allowed: usize,
    /// What those after them said.
    pub(super) decisions: Vec<LoggedDecision>,
    /// No later than when the policy that is asked, or the handler that runs, began.
    pub(super) free_since: Duration,
    /// The handler, while it has to be waited for.
    pub(super) running: Mutex<Option<Contained<'static, Result<ErasedResult, ToolError>>>>,
    pub(super) approvals: Approvals,
    /// What policies looked at before it began.
    pub(super) glance: Glance,
    /// The session's turn.
    pub(super) turn: Option<Turn>,
    /// The workspace's write turn, if it was taken before the transaction began.
    pub(super) write_turn: Option<WriteTurn>,
    /// Where it stands among the calls of one response.
    pub(super) place: Option<Place>,
    /// Whether its id was used before in the same response.
    pub(super) repeated: bool,
    pub(super) claim: Option<Box<Claim>>,
    pub(super) replay: Option<Box<ToolEffect>>,
    pub(super) tx: Option<Transaction>,
    /// Whether the handler was entered, and whether it came back by itself.
    pub(super) handler: HandlerState,
    pub(super) result: Option<ErasedResult>,
    /// What the ledger keeps of the result, when the log does not keep all of it.
    pub(super) whole: Option<Box<(String, Option<Arc<dyn ErasedValue>>)>>,
    /// The event of the success, before it is one, and what the model would see.
    pub(super) candidate: Option<(Arc<ToolInvoked>, Arc<str>)>,
    pub(super) failure: Option<Box<Failure>>,
    pub(super) outcome: Option<Outcome>,
    /// Whether the store knows that it is on its way.
    pub(super) marked: bool,
    /// Whether the one event is in the log, or on its way there in hands that will not drop it.
    recorded: bool,
}

/// How far the handler got: decides what becomes of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandlerState {
    NotEntered,
    Running,
    /// It returned a failure or an error: by its own word the effect did not happen.
    Refused,
    Succeeded,
}

impl HandlerState {
    /// Whether the effect may have happened although the call did not succeed.
    fn is_doubtful(self) -> bool {
        match self {
            Self::Running | Self::Succeeded => true,
            Self::NotEntered | Self::Refused => false,
        }
    }
}

impl Call {
    /// Boxed, since it is handed on several times and is large.
    pub(super) fn new(shared: &Arc<Shared>, call: ToolCall, cancel: Option<CancelToken>) -> Box<Self> {
        let call = shared.withheld_call(call);
        let clock = shared.session.clock();
        let now = clock.now();
        let started = clock.monotonic();
        Box::new(Self {
            around: shared.around.load_full(),
            invocation: Invocation {
                id: shared.session.fresh_id(now),
                call_id: call.id,
                time: now,
                attempt: call.attempt,
                parent_message: call.parent_message,
            },
            name: call.tool,
            raw: call.arguments,
            cancel,
            approver: None,
            request_key: call.request_key,
            request_ttl: call.request_ttl,
            started,
            ended: now,
            shared: Arc::clone(shared),
            step: Step::Lookup,
            watched: false,
            placed: None,
            params: None,
            logged: None,
            footprint: None,
            allowed: 0,
            decisions: Vec::new(),
            free_since: started,
            running: Mutex::new(None),
            approvals: Approvals::default(),
            glance: Glance::default(),
            turn: None,
            write_turn: None,
            place: None,
            repeated: false,
            claim: None,
            replay: None,
            tx: None,
            handler: HandlerState::NotEntered,
            result: None,
            whole: None,
            candidate: None,
            failure: None,
            outcome: None,
            marked: false,
            recorded: false,
        })
    }

    pub(super) fn session(&self) -> &Session {
        &self.shared.session
    }

    /// What is left of a call that is stopped here.
    pub(super) fn what_remains(&self) -> &'static str {
        what_remains(self.leaves_doubt())
    }

    /// Whether it is not known what it did outside, if it is stopped here and rolled back.
    pub(super) fn leaves_doubt(&self) -> bool {
        self.handler.is_doubtful() && self.claim.as_ref().is_some_and(|claim| claim.can_be_in_doubt())
    }

    /// The same of a call that ends like this: what was not rolled back may be there.
    fn leaves_doubt_as(&self, ending: Ending) -> bool {
        let entered = self.claim.is_some() && self.handler != HandlerState::NotEntered;
        self.leaves_doubt() || (entered && ending == Ending::NotRestored)
    }

    /// For a call that is only asked about.
    pub(super) fn leave_no_trace(&mut self) {
        self.recorded = true;
    }

    /// Makes the event of a success, before anything of it is committed.
    ///
    /// # Errors
    /// When the value cannot be written as JSON: neither the log nor the model could be told of it.
    pub(super) fn make_candidate(&mut self) -> Result<(), Box<Failure>> {
        let (Some(result), Some(placed)) = (self.result.take(), &self.placed) else { return Ok(()) };
        let logged_value = match &result.value {
            Some(value) => self.shared.logged_value(value).map_err(|reason| {
                let text = format!(
                    "{} was not committed: its value cannot be written as JSON ({reason}); {}",
                    self.name,
                    self.what_remains()
                );
                Failure::new(Ending::NotCommitted, text).because(vec![reason])
            })?,
            None => (LoggedValue::None, IsCut::No),
        };
        let rendered_value = match &result.value {
            Some(value) if !result.hidden => placed.tool.inner.render(value.as_ref()),
            Some(_) | None => Cow::Borrowed(""),
        };
        // A tool may show of its value what its JSON does not have.
        let rendered_value = self.shared.withheld(rendered_value);
        let (shown, logged) = self.texts(&result.message, &rendered_value);
        let ErasedResult { message, value, hidden, .. } = result;
        let (logged_value, is_cut) = logged_value;
        let is_cut = is_cut == IsCut::Yes || message.len() > self.shared.limits.max_logged_bytes;
        if self.claim.is_some() && is_cut {
            // The ledger gives back what was returned, however much the log keeps of it.
            self.whole = Some(Box::new((message.clone(), value.clone())));
        }
        let message = self.shared.logged_text(message);
        let event = self.event(Ending::Succeeded, message, logged, (logged_value, hidden));
        self.candidate = Some((event, shown));
        Ok(())
    }

    /// Commits the success with its event; hands back what has to be waited for. Once begun it is brought to its end,
    /// whoever stops waiting.
    pub(super) fn commit(&mut self) -> Result<Option<MustFinish<Outcome>>, Box<Failure>> {
        let ledger = self.recording()?;
        let (Some((event, shown)), Some(mut tx)) = (self.candidate.take(), self.tx.take()) else {
            return Err(Failure::new(Ending::NotCommitted, "there is nothing to commit"));
        };
        tx.succeeds(Arc::clone(&event.tool), self.ended);
        let stored = self.session().must_store(ledger.as_deref());
        let end = End {
            event,
            shown,
            // Before the claim is taken, which it asks.
            doubtful: self.leaves_doubt(),
            claim: self.claim.take(),
            escalation: None,
            max_logged: self.shared.limits.max_logged_bytes,
        };
        self.recorded = true;
        let (tx, event) = match stored {
            true => (tx, Arc::clone(&end.event) as _),
            // Most calls in memory end here, without anything to wait for.
            false => match catch(|| tx.commit_now(Arc::clone(&end.event) as _)) {
                Ok(Ok(Ok(()))) => {
                    self.decided_as(end.outcome());
                    return Ok(None);
                }
                Ok(Ok(Err((error, aborted)))) => {
                    return Ok(Some(MustFinish::new(end.not_committed(error, aborted))));
                }
                Ok(Err(must_wait)) => must_wait,
                Err(panic) => {
                    let session = self.session().clone();
                    return Ok(Some(MustFinish::new(end.commit_panicked(session, panic))));
                }
            },
        };
        let ends = Some(end.event.id);
        let closing = Closing { event: Some(event), ledger, ends, ..Closing::default() };
        Ok(Some(MustFinish::new(end.commit(tx, closing))))
    }

    /// Rolls back, and records the end of a call that did not succeed. Brought to its end, whoever stops waiting.
    pub(super) async fn record(&mut self) {
        let lost = || Failure::new(Ending::NotCommitted, "the call failed");
        let failure = self.failure.take().unwrap_or_else(lost);
        let on_its_way = self.recorded;
        let (end, aborted) = self.end(*failure);
        let outcome = match on_its_way {
            // A panic on the way back from recording: the event is there already, and there is only one.
            true => end.outcome(),
            false => MustFinish::new(end.record(aborted)).await,
        };
        self.decided_as(outcome);
    }

    /// The call is decided.
    pub(super) fn decided_as(&mut self, outcome: Outcome) {
        if let Some(place) = &self.place {
            place.decide(&outcome);
        }
        self.outcome = Some(outcome);
    }

    fn end(&mut self, mut failure: Failure) -> (End, Aborted) {
        self.recorded = true;
        let doubtful = self.leaves_doubt_as(failure.ending);
        if let Some(settling) = self.claim.as_ref().filter(|_| doubtful).and_then(|claim| claim.settling()) {
            failure.message.push_str(&to_settle(&settling));
        }
        self.write_turn = None;
        self.shared.withheld_failure(&mut failure);
        let mut aborted = match self.tx.take() {
            Some(tx) => tx.abort(),
            None => Aborted::before_begin(&self.shared.session, self.turn.take(), self.glance.take()),
        };
        if failure.ending == Ending::NotRun {
            // It may have overlapped with the call that ended the turn; nobody is to know.
            aborted = aborted.without_log();
            (self.logged, self.candidate, self.replay) = (None, None, None);
            self.approvals = Approvals::default();
            self.allowed = 0;
            self.decisions.clear();
        }
        let (shown, logged) = self.texts(&failure.message, "");
        let message = self.shared.logged_text(failure.message);
        let mut event = match self.candidate.take() {
            Some((candidate, _)) => ToolInvoked {
                ending: failure.ending,
                success: false,
                message,
                rendered: logged,
                ..ToolInvoked::clone(&candidate)
            },
            None => {
                let value = match failure.value {
                    LoggedValue::Typed(value) => match self.shared.logged_value(&value) {
                        Ok((value, _)) => value,
                        // The call has failed already; its event says why there is no payload.
                        Err(reason) => {
                            let text = format!("[the value cannot be written as JSON: {reason}]");
                            LoggedValue::Json(Arc::new(text.into()))
                        }
                    },
                    other => other,
                };
                let value = (value, failure.hidden);
                Arc::unwrap_or_clone(self.event(failure.ending, message, logged, value))
            }
        };
        event.error_chain = self.shared.logged_chain(failure.chain);
        let end = End {
            event: Arc::new(event),
            shown,
            doubtful,
            claim: self.claim.take(),
            escalation: failure.escalation,
            max_logged: self.shared.limits.max_logged_bytes,
        };
        (end, aborted)
    }

    /// What each policy said, in order. That all allow is the rule, and known beforehand.
    fn take_decisions(&mut self) -> Arc<[LoggedDecision]> {
        let later = std::mem::take(&mut self.decisions);
        let Some(placed) = &self.placed else { return later.into() };
        if later.is_empty() && self.allowed == placed.allowed.len() {
            return Arc::clone(&placed.allowed);
        }
        placed.allowed.iter().take(self.allowed).cloned().chain(later).collect()
    }

    /// The event of a call that ended like this.
    fn event(
        &mut self,
        ending: Ending,
        message: Arc<str>,
        rendered: Arc<str>,
        (value, value_hidden): (LoggedValue, bool),
    ) -> Arc<ToolInvoked> {
        let params = self
            .logged
            .take()
            .unwrap_or_else(|| LoggedParams::Rejected { raw: self.masked(), problems: Arc::clone(&message) });
        let params = self.shared.logged_params(params);
        let decisions = self.take_decisions();
        let session = &self.shared.session;
        Arc::new(ToolInvoked {
            id: self.invocation.id,
            call_id: Arc::clone(&self.invocation.call_id),
            tool: shown_name_of(&self.name),
            prompt: Arc::clone(self.around.prompt.name()),
            adapter: Arc::clone(&self.around.adapter.name),
            session: session.id().clone(),
            run: Arc::clone(&self.around.run),
            time: self.invocation.time,
            duration: session.clock().monotonic().saturating_sub(self.started),
            attempt: self.invocation.attempt,
            request: self.request_key.as_ref().map(|key| self.shared.logged(key)),
            params,
            ending,
            success: ending == Ending::Succeeded,
            message,
            value,
            value_hidden,
            rendered,
            error_chain: Vec::new(),
            decisions,
            approvers: std::mem::take(&mut self.approvals.by),
            replayed: self.replay.is_some(),
            usage: self.around.budget.as_ref().map(|budget| budget.used()),
        })
    }

    /// The arguments as they came, sensitive ones masked: also for a call that was never looked at, or whose tool is
    /// not available.
    pub(super) fn masked(&self) -> Arc<str> {
        let declared = || self.around.prompt.placed_tools().find(|placed| **placed.name() == *self.name);
        let placed = self.placed.as_ref().or_else(declared);
        placed.map_or_else(|| Arc::clone(&self.raw), |placed| placed.tool.contract().masked(&self.raw))
    }

    /// What the model sees and what the log keeps of it.
    fn texts(&self, message: &str, value: &str) -> (Arc<str>, Arc<str>) {
        let limits = &self.shared.limits;
        let whole = answer_text(message, value);
        if whole.len() <= limits.max_answer_bytes.min(limits.max_logged_bytes) {
            let text: Arc<str> = whole.as_ref().into();
            return (Arc::clone(&text), text);
        }
        (bounded(&whole, limits.max_answer_bytes).into(), bounded(&whole, limits.max_logged_bytes).into())
    }
}

/// A tool's name in the log; what a model made up is bounded.
fn shown_name_of(name: &Arc<str>) -> Arc<str> {
    match super::shown_name(name) {
        Cow::Borrowed(_) => Arc::clone(name),
        Cow::Owned(cut) => cut.into(),
    }
}

impl Drop for Call {
    /// Whoever waited has gone. The call still ends, and has its event.
    fn drop(&mut self) {
        if self.params.is_some() || self.result.is_some() {
            // They are foreign, and left only when the call went no further.
            drop_contained((self.params.take(), self.result.take()));
        }
        if !self.recorded {
            let text = format!("{} was cancelled; {}", self.name, self.what_remains());
            let (end, aborted) = self.end(*Failure::new(Ending::Cancelled, text));
            finish(async move {
                // Nobody is there to hear of an escalation; a failing store is in the diagnostics.
                let _ = end.record(aborted).await;
            });
        }
    }
}
