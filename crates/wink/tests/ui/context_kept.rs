use std::sync::Mutex;

use wink::prelude::*;

static KEPT: Mutex<Option<&'static mut ToolContext>> = Mutex::new(None);

async fn keep(_: (), cx: &mut ToolContext) -> ToolResult<()> {
    *KEPT.lock().unwrap() = Some(cx);
    ToolResult::done("kept")
}

fn main() {
    let _ = Tool::new("keep", "Keep it.", keep);
}
