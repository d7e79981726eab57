//! The conversation with a model, as a state machine: what happened goes in ([`Input`]), what is to be done comes out ([`Next`]).
//!
//! There is no I/O here, no clock and no chance: all of that is in the inputs. What was said ([`Said`]) is all that there is to
//! keep: a conversation is read back by being told the same again ([`Conversation::read_back`] from a session,
//! [`Conversation::from_said`] from anywhere), so keeping one more step never costs more than the step. How often a request failed, and that somebody stopped the run, are not said to anybody: a run
//! that is taken up again starts with the same request, when the provider wants to hear it, or the same calls. A [`Conversation`] as a whole can be saved as well, at any
//! step, and has all of that in it.

mod end;
mod retry;
mod step;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use imbl::Vector;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wink::executor::ToolCall;
use wink::limits::Budget;

use crate::message::{Called, Message, ToolAnswer};
use crate::model::{ModelError, ModelResponse, Stop};

pub use end::{Completed, Ended, RunStats, StopReason, Tally};
pub use retry::{RetriesExhausted, RetryPolicy};
pub use step::{ConversationStep, NotReadBack};

use retry::Retries;

/// How long a run can be taken up again: so long are its calls known.
pub const RUN_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What the model is told of a call that was cut off.
const CUT_OFF: &str = "not run: the response reached its length limit in the middle of this call; nothing was changed. Call the \
                       tool again with shorter arguments, or with fewer calls in one response.";

/// What is told of a response in no form.
const FORMLESS: &str = "your last response was not a JSON object of the form that every response must have; nothing was done. Answer again, \
                        with that object alone.";

/// What a conversation is held to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Terms {
    /// How many responses there may be.
    pub max_turns: u32,
    /// How often sections may be opened.
    pub max_expansions: u32,
    /// How often the model is told that something is missing when it says that it is done.
    pub max_reminders: u32,
    /// How failed requests are repeated.
    pub retry: RetryPolicy,
}

impl Default for Terms {
    fn default() -> Self {
        Self { max_turns: 50, max_expansions: 16, max_reminders: 3, retry: RetryPolicy::default() }
    }
}

/// Something that was said. In order, these are the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// It began.
    Began {
        /// What is to be done, beside what the prompt says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<Arc<str>>,
        /// What it is held to.
        terms: Terms,
        /// How many tokens it may use, if anybody has said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<Budget>,
    },
    /// The model answered.
    Responded(ModelResponse),
    /// The calls of the last response were answered, in their order.
    Answered {
        /// One for each call that was to be executed.
        answers: Vec<ToolAnswer>,
        /// How they ended.
        tally: Tally,
        /// Whether one of them opened sections.
        expanded: bool,
    },
    /// The model said that it was done, and is not.
    Reminded {
        /// What is missing.
        missing: Arc<str>,
    },
    /// The run was stopped while the provider wanted to be left alone.
    PutOff {
        /// Until when.
        until: Timestamp,
    },
    /// The model is done.
    Finished {
        /// The typed result, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Arc<Value>>,
        /// What is missing all the same, after all reminders.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<Arc<str>>,
    },
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Something was said.
    Said(Said),
    /// A request failed.
    Failed {
        /// How.
        error: ModelError,
        /// When, on a clock that never goes back. For a conversation that is saved and goes on elsewhere, it is a clock that both
        /// places have.
        at: Duration,
        /// How long there is until the deadline.
        left: Option<Duration>,
        /// Any number, for the jitter.
        chance: u64,
    },
    /// The wait is over.
    Waited,
    /// The run is stopped: cancelled, out of time or of budget, or by what a call came to.
    Stopped {
        /// Why.
        reason: StopReason,
        /// The calls that had been made of those that were to be executed.
        tally: Tally,
    },
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Ask the model.
    Ask,
    /// Wait, and say so ([`Input::Waited`]).
    Wait(Duration),
    /// Execute these calls in one batch.
    Execute(Vec<ToolCall>),
    /// Look at the model's last word: is it what it has to be, and is all done?
    Finish(Arc<str>),
    /// Nothing.
    Ended(Ended),
}

