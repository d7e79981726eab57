//! The tools of a request, each strict or as it is.

use std::sync::Arc;

use serde_json::Value;

use super::rules::{MAX_OPTIONAL, MAX_STRICT_TOOLS, MAX_UNIONS};
use super::{Dialect, Lowered, LoweredOutput, lower};
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

/// Lowers the output and every tool that can be, within what a request may have in all. The output comes first: the executor still
/// holds calls to what their tools say, and nobody could hold the model to a better form of its last word.
#[must_use]
pub fn lower_tools(tools: &[ToolSpec], output: Option<&OutputSpec>, dialect: Dialect) -> LoweredTools {
    let mut left = Left { tools: MAX_STRICT_TOOLS, optional: MAX_OPTIONAL, unions: MAX_UNIONS };
    let output = output.map(|output| {
        LoweredOutput::new(output, dialect, |lowered| dialect == Dialect::OpenAi || left.take_output(lowered))
    });
    let tools = tools.iter().map(|tool| {
        let lowered = lower(&tool.parameters, dialect);
        if let Err(reason) = &lowered {
            tracing::debug!(tool = &*tool.name, %reason, "a tool is sent without strict mode");
        }
        match lowered {
            Ok(lowered) if dialect == Dialect::OpenAi || left.take_tool(&lowered) => {
                LoweredTool { schema: Arc::new(lowered.schema), strict: true }
            }
            _ => LoweredTool { schema: Arc::clone(&tool.parameters), strict: false },
        }
    });
    LoweredTools { tools: tools.collect(), output }
}

/// What the strict tools of a request to Anthropic and its output may still have.
struct Left {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl Left {
    fn take_tool(&mut self, tool: &Lowered) -> bool {
        self.take(1, tool)
    }

    fn take_output(&mut self, output: &Lowered) -> bool {
        self.take(0, output)
    }

    fn take(&mut self, tools: usize, schema: &Lowered) -> bool {
        let left = (
            self.tools.checked_sub(tools),
            self.optional.checked_sub(schema.optional),
            self.unions.checked_sub(schema.unions),
        );
        let (Some(tools), Some(optional), Some(unions)) = left else { return false };
        *self = Self { tools, optional, unions };
        true
    }
}
