use wink::prelude::*;
use wink::tool::context::CallSession;

async fn keep<'a>(_: (), cx: &mut ToolContext, kept: &mut Option<CallSession<'a>>) {
    *kept = Some(cx.session());
}

fn main() {
    let _ = keep;
}