/// What does not fit what was to be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the conversation was told {told}, but is to {next}")]
pub struct Unexpected {
    told: &'static str,
    next: &'static str,
}

/// A conversation. Cheap to clone, however long it is. It can be saved at any step and goes on the same when it is loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    run: Arc<str>,
    terms: Terms,
    #[serde(with = "in_order")]
    messages: Vector<Arc<Message>>,
    phase: Phase,
    stats: RunStats,
    /// How much was said.
    steps: u64,
    expansions: u32,
    reminders: u32,
    retries: Retries,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Asking,
    Waiting(Duration),
    /// The calls of the last message; of a response that was cut off, all but the last.
    Executing(Cut),
    Finishing,
    Ended(Ended),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Cut {
    Whole,
    InLastCall,
}

/// Messages, as they are saved.
mod in_order {
    use super::{Arc, Deserialize, Message, Vector};

    pub(super) fn serialize<S: serde::Serializer>(
        messages: &Vector<Arc<Message>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(messages)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vector<Arc<Message>>, D::Error> {
        Ok(Vec::deserialize(deserializer)?.into())
    }
}

impl Conversation {
    /// A conversation that begins.
    pub fn begin(run: impl Into<Arc<str>>, task: Option<Arc<str>>, terms: Terms) -> Self {
        let messages = task.into_iter().map(|text| Arc::new(Message::User { text })).collect();
        let mut conversation = Self {
            run: run.into(),
            terms,
            messages,
            phase: Phase::Asking,
            stats: RunStats::default(),
            steps: 1,
            expansions: 0,
            reminders: 0,
            retries: Retries::default(),
        };
        conversation.ask();
        conversation
    }

    /// The run that it is.
    pub fn run(&self) -> &Arc<str> {
        &self.run
    }

    /// What was said so far.
    pub fn messages(&self) -> &Vector<Arc<Message>> {
        &self.messages
    }

    /// How many steps it has, its beginning among them.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// What it came to so far.
    pub fn stats(&self) -> RunStats {
        self.stats
    }

    /// How often the model may still be reminded.
    pub fn reminders_left(&self) -> u32 {
        self.terms.max_reminders.saturating_sub(self.reminders)
    }

    /// Lets it have this many responses, where that is given, instead of what it began with. One that ended since it had as many as
    /// it could goes on.
    pub fn allow_turns(&mut self, max_turns: Option<u32>) {
        let Some(max_turns) = max_turns else { return };
        self.terms.max_turns = max_turns;
        if matches!(self.phase, Phase::Ended(Ended::Stopped(StopReason::TurnCap { .. }))) {
            self.ask();
        }
    }

    /// Whether there is nothing to be done any more.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// Whether calls are to be executed. Of a run that was read back, some may have been already.
    pub fn is_executing(&self) -> bool {
        matches!(self.phase, Phase::Executing(_))
    }

    /// What is to be done. The same, until something happens.
    pub fn next(&self) -> Next {
        match &self.phase {
            Phase::Asking => Next::Ask,
            Phase::Waiting(wait) => Next::Wait(*wait),
            Phase::Executing(_) => Next::Execute(self.tool_calls()),
            Phase::Finishing => Next::Finish(self.last_word()),
            Phase::Ended(ended) => Next::Ended(ended.clone()),
        }
    }

