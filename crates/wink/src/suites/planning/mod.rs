//! Planning: a to-do list that the model keeps in the session.
//!
//! [`Plan`] holds every rule; the tools only hand events to it and show what became of it. A plan belongs to the
//! session, is rolled back with the call that changed it, and is stored like any other slice.

mod checker;
mod plan;
mod tools;

use crate::prompt::Section;

pub use checker::PlanChecker;
pub use plan::{AddStep, Plan, PlanStatus, PlanStep, SetupPlan, StepStatus, UpdateStep};
pub use tools::ReadPlan;

/// How the model is told to think. Everything else in the section is the same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlanningStrategy {
    /// Reason, act, observe, and again.
    #[default]
    ReAct,
    /// Plan everything, act step by step, reflect after each.
    PlanActReflect,
    /// Restate the goal, decompose it, route the parts to tools, put the results together.
    GoalDecomposeRouteSynthesise,
}

impl PlanningStrategy {
    fn mindset(self) -> &'static str {
        match self {
            Self::ReAct => {
                "Work in short rounds: think about what you need to know next, call one tool to find out or to make \
                 progress, and look at what came back before you think again. Let what you observe change the plan: \
                 reword a step, or add one, as soon as you learn that it is needed."
            }
            Self::PlanActReflect => {
                "Lay out the whole plan before you act. Then take one step at a time, and after each ask yourself \
                 what it showed and whether the rest of the plan still holds. Put what you conclude into the titles \
                 of the steps that it changes, or into your answer."
            }
            Self::GoalDecomposeRouteSynthesise => {
                "Begin by restating the goal in your own words, as the objective. Decompose it into parts that can be \
                 solved on their own, one step each, and route each part to the tool that serves it best. When all \
                 parts are done, synthesise their results into one answer to the goal."
            }
        }
    }
}

/// The planning suite: four tools, the [`Plan`] slice, and guidance on how to use them.
///
/// ```
/// use wink::prelude::*;
/// use wink::suites::{PlanningStrategy, PlanningToolsSection};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let template = PromptTemplate::builder("examples", "planning")
///     .section(PlanningToolsSection::new().strategy(PlanningStrategy::PlanActReflect).section())
///     .build()?;
/// # let _ = template;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a suite does nothing until its section is in a prompt"]
pub struct PlanningToolsSection {
    strategy: PlanningStrategy,
}

impl PlanningToolsSection {
    /// The suite with the default strategy.
    pub fn new() -> Self {
        Self::default()
    }

    /// How the model is told to think.
    pub fn strategy(mut self, strategy: PlanningStrategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// The section, under key `planning`.
    pub fn section(self) -> Section {
        let mindset = self.strategy.mindset();
        let body = format!("{INTRODUCTION}\n\n{mindset}\n\n{RULES}");
        Section::markdown("planning", "Planning")
            .body(body)
            .install(|session| session.install::<Plan>())
            .tool(tools::setup_plan())
            .tool(tools::add_step())
            .tool(tools::update_step())
            .tool(tools::read_plan())
    }
}

impl From<PlanningToolsSection> for Section {
    fn from(suite: PlanningToolsSection) -> Self {
        suite.section()
    }
}

const INTRODUCTION: &str = "\
Keep a plan for work that takes more than a few steps. It is kept for you between calls, and you are the only one who \
keeps it up to date.";

const RULES: &str = "\
- `planning_setup_plan` states the objective and the first steps. It replaces a plan that is there.
- `planning_add_step` adds steps at the end. Steps are numbered 1, 2, 3… and a number is never used twice.
- `planning_update_step` rewords a step or sets its status: `pending`, `in_progress` or `done`. Set a step to \
`in_progress` before you begin it and to `done` as soon as it is.
- `planning_read_plan` shows the plan.

The plan is completed when all its steps are done, and active again when you add or reopen one.";
