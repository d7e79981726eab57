//! Reading a recording, and repeating its run.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use wink::BoxFuture;
use wink::executor::Approver;
use wink::limits::{CancelToken, Clock};
use wink::session::{Session, SessionBuilder, SessionId, SnapshotError};

use super::approvals::ReplayedApprover;
use super::clock::{NextLine, Replayed, ReplayingClock};
use super::ending::{self, Ended};
#[cfg(unix)]
use super::files::{ReplayedFiles, WatchedFiles};
use super::images::FilesChanged;
#[cfg(unix)]
use super::outcomes::{Handlers, ReplayedOutcomes};
use super::requests::{RecordedRequest, Requests};
use super::stops::{Replay, Tape, Taped};
#[cfg(all(feature = "claude", unix))]
use super::talk::{ReplayedTalk, Talk};
use super::text::{is_cut_off, object, read_text};
use super::{Header, Line, Scrubber, Spoken, VERSION};
use crate::adapter::Evaluation;
#[cfg(all(feature = "claude", unix))]
use crate::claude::ClaudeAdapter;
use crate::conversation::ConversationStep;
use crate::lock;
use crate::model::{BoxModel, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, Stream};
use crate::random::Random;
use crate::scripted::tell;

/// A recorded run that can be repeated: once, from its beginning. It is used as its [`Recorder`](super::Recorder) was.
pub struct Recording {
    header: Header,
    clock: Arc<ReplayingClock>,
    model: Arc<ReplayedModel>,
    called: Vec<Arc<str>>,
    /// What was said between us and the program `claude`, if it was the one.
    #[cfg(all(feature = "claude", unix))]
    talk: Option<Arc<ReplayedTalk>>,
    /// Nobody, if nobody was asked.
    approver: Option<Arc<ReplayedApprover>>,
    state: Option<Value>,
    /// What was said in the run before, if it went on.
    said: Option<Vec<ConversationStep>>,
    /// What its calls changed in files.
    #[cfg(unix)]
    files: Arc<ReplayedFiles>,
    /// What came of handlers that reach outside.
    #[cfg(unix)]
    outcomes: Arc<ReplayedOutcomes>,
    /// The STATE that it left, if that was written down.
    ended: Option<Ended>,
}

