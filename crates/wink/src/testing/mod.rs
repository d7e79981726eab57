//! For tests of what is built with Wink: a clock that is moved by hand, and contract suites that every
//! implementation of a trait must pass.

mod clock;
mod filesystem;

pub use clock::FakeClock;
pub use filesystem::{FilesystemSeed, filesystem_contract, filesystem_tree};
