//! An adapter of the program `claude` (Claude Code), by the control protocol of its agent SDK.
//!
//! The program has the loop here: it asks the model, and we serve it. The prompt is its system prompt, and the session's tools are an
//! MCP server inside of this process, so that each of their calls goes through the executor. Tools of the program's own are offered if
//! the prompt has them ([`native_tools`]); they go through the executor as well, by hooks: policies decide whether one may run, the log
//! has it, and what it changed in the workspace is undone when it fails, or when the program dies.
//!
//! The program gets a home of its own, which is removed afterwards, and of this process's environment nothing but `PATH`; everything else is
//! configuration ([`ClaudeAdapter::env`], [`ClaudeAdapter::secret`]). It reads no settings, not even the workspace's.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use wink::filesystem::host::{HostFilesystem, HostOptions};
//! use wink::prelude::*;
//! use wink::resource::Binding;
//! use wink_models::claude::{ClaudeAdapter, Native, native_tools};
//! use wink_models::{Adapter, Evaluation, Secret};
//!
//! let files = HostFilesystem::open("project", HostOptions::default())?;
//! let tools = native_tools([Native::Read, Native::Edit]).resource(Binding::filesystem(Arc::new(files)));
//! let prompt = PromptTemplate::builder("examples", "edits").section(tools).build()?.prompt();
//! let key = Secret::new(std::env::var("ANTHROPIC_API_KEY")?);
//! let adapter = ClaudeAdapter::new("sonnet").secret("ANTHROPIC_API_KEY", key)?;
//! let evaluation = Evaluation::new().task("Correct the spelling in README.md.");
//! let response = adapter.evaluate(&prompt, &Session::new(), evaluation).await?;
//! println!("{}", response.text);
//! # Ok(())
//! # }
//! ```
//!
//! What is different from other adapters: the program repeats failed requests itself, so that there is no window and no wait of ours
//! between them; and it checks typed results itself, and asks for another one. A run that was stopped is taken up again with another
//! program, which is given what was said as a transcript (`--resume`): the session's log has it, and no home of a program need be kept.

mod calls;
mod ending;
mod hooks;
mod mcp;
mod native;
mod output;
mod pipes;
mod process;
mod resume;
mod run;
mod script;
mod serve;
#[cfg(test)]
mod tests;
mod transcript;
mod wire;
mod working;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tokio::sync::mpsc;
use wink::BoxFuture;
use wink::executor::{Approver, ExecutorLimits};
use wink::filesystem::Filesystem;
use wink::filesystem::host::HostFilesystem;
use wink::limits::CancelToken;
use wink::prompt::Prompt;
use wink::resource::ResourceRegistry;
use wink::session::Session;
use wink::tool::AdapterInfo;

use crate::Secret;
use crate::adapter::{Adapter, Evaluation, PromptResponse, Stopped};
use crate::base::{self, Base};
use crate::conversation::{Completed, Conversation, RunStats, Said, StopReason, Terms};
use crate::driver::{Ground, Watch};
use crate::finish;
use crate::message::Message;
use crate::model::{BoxModel, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, Stream};
use crate::random::Random;
use crate::recording::{Recorder, Scrubber, Talk, TooShort};

pub use native::{Native, native_tools};

pub(crate) use script::responses;
pub(crate) use transcript::known_name;

use native::Pending;
use pipes::{Lines, Writer};
use process::{Leash, Start};
use resume::GoesOn;
use serve::{Server, Setup};

/// The name of the adapter, for the log.
const NAME: &str = "claude";

/// An adapter of the program `claude`. Cheap to clone.
#[derive(Clone)]
#[must_use = "an adapter does nothing until it evaluates a prompt"]
pub struct ClaudeAdapter {
    program: PathBuf,
    model: Arc<str>,
    environment: Vec<(OsString, OsString)>,
    secrets: Vec<(OsString, Secret<String>)>,
    talk: Option<Talk>,
    base: Base,
}

impl ClaudeAdapter {
    /// An adapter that has the program use this model, which may be one of its own names for models.
    pub fn new(model: impl Into<Arc<str>>) -> Self {
        Self {
            program: NAME.into(),
            model: model.into(),
            environment: Vec::new(),
            secrets: Vec::new(),
            talk: None,
            base: Base::default(),
        }
    }

