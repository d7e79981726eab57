//! `wink run`: the agent from a task to its result. Who answers is [`model`]'s business, what is seen meanwhile [`view`]'s, how it
//! ends [`ended`]'s; what happens in between is the library's.

pub(super) mod ended;
pub(super) mod model;
pub(super) mod record;
mod resume;
pub(super) mod versions;
pub(super) mod view;

use std::sync::Arc;
use std::time::Duration;

use wink::limits::{Budget, BudgetTracker, CancelToken, Deadline};
use wink::session::{RunContext, SessionBuilder};
use wink_agent::{Agent, Prepared, duration};
#[cfg(all(feature = "claude", unix))]
use wink_models::claude::ClaudeAdapter;
use wink_models::recording::Recorder;
use wink_models::{Adapter, Evaluation, ModelAdapter, PromptResponse, StopReason, Stopped};
use wink_store::Workspace;

use self::model::{Chosen, Who};
use self::record::Recorded;
use self::view::{Told, View};
use super::ending::Ending;
use super::progress::{Reporter, Waiting};
use super::{approve, open, piped};
use crate::args::{Common, RunArgs};
use crate::frame::{CliError, Done, Exit};

pub(super) async fn run(common: &Common, args: RunArgs) -> Done {
    // First of all: whoever wants it to end before it has begun is heard as well.
    let mut ending = Ending::listen()?;
    // Before the workspace is touched: what is wrong with these is found at once.
    let agent = open::agent(common)?;
    let chosen = model::choose(&agent, &args)?;
    let task = tokio::select! {
        biased;
        () = ending.told() => return Err(CliError::new(Exit::Evaluation, StopReason::Cancelled.to_string())),
        task = task(args.task.clone()) => task?,
    };
    let ahead = args.deadline.as_deref().map(deadline).transpose()?;
    if let Some(path) = &args.record {
        record::must_be_new(path)?;
    }
    let workspace = open::workspace(common)?;
    let (read, agent) = (agent.model().cloned(), open::settled(&agent, &workspace, common)?);
    let chosen = if agent.model() == read.as_ref() { chosen } else { model::choose(&agent, &args)? };
    let agent = match chosen.who {
        Who::Model(_) => agent,
        #[cfg(all(feature = "claude", unix))]
        Who::Claude(_) => agent.with_native_tools(),
    };
    let clock = Arc::clone(workspace.store().clock());
    let usage = |error: &dyn std::fmt::Display| CliError::new(Exit::Usage, error.to_string());
    let own = agent.limits();
    let ahead = ahead.or(own.deadline);
    let began = clock.now();
    let deadline = ahead.map(|ahead| Deadline::after(ahead, &*clock)).transpose();
    let deadline = deadline.map_err(|error| usage(&error))?;
    let budget = match args.budget {
        Some(tokens) => Some(Budget::total(tokens).map_err(|error| usage(&error))?),
        None => own.budget,
    };
    let told = if common.json { Told::Nothing } else { Told::Lines };
    let waiting = match told {
        Told::Lines => Waiting::begin("opening the session"),
        Told::Nothing => Waiting::silent(),
    };
    let view = View::new(told, waiting.reporter());
    let mut evaluation = Evaluation::new().watch(Arc::clone(&view) as _);
    if let Some(task) = &task {
        evaluation = evaluation.task(task.as_str());
    }
    if let Some(deadline) = deadline {
        evaluation = evaluation.deadline(deadline);
        waiting.reporter().ends_in(deadline.remaining(&*clock));
    }
    if let Some(budget) = budget {
        evaluation = evaluation.budget(Arc::new(BudgetTracker::new(budget)));
    }
    let started = clock.monotonic();
    let reporter = waiting.reporter();
    let run = Run { common, args: &args, agent: &agent, workspace: &workspace, chosen: &chosen, reporter };
    let asked = record::Asked {
        task,
        terms: chosen.terms.clone(),
        settings: chosen.settings.clone(),
        began,
        deadline: deadline.map(Deadline::timestamp),
        budget,
        commands: record::Commands::Recorded,
        goes_on: None,
        tag: common.tag.clone(),
    };
    let (came, recorded) = run.run(asked, evaluation, &mut ending).await?;
    drop(waiting);
    open::tell_left(&workspace.report());
    let kept = recorded.map_or(Ok(()), Recorded::finish);
    let (how, stats) = ended::how(&came);
    view.ended(&how, stats, clock.monotonic().saturating_sub(started));
    ended::tell_doubts(common, &workspace).await;
    let exit = ended::told(common, &came)?;
    kept.map(|()| exit)
}