    /// Takes in what happened.
    ///
    /// # Errors
    /// When it does not fit what was to be done. Nothing changes then.
    pub fn take(&mut self, input: Input) -> Result<(), Unexpected> {
        let more = u64::from(matches!(input, Input::Said(_)));
        match (&self.phase, input) {
            (Phase::Asking, Input::Said(Said::Responded(response))) => self.responded(response),
            (Phase::Asking, Input::Failed { error, at, left, chance }) => {
                let decided = self.retries.failed(&self.terms.retry, error, at, left, chance);
                self.phase = match decided {
                    Ok(wait) => Phase::Waiting(wait),
                    Err(reason) => Phase::Ended(Ended::Stopped(reason)),
                };
            }
            (Phase::Waiting(_), Input::Waited) => self.phase = Phase::Asking,
            // What time it is, whoever reads it back knows.
            (Phase::Asking, Input::Said(Said::PutOff { .. })) => {}
            (Phase::Executing(cut), Input::Said(Said::Answered { answers, tally, expanded }))
                if self.answers_fit(*cut, &answers) =>
            {
                let cut = *cut;
                self.answered(cut, answers, tally, expanded);
            }
            (Phase::Finishing, Input::Said(Said::Reminded { missing })) => {
                self.reminders = self.reminders.saturating_add(1);
                self.messages.push_back(Arc::new(Message::User { text: missing }));
                self.ask();
            }
            (Phase::Finishing, Input::Said(Said::Finished { output, missing })) => {
                let completed = Completed { text: self.last_word(), output, missing };
                self.phase = Phase::Ended(Ended::Completed(completed));
            }
            (phase, Input::Stopped { reason, tally }) if !matches!(phase, Phase::Ended(_)) => {
                self.stats.count(tally);
                self.phase = Phase::Ended(Ended::Stopped(reason));
            }
            (_, input) => return Err(Unexpected { told: input.name(), next: self.phase.name() }),
        }
        self.steps = self.steps.saturating_add(more);
        Ok(())
    }

    /// Waits before it asks, if that is what it is to do.
    fn wait(&mut self, wait: Duration) {
        if self.phase == Phase::Asking && !wait.is_zero() {
            self.phase = Phase::Waiting(wait);
        }
    }

    /// Asks, if there may be another response.
    fn ask(&mut self) {
        self.retries = Retries::default();
        self.phase = match self.stats.turns < self.terms.max_turns {
            true => Phase::Asking,
            false => {
                let reason = StopReason::TurnCap { max_turns: self.terms.max_turns };
                Phase::Ended(Ended::Stopped(reason))
            }
        };
    }

    fn responded(&mut self, response: ModelResponse) {
        self.retries = Retries::default();
        self.stats.turns = self.stats.turns.saturating_add(1);
        self.stats.usage = self.stats.usage.plus(response.usage);
        let ModelResponse { text, calls, stop, usage: _, provider } = response;
        let several = calls.len() > 1;
        let called = !calls.is_empty();
        self.messages.push_back(Arc::new(Message::Assistant { text: Arc::clone(&text), calls, provider }));
        match (stop, called) {
            (Stop::Refused, _) => self.phase = Phase::Ended(Ended::Stopped(StopReason::Refused { text })),
            (Stop::Truncated, false) => {
                self.phase = Phase::Ended(Ended::Stopped(StopReason::Truncated { text }));
            }
            (Stop::Truncated, true) if several => self.phase = Phase::Executing(Cut::InLastCall),
            (Stop::Truncated, true) => self.answered(Cut::InLastCall, Vec::new(), Tally::default(), false),
            (Stop::Complete | Stop::Paused | Stop::Formless, true) => {
                self.phase = Phase::Executing(Cut::Whole);
            }
            (Stop::Formless, false) if self.reminders_left() > 0 => {
                self.reminders += 1;
                self.messages.push_back(Arc::new(Message::User { text: FORMLESS.into() }));
                self.ask();
            }
            (Stop::Formless, false) => {
                let reason = "it is not in the form that every response must have".to_owned();
                self.phase = Phase::Ended(Ended::Stopped(StopReason::Output { reason, text }));
            }
            (Stop::Paused, false) => self.ask(),
            (Stop::Complete, false) => self.phase = Phase::Finishing,
        }
    }

