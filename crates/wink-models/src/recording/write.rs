//! Writing a recording, while the run goes on.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use wink::BoxFuture;
use wink::executor::Approver;
use wink::limits::{CancelToken, Clock};
#[cfg(unix)]
use wink::session::InvocationId;
use wink::session::{Session, SessionBuilder, SessionId};

use super::approvals::RecordedApprover;
use super::clock::{RecordingClock, Tick};
use super::ending;
#[cfg(unix)]
use super::files::{CallFiles, WatchedFiles};
#[cfg(unix)]
use super::outcomes::Handlers;
use super::requests::Requests;
use super::scrub::Scrubber;
use super::stops::{Tape, Taped};
#[cfg(all(feature = "claude", unix))]
use super::talk::Talk;
use super::{Header, Line, VERSION};
use crate::adapter::Evaluation;
use crate::conversation::ConversationStep;
use crate::lock;
use crate::model::{BoxModel, Model, ModelError, ModelRequest, ModelResponse, Stream};
use crate::random::Random;

/// Records a run: hand on its model, session, evaluation and chance, and finish it at the end.
///
/// What was said is in it word for word, but for the secrets that its scrubber knows. Whoever has tools with sensitive arguments
/// tells it ([`Scrubber::masking`]), and has a recording that cannot be repeated but for the other calls; or keeps the recording as
/// what it is.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use wink::limits::SystemClock;
/// use wink::prelude::*;
/// use wink_models::recording::{Recorder, Scrubber};
/// use wink_models::{Adapter, Evaluation, ModelAdapter, ScriptedModel};
///
/// let model = Arc::new(ScriptedModel::parse(r#"{"text": "Hello."}"#)?);
/// let prompt = PromptTemplate::builder("examples", "hello")
///     .section(Section::markdown("task", "Task").body("Say hello."))
///     .build()?
///     .prompt();
///
/// let recorder = Recorder::start(std::io::sink(), model, Arc::new(SystemClock), Scrubber::new());
/// let session = recorder.session(Session::builder()).build();
/// let adapter = ModelAdapter::new(recorder.model()).random(recorder.random());
/// let response = adapter.evaluate(&prompt, &session, recorder.evaluation(Evaluation::new())).await?;
/// recorder.finish()?;
/// assert_eq!(&*response.text, "Hello.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "a recording has to be finished"]
pub struct Recorder {
    header: Header,
    clock: Arc<dyn Clock>,
    model: BoxModel,
    shared: Arc<Shared>,
}

/// What a recording says of its run, beside what was said in it.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The session that it is in; one of its own unless given.
    pub session: Option<String>,
    /// The run, if it is one that goes on ([`Recorder::goes_on_in`]); a new one unless given.
    pub run: Option<String>,
    /// Whatever is to be known when it is repeated. Secrets are taken out of it.
    pub note: Option<Value>,
}

pub(crate) struct Shared {
    tape: Arc<Mutex<Vec<Tick>>>,
    requests: Mutex<Requests>,
    pub(super) scrubber: Mutex<Scrubber>,
    #[cfg(unix)]
    pub(super) files: CallFiles,
    out: Mutex<Out>,
}

struct Out {
    to: Box<dyn Write + Send>,
    failed: Option<std::io::Error>,
}

impl Recorder {
    /// Records into a new file, which nobody else may read.
    ///
    /// # Errors
    /// When it cannot be made; one that is there is not overwritten.
    pub fn create(
        path: impl AsRef<Path>,
        model: BoxModel,
        clock: Arc<dyn Clock>,
        scrubber: Scrubber,
    ) -> std::io::Result<Self> {
        Self::create_about(path, model, clock, scrubber, About::default())
    }

    /// The same, of a run of which more is known.
    ///
    /// # Errors
    /// As [`Recorder::create`].
    pub fn create_about(
        path: impl AsRef<Path>,
        model: BoxModel,
        clock: Arc<dyn Clock>,
        scrubber: Scrubber,
        about: About,
    ) -> std::io::Result<Self> {
        let mut options = File::options();
        options.write(true).create_new(true);
        // It has what was said, and what was in files.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        Ok(Self::begin(BufWriter::new(file), model, clock, scrubber, about))
    }

