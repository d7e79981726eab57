//! The plan and its rules.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::{DeclarativeSlice, Reducers, SliceType};
use crate::tool::{Render, RenderError};

/// The most characters that an objective or a title has after trimming.
const LONGEST: usize = 500;

pub(super) const NO_PLAN: &str = "No plan is currently initialised.";

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    Done,
}

impl StepStatus {
    /// The status as the model writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Done => "done",
        }
    }
}

/// How far a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// There is something to do, or nothing was planned yet.
    #[default]
    Active,
    /// All its steps are done.
    Completed,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStep {
    /// Its number, from 1.
    pub step_id: u32,
    /// What is to be done.
    pub title: String,
    /// How far it is.
    pub status: StepStatus,
}

/// What the model wants to reach, and how. Made and changed by [`SetupPlan`], [`AddStep`] and [`UpdateStep`]; a
/// session has at most one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// What is to be reached.
    pub objective: String,
    /// Whether there is something left to do.
    pub status: PlanStatus,
    /// The steps, in order.
    pub steps: Vec<PlanStep>,
}

/// Makes a plan, in place of one that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetupPlan {
    /// What is to be reached: 1 to 500 characters.
    #[schemars(length(min = 1))]
    pub objective: String,
    /// The titles of the first steps, in order: 1 to 500 characters each.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub initial_steps: Vec<String>,
}

/// Adds steps to the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddStep {
    /// The titles of the new steps, in order: 1 to 500 characters each.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub steps: Vec<String>,
}

/// Changes a step: its title, its status, or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateStep {
    /// The number of the step.
    pub step_id: u32,
    /// Its new title: 1 to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub title: Option<String>,
    /// Its new status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StepStatus>,
}

impl Plan {
    /// How many steps are done.
    pub fn done(&self) -> usize {
        self.steps.iter().filter(|step| step.status == StepStatus::Done).count()
    }

    /// The steps that are not done, in order.
    pub fn open_steps(&self) -> impl Iterator<Item = &PlanStep> {
        self.steps.iter().filter(|step| step.status != StepStatus::Done)
    }

    fn set_up(event: &SetupPlan) -> Result<Self, String> {
        let plan = Self { objective: trimmed("objective", &event.objective)?, ..Self::default() };
        plan.with_steps("initial_steps", &event.initial_steps)
    }

    fn add(&self, event: &AddStep) -> Result<Self, String> {
        if event.steps.is_empty() {
            return Err("steps is empty; give the title of at least one step to add.".to_owned());
        }
        self.current()?.with_steps("steps", &event.steps)
    }

    fn update(&self, event: &UpdateStep) -> Result<Self, String> {
        let mut plan = self.current()?;
        let title = event.title.as_deref().map(|title| trimmed("title", title)).transpose()?;
        if title.is_none() && event.status.is_none() {
            return Err("There is nothing to update; give a title, a status, or both.".to_owned());
        }
        let Some(step) = plan.steps.iter_mut().find(|step| step.step_id == event.step_id) else {
            return Err(format!("Step {} does not exist.", event.step_id));
        };
        step.title = title.unwrap_or_else(|| std::mem::take(&mut step.title));
        step.status = event.status.unwrap_or(step.status);
        Ok(plan.settled())
    }

    /// The plan, if there is one: the state before the first has no objective, and no plan is without.
    fn current(&self) -> Result<Self, String> {
        if self.objective.is_empty() { Err(NO_PLAN.to_owned()) } else { Ok(self.clone()) }
    }

    fn with_steps(mut self, field: &str, titles: &[String]) -> Result<Self, String> {
        // No step is ever removed, so the last number is the highest that was ever given.
        let mut step_id = self.steps.last().map_or(0, |step| step.step_id);
        for (at, title) in titles.iter().enumerate() {
            step_id = step_id.checked_add(1).ok_or("the plan has no number left for another step.")?;
            let title = trimmed(&format!("{field}[{at}]"), title)?;
            self.steps.push(PlanStep { step_id, title, status: StepStatus::Pending });
        }
        Ok(self.settled())
    }

    fn settled(mut self) -> Self {
        let completed = !self.steps.is_empty() && self.open_steps().next().is_none();
        self.status = if completed { PlanStatus::Completed } else { PlanStatus::Active };
        self
    }
}

fn trimmed(field: &str, text: &str) -> Result<String, String> {
    let text = text.trim();
    let count = text.chars().count();
    if (1..=LONGEST).contains(&count) {
        return Ok(text.to_owned());
    }
    Err(match count {
        0 => format!("{field} is empty; it must have 1 to {LONGEST} characters."),
        _ => format!("{field} has {count} characters; it must have 1 to {LONGEST}. Say it in fewer words."),
    })
}

impl SliceType for Plan {
    const NAME: &'static str = "wink.plan";
}

impl DeclarativeSlice for Plan {
    fn initial() -> Option<Self> {
        Some(Self::default())
    }

    fn reducers(on: &mut Reducers<Self>) {
        on.on(|_, event: &SetupPlan| Self::set_up(event))
            .on(Self::add)
            .on(Self::update)
            // For sessions that take the tools' own values as events: there is still only one plan.
            .on(|_, plan: &Self| Ok(plan.clone()));
    }
}

impl SliceType for SetupPlan {
    const NAME: &'static str = "wink.plan.setup";
}

impl SliceType for AddStep {
    const NAME: &'static str = "wink.plan.add_step";
}

impl SliceType for UpdateStep {
    const NAME: &'static str = "wink.plan.update_step";
}

impl Render for PlanStep {
    fn render(&self) -> Result<String, RenderError> {
        Ok(format!("{}. [{}] {}", self.step_id, self.status.as_str(), one_line(&self.title)))
    }
}

impl Render for Plan {
    fn render(&self) -> Result<String, RenderError> {
        let status = match self.status {
            PlanStatus::Active => "active",
            PlanStatus::Completed => "completed",
        };
        let (done, all) = (self.done(), self.steps.len());
        let mut text =
            format!("Objective: {}\nStatus: {status} ({done} of {all} done)", one_line(&self.objective));
        for step in &self.steps {
            write!(text, "\n{}", step.render()?).map_err(|error| RenderError(error.to_string()))?;
        }
        Ok(text)
    }
}

/// A title may have line breaks; the list of steps must not.
pub(super) fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}
