//! An agent from its task to a typed result: it looks at a project, mends what is wrong with it, and says what it did. Nothing of a call
//! that fails stays, and the run has a deadline and a budget.
//!
//! Without a model it follows a script; `cargo run --example agent -- openai:MODEL` or `anthropic:MODEL` asks a provider, with the key in
//! `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`, and `local:MODEL` a server on this machine that speaks OpenAI's API, such as llama.cpp's.

use std::sync::Arc;
use std::time::Duration;

use wink::limits::{Budget, BudgetTracker, Deadline, SystemClock};
use wink::prelude::*;
use wink::prompt::Output;
use wink::session::ToolInvoked;
use wink::suites::VfsToolsSection;
use wink_models::providers::{Endpoint, anthropic, openai};
use wink_models::{Adapter, BoxModel, Evaluation, ModelAdapter, ScriptedModel, Secret};
use wink_store::Workspace;

/// What the agent has to hand over.
#[data]
#[derive(Debug)]
struct Report {
    /// What was wrong, in a sentence.
    fault: String,
    /// The files that were changed.
    changed: Vec<String>,
}

/// What a model might do: the first edit does not fit, and leaves nothing.
const SCRIPT: &str = r#"
{"text": "I look first.", "tool_calls": [{"id": "1", "name": "read_file", "arguments": {"path": "price.py"}}]}
{"tool_calls": [{"id": "2", "name": "edit_file", "arguments": {"path": "price.py", "old_string": "0.91", "new_string": "0.19"}}]}
{"tool_calls": [{"id": "3", "name": "edit_file", "arguments": {"path": "price.py", "old_string": "1.91", "new_string": "1.19"}}]}
{"text": "{\"fault\": \"The tax was 91 % instead of 19 %.\", \"changed\": [\"price.py\"]}", "usage": {"input_tokens": 900, "output_tokens": 60}}
"#;

fn model(name: Option<&str>) -> Result<BoxModel, Box<dyn std::error::Error>> {
    let key = |variable: &str| {
        std::env::var(variable).map(Secret::new).map_err(|_| format!("{variable} is not set"))
    };
    Ok(match name.map(|name| name.split_once(':').unwrap_or((name, ""))) {
        None => Arc::new(ScriptedModel::parse(SCRIPT)?),
        Some(("openai", model)) => Arc::new(
            openai::Responses::new(model).at(Endpoint::new(openai::BASE_URL).key(key("OPENAI_API_KEY")?))?,
        ),
        Some(("anthropic", model)) => Arc::new(
            anthropic::Messages::new(model)
                .at(Endpoint::new(anthropic::BASE_URL).key(key("ANTHROPIC_API_KEY")?))?,
        ),
        Some(("local", model)) => {
            Arc::new(openai::Chat::new(model).at(Endpoint::new("http://127.0.0.1:8080/v1"))?)
        }
        Some((other, _)) => return Err(format!("{other} is not known here").into()),
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    std::fs::write(place.path().join("price.py"), "def gross(net):\n    return net * 1.91  # 19 % tax\n")?;

    let workspace = Workspace::open(place.path())?;
    let session = workspace.session("main").open().await?;
    let prompt = PromptTemplate::builder("examples", "agent")
        .section(Section::markdown("role", "Role").body("Mend what the task names, and nothing else."))
        .section(VfsToolsSection::new().over(workspace.files().clone()).section())
        .output(Output::object::<Report>())
        .build()?
        .prompt();

    let evaluation = Evaluation::new()
        .task("The prices are wrong. Find out why, and mend it.")
        .deadline(Deadline::after(Duration::from_secs(300), &SystemClock)?)
        .budget(Arc::new(BudgetTracker::new(Budget::total(50_000)?)));
    let adapter = ModelAdapter::new(model(std::env::args().nth(1).as_deref())?);
    let response = adapter.evaluate(&prompt, &session, evaluation).await?;

    for event in session.slice::<ToolInvoked>().iter() {
        println!(
            "{:<12}{}",
            event.tool,
            if event.success { "done" } else { "failed, and nothing of it is left" }
        );
    }
    print!("\n{}", std::fs::read_to_string(place.path().join("price.py"))?);
    let report: Report = response.output().ok_or("there is no report")?;
    println!("\n{}\nChanged: {}", report.fault, report.changed.join(", "));
    println!(
        "{} turns, {} calls, {} tokens",
        response.stats.turns,
        response.stats.calls,
        response.stats.usage.total()
    );
    Ok(())
}
