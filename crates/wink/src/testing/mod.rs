//! What users test their tools with: a clock that moves when told to, and contract suites that every implementation
//! of a trait must pass.

mod clock;
mod filesystem;

pub use clock::FakeClock;
pub use filesystem::{FilesystemSeed, filesystem_contract, filesystem_tree};
