//! For tests of what is built with Wink: contract suites that every implementation of a trait must pass.

mod filesystem;

pub use filesystem::{FilesystemSeed, filesystem_contract, filesystem_tree};