/// What a run is made of.
struct Run<'a> {
    common: &'a Common,
    args: &'a RunArgs,
    agent: &'a Agent,
    workspace: &'a Arc<Workspace>,
    chosen: &'a Chosen,
    reporter: Reporter,
}

type Came = Result<PromptResponse, Stopped>;

impl Run<'_> {
    /// Runs, and gives what came of it with the recording, if there is one.
    async fn run(
        &self,
        mut asked: record::Asked,
        mut evaluation: Evaluation,
        ending: &mut Ending,
    ) -> Result<(Came, Option<Recorded>), CliError> {
        let clock = Arc::clone(self.workspace.store().clock());
        let mut opened = None;
        if let Some(resume) = &self.args.resume {
            let prepared = self.prepared(|session| session.clock(clock.clone())).await?;
            let run = resume::find(&prepared.session, resume.as_deref())?;
            evaluation = evaluation.run(RunContext { run_id: Some(run.clone()), ..RunContext::default() });
            if let Some(turns) = self.args.max_turns {
                evaluation = evaluation.max_turns(turns);
            }
            if self.args.record.is_none() {
                opened = Some(prepared);
            } else {
                // What its last response wants is no part of the recording: that some of it was done before cannot be repeated.
                let owed = evaluation.clone().until_asked();
                let came = self.evaluate(prepared, None, owed, ending).await;
                if !matches!(came, Ok(_) | Err(Stopped { reason: StopReason::Asking, .. })) {
                    return Ok((came, None));
                }
                let log = self.workspace.logbook(self.common.session.as_str()).await?;
                let after = log.newest(0, 1, |_| true).await?.last().map_or(0, |entry| entry.seq);
                asked.goes_on = Some(record::GoesOn { run, after, max_turns: self.args.max_turns });
            }
        }
        let recorded = match &self.args.record {
            Some(path) => {
                Some(Recorded::begin(path, self.common, self.workspace, self.agent, self.chosen, &asked)?)
            }
            None => None,
        };
        let prepared = match (&recorded, opened) {
            (None, Some(opened)) => opened,
            (None, None) => self.prepared(|session| session.clock(clock)).await?,
            (Some(recorded), _) => {
                let prepared = self.prepared(|session| recorded.recorder().session(session)).await?;
                recorded.begins_in(&prepared.session, self.workspace, asked.goes_on.as_ref()).await?;
                evaluation = recorded.recorder().evaluation(evaluation);
                prepared
                    .around_commands(Arc::new(record::Around(recorded.recorder().handlers())))
                    .map_err(CliError::internal)?
            }
        };
        let session = prepared.session.clone();
        let came = self.evaluate(prepared, recorded.as_ref(), evaluation, ending).await;
        if let Some(recorded) = &recorded {
            recorded.ends_in(&session, self.workspace).await?;
        }
        Ok((came, recorded))
    }

    async fn prepared(
        &self,
        with: impl FnOnce(SessionBuilder) -> SessionBuilder,
    ) -> Result<Prepared, CliError> {
        let session = with(self.workspace.session(self.common.session.as_str()));
        self.agent.prepare(self.workspace, session).await.map_err(|error| open::not_open(&error))
    }

    async fn evaluate(
        &self,
        prepared: Prepared,
        recorded: Option<&Recorded>,
        evaluation: Evaluation,
        ending: &mut Ending,
    ) -> Came {
        let adapter = self.adapter(&prepared, recorded);
        evaluate(&*adapter, prepared, evaluation, ending, &self.reporter).await
    }

    /// Whoever answers, in the agent's session.
    fn adapter(&self, prepared: &Prepared, recorded: Option<&Recorded>) -> Arc<dyn Adapter> {
        let recorder = recorded.map(Recorded::recorder);
        let approver = approve::approver(self.args.yes, self.reporter.clone());
        let approver = approver.map(|approver| match recorder {
            Some(recorder) => recorder.approver(approver),
            None => approver,
        });
        let Chosen { who, terms, settings, scrubber } = self.chosen;
        match who {
            Who::Model(model) => {
                let model = recorder.map_or_else(|| Arc::clone(model), Recorder::model);
                let mut adapter = ModelAdapter::new(model)
                    .terms(terms.clone())
                    .settings(settings.clone())
                    .withhold(scrubber)
                    .limits(prepared.limits.clone());
                if let Some(approver) = approver {
                    adapter = adapter.approver(approver);
                }
                if let Some(recorder) = recorder {
                    adapter = adapter.random(recorder.random());
                }
                Arc::new(adapter)
            }
            #[cfg(all(feature = "claude", unix))]
            Who::Claude(adapter) => {
                let adapter = ClaudeAdapter::clone(adapter);
                let mut adapter =
                    adapter.terms(terms.clone()).limits(prepared.limits.clone()).withhold(scrubber);
                if let Some(approver) = approver {
                    adapter = adapter.approver(approver);
                }
                if let Some(recorder) = recorder {
                    adapter = adapter.recorded(recorder).random(recorder.random());
                }
                Arc::new(adapter)
            }
        }
    }
}

