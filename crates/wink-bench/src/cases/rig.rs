//! The tool set of rig: lookup, decode, call and the rendered answer.

use std::convert::Infallible;
use std::hint::black_box;

use rig_agent::tool::ToolSet;
use rig_core::message::ToolName;
use rig_core::tool::{DynamicTool, Tool, ToolContext, ToolOutput};
use serde_json::Value;

use super::typed_call::{ANSWER, ARGUMENTS, Args, DESCRIPTION, TOOL, answer, other_tools, poll_now};
use super::{Case, Row};

pub(super) fn make(row: Row) -> Option<Case> {
    match row {
        Row::CallEmpty => Some(call_empty()),
        _ => None,
    }
}

struct WriteFile;

impl Tool for WriteFile {
    const NAME: &'static str = TOOL;
    type Args = Args;
    type Output = String;
    type Error = Infallible;

    fn description(&self) -> String {
        DESCRIPTION.to_owned()
    }

    fn parameters(&self) -> Value {
        schemars::schema_for!(Args).to_value()
    }

    async fn call(&self, _context: &mut ToolContext, args: Args) -> Result<String, Infallible> {
        Ok(answer(&args))
    }
}

fn call_empty() -> Case {
    let tools = tool_set();
    let call = move || {
        let mut context = ToolContext::new();
        let result = poll_now(tools.execute(black_box(TOOL), black_box(ARGUMENTS), &mut context));
        result.into_result().map(|output| output.render())
    };
    assert_eq!(call().ok().as_deref(), Some(ANSWER));
    Box::new(move || {
        let _ = black_box(call());
    })
}

/// Twenty tools; the other nineteen are made at run time, since the name of a typed tool is a constant.
#[expect(clippy::expect_used, reason = "a peer that cannot be set up must stop the run, not vanish from it")]
fn tool_set() -> ToolSet {
    let mut tools = ToolSet::from_tools(vec![WriteFile]);
    for name in other_tools() {
        tools.add_dynamic_tool(DynamicTool::new(
            ToolName::new(name).expect("the names of the other tools are not empty"),
            DESCRIPTION,
            WriteFile.parameters(),
            |_arguments| Box::pin(async { Ok(ToolOutput::from("unused")) }),
        ));
    }
    tools
}