    /// Where the program is; otherwise it is looked for in `PATH`.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
    }

    /// A variable of its environment: `ANTHROPIC_BASE_URL`, for example. What is secret goes to [`ClaudeAdapter::secret`].
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// A variable of its environment that nobody is to see: `ANTHROPIC_API_KEY`, for example. It is taken out of all that goes to the
    /// log or into errors.
    ///
    /// The commands that the program runs do not have it. They run as the program's user, though, in no sandbox: one that goes looking
    /// can read it from the program itself (on Linux, in `/proc`), and the model sees what it prints. Whoever gives a model `Bash` gives
    /// it a key that can be taken back.
    ///
    /// # Errors
    /// When it is too short to be found in other texts.
    pub fn secret(mut self, name: impl Into<OsString>, value: Secret<String>) -> Result<Self, TooShort> {
        self.base.scrubber = self.base.scrubber.knowing(&value)?;
        self.secrets.push((name.into(), value));
        Ok(self)
    }

    /// Has a recording of all that is said between us and the program, and with it everything that happens: it is repeated by
    /// [`Recording::claude`](crate::recording::Recording::claude). A prompt with tools of the program's own is refused: what those do is not
    /// said. Who else is recorded is up to the recorder, as with any model.
    pub fn recorded(self, recorder: &Recorder) -> Self {
        self.talk(recorder.talk())
    }

    pub(crate) fn talk(mut self, talk: Talk) -> Self {
        self.talk = Some(talk);
        self
    }

    /// What stands for the program's model in a recording: its name. It cannot be asked.
    pub fn stand_in(&self) -> BoxModel {
        Arc::new(StandIn(Arc::clone(&self.model)))
    }

    /// Keeps more secrets out of calls, their results and the log than the key of whoever answers, which it knows.
    pub fn withhold(mut self, secrets: &Scrubber) -> Self {
        self.base.scrubber = self.base.scrubber.and(secrets);
        self
    }

    /// What conversations are held to. Of the retries only their number counts.
    pub fn terms(mut self, terms: Terms) -> Self {
        self.base.terms = terms;
        self
    }

    /// Where names of runs come from.
    pub fn random(mut self, random: Random) -> Self {
        self.base.random = random;
        self
    }

    /// Who is asked when a policy wants somebody's word.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.base.approver = Some(approver);
        self
    }

    /// Resources of the adapter: over those of sections, under the loop's.
    pub fn resources(mut self, resources: ResourceRegistry) -> Self {
        self.base.resources = Some(resources);
        self
    }

    /// What calls are held to.
    pub fn limits(mut self, limits: ExecutorLimits) -> Self {
        self.base.limits = limits;
        self
    }

    /// A run, from its beginning or from where it was stopped, to its end.
    async fn run(
        &self,
        prompt: &Prompt,
        session: &Session,
        evaluation: &mut Evaluation,
    ) -> (Result<Completed, StopReason>, RunStats) {
        let never = |reason| (Err(reason), RunStats::default());
        let leash = Arc::new(Leash::default());
        let pending = Pending::new(Arc::clone(&leash));
        let adapter = AdapterInfo::new(NAME).utility(Arc::clone(&pending.0));
        let executor = match self.base.open(adapter, prompt, session, evaluation).await {
            Ok(executor) => executor,
            Err(reason) => return never(reason),
        };
        pending.0.track(&executor);
        let came = match self.base.conversation(session, evaluation).await {
            Err(reason) => never(reason),
            Ok((conversation, began, _held)) => {
                let ground = evaluation.ground(prompt, &executor);
                let conversing = self.converse(&ground, conversation, began, (leash, pending));
                let came = evaluation.held_to_tape(conversing).await;
                ground.flush().await;
                ground.watch.stats(came.1);
                came
            }
        };
        base::close(executor).await;
        came
    }

    async fn converse(
        &self,
        ground: &Ground<'_>,
        mut conversation: Conversation,
        began: Option<Said>,
        (leash, pending): (Arc<Leash>, (Arc<Pending>, mpsc::UnboundedReceiver<Arc<str>>)),
    ) -> (Result<Completed, StopReason>, RunStats) {
        let workspace = match self.workspace(ground).await {
            Ok(workspace) => workspace,
            Err(reason) => return (Err(reason), conversation.stats()),
        };
        let ready = match began {
            Some(began) => ground.keep(&conversation, began, None).await.map(|()| None),
            None => resume::take_up(ground, &mut conversation, workspace.as_deref()).await,
        };
        match ready {
            Ok(None) if ground.until_asked => return (Err(StopReason::Asking), conversation.stats()),
            Ok(None) => {}
            Ok(Some(completed)) => return (Ok(completed), conversation.stats()),
            Err(reason) => return (Err(reason), conversation.stats()),
        }
        let goes_on = GoesOn::after(conversation.messages(), &self.model, ground.clock().now());
        let begins = Begins { transcript: goes_on.as_ref(), turns: conversation.stats().turns };
        if let (Some(talk), Some(rendered)) = (&self.talk, ground.executor.rendered()) {
            // It is told this when it is started.
            let output = finish::output_spec(&rendered).map(|output| Arc::clone(&output.schema));
            talk.told(&json!({ "prompt": rendered.text(), "output": output }));
        }
        let is_replayed = matches!(self.talk, Some(Talk::Replayed(_)));
        let started = match is_replayed {
            true => None,
            false => match self.start(ground, &leash, workspace.as_deref(), &begins) {
                Ok(started) => Some(started),
                Err(reason) => return (Err(reason), conversation.stats()),
            },
        };
        let first = conversation.messages().front().and_then(|message| match &**message {
            Message::User { text } => Some(Arc::clone(text)),
            Message::Assistant { .. } | Message::Tools { .. } => None,
        });
        let setup = Setup {
            ground: ground.clone(),
            terms: self.base.terms.clone(),
            task: goes_on.map(|goes_on| goes_on.say).or(first),
            scrubber: self.base.scrubber.clone(),
            talk: self.talk.clone(),
            conversation,
            workspace,
            pending,
        };
        let talk = self.talk.clone();
        match started {
            Some((program, stdout, stdin)) => {
                Server::new(setup, Lines::new(stdout), Writer::new(stdin, talk), Some(program)).run().await
            }
            None => {
                let nobody = (Lines::new(tokio::io::empty()), Writer::new(tokio::io::sink(), talk));
                Server::new(setup, nobody.0, nobody.1, None).run().await
            }
        }
    }

    /// An error of the runtime, without secrets.
    fn runtime(&self, error: &dyn std::fmt::Display) -> StopReason {
        StopReason::Runtime(self.base.scrubber.text(&error.to_string()))
    }

    /// Where the program's own tools work; nothing if the prompt has none.
    async fn workspace(&self, ground: &Ground<'_>) -> Result<Option<PathBuf>, StopReason> {
        if natives(ground.prompt).next().is_none() {
            return Ok(None);
        }
        if self.talk.is_some() {
            return Err(self.runtime(&NOT_SAID));
        }
        let files = ground.executor.resources().get::<dyn Filesystem>().await;
        let files = files.map_err(|error| self.runtime(&error))?;
        let on_disk = HostFilesystem::of(&*files).map(|files| files.root().canonicalize());
        let root = on_disk.ok_or_else(|| self.runtime(&NOT_ON_DISK))?;
        Ok(Some(root.map_err(|error| self.runtime(&error))?))
    }

    /// Starts the program, in the workspace if it has tools of its own to use there.
    fn start(
        &self,
        ground: &Ground<'_>,
        leash: &Arc<Leash>,
        workspace: Option<&Path>,
        begins: &Begins<'_>,
    ) -> Result<Started, StopReason> {
        let rendered = ground.executor.rendered();
        let rendered = rendered.ok_or_else(|| self.runtime(&"the prompt was not rendered"))?;
        let secrets = self.secrets.iter().map(|(name, value)| (name.as_os_str(), OsStr::new(value.expose())));
        let plain = self.environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
        let output = finish::output_spec(&rendered);
        let start = Start {
            program: &self.program,
            environment: plain.collect(),
            secrets: secrets.collect(),
            workspace,
            model: &self.model,
            prompt: rendered.text(),
            tools: natives(ground.prompt).map(Native::name).collect(),
            output: output.as_ref().map(|output| &*output.schema),
            transcript: begins.transcript.map(|goes_on| &*goes_on.transcript),
            max_turns: self.base.terms.max_turns.saturating_sub(begins.turns).max(1),
            max_attempts: self.base.terms.retry.max_attempts,
        };
        start.start(leash).map_err(|error| {
            let program = Path::new(&self.program).display();
            self.runtime(&format!(
                "the program {program} cannot be started: {error}; install Claude Code, or say where it is"
            ))
        })
    }
}

