//! Limits: the injected clock, deadlines, budgets and heartbeats.
//!
//! Nothing in the crate reads a clock but through [`Clock`], so every timing rule can be tested without
//! waiting.

mod clock;

pub use clock::{Clock, SystemClock};

/// Tokens (stand-in until the limits room lands).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TokenUsage {}