/// Evaluates the agent's prompt, until it is done or somebody wants the program to end. Then everything that is on its way is
/// undone before it does.
pub(super) async fn evaluate(
    adapter: &dyn Adapter,
    prepared: Prepared,
    evaluation: Evaluation,
    ending: &mut Ending,
    reporter: &Reporter,
) -> Result<PromptResponse, Stopped> {
    let cancel = CancelToken::new();
    let evaluation = evaluation.resources(prepared.resources).cancel(cancel.clone());
    let mut evaluating = adapter.evaluate(&prepared.prompt, &prepared.session, evaluation);
    tokio::select! {
        biased;
        () = ending.told() => {}
        came = &mut evaluating => return came,
    }
    reporter.say("stopping: what is on its way is undone");
    cancel.cancel();
    evaluating.await
}

/// What is to be done.
async fn task(given: Option<String>) -> Result<Option<String>, CliError> {
    let Some(text) = given else { return Ok(None) };
    let text = match text.as_str() {
        "-" => {
            let (done, read) = tokio::sync::oneshot::channel();
            // Nobody waits for this thread: it may read for as long as the program runs.
            std::thread::Builder::new().spawn(move || done.send(piped(4))).map_err(CliError::internal)?;
            String::from_utf8(read.await.map_err(CliError::internal)??)
                .map_err(|_| CliError::new(Exit::Usage, "the task on standard input is not UTF-8"))?
        }
        _ => text,
    };
    match text.trim().is_empty() {
        true => Err(CliError::new(Exit::Usage, "the task is empty").hint("say what is to be done")),
        false => Ok(Some(text)),
    }
}

fn deadline(text: &str) -> Result<Duration, CliError> {
    let wrong = |how: &str| CliError::new(Exit::Usage, format!("--deadline {text}: {how}"));
    let ahead = duration(text).map_err(|hint| wrong("this is no stretch of time").hint(hint))?;
    match ahead < Deadline::SHORTEST {
        true => Err(wrong("a run has at least a second").hint("give it longer, such as 90s or 10m")),
        false => Ok(ahead),
    }
}
