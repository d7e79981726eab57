//! The tools of a request, each strict or as it is.

use std::sync::Arc;

use serde_json::Value;

use super::rules::{MAX_OPTIONAL, MAX_STRICT_TOOLS, MAX_UNIONS};
use super::{Dialect, LoweredOutput, lower};
use crate::{OutputSpec, ToolSpec};

/// What a request's tools and output are to the provider.
#[derive(Debug, Default)]
pub struct LoweredTools {
    /// In the order of the tools.
    pub tools: Vec<LoweredTool>,
    /// The form of the last message.
    pub output: Option<LoweredOutput>,
}

/// A tool's parameters, as the provider is told of them.
#[derive(Debug, Clone, PartialEq)]
pub struct LoweredTool {
    /// The schema to send.
    pub schema: Arc<Value>,
    /// Whether the provider can hold the model to it.
    pub strict: bool,
}

/// Lowers every tool that can be, within what a request may have in all.
#[must_use]
pub fn lower_tools(tools: &[ToolSpec], output: Option<&OutputSpec>, dialect: Dialect) -> LoweredTools {
    let mut left = Left { tools: MAX_STRICT_TOOLS, optional: MAX_OPTIONAL, unions: MAX_UNIONS };
    let tools = tools.iter().map(|tool| {
        let lowered = lower(&tool.parameters, dialect);
        if let Err(reason) = &lowered {
            tracing::debug!(tool = &*tool.name, %reason, "a tool is sent without strict mode");
        }
        match lowered {
            Ok(lowered) if dialect == Dialect::OpenAi || left.take(lowered.optional, lowered.unions) => {
                LoweredTool { schema: Arc::new(lowered.schema), strict: true }
            }
            _ => LoweredTool { schema: Arc::clone(&tool.parameters), strict: false },
        }
    });
    LoweredTools { tools: tools.collect(), output: output.map(|output| LoweredOutput::new(output, dialect)) }
}

/// What the strict tools of a request to Anthropic may still have.
struct Left {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl Left {
    fn take(&mut self, optional: usize, unions: usize) -> bool {
        let left =
            (self.tools.checked_sub(1), self.optional.checked_sub(optional), self.unions.checked_sub(unions));
        let (Some(tools), Some(optional), Some(unions)) = left else { return false };
        *self = Self { tools, optional, unions };
        true
    }
}
