//! Commits that the store has lost are noticed, whichever byte of its log is damaged, and no effect is repeated.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is broken by panicking"
)]

mod damage;
mod flips;
mod races;
mod support;
