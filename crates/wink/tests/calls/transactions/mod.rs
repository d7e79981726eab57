//! Transactions by hand, through the public interface: what is kept, what is taken back, and what is still said.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

mod commit;
mod drops;
mod model;
mod nested;
mod retention;
mod scoped;
mod snapshots;
mod tracker;
mod world;
