//! Undoing past calls in a real workspace: files, slices and what the session counts go back together, or nothing does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is broken by panicking"
)]

mod crashes;
mod later;
mod looking_back;
mod model;
mod restores;
mod single;
mod world;
