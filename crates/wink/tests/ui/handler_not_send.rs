use std::rc::Rc;

use wink::prelude::*;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Lookup {
    id: u32,
}

async fn lookup(params: Lookup, cx: &mut ToolContext) -> Result<ToolResult<u32>, ToolError> {
    let id = Rc::new(params.id);
    let _ = cx.filesystem().await?;
    Ok(ToolResult::value(*id))
}

fn main() {
    let _ = Tool::new("lookup", "Look it up.", lookup);
}
