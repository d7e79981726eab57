use wink::prelude::*;

async fn lookup(cx: &mut ToolContext) -> ToolResult<String> {
    ToolResult::value(cx.tool().name().to_string())
}

fn main() {
    let _ = Tool::new("lookup", "Look it up.", lookup);
}