/// A recording cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// It cannot be read.
    #[error("the recording {path} cannot be read: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is none.
    #[error("this is no recording: its first line has no \"wink_recording\"")]
    NoRecording,
    /// It is of another version.
    #[error("the recording has version {found}; this is version {VERSION}")]
    Version {
        /// Which.
        found: u32,
    },
    /// A line cannot be understood.
    #[error("line {line} of the recording cannot be understood: {reason}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// Why.
        reason: String,
    },
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// When the file cannot be read or is no recording.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let failed = |source| RecordingError::Io { path: path.display().to_string(), source };
        Self::parse(&read_text(path).map_err(failed)?)
    }

    /// Reads the text of a recording.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let mut lines = text.lines().enumerate();
        let header = lines.next().and_then(|(_, line)| object::<Header>(line).ok());
        let header = header.ok_or(RecordingError::NoRecording)?;
        if header.wink_recording != VERSION {
            return Err(RecordingError::Version { found: header.wink_recording });
        }
        let mut clock = Vec::new();
        let mut exchanges = VecDeque::new();
        let mut answers = VecDeque::new();
        let (mut state, mut said, mut ended) = (None, None, None);
        let mut files: Vec<FilesChanged> = Vec::new();
        #[cfg(unix)]
        let mut outcomes = Vec::new();
        #[cfg(all(feature = "claude", unix))]
        let mut talk = VecDeque::new();
        let mut called: Vec<Arc<str>> = Vec::new();
        for (at, line) in lines {
            if is_cut_off(text, line) {
                break;
            }
            let line: Line = object(line).map_err(|reason| RecordingError::Line { line: at + 1, reason })?;
            #[cfg(unix)]
            if let Some(outcome) = line.outcome {
                outcomes.push(outcome);
                continue;
            }
            if line.files.is_some() || line.ended.is_some() {
                files.extend(line.files);
                ended = ended.or(line.ended);
                continue;
            }
            clock.push(line.clock);
            state = state.or(line.state);
            said = said.or(line.said);
            answers.extend(line.approval);
            let by_model = line.response.iter().flat_map(|response| &response.calls);
            let by_program = line.claude.iter().filter_map(called_by_program);
            for name in by_model.map(|call| Arc::clone(&call.name)).chain(by_program) {
                if !called.contains(&name) {
                    called.push(name);
                }
            }
            #[cfg(all(feature = "claude", unix))]
            talk.extend(line.claude);
            #[cfg(not(all(feature = "claude", unix)))]
            if line.claude.is_some() {
                let reason = super::text::WITHOUT_CLAUDE.to_owned();
                return Err(RecordingError::Line { line: at + 1, reason });
            }
            match (line.request, line.response, line.error, line.dropped) {
                (Some(request), ..) => exchanges.push_back(Exchange { request, answer: Answer::None }),
                (None, response, error, dropped) => {
                    let answer = match (response, error) {
                        (Some(response), _) => Answer::Given(Ok(response)),
                        (None, Some(failure)) => Answer::Given(Err(failure.into())),
                        (None, None) if dropped => Answer::GivenUp,
                        (None, None) => continue,
                    };
                    // Of sub-runs inside, the last request is the one that is answered.
                    let open = |one: &&mut Exchange| matches!(one.answer, Answer::None);
                    if let Some(exchange) = exchanges.iter_mut().rev().find(open) {
                        exchange.answer = answer;
                    }
                }
            }
        }
        let clock = Arc::new(ReplayingClock::new(clock));
        let difference = Arc::default();
        #[cfg(all(feature = "claude", unix))]
        let talk = (!talk.is_empty()).then(|| Arc::new(ReplayedTalk::new(&clock, &difference, talk)));
        let approver = (!answers.is_empty()).then(|| {
            let (answers, clock) = (Mutex::new(answers), Arc::clone(&clock));
            Arc::new(ReplayedApprover { answers, clock, difference: Arc::clone(&difference) })
        });
        let model = Arc::new(ReplayedModel {
            name: header.model.clone(),
            difference,
            clock: Arc::clone(&clock),
            state: Arc::new(Mutex::new((Requests::default(), exchanges))),
        });
        #[cfg(unix)]
        let files = Arc::new(ReplayedFiles::new(files));
        #[cfg(unix)]
        let outcomes = Arc::new(ReplayedOutcomes::new(outcomes, &files, &clock, &model.difference));
        Ok(Self {
            header,
            clock,
            model,
            called,
            #[cfg(all(feature = "claude", unix))]
            talk,
            approver,
            state,
            said,
            #[cfg(unix)]
            files,
            #[cfg(unix)]
            outcomes,
            ended,
        })
    }

    /// What whoever recorded it wanted to be known.
    pub fn note(&self) -> Option<&Value> {
        self.header.note.as_ref()
    }

    /// The session that it was in.
    pub fn session_name(&self) -> &str {
        &self.header.session
    }

    /// The run.
    pub fn run_id(&self) -> &str {
        &self.header.run
    }

    /// The tools that were called in it, each once, in order.
    pub fn called(&self) -> &[Arc<str>] {
        &self.called
    }

    /// How the repeated run differs from the recorded one, if it does. When it is over, and not before: requests that were not made
    /// are a difference, too.
    pub fn difference(&self) -> Option<String> {
        if let Some(difference) = lock(&self.model.difference).clone() {
            return Some(difference);
        }
        let left = lock(&self.model.state).1.len();
        if left > 0 {
            return Some(format!(
                "the run ended before it was over in the recording: {left} requests were not made"
            ));
        }
        #[cfg(all(feature = "claude", unix))]
        if let Some(left) = self.talk.as_ref().and_then(|talk| talk.left()) {
            return Some(left);
        }
        let is_whole = !self.clock.is_left_uncancelled();
        (!is_whole)
            .then(|| "the run was cancelled when it was recorded, and now it ended before that".to_owned())
    }

    /// What was asked, answered with what was answered then.
    pub fn model(&self) -> BoxModel {
        Arc::clone(&self.model) as BoxModel
    }

    /// The same, for another model that took part in the run, which had this name.
    pub fn another(&self, name: impl Into<String>) -> BoxModel {
        Arc::new(ReplayedModel { name: name.into(), ..ReplayedModel::clone(&self.model) })
    }

    /// The program `claude` as it spoke then, if it was the one that was recorded. No process is started.
    #[cfg(all(feature = "claude", unix))]
    pub fn claude(&self) -> Option<ClaudeAdapter> {
        let talk = Talk::Replayed(Arc::clone(self.talk.as_ref()?));
        Some(ClaudeAdapter::new(self.header.model.as_str()).talk(talk))
    }

    /// Whoever was asked when a policy wanted somebody's word, with the answers that were given then; nobody if nobody was asked.
    pub fn approver(&self) -> Option<Arc<dyn Approver>> {
        self.approver.clone().map(|approver| approver as _)
    }

    /// A session with the recorded one's id, ids and time.
    pub fn session(&self, builder: SessionBuilder) -> SessionBuilder {
        let id = SessionId::from(self.header.session.as_str());
        builder.id(id).clock(self.clock()).ids(self.header.ids())
    }

    /// The STATE that the run began with, if that was written down: then it has to be restored before the run.
    pub fn state(&self) -> Option<&Value> {
        self.state.as_ref()
    }

    /// Makes the STATE of that session what it was when the run began: what [`Recording::state`] says, or what has to be there
    /// instead of it where not everything is as it was.
    ///
    /// # Errors
    /// When the session does not know what was in it.
    pub fn restore(&self, session: &Session, state: &Value) -> Result<(), SnapshotError> {
        session.restore(&session.decode_snapshot_value(state)?)?;
        self.clock.next_line();
        Ok(())
    }

    /// Has the session know what was said in the run before it went on, if it did: once, after its STATE was restored and before the
    /// run.
    pub fn goes_on_in(&self, session: &Session) {
        let Some(said) = &self.said else { return };
        for step in said {
            // What it does not take is missed when the run goes on, which is a difference.
            let _ = session.dispatch(step.clone());
        }
        self.clock.next_line();
    }

    /// What the calls of the run changed in files, oldest first, where that was written down: then it can be put back before the run
    /// is repeated.
    #[cfg(unix)]
    pub fn changed(&self) -> &[FilesChanged] {
        self.files.then()
    }

    /// Stands around handlers that reach outside, and answers with what came of them then.
    #[cfg(unix)]
    pub fn handlers(&self) -> Handlers {
        Handlers::replayed(&self.outcomes)
    }

    /// Compares what calls change in these files with what they changed then. What the scrubber knows is no difference.
    #[cfg(unix)]
    pub fn watch(&self, files: WatchedFiles, scrubber: Scrubber) {
        self.files.watch(files, scrubber);
    }

    /// Compares what the repeated run left with what the recorded one did, once, when it is over: its STATE, which is a snapshot's JSON,
    /// and what calls changed in files that nobody had looked at by then.
    pub async fn ends_with(&self, state: &Value, scrubber: &Scrubber) {
        let mut differs = None;
        #[cfg(unix)]
        for call in self.files.now().left() {
            differs = differs.or(self.files.difference(call).await);
        }
        let left = self.ended.as_ref();
        let left = left.and_then(|then| ending::difference(then, &ending::digests(state, scrubber)));
        if let Some(differs) = differs.or(left) {
            lock(&self.model.difference).get_or_insert(differs);
        }
    }

    /// The time as it was then.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(Replayed(Arc::clone(&self.clock)))
    }

    /// Chance as it was then.
    pub fn random(&self) -> Random {
        self.header.random()
    }

    /// The evaluation as it was then, cancelled where it was then.
    pub fn evaluation(&self, mut evaluation: Evaluation) -> Evaluation {
        evaluation.run.run_id = Some(self.header.run.clone());
        evaluation.tape = Some(Taped::new(Tape::Replayed(Replay {
            clock: Arc::clone(&self.clock),
            #[cfg(unix)]
            files: Arc::clone(&self.files),
            #[cfg(unix)]
            difference: Arc::clone(&self.model.difference),
            #[cfg(all(feature = "claude", unix))]
            talk: self.talk.clone(),
        })));
        evaluation.one_at_a_time()
    }
}

