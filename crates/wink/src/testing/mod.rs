//! For tests of what is built with Wink, all of it without a model, a network or a sleep.
//!
//! | | what for |
//! | --- | --- |
//! | [`TestContext`], [`call_handler`] | one handler alone, with a context and without an executor |
//! | [`Script`] | the calls that a model would make, through the real executor, and what is expected of each |
//! | [`Faults`] | a call that goes wrong at any step: an error, a panic, a cancellation, a hang, a caller who leaves |
//! | [`FakeClock`] | time that is moved by hand |
//! | [`FaultyStore`], [`ByteStore`] | a store that fails or waits where it is told to, and one that can be opened again as a new process would |
//! | `ModelDisk`, `FaultyDisk` | a disk in memory that loses what was not synced, and any disk that fails or dies where it is told to |
//! | [`steps`] | the places where a process may die, and a listener that is told of each |
//! | [`Dice`] | random choices that a seed repeats |
//! | [`PolicyBench`] | a policy alone: asked, told, rolled back |
//! | [`filesystem_contract`], [`store_contract`], [`policy_contract`] | the suites that every implementation of a trait must pass |
//!
//! The guide has a page about testing that shows how they are used.

mod byte_store;
mod clock;
mod context;
mod dice;
mod faults;
#[cfg(unix)]
mod faulty_disk;
mod faulty_store;
mod filesystem;
#[cfg(unix)]
#[doc(hidden)]
pub mod journal;
mod leave_out;
#[cfg(unix)]
mod model_disk;
mod policy;
mod scripted;
pub mod steps;
mod store;

pub use byte_store::ByteStore;
pub use clock::FakeClock;
pub use context::{TestContext, call_handler};
pub use dice::Dice;
pub use faults::{Fault, FaultOutcome, FaultPoint, Faults, HANG};
#[cfg(unix)]
pub use faulty_disk::FaultyDisk;
pub use faulty_store::{FaultyStore, Gate, StoreOp};
pub use filesystem::{FilesystemSeed, filesystem_contract, filesystem_tree};
pub use leave_out::leave_out;
#[cfg(unix)]
pub use model_disk::ModelDisk;
pub use policy::{BenchCall, PolicyBench, policy_contract};
pub use scripted::Script;
pub use store::store_contract;
