//! Replays recorded tasks through an engine, loses the answers of some calls on purpose, retries those, and counts
//! what came out different from the record.

use serde::Serialize;
use serde_json::Value;
use wink::testing::Dice;

use crate::trace::{Step, Task};

/// Something that can run the tools on a database of its own.
pub(crate) trait Engine {
    type Error;

    /// Goes back to the initial database, for the next task.
    fn start_task(&mut self) -> Result<(), Self::Error>;

    /// Runs one call and says what the model would read.
    fn call(&mut self, name: &str, args: &Value, fault: Fault) -> Result<Reply, Self::Error>;

    /// The hash of the database as it is now.
    fn database_sha256(&self) -> Result<String, Self::Error>;
}

/// Whether a call is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Once the tool has had its effect and before its answer is out.
    AfterEffect,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Answer(String),
    /// The fault struck; the call is to be made again.
    Lost,
}

/// What a replay came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    pub(crate) tasks: u64,
    pub(crate) calls: u64,
    pub(crate) faults: u64,
    pub(crate) wrong_results: u64,
    pub(crate) wrong_databases: u64,
}

/// Which calls fail: a share of them, the same ones for the same seed.
#[derive(Debug, Clone)]
pub(crate) struct Faults {
    share: f64,
    dice: Dice,
}

impl Faults {
    pub(crate) fn new(share: f64, seed: u64) -> Self {
        Self { share, dice: Dice::new(seed) }
    }

    /// Draws for the next call.
    fn draw(&mut self) -> Fault {
        let uniform = (self.dice.any() >> 11) as f64 / (1_u64 << 53) as f64;
        if uniform < self.share { Fault::AfterEffect } else { Fault::None }
    }
}

/// Replays every task from a fresh database. `wrong` hears of each difference: the task, and the call if it is one.
pub(crate) fn replay<E: Engine>(
    tasks: &[Task],
    engine: &mut E,
    mut faults: Faults,
    mut wrong: impl FnMut(&Task, Option<(&Step, &str)>),
) -> Result<Report, E::Error> {
    let mut report = Report::default();
    for task in tasks {
        engine.start_task()?;
        report.tasks += 1;
        for step in &task.steps {
            report.calls += 1;
            let fault = faults.draw();
            let mut reply = engine.call(&step.name, &step.args, fault)?;
            if reply == Reply::Lost {
                report.faults += 1;
                reply = engine.call(&step.name, &step.args, Fault::None)?;
            }
            match reply {
                Reply::Answer(text) if step.agrees(&text) => {}
                Reply::Answer(text) => {
                    report.wrong_results += 1;
                    wrong(task, Some((step, &text)));
                }
                Reply::Lost => {
                    report.wrong_results += 1;
                    wrong(task, Some((step, "(no answer)")));
                }
            }
        }
        if engine.database_sha256()? != task.final_db_sha256 {
            report.wrong_databases += 1;
            wrong(task, None);
        }
    }
    Ok(report)
}
