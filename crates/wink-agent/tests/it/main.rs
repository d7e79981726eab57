//! The integration tests of this crate, as one program: each file is a module.

mod support;

mod answers;
mod commands;
mod guard;
mod limits;
mod loading;
mod model;
mod natives;
mod overrides;
mod own_file;
mod policies;
mod schema;
mod shown;
