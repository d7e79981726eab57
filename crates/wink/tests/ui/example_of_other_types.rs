// cases 7, 9, 10
use wink::prelude::*;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Lookup {
    id: u32,
}

async fn lookup(params: Lookup, _cx: &mut ToolContext) -> ToolResult<Vec<u32>> {
    ToolResult::value(vec![params.id])
}

async fn ping(_: (), _cx: &mut ToolContext) -> ToolResult<()> {
    ToolResult::done("pong")
}

fn main() {
    let _ = Tool::new("lookup", "Look it up.", lookup).example("The input is of another type.", "seven", vec![7]);
    let _ = Tool::new("lookup", "Look it up.", lookup).example("The output is not a list.", Lookup { id: 7 }, 7);
    let _ = Tool::new("ping", "Ping.", ping).example("There are no parameters.", Lookup { id: 7 }, ());
}
