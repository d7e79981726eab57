//! `wink tools`: the tools that the model would be given, in the form of whoever gives them to it.

use serde_json::{Value, json};
use wink::prompt::PlacedTool;

use super::open;
use crate::args::{Common, Format};
use crate::frame::{self, CliError, Done, Exit, visible};
use crate::term::{BOLD, DIM, NAME, PLAIN, Screen, Span, span};

/// How many columns a description is worth having beside the name.
const DESCRIPTION: usize = 60;

pub(super) async fn run(common: &Common, format: Option<Format>) -> Done {
    let format = Format::asked(format, common.json)?;
    let agent = open::agent_in(format, common)?;
    if format == Format::Mcp {
        // A client is shown all that can be enabled; what is closed says how to open it.
        return frame::print_json(
            &json!({ "tools": wink_mcp::Listing::of(agent.prompt()).tools().collect::<Vec<_>>() }),
        );
    }
    let session = open::session_to_look_at(common).await?;
    agent.prompt().prepare(&session).map_err(CliError::internal)?;
    let rendered =
        agent.prompt().render(&session).map_err(|error| CliError::new(Exit::Usage, error.to_string()))?;
    match format {
        Format::Text => {
            let mut screen = Screen::fitted();
            let rows: Vec<Vec<Span>> = rendered.tools().iter().map(row).collect();
            match screen.has_room(&rows, DESCRIPTION) {
                true => screen.table(&rows)?,
                false => rows.iter().try_for_each(|row| stacked(&mut screen, row))?,
            }
            for section in rendered.closed_sections() {
                screen.spans(&[span("closed  ", DIM), span(visible(section), PLAIN)])?;
            }
            Ok(Exit::Success)
        }
        format => frame::print_json(&listed(rendered.tools(), format)),
    }
}

/// Tools as a provider's API takes them; as they are, for one that does not.
pub(super) fn listed(tools: &[PlacedTool], format: Format) -> Value {
    let form = match format {
        Format::Openai => openai,
        Format::Anthropic => anthropic,
        Format::Text | Format::Json | Format::Mcp => plain,
    };
    Value::Array(tools.iter().map(form).collect())
}

fn plain(placed: &PlacedTool) -> Value {
    let contract = placed.tool.contract();
    json!({
        "name": contract.name(),
        "description": contract.description(),
        "section": placed.section,
        "parameters": contract.schema(),
        "output": contract.output_schema(),
        "annotations": contract.annotations(),
        "examples": contract.examples(),
        "timeout_ms": contract.timeout().map(|timeout| timeout.as_millis() as u64),
        "idempotent_by_key": contract.idempotency().is_some(),
        "policies": placed.policies.iter().map(|policy| &policy.key).collect::<Vec<_>>(),
    })
}

fn openai(placed: &PlacedTool) -> Value {
    let contract = placed.tool.contract();
    json!({
        "type": "function",
        "function": {
            "name": contract.name(),
            "description": contract.description(),
            "parameters": contract.schema(),
        },
    })
}

fn anthropic(placed: &PlacedTool) -> Value {
    let contract = placed.tool.contract();
    json!({
        "name": contract.name(),
        "description": contract.description(),
        "input_schema": contract.schema(),
    })
}

/// Where a line has no room for all of it: the description below.
fn stacked(screen: &mut Screen, row: &[Span]) -> std::io::Result<()> {
    let [name, params, description] = row else { return screen.spans(row) };
    screen.labelled(&[name.clone(), span(" ", PLAIN)], params.clone())?;
    screen.labelled(&[span("    ", PLAIN)], description.clone())
}

fn row(placed: &PlacedTool) -> Vec<Span> {
    let contract = placed.tool.contract();
    let params = contract.schema().get("properties").and_then(Value::as_object);
    let required = contract.schema().get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)));
    let names: Vec<String> = params
        .into_iter()
        .flat_map(|params| params.keys())
        .map(|name| if is_required(name) { name.clone() } else { format!("[{name}]") })
        .collect();
    vec![
        span(visible(contract.name()), NAME),
        span(visible(&names.join(" ")), BOLD),
        span(visible(contract.description()), PLAIN),
    ]
}
