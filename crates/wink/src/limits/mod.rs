//! Limits: the injected clock, deadlines, budgets and heartbeats.
//!
//! Nothing in the crate reads a clock but through [`Clock`], so every timing rule can be tested without
//! waiting. The limits only measure and refuse; stopping what exceeds them is the executor's business.

mod budget;
mod cancel;
mod clock;
mod deadline;
mod heartbeat;

pub use budget::{
    Budget, BudgetDimension, BudgetExceededError, BudgetLimits, BudgetTracker, InvalidBudget, TokenUsage,
};
pub use cancel::{CancelToken, Cancellation};
pub use clock::{Clock, SystemClock};
pub use deadline::{Deadline, DeadlineExceededError, InvalidDeadline};
pub use heartbeat::Heartbeat;
