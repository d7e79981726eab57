//! What users test their tools with.

mod clock;

pub use clock::FakeClock;
