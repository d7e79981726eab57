//! Progressive disclosure: what a closed section says about itself, and the two built-in tools that open and read.
//!
//! Neither tool changes anything. Opening escalates; whoever drives the executor records it in the session.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{PromptRenderError, PromptValidationError};
use super::placed::{PlacedSection, PlacedTool};
use super::render::Renderer;
use super::view::SessionView;
use crate::policy::PlacedPolicy;
use crate::tool::{
    Annotations, IntoTool, ReadContext, Tool, ToolError, ToolResult, VisibilityExpansionRequired,
};

/// The name of the built-in tool that opens sections.
pub const OPEN_SECTIONS: &str = "open_sections";
/// The name of the built-in tool that reads a section and leaves it closed.
pub const READ_SECTION: &str = "read_section";

/// Whether a tool of a prompt's own may not have this name.
pub(crate) fn is_reserved(name: &str) -> bool {
    [OPEN_SECTIONS, READ_SECTION].contains(&name)
}

/// How a closed section is opened or read.
pub(crate) fn invitation(section: &PlacedSection) -> String {
    let path = &section.path;
    if section.has_tools() {
        format!(
            "[Closed. To read it and use its tools, call `{OPEN_SECTIONS}` with section_keys [\"{path}\"].]"
        )
    } else {
        format!("[Closed. To read it, call `{READ_SECTION}` with section_key \"{path}\".]")
    }
}

/// The built-in tools. Like all others, they are covered by the template's policies.
pub(crate) fn tools(policies: &[PlacedPolicy]) -> Result<Arc<[PlacedTool]>, PromptValidationError> {
    let annotations =
        Annotations { read_only: true, destructive: false, idempotent: true, open_world: false };
    let open = Tool::new(
        OPEN_SECTIONS,
        "Open closed sections: shows their text and makes their tools available.",
        open,
    )
    .annotations(annotations)
    .without_overrides()
    .vouched()
    .into_tool();
    let read = Tool::new(READ_SECTION, "Read the text of a closed section once, without opening it.", read)
        .annotations(annotations)
        .without_overrides()
        .vouched()
        .into_tool();
    let policies: Arc<[PlacedPolicy]> = policies.into();
    let place = |tool| PlacedTool::new(tool, "".into(), Arc::clone(&policies));
    let tools: Result<Vec<_>, _> = [open, read].into_iter().map(|tool| tool.map(place)).collect();
    Ok(tools.map_err(|error| PromptValidationError::in_prompt(error.0))?.into())
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct OpenSections {
    /// Why they are needed.
    reason: String,
    /// The keys of the sections, as their summaries give them.
    section_keys: Vec<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct ReadSection {
    /// The key of the section, as its summary gives it.
    section_key: String,
}

async fn open(params: OpenSections, cx: &mut ReadContext) -> Result<ToolResult<()>, ToolError> {
    let session = SessionView::from(cx.session());
    let renderer = Renderer::new(cx.prompt(), &session);
    if params.section_keys.is_empty() {
        return Ok(ToolResult::error(format!("No section was named. {}", choice(&renderer)?)));
    }
    let mut unknown = Vec::new();
    let mut wanted: Vec<String> = Vec::new();
    for key in &params.section_keys {
        match renderer.locate(key)? {
            None => unknown.push(format!("{key:?}")),
            // What is above a section must be open for it to be seen.
            Some(located) => {
                for path in located.closed {
                    if !wanted.iter().any(|known| **known == *path) {
                        wanted.push(path.to_string());
                    }
                }
            }
        }
    }
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        return Ok(ToolResult::error(format!("Unknown sections: {unknown}. {}", choice(&renderer)?)));
    }
    if wanted.is_empty() {
        return Ok(ToolResult::error(format!("These sections are open already. {}", choice(&renderer)?)));
    }
    Err(VisibilityExpansionRequired { keys: wanted, reason: params.reason }.into())
}

async fn read(params: ReadSection, cx: &mut ReadContext) -> Result<ToolResult<String>, ToolError> {
    let session = SessionView::from(cx.session());
    let renderer = Renderer::new(cx.prompt(), &session);
    let key = &params.section_key;
    let Some(located) = renderer.locate(key)? else {
        return Ok(ToolResult::error(format!("Unknown section {key:?}. {}", choice(&renderer)?)));
    };
    let only_read = !located.closed.is_empty() && located.has_tools();
    let text = renderer.section_text(located)?;
    if only_read {
        let hint =
            format!("The section stays closed: to use its tools, call {OPEN_SECTIONS} with \"{key}\".");
        return Ok(ToolResult::ok(text, hint));
    }
    Ok(ToolResult::value(text))
}

fn choice(renderer: &Renderer<'_>) -> Result<String, PromptRenderError> {
    let closed = renderer.closed()?;
    if closed.is_empty() {
        return Ok("No section is closed.".to_owned());
    }
    let closed: Vec<String> = closed.iter().map(|path| format!("\"{path}\"")).collect();
    Ok(format!("Closed sections: {}.", closed.join(", ")))
}
