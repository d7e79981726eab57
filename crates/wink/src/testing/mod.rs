//! What users test their tools with: a clock that moves when told to, and contract suites that every implementation
//! of a trait must pass.

mod byte_store;
mod clock;
mod faulty_store;
mod filesystem;
mod store;

pub use byte_store::ByteStore;
pub use clock::FakeClock;
pub use filesystem::{FilesystemSeed, filesystem_contract, filesystem_tree};
pub use faulty_store::{FaultyStore, Gate, StoreOp};
pub use store::store_contract;