    /// Records into anything.
    pub fn start(
        to: impl Write + Send + 'static,
        model: BoxModel,
        clock: Arc<dyn Clock>,
        scrubber: Scrubber,
    ) -> Self {
        Self::begin(to, model, clock, scrubber, About::default())
    }

    fn begin(
        to: impl Write + Send + 'static,
        model: BoxModel,
        clock: Arc<dyn Clock>,
        scrubber: Scrubber,
        about: About,
    ) -> Self {
        let random = Random::system();
        let header = Header {
            wink_recording: VERSION,
            model: model.name().to_owned(),
            session: about.session.unwrap_or_else(|| random.name().to_string()),
            run: about.run.unwrap_or_else(|| random.name().to_string()),
            seed: random.any(),
            note: about.note.map(|note| scrubber.value(note)),
        };
        let shared = Arc::new(Shared {
            tape: Arc::default(),
            requests: Mutex::default(),
            scrubber: Mutex::new(scrubber),
            #[cfg(unix)]
            files: CallFiles::default(),
            out: Mutex::new(Out { to: Box::new(to), failed: None }),
        });
        let clock = Arc::new(RecordingClock::new(clock, Arc::clone(&shared.tape)));
        Self { header, clock, model, shared }.begun()
    }

    fn begun(self) -> Self {
        self.shared.write(serde_json::to_value(&self.header));
        self
    }

    /// The model, recorded.
    pub fn model(&self) -> BoxModel {
        self.another(Arc::clone(&self.model))
    }

    /// Another model that takes part in the run, recorded into the same recording: a sub-agent's. It is replayed with
    /// [`Recording::another`](super::Recording::another).
    pub fn another(&self, model: BoxModel) -> BoxModel {
        Arc::new(RecordedModel { model, shared: Arc::clone(&self.shared) })
    }

    /// What is said between us and the program `claude`, recorded.
    #[cfg(all(feature = "claude", unix))]
    pub(crate) fn talk(&self) -> Talk {
        Talk::Recorded(Arc::clone(&self.shared))
    }

    /// Whoever is asked when a policy wants somebody's word, recorded: a replay has their answers.
    pub fn approver(&self, approver: Arc<dyn Approver>) -> Arc<dyn Approver> {
        Arc::new(RecordedApprover { approver, shared: Arc::clone(&self.shared) })
    }

    /// A session whose clock and ids can be repeated.
    pub fn session(&self, builder: SessionBuilder) -> SessionBuilder {
        let id = SessionId::from(self.header.session.as_str());
        builder.id(id).clock(Arc::clone(&self.clock)).ids(self.header.ids())
    }

    /// Writes down the STATE that the run begins with, as a snapshot's JSON: for a session that is not new, once, before the run. Whoever
    /// repeats it begins with the same ([`Recording::restore`](super::Recording::restore)).
    pub fn begins_with(&self, state: Value) {
        self.shared.line(Line { state: Some(state), ..Line::default() });
    }

    /// Writes down what was said so far in the run, which goes on in this session: once, before it does. Calls that its last response
    /// wants have to be made before that ([`Evaluation::until_asked`]). Whoever repeats it has it go on from the same
    /// ([`Recording::goes_on_in`](super::Recording::goes_on_in)).
    pub fn goes_on_in(&self, session: &Session) {
        let said = ConversationStep::of_run(session, &self.header.run);
        let said = said.iter().map(|step| ConversationStep::clone(step)).collect();
        self.shared.line(Line { said: Some(said), ..Line::default() });
    }

    /// Writes down what calls change in these files, from now on: what was there before the run, and how to tell whether a replay
    /// changes the same.
    #[cfg(unix)]
    pub fn watch(&self, files: WatchedFiles) {
        self.shared.files.watch(files);
    }

    /// Stands around handlers that reach outside, and writes down what comes of them: a replay has that, and does not run them.
    #[cfg(unix)]
    pub fn handlers(&self) -> Handlers {
        Handlers::recorded(&self.shared)
    }

