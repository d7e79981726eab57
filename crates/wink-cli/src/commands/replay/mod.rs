//! `wink replay`: a recorded run once more, without its model, on a copy of the workspace; and where it differs.

mod compare;
mod copy;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use wink::BoxFuture;
use wink::executor::ExecutorLimits;
use wink::limits::{BudgetTracker, Clock, Deadline, SystemClock};
use wink_agent::Agent;
use wink_models::recording::{Recording, Scrubber};
use wink_models::{
    Adapter, Evaluation, ModelAdapter, PromptResponse, RunReport, Settings, StopReason, Stopped, Terms,
};
use wink_store::Workspace;

use super::ending::Ending;
use super::open;
use super::progress::Waiting;
use super::run::record::{self, Asked, Commands};
use super::run::view::{Told, View};
use super::run::{ended, evaluate, model, versions};
use crate::args::{Common, ReplayArgs};
use crate::frame::{self, CliError, Done, Exit, note};

/// What `replay --json` prints.
#[derive(Serialize)]
struct Replayed {
    same: bool,
    difference: Option<String>,
    #[serde(flatten)]
    report: RunReport,
}

pub(super) async fn run(common: &Common, args: &ReplayArgs) -> Done {
    let recording =
        Recording::load(&args.file).map_err(|error| CliError::new(Exit::Usage, error.to_string()))?;
    let asked = asked(&recording)?;
    let agent = open::agent(common)?;
    let scrubber = model::withhold_keys(&agent, None);
    let reach = match (args.outside, asked.commands) {
        (true, _) => Reach::Outside,
        (false, Commands::Recorded) => Reach::Recorded,
        (false, Commands::Unknown) => stays_inside(&agent, &recording)?,
    };
    let waiting = match common.json {
        true => Waiting::silent(),
        false => Waiting::begin("copying the workspace"),
    };
    let place = copy::Place::make(args.into.as_deref(), common.root())?;
    let root = place.path();
    copy::files(common.root(), root, &args.file)?;
    // Before anything of the recording is put there: it says what an agent did, and not which agent that is.
    let tag = common.tag.as_ref().or(asked.tag.as_ref());
    let agent = Agent::find_tagged(root, common.agent.as_deref(), tag.map(String::as_str))
        .map_err(|error| open::bad_agent(&error))?;
    let original = match open::has_past(common)? {
        true => {
            let workspace = open::workspace(common)?;
            let after = asked.goes_on.as_ref().map_or(0, |goes_on| goes_on.after);
            let events = compare::events(&workspace, &recording, after).await?;
            let past = copy::Past::of(&workspace, &recording, after).await?;
            copy::take_back(&recording, Some(&past), root).await?;
            events
        }
        false => {
            copy::take_back(&recording, None, root).await?;
            Vec::new()
        }
    };
    let told = if common.json { Told::Nothing } else { Told::Lines };
    let view = View::new(told, waiting.reporter());
    let began = SystemClock.monotonic();
    let (came, repeated) =
        repeat(&agent, &recording, (asked, reach), &scrubber, root, (&view, &waiting)).await?;
    drop(waiting);
    let difference = recording.difference().or_else(|| compare::difference(&original, &repeated));
    let difference = difference.map(|difference| scrubber.text(&difference));
    let (how, stats) = ended::how(&came);
    view.ended(&how, stats, SystemClock.monotonic().saturating_sub(began));
    tell(common, &came, difference)
}

