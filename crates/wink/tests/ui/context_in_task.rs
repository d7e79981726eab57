use wink::prelude::*;

async fn later(_: (), cx: &mut ToolContext) -> ToolResult<()> {
    tokio::spawn(async move {
        cx.beat();
    });
    ToolResult::done("later")
}

fn main() {
    let _ = Tool::new("later", "Do it later.", later);
}
