//! Task examples: whole tasks, checked against the prompt's tools, shown while these can be called.

#![allow(clippy::unwrap_used, reason = "tests panic when they fail")]

use wink::prelude::*;
use wink::prompt::{PromptValidationError, SectionVisibility, TaskExample};
use wink::serde_json::json;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Lookup {
    entity_id: String,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Entity {
    entity_id: String,
    owner: String,
}

async fn lookup(params: Lookup, _: &mut ToolContext) -> ToolResult<Entity> {
    ToolResult::value(Entity { entity_id: params.entity_id, owner: "Ada".into() })
}

async fn tell(_: (), _: &mut ToolContext) -> ToolResult<()> {
    ToolResult::done("told")
}

fn by_id() -> Lookup {
    Lookup { entity_id: "abc".into() }
}

fn found() -> Entity {
    Entity { entity_id: "abc".into(), owner: "Ada".into() }
}

fn example() -> TaskExample {
    TaskExample::new("Who owns abc?", "Told the user that it is Ada.")
        .step("lookup", "Find it", by_id(), found())
        .step("tell", "Say so", (), ())
}

fn build(example: TaskExample) -> Result<PromptTemplate, PromptValidationError> {
    PromptTemplate::builder("tests", "tasks")
        .section(Section::markdown("how", "How").task_example(example))
        .section(Section::tools("find", "Find").tool(Tool::new("lookup", "Finds.", lookup)))
        .section(
            Section::tools("say", "Say")
                .tool(Tool::new("tell", "Tells.", tell))
                .summary("Telling.")
                .visibility(Visibility::Summary),
        )
        .build()
}

fn refused(example: TaskExample) -> String {
    build(example).unwrap_err().to_string()
}

#[test]
fn a_task_is_shown_while_its_tools_can_be_called() {
    let prompt = build(example()).unwrap().prompt();
    let session = Session::new();
    assert!(prompt.render(&session).unwrap().text().starts_with("## 1. How\n\n## 2. Find"));
    assert!(session.dispatch(SectionVisibility { key: "say".into(), visibility: Visibility::Full }).is_ok());
    let rendered = prompt.render(&session).unwrap();
    let expected = "## 1. How\n\n\
        Example of a task: Who owns abc?\n\n\
        1. Find it, with `lookup`\n  call: `{\"entity_id\":\"abc\"}`\n  result: `{\"entity_id\":\"abc\",\"owner\":\"Ada\"}`\n\
        2. Say so, with `tell`\n  call: `{}`\n  result: (empty)\n\n\
        Outcome: Told the user that it is Ada.\n\n## 2. Find";
    assert!(rendered.text().starts_with(expected), "{}", rendered.text());
}

#[test]
fn a_tool_that_the_prompt_does_not_have_is_a_construction_error() {
    let unknown = TaskExample::new("Who?", "Ada.").step("lokup", "Find it", by_id(), found());
    assert_eq!(
        refused(unknown),
        "section how, tool lokup: step 1 of the task example \"Who?\": the prompt has no such tool; nearest is lookup"
    );
}

#[test]
fn arguments_and_values_of_another_type_are_construction_errors() {
    let task = || TaskExample::new("Who?", "Ada.");
    let at = "section how, tool lookup: step 1 of the task example \"Who?\": example \"Find it\": ";
    assert_eq!(
        refused(task().step("lookup", "Find it", json!({ "entity_id": 7 }), found())),
        format!("{at}its input: Invalid arguments: `entity_id`: expected a string, got an integer")
    );
    let output = refused(task().step("lookup", "Find it", by_id(), json!({ "entity_id": "abc" })));
    assert!(output.starts_with(&format!("{at}its output: ")), "{output}");
    let unlike = refused(task().step("lookup", "Find it", by_id(), "Ada"));
    assert!(unlike.starts_with(&format!("{at}its output: ")), "{unlike}");
}

#[test]
fn texts_and_steps_are_checked() {
    assert_eq!(
        refused(TaskExample::new("Who?", "Ada.")),
        "section how: the task example \"Who?\" has no steps; say .step(..)"
    );
    assert_eq!(
        refused(TaskExample::new(" ", "Ada.")),
        "section how: the objective of a task example must have 1 to 500 characters, not 0"
    );
    assert_eq!(
        refused(TaskExample::new("Who?", "A\nda.")),
        "section how: the outcome of a task example must be one line of text"
    );
    let undescribed = TaskExample::new("Who?", "Ada.").step("lookup", "", by_id(), found());
    assert_eq!(
        refused(undescribed),
        "section how, tool lookup: step 1 of the task example \"Who?\": the description of an example must have 1 to 200 \
         characters, not 0"
    );
}

#[test]
fn a_section_that_is_bound_is_checked_like_the_others() {
    let template = build(example()).unwrap();
    let more = |tool: &str| {
        let step = TaskExample::new("Again?", "Yes.").step(tool, "Find it", by_id(), found());
        template.binding().section(Section::markdown("more", "More").task_example(step)).build()
    };
    assert!(more("search").is_err());
    let rendered = more("lookup").unwrap().render(&Session::new()).unwrap();
    assert!(rendered.text().ends_with("Outcome: Yes."), "{}", rendered.text());
}
