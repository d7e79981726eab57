use wink::prelude::*;

fn copy(cx: &ToolContext) -> ToolContext {
    ToolContext::clone(cx)
}

fn main() {
    let _ = copy;
}
