//! What was said, as it is kept in the session's log.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use wink::limits::Budget;
use wink::session::{Session, SliceKind, SliceType, ToolInvoked};

use super::{Conversation, Ended, Input, Next, RUN_LIFE, Said, StopReason, Tally, Unexpected};

/// One step of a conversation. LOG: never rolled back, so that what was said stays said whatever became of the calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConversationStep {
    /// The run.
    pub run: Arc<str>,
    /// When.
    pub time: Timestamp,
    /// What was said; of the calls in it, without sensitive arguments.
    pub said: Said,
    /// Whether there were any, so that the calls cannot be made again from this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withheld: bool,
    /// Which step of its run it is, from 1. Of two with the same number the first counts. None in logs that were written before
    /// steps had numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
}

impl ConversationStep {
    /// What a session knows of a run, from its beginning.
    pub(crate) fn of_run(session: &Session, run: &str) -> Vec<Arc<Self>> {
        // From the end, where a run is that is to be taken up; what was before it is not looked at.
        let mut steps = Vec::new();
        for step in session.slice::<Self>().newest().filter(|step| &*step.run == run) {
            let is_first = matches!(step.said, Said::Began { .. });
            steps.push(step);
            if is_first {
                break;
            }
        }
        steps.reverse();
        steps
    }

    /// How many tokens a run may use that a session knows, if that was said when it began.
    pub(crate) fn budget_of(session: &Session, run: &str) -> Option<Budget> {
        match Self::of_run(session, run).first()?.said {
            Said::Began { budget, .. } => budget,
            _ => None,
        }
    }

    /// Whether the session, which has just been stored with this step at its end, has steps of the run by somebody else beside those
    /// of whoever made this one: since a step that was stored at once, as nothing was done on account of later ones.
    pub(crate) fn is_contested(&self, session: &Session) -> bool {
        let mut seen = BTreeSet::new();
        for step in session.slice::<Self>().newest().filter(|step| step.run == self.run) {
            let Some(number) = step.number else { return false };
            if !seen.insert(number) {
                return true;
            }
            if Some(number) < self.number && step.said.must_last() {
                return false;
            }
        }
        false
    }
}

impl SliceType for ConversationStep {
    const NAME: &'static str = "wink.conversation";
    const KIND: SliceKind = SliceKind::Log;
}

/// No clock is set back this far while a run goes on.
const SET_BACK: SignedDuration = SignedDuration::from_hours(24);

/// How the calls of a run ended that began then, by the session's log.
fn logged(session: &Session, run: &str, began: Timestamp) -> Tally {
    // From the end, and not through all that there was before the run.
    let is_later = |event: &Arc<ToolInvoked>| began.duration_since(event.time) < SET_BACK;
    let calls = session.slice::<ToolInvoked>();
    let calls = calls.newest().take_while(is_later);
    Tally::of(calls.filter(|event| event.run.run_id.as_deref() == Some(run)).map(|event| event.ending))
}

/// A run cannot be taken up again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotReadBack {
    /// Its steps do not fit together.
    #[error("run {run} cannot be taken up again: step {number} does not fit: {reason}")]
    Broken {
        /// The run.
        run: Arc<str>,
        /// The step, from 1.
        number: u64,
        /// What is wrong.
        reason: Unexpected,
    },
    /// Its steps do not begin at the beginning.
    #[error("run {run} cannot be taken up again: its beginning is not in the log any more")]
    NoBeginning {
        /// The run.
        run: Arc<str>,
    },
    /// Its last calls had sensitive arguments.
    #[error(
        "run {run} cannot be taken up again: the last calls had sensitive arguments, which are not kept; look what was done, and start a new run"
    )]
    Withheld {
        /// The run.
        run: Arc<str>,
    },
    /// Nobody knows any more which of its calls were made.
    #[error(
        "run {run} cannot be taken up again: it was last heard of at {last}, and its calls are known for seven days only; start a new run"
    )]
    TooOld {
        /// The run.
        run: Arc<str>,
        /// Its last step.
        last: Timestamp,
    },
}