/// The tool of ours that the program calls with this, if it does.
fn called_by_program(spoken: &Spoken) -> Option<Arc<str>> {
    let Spoken::Heard(line) = spoken else { return None };
    let message = line.pointer("/request/message")?;
    let calls = message.get("method").and_then(Value::as_str) == Some("tools/call");
    message.pointer("/params/name").and_then(Value::as_str).filter(|_| calls).map(Arc::from)
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("header", &self.header).finish_non_exhaustive()
    }
}

struct Exchange {
    request: RecordedRequest,
    answer: Answer,
}

enum Answer {
    /// The process died first.
    None,
    /// Nobody waited for it any more.
    GivenUp,
    Given(Result<ModelResponse, ModelError>),
}

#[derive(Clone)]
struct ReplayedModel {
    name: String,
    /// The first thing that was not as it was then.
    difference: Arc<Mutex<Option<String>>>,
    clock: Arc<ReplayingClock>,
    state: Arc<Mutex<(Requests, VecDeque<Exchange>)>>,
}

impl ReplayedModel {
    fn differs(&self, message: String) -> ModelError {
        lock(&self.difference).get_or_insert_with(|| message.clone());
        not_answered(ModelErrorKind::Rejected, message)
    }

    fn next(&self, request: &ModelRequest) -> Result<Answer, ModelError> {
        let mut state = lock(&self.state);
        let (requests, exchanges) = &mut *state;
        let asked = requests.record(request);
        let Some(exchange) = exchanges.pop_front() else {
            return Err(self.differs("the recording is over, and another response was asked for".to_owned()));
        };
        if let Some(difference) = exchange.request.difference(&asked) {
            let number = exchange.request.number() + 1;
            return Err(self.differs(format!(
                "the model is asked something else than when this was recorded: in request {number}, {difference}"
            )));
        }
        Ok(exchange.answer)
    }
}

fn not_answered(kind: ModelErrorKind, message: String) -> ModelError {
    ModelError { kind, message, retry_safe: false, retry_after: None }
}

impl Model for ReplayedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        stream: &'a dyn Stream,
        _: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let answer = self.next(request)?;
            self.clock.next_line();
            let _answered = NextLine(&self.clock);
            match answer {
                Answer::Given(answer) => {
                    if let Ok(response) = &answer {
                        tell(stream, response);
                    }
                    answer
                }
                Answer::GivenUp if self.clock.gives_up() => std::future::pending().await,
                Answer::GivenUp | Answer::None => {
                    let message = "the recorded request was not answered".to_owned();
                    Err(not_answered(ModelErrorKind::Cancelled, message))
                }
            }
        })
    }
}
