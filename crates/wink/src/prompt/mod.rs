//! (room: prompt; stand-ins until it lands)
use std::sync::Arc;
use crate::policy::PlacedPolicy;
use crate::tool::AnyTool;
/// A prompt.
#[derive(Clone)]
pub struct Prompt {}
impl Prompt {
    /// `ns/key`.
    pub fn name(&self) -> &Arc<str> { unimplemented!() }
}
/// Rendered.
pub struct RenderedPrompt {}
/// Tool in place.
pub struct PlacedTool { /// t
 pub tool: AnyTool, /// p
 pub policies: Arc<[PlacedPolicy]> }
