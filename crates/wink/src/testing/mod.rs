//! For tests of what is built with Wink: a clock that is moved by hand, a bench for policies, and contract suites
//! that every implementation of a trait must pass.

mod clock;
mod filesystem;
mod policy;

pub use clock::FakeClock;
pub use filesystem::{FilesystemSeed, filesystem_contract, filesystem_tree};
pub use policy::{BenchCall, PolicyBench, policy_contract};
