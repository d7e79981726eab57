//! A scenario, and how it takes place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use wink::limits::{Budget, BudgetTracker, CancelToken, Deadline};
use wink::session::{Ending, RunContext, Session, ToolInvoked};
use wink::testing::{ByteStore, filesystem_tree};

use super::compare::Found;
use super::world::{Note, Wants, World};
use super::{Replies, Running, Script, Setup, Subject};
use crate::{Evaluation, PromptResponse, Random, Stopped, Terms};

/// A conversation, and what is to come of it.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub(super) name: &'static str,
    pub(super) script: Script,
    pub(super) terms: Terms,
    pub(super) wants: Wants,
    pub(super) meanwhile: Meanwhile,
    pub(super) ends: Ends,
}

/// What happens while the model is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meanwhile {
    Nothing,
    /// Whoever waits sees a second go by, and another.
    TimePasses,
    /// So many tokens may be used.
    Budget(i64),
    /// After the first calls, time is up.
    DeadlineAfterCalls,
    /// In the middle of a call, time is up.
    DeadlineInCall,
    /// After the first calls, it is cancelled.
    CancelAfterCalls,
    /// In the middle of a call, it is cancelled.
    CancelInCall,
    /// In the middle of a call, it is cancelled, and another process takes it up again.
    ResumeInCall,
}

/// What is to come of it, whoever it is done with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ends {
    /// The last word of each evaluation, or why it was stopped.
    pub(super) came: Vec<Result<String, &'static str>>,
    /// The typed results.
    pub(super) outputs: Vec<Value>,
    /// What is in the session.
    pub(super) notes: Vec<String>,
    /// What is in the workspace.
    pub(super) files: BTreeMap<String, String>,
    /// What was done outside.
    pub(super) outside: Vec<String>,
    /// Every call, and how it ended.
    pub(super) calls: Vec<(String, Ending)>,
}

impl Scenario {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What the model says.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// The same with a model that can say no more than this at a time.
    pub(super) fn told_by(&self, replies: Replies) -> Self {
        Self { script: self.script.told_by(replies), ..self.clone() }
    }

    /// What is not as it has to be with anybody.
    pub(super) fn wrong_with(&self, found: &Found) -> Vec<String> {
        let mut wrong: Vec<String> =
            found.complaints.iter().map(|reason| format!("a request was refused: {reason}")).collect();
        if found.ends != self.ends {
            wrong.push(format!("it came to {:?}, and has to come to {:?}", found.ends, self.ends));
        }
        wrong
    }

    /// Takes place, with the subject's adapter.
    pub(super) async fn run(&self, subject: &dyn Subject) -> Found {
        let world = World::new(self.wants);
        let setup = Setup { terms: self.terms.clone(), random: Random::seeded(7) };
        let running = subject.start(&self.script, setup).await;
        let store = Arc::new(ByteStore::new());
        let mut session = world.session(Arc::clone(&store), 1).await;
        let mut came = vec![self.evaluate(&world, &*running, &session).await];
        if self.meanwhile == Meanwhile::ResumeInCall {
            drop(session);
            world.gate.open();
            session = world.session(Arc::new(store.reopen().unwrap()), 2).await;
            came.push(world.evaluate(&*running, &session, Evaluation::new()).await);
        }
        Found::new(&world, &session, &came, running.complaints(), self.ended(&world, &session, &came).await)
    }

    async fn evaluate(
        &self,
        world: &World,
        running: &dyn Running,
        session: &Session,
    ) -> Result<PromptResponse, Stopped> {
        let (clock, cancel) = (&world.clock, CancelToken::new());
        let mut evaluation = Evaluation::new().cancel(cancel.clone());
        let minute = Duration::from_secs(60);
        match self.meanwhile {
            Meanwhile::DeadlineAfterCalls | Meanwhile::DeadlineInCall => {
                evaluation = evaluation.deadline(Deadline::after(minute, clock).unwrap());
            }
            Meanwhile::Budget(tokens) => {
                let budget = Budget::total(tokens).unwrap();
                evaluation = evaluation.budget(Arc::new(BudgetTracker::new(budget)));
            }
            _ => {}
        }
        let meanwhile = async {
            match self.meanwhile {
                Meanwhile::Nothing | Meanwhile::Budget(_) => {}
                Meanwhile::TimePasses => loop {
                    clock.until_sleeping(1).await;
                    clock.advance(Duration::from_secs(1));
                    tokio::task::yield_now().await;
                },
                Meanwhile::DeadlineAfterCalls | Meanwhile::DeadlineInCall => {
                    match self.meanwhile {
                        Meanwhile::DeadlineInCall => world.gate.until_entered().await,
                        _ => world.watching.until_called().await,
                    }
                    clock.until_sleeping(1).await;
                    clock.advance(minute);
                }
                Meanwhile::CancelAfterCalls => {
                    world.watching.until_called().await;
                    cancel.cancel();
                }
                Meanwhile::CancelInCall | Meanwhile::ResumeInCall => {
                    world.gate.until_entered().await;
                    cancel.cancel();
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            came = world.evaluate(running, session, evaluation) => came,
            never = meanwhile => never,
        }
    }

    async fn ended(
        &self,
        world: &World,
        session: &Session,
        came: &[Result<PromptResponse, Stopped>],
    ) -> Ends {
        let word = |came: &Result<PromptResponse, Stopped>| match came {
            Ok(response) => Ok(response.text.to_string()),
            Err(stopped) => Err(stopped.reason.name()),
        };
        let text =
            |content: Option<Vec<u8>>| String::from_utf8_lossy(&content.unwrap_or_default()).into_owned();
        let files = filesystem_tree(&*world.files).await;
        Ends {
            came: came.iter().map(word).collect(),
            outputs: came.iter().flatten().filter_map(|came| came.output.as_deref().cloned()).collect(),
            notes: session.slice::<Note>().iter().map(|note| note.text.clone()).collect(),
            files: files.into_iter().map(|(path, content)| (path.to_string(), text(content))).collect(),
            outside: crate::lock(&world.outside.0).clone(),
            calls: session
                .slice::<ToolInvoked>()
                .iter()
                .map(|event| (event.tool.to_string(), event.ending))
                .collect(),
        }
    }
}

impl World {
    async fn evaluate(
        &self,
        running: &dyn Running,
        session: &Session,
        evaluation: Evaluation,
    ) -> Result<PromptResponse, Stopped> {
        let run = RunContext { run_id: Some("run".into()), ..RunContext::default() };
        let evaluation = evaluation
            .task("Do it.")
            .run(run)
            .resources(self.resources.clone())
            .watch(Arc::clone(&self.watching) as Arc<dyn crate::Watch>);
        running.adapter().evaluate(&self.prompt, session, evaluation).await
    }
}
