//! The commands as a person or a script types them, through the real program: in a pipe and on a terminal.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is broken by panicking"
)]

mod agents;
mod closed;
mod compatibility;
mod errors;
mod exits;
mod hostile;
mod inside;
mod json;
mod killed;
mod live;
mod looking;
mod lost;
mod names;
#[cfg(feature = "claude")]
mod natives;
mod numbers;
mod one_executor;
mod overrides;
mod page;
mod pipe;
mod replay;
mod replay_commands;
mod replay_files;
mod run;
mod secrets;
mod serve;
mod support;
mod terminal;
mod tidy;
mod undoing;
mod unread;