impl Conversation {
    /// The conversation of a run that a session knows, as far as it got. None if it does not know the run.
    ///
    /// # Errors
    /// When its steps are not a conversation, or it is too long ago.
    pub fn read_back(session: &Session, run: &str) -> Result<Option<Self>, NotReadBack> {
        let mut steps = ConversationStep::of_run(session, run).into_iter();
        let Some(first) = steps.next() else { return Ok(None) };
        let name = Arc::clone(&first.run);
        let Said::Began { task, terms, .. } = &first.said else {
            return Err(NotReadBack::NoBeginning { run: name });
        };
        let mut conversation = Self::begin(name, task.clone(), terms.clone());
        let (mut last, mut withheld, mut not_before) = (first.time, false, None);
        for step in steps {
            // Somebody else was faster, and whoever made it found that out before anything was done on account of it.
            if step.number.is_some_and(|number| number <= conversation.steps()) {
                continue;
            }
            (last, withheld) = (step.time, step.withheld);
            not_before = match step.said {
                Said::PutOff { until } => Some(until),
                _ => None,
            };
            conversation.hear_again(step.said.clone())?;
        }
        conversation.stats.count_logged(logged(session, run, first.time));
        let name = Arc::clone(conversation.run());
        if withheld && conversation.is_executing() {
            return Err(NotReadBack::Withheld { run: name });
        }
        let now = session.clock().now();
        if let Some(left) = not_before.and_then(|until| Duration::try_from(until.duration_since(now)).ok()) {
            conversation.wait(left);
        }
        let age = now.duration_since(last);
        let is_old = age.try_into().is_ok_and(|age: Duration| age >= RUN_LIFE);
        match is_old && !conversation.has_ended() {
            true => Err(NotReadBack::TooOld { run: name, last }),
            false => Ok(Some(conversation)),
        }
    }

    /// The conversation in which all of this was said, in order and from its beginning: for whoever saves one without a session.
    /// What was said is all that there is to save, and each step costs what it says and no more.
    ///
    /// ```
    /// use wink_models::conversation::{Conversation, Input, Next, Said, Terms};
    ///
    /// let (task, terms) = (Some("What is 2 + 40?".into()), Terms::default());
    /// let mut conversation = Conversation::begin("run-1", task.clone(), terms.clone());
    /// let mut saved = vec![serde_json::to_string(&Said::Began { task, terms, budget: None })?];
    ///
    /// // A step: what happened goes in, and what was said is saved.
    /// let response = r#"{"responded": {"tool_calls": [{"id": "1", "name": "add", "arguments": "{}"}]}}"#;
    /// let said: Said = serde_json::from_str(response)?;
    /// saved.push(serde_json::to_string(&said)?);
    /// conversation.take(Input::Said(said))?;
    ///
    /// // Somewhere else, later.
    /// let said = saved.iter().map(|line| serde_json::from_str(line)).collect::<Result<Vec<Said>, _>>()?;
    /// let mut again = Conversation::from_said("run-1", said)?;
    /// assert_eq!(again, conversation);
    /// let Next::Execute(calls) = again.next() else { panic!("there is a call to be made") };
    /// assert_eq!(&*calls[0].tool, "add");
    /// let answered = r#"{"answered": {"answers": [{"id": "1", "name": "add", "text": "42", "success": true}], "tally": {"calls": 1, "rolled_back": 0, "denied": 0}, "expanded": false}}"#;
    /// again.take(Input::Said(serde_json::from_str(answered)?))?;
    /// assert_eq!(again.next(), Next::Ask);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When it is not a conversation.
    pub fn from_said(
        run: impl Into<Arc<str>>,
        said: impl IntoIterator<Item = Said>,
    ) -> Result<Self, NotReadBack> {
        let (run, mut said) = (run.into(), said.into_iter());
        let Some(Said::Began { task, terms, .. }) = said.next() else {
            return Err(NotReadBack::NoBeginning { run });
        };
        let mut conversation = Self::begin(run, task, terms);
        said.try_for_each(|said| conversation.hear_again(said))?;
        Ok(conversation)
    }

    /// One more of the things that were said.
    fn hear_again(&mut self, said: Said) -> Result<(), NotReadBack> {
        // Somebody let it have more responses than it began with.
        if let Next::Ended(Ended::Stopped(StopReason::TurnCap { max_turns })) = self.next() {
            self.allow_turns(Some(max_turns.saturating_add(1)));
        }
        let (run, number) = (Arc::clone(self.run()), self.steps() + 1);
        self.take(Input::Said(said)).map_err(|reason| NotReadBack::Broken { run, number, reason })
    }
}
