//! The four tools. They hand events to the plan and show what became of it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::{AddStep, Plan, PlanStatus, PlanStep, SetupPlan, StepStatus, UpdateStep};
use crate::session::SliceType;
use crate::tool::{Annotations, Footprint, ReadContext, Tool, ToolContext, ToolError, ToolResult};

/// Shows the plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadPlan {}

pub(super) fn setup_plan() -> Tool<SetupPlan, Plan> {
    let titles = ["Reproduce the failure", "Fix it"];
    let example = SetupPlan {
        objective: "Make the tests pass".to_owned(),
        initial_steps: titles.map(str::to_owned).to_vec(),
    };
    Tool::new(
        "planning_setup_plan",
        "Make a plan: the objective and the first steps. Replaces the plan there is.",
        setup,
    )
    .annotations(annotations(true))
    .footprint(|_| Footprint::nothing().write_slice::<Plan>())
    .rendered()
    .vouched()
    .example("Plan a bug fix", example, example_plan(StepStatus::Pending))
}

pub(super) fn add_step() -> Tool<AddStep, Plan> {
    Tool::new("planning_add_step", "Add steps at the end of the plan.", add)
        .annotations(annotations(false))
        .footprint(|_| Footprint::nothing().write_slice::<Plan>())
        .rendered()
        .vouched()
}

pub(super) fn update_step() -> Tool<UpdateStep, Plan> {
    let example = UpdateStep { step_id: 1, title: None, status: Some(StepStatus::Done) };
    Tool::new("planning_update_step", "Change the title or the status of a step.", update)
        .annotations(annotations(true))
        .footprint(|_| Footprint::nothing().write_slice::<Plan>())
        .rendered()
        .vouched()
        .example("Mark a step as done", example, example_plan(StepStatus::Done))
}

pub(super) fn read_plan() -> Tool<ReadPlan, Plan> {
    let annotations = Annotations { read_only: true, ..annotations(true) };
    Tool::new(
        "planning_read_plan",
        "Show the plan: the objective, and each step with its number and status.",
        read,
    )
    .annotations(annotations)
    .footprint(|_| Footprint::nothing().read_slice::<Plan>())
    .rendered()
    .vouched()
}

/// Nothing is lost that a later call could not put back, and nothing leaves the session.
fn annotations(idempotent: bool) -> Annotations {
    Annotations { read_only: false, destructive: false, idempotent, open_world: false }
}

fn example_plan(first: StepStatus) -> Plan {
    let step = |step_id, title: &str, status| PlanStep { step_id, title: title.to_owned(), status };
    Plan {
        objective: "Make the tests pass".to_owned(),
        status: PlanStatus::Active,
        steps: vec![step(1, "Reproduce the failure", first), step(2, "Fix it", StepStatus::Pending)],
    }
}

async fn setup(event: SetupPlan, cx: &mut ToolContext) -> Result<ToolResult<Plan>, ToolError> {
    apply(event, "Plan set up.".to_owned(), cx)
}

async fn add(event: AddStep, cx: &mut ToolContext) -> Result<ToolResult<Plan>, ToolError> {
    let message = match event.steps.len() {
        1 => "Added 1 step.".to_owned(),
        count => format!("Added {count} steps."),
    };
    apply(event, message, cx)
}

async fn update(event: UpdateStep, cx: &mut ToolContext) -> Result<ToolResult<Plan>, ToolError> {
    let message = format!("Updated step {}.", event.step_id);
    apply(event, message, cx)
}

async fn read(_: ReadPlan, cx: &mut ReadContext) -> Result<ToolResult<Plan>, ToolError> {
    match cx.session().slice::<Plan>()?.latest() {
        Some(plan) => Ok(ToolResult::value(Arc::unwrap_or_clone(plan))),
        None => Err(ToolError::new(super::plan::NO_PLAN)),
    }
}

/// Hands the event to the plan's reducer. What the reducer refuses is the tool's error.
fn apply<E: SliceType>(event: E, message: String, cx: &ToolContext) -> Result<ToolResult<Plan>, ToolError> {
    let session = cx.session();
    if let Some(failure) = session.dispatch(event)?.failures.into_iter().next() {
        return Err(ToolError::new(failure.reason));
    }
    match session.slice::<Plan>()?.latest() {
        Some(plan) => Ok(ToolResult::ok(Arc::unwrap_or_clone(plan), message)),
        None => {
            Err(ToolError::new("the session does not keep a plan: install::<Plan>() was not called on it"))
        }
    }
}
