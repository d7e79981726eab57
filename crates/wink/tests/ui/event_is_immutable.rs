use wink::prelude::*;
use wink::session::ToolInvoked;

fn rewrite(session: &Session) {
    for event in session.slice::<ToolInvoked>().iter() {
        event.success = true;
    }
}

fn main() {
    let _ = rewrite;
}
