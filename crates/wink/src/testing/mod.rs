//! For tests of what is built with Wink: a clock that is moved by hand, a bench for policies, and contract suites
//! that every implementation of a trait must pass.

mod byte_store;
mod clock;
mod context;
mod faults;
mod faulty_store;
mod filesystem;
mod policy;
mod scripted;
mod store;

pub use byte_store::ByteStore;
pub use clock::FakeClock;
pub use context::{TestContext, call_handler};
pub use faults::{Fault, FaultOutcome, FaultPoint, Faults, HANG};
pub use faulty_store::{FaultyStore, Gate, StoreOp};
pub use filesystem::{FilesystemSeed, filesystem_contract, filesystem_tree};
pub use policy::{BenchCall, PolicyBench, policy_contract};
pub use scripted::Script;
pub use store::store_contract;
