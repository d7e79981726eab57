use wink::prelude::*;
use wink::session::ToolInvoked;

fn rewrite(result: ToolResult<u32>, session: &Session) {
    let mut result = result;
    result.success = true;
    for event in session.slice::<ToolInvoked>().iter() {
        event.success = true;
    }
}

fn main() {
    let _ = rewrite;
}
