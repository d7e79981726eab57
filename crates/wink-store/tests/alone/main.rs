//! Tests that listen to the steps of their whole process, or count all that it reads and writes: one after the other, with nothing
//! beside them.

mod flat_cost;
mod flat_open;
mod group;
mod reports;

/// Each test has it from its beginning to its end.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