    fn answered(&mut self, cut: Cut, mut answers: Vec<ToolAnswer>, tally: Tally, expanded: bool) {
        self.stats.count(tally);
        if let (Cut::InLastCall, Some(call)) = (cut, self.calls().last()) {
            let (id, name) = (Arc::clone(&call.id), Arc::clone(&call.name));
            answers.push(ToolAnswer { id, name, text: CUT_OFF.into(), success: false });
        }
        self.messages.push_back(Arc::new(Message::Tools { answers }));
        self.expansions = self.expansions.saturating_add(u32::from(expanded));
        if self.expansions > self.terms.max_expansions {
            let reason = StopReason::Expansions { max_expansions: self.terms.max_expansions };
            self.phase = Phase::Ended(Ended::Stopped(reason));
        } else {
            self.ask();
        }
    }

    /// The calls of the last message.
    fn calls(&self) -> &[Called] {
        match self.messages.last().map(|message| &**message) {
            Some(Message::Assistant { calls, .. }) => calls,
            Some(Message::User { .. } | Message::Tools { .. }) | None => &[],
        }
    }

    /// Those of them that are to be executed.
    fn whole_calls(&self, cut: Cut) -> &[Called] {
        match (cut, self.calls()) {
            (Cut::InLastCall, [whole @ .., _]) => whole,
            (_, all) => all,
        }
    }

    fn tool_calls(&self) -> Vec<ToolCall> {
        let Phase::Executing(cut) = self.phase else { return Vec::new() };
        let turn = self.stats.turns;
        let message: Arc<str> = format!("{}/{turn}", self.run).into();
        let call = |(index, called): (usize, &Called)| {
            ToolCall::new(Arc::clone(&called.id), Arc::clone(&called.name), Arc::clone(&called.arguments))
                .parent_message(Arc::clone(&message))
                .request_key(format!("{}/{turn}/{index}", self.run))
                .request_ttl(RUN_LIFE)
        };
        self.whole_calls(cut).iter().enumerate().map(call).collect()
    }

    fn answers_fit(&self, cut: Cut, answers: &[ToolAnswer]) -> bool {
        let calls = self.whole_calls(cut);
        calls.len() == answers.len() && calls.iter().zip(answers).all(|(call, answer)| call.id == answer.id)
    }

    fn last_word(&self) -> Arc<str> {
        match self.messages.last().map(|message| &**message) {
            Some(Message::Assistant { text, .. }) => Arc::clone(text),
            Some(Message::User { .. } | Message::Tools { .. }) | None => Arc::default(),
        }
    }
}

impl Said {
    /// Whether it has to be on the disk before anything else is done. Whoever takes a run up without the rest comes to it again.
    pub(crate) fn must_last(&self) -> bool {
        match self {
            Self::Responded(response) => !response.calls.is_empty(),
            // Whoever takes up a run has to know that there is one.
            Self::Began { .. } | Self::Finished { .. } => true,
            Self::Answered { .. } | Self::Reminded { .. } | Self::PutOff { .. } => false,
        }
    }
}

impl Input {
    fn name(&self) -> &'static str {
        match self {
            Self::Said(Said::Began { .. }) => "that it began",
            Self::Said(Said::Responded(_)) => "a response",
            Self::Said(Said::Answered { .. }) => "answers",
            Self::Said(Said::Reminded { .. }) => "a reminder",
            Self::Said(Said::PutOff { .. }) => "that it is put off",
            Self::Said(Said::Finished { .. }) => "that it is finished",
            Self::Failed { .. } => "that a request failed",
            Self::Waited => "that the wait is over",
            Self::Stopped { .. } => "to stop",
        }
    }
}

impl Phase {
    fn name(&self) -> &'static str {
        match self {
            Self::Asking => "ask the model",
            Self::Waiting(_) => "wait",
            Self::Executing(_) => "execute the calls of the last response",
            Self::Finishing => "finish",
            Self::Ended(_) => "do nothing: it has ended",
        }
    }
}
