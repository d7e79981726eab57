//! The integration tests of this crate, as one program: each file is a module.

mod support;

mod approvals;
mod hostile;
mod http;
mod idle;
mod one_executor;
mod pages;
mod stdio;
mod tasks;
