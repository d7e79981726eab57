//! Replays the retail domain.
fn main() {}
