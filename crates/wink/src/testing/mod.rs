//! What users test with: a clock that stands still until told, and contract suites that every implementation of a
//! trait must pass.

mod clock;
mod filesystem;

pub use clock::FakeClock;
pub use filesystem::{FilesystemSeed, filesystem_contract, filesystem_tree};
