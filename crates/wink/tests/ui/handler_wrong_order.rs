use wink::prelude::*;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Lookup {
    id: u32,
}

async fn lookup(_cx: &mut ToolContext, params: Lookup) -> ToolResult<u32> {
    ToolResult::value(params.id)
}

fn main() {
    let _ = Tool::new("lookup", "Look it up.", lookup);
}
