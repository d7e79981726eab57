//! `wink prompt`: the prompt that the model would be given.

use serde_json::json;

use super::open;
use super::tools::listed;
use crate::args::{Common, Format};
use crate::frame::{self, CliError, Done, Exit};

pub(super) async fn run(common: &Common, format: Option<Format>) -> Done {
    let format = Format::asked(format, common.json)?;
    let agent = open::agent_in(format, common)?;
    let session = open::session_to_look_at(common).await?;
    let prompt = agent.prompt();
    prompt.prepare(&session).map_err(CliError::internal)?;
    let rendered = prompt.render(&session).map_err(|error| CliError::new(Exit::Usage, error.to_string()))?;
    let (text, tools) = (rendered.text(), rendered.tools());
    match format {
        Format::Text => frame::print(text),
        Format::Json => frame::print_json(&json!({
            "prompt": prompt.name(),
            "text": text,
            "tools": tools.iter().map(|placed| placed.name()).collect::<Vec<_>>(),
            "closed_sections": rendered.closed_sections(),
        })),
        Format::Openai => frame::print_json(&json!({
            "messages": [{ "role": "system", "content": text }],
            "tools": listed(tools, Format::Openai),
        })),
        Format::Anthropic => {
            frame::print_json(&json!({ "system": text, "tools": listed(tools, Format::Anthropic) }))
        }
        Format::Mcp => frame::print_json(&json!({
            "messages": [{ "role": "user", "content": { "type": "text", "text": text } }],
        })),
    }
}
