//! Runs recorded calls through a wink executor, each task on a session of its own.

use std::sync::Arc;

use serde_json::Value;
use wink::executor::{Executor, Moment, OpenError, Step, ToolCall};
use wink::prelude::*;
use wink::resource::{Binding, ResourceError, ResourceRegistry};
use wink::session::{SessionError, upsert_by_key};
use wink::testing::{self, FaultPoint};

use crate::database::Initial;
use crate::records::{Account, Order};
use crate::replay::{Engine, Fault, Reply};
use crate::tools::{Slices, Writes, section};

/// Where a call can be struck once its tool has had its effect and before anybody was told of it.
const AFTER_EFFECT: [(Step, Moment); 6] = [
    (Step::Handler, Moment::After),
    (Step::OnResult, Moment::Before),
    (Step::OnResult, Moment::After),
    (Step::Subscribers, Moment::Before),
    (Step::Subscribers, Moment::After),
    (Step::Commit, Moment::Before),
];

/// What strikes it: a step fails, somebody cancels the call, or whoever waits for it goes away.
const STRIKES: [testing::Fault; 3] = [testing::Fault::Error, testing::Fault::Cancel, testing::Fault::Drop];

/// The tools over a session in memory.
pub(crate) struct WinkEngine {
    runtime: tokio::runtime::Runtime,
    initial: Arc<Initial>,
    prompt: Prompt,
    /// Has the initial records; every task works on a copy, which shares them.
    seeded: Session,
    writes: Writes,
    faults: testing::Faults,
    /// How many calls were to be struck, so that each is struck differently.
    struck: usize,
    calls: usize,
    executor: Executor,
}

/// The engine could not be made ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    #[error("no runtime for asynchronous handlers: {0}")]
    Runtime(#[from] std::io::Error),
    #[error(transparent)]
    Tools(#[from] wink::prompt::PromptValidationError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Resource(#[from] ResourceError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the database cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl WinkEngine {
    pub(crate) fn new(initial: Arc<Initial>, writes: Writes) -> Result<Self, EngineError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let prompt =
            PromptTemplate::builder("examples", "tau-retail").section(section(writes)).build()?.prompt();

        let seeded = Session::new();
        // A changed record takes the place of the old one: searches take the first match in stored order.
        seeded.register::<Order, Order>(upsert_by_key())?;
        seeded.register::<Account, Account>(upsert_by_key())?;
        seeded.seed(initial.orders.iter().cloned())?;
        seeded.seed(initial.accounts.iter().cloned())?;
        seeded.seed(initial.products.iter().cloned())?;

        let faults = testing::Faults::new();
        let executor = runtime.block_on(open(&prompt, &seeded, writes, &faults))?;
        Ok(Self { runtime, initial, prompt, seeded, writes, faults, struck: 0, calls: 0, executor })
    }

    fn next_point(&mut self) -> FaultPoint {
        let at = self.struck;
        self.struck += 1;
        // One point after the other, with each kind of fault in turn.
        let points = AFTER_EFFECT
            .into_iter()
            .cycle()
            .zip(STRIKES.into_iter().flat_map(|strike| std::iter::repeat_n(strike, AFTER_EFFECT.len())));
        let mut points = points.map(|((step, moment), strike)| FaultPoint::new(step, moment, strike));
        let all = AFTER_EFFECT.len() * STRIKES.len();
        points.nth(at % all).unwrap_or(FaultPoint::new(Step::Commit, Moment::Before, testing::Fault::Error))
    }
}

async fn open(
    prompt: &Prompt,
    session: &Session,
    writes: Writes,
    faults: &testing::Faults,
) -> Result<Executor, EngineError> {
    let executor = Executor::builder(prompt, session).hook(Arc::new(faults.clone()));
    let executor = match writes {
        Writes::InTheCall => executor,
        Writes::Unprotected => {
            executor.resources(ResourceRegistry::of([Binding::instance(Arc::new(session.clone()))])?)
        }
    };
    Ok(executor.open().await?)
}

impl Engine for WinkEngine {
    type Error = EngineError;

    fn start_task(&mut self) -> Result<(), EngineError> {
        let session = self.seeded.duplicate();
        let opening = open(&self.prompt, &session, self.writes, &self.faults);
        self.executor = self.runtime.block_on(opening)?;
        Ok(())
    }

    fn call(&mut self, name: &str, args: &Value, fault: Fault) -> Result<Reply, EngineError> {
        self.calls += 1;
        let call = ToolCall::new(format!("call-{}", self.calls), name, args.to_string());
        if fault == Fault::None {
            let outcome = self.runtime.block_on(self.executor.call(call));
            return Ok(Reply::Answer(outcome.text().to_owned()));
        }
        let point = self.next_point();
        let came = self.runtime.block_on(self.faults.run(&self.executor, call, point));
        Ok(match came.outcome {
            // A call that was refused had no effect to be struck after.
            Some(outcome) if !came.hit => Reply::Answer(outcome.text().to_owned()),
            Some(_) | None => Reply::Lost,
        })
    }

    fn database_sha256(&self) -> Result<String, EngineError> {
        Ok(self.initial.sha256(&Slices::committed(self.executor.session()))?)
    }
}
