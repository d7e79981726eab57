//! The tool with which the model refreshes the digest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WorkspaceDigest;
use crate::filesystem::Filesystem;
use crate::tool::{Annotations, Render, RenderError, Tool, ToolContext, ToolError, ToolResult};

/// Surveys the workspace again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefreshDigest {}

/// The digest as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DigestShown {
    /// One or two lines.
    pub summary: String,
    /// All of it.
    pub body: String,
}

impl Render for DigestShown {
    fn render(&self) -> Result<String, RenderError> {
        Ok(self.body.clone())
    }
}

/// The tool `refresh_digest`, for a section that is open: the tools of a closed one, as the digest's is, wait with it.
/// The prompt needs a workspace.
pub fn refresh_digest() -> Tool<RefreshDigest, DigestShown> {
    Tool::new("refresh_digest", "Survey the workspace again and keep the result as its digest.", refresh)
        .annotations(Annotations {
            read_only: false,
            destructive: false,
            idempotent: true,
            open_world: false,
        })
        .rendered()
}

async fn refresh(_: RefreshDigest, cx: &mut ToolContext) -> Result<ToolResult<DigestShown>, ToolError> {
    let files = cx.resource::<dyn Filesystem>().await?;
    let digest = WorkspaceDigest::of(&*files).await?;
    let shown = DigestShown { summary: digest.summary.clone(), body: digest.body.clone() };
    if let Some(failure) = cx.session().dispatch(digest)?.failures.into_iter().next() {
        return Err(ToolError::new(failure.reason));
    }
    Ok(ToolResult::value(shown))
}
