use wink::prelude::*;

#[derive(Serialize, Deserialize)]
struct Lookup {
    id: u32,
}

async fn lookup(params: Lookup, _cx: &mut ToolContext) -> ToolResult<u32> {
    ToolResult::value(params.id)
}

fn main() {
    let _ = Tool::new("lookup", "Look it up.", lookup);
}