/// Where a program begins.
struct Begins<'a> {
    transcript: Option<&'a GoesOn>,
    /// How many responses there were.
    turns: u32,
}

/// The tools of the program's own in a prompt. Also those of sections that are closed: it cannot be given more of them later.
fn natives(prompt: &Prompt) -> impl Iterator<Item = Native> {
    prompt.possible_tools().filter_map(|placed| Native::by_tool(placed.name()))
}

type Started = (process::Program, tokio::process::ChildStdout, tokio::process::ChildStdin);

const NOT_ON_DISK: &str = "the prompt has tools of Claude Code, but the workspace is not a directory on disk; bind a HostFilesystem as the \
                           workspace, or leave the tools out";

const NOT_SAID: &str = "what Claude Code does with tools of its own is not said to us, so that it cannot be recorded; leave them out of the \
                        prompt, or do not record the run";

/// Has the name of the program's model, which only the program asks.
struct StandIn(Arc<str>);

impl Model for StandIn {
    fn name(&self) -> &str {
        &self.0
    }

    fn respond<'a>(
        &'a self,
        _: &'a ModelRequest,
        _: &'a dyn Stream,
        _: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let error = ending::failure(ModelErrorKind::Rejected, "only Claude Code asks this model", false);
        Box::pin(std::future::ready(Err(error)))
    }
}

impl Adapter for ClaudeAdapter {
    fn name(&self) -> &str {
        NAME
    }

    fn evaluate<'a>(
        &'a self,
        prompt: &'a Prompt,
        session: &'a Session,
        mut evaluation: Evaluation,
    ) -> BoxFuture<'a, Result<PromptResponse, Stopped>> {
        Box::pin(async move {
            let run_id = evaluation.named(&self.base.random);
            let (ended, stats) = self.run(prompt, session, &mut evaluation).await;
            PromptResponse::of(run_id, prompt, ended, stats)
        })
    }
}

impl std::fmt::Debug for ClaudeAdapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaudeAdapter")
            .field("program", &self.program)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
