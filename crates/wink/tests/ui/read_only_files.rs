use wink::prelude::*;

async fn look(_: (), cx: &mut ReadContext) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.write_text("seen.txt", "seen").await?;
    Ok(ToolResult::done("looked"))
}

fn main() {
    let _ = Tool::new("look", "Look.", look);
}
