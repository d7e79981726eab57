//! The journal: a plan is carried out all of it or not at all, on a disk that loses what was not synced and on a real one,
//! wherever it stops.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints exempt tests, not their helpers"
)]

mod behaviour;
mod crashes;
mod past;
