//! What the work must come to: the answer, when it is done, and examples of whole tasks.

use serde_json::Value;
use wink::prompt::{Output, PromptTemplate, Section, TaskExample};

use super::{Build, SCHEMA_HINT, entries};
use crate::file::{At, File, OutputTable, SectionTable, StepTable, SuiteName, TaskTable};

/// When the work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// When the model says so.
    Said,
    /// When no step of the plan is open either.
    Planned,
}

impl Build<'_> {
    /// What the answer must be, unless that is just text.
    pub(super) fn output(&mut self, file: &File) -> Option<Output<Value>> {
        let table = file.output.as_ref()?;
        let schema = table.schema.as_ref()?;
        let key = file.agent.as_ref().and_then(|agent| agent.key.as_ref());
        let name = table.name.as_ref().or(key)?;
        let alone = PromptTemplate::builder("ns", "key").output(output_of(table, name)?);
        match alone.build() {
            Ok(_) => output_of(table, name),
            Err(error) => {
                self.problems.hint(&schema.span, error.reason, SCHEMA_HINT);
                None
            }
        }
    }

    pub(super) fn done(&mut self, file: &File) -> Done {
        let plan = file.completion.as_ref().and_then(|completion| completion.plan.as_ref());
        let Some(plan) = plan.filter(|plan| plan.value) else { return Done::Said };
        if !self.suites.iter().any(|(suite, _)| *suite == SuiteName::Planning) {
            let hint = "give a section the suite: `suites = [\"planning\"]`";
            self.problems.hint(&plan.span, "the agent has no plan to be done with", hint);
        }
        Done::Planned
    }

    /// The tasks of a section. Every tool is known.
    pub(super) fn tasks(&mut self, table: &SectionTable) -> Vec<TaskExample> {
        table.task.iter().filter_map(|task| self.task(task)).collect()
    }

    fn task(&mut self, table: &At<TaskTable>) -> Option<TaskExample> {
        let steps = table.step.as_ref()?;
        let (objective, outcome) = (table.objective.as_ref()?, table.outcome.as_ref()?);
        let mut example = TaskExample::new(objective.value.clone(), outcome.value.clone());
        let mut used: Vec<usize> = Vec::new();
        for step in steps.iter() {
            let tool = self.find(step.tool.as_ref()?);
            if !tool.is_some_and(|tool| used.contains(&tool)) {
                used.extend(tool);
            }
            let (name, description, input, output) = step_of(step)?;
            example = example.step(name, description, input, output);
        }
        let tools: Vec<_> = used.iter().filter_map(|tool| self.tools.get(*tool)?.tool.as_ref()).collect();
        // What is wrong with its tools was said.
        if steps.iter().any(|step| !tools.iter().any(|known| step.is_of(known.name()))) {
            return None;
        }
        let tools = tools.into_iter().cloned();
        let section = Section::markdown("key", "Title").with_tools(tools).task_example(example.clone());
        let Err(error) = PromptTemplate::builder("ns", "key").section(section).build() else {
            return Some(example);
        };
        let named = steps.iter().find(|step| error.tool.as_ref().is_some_and(|name| step.is_of(name)));
        let hint = "an example is a task with calls that the tools accept, and what they would answer";
        self.problems.hint(named.map_or(&table.span, |step| &step.span), error.reason, hint);
        None
    }
}

impl StepTable {
    fn is_of(&self, tool: &str) -> bool {
        self.tool.as_ref().is_some_and(|name| name.value == tool)
    }
}

fn output_of(table: &OutputTable, name: &str) -> Option<Output<Value>> {
    let output = Output::dynamic(name, Value::Object(entries(table.schema.as_ref()?)));
    match table.extra_keys.as_ref().is_some_and(|extra| extra.value) {
        true => Some(output.allow_extra_keys()),
        false => Some(output),
    }
}

fn step_of(step: &StepTable) -> Option<(String, String, Value, Value)> {
    let text = |part: &Option<At<String>>| part.as_ref().map(|part| part.value.clone());
    let input = step.input.as_ref().map(|input| entries(input)).unwrap_or_default();
    let output = step.output.as_ref()?.value.0.clone();
    Some((text(&step.tool)?, text(&step.description)?, Value::Object(input), output))
}
