//! Limits: the injected clock, deadlines, budgets and heartbeats.
//!
//! Nothing in the crate reads a clock but through [`Clock`], so every timing rule can be tested without
//! waiting.

mod clock;

pub use clock::{Clock, SystemClock};
