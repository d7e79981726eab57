//! (room: prompt; stand-ins until it lands)
use std::sync::Arc;
use crate::policy::PlacedPolicy;
use crate::resource::ResourceRegistry;
use crate::session::{Session, SessionError};
use crate::tool::{AnyTool, VisibilityExpansionRequired};
/// A prompt.
#[derive(Clone)]
pub struct Prompt { tools: Vec<PlacedTool>, resources: ResourceRegistry, name: Arc<str> }
impl Prompt {
    /// n
    pub fn stub(tools: Vec<PlacedTool>, resources: ResourceRegistry) -> Self { Self { tools, resources, name: "ns/key".into() } }
    /// `ns/key`.
    pub fn name(&self) -> &Arc<str> { &self.name }
    /// p
    pub fn prepare(&self, session: &Session) -> Result<(), SessionError> { for t in &self.tools { t.tool.inner.prepare(session)?; } Ok(()) }
    /// r
    pub fn render(&self, _: &Session) -> Result<RenderedPrompt, PromptRenderError> { Ok(RenderedPrompt { tools: self.tools.clone() }) }
    /// d
    pub fn declared_resources(&self) -> &ResourceRegistry { &self.resources }
    /// d
    pub fn bound_resources(&self) -> &ResourceRegistry { &self.resources }
}
/// e
#[derive(Debug, Clone, thiserror::Error)]
#[error("e")]
pub struct PromptRenderError;
/// Rendered.
pub struct RenderedPrompt { tools: Vec<PlacedTool> }
impl RenderedPrompt {
    /// f
    pub fn find(&self, name: &str) -> Option<&PlacedTool> { self.tools.iter().find(|t| **t.tool.name() == *name) }
    /// t
    pub fn tools(&self) -> &[PlacedTool] { &self.tools }
    /// h
    pub fn hidden(&self, _: &str) -> Option<String> { None }
}
/// x
pub fn record_expansion(_: &Session, _: &VisibilityExpansionRequired) {}
/// Tool in place.
#[derive(Clone)]
pub struct PlacedTool { /// t
 pub tool: AnyTool, /// p
 pub policies: Arc<[PlacedPolicy]> }
