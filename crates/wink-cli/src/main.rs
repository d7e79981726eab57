//! The wink program.
fn main() {}
