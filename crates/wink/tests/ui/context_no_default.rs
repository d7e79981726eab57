use wink::prelude::*;

fn main() {
    let _ = ToolContext::default();
}