    /// Writes down what the run left, once, when it is over: digests of the STATE, which is a snapshot's JSON, and what calls changed in
    /// files that nobody had looked at by then.
    pub async fn ends_with(&self, state: &Value) {
        #[cfg(unix)]
        for call in self.shared.files.left() {
            self.shared.changed(call).await;
        }
        let ended = ending::digests(state, &lock(&self.shared.scrubber));
        self.shared.aside(Line { ended: Some(ended), ..Line::default() });
    }

    /// The clock, recorded.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Chance that can be repeated.
    pub fn random(&self) -> Random {
        self.header.random()
    }

    /// An evaluation that can be repeated: it has the recording's run id, and executes calls one after the other. Whoever cancels it
    /// is heard when it waits for something, and where that was is written down.
    pub fn evaluation(&self, mut evaluation: Evaluation) -> Evaluation {
        evaluation.run.run_id = Some(self.header.run.clone());
        evaluation.tape = Some(Taped::new(Tape::Recorded(Arc::clone(&self.shared))));
        evaluation.one_at_a_time()
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// What went wrong first in the whole recording.
    pub fn finish(self) -> std::io::Result<()> {
        self.shared.line(Line::default());
        let mut out = lock(&self.shared.out);
        match out.failed.take() {
            Some(error) => Err(error),
            None => out.to.flush(),
        }
    }
}

impl Shared {
    /// What happened while the clock went on.
    pub(super) fn tick(&self, tick: Tick) {
        lock(&self.tape).push(tick);
    }

    pub(super) fn line(&self, line: Line) {
        let clock = std::mem::take(&mut *lock(&self.tape));
        self.aside(Line { clock, ..line });
    }

    /// What a call that is committed changed in files.
    #[cfg(unix)]
    pub(super) async fn changed(&self, call: InvocationId) {
        let scrubber = lock(&self.scrubber).clone();
        if let Some(files) = self.files.changed(call, &scrubber).await {
            self.aside(Line { files: Some(files), ..Line::default() });
        }
    }

    /// A line, beside what the clock says.
    pub(super) fn aside(&self, line: Line) {
        let mut value = serde_json::to_value(line);
        // All that somebody else has said; the rest is our own.
        let scrubber = lock(&self.scrubber);
        for part in
            ["state", "said", "request", "response", "error", "approval", "claude", "files", "outcome"]
        {
            if let Some(part) = value.as_mut().ok().and_then(|value| value.get_mut(part)) {
                *part = scrubber.value(part.take());
            }
        }
        drop(scrubber);
        self.write(value);
    }

    fn write(&self, value: serde_json::Result<Value>) {
        let mut out = lock(&self.out);
        if out.failed.is_some() {
            return;
        }
        let written = value.map_err(std::io::Error::from).and_then(|value| {
            writeln!(out.to, "{value}")?;
            // A run that is killed leaves what it came to.
            out.to.flush()
        });
        if let Err(error) = written {
            tracing::error!(%error, "a recording cannot be written; the run goes on without it");
            out.failed = Some(error);
        }
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("header", &self.header).finish_non_exhaustive()
    }
}

struct RecordedModel {
    model: BoxModel,
    shared: Arc<Shared>,
}

impl Model for RecordedModel {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn scrubber(&self) -> Scrubber {
        self.model.scrubber()
    }

    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        stream: &'a dyn Stream,
        cancel: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let asked = lock(&self.shared.requests).record(request);
            let asked = asked.mapped(|message| lock(&self.shared.scrubber).message(message));
            self.shared.line(Line { request: Some(asked), ..Line::default() });
            let mut unanswered = Unanswered(Some(&self.shared));
            let answer = self.model.respond(request, stream, cancel).await;
            unanswered.0 = None;
            self.shared.line(match &answer {
                Ok(response) => {
                    let mut scrubber = lock(&self.shared.scrubber);
                    scrubber.learn(&response.calls);
                    Line { response: Some(scrubber.response(response)), ..Line::default() }
                }
                Err(error) => Line { error: Some(error.into()), ..Line::default() },
            });
            answer
        })
    }
}

/// Writes that a request was given up.
struct Unanswered<'a>(Option<&'a Shared>);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.line(Line { dropped: true, ..Line::default() });
        }
    }
}
