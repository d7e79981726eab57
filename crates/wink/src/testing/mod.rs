//! What users test their tools with: a clock that moves when told to, and contract suites that every implementation
//! of a trait must pass.

mod clock;
mod context;
mod faults;
mod filesystem;
mod scripted;

pub use clock::FakeClock;
pub use context::{TestContext, call_handler};
pub use faults::{Fault, FaultOutcome, FaultPoint, Faults, HANG};
pub use filesystem::{FilesystemSeed, filesystem_contract, filesystem_tree};
pub use scripted::Script;
