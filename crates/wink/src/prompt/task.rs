//! Task examples: a whole task from its objective to its outcome, checked against the prompt's tools.

use std::fmt::Write;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::error::PromptValidationError;
use super::examples;
use super::placed::PlacedTool;
use crate::tool::schema::nearest;

/// The most characters that an objective or an outcome has after trimming.
const LONGEST: usize = 500;

/// Shows the model how a task is done: what was wanted, which tools were called, and what came of it.
///
/// Arguments and values are held to the tools of the prompt when that is built: an unknown tool, arguments that the tool
/// would refuse or a value that it cannot give are construction errors. A model sees an example only while it can call
/// all of its tools.
///
/// ```
/// use wink::prelude::*;
/// use wink::prompt::TaskExample;
///
/// /// Says how warm it is.
/// #[tool]
/// async fn temperature(city: String) -> ToolResult<i64> {
///     ToolResult::value(city.len() as i64)
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let example = TaskExample::new("Is it warm in Bonn?", "Told the user that it is not.")
///     .step("temperature", "Measure", TemperatureParams { city: "Bonn".into() }, 4);
/// let section = Section::markdown("weather", "Weather").tool(temperature_tool()).task_example(example);
/// let prompt = PromptTemplate::builder("examples", "weather").section(section).build()?.prompt();
/// assert_eq!(
///     prompt.render(&Session::new())?.text(),
///     "## 1. Weather\n\n\
///      Example of a task: Is it warm in Bonn?\n\n\
///      1. Measure, with `temperature`\n  call: `{\"city\":\"Bonn\"}`\n  result: `4`\n\n\
///      Outcome: Told the user that it is not."
/// );
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "an example does nothing until a section has it"]
pub struct TaskExample {
    objective: String,
    steps: Vec<TaskStep>,
    outcome: String,
}

#[derive(Debug, Clone)]
struct TaskStep {
    tool: String,
    description: String,
    input: Result<Value, String>,
    output: Result<Value, String>,
}

/// An example that was checked, as it is shown.
#[derive(Debug, Clone)]
pub(crate) struct PlacedTask {
    pub(crate) text: String,
    pub(crate) tools: Vec<Arc<str>>,
}

impl TaskExample {
    /// A task without steps yet: what is wanted, and what comes of it.
    pub fn new(objective: impl Into<String>, outcome: impl Into<String>) -> Self {
        Self { objective: objective.into(), steps: Vec::new(), outcome: outcome.into() }
    }

    /// Adds a call: of which tool, what for, its arguments and its value, in the types that the tool has.
    pub fn step(
        mut self,
        tool: impl Into<String>,
        description: impl Into<String>,
        input: impl Serialize,
        output: impl Serialize,
    ) -> Self {
        self.steps.push(TaskStep {
            tool: tool.into(),
            description: description.into(),
            input: serde_json::to_value(input).map_err(|error| error.to_string()),
            output: serde_json::to_value(output).map_err(|error| error.to_string()),
        });
        self
    }

    /// Holds it to the tools of its prompt.
    pub(crate) fn place(
        self,
        section: &str,
        tools: &[PlacedTool],
    ) -> Result<PlacedTask, PromptValidationError> {
        let fault = |reason: String| PromptValidationError::in_section(section, reason);
        let objective = line("objective", &self.objective).map_err(fault)?;
        let outcome = line("outcome", &self.outcome).map_err(fault)?;
        if self.steps.is_empty() {
            return Err(fault(format!("the task example {objective:?} has no steps; say .step(..)")));
        }
        let mut text = format!("Example of a task: {objective}\n");
        let mut used = Vec::with_capacity(self.steps.len());
        for (at, step) in self.steps.into_iter().enumerate() {
            let fault = |reason: String| {
                let whole = format!("step {} of the task example {objective:?}: {reason}", at + 1);
                PromptValidationError::in_section(section, whole).of_tool(&step.tool)
            };
            let Some(placed) = tools.iter().find(|placed| **placed.name() == *step.tool) else {
                let near = nearest(&step.tool, tools.iter().map(|placed| &**placed.name()));
                let hint = near.map(|name| format!("; nearest is {name}")).unwrap_or_default();
                return Err(fault(format!("the prompt has no such tool{hint}")));
            };
            let input = step.input.map_err(|error| fault(format!("its input: {error}")))?;
            let output = step.output.map_err(|error| fault(format!("its output: {error}")))?;
            let example = placed.tool.inner.example(&step.description, input, output).map_err(fault)?;
            // Writing to a string does not fail.
            let _ = write!(text, "\n{}. {}, with `{}`", at + 1, example.description, step.tool);
            examples::call(&mut text, &example);
            used.push(Arc::clone(placed.name()));
        }
        let _ = write!(text, "\n\nOutcome: {outcome}");
        Ok(PlacedTask { text, tools: used })
    }
}

/// A text on one line, trimmed.
fn line(what: &str, text: &str) -> Result<String, String> {
    let text = text.trim();
    let count = text.chars().count();
    if !(1..=LONGEST).contains(&count) {
        return Err(format!("the {what} of a task example must have 1 to {LONGEST} characters, not {count}"));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("the {what} of a task example must be one line of text"));
    }
    Ok(text.to_owned())
}