/// The recorded run, in the copy; and the events of its calls.
async fn repeat(
    agent: &Agent,
    recording: &Recording,
    (asked, reach): (Asked, Reach),
    scrubber: &Scrubber,
    root: &Path,
    (view, waiting): (&Arc<View>, &Waiting),
) -> Result<(Result<PromptResponse, Stopped>, Vec<compare::Event>), CliError> {
    let workspace = Arc::new(Workspace::open(root).map_err(CliError::internal)?);
    recording.watch(record::watched(&workspace, recording.session_name()), scrubber.clone());
    let session = recording.session(workspace.session(recording.session_name()));
    let mut prepared = agent.prepare(&workspace, session).await.map_err(|error| open::not_open(&error))?;
    if let Reach::Recorded = reach {
        // As it is in no workspace: there its probes are not run, either.
        prepared.prompt = agent.prompt().clone();
        prepared = prepared
            .around_commands(Arc::new(record::Around(recording.handlers())))
            .map_err(CliError::internal)?;
    }
    if let Some(state) = recording.state() {
        let state = versions::found(state.clone(), &**workspace.files()).await;
        recording.restore(&prepared.session, &state).map_err(|error| {
            CliError::new(Exit::Usage, format!("the session cannot be as it was when the run began: {error}"))
        })?;
    }
    recording.goes_on_in(&prepared.session);
    let adapter = adapter(recording, asked.terms, asked.settings, prepared.limits.clone(), scrubber);
    let mut evaluation = Evaluation::new().watch(Arc::clone(view) as _);
    if let Some(task) = asked.task {
        evaluation = evaluation.task(task);
    }
    if let Some(deadline) = asked.deadline {
        let deadline = Deadline::at(deadline, &Then(asked.began)).map_err(|error| {
            CliError::new(Exit::Usage, format!("the recording's deadline cannot be one: {error}"))
        })?;
        evaluation = evaluation.deadline(deadline);
    }
    if let Some(budget) = asked.budget {
        evaluation = evaluation.budget(Arc::new(BudgetTracker::new(budget)));
    }
    if let Some(turns) = asked.goes_on.and_then(|goes_on| goes_on.max_turns) {
        evaluation = evaluation.max_turns(turns);
    }
    let evaluation = recording.evaluation(evaluation);
    let session = prepared.session.clone();
    let came = evaluate(&*adapter, prepared, evaluation, &mut Ending::listen()?, &waiting.reporter()).await;
    recording.ends_with(&record::ended(&session, &workspace).await?, scrubber).await;
    let events = compare::events(&workspace, recording, 0).await?;
    Ok((came, events))
}

/// Whoever answered, answering as then.
fn adapter(
    recording: &Recording,
    terms: Terms,
    settings: Settings,
    limits: ExecutorLimits,
    scrubber: &Scrubber,
) -> Box<dyn Adapter> {
    #[cfg(all(feature = "claude", unix))]
    if let Some(adapter) = recording.claude() {
        let adapter = adapter.terms(terms).random(recording.random()).limits(limits).withhold(scrubber);
        return Box::new(match recording.approver() {
            Some(approver) => adapter.approver(approver),
            None => adapter,
        });
    }
    let adapter = ModelAdapter::new(recording.model())
        .terms(terms)
        .settings(settings)
        .random(recording.random())
        .limits(limits)
        .withhold(scrubber);
    Box::new(match recording.approver() {
        Some(approver) => adapter.approver(approver),
        None => adapter,
    })
}

/// What the run was asked for.
fn asked(recording: &Recording) -> Result<Asked, CliError> {
    let note = recording.note().cloned().unwrap_or_default();
    serde_json::from_value(note).map_err(|_| {
        CliError::new(
            Exit::Usage,
            "the recording does not say what was asked for: `wink run` did not make it",
        )
        .hint("`wink run TASK --model script:FILE` answers from any recording")
    })
}

/// What becomes of commands.
#[derive(Clone, Copy)]
enum Reach {
    /// They are run again.
    Outside,
    /// What came of them is in the recording, and none is run.
    Recorded,
}

/// What reaches outside would have its effect again.
fn stays_inside(agent: &Agent, recording: &Recording) -> Result<Reach, CliError> {
    let outside = |tool: &&Arc<str>| {
        let mut tools = agent.prompt().possible_tools();
        tools.any(|placed| *placed.name() == **tool && placed.tool.contract().annotations().open_world)
    };
    let outside: Vec<&str> = recording.called().iter().filter(outside).map(|tool| &**tool).collect();
    if outside.is_empty() {
        return Ok(Reach::Outside);
    }
    let message = format!(
        "the run called {}, which may reach outside of the workspace, and would do so again",
        outside.join(" and ")
    );
    Err(CliError::new(Exit::Usage, message).hint(
        "--outside runs it again; a tool that does not reach outside says so: `annotations = { open_world = false }`",
    ))
}

fn tell(common: &Common, came: &Result<PromptResponse, Stopped>, difference: Option<String>) -> Done {
    if let Err(Stopped { reason: StopReason::Runtime(reason), .. }) = came {
        return Err(CliError::internal(reason));
    }
    if common.json {
        let same = difference.is_none();
        let replayed = Replayed { same, difference, report: RunReport::of(came) };
        frame::print_json(&replayed)?;
        return Ok(if same { Exit::Success } else { Exit::Failure });
    }
    if let Some(difference) = difference {
        return Err(CliError::new(Exit::Failure, difference)
            .hint("a replay is the same where agent and files are as they were before the run"));
    }
    match came {
        Ok(response) => ended::print(response)?,
        Err(stopped) => {
            note(&format!("it was stopped as it was when it was recorded: {stopped}"));
            Exit::Success
        }
    };
    note("the same as recorded");
    Ok(Exit::Success)
}

/// The clock as it was when the run began.
struct Then(Timestamp);

impl Clock for Then {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}
