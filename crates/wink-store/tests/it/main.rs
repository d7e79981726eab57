//! The integration tests of this crate, as one program: each file is a module. What has to be alone in a process is in `alone`.

mod contract;
mod failing_disk;
mod full_disk;
mod lost;
mod marks;
mod processes;
mod restart;
mod sections;
mod shared;
mod tail;
mod together;
mod undo;
mod workspace;
