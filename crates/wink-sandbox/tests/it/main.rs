//! The integration tests of this crate, as one program: each file is a module. `launch` and `sandboxes` beside this directory are
//! programs of their own.

mod full_disk;
mod killed;
mod processes;
mod rollback;
mod shell_execute;
